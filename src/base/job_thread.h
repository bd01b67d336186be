/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread that runs functions for others, one after the other: what must happen on one and the same
 * thread, though several callers bring it about.
 *
 * Ownership.  job_thread_free() waits for what runs, and ends the thread.
 * Threads.  Any may call, one at a time; none of these functions from within a job.
 */
#pragma once

#include "base/error.h"
#include "base/thread.h"

struct job_thread;
struct placement;

/* The thread runs there; NULL: where the caller is. */
struct error *job_thread_new(const struct placement *p, const char *name, struct job_thread **ret)
        NODISCARD;
void job_thread_free(struct job_thread *t); /* NULL is fine */

/* Has the thread begin with it. What ran before must have ended: job_thread_wait(). */
void job_thread_run(struct job_thread *t, thread_fn run, void *arg);
/* Until it has ended; returns at once when nothing runs. */
void job_thread_wait(struct job_thread *t);
