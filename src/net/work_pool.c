/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/work_pool.h"

#include "base/error.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/thread.h"

struct work_pool {
        const char *name; /* borrowed: static */
        size_t      max_threads;

        struct mutex  lock; /* rank LOCK_MAILBOX; guards what follows */
        struct cond   arrived;
        struct list   waiting; /* struct work, oldest first */
        size_t        n_waiting;
        size_t        n_idle; /* threads that wait for work */
        size_t        n_threads;
        bool          is_ending;
        struct thread threads[];
};

/* NULL when the pool ends and nothing is left to do. */
static struct work *take(struct work_pool *p) {
        struct work *w = NULL;
        MUTEX_GUARD(&p->lock);

        p->n_idle++;
        while (p->n_waiting == 0 && !p->is_ending)
                cond_wait(&p->arrived, &p->lock);
        p->n_idle--;
        if (p->n_waiting > 0) {
                w = LIST_ENTRY(list_first(&p->waiting), struct work, node);
                list_remove(&w->node);
                p->n_waiting--;
        }
        return w;
}

static void thread_main(void *arg) {
        struct work_pool *p = arg;
        struct work      *w;

        thread_step_back();
        while ((w = take(p)) != NULL)
                w->run(w);
}

struct work_pool *work_pool_new(const char *name, size_t max_threads) {
        struct work_pool *p = mem_zalloc(sizeof(*p) + max_threads * sizeof(p->threads[0]));

        p->name = name;
        p->max_threads = max_threads;
        mutex_init(&p->lock, LOCK_MAILBOX);
        cond_init(&p->arrived);
        list_init(&p->waiting);
        return p;
}

void work_pool_free(struct work_pool *p) {
        if (!p)
                return;
        mutex_lock(&p->lock);
        p->is_ending = true;
        cond_broadcast(&p->arrived);
        mutex_unlock(&p->lock);
        for (size_t i = 0; i < p->n_threads; i++)
                thread_join(&p->threads[i]);
        cond_done(&p->arrived);
        mutex_done(&p->lock);
        free(p);
}

/* One more thread, where those that wait for work are fewer than what waits for them. */
static void start_one_locked(struct work_pool *p) {
        struct error *err;

        if (p->n_idle > p->n_waiting || p->n_threads == p->max_threads)
                return;
        err = thread_start(&p->threads[p->n_threads], p->name, thread_main, p);
        if (!err)
                p->n_threads++;
        error_free(err);
}

bool work_pool_push(struct work_pool *p, struct work *w) {
        MUTEX_GUARD(&p->lock);

        start_one_locked(p);
        if (p->n_threads == 0)
                return false;
        list_append(&p->waiting, &w->node);
        p->n_waiting++;
        cond_signal(&p->arrived);
        return true;
}

bool work_pool_take_back(struct work_pool *p, struct work *w) {
        MUTEX_GUARD(&p->lock);

        if (!list_is_linked(&w->node))
                return false;
        list_remove(&w->node);
        p->n_waiting--;
        return true;
}
