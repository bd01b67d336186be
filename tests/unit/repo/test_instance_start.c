/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether instances are made side by side, and what is left when one of them fails. */
#include "suite.h"

#include "backend/log_lines.h"
#include "base/clock.h"
#include "base/mem.h"
#include "infer/fake_model.h"
#include "infer/model.h"
#include "repo/instance_start.h"
#include "repo/model_instances.h"
#include "repo/reaper.h"
#include "repo/repo_place.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define ENVIRONMENT "TRITON_PARALLEL_INSTANCE_LOADING"

static const char *const one_folder[] = { "models" };

#define COUNT(n) "instance_group [{ count: " #n " }]"
#define MAX_THREADS 16

/* How many instances are being made, now and at most. */
static atomic_uint n_inside, n_most;

static void come_and_go(void *userp) {
        unsigned n = atomic_fetch_add(&n_inside, 1) + 1;
        unsigned most = atomic_load(&n_most);

        (void)userp;
        while (n > most && !atomic_compare_exchange_weak(&n_most, &most, n))
                ;
        atomic_fetch_sub(&n_inside, 1);
}

/* Goes on when that many have come. */
static void wait_for_others(void *n) {
        fake_host_await(FAKE_INSTANCE_INITIALIZE, *(const unsigned *)n);
}

static void begin(struct repo_place *p, const char *config) {
        unsetenv(ENVIRONMENT);
        n_inside = n_most = 0;
        repo_place_begin(p);
        repo_place_add(p, "m", config);
        repo_place_open(p, one_folder, 1);
}

static void end(struct repo_place *p) {
        repo_place_close(p);
        assert_int_equal(fake_host_count(FAKE_INSTANCE_FINALIZE),
                         fake_host_count(FAKE_INSTANCE_INITIALIZE));
        assert_int_equal(fake_host_count(FAKE_MODEL_FINALIZE),
                         fake_host_count(FAKE_MODEL_INITIALIZE));
        unsetenv(ENVIRONMENT);
        repo_place_end(p);
}

static void load(struct repo_place *p) {
        assert_ok(repo_load(p->repo, "m", NULL), "load");
        assert_true(repo_version_is_ready(p->repo, "m", 1));
}

/* An instance has no arm. */
static void load_in_vain(struct repo_place *p) {
        log_lines_begin();
        assert_error(repo_load(p->repo, "m", NULL), ERR_INVALID_ARG,
                     "load failed for model 'm': version 1 is at UNAVAILABLE state: Not found: no "
                     "arm;\n");
        log_lines_end();
}

/* Loads a model of n instances, in the environment as it is; how many are made at once at most. */
static unsigned load_and_count(struct repo_place *p, unsigned n) {
        fake_host_on_call(FAKE_INSTANCE_INITIALIZE, come_and_go, NULL);
        load(p);
        assert_int_equal(fake_host_count(FAKE_INSTANCE_INITIALIZE), n);
        return n_most;
}

/* None of them is made before all of them have begun: with one after the other that never ends. */
static void test_side_by_side(void **state) {
        static unsigned   four = 4;
        struct repo_place p;

        (void)state;
        begin(&p, "instance_group [{ count: 3 }, { name: 'mine' count: 1 }]");
        fake_host_allow_parallel();
        fake_host_on_call(FAKE_INSTANCE_INITIALIZE, wait_for_others, &four);
        load(&p);
        assert_int_equal(fake_host_count(FAKE_INSTANCE_INITIALIZE), 4);
        end(&p);
}

static void test_one_after_the_other(void **state) {
        struct repo_place p;

        (void)state;
        begin(&p, COUNT(8));
        assert_int_equal(load_and_count(&p, 8), 1);
        end(&p);
}

static void test_the_environment_allows_it(void **state) {
        static unsigned   two = 2;
        struct repo_place p;

        (void)state;
        begin(&p, COUNT(2));
        setenv(ENVIRONMENT, "1", 1);
        fake_host_on_call(FAKE_INSTANCE_INITIALIZE, wait_for_others, &two);
        load(&p);
        end(&p);
}

static void test_the_environment_forbids_it(void **state) {
        struct repo_place p;

        (void)state;
        begin(&p, COUNT(8));
        setenv(ENVIRONMENT, "0", 1);
        fake_host_allow_parallel();
        assert_int_equal(load_and_count(&p, 8), 1);
        end(&p);
}

