/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "base/lock.h"
#include "base/mem.h"
#include "net/loop.h"

/* More than there are threads, on any machine that this is likely to run on. */
#define N_JOBS 600

struct record {
        struct mutex lock;
        struct cond  changed;
        bool         is_open;
        size_t       n_running;
        size_t       n_ended;
        size_t       n_run, n_cancelled, n_elsewhere;
};

struct job {
        struct loop_work work;
        struct mail      begin;
        struct mail      cancel;
        struct loop     *loop;
        struct record   *record;
        bool             waits;
};

static void record_init(struct record *r) {
        *r = (struct record){ 0 };
        mutex_init(&r->lock, LOCK_LEAF);
        cond_init(&r->changed);
}

static void record_done(struct record *r) {
        cond_done(&r->changed);
        mutex_done(&r->lock);
}

static void wait_until(struct record *r, const size_t *what, size_t n) {
        MUTEX_GUARD(&r->lock);

        while (*what < n)
                cond_wait(&r->changed, &r->lock);
}

static void run(struct loop_work *w) {
        struct job    *j = CONTAINER_OF(w, struct job, work);
        struct record *r = j->record;
        MUTEX_GUARD(&r->lock);

        r->n_run++;
        r->n_running++;
        r->n_elsewhere += !loop_is_current(j->loop);
        cond_broadcast(&r->changed);
        while (j->waits && !r->is_open)
                cond_wait(&r->changed, &r->lock);
        r->n_running--;
}

static void done(struct loop_work *w) {
        struct job    *j = CONTAINER_OF(w, struct job, work);
        struct record *r = j->record;
        MUTEX_GUARD(&r->lock);

        assert_true(loop_is_current(j->loop));
        r->n_cancelled += w->is_cancelled;
        r->n_ended++;
        cond_broadcast(&r->changed);
}

static void begin(struct mail *m) {
        struct job *j = CONTAINER_OF(m, struct job, begin);

        loop_compute(j->loop, &j->work);
}

static void cancel(struct mail *m) {
        loop_compute_cancel(&CONTAINER_OF(m, struct job, cancel)->work);
}

static void start_of_kind(struct job *j, struct loop *l, struct record *r, bool waits,
                          bool is_short) {
        *j = (struct job){ .work = { .run = run, .done = done, .is_short = is_short },
                           .begin.deliver = begin,
                           .cancel.deliver = cancel,
                           .loop = l,
                           .record = r,
                           .waits = waits };
        mailbox_post(loop_mailbox(l), &j->begin);
}

static void start(struct job *j, struct loop *l, struct record *r, bool waits) {
        start_of_kind(j, l, r, waits, false);
}

/* Short work does not wait for longer work, however much of it there is. */
static void test_short_work_goes_by(void **state) {
        struct loop_group *g;
        struct record      r;
        struct job        *jobs = mem_zalloc(N_JOBS * sizeof(*jobs));
        struct job         brief, cancelled;

        (void)state;
        record_init(&r);
        assert_null(loop_group_new("test", 1, &g));
        for (size_t i = 0; i < N_JOBS; i++)
                start(&jobs[i], loop_group_get(g, 0), &r, true);
        wait_until(&r, &r.n_running, 1);
        start_of_kind(&brief, loop_group_get(g, 0), &r, false, true);
        wait_until(&r, &r.n_ended, 1);
        assert_false(brief.work.is_cancelled);
        start(&cancelled, loop_group_get(g, 0), &r, true);
        mailbox_post(loop_mailbox(cancelled.loop), &cancelled.cancel);
        wait_until(&r, &r.n_ended, 2);
        assert_true(cancelled.work.is_cancelled);

        mutex_lock(&r.lock);
        r.is_open = true;
        cond_broadcast(&r.changed);
        mutex_unlock(&r.lock);
        wait_until(&r, &r.n_ended, N_JOBS + 2);
        loop_group_free(g);
        assert_int_equal(r.n_run, N_JOBS + 1);
        record_done(&r);
        free(jobs);
}

static void test_runs_elsewhere_and_ends_here(void **state) {
        struct loop_group *g;
        struct record      r;
        struct job        *jobs = mem_zalloc(N_JOBS * sizeof(*jobs));

        (void)state;
        record_init(&r);
        assert_null(loop_group_new("test", 2, &g));
        for (size_t i = 0; i < N_JOBS; i++)
                start(&jobs[i], loop_group_get(g, i % 2), &r, false);
        wait_until(&r, &r.n_ended, N_JOBS);
        loop_group_free(g);
        assert_int_equal(r.n_run, N_JOBS);
        assert_int_equal(r.n_elsewhere, N_JOBS);
        assert_int_equal(r.n_cancelled, 0);
        record_done(&r);
        free(jobs);
}

/* The loop goes on while all threads are busy, and what still waits can be called off. */
static void test_cancel(void **state) {
        struct loop_group *g;
        struct record      r;
        struct job        *jobs = mem_zalloc(N_JOBS * sizeof(*jobs));
        struct job         last;

        (void)state;
        record_init(&r);
        assert_null(loop_group_new("test", 1, &g));
        for (size_t i = 0; i < N_JOBS; i++)
                start(&jobs[i], loop_group_get(g, 0), &r, true);
        wait_until(&r, &r.n_running, 1);
        start(&last, loop_group_get(g, 0), &r, true);
        mailbox_post(loop_mailbox(last.loop), &last.cancel);
        wait_until(&r, &r.n_ended, 1);
        assert_true(last.work.is_cancelled);
        mailbox_post(loop_mailbox(last.loop), &jobs[0].cancel); /* it runs: nothing changes */

        mutex_lock(&r.lock);
        assert_int_equal(r.n_ended, 1);
        r.is_open = true;
        cond_broadcast(&r.changed);
        mutex_unlock(&r.lock);
        wait_until(&r, &r.n_ended, N_JOBS + 1);
        loop_group_free(g);
        assert_int_equal(r.n_run, N_JOBS);
        assert_int_equal(r.n_cancelled, 1);
        record_done(&r);
        free(jobs);
}

SUITE(compute) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_runs_elsewhere_and_ends_here),
                cmocka_unit_test(test_cancel),
                cmocka_unit_test(test_short_work_goes_by),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
