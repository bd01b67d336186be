/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/reaper.h"

#include "base/lock.h"
#include "base/mem.h"
#include "base/thread.h"

struct reaper {
        struct thread thread;
        struct mutex  lock; /* rank LOCK_MAILBOX; guards everything below */
        struct cond   pushed;
        struct cond   reaped;
        struct list   items; /* struct reaper_item */
        uint32_t      n_expected;
        bool          is_ending;
};

static void reaper_main(void *arg) {
        struct reaper *r = arg;

        thread_give_way();
        mutex_lock(&r->lock);
        for (;;) {
                struct list_node *node = list_first(&r->items);

                if (node == NULL) {
                        if (r->is_ending)
                                break;
                        cond_wait(&r->pushed, &r->lock);
                        continue;
                }
                list_remove(node);
                mutex_unlock(&r->lock);

                struct reaper_item *item = LIST_ENTRY(node, struct reaper_item, node);

                item->reap(item);
                mutex_lock(&r->lock);
                r->n_expected--;
                cond_broadcast(&r->reaped);
        }
        mutex_unlock(&r->lock);
}

struct error *reaper_new(struct reaper **ret) {
        struct reaper *r = mem_zalloc(sizeof(*r));
        struct error  *err;

        mutex_init(&r->lock, LOCK_MAILBOX);
        cond_init(&r->pushed);
        cond_init(&r->reaped);
        list_init(&r->items);
        err = thread_start(&r->thread, "neso-reaper", reaper_main, r);
        if (err != NULL) {
                reaper_free(r);
                return err;
        }
        *ret = r;
        return NULL;
}

void reaper_free(struct reaper *r) {
        if (r == NULL)
                return;
        mutex_lock(&r->lock);
        r->is_ending = true;
        cond_signal(&r->pushed);
        mutex_unlock(&r->lock);
        thread_join(&r->thread);
        cond_done(&r->pushed);
        cond_done(&r->reaped);
        mutex_done(&r->lock);
        free(r);
}

void reaper_expect(struct reaper *r) {
        MUTEX_GUARD(&r->lock);
        r->n_expected++;
}

void reaper_push(struct reaper *r, struct reaper_item *item) {
        MUTEX_GUARD(&r->lock);
        list_append(&r->items, &item->node);
        cond_signal(&r->pushed);
}

uint32_t reaper_wait(struct reaper *r, uint64_t until_ns) {
        MUTEX_GUARD(&r->lock);
        while (r->n_expected > 0)
                if (!cond_wait_until(&r->reaped, &r->lock, until_ns))
                        break;
        return r->n_expected;
}
