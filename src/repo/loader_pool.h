/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that load models: one job at a time each, in order of submission.
 *
 * Ownership.  A job belongs to its submitter; run() is its end as far as the pool goes.
 * Threads.  loader_pool_run_all() blocks the caller until all its jobs have run. Its threads give
 * way to those that serve (thread_give_way()).
 */
#pragma once

#include "base/list.h"

#include <stddef.h>

struct loader_job {
        void (*run)(struct loader_job *job);
        struct list_node node; /* in loader_crew.h */
};

/* Runs the jobs on at most n_threads threads and waits for them. */
void loader_pool_run_all(struct loader_job **jobs, size_t n_jobs, unsigned n_threads);
