/* SPDX-License-Identifier: BSD-3-Clause */
/* Quantiles of a histogram of durations: of the requests between two readings of its counts.
 *
 * Bucket k holds the durations of up to 10 us * 2^k, as those of NESO_ServerModelActivity(). A quantile
 * lies in the right bucket, and there where it would be if its durations were spread evenly: so it is
 * exact to a factor of two, and mostly much better.
 *
 * Threads.  Pure functions.
 */
#pragma once

#include "triton/core/neso.h"

#include <stdint.h>

/* Requests of each bucket. */
struct latency_counts {
        uint64_t counts[NESO_LATENCY_BUCKETS];
        uint64_t n;
};

/* Sets what was counted from `before` (NULL: nothing) to `now`. A model that was loaded again counts from
 * zero: then `before` is ignored. */
void latency_between(const uint64_t *before, const uint64_t *now, struct latency_counts *ret);
/* Returns the mean of what was counted in ns, 0 when nothing was. `before_ns` and `now_ns` are the sums of
 * the durations; as above a sum that is smaller than before counts from zero. Exact. */
uint64_t latency_mean_ns(const struct latency_counts *c, uint64_t before_ns, uint64_t now_ns);
/* Returns the quantile `permille` / 1000 in microseconds, 0 when nothing was counted. What is in the last
 * bucket counts as 10.5 s. */
uint32_t latency_quantile_us(const struct latency_counts *c, unsigned permille);
