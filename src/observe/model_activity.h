/* SPDX-License-Identifier: BSD-3-Clause */
/* What a model has done, as one struct of numbers: for a reader that looks once a second at many models
 * and wants no text. The numbers are those of model_stats.h.
 *
 * Ownership.  The caller's struct.
 * Threads.  Any.
 */
#pragma once

#include <stdint.h>

struct model_stats;

enum { ACTIVITY_FAILURES = 4, ACTIVITY_PHASES = 5, ACTIVITY_BUCKETS = 22 };

struct model_activity {
        uint64_t success;                     /* cache hits included */
        uint64_t failures[ACTIVITY_FAILURES]; /* by enum failure_reason */
        uint64_t inferences, executions, executed_inferences;
        uint64_t cache_hits, cache_misses;
        uint64_t busy_ns; /* sum of the durations of all executions */
        uint64_t pending;
        uint64_t n_sequences; /* with and without a slot */
        /* Requests by phase and duration; bucket k: up to 10 us * 2^k; the last one: all longer ones. */
        uint64_t latency[ACTIVITY_PHASES][ACTIVITY_BUCKETS];
        uint64_t phase_ns[ACTIVITY_PHASES]; /* sums of the durations in the buckets */
};

void model_activity_read(struct model_stats *s, struct model_activity *ret);
