/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that load and unload models behind somebody who does not wait for them.
 *
 * A job that never ends keeps its thread and nothing else, as long as the crew may have more than
 * one. Threads come with jobs and go when there are none left.
 *
 * Ownership.  A job belongs to whoever made it; its run() is the last that is heard of it here.
 * Threads.  Any. The lock (rank LOCK_MAILBOX) is never held while a job runs.
 */
#pragma once

#include "repo/loader_pool.h"

struct loader_crew;

struct loader_crew *loader_crew_new(unsigned max_threads);
/* Waits for all jobs. NULL is fine. */
void loader_crew_free(struct loader_crew *crew);

/* When no thread can be started, the caller runs it. */
void loader_crew_push(struct loader_crew *crew, struct loader_job *job);
