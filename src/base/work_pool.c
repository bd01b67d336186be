/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/work_pool.h"

#include "base/error.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/thread.h"

#define MAX_PAUSING 3 /* times the maximum of threads: a thread that waits costs its stack alone */

struct work_pool {
        const char        *name; /* borrowed: static */
        size_t             max_threads;
        enum work_priority priority;

        struct mutex lock;    /* rank LOCK_LEAF; guards everything below */
        struct cond  ended;   /* a thread ends, or begins to wait */
        struct list  waiting; /* struct work, oldest first */
        size_t       n_threads;
        size_t       n_pausing;   /* pieces of work between begin_wait and end_wait */
        size_t       n_returning; /* those of them that wait for a place */
        struct list  leaving;     /* struct worker, owned: threads to join */
};

struct worker {
        struct work_pool *pool;
        struct thread     thread;
        struct list_node  node;
};

struct work_pool *work_pool_new(const char *name, size_t max_threads, enum work_priority priority) {
        struct work_pool *p = mem_zalloc(sizeof(*p));

        p->name = name;
        p->max_threads = max_threads;
        p->priority = priority;
        mutex_init(&p->lock, LOCK_LEAF);
        cond_init(&p->ended);
        list_init(&p->waiting);
        list_init(&p->leaving);
        return p;
}

static struct work *take_locked(struct work_pool *p) {
        struct list_node *first = list_is_empty(&p->waiting) ? NULL : list_first(&p->waiting);

        if (first == NULL)
                return NULL;
        list_remove(first);
        return CONTAINER_OF(first, struct work, node);
}

/* Those that run or wait for a place count; so the maximum is one of work that runs. */
static bool is_full_locked(const struct work_pool *p) {
        return p->n_threads >= p->max_threads + MIN(p->n_pausing, MAX_PAUSING * p->max_threads);
}

/* Runs the waiting work, without the lock. The work may be freed when its run() returns. `gives_way`: ends
 * when work that has paused needs the place; its thread goes on here afterwards. */
static void run_waiting_locked(struct work_pool *p, bool gives_way) {
        struct work *w;

        while (!(gives_way && p->n_returning > 0) && (w = take_locked(p)) != NULL) {
                mutex_unlock(&p->lock);
                w->run(w);
                mutex_lock(&p->lock);
        }
}

static void run_waiting(struct work_pool *p) {
        MUTEX_GUARD(&p->lock);

        run_waiting_locked(p, false);
}

static void worker_main(void *arg) {
        struct worker    *self = arg;
        struct work_pool *p = self->pool;

        if (p->priority == WORK_LOW_PRIORITY) {
                thread_lower_priority();
                thread_keep_heap_end();
        } else {
                thread_enter_background();
        }
        mutex_lock(&p->lock);
        run_waiting_locked(p, true);
        p->n_threads--;
        list_append(&p->leaving, &self->node);
        cond_broadcast(&p->ended);
        mutex_unlock(&p->lock);
}

static void forget(struct worker *worker) {
        list_remove(&worker->node);
        free(worker);
}

/* A thread that has announced its end may wait long for a CPU: this function does not wait for it. */
static void join_ended_locked(struct work_pool *p) {
        LIST_FOR_EACH(&p->leaving, node) {
                struct worker *worker = LIST_ENTRY(node, struct worker, node);

                if (thread_try_join(&worker->thread))
                        forget(worker);
        }
}

/* False when the pool has its maximum of threads, or the system starts no more. */
static bool start_worker_locked(struct work_pool *p) {
        struct worker *worker;
        struct error  *err;

        if (is_full_locked(p))
                return false;
        worker = mem_zalloc(sizeof(*worker));
        worker->pool = p;
        err = thread_start(&worker->thread, p->name, worker_main, worker);
        if (err != NULL) {
                error_free(err);
                free(worker);
                return false;
        }
        p->n_threads++;
        return true;
}

/* True when enough threads run to do all waiting work. */
static bool append_work(struct work_pool *p, struct work *w) {
        MUTEX_GUARD(&p->lock);

        join_ended_locked(p);
        list_append(&p->waiting, &w->node);
        return start_worker_locked(p) || p->n_threads > 0;
}

void work_pool_push(struct work_pool *p, struct work *w) {
        if (!append_work(p, w))
                run_waiting(p);
}

void work_pool_begin_wait(struct work_pool *p) {
        MUTEX_GUARD(&p->lock);

        p->n_pausing++;
        if (!list_is_empty(&p->waiting))
                (void)start_worker_locked(p);
        cond_broadcast(&p->ended);
}

/* It pauses until a place is free. Beyond the limit of those that pause it has kept its own. */
void work_pool_end_wait(struct work_pool *p) {
        MUTEX_GUARD(&p->lock);

        p->n_returning++;
        while (p->n_pausing <= MAX_PAUSING * p->max_threads && is_full_locked(p))
                cond_wait(&p->ended, &p->lock);
        p->n_returning--;
        p->n_pausing--;
        /* More threads than needed may have given way. */
        if (!list_is_empty(&p->waiting))
                (void)start_worker_locked(p);
}

bool work_pool_take_back(struct work_pool *p, struct work *w) {
        MUTEX_GUARD(&p->lock);

        if (!list_is_linked(&w->node))
                return false;
        list_remove(&w->node);
        return true;
}

static void wait_for_threads(struct work_pool *p) {
        MUTEX_GUARD(&p->lock);

        while (p->n_threads > 0)
                cond_wait(&p->ended, &p->lock);
}

void work_pool_free(struct work_pool *p) {
        if (p == NULL)
                return;
        wait_for_threads(p);
        while (!list_is_empty(&p->leaving)) {
                struct worker *worker = LIST_ENTRY(list_first(&p->leaving), struct worker, node);

                thread_join(&worker->thread);
                forget(worker);
        }
        cond_done(&p->ended);
        mutex_done(&p->lock);
        free(p);
}

/* True when all wanted threads have started. */
static bool append_all(struct work_pool *p, struct work **works, size_t n) {
        size_t n_wanted = MIN(n, p->max_threads), n_started = 0;
        MUTEX_GUARD(&p->lock);

        for (size_t i = 0; i < n; i++)
                list_append(&p->waiting, &works[i]->node);
        while (n_started < n_wanted && start_worker_locked(p))
                n_started++;
        return n_wanted > 0 && n_started == n_wanted;
}

void work_run_all(const char *name, struct work **works, size_t n, size_t max_threads) {
        struct work_pool *p = work_pool_new(name, max_threads, WORK_BACKGROUND);

        if (!append_all(p, works, n))
                run_waiting(p);
        work_pool_free(p);
}
