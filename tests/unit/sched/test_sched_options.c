/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/clock.h"
#include "infer/executor.h"
#include "infer/fake_model.h"
#include "repo/scheduler_choice.h"
#include "sched/policy.h"
#include "sched/pull_engine.h"
#include "sched/sched_options.h"
#include "sched/sched_setup.h"

#include <stdio.h>

/* Reads the options of a model with these parameters (name, value, name, value, …, NULL). */
static struct error *read_options(const char *const *parameters, struct pull_options *ret) {
        char               config[512];
        int                len = snprintf(config, sizeof(config), "name: 'm' ");
        struct executor   *executors[] = { NULL, NULL };
        struct sched_setup setup = { .executors = executors, .n_executors = 2 };
        struct fake_model *fake;
        struct error      *err;

        for (; *parameters != NULL; parameters += 2)
                len += snprintf(config + len, sizeof(config) - (size_t)len,
                                "parameters { key: '%s' value { string_value: '%s' } } ",
                                parameters[0], parameters[1]);
        fake = fake_model_new(config);
        setup.model = &fake->model;
        err = sched_options_read(&setup, ret);
        if (err == NULL) {
                assert_ptr_equal(ret->model, &fake->model);
                assert_ptr_equal(ret->executors, executors);
                assert_int_equal(ret->n_executors, 2);
        }
        fake_model_free(fake);
        return err;
}

#define READ(ret, ...) read_options((const char *const[]){ __VA_ARGS__ }, ret)

static void test_defaults(void **state) {
        struct policy       policy = { 0 };
        struct pull_options o = { .policy = &policy };

        (void)state;
        assert_ok(READ(&o, NULL), "none");
        assert_int_equal(o.inline_execution, INLINE_AUTO);
        assert_int_equal(o.inline_limit_ns, 50 * NS_PER_US);
        assert_ptr_equal(o.policy, &policy); /* the caller sets it */
}

static void test_inline_execution(void **state) {
        static const struct {
                const char           *value;
                enum inline_execution expected;
        } rows[] = {
                { "auto", INLINE_AUTO },
                { "never", INLINE_NEVER },
                { "always", INLINE_ALWAYS },
        };
        static const char *const wrong[] = { "", "Auto", "ALWAYS", "always ", "1", "true" };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct pull_options o = { 0 };

                assert_ok(READ(&o, "inline_execution", rows[i].value, NULL), rows[i].value);
                assert_int_equal(o.inline_execution, rows[i].expected);
        }
        for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
                struct pull_options o = { 0 };
                char                expected[256];

                snprintf(expected, sizeof(expected),
                         "parameter 'inline_execution' of model 'm' must be 'auto', 'never' or "
                         "'always', got '%s'",
                         wrong[i]);
                assert_error(READ(&o, "inline_execution", wrong[i], NULL), ERR_INVALID_ARG,
                             expected);
        }
}

static void test_inline_limit(void **state) {
        static const char *const wrong[] = { "",    "0",   "-1", "1000001",
                                             "5us", "1e3", " 5", "18446744073709551616" };
        struct pull_options      o = { 0 };

        (void)state;
        assert_ok(READ(&o, "inline_limit_us", "1", NULL), "1");
        assert_int_equal(o.inline_limit_ns, NS_PER_US);
        assert_ok(READ(&o, "inline_limit_us", "1000000", "inline_execution", "never", NULL), "max");
        assert_int_equal(o.inline_limit_ns, NS_PER_S);
        assert_int_equal(o.inline_execution, INLINE_NEVER);
        for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
                char expected[256];

                snprintf(
                        expected, sizeof(expected),
                        "parameter 'inline_limit_us' of model 'm' must be a number of microseconds "
                        "from 1 to 1000000, got '%s'",
                        wrong[i]);
                assert_error(READ(&o, "inline_limit_us", wrong[i], NULL), ERR_INVALID_ARG,
                             expected);
        }
}

/* Returns the mode of a model with dynamic_batching and this parameter, if any, with the server's
 * option. */
