/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "base/thread.h"
#include "trace/trace_settings.h"
#include "triton/core/tritonserver.h"

#include <stdio.h>
#include <string.h>

enum { STAMPS = TRITONSERVER_TRACE_LEVEL_TIMESTAMPS };

static void begin(struct trace_settings *s, uint32_t level, uint32_t rate, int32_t count) {
        struct trace_config c;

        trace_config_init(&c);
        c.file = "f";
        c.values = (struct trace_values){ level, rate, count, 0 };
        assert_null(trace_settings_init(s, &c));
}

/* Sampled or not; the source is let go. */
static bool samples(struct trace_settings *s, const char *model, enum trace_choice choice) {
        struct trace_source *source = trace_settings_sample(s, model, choice);

        trace_source_unref(source);
        return source != NULL;
}

static void change(struct trace_settings *s, const char *model, const struct trace_change *c) {
        struct error *err = trace_settings_change(s, model, c);

        if (err != NULL)
                fail_msg("%s", err->message);
}

static const char *rate_of(struct trace_settings *s, const char *model, struct arena *arena) {
        struct trace_report_row rows[TRACE_REPORT_MAX_ROWS];

        assert_int_equal(trace_settings_report(s, model, arena, rows), 6);
        assert_string_equal(rows[1].key, "trace_rate");
        return rows[1].values[0];
}

/* Each row changes the rate of somebody; then what all of them have. */
static void test_inheritance(void **state) {
        static const struct {
                const char       *model; /* NULL = global */
                enum trace_action actions;
                uint32_t          rate;
                const char       *global, *a, *b;
        } rows[] = {
                { NULL, TRACE_KEEP, 0, "1000", "1000", "1000" },
                { "a", TRACE_SET, 3, "1000", "3", "1000" },
                { NULL, TRACE_SET, 7, "7", "3", "7" },
                { "b", TRACE_SET, 5, "7", "3", "5" },
                { NULL, TRACE_SET, 8, "8", "3", "5" },
                { "a", TRACE_KEEP, 0, "8", "3", "5" },
                { "a", TRACE_CLEAR, 0, "8", "8", "5" },
                { NULL, TRACE_CLEAR, 0, "1000", "1000", "5" },
                { "b", TRACE_CLEAR, 0, "1000", "1000", "1000" },
                { "b", TRACE_CLEAR, 0, "1000", "1000", "1000" },
        };
        struct trace_settings s;
        struct arena          arena;

        (void)state;
        begin(&s, 0, 1000, -1);
        arena_init(&arena, NULL, 0, 0);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct trace_change c = { .values = { .rate = rows[i].rate } };

                c.actions[TRACE_SETTING_RATE] = rows[i].actions;
                change(&s, rows[i].model, &c);
                assert_string_equal(rate_of(&s, NULL, &arena), rows[i].global);
                assert_string_equal(rate_of(&s, "a", &arena), rows[i].a);
                assert_string_equal(rate_of(&s, "b", &arena), rows[i].b);
        }
        assert_int_equal(map_size(&s.models), 0);
        arena_done(&arena);
        trace_settings_done(&s);
}

static void test_every_third(void **state) {
        struct trace_settings s;

        (void)state;
        begin(&s, STAMPS, 3, -1);
        for (int i = 1; i <= 9; i++)
                assert_int_equal(samples(&s, i % 2 ? "a" : "b", TRACE_BY_RATE), i % 3 == 0);
        assert_true(samples(&s, "a", TRACE_ALWAYS));
        assert_false(samples(&s, "a", TRACE_NEVER));
        assert_false(samples(&s, "a", TRACE_BY_RATE));
        assert_false(samples(&s, "a", TRACE_BY_RATE));
        assert_true(samples(&s, "a", TRACE_BY_RATE));
        trace_settings_done(&s);
}

