/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/event_source.h"

#include "base/mem.h"

#include <assert.h>

struct subscription {
        struct event_source *notice; /* borrowed: outlives its watches */
        event_fn             on_change;
        void                *userp; /* borrowed */
        struct list_node     node;
        uint64_t             n_told;    /* changes that it knows of */
        unsigned             n_running; /* its callbacks */
};

void event_source_init(struct event_source *n) {
        mutex_init(&n->lock, LOCK_MAILBOX);
        cond_init(&n->ended);
        list_init(&n->watches);
        n->n_changes = 0;
}

void event_source_done(struct event_source *n) {
        assert(list_is_empty(&n->watches));
        cond_done(&n->ended);
        mutex_done(&n->lock);
}

/* The first that has not heard of the change, as one that now has; NULL when all have. */
static struct subscription *take_locked(struct event_source *n, uint64_t change) {
        struct subscription *w;

        if (list_is_empty(&n->watches))
                return NULL;
        w = LIST_ENTRY(list_first(&n->watches), struct subscription, node);
        if (w->n_told >= change)
                return NULL;
        w->n_told = n->n_changes;
        list_remove(&w->node);
        list_append(&n->watches, &w->node);
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

        w->notice = n;
        w->on_change = on_change;
        w->userp = userp;
        mutex_lock(&n->lock);
        w->n_told = n->n_changes;
        list_append(&n->watches, &w->node);
        mutex_unlock(&n->lock);
        return w;
}

void subscription_free(struct subscription *w) {
        struct event_source *n;

        if (!w)
                return;
        n = w->notice;
        mutex_lock(&n->lock);
        list_remove(&w->node);
        while (w->n_running > 0)
                cond_wait(&n->ended, &n->lock);
        mutex_unlock(&n->lock);
        free(w);
}
