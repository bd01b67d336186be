/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/event_source.h"

#include "base/mem.h"

#include <assert.h>

struct subscription {
        struct event_source *source; /* borrowed: outlives its subscriptions */
        event_fn             on_change;
        void                *userp; /* borrowed */
        struct list_node     node;
        uint64_t             n_notified; /* changes that it was notified of */
        unsigned             n_running;  /* its callbacks that run now */
};

void event_source_init(struct event_source *n) {
        mutex_init(&n->lock, LOCK_LEAF);
        cond_init(&n->ended);
        list_init(&n->subscriptions);
        n->n_changes = 0;
}

void event_source_done(struct event_source *n) {
        assert(list_is_empty(&n->subscriptions));
        cond_done(&n->ended);
        mutex_done(&n->lock);
}

/* Returns the first subscription that was not notified of the change, and marks it as notified;
 * NULL when all were. */
static struct subscription *take_locked(struct event_source *n, uint64_t change) {
        struct subscription *w;

        if (list_is_empty(&n->subscriptions))
                return NULL;
        w = LIST_ENTRY(list_first(&n->subscriptions), struct subscription, node);
        if (w->n_notified >= change)
                return NULL;
        w->n_notified = n->n_changes;
        list_remove(&w->node);
        list_append(&n->subscriptions, &w->node);
        return w;
}

void event_source_publish(struct event_source *n) {
        struct subscription *w;
        uint64_t             change;
        MUTEX_GUARD(&n->lock);

        change = ++n->n_changes;
        while ((w = take_locked(n, change)) != NULL) {
                w->n_running++;
                mutex_unlock(&n->lock);
                w->on_change(w->userp);
                mutex_lock(&n->lock);
                if (--w->n_running == 0)
                        cond_broadcast(&n->ended);
        }
}

struct subscription *event_source_subscribe(struct event_source *n, event_fn on_change,
                                            void *userp) {
        struct subscription *w = mem_zalloc(sizeof(*w));

        w->source = n;
        w->on_change = on_change;
        w->userp = userp;
        mutex_lock(&n->lock);
        w->n_notified = n->n_changes;
        list_append(&n->subscriptions, &w->node);
        mutex_unlock(&n->lock);
        return w;
}

void subscription_free(struct subscription *w) {
        struct event_source *n;

        if (w == NULL)
                return;
        n = w->source;
        mutex_lock(&n->lock);
        list_remove(&w->node);
        while (w->n_running > 0)
                cond_wait(&n->ended, &n->lock);
        mutex_unlock(&n->lock);
        free(w);
}
