/* SPDX-License-Identifier: BSD-3-Clause */
/* The configurations that a search may try, as a grid: an axis for each setting, a point for each combination.
 *
 *     instances   1  2  4                         instance_group count
 *     threads     1  2                            onnxruntime: intra_op_thread_count
 *     batching    off  any  4  16                 dynamic_batching, and its preferred batch size
 *     delay       0  100  500 us                  max_queue_delay_microseconds
 *     adaptive    flow  idle  off                 adaptive_batching
 *
 * Neighbours on an axis are alike, which the search relies on. An axis with the one value TUNE_KEEP leaves the
 * setting as the model has it. Points that mean the same configuration have one canonical form: without
 * batching, delay and adaptive are at 0; without a delay, adaptive is.
 *
 * Ownership.  Plain structs.
 */
#pragma once

#include "base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tune_axis_name {
        TUNE_INSTANCES,
        TUNE_THREADS,
        TUNE_BATCHING,
        TUNE_DELAY,
        TUNE_ADAPTIVE,
        TUNE_AXES,
};

enum tune_adaptive { TUNE_FLOW, TUNE_IDLE, TUNE_ADAPTIVE_OFF };

#define TUNE_MAX_VALUES 12
#define TUNE_KEEP UINT64_MAX
/* Of TUNE_BATCHING; other values are preferred sizes, and 0 is batching with any size. */
#define TUNE_NO_BATCHING (UINT64_MAX - 1)

struct tune_axis {
        uint64_t values[TUNE_MAX_VALUES];
        size_t   n;
};

struct tune_space {
        struct tune_axis axes[TUNE_AXES];
};

struct tune_point {
        uint8_t at[TUNE_AXES]; /* index of the value on each axis */
};

/* What a model permits. */
struct tune_limits {
        bool     has_instances; /* one instance group, whose count may change */
        uint64_t instances;     /* its present count */
        uint64_t max_instances;
        bool     has_threads;
        uint64_t threads; /* 0: the backend's default */
        uint64_t max_threads;
        bool     has_batching, may_disable_batching, is_batching;
        uint64_t max_batch, preferred; /* preferred: 0: any */
        uint64_t delay_us, max_delay_us;
        bool     has_adaptive; /* false: the server is of another kind, or the mode is fixed */
        enum tune_adaptive adaptive;
};

void tune_space_make(const struct tune_limits *l, struct tune_space *ret);
/* Number of canonical points. */
size_t tune_space_count(const struct tune_space *s);
/* All points, canonical or not, and the number of each: a point for each number below the size. */
size_t            tune_space_size(const struct tune_space *s);
size_t            tune_space_number(const struct tune_space *s, const struct tune_point *p);
struct tune_point tune_space_point(const struct tune_space *s, size_t number);

uint64_t tune_space_value(const struct tune_space *s, const struct tune_point *p,
                          enum tune_axis_name axis);
bool     tune_space_is_canonical(const struct tune_space *s, const struct tune_point *p);
void     tune_space_make_canonical(const struct tune_space *s, struct tune_point *p);
/* The point of the model's present settings. */
struct tune_point tune_space_present(const struct tune_space *s, const struct tune_limits *l);
/* "2 instances, 1 thread, batching 16, delay 500 us, flow" */
void tune_space_print(const struct tune_space *s, const struct tune_point *p, struct strbuf *out);
/* "flow", "idle", "off" */
const char *tune_adaptive_name(uint64_t value);