static void test_count(void **state) {
        struct trace_change   c = { .values = { .count = 1 } };
        struct trace_settings s;
        struct trace_source  *source;

        (void)state;
        begin(&s, STAMPS, 1, 2);
        source = trace_settings_sample(&s, "a", TRACE_BY_RATE);
        assert_non_null(source);
        assert_false(atomic_load(&source->is_used_up));
        assert_true(samples(&s, "a", TRACE_BY_RATE));
        assert_true(atomic_load(&source->is_used_up));
        assert_int_equal(atomic_load(&source->n_sampled), 2);
        assert_false(samples(&s, "a", TRACE_BY_RATE));
        assert_false(samples(&s, "a", TRACE_ALWAYS));
        assert_false(atomic_load(&source->is_retired));
        c.actions[TRACE_SETTING_COUNT] = TRACE_SET;
        change(&s, NULL, &c);
        assert_true(atomic_load(&source->is_retired));
        trace_source_unref(source);
        assert_true(samples(&s, "a", TRACE_BY_RATE));
        assert_false(samples(&s, "a", TRACE_BY_RATE));
        trace_settings_done(&s);
}

/* A global change leaves alone what a model has all for itself. */
static void test_what_is_replaced(void **state) {
        struct trace_change   own = { .values = { .level = STAMPS, .rate = 2 } };
        struct trace_change   global = { .values = { .rate = 50 } };
        struct trace_settings s;

        (void)state;
        begin(&s, 0, 1000, -1);
        assert_false(atomic_load(&s.is_on));
        assert_false(samples(&s, "a", TRACE_ALWAYS));
        own.actions[TRACE_SETTING_LEVEL] = own.actions[TRACE_SETTING_RATE] = TRACE_SET;
        change(&s, "a", &own);
        assert_true(atomic_load(&s.is_on));
        assert_false(samples(&s, "a", TRACE_BY_RATE));
        global.actions[TRACE_SETTING_RATE] = TRACE_SET;
        change(&s, NULL, &global);
        assert_true(samples(&s, "a", TRACE_BY_RATE)); /* its counting went on */
        assert_false(samples(&s, "b", TRACE_ALWAYS));
        own.actions[TRACE_SETTING_LEVEL] = own.actions[TRACE_SETTING_RATE] = TRACE_CLEAR;
        change(&s, "a", &own);
        assert_false(atomic_load(&s.is_on));
        trace_settings_done(&s);
}

static void assert_refused(struct trace_settings *s, const char *model,
                           const struct trace_change *c, const char *text) {
        AUTO_ERROR err = trace_settings_change(s, model, c);

        assert_non_null(err);
        assert_string_equal(err->message, text);
        assert_int_equal(err->code, ERR_INVALID_ARG);
}

#define ZERO_RATE "Attempting to set invalid trace setting :sample rate must be non-zero"
#define NO_FILE                                                                                    \
        "Attempting to set invalid trace setting :trace file name is not given "                   \
        "(--trace-config=triton,file=<path>)"

static void test_refusals(void **state) {
        struct trace_change   on = { .values = { .level = STAMPS }, .actions = { TRACE_SET } };
        struct trace_change   zero = { .values = { .rate = 0 } };
        struct trace_settings s;

        (void)state;
        begin(&s, 0, 1000, -1);
        zero.actions[TRACE_SETTING_RATE] = TRACE_SET;
        change(&s, NULL, &zero); /* nothing is traced */
        assert_refused(&s, NULL, &on, ZERO_RATE);
        assert_refused(&s, "a", &on, ZERO_RATE);
        assert_false(atomic_load(&s.is_on));
        zero.actions[TRACE_SETTING_RATE] = TRACE_CLEAR;
        change(&s, NULL, &zero);
        change(&s, "a", &on);
        zero.actions[TRACE_SETTING_RATE] = TRACE_SET;
        assert_refused(&s, NULL, &zero, ZERO_RATE); /* the model would have it, too */
        assert_true(samples(&s, "a", TRACE_ALWAYS));

        s.config.file = "";
        assert_refused(&s, "b", &on, NO_FILE);
        s.config.mode = TRACE_MODE_OPENTELEMETRY;
        change(&s, "b", &on);
        trace_settings_done(&s);
}

/* ---- several threads ------------------------------------------------------------------------- */

enum { N_THREADS = 4, N_REQUESTS = 3000 };

