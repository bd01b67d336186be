/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "repo/loader_pool.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/compiler.h"
#include "repo/thread_failure.h"

#define MAX_JOBS 40

struct counted_job {
        struct loader_job job;
        atomic_uint       n_runs;
        unsigned          order; /* which it was, from 1 */
        pthread_t         ran_on;
};

static struct counted_job counted[MAX_JOBS];
static struct loader_job *jobs[MAX_JOBS];
static atomic_uint        n_begun;

static void run_counted(struct loader_job *job) {
        struct counted_job *c = CONTAINER_OF(job, struct counted_job, job);

        atomic_fetch_add(&c->n_runs, 1);
        c->order = atomic_fetch_add(&n_begun, 1) + 1;
        c->ran_on = pthread_self();
}

static void prepare(void (*run)(struct loader_job *job)) {
        atomic_store(&n_begun, 0);
        for (size_t i = 0; i < MAX_JOBS; i++) {
                atomic_store(&counted[i].n_runs, 0);
                counted[i].job.run = run;
                jobs[i] = &counted[i].job;
        }
}

static void assert_each_ran_once(size_t n_jobs) {
        for (size_t i = 0; i < MAX_JOBS; i++)
                assert_int_equal(atomic_load(&counted[i].n_runs), i < n_jobs ? 1 : 0);
}

static void test_all_jobs_run(void **state) {
        static const struct {
                size_t   n_jobs;
                unsigned n_threads, n_started;
        } rows[] = {
                { 0, 4, 0 },        { 1, 4, 1 },        { 4, 4, 4 },
                { MAX_JOBS, 1, 1 }, { MAX_JOBS, 3, 3 }, { 5, 1024, 5 },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                prepare(run_counted);
                thread_failure_after(0);
                loader_pool_run_all(jobs, rows[i].n_jobs, rows[i].n_threads);
                assert_each_ran_once(rows[i].n_jobs);
                assert_int_equal(thread_failure_n_started(), rows[i].n_started);
                for (size_t k = 0; k < rows[i].n_jobs; k++)
                        assert_false(pthread_equal(counted[k].ran_on, pthread_self()));
        }
}

static void test_one_thread_keeps_the_order(void **state) {
        (void)state;
        prepare(run_counted);
        loader_pool_run_all(jobs, MAX_JOBS, 1);
        for (size_t i = 0; i < MAX_JOBS; i++)
                assert_int_equal(counted[i].order, i + 1);
}

static pthread_barrier_t meeting;

/* Goes on when as many jobs run at the same time. */
static void run_together(struct loader_job *job) {
        run_counted(job);
        pthread_barrier_wait(&meeting);
}

static void test_threads_work_at_the_same_time(void **state) {
        (void)state;
        prepare(run_together);
        pthread_barrier_init(&meeting, NULL, 4);
        loader_pool_run_all(jobs, MAX_JOBS, 4);
        pthread_barrier_destroy(&meeting);
        assert_each_ran_once(MAX_JOBS);
}

static void test_no_thread_starts(void **state) {
        (void)state;
        prepare(run_counted);
        thread_failure_after(1);
        loader_pool_run_all(jobs, MAX_JOBS, 4);
        assert_int_equal(thread_failure_n_started(), 0);
        assert_each_ran_once(MAX_JOBS);
        for (size_t i = 0; i < MAX_JOBS; i++)
                assert_true(pthread_equal(counted[i].ran_on, pthread_self()));
}

static void test_some_threads_start(void **state) {
        (void)state;
        for (unsigned fails_at = 2; fails_at <= 4; fails_at++) {
                prepare(run_counted);
                thread_failure_after(fails_at);
                loader_pool_run_all(jobs, MAX_JOBS, 4);
                assert_int_equal(thread_failure_n_started(), fails_at - 1);
                assert_each_ran_once(MAX_JOBS);
        }
}

static void test_no_threads_wanted(void **state) {
        (void)state;
        prepare(run_counted);
        thread_failure_after(0);
        loader_pool_run_all(jobs, 3, 0);
        assert_each_ran_once(3);
        assert_int_equal(thread_failure_n_started(), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_all_jobs_run),
                cmocka_unit_test(test_one_thread_keeps_the_order),
                cmocka_unit_test(test_threads_work_at_the_same_time),
                cmocka_unit_test(test_no_thread_starts),
                cmocka_unit_test(test_some_threads_start),
                cmocka_unit_test(test_no_threads_wanted),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
