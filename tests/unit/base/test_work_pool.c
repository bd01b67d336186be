/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "base/lock.h"
#include "base/thread_failure.h"
#include "base/work_pool.h"

#include <pthread.h>

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
        pthread_t      ran_on;
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

        j->ran_on = pthread_self();
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
        work_pool_push(p, &j->work);
}

static struct work_pool *new_pool(size_t max_threads) {
        return work_pool_new("test", max_threads, WORK_BACKGROUND);
}

static void test_in_order(void **state) {
        struct work_pool *p = new_pool(1);
        struct record     r;
        struct job        jobs[N_JOBS];

        (void)state;
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

static void test_threads_are_bounded(void **state) {
        struct work_pool *p = new_pool(MAX_THREADS);
        struct record     r;
        struct job        jobs[N_JOBS];

        (void)state;
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

/* Work that ends before the next is pushed. */
static void test_one_after_the_other(void **state) {
        struct work_pool *p = new_pool(MAX_THREADS);
        struct record     r;
        struct job        jobs[N_JOBS];

        (void)state;
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

static void test_take_back(void **state) {
        struct work_pool *p = new_pool(1);
        struct record     r;
        struct job        jobs[3];

        (void)state;
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

static void test_without_work(void **state) {
        (void)state;
        work_pool_free(new_pool(MAX_THREADS));
        work_pool_free(NULL);
}

/* Work that does not end keeps its thread; the other thread does the rest. */
static void test_work_that_hangs(void **state) {
        struct work_pool *p = new_pool(2);
        struct record     r;
        struct job        jobs[N_JOBS];

        (void)state;
        record_init(&r);
        push(p, &jobs[0], &r, 0, true);
        wait_for_running(&r, 1);
        for (unsigned i = 1; i < N_JOBS; i++)
                push(p, &jobs[i], &r, i, false);
        wait_for_ended(&r, N_JOBS - 1);
        open_gate(&r);
        work_pool_free(p);
        assert_int_equal(r.n_ended, N_JOBS);
        record_done(&r);
}

/* The caller runs what no thread can be started for. */
static void test_without_threads(void **state) {
        static const size_t sizes[] = { 0, 4 };

        (void)state;
        for (size_t k = 0; k < ARRAY_LEN(sizes); k++) {
                struct work_pool *p = new_pool(sizes[k]);
                struct record     r;
                struct job        jobs[3];

                record_init(&r);
                thread_failure_after(1);
                for (unsigned i = 0; i < 3; i++) {
                        push(p, &jobs[i], &r, i, false);
                        assert_int_equal(r.n_ended, i + 1);
                        assert_true(pthread_equal(jobs[i].ran_on, pthread_self()));
                        assert_false(work_pool_take_back(p, &jobs[i].work));
                }
                thread_failure_after(0);
                work_pool_free(p);
                record_done(&r);
        }
}

/* ---- work_run_all() ---- */

static void run_all(struct record *r, struct job *jobs, size_t n, size_t max_threads) {
        struct work *works[N_JOBS];

        record_init(r);
        for (size_t i = 0; i < n; i++) {
                jobs[i] = (struct job){ .work.run = run, .record = r, .number = (unsigned)i };
                works[i] = &jobs[i].work;
        }
        work_run_all("test", works, n, max_threads);
        assert_int_equal(r->n_ended, n);
        record_done(r);
}

static void test_all_run(void **state) {
        static const struct {
                size_t   n, max_threads;
                unsigned n_started;
        } rows[] = {
                { 0, 4, 0 },      { 1, 4, 1 },    { 4, 4, 4 }, { N_JOBS, 1, 1 },
                { N_JOBS, 3, 3 }, { 5, 1024, 5 }, { 3, 0, 0 },
        };

        (void)state;
        for (size_t k = 0; k < ARRAY_LEN(rows); k++) {
                struct record r;
                struct job    jobs[N_JOBS];

                thread_failure_after(0);
                run_all(&r, jobs, rows[k].n, rows[k].max_threads);
                assert_int_equal(thread_failure_n_started(), rows[k].n_started);
                for (size_t i = 0; i < rows[k].n; i++)
                        assert_true(!pthread_equal(jobs[i].ran_on, pthread_self()) ==
                                    (rows[k].max_threads > 0));
                for (size_t i = 0; i < rows[k].n && rows[k].max_threads == 1; i++)
                        assert_int_equal(r.order[i], i);
        }
}

static void test_some_threads_start(void **state) {
        (void)state;
        for (unsigned fails_at = 1; fails_at <= 4; fails_at++) {
                struct record r;
                struct job    jobs[N_JOBS];

                thread_failure_after(fails_at);
                run_all(&r, jobs, N_JOBS, 4);
                assert_int_equal(thread_failure_n_started(), fails_at - 1);
        }
        thread_failure_after(0);
}

struct pause {
        struct work       work;
        struct work_pool *pool;
        struct record    *record;
};

static void run_pause(struct work *w) {
        struct pause *j = CONTAINER_OF(w, struct pause, work);

        work_pool_begin_wait(j->pool);
        wait_for_ended(j->record, 2);
        work_pool_end_wait(j->pool);
}

/* The only thread runs work that waits for work that is pushed later. */
static void test_a_pause_gives_the_place_away(void **state) {
        struct work_pool *p = new_pool(1);
        struct record     r;
        struct pause      first = { .work.run = run_pause, .pool = p, .record = &r };
        struct job        jobs[2];

        (void)state;
        record_init(&r);
        work_pool_push(p, &first.work);
        push(p, &jobs[0], &r, 0, false);
        push(p, &jobs[1], &r, 1, false);
        work_pool_free(p);
        assert_int_equal(r.n_ended, 2);
        assert_int_equal(r.max_running, 1);
        record_done(&r);
}

SUITE(work_pool) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_in_order),
                cmocka_unit_test(test_threads_are_bounded),
                cmocka_unit_test(test_one_after_the_other),
                cmocka_unit_test(test_take_back),
                cmocka_unit_test(test_without_work),
                cmocka_unit_test(test_work_that_hangs),
                cmocka_unit_test(test_a_pause_gives_the_place_away),
                cmocka_unit_test(test_without_threads),
                cmocka_unit_test(test_all_run),
                cmocka_unit_test(test_some_threads_start),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
