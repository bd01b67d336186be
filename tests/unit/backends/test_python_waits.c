/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls from model to model that nobody could ever serve. */
#include "suite.h"

#include "fake_server.h"
#include "kit/text.h"
#include "python/python_instance.h"
#include "python/waits.h"

#include <string.h>

enum { MODELS = 3, INSTANCES = 2, WAITS = 8 };

struct world {
        struct backend  backend;
        struct model    models[MODELS]; /* a, b, c */
        struct instance instances[MODELS][INSTANCES];
        struct wait     waits[WAITS];
        unsigned        n_waits;
        unsigned        n_asked;
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

static void on_ask(struct wait *wait) {
        assert_true(wait->is_asked);
        w.n_asked++;
}

/* A call of an execution of instance `i` of model `m`. */
static struct wait *call(unsigned m, unsigned i, uint32_t execution, const char *model) {
        struct wait *wait = &w.waits[w.n_waits++];

        *wait = (struct wait){ .instance = &w.instances[m][i],
                               .execution = execution,
                               .ask = on_ask };
        waits_add_model(wait, model);
        return wait;
}

/* That it waits for at once. */
static bool begin(unsigned m, unsigned i, const char *model) {
        return waits_change(call(m, i, 0, model), SHM_WAIT_INSTANCE, NULL);
}

static bool may(struct wait *wait) {
        return waits_change(wait, SHM_WAIT_MAYBE, NULL);
}

static bool awaits(struct wait *wait) {
        return waits_change(wait, SHM_WAIT_EXECUTION, NULL);
}

static void test_one_instance_cannot_call_itself(void **state) {
        (void)state;
        build(1);
        assert_false(begin(0, 0, "a"));
        assert_int_equal(w.waits[0].kind, SHM_WAIT_NONE);
        assert_true(begin(0, 0, "b"));
}

static void test_two_instances_can_once(void **state) {
        (void)state;
        build(2);
        assert_true(begin(0, 0, "a"));
        assert_false(begin(0, 1, "a"));
        waits_end(&w.waits[0]);
        assert_true(begin(0, 1, "a"));
}

static void test_a_circle_of_models(void **state) {
        (void)state;
        build(1);
        assert_true(begin(0, 0, "b"));
        assert_true(begin(1, 0, "c"));
        assert_false(begin(2, 0, "a"));
        waits_end(&w.waits[1]);
        assert_true(begin(2, 0, "a"));
}

static void test_other_backends_can_always_serve(void **state) {
        (void)state;
        build(1);
        assert_true(begin(0, 0, "onnx"));
        assert_true(begin(1, 0, "a")); /* a waits for what will end */
}

/* A call of an ensemble waits for the models of all steps. */
static void test_each_of_several_waits_must_end(void **state) {
        struct kit_text cycle = { 0 };
        struct wait    *ensemble, *last;

        (void)state;
        build(1);
        ensemble = call(0, 0, 0, "onnx");
        waits_add_model(ensemble, "b");
        waits_add_model(ensemble, "b"); /* twice is once */
        assert_int_equal(ensemble->n_models, 1);
        assert_true(waits_change(ensemble, SHM_WAIT_INSTANCE, NULL));
        assert_true(begin(1, 0, "c"));
        last = call(2, 0, 0, "a");
        assert_false(waits_change(last, SHM_WAIT_INSTANCE, &cycle));
        assert_string_equal(cycle.chars, " -> a -> b -> c");
        kit_text_done(&cycle);
}

static void test_two_instances_wait_for_a_third(void **state) {
        (void)state;
        build(2);
        assert_true(begin(0, 0, "b"));
        assert_true(begin(0, 1, "b"));
        assert_true(begin(1, 0, "a")); /* the other one may serve */
        assert_false(begin(1, 1, "a"));
        waits_end(&w.waits[1]);
        assert_true(begin(1, 1, "a"));
}

static void test_a_model_that_ends_is_forgotten(void **state) {
        struct wait *ensemble, *early;

        (void)state;
        build(1);
        ensemble = call(0, 0, 0, "b");
        waits_add_model(ensemble, "c");
        early = call(2, 0, 0, "b"); /* the call has not begun yet */
        assert_true(waits_change(ensemble, SHM_WAIT_INSTANCE, NULL));
        waits_forget_locked(&w.models[1]);
        assert_int_equal(ensemble->n_models, 1);
        assert_ptr_equal(ensemble->models[0], &w.models[2]);
        assert_int_equal(early->n_models, 0);
        waits_end(ensemble);
        waits_end(early);
        assert_null(w.instances[0][0].waits);
        assert_null(w.instances[2][0].waits);
}

/* ---- waits that may follow ------------------------------------------------------------------- */

/* A coroutine that awaits a call of its own model. */
static void test_what_is_awaited_later(void **state) {
        struct wait *wait;

        (void)state;
        build(1);
        wait = call(0, 0, 3, "a");
        assert_true(may(wait)); /* it may return before */
        assert_int_equal(w.n_asked, 1);
        assert_false(awaits(wait));
        assert_int_equal(w.n_asked, 1);
        assert_int_equal(w.backend.n_maybe, 0);
}

static void test_what_can_be_served_is_not_asked(void **state) {
        struct wait *wait;

        (void)state;
        build(2);
        wait = call(0, 0, 0, "a");
        assert_true(may(wait));
        assert_true(may(call(0, 0, 0, "b")));
        assert_true(may(call(1, 0, 0, "onnx")));
        assert_int_equal(w.n_asked, 0);
        assert_true(may(call(0, 1, 0, "a"))); /* both instances may wait */
        assert_int_equal(w.n_asked, 2);
        assert_true(wait->is_asked);
        assert_true(awaits(wait));
        assert_int_equal(w.n_asked, 2);
        assert_false(awaits(&w.waits[3]));
}

/* The first call of a circle is asked when the last one closes it, whatever that one is. */
static void test_a_circle_of_both_kinds(void **state) {
        struct wait *first;

        (void)state;
        build(1);
        first = call(0, 0, 0, "b");
        assert_true(may(first));
        assert_int_equal(w.n_asked, 0);
        assert_true(begin(1, 0, "a"));
        assert_int_equal(w.n_asked, 1);
        assert_false(awaits(first));
}

static void test_an_execution_returns(void **state) {
        struct wait *left, *other;

        (void)state;
        build(1);
        left = call(0, 0, 3, "a");
        other = call(0, 0, 4, "onnx");
        assert_true(may(left));
        assert_true(may(other));
        waits_end_execution(&w.instances[0][0], 3);
        assert_int_equal(left->kind, SHM_WAIT_NONE);
        assert_int_equal(other->kind, SHM_WAIT_MAYBE);
        assert_true(awaits(left)); /* too late: nothing waits */
        assert_int_equal(left->kind, SHM_WAIT_NONE);
        assert_true(begin(1, 0, "a"));
        waits_end(left);
        waits_leave(other);
        assert_int_equal(w.backend.n_maybe, 0);
}

/* Between two responses of a stream its reader waits for nothing. */
static void test_a_stream(void **state) {
        struct wait *wait;

        (void)state;
        build(1);
        wait = call(0, 0, 0, "b");
        wait->is_stream = true;
        assert_true(may(wait));
        assert_true(waits_change(wait, SHM_WAIT_INSTANCE, NULL));
        assert_false(begin(1, 0, "a"));
        assert_true(may(wait));
        assert_true(begin(1, 0, "a"));
        assert_true(wait->is_asked);
        assert_false(waits_change(wait, SHM_WAIT_INSTANCE, NULL));
}

/* ---- executions that overlap ------------------------------------------------------------------ */

static void test_as_many_executions_as_overlap(void **state) {
        (void)state;
        build(1);
        w.instances[0][0].is_concurrent = true;
        w.models[0].async_concurrency = 3;
        assert_true(awaits(call(0, 0, 0, "a")));
        assert_true(awaits(call(0, 0, 0, "a"))); /* of the same execution */
        assert_true(awaits(call(0, 0, 7, "a")));
        assert_int_equal(w.n_asked, 0);
        assert_false(awaits(call(0, 0, 8, "a")));
        assert_true(awaits(call(0, 0, 8, "b")));
        assert_false(begin(1, 0, "a")); /* two of its executions wait for a, the third for b */
}

static void test_a_stream_holds_all_executions(void **state) {
        struct wait *wait;

        (void)state;
        build(1);
        w.instances[0][0].is_concurrent = true;
        w.models[0].async_concurrency = 3;
        wait = call(0, 0, 0, "a");
        wait->is_stream = true;
        assert_true(may(wait));
        assert_int_equal(w.n_asked, 1); /* its reader may hold the event loop */
        assert_true(awaits(wait));
        assert_false(waits_change(wait, SHM_WAIT_INSTANCE, NULL));
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
                cmocka_unit_test(test_what_is_awaited_later),
                cmocka_unit_test(test_what_can_be_served_is_not_asked),
                cmocka_unit_test(test_a_circle_of_both_kinds),
                cmocka_unit_test(test_an_execution_returns),
                cmocka_unit_test(test_a_stream),
                cmocka_unit_test(test_as_many_executions_as_overlap),
                cmocka_unit_test(test_a_stream_holds_all_executions),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
