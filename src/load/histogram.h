/* SPDX-License-Identifier: BSD-3-Clause */
/* A histogram of durations with a relative error below 1/128, in a fixed amount of memory.
 *
 * Values below 128 have a bucket each; above, each power of two is cut into 128 buckets of equal width. So
 * a percentile is exact to 0.8 % whatever the range, and histograms of several threads and windows are
 * merged by adding their buckets.
 *
 * Ownership.  A plain struct, all zero when empty.
 * Threads.  One owner at a time.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define HISTOGRAM_SUB_BITS 7
#define HISTOGRAM_SUB_BUCKETS (1U << HISTOGRAM_SUB_BITS)
/* The largest exact value: 2^42 ns are 73 minutes. Larger values are counted in the last bucket. */
#define HISTOGRAM_MAX_BITS 42
#define HISTOGRAM_BUCKETS ((HISTOGRAM_MAX_BITS - HISTOGRAM_SUB_BITS + 1) * HISTOGRAM_SUB_BUCKETS)

struct histogram {
        uint64_t n;
        uint64_t max;
        uint64_t min; /* 0 when empty */
        double   sum, sum_of_squares;
        uint32_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *h, uint64_t value);
void histogram_merge(struct histogram *h, const struct histogram *other);
/* The value that `percent` of all values do not exceed: the middle of its bucket, within [min, max]. 0 when
 * the histogram is empty. */
uint64_t histogram_percentile(const struct histogram *h, double percent);
double   histogram_mean(const struct histogram *h); /* 0 when empty */
double   histogram_deviation(const struct histogram *h);
