/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "trace/trace_settings.h"

#include "triton/core/tritonserver.h"

#include <string.h>

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
                int64_t    got = rows[i].setting == TRACE_SETTING_RATE ? (int64_t)v.rate
                                 : rows[i].setting == TRACE_SETTING_COUNT
                                         ? (int64_t)v.count
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

SUITE(trace_setting_read) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_names),
                cmocka_unit_test(test_numbers),
                cmocka_unit_test(test_levels),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
