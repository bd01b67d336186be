/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "repo/loader_crew.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "base/compiler.h"
#include "repo/thread_failure.h"

#define N_JOBS 40

struct counted_job {
        struct loader_job job;
        atomic_uint       n_runs;
        pthread_t         ran_on;
};

static struct counted_job counted[N_JOBS];
static atomic_uint        n_at_work, n_most;
static sem_t              begun, let_go;

static void run_counted(struct loader_job *job) {
        struct counted_job *c = CONTAINER_OF(job, struct counted_job, job);
        unsigned            now = atomic_fetch_add(&n_at_work, 1) + 1;
        unsigned            most = atomic_load(&n_most);

        while (now > most && !atomic_compare_exchange_weak(&n_most, &most, now))
                ;
        c->ran_on = pthread_self();
        atomic_fetch_sub(&n_at_work, 1);
        atomic_fetch_add(&c->n_runs, 1);
}

static void run_hanging(struct loader_job *job) {
        sem_post(&begun);
        sem_wait(&let_go);
        run_counted(job);
}

static int setup(void **state) {
        (void)state;
        atomic_store(&n_most, 0);
        for (size_t i = 0; i < N_JOBS; i++) {
                atomic_store(&counted[i].n_runs, 0);
                counted[i].job.run = run_counted;
        }
        thread_failure_after(0);
        assert_int_equal(sem_init(&begun, 0, 0), 0);
        assert_int_equal(sem_init(&let_go, 0, 0), 0);
        return 0;
}

static int teardown(void **state) {
        (void)state;
        sem_destroy(&begun);
        sem_destroy(&let_go);
        return 0;
}

static void push_all(struct loader_crew *crew) {
        for (size_t i = 0; i < N_JOBS; i++)
                loader_crew_push(crew, &counted[i].job);
}

static void assert_each_ran_once(void) {
        for (size_t i = 0; i < N_JOBS; i++)
                assert_int_equal(atomic_load(&counted[i].n_runs), 1);
}

static void test_all_jobs_run(void **state) {
        static const unsigned sizes[] = { 1, 3, 1024 };

        for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
                struct loader_crew *crew = loader_crew_new(sizes[i]);

                setup(state);
                push_all(crew);
                loader_crew_free(crew);
                assert_each_ran_once();
                assert_in_range(atomic_load(&n_most), 1, sizes[i]);
                teardown(state);
        }
        setup(state);
}

static void test_nothing_to_do(void **state) {
        (void)state;
        loader_crew_free(loader_crew_new(4));
        loader_crew_free(NULL);
        assert_int_equal(thread_failure_n_started(), 0);
}

/* Whoever pushes does not wait, and the others have the rest of the threads. */
static void test_one_that_hangs(void **state) {
        struct loader_crew *crew = loader_crew_new(2);

        (void)state;
        counted[0].job.run = run_hanging;
        counted[1].job.run = run_hanging;
        loader_crew_push(crew, &counted[0].job);
        sem_wait(&begun);
        for (size_t i = 2; i < N_JOBS; i++)
                loader_crew_push(crew, &counted[i].job);
        loader_crew_push(crew, &counted[1].job); /* in order: the last to begin */
        sem_wait(&begun);
        for (size_t i = 0; i < N_JOBS; i++)
                assert_int_equal(atomic_load(&counted[i].n_runs), i < 2 ? 0 : 1);
        sem_post(&let_go);
        sem_post(&let_go);
        loader_crew_free(crew);
        assert_each_ran_once();
}

/* The caller does what no thread can. */
static void test_no_more_threads(void **state) {
        struct loader_crew *crew = loader_crew_new(4);

        (void)state;
        thread_failure_after(1);
        push_all(crew);
        assert_each_ran_once();
        for (size_t i = 0; i < N_JOBS; i++)
                assert_true(pthread_equal(counted[i].ran_on, pthread_self()));
        loader_crew_free(crew);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_all_jobs_run, setup, teardown),
                cmocka_unit_test_setup_teardown(test_nothing_to_do, setup, teardown),
                cmocka_unit_test_setup_teardown(test_one_that_hangs, setup, teardown),
                cmocka_unit_test_setup_teardown(test_no_more_threads, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