static struct error *read_adaptive(const char *scheduling, const char *parameter,
                                   enum adaptive_mode server, enum adaptive_mode *ret) {
        char               config[256];
        struct sched_setup setup = { .adaptive = server };
        struct fake_model *fake;
        struct error      *err;

        snprintf(config, sizeof(config), "name: 'm' max_batch_size: 4 %s %s%s%s", scheduling,
                 parameter != NULL ? "parameters { key: 'adaptive_batching' value { string_value: '"
                                   : "",
                 parameter != NULL ? parameter : "", parameter != NULL ? "' } }" : "");
        fake = fake_model_new(config);
        setup.model = &fake->model;
        err = sched_options_read_adaptive(&setup, ADAPTIVE_OFF, ret);
        fake_model_free(fake);
        return err;
}

static void test_adaptive_batching(void **state) {
        static const struct {
                const char        *parameter;
                enum adaptive_mode server, expected;
        } rows[] = {
                { NULL, ADAPTIVE_UNSET, ADAPTIVE_OFF },   { NULL, ADAPTIVE_FLOW, ADAPTIVE_FLOW },
                { "off", ADAPTIVE_FLOW, ADAPTIVE_OFF },   { "idle", ADAPTIVE_UNSET, ADAPTIVE_IDLE },
                { "flow", ADAPTIVE_IDLE, ADAPTIVE_FLOW },
        };
        enum adaptive_mode mode = ADAPTIVE_UNSET;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                assert_ok(read_adaptive("dynamic_batching { }", rows[i].parameter, rows[i].server,
                                        &mode),
                          "mode");
                assert_int_equal(mode, rows[i].expected);
        }
        assert_error(read_adaptive("dynamic_batching { }", "on", ADAPTIVE_UNSET, &mode),
                     ERR_INVALID_ARG,
                     "parameter 'adaptive_batching' of model 'm' must be 'off', 'idle' or 'flow', "
                     "got 'on'");
        assert_error(read_adaptive("", "flow", ADAPTIVE_UNSET, &mode), ERR_INVALID_ARG,
                     "parameter 'adaptive_batching' of model 'm' needs dynamic_batching");
        assert_ok(read_adaptive("", "off", ADAPTIVE_UNSET, &mode), "off");
}

/* Each kind of scheduler reads the options, and a model with wrong options gets none. */
static void test_schedulers_refuse_wrong_options(void **state) {
        static const char *const kinds[] = { "", "dynamic_batching { }" };
        char                     config[256];

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
                struct sched_setup setup = { 0 };
                struct scheduler  *scheduler = NULL;

                snprintf(config, sizeof(config),
                         "name: 'm' max_batch_size: 4 %s parameters { key: 'inline_execution' "
                         "value { string_value: 'x' } }",
                         kinds[i]);

                struct fake_model *fake = fake_model_new(config);

                setup.model = &fake->model;
                assert_error(sched_new(&setup, &scheduler), ERR_INVALID_ARG,
                             "parameter 'inline_execution' of model 'm' must be 'auto', 'never' or "
                             "'always', got 'x'");
                assert_null(scheduler);
                fake_model_free(fake);
        }
}

static void test_delay(void **state) {
        uint64_t n = 77;

        (void)state;
        unsetenv("TRITONSERVER_DELAY_SCHEDULER");
        assert_ok(sched_options_read_delay(&n), "unset");
        assert_int_equal(n, 0);
        setenv("TRITONSERVER_DELAY_SCHEDULER", "12", 1);
        assert_ok(sched_options_read_delay(&n), "12");
        assert_int_equal(n, 12);
        setenv("TRITONSERVER_DELAY_SCHEDULER", "many", 1);
        assert_error(sched_options_read_delay(&n), ERR_INVALID_ARG,
                     "environment variable TRITONSERVER_DELAY_SCHEDULER must be a number of "
                     "requests, got 'many'");
        unsetenv("TRITONSERVER_DELAY_SCHEDULER");
}

SUITE(sched_options) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_delay),
                cmocka_unit_test(test_defaults),
                cmocka_unit_test(test_inline_execution),
                cmocka_unit_test(test_inline_limit),
                cmocka_unit_test(test_adaptive_batching),
                cmocka_unit_test(test_schedulers_refuse_wrong_options),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
