/* SPDX-License-Identifier: BSD-3-Clause */
/* Telling whoever wants to know that something has changed; what, they ask for themselves.
 *
 * Ownership.  A watch is its maker's and must be freed before the notice is done.
 * Threads.  Any. Callbacks run on the thread that announces, with no lock held; those of one watch
 * may run at the same time as each other. When subscription_free() returns, none of that watch is
 * running or will; so a callback must not free its own watch, and who frees one holds no lock that
 * the callback takes.
 */
#pragma once

#include "base/list.h"
#include "base/lock.h"

#include <stdint.h>

typedef void (*event_fn)(void *userp);

struct subscription;

struct event_source {
        struct mutex lock;    /* rank LOCK_MAILBOX; guards what follows and the watches */
        struct cond  ended;   /* callbacks of a watch */
        struct list  watches; /* struct subscription: those told the longest ago first */
        uint64_t     n_changes;
};

void event_source_init(struct event_source *n);
void event_source_done(struct event_source *n);

/* After the change, and with no lock held: each callback that this calls sees it. */
void event_source_publish(struct event_source *n);

/* `on_change` may be called before this returns. */
struct subscription *event_source_subscribe(struct event_source *n, event_fn on_change,
                                            void *userp);
void                 subscription_free(struct subscription *w); /* NULL is fine */
