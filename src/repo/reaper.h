/* SPDX-License-Identifier: BSD-3-Clause */
/* Ends models that nobody uses any more, on a thread of its own.
 *
 * The last reference to a model may be dropped on the thread of one of its own instances, which
 * cannot wait for itself to end. So the last unref hands the model over to this thread. What models
 * leave with the allocator it gives back to the system a little later.
 *
 * Ownership.  reaper_push() takes the model (by its node); the reap function frees it.
 * Threads.  Any. Its lock (rank LOCK_MAILBOX) is never held while a model is freed.
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
/* Waits until everything pushed was reaped, then ends the thread. */
void reaper_free(struct reaper *r);

/* One more, one fewer model that will be pushed some day. */
void reaper_expect(struct reaper *r);
void reaper_push(struct reaper *r, struct reaper_item *item);
/* Until all expected items were reaped, or the time has come; returns how many are left. */
uint32_t reaper_wait(struct reaper *r, uint64_t until_ns);
