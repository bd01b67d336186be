/* SPDX-License-Identifier: BSD-3-Clause */
#include "kit/job_pool.h"

#include "kit/stats.h"

#include <string.h>
#include <time.h>

#define STACK_BYTES (256 * 1024)
#define NS_PER_S UINT64_C(1000000000)

void kit_job_pool_init(struct kit_job_pool *p) {
        pthread_condattr_t attributes;

        memset(p, 0, sizeof(*p));
        (void)pthread_mutex_init(&p->lock, NULL);
        (void)pthread_condattr_init(&attributes);
        (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        (void)pthread_cond_init(&p->changed, &attributes);
        (void)pthread_condattr_destroy(&attributes);
}

void kit_job_pool_done(struct kit_job_pool *p) {
        (void)pthread_mutex_lock(&p->lock);
        p->is_ending = true;
        (void)pthread_cond_broadcast(&p->changed);
        (void)pthread_mutex_unlock(&p->lock);
        for (unsigned i = 0; i < p->n_threads; i++)
                (void)pthread_join(p->threads[i], NULL);
        (void)pthread_cond_destroy(&p->changed);
        (void)pthread_mutex_destroy(&p->lock);
}

static void append_locked(struct kit_job_list *list, struct kit_job *job) {
        job->next = NULL;
        if (list->first == NULL)
                list->first = job;
        else
                list->last->next = job;
        list->last = job;
}

static struct kit_job *take_first_locked(struct kit_job_list *list) {
        struct kit_job *job = list->first;

        list->first = job->next;
        return job;
}

/* Nearly all jobs are due after those that were put off before. */
static void put_off_locked(struct kit_job_pool *p, struct kit_job *job) {
        struct kit_job **at = &p->later.first;

        if (p->later.first == NULL || p->later.last->due_ns <= job->due_ns) {
                append_locked(&p->later, job);
                return;
        }
        while ((*at)->due_ns <= job->due_ns)
                at = &(*at)->next;
        job->next = *at;
        *at = job;
}

/* Returns NULL when the pool ends. */
static struct kit_job *take_locked(struct kit_job_pool *p) {
        while (!p->is_ending) {
                struct kit_job *later = p->later.first;

                if (later != NULL && later->due_ns <= kit_clock_ns())
                        return take_first_locked(&p->later);
                if (p->ready.first != NULL)
                        return take_first_locked(&p->ready);
                p->n_idle++;
                if (later != NULL) {
                        struct timespec due = { .tv_sec = (time_t)(later->due_ns / NS_PER_S),
                                                .tv_nsec = (long)(later->due_ns % NS_PER_S) };

                        (void)pthread_cond_timedwait(&p->changed, &p->lock, &due);
                } else {
                        (void)pthread_cond_wait(&p->changed, &p->lock);
                }
                p->n_idle--;
        }
        return NULL;
}

static void keep_locked(struct kit_job_pool *p, struct kit_job *job, enum kit_job_state state) {
        if (state == KIT_JOB_LATER) {
                put_off_locked(p, job);
                (void)pthread_cond_signal(&p->changed);
        } else if (state == KIT_JOB_AGAIN || job->was_woken) {
                job->was_woken = false;
                append_locked(&p->ready, job);
        } else {
                job->waits = true;
        }
}

static void *run_jobs(void *argument) {
        struct kit_job_pool *p = argument;
        struct kit_job      *job;

        (void)pthread_mutex_lock(&p->lock);
        while ((job = take_locked(p)) != NULL) {
                enum kit_job_state state;

                (void)pthread_mutex_unlock(&p->lock);
                state = job->run(job);
                (void)pthread_mutex_lock(&p->lock);
                if (state != KIT_JOB_ENDS)
                        keep_locked(p, job, state);
        }
        (void)pthread_mutex_unlock(&p->lock);
        return NULL;
}

static int add_thread_locked(struct kit_job_pool *p) {
        pthread_attr_t attributes;
        int            failure = pthread_attr_init(&attributes);

        if (failure != 0)
                return failure;
        failure = pthread_attr_setstacksize(&attributes, STACK_BYTES);
        if (failure == 0)
                failure = pthread_create(&p->threads[p->n_threads], &attributes, run_jobs, p);
        (void)pthread_attr_destroy(&attributes);
        p->n_threads += failure == 0;
        return failure;
}

/* Without a new thread, those that exist run the job. */
TRITONSERVER_Error *kit_job_start(struct kit_job_pool *p, struct kit_job *job) {
        int failure = 0;

        job->pool = p;
        job->waits = job->was_woken = false;
        (void)pthread_mutex_lock(&p->lock);
        if (p->n_idle == 0 && p->n_threads < KIT_JOB_THREADS)
                failure = add_thread_locked(p);
        if (p->n_threads > 0) {
                failure = 0;
                append_locked(&p->ready, job);
                (void)pthread_cond_signal(&p->changed);
        }
        (void)pthread_mutex_unlock(&p->lock);
        if (failure == 0)
                return NULL;
        return kit_error(TRITONSERVER_ERROR_UNAVAILABLE, "no thread to answer a request: %s",
                         strerror(failure));
}

void kit_job_wake(struct kit_job *job) {
        struct kit_job_pool *p = job->pool;

        (void)pthread_mutex_lock(&p->lock);
        if (job->waits) {
                job->waits = false;
                append_locked(&p->ready, job);
                (void)pthread_cond_signal(&p->changed);
        } else {
                job->was_woken = true;
        }
        (void)pthread_mutex_unlock(&p->lock);
}
