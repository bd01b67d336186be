/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of functions through which a scheduler runs batches on one instance.
 *
 * Ownership.  execute() takes the requests. The backend answers and releases each of them on any
 * thread, perhaps after execute() has returned. The array is borrowed during the call.
 * Threads.  execute() is never called concurrently for one executor.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct Inference__ModelRateLimiter;
struct executor;
struct job_thread;
struct placement;
struct request;

struct executor_ops {
        void (*execute)(struct executor *e, struct request **requests, uint32_t n);
        /* False when the backend reports that the instance cannot serve now. */
        bool (*is_ready)(struct executor *e);
};

struct executor {
        const struct executor_ops *ops;
        const char                *name;       /* borrowed: name of the instance */
        const char                *group_name; /* borrowed from the configuration; may be NULL */
        bool     may_inline; /* the backend allows execution on the submitting thread */
        bool     is_passive; /* never scheduled (a passive instance) */
        uint32_t group;      /* index of its instance group in the configuration */
        uint32_t index;      /* index in its group: the number in its name */
        uint32_t min_rows;   /* rows of the smallest batch that it takes; usually 1 */
        uint32_t max_rows;   /* rows of the largest: max_batch_size, or 1 without batching */
        bool     is_member;  /* takes batches from min_rows to max_rows only */
        const struct placement *place; /* borrowed: CPUs and memory node of its thread; NULL: any */
        /* It never runs on the submitting thread: a host policy binds it to `place`, or it is on a GPU. */
        bool is_bound;
        /* Borrowed: the thread that initialised it and executes it; NULL: the scheduler starts one. */
        struct job_thread *thread;
        int                device; /* device id; 0 for an instance on the CPU */
        int                gpu;    /* the GPU that it is on, else GPU_HOST: also of KIND_MODEL */
        /* The start of the running execution, if the scheduler has read the clock for it; else 0. */
        _Atomic uint64_t start_ns;
        /* The end of the last execution, as a backend with `may_inline` has reported it. */
        _Atomic uint64_t reported_end_ns;
        /* Borrowed: resources and priority of its group; NULL = none. */
        const struct Inference__ModelRateLimiter *limits;
};
