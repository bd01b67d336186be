/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/job_thread.h"

#include "base/heap_end.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/placement.h"

#include <assert.h>
#include <stdlib.h>

struct job_thread {
        struct thread thread;
        struct mutex  lock;    /* rank LOCK_LEAF; guards everything below */
        struct cond   changed; /* a job came, or has ended */
        thread_fn     run;     /* NULL: nothing runs */
        void         *arg;
        bool          is_ending;
};

static void job_thread_main(void *arg) {
        struct job_thread *t = arg;

        mutex_lock(&t->lock);
        for (;;) {
                thread_fn run = t->run;
                void     *job = t->arg;

                if (run == NULL) {
                        if (t->is_ending)
                                break;
                        cond_wait(&t->changed, &t->lock);
                        continue;
                }
                mutex_unlock(&t->lock);
                run(job);
                heap_end_trim(); /* the end of a load, of a service or of an unload */
                mutex_lock(&t->lock);
                t->run = NULL;
                cond_broadcast(&t->changed);
        }
        mutex_unlock(&t->lock);
}

struct error *job_thread_new(const struct placement *p, const char *name, struct job_thread **ret) {
        struct job_thread *t = mem_zalloc(sizeof(*t));

        mutex_init(&t->lock, LOCK_LEAF);
        cond_init(&t->changed);
        TRY_OR(placement_start_thread(p, &t->thread, name, job_thread_main, t), job_thread_free(t));
        *ret = t;
        return NULL;
}

void job_thread_free(struct job_thread *t) {
        if (t == NULL)
                return;
        mutex_lock(&t->lock);
        t->is_ending = true;
        cond_broadcast(&t->changed);
        mutex_unlock(&t->lock);
        thread_join(&t->thread);
        cond_done(&t->changed);
        mutex_done(&t->lock);
        free(t);
}

void job_thread_run(struct job_thread *t, thread_fn run, void *arg) {
        MUTEX_GUARD(&t->lock);
        assert(t->run == NULL && !t->is_ending);
        t->run = run;
        t->arg = arg;
        cond_broadcast(&t->changed);
}

void job_thread_wait(struct job_thread *t) {
        MUTEX_GUARD(&t->lock);
        while (t->run != NULL)
                cond_wait(&t->changed, &t->lock);
}
