/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "python/parameter_text.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

static void check_value(TRITONSERVER_ParameterType type, const void *value, const char *expected) {
        struct kit_text text = { 0 };

        parameter_text_add(&text, "p", type, value);
        assert_string_equal(text.chars, expected);
        kit_text_done(&text);
}

static void test_values(void **state) {
        (void)state;
        check_value(TRITONSERVER_PARAMETER_INT, &(int64_t){ INT64_MIN },
                    "{\"p\":-9223372036854775808");
        check_value(TRITONSERVER_PARAMETER_BOOL, &(bool){ true }, "{\"p\":true");
        check_value(TRITONSERVER_PARAMETER_STRING, "a\"b", "{\"p\":\"a\\\"b\"");
}

/* Python reads a number without a point and an exponent as an int. */
static void test_doubles(void **state) {
        (void)state;
        check_value(TRITONSERVER_PARAMETER_DOUBLE, &(double){ 1.5 }, "{\"p\":1.5");
        check_value(TRITONSERVER_PARAMETER_DOUBLE, &(double){ 2.0 }, "{\"p\":2.0");
        check_value(TRITONSERVER_PARAMETER_DOUBLE, &(double){ -0.0 }, "{\"p\":-0.0");
        check_value(TRITONSERVER_PARAMETER_DOUBLE, &(double){ 1e300 },
                    "{\"p\":1.0000000000000001e+300");
        check_value(TRITONSERVER_PARAMETER_DOUBLE, &(double){ NAN }, "{\"p\":NaN");
        check_value(TRITONSERVER_PARAMETER_DOUBLE, &(double){ INFINITY }, "{\"p\":Infinity");
        check_value(TRITONSERVER_PARAMETER_DOUBLE, &(double){ -INFINITY }, "{\"p\":-Infinity");
}

static void test_several(void **state) {
        struct kit_text text = { 0 };

        (void)state;
        parameter_text_add(&text, "a", TRITONSERVER_PARAMETER_INT, &(int64_t){ 1 });
        parameter_text_add(&text, "b", TRITONSERVER_PARAMETER_BYTES, "no text");
        parameter_text_add(&text, "c", TRITONSERVER_PARAMETER_BOOL, &(bool){ false });
        assert_string_equal(text.chars, "{\"a\":1,\"c\":false");
        kit_text_done(&text);
}

SUITE(python_parameter_text) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_values),
                cmocka_unit_test(test_doubles),
                cmocka_unit_test(test_several),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