struct sampler {
        struct trace_settings *settings;
        struct thread          thread;
        unsigned               n;
};

static void sample_many(void *arg) {
        struct sampler *one = arg;

        for (int i = 0; i < N_REQUESTS; i++)
                one->n += samples(one->settings, "a", TRACE_BY_RATE);
}

static unsigned sample_from_threads(struct trace_settings *s) {
        struct sampler samplers[N_THREADS] = { 0 };
        unsigned       n = 0;

        for (int i = 0; i < N_THREADS; i++) {
                samplers[i].settings = s;
                assert_null(
                        thread_start(&samplers[i].thread, "sampler", sample_many, &samplers[i]));
        }
        for (int i = 0; i < N_THREADS; i++) {
                thread_join(&samplers[i].thread);
                n += samplers[i].n;
        }
        return n;
}

static void test_exact_under_concurrency(void **state) {
        struct trace_settings s;

        (void)state;
        begin(&s, STAMPS, 7, -1);
        assert_int_equal(sample_from_threads(&s), N_THREADS * N_REQUESTS / 7);
        trace_settings_done(&s);
        begin(&s, STAMPS, 3, 100);
        assert_int_equal(sample_from_threads(&s), 100);
        trace_settings_done(&s);
}

/* ---- what clients write ---------------------------------------------------------------------- */

static void test_names(void **state) {
        (void)state;
        assert_int_equal(trace_setting_find(STR_LIT("trace_level")), TRACE_SETTING_LEVEL);
        assert_int_equal(trace_setting_find(STR_LIT("trace_rate")), TRACE_SETTING_RATE);
        assert_int_equal(trace_setting_find(STR_LIT("trace_count")), TRACE_SETTING_COUNT);
        assert_int_equal(trace_setting_find(STR_LIT("log_frequency")), TRACE_SETTING_LOG_FREQUENCY);
        assert_int_equal(trace_setting_find(STR_LIT("trace_mode")), N_TRACE_SETTINGS);
        assert_int_equal(trace_setting_find(STR_LIT("")), N_TRACE_SETTINGS);
}

#define RANGE_U32 "value is out of range [ 0, 4294967295 ], got: "
#define RANGE_I32 "value is out of range [ -1, 2147483647 ], got: "

