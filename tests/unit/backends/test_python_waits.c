/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls from model to model that nobody could ever serve. */
#include "fake_server.h"
#include "kit/text.h"
#include "python/waits.h"
#include "suite.h"

#include <string.h>

enum { MODELS = 3, INSTANCES = 2 };

struct world {
        struct backend  backend;
        struct model    models[MODELS]; /* a, b, c */
        struct instance instances[MODELS][INSTANCES];
};

static struct world w;

/* Each model with so many instances. */
static void build(unsigned n_instances) {
        static const char *const names[MODELS] = { "a", "b", "c" };

        memset(&w, 0, sizeof(w));
        (void)pthread_mutex_init(&w.backend.lock, NULL);
        for (unsigned m = 0; m < MODELS; m++) {
                w.models[m].kit.name = names[m];
                w.models[m].backend = &w.backend;
                w.models[m].next = w.backend.models;
                w.backend.models = &w.models[m];
                for (unsigned i = 0; i < n_instances; i++) {
                        w.instances[m][i].model = &w.models[m];
                        w.instances[m][i].next = w.models[m].instances;
                        w.models[m].instances = &w.instances[m][i];
                }
        }
}

static void test_one_instance_cannot_call_itself(void **state) {
        (void)state;
        build(1);
        assert_false(waits_begin(&w.instances[0][0], "a", NULL));
        assert_int_equal(w.instances[0][0].n_waits_for, 0);
        assert_true(waits_begin(&w.instances[0][0], "b", NULL));
}

static void test_two_instances_can_once(void **state) {
        (void)state;
        build(2);
        assert_true(waits_begin(&w.instances[0][0], "a", NULL));
        assert_false(waits_begin(&w.instances[0][1], "a", NULL));
        waits_end(&w.instances[0][0]);
        assert_true(waits_begin(&w.instances[0][1], "a", NULL));
}

static void test_a_circle_of_models(void **state) {
        (void)state;
        build(1);
        assert_true(waits_begin(&w.instances[0][0], "b", NULL));
        assert_true(waits_begin(&w.instances[1][0], "c", NULL));
        assert_false(waits_begin(&w.instances[2][0], "a", NULL));
        waits_end(&w.instances[1][0]);
        assert_true(waits_begin(&w.instances[2][0], "a", NULL));
}

static void test_other_backends_can_always_serve(void **state) {
        (void)state;
        build(1);
        assert_true(waits_begin(&w.instances[0][0], "onnx", NULL));
        assert_true(waits_begin(&w.instances[1][0], "a", NULL)); /* a waits for what will end */
}

/* A call of an ensemble waits for the models of all steps. */
static void test_each_of_several_waits_must_end(void **state) {
        struct kit_text cycle = { 0 };

        (void)state;
        build(1);
        assert_true(waits_begin(&w.instances[0][0], "onnx", NULL));
        assert_true(waits_begin(&w.instances[0][0], "b", NULL));
        assert_true(waits_begin(&w.instances[0][0], "b", NULL)); /* twice is once */
        assert_int_equal(w.instances[0][0].n_waits_for, 1);
        assert_true(waits_begin(&w.instances[1][0], "c", NULL));
        assert_false(waits_begin(&w.instances[2][0], "a", &cycle));
        assert_string_equal(cycle.chars, " -> a -> b -> c");
        kit_text_done(&cycle);
}

static void test_two_instances_wait_for_a_third(void **state) {
        (void)state;
        build(2);
        assert_true(waits_begin(&w.instances[0][0], "b", NULL));
        assert_true(waits_begin(&w.instances[0][1], "b", NULL));
        assert_true(waits_begin(&w.instances[1][0], "a", NULL)); /* the other one may serve */
        assert_false(waits_begin(&w.instances[1][1], "a", NULL));
        waits_end(&w.instances[0][1]);
        assert_true(waits_begin(&w.instances[1][1], "a", NULL));
}

static void test_a_model_that_ends_is_forgotten(void **state) {
        (void)state;
        build(1);
        assert_true(waits_begin(&w.instances[0][0], "b", NULL));
        assert_true(waits_begin(&w.instances[0][0], "c", NULL));
        waits_forget_locked(&w.models[1]);
        assert_int_equal(w.instances[0][0].n_waits_for, 1);
        assert_ptr_equal(w.instances[0][0].waits_for[0], &w.models[2]);
}

SUITE(python_waits) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_one_instance_cannot_call_itself),
                cmocka_unit_test(test_two_instances_can_once),
                cmocka_unit_test(test_a_circle_of_models),
                cmocka_unit_test(test_other_backends_can_always_serve),
                cmocka_unit_test(test_each_of_several_waits_must_end),
                cmocka_unit_test(test_two_instances_wait_for_a_third),
                cmocka_unit_test(test_a_model_that_ends_is_forgotten),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
