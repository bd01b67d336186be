/* SPDX-License-Identifier: BSD-3-Clause */
/* The vtable that runs a batch: how a scheduler reaches a backend without knowing it.
 *
 * Ownership.  execute() takes the requests: each is answered and released before or after it
 * returns, on any thread. The array is the caller's and valid during the call.
 * Threads.  execute() is never called concurrently for one executor.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct Inference__ModelRateLimiter;
struct executor;
struct job_thread;
struct placement;
struct request;

struct executor_ops {
        void (*execute)(struct executor *e, struct request **requests, uint32_t n);
        /* False when the backend says that the instance cannot serve now. */
        bool (*is_ready)(struct executor *e);
};

struct executor {
        const struct executor_ops *ops;
        const char                *name;       /* borrowed: the instance's name */
        const char                *group_name; /* borrowed: the configuration; may be NULL */
        bool                       may_inline; /* may run on the submitting thread */
        bool                       is_passive; /* never scheduled */
        uint32_t                   group;      /* of the model's configuration, from 0 */
        uint32_t                   index;      /* in its group: the number in its name */
        uint32_t                   min_rows;   /* of a batch that it takes; 1 */
        uint32_t                   max_rows;   /* max_batch_size, or 1 without batching */
        bool                       is_member;  /* takes batches from min_rows to max_rows only */
        const struct placement    *place;      /* borrowed: where its thread runs; NULL: anywhere */
        bool                       is_bound;   /* to that place: it runs nowhere else */
        struct job_thread         *thread;     /* borrowed: where it began; NULL: the scheduler's */
        int                        device;     /* where it runs; 0 for one of the CPU */
        /* Borrowed: its group's resources and priority; NULL = none. */
        const struct Inference__ModelRateLimiter *limits;
};
