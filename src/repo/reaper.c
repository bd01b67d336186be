/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/reaper.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/thread.h"

/* Memory is returned to the system once no model has ended for QUIET_NS, so that a series of
 * unloads costs this once. It is returned at most LATEST_NS after the first end, also when models
 * are replaced all the time. */
#define QUIET_NS (1 * NS_PER_S)
#define LATEST_NS (10 * NS_PER_S)

struct reaper {
        struct thread thread;
        struct mutex  lock; /* rank LOCK_MAILBOX; guards everything below */
        struct cond   pushed;
        struct cond   reaped;
        struct list   items; /* struct reaper_item */
        uint32_t      n_expected;
        bool          is_ending;
        uint64_t      due_ns;    /* when memory is returned; CLOCK_NEVER: not at all */
        uint64_t      latest_ns; /* the latest time for that */
};

/* Called with the lock held. The lock is free while the model ends. */
static void reap_one(struct reaper *r, struct list_node *node) {
        struct reaper_item *item = LIST_ENTRY(node, struct reaper_item, node);
        uint64_t            now_ns;

        list_remove(node);
        mutex_unlock(&r->lock);
        item->reap(item);
        now_ns = clock_now_ns();
        mutex_lock(&r->lock);
        r->n_expected--;
        if (r->latest_ns == CLOCK_NEVER)
                r->latest_ns = now_ns + LATEST_NS;
        r->due_ns = MIN(now_ns + QUIET_NS, r->latest_ns);
        cond_broadcast(&r->reaped);
}

/* Waits until there is an item, or until it is time to return memory. Returns the memory with the
 * lock free. */
static void wait_for_more(struct reaper *r) {
        if (cond_wait_until(&r->pushed, &r->lock, r->due_ns))
                return;
        r->due_ns = r->latest_ns = CLOCK_NEVER;
        mutex_unlock(&r->lock);
        mem_trim();
        mutex_lock(&r->lock);
}

static void reaper_main(void *arg) {
        struct reaper *r = arg;

        thread_enter_background();
        mutex_lock(&r->lock);
        for (;;) {
                struct list_node *node = list_first(&r->items);

                if (node != NULL)
                        reap_one(r, node);
                else if (r->is_ending)
                        break;
                else
                        wait_for_more(r);
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
        r->due_ns = r->latest_ns = CLOCK_NEVER;
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
