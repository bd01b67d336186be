/* SPDX-License-Identifier: BSD-3-Clause */
/* A few threads for many jobs, each of which gives its thread back before it would wait: for decoupled
 * models, whose requests may wait long for their readers.
 *
 *     kit_job_pool_init() -> kit_job_start() any number of times -> kit_job_pool_done()
 *
 * A job's function is called again and again until it returns KIT_JOB_ENDS. A call makes part of the
 * work (KIT_JOB_SLICE responses, say) and says what the job waits for.
 *
 * Ownership.  A job belongs to its creator; it may free the job in the call that returns KIT_JOB_ENDS.
 * Threads.  Any. A job runs on one thread at a time.
 */
#pragma once

#include "kit/errors.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KIT_JOB_THREADS 8
#define KIT_JOB_SLICE 64

enum kit_job_state {
        KIT_JOB_ENDS,  /* the pool does not use the job any more */
        KIT_JOB_AGAIN, /* at once, after the other jobs that are ready */
        KIT_JOB_LATER, /* at due_ns, by kit_clock_ns() */
        KIT_JOB_WAITS, /* after kit_job_wake(), which may have been called already */
};

struct kit_job_pool;

struct kit_job {
        enum kit_job_state (*run)(struct kit_job *job);
        uint64_t             due_ns;
        struct kit_job_pool *pool;      /* borrowed */
        struct kit_job      *next;      /* guarded by the pool's lock */
        bool                 waits;     /* guarded by the pool's lock */
        bool                 was_woken; /* before it waited; guarded by the pool's lock */
};

struct kit_job_list {
        struct kit_job *first, *last;
};

struct kit_job_pool {
        pthread_mutex_t     lock; /* guards all below */
        pthread_cond_t      changed;
        struct kit_job_list ready;
        struct kit_job_list later; /* by due_ns */
        unsigned            n_threads, n_idle;
        bool                is_ending;
        pthread_t           threads[KIT_JOB_THREADS];
};

void kit_job_pool_init(struct kit_job_pool *p);
/* No job may be left. */
void kit_job_pool_done(struct kit_job_pool *p);

/* The caller has set job->run. An error: the job will not run. */
TRITONSERVER_Error *kit_job_start(struct kit_job_pool *p, struct kit_job *job);
/* Any thread, once for each KIT_JOB_WAITS; does not block. */
void kit_job_wake(struct kit_job *job);

#ifdef __cplusplus
}
#endif
