/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/job_thread.h"
#include "base/placement.h"

#include <pthread.h>
#include <semaphore.h>

struct job {
        pthread_t ran_on;
        unsigned  n_runs;
        sem_t     may_end;
        bool      waits;
};

static void run(void *arg) {
        struct job *job = arg;

        if (job->waits)
                while (sem_wait(&job->may_end) != 0)
                        continue;
        job->ran_on = pthread_self();
        job->n_runs++;
}

static struct job_thread *open_thread(void) {
        struct job_thread *t;
        struct error      *err = job_thread_new(NULL, "job", &t);

        assert_null(err);
        return t;
}

static void test_jobs_run_on_one_thread(void **state) {
        struct job_thread *t = open_thread();
        struct job         jobs[3] = { { .n_runs = 0 } };

        (void)state;
        job_thread_wait(t); /* nothing runs */
        for (unsigned i = 0; i < 3; i++) {
                job_thread_run(t, run, &jobs[i]);
                job_thread_wait(t);
                assert_int_equal(jobs[i].n_runs, 1);
                assert_true(pthread_equal(jobs[i].ran_on, jobs[0].ran_on));
        }
        assert_false(pthread_equal(jobs[0].ran_on, pthread_self()));
        job_thread_free(t);
        job_thread_free(NULL);
}

static void test_its_end_waits_for_the_job(void **state) {
        struct job_thread *t = open_thread();
        struct job         job = { .waits = true };

        (void)state;
        sem_init(&job.may_end, 0, 0);
        job_thread_run(t, run, &job);
        sem_post(&job.may_end);
        job_thread_free(t);
        assert_int_equal(job.n_runs, 1);
        sem_destroy(&job.may_end);
}

static void test_a_place_that_is_not_there(void **state) {
        struct job_thread *t = NULL;
        struct placement   place = { .has_cores = false };
        struct error      *err = placement_read_cores(&place, "8191");

        (void)state;
        assert_null(err);
        place.needs_each_core = true;
        err = job_thread_new(&place, "job", &t);
        assert_non_null(err);
        assert_null(t);
        error_free(err);
}

SUITE(job_thread) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_jobs_run_on_one_thread),
                cmocka_unit_test(test_its_end_waits_for_the_job),
                cmocka_unit_test(test_a_place_that_is_not_there),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
