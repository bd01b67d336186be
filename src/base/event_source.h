/* SPDX-License-Identifier: BSD-3-Clause */
/* Notifies subscribers that something has changed; they find out by themselves what has.
 *
 * Ownership.  A subscription belongs to its creator and must be freed before the event source is
 * done.
 * Threads.  Any. Callbacks run on the thread that publishes, with no lock held; those of one
 * subscription may run concurrently. When subscription_free() returns, no callback of that
 * subscription runs or will run. So a callback must not free its own subscription, and the caller
 * of subscription_free() must hold no lock that the callback takes.
 */
#pragma once

#include "base/list.h"
#include "base/lock.h"

#include <stdint.h>

typedef void (*event_fn)(void *userp);

struct subscription;

struct event_source {
        struct mutex lock;  /* rank LOCK_LEAF; guards the fields below and the subscriptions */
        struct cond  ended; /* signalled when callbacks of a subscription have ended */
        struct list  subscriptions; /* struct subscription, least recently notified first */
        uint64_t     n_changes;
};

void event_source_init(struct event_source *n);
void event_source_done(struct event_source *n);

/* Call it after the change, with no lock held: each callback that it calls sees the change. */
void event_source_publish(struct event_source *n);

/* `on_change` may be called before this function returns. */
struct subscription *event_source_subscribe(struct event_source *n, event_fn on_change,
                                            void *userp);
void                 subscription_free(struct subscription *w); /* NULL is fine */
