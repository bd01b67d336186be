/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/reaper.h"

#include "base/clock.h"
#include "base/heap_end.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/thread.h"

/* Memory is returned to the system once no model has ended for QUIET_NS, so that a series of
 * unloads costs this once. It is returned at most LATEST_NS after the first end, also when models
 * are replaced all the time. */
#define QUIET_NS (1 * NS_PER_S)
#define LATEST_NS (10 * NS_PER_S)

/* Threads besides the first one. So many models have to be stuck in their backends before the end of
 * another one waits. */
#define MAX_HELPERS 63

/* A thread that ends models while all other threads do. It lives as long as there are models. */
struct helper {
        struct thread    thread;
        struct list_node node; /* in `gone` */
        struct reaper   *reaper;
};

struct reaper {
        struct thread thread;
        struct mutex  lock; /* rank LOCK_LEAF; guards everything below */
        struct cond   pushed;
        struct cond   reaped;
        struct list   items;   /* struct reaper_item */
        size_t        n_items; /* in the list */
        bool          is_idle; /* the first thread takes the next item at once */
        uint32_t      n_helpers;
        struct list   gone; /* struct helper, to be joined */
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
        r->n_items--;
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

static void reap_all(struct reaper *r) {
        struct list_node *node;

        while ((node = list_first(&r->items)) != NULL)
                reap_one(r, node);
}

/* ---- further threads ------------------------------------------------------------------------- */

static void helper_main(void *arg) {
        struct helper *h = arg;
        struct reaper *r = h->reaper;

        thread_enter_background();
        mutex_lock(&r->lock);
        reap_all(r);
        r->n_helpers--;
        list_append(&r->gone, &h->node);
        cond_signal(&r->pushed); /* the first thread joins it, and returns memory */
        mutex_unlock(&r->lock);
}

/* The thread takes the lock first, so it ends, and may be joined, only after the caller has released
 * it. When there is no thread to be had, the model waits for one that has ended its own. */
static void start_helper_locked(struct reaper *r) {
        struct helper *h = try_zalloc(sizeof(*h));
        AUTO_ERROR     err = NULL;

        if (h == NULL)
                return;
        h->reaper = r;
        err = thread_start(&h->thread, "neso-reaper", helper_main, h);
        if (err == NULL)
                r->n_helpers++;
        else
                free(h);
}

/* Joins the threads that have ended. They hold no lock after they are in the list. */
static void join_gone(struct reaper *r) {
        struct list_node *node;

        while ((node = list_first(&r->gone)) != NULL) {
                struct helper *h = LIST_ENTRY(node, struct helper, node);

                list_remove(node);
                mutex_unlock(&r->lock);
                thread_join(&h->thread);
                free(h);
                mutex_lock(&r->lock);
        }
}

/* ---- the first thread ------------------------------------------------------------------------ */

/* Waits until there is something to do, or until it is time to return memory. Returns the memory
 * with the lock free. */
static void wait_for_more(struct reaper *r) {
        if (cond_wait_until(&r->pushed, &r->lock, r->due_ns))
                return;
        r->due_ns = r->latest_ns = CLOCK_NEVER;
        mutex_unlock(&r->lock);
        mem_trim();
        heap_end_trim();
        mutex_lock(&r->lock);
}

static void reaper_main(void *arg) {
        struct reaper *r = arg;

        thread_enter_background();
        mutex_lock(&r->lock);
        for (;;) {
                r->is_idle = false;
                reap_all(r);
                join_gone(r);
                r->is_idle = true;
                if (!list_is_empty(&r->items))
                        continue;
                if (r->is_ending && r->n_helpers == 0)
                        break;
                wait_for_more(r);
        }
        mutex_unlock(&r->lock);
}

struct error *reaper_new(struct reaper **ret) {
        struct reaper *r = mem_zalloc(sizeof(*r));

        mutex_init(&r->lock, LOCK_LEAF);
        cond_init(&r->pushed);
        cond_init(&r->reaped);
        list_init(&r->items);
        list_init(&r->gone);
        r->is_idle = true;
        r->due_ns = r->latest_ns = CLOCK_NEVER;
        TRY_OR(thread_start(&r->thread, "neso-reaper", reaper_main, r), reaper_free(r));
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

/* Each item that the first thread does not take at once gets a thread. */
void reaper_push(struct reaper *r, struct reaper_item *item) {
        MUTEX_GUARD(&r->lock);

        list_append(&r->items, &item->node);
        r->n_items++;
        cond_signal(&r->pushed);
        if (r->n_items > (r->is_idle ? 1 : 0) && r->n_helpers < MAX_HELPERS)
                start_helper_locked(r);
}

uint32_t reaper_wait(struct reaper *r, uint64_t until_ns) {
        MUTEX_GUARD(&r->lock);
        while (r->n_expected > 0)
                if (!cond_wait_until(&r->reaped, &r->lock, until_ns))
                        break;
        return r->n_expected;
}