static void test_numbers(void **state) {
        static const struct {
                enum trace_setting setting;
                const char        *text;
                int64_t            value;
                const char        *error; /* NULL = none */
        } rows[] = {
                { TRACE_SETTING_RATE, "0", 0, NULL },
                { TRACE_SETTING_RATE, "+7", 7, NULL },
                { TRACE_SETTING_RATE, "4294967295", UINT32_MAX, NULL },
                { TRACE_SETTING_RATE, "4294967296", 0,
                  "Unable to parse 'trace_rate', " RANGE_U32 "4294967296" },
                { TRACE_SETTING_RATE, "-1", 0, "Unable to parse 'trace_rate', " RANGE_U32 "-1" },
                { TRACE_SETTING_RATE, "", 0, "Unable to parse 'trace_rate', got: " },
                { TRACE_SETTING_RATE, "-", 0, "Unable to parse 'trace_rate', got: -" },
                { TRACE_SETTING_RATE, "+-1", 0, "Unable to parse 'trace_rate', got: +-1" },
                { TRACE_SETTING_RATE, "1 ", 0, "Unable to parse 'trace_rate', got: 1 " },
                { TRACE_SETTING_LOG_FREQUENCY, "12", 12, NULL },
                { TRACE_SETTING_LOG_FREQUENCY, "0x1", 0,
                  "Unable to parse 'log_frequency', got: 0x1" },
                { TRACE_SETTING_COUNT, "-1", -1, NULL },
                { TRACE_SETTING_COUNT, "2147483647", INT32_MAX, NULL },
                { TRACE_SETTING_COUNT, "2147483648", 0,
                  "Unable to parse 'trace_count', " RANGE_I32 "2147483648" },
                { TRACE_SETTING_COUNT, "-99999999999999999999", 0,
                  "Unable to parse 'trace_count', " RANGE_I32 "-99999999999999999999" },
                { TRACE_SETTING_COUNT, "-2", 0,
                  "Unable to parse 'trace_count'. Expecting value >= -1, got:~-2" },
                { TRACE_SETTING_COUNT, "none", 0, "Unable to parse 'trace_count', got: none" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct trace_values v = { .rate = 5, .count = 5, .log_frequency = 5 };
                AUTO_ERROR err = trace_number_read(rows[i].setting, str_of(rows[i].text), "~", &v);
                int64_t    got = rows[i].setting == TRACE_SETTING_RATE    ? (int64_t)v.rate
                                 : rows[i].setting == TRACE_SETTING_COUNT ? (int64_t)v.count
                                                                          : (int64_t)v.log_frequency;

                if (rows[i].error != NULL) {
                        assert_non_null(err);
                        assert_string_equal(err->message, rows[i].error);
                        assert_int_equal(err->code, ERR_INVALID_ARG);
                        assert_int_equal(got, 5);
                } else {
                        assert_null(err);
                        assert_int_equal(got, rows[i].value);
                }
        }
}

struct place {
        unsigned n_asked;
        bool     has_all;
};

/* One model of ten is still there, or all are. */
static bool is_there(void *owner, const char *model) {
        struct place *p = owner;

        p->n_asked++;
        return p->has_all || model[strlen(model) - 1] == '0';
}

/* Settings of models that are gone do not add up without end; those of the others stay, however many. */
static void test_many_models(void **state) {
        const unsigned n_models = 4 * TRACE_SETTINGS_MANY;

        (void)state;
        for (int has_all = 0; has_all < 2; has_all++) {
                struct trace_change   c = { .values = { .level = STAMPS, .rate = 1 } };
                struct place          p = { .has_all = has_all == 1 };
                struct trace_settings s;

                begin(&s, 0, 1000, -1);
                c.actions[TRACE_SETTING_LEVEL] = c.actions[TRACE_SETTING_RATE] = TRACE_SET;
                for (unsigned i = 0; i < n_models; i++) {
                        char name[32];

                        snprintf(name, sizeof(name), "m%u", i);
                        if (trace_settings_are_many(&s))
                                trace_settings_forget(&s, is_there, &p);
                        change(&s, name, &c);
                        assert_true(p.has_all || map_size(&s.models) <= TRACE_SETTINGS_MANY);
                }
                assert_true(p.n_asked <= 2 * n_models); /* not all of them at each change */
                assert_true(samples(&s, "m0", TRACE_BY_RATE));
                assert_int_equal(samples(&s, "m1", TRACE_BY_RATE), p.has_all);
                trace_settings_done(&s);
        }
}

static void test_levels(void **state) {
        uint32_t   level = 0;
        AUTO_ERROR err = NULL;

        (void)state;
        assert_null(trace_level_read(STR_LIT("TENSORS"), 3, &level));
        assert_null(trace_level_read(STR_LIT("tensors"), 3, &level));
        assert_int_equal(level, TRITONSERVER_TRACE_LEVEL_TENSORS);
        assert_null(trace_level_read(STR_LIT("TIMESTAMPS"), 3, &level));
        assert_int_equal(level,
                         TRITONSERVER_TRACE_LEVEL_TENSORS | TRITONSERVER_TRACE_LEVEL_TIMESTAMPS);
        err = trace_level_read(STR_LIT("OFF"), 3, &level);
        assert_non_null(err);
        assert_string_equal(err->message, "Expect only one trace level 'OFF' is specified");
        level = 0;
        assert_null(trace_level_read(STR_LIT("OFF"), 1, &level));
        assert_int_equal(level, TRITONSERVER_TRACE_LEVEL_DISABLED);
}

SUITE(trace_settings) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_inheritance), cmocka_unit_test(test_every_third),
                cmocka_unit_test(test_count),       cmocka_unit_test(test_what_is_replaced),
                cmocka_unit_test(test_refusals),    cmocka_unit_test(test_exact_under_concurrency),
                cmocka_unit_test(test_names),       cmocka_unit_test(test_numbers),
                cmocka_unit_test(test_levels),      cmocka_unit_test(test_many_models),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
