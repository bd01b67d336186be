/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/work_pool.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/compiler.h"
#include "base/lock.h"

#define N_JOBS 100
#define MAX_THREADS 3

/* What the jobs of one test have done. */
struct record {
        struct mutex lock;
        struct cond  changed;
        bool         is_open; /* jobs that wait at the gate may go on */
        size_t       n_running, max_running;
        size_t       n_ended;
        unsigned     order[N_JOBS]; /* numbers of the jobs, as they began */
        size_t       n_begun;
};

struct job {
        struct work    work;
        struct record *record;
        unsigned       number;
        bool           waits; /* until the gate is open */
};

static void record_init(struct record *r) {
        *r = (struct record){ 0 };
        mutex_init(&r->lock, LOCK_MAILBOX);
        cond_init(&r->changed);
}

static void record_done(struct record *r) {
        cond_done(&r->changed);
        mutex_done(&r->lock);
}

static void open_gate(struct record *r) {
        MUTEX_GUARD(&r->lock);

        r->is_open = true;
        cond_broadcast(&r->changed);
}

static void wait_for_running(struct record *r, size_t n) {
        MUTEX_GUARD(&r->lock);

        while (r->n_running < n)
                cond_wait(&r->changed, &r->lock);
}

static void wait_for_ended(struct record *r, size_t n) {
        MUTEX_GUARD(&r->lock);

        while (r->n_ended < n)
                cond_wait(&r->changed, &r->lock);
}

static void run(struct work *w) {
        struct job    *j = CONTAINER_OF(w, struct job, work);
        struct record *r = j->record;
        MUTEX_GUARD(&r->lock);

        r->order[r->n_begun++] = j->number;
        r->n_running++;
        r->max_running = MAX(r->max_running, r->n_running);
        cond_broadcast(&r->changed);
        while (j->waits && !r->is_open)
                cond_wait(&r->changed, &r->lock);
        r->n_running--;
        r->n_ended++;
        cond_broadcast(&r->changed);
}

static void push(struct work_pool *p, struct job *j, struct record *r, unsigned number,
                 bool waits) {
        *j = (struct job){ .work.run = run, .record = r, .number = number, .waits = waits };
        assert_true(work_pool_push(p, &j->work));
}

static void test_in_order(void **state UNUSED) {
        struct work_pool *p = work_pool_new("test", 1);
        struct record     r;
        struct job        jobs[N_JOBS];

        record_init(&r);
        for (unsigned i = 0; i < N_JOBS; i++)
                push(p, &jobs[i], &r, i, i == 0); /* the first holds the others up */
        open_gate(&r);
        work_pool_free(p);
        assert_int_equal(r.n_ended, N_JOBS);
        for (unsigned i = 0; i < N_JOBS; i++)
                assert_int_equal(r.order[i], i);
        record_done(&r);
}

static void test_threads_are_bounded(void **state UNUSED) {
        struct work_pool *p = work_pool_new("test", MAX_THREADS);
        struct record     r;
        struct job        jobs[N_JOBS];

        record_init(&r);
        for (unsigned i = 0; i < N_JOBS; i++)
                push(p, &jobs[i], &r, i, true);
        wait_for_running(&r, MAX_THREADS); /* all there may be do come */
        open_gate(&r);
        work_pool_free(p);
        assert_int_equal(r.n_ended, N_JOBS);
        assert_int_equal(r.max_running, MAX_THREADS);
        record_done(&r);
}

/* A thread that has done its work does the next. */
static void test_threads_stay(void **state UNUSED) {
        struct work_pool *p = work_pool_new("test", MAX_THREADS);
        struct record     r;
        struct job        jobs[N_JOBS];

        record_init(&r);
        for (unsigned i = 0; i < N_JOBS; i++) {
                push(p, &jobs[i], &r, i, false);
                wait_for_ended(&r, i + 1);
                assert_false(work_pool_take_back(p, &jobs[i].work));
        }
        work_pool_free(p);
        assert_int_equal(r.n_ended, N_JOBS);
        record_done(&r);
}

static void test_take_back(void **state UNUSED) {
        struct work_pool *p = work_pool_new("test", 1);
        struct record     r;
        struct job        jobs[3];

        record_init(&r);
        for (unsigned i = 0; i < 3; i++)
                push(p, &jobs[i], &r, i, i == 0);
        wait_for_running(&r, 1);
        assert_false(work_pool_take_back(p, &jobs[0].work)); /* it runs */
        assert_true(work_pool_take_back(p, &jobs[1].work));
        assert_false(work_pool_take_back(p, &jobs[1].work));
        open_gate(&r);
        work_pool_free(p);
        assert_int_equal(r.n_begun, 2);
        assert_int_equal(r.order[1], 2);
        record_done(&r);
}

static void test_without_work(void **state UNUSED) {
        work_pool_free(work_pool_new("test", MAX_THREADS));
        work_pool_free(NULL);
}

/* Where no thread can be had the work stays with who brought it. */
static void test_without_threads(void **state UNUSED) {
        struct work_pool *p = work_pool_new("test", 0);
        struct job        j = { .work.run = run };

        assert_false(work_pool_push(p, &j.work));
        assert_false(work_pool_take_back(p, &j.work));
        work_pool_free(p);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_in_order),
                cmocka_unit_test(test_threads_are_bounded),
                cmocka_unit_test(test_threads_stay),
                cmocka_unit_test(test_take_back),
                cmocka_unit_test(test_without_work),
                cmocka_unit_test(test_without_threads),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
