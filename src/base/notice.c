/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/notice.h"

#include "base/mem.h"

#include <assert.h>

struct notice_watch {
        struct notice   *notice; /* borrowed: outlives its watches */
        notice_fn        on_change;
        void            *userp; /* borrowed */
        struct list_node node;
        uint64_t         n_told;    /* changes that it knows of */
        unsigned         n_running; /* its callbacks */
};

void notice_init(struct notice *n) {
        mutex_init(&n->lock, LOCK_MAILBOX);
        cond_init(&n->ended);
        list_init(&n->watches);
        n->n_changes = 0;
}

void notice_done(struct notice *n) {
        assert(list_is_empty(&n->watches));
        cond_done(&n->ended);
        mutex_done(&n->lock);
}

/* The first that has not heard of the change, as one that now has; NULL when all have. */
static struct notice_watch *take_locked(struct notice *n, uint64_t change) {
        struct notice_watch *w;

        if (list_is_empty(&n->watches))
                return NULL;
        w = LIST_ENTRY(list_first(&n->watches), struct notice_watch, node);
        if (w->n_told >= change)
                return NULL;
        w->n_told = n->n_changes;
        list_remove(&w->node);
        list_append(&n->watches, &w->node);
        return w;
}

void notice_announce(struct notice *n) {
        struct notice_watch *w;
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

struct notice_watch *notice_watch_new(struct notice *n, notice_fn on_change, void *userp) {
        struct notice_watch *w = mem_zalloc(sizeof(*w));

        w->notice = n;
        w->on_change = on_change;
        w->userp = userp;
        mutex_lock(&n->lock);
        w->n_told = n->n_changes;
        list_append(&n->watches, &w->node);
        mutex_unlock(&n->lock);
        return w;
}

void notice_watch_free(struct notice_watch *w) {
        struct notice *n;

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
