/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/loader_crew.h"

#include "base/lock.h"
#include "base/mem.h"
#include "base/thread.h"

struct loader_crew {
        unsigned     max_threads;
        struct mutex lock;  /* rank LOCK_MAILBOX; guards everything below */
        struct cond  ended; /* a thread has no work any more */
        struct list  jobs;  /* struct loader_job, the oldest first */
        unsigned     n_threads;
        struct list  leaving; /* struct member, owned: to be joined */
};

struct member {
        struct loader_crew *crew;
        struct thread       thread;
        struct list_node    node;
};

struct loader_crew *loader_crew_new(unsigned max_threads) {
        struct loader_crew *crew = mem_zalloc(sizeof(*crew));

        crew->max_threads = max_threads;
        mutex_init(&crew->lock, LOCK_MAILBOX);
        cond_init(&crew->ended);
        list_init(&crew->jobs);
        list_init(&crew->leaving);
        return crew;
}

static struct loader_job *take_locked(struct loader_crew *crew) {
        struct list_node *first = list_is_empty(&crew->jobs) ? NULL : list_first(&crew->jobs);

        if (first == NULL)
                return NULL;
        list_remove(first);
        return CONTAINER_OF(first, struct loader_job, node);
}

static void run_jobs(struct member *m) {
        struct loader_crew *crew = m->crew;
        struct loader_job  *job;

        mutex_lock(&crew->lock);
        while ((job = take_locked(crew)) != NULL) {
                mutex_unlock(&crew->lock);
                job->run(job);
                mutex_lock(&crew->lock);
        }
        crew->n_threads--;
        list_append(&crew->leaving, &m->node);
        cond_signal(&crew->ended);
        mutex_unlock(&crew->lock);
}

static void member_main(void *arg) {
        thread_give_way();
        run_jobs(arg);
}

/* One that has left, out of the list; NULL when there is none. */
static struct member *take_leaving(struct loader_crew *crew) {
        struct list_node *first;

        MUTEX_GUARD(&crew->lock);
        if (list_is_empty(&crew->leaving))
                return NULL;
        first = list_first(&crew->leaving);
        list_remove(first);
        return CONTAINER_OF(first, struct member, node);
}

static void join_leaving(struct loader_crew *crew) {
        struct member *m;

        while ((m = take_leaving(crew)) != NULL) {
                thread_join(&m->thread);
                free(m);
        }
}

void loader_crew_free(struct loader_crew *crew) {
        if (crew == NULL)
                return;
        mutex_lock(&crew->lock);
        while (crew->n_threads > 0)
                cond_wait(&crew->ended, &crew->lock);
        mutex_unlock(&crew->lock);
        join_leaving(crew);
        cond_done(&crew->ended);
        mutex_done(&crew->lock);
        free(crew);
}

/* True when one more thread is to be started for it. */
static bool append(struct loader_crew *crew, struct loader_job *job) {
        MUTEX_GUARD(&crew->lock);
        list_append(&crew->jobs, &job->node);
        if (crew->n_threads == crew->max_threads)
                return false;
        crew->n_threads++;
        return true;
}

void loader_crew_push(struct loader_crew *crew, struct loader_job *job) {
        struct member *m;
        struct error  *err;

        join_leaving(crew);
        if (!append(crew, job))
                return;
        m = mem_zalloc(sizeof(*m));
        m->crew = crew;
        err = thread_start(&m->thread, "neso-loader", member_main, m);
        if (err != NULL)
                run_jobs(m);
        error_free(err);
}
