/* SPDX-License-Identifier: BSD-3-Clause */
/* The four times of an execution from which the server computes its statistics.
 *
 *     exec_start | gather inputs | compute_start | the model | compute_end | scatter | exec_end
 *
 * All are nanoseconds of CLOCK_MONOTONIC. A time that was not reached stays 0 and is reported as
 * the one before it, so that the phase has no duration.
 *
 * Threads.  One user at a time.
 */
#pragma once

#include "kit/errors.h"

#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kit_stats {
        uint64_t exec_start;
        uint64_t compute_start;
        uint64_t compute_end;
        uint64_t exec_end;
};

static inline uint64_t kit_clock_ns(void) {
        struct timespec now;

        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Sets each time that was not reached to the one before it. */
static inline struct kit_stats kit_stats_filled(const struct kit_stats *stats) {
        struct kit_stats filled = *stats;

        if (filled.compute_start < filled.exec_start)
                filled.compute_start = filled.exec_start;
        if (filled.compute_end < filled.compute_start)
                filled.compute_end = filled.compute_start;
        if (filled.exec_end < filled.compute_end)
                filled.exec_end = filled.compute_end;
        return filled;
}

/* Reports one request, before its release. A failure to report is logged. */
void kit_stats_report(const struct kit_stats *stats, TRITONBACKEND_ModelInstance *instance,
                      TRITONBACKEND_Request *request, bool is_success);

/* Reports one execution of `rows` batch rows. A failure to report is logged. */
void kit_stats_report_batch(const struct kit_stats *stats, TRITONBACKEND_ModelInstance *instance,
                            int64_t rows);

#ifdef __cplusplus
}
#endif
