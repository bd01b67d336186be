/* SPDX-License-Identifier: BSD-3-Clause */
/* The reaper: ends models without references, on threads of its own.
 *
 * The last reference to a model may be dropped on the thread of one of its own instances, and that
 * thread cannot wait for itself to end. The last unref therefore passes the model to the reaper.
 * Models end in parallel, since a backend's Finalize function may take long, or never return: while
 * its thread ends a model, each further model gets another one, up to a limit. A
 * little later the reaper returns the free memory of the allocator to the system.
 *
 * Ownership.  reaper_push() takes the model (by its node). The reap function frees it.
 * Threads.  Any. The lock (rank LOCK_LEAF) is never held while a model is freed.
 */
#pragma once

#include "base/error.h"
#include "base/list.h"

#include <stdint.h>

struct reaper;

struct reaper_item {
        struct list_node node;
        void (*reap)(struct reaper_item *item);
};

struct error *reaper_new(struct reaper **ret) NODISCARD;
/* Waits until all pushed items were reaped, then ends the thread. */
void reaper_free(struct reaper *r);

/* reaper_expect() announces a model that will be pushed at some time. reaper_push() pushes it. */
void reaper_expect(struct reaper *r);
void reaper_push(struct reaper *r, struct reaper_item *item);
/* Waits until all announced items were reaped, or until that time. Returns how many are left. */
uint32_t reaper_wait(struct reaper *r, uint64_t until_ns);