/* What it says then is what the backend says. */
static void test_the_environment_says_something_else(void **state) {
        static unsigned   two = 2;
        struct repo_place p;

        (void)state;
        begin(&p, COUNT(2));
        setenv(ENVIRONMENT, "yes", 1);
        fake_host_allow_parallel();
        fake_host_on_call(FAKE_INSTANCE_INITIALIZE, wait_for_others, &two);
        log_lines_begin();
        load(&p);
        assert_int_equal(log_lines_count("W model 'm': " ENVIRONMENT
                                         " is 'yes', expected 0 or 1: it has no effect"),
                         1);
        log_lines_end();
        end(&p);
}

/* More instances than threads. */
static void test_threads_are_bounded(void **state) {
        struct repo_place p;

        (void)state;
        begin(&p, COUNT(40));
        fake_host_allow_parallel();
        assert_in_range(load_and_count(&p, 40), 1, MAX_THREADS);
        end(&p);
}

/* The others, which have begun, are finished and then finalised; the model is not loaded. */
static void test_one_that_fails(void **state) {
        static unsigned   three = 3;
        struct repo_place p;

        (void)state;
        begin(&p, COUNT(3));
        fake_host_allow_parallel();
        fake_host_on_call(FAKE_INSTANCE_INITIALIZE, wait_for_others, &three);
        fake_host_fail(FAKE_INSTANCE_INITIALIZE, "m_0_1", TRITONSERVER_ERROR_NOT_FOUND, "no arm");
        load_in_vain(&p);
        assert_int_equal(fake_host_count(FAKE_INSTANCE_INITIALIZE), 3);
        assert_int_equal(fake_host_count(FAKE_INSTANCE_FINALIZE), 3);
        assert_int_equal(fake_host_count(FAKE_MODEL_FINALIZE), 1);
        assert_false(repo_version_is_ready(p.repo, "m", 1));
        fake_host_fail(FAKE_INSTANCE_INITIALIZE, NULL, TRITONSERVER_ERROR_UNKNOWN, NULL);
        load(&p);
        end(&p);
}

/* What has not begun by then is not begun. */
static void test_one_after_the_other_that_fails(void **state) {
        struct repo_place p;

        (void)state;
        begin(&p, COUNT(3));
        fake_host_fail(FAKE_INSTANCE_INITIALIZE, "m_0_1", TRITONSERVER_ERROR_NOT_FOUND, "no arm");
        load_in_vain(&p);
        assert_int_equal(fake_host_count(FAKE_INSTANCE_INITIALIZE), 2);
        assert_int_equal(fake_host_count(FAKE_INSTANCE_FINALIZE), 2);
        end(&p);
}

static void set_count(struct repo_place *p, unsigned n) {
        AUTO_CHARS text = mem_printf("%s instance_group [{ count: %u }]", REPO_PLACE_CONFIG, n);

        temp_tree_write(&p->tree, "models/m/config.pbtxt", text);
}

/* The same for instances that are added to a model which serves. */
static void test_of_a_model_that_serves(void **state) {
        static unsigned   four = 4, seven = 7;
        struct repo_place p;

        (void)state;
        begin(&p, COUNT(1));
        fake_host_allow_parallel();
        load(&p);
        fake_host_on_call(FAKE_INSTANCE_INITIALIZE, wait_for_others, &four);
        set_count(&p, 4);
        load(&p);
        assert_int_equal(fake_host_count(FAKE_MODEL_INITIALIZE), 1);
        assert_int_equal(fake_host_count(FAKE_INSTANCE_INITIALIZE), 4);
        assert_int_equal(fake_host_count(FAKE_INSTANCE_FINALIZE), 0);

        fake_host_on_call(FAKE_INSTANCE_INITIALIZE, wait_for_others, &seven);
        fake_host_fail(FAKE_INSTANCE_INITIALIZE, "m_0_5", TRITONSERVER_ERROR_NOT_FOUND, "no arm");
        set_count(&p, 7);
        load_in_vain(&p);
        assert_int_equal(fake_host_count(FAKE_INSTANCE_INITIALIZE), 7);
        assert_int_equal(fake_host_count(FAKE_INSTANCE_FINALIZE), 3);
        assert_true(repo_version_is_ready(p.repo, "m", 1));
        end(&p);
}

SUITE(instance_start) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_side_by_side),
                cmocka_unit_test(test_one_after_the_other),
                cmocka_unit_test(test_the_environment_allows_it),
                cmocka_unit_test(test_the_environment_forbids_it),
                cmocka_unit_test(test_the_environment_says_something_else),
                cmocka_unit_test(test_threads_are_bounded),
                cmocka_unit_test(test_one_that_fails),
                cmocka_unit_test(test_one_after_the_other_that_fails),
                cmocka_unit_test(test_of_a_model_that_serves),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
