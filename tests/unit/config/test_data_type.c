/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "config/data_type.h"

static const struct {
        enum data_type type;
        int            value;
        size_t         size;
        const char    *name;
        const char    *config_name;
} rows[] = {
        { DATA_TYPE_BOOL, 1, 1, "BOOL", "TYPE_BOOL" },
        { DATA_TYPE_UINT8, 2, 1, "UINT8", "TYPE_UINT8" },
        { DATA_TYPE_UINT16, 3, 2, "UINT16", "TYPE_UINT16" },
        { DATA_TYPE_UINT32, 4, 4, "UINT32", "TYPE_UINT32" },
        { DATA_TYPE_UINT64, 5, 8, "UINT64", "TYPE_UINT64" },
        { DATA_TYPE_INT8, 6, 1, "INT8", "TYPE_INT8" },
        { DATA_TYPE_INT16, 7, 2, "INT16", "TYPE_INT16" },
        { DATA_TYPE_INT32, 8, 4, "INT32", "TYPE_INT32" },
        { DATA_TYPE_INT64, 9, 8, "INT64", "TYPE_INT64" },
        { DATA_TYPE_FP16, 10, 2, "FP16", "TYPE_FP16" },
        { DATA_TYPE_FP32, 11, 4, "FP32", "TYPE_FP32" },
        { DATA_TYPE_FP64, 12, 8, "FP64", "TYPE_FP64" },
        { DATA_TYPE_BYTES, 13, 0, "BYTES", "TYPE_STRING" },
        { DATA_TYPE_BF16, 14, 2, "BF16", "TYPE_BF16" },
};

static void test_every_type(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                assert_int_equal(rows[i].type, rows[i].value);
                assert_true(data_type_is_valid(rows[i].type));
                assert_int_equal(data_type_size(rows[i].type), rows[i].size);
                assert_string_equal(data_type_name(rows[i].type), rows[i].name);
                assert_string_equal(data_type_config_name(rows[i].type), rows[i].config_name);
                assert_int_equal(data_type_from_name(str_of(rows[i].name)), rows[i].type);
        }
}

static void test_unknown(void **state) {
        (void)state;
        assert_string_equal(data_type_name(DATA_TYPE_INVALID), "<invalid>");
        assert_false(data_type_is_valid(DATA_TYPE_INVALID));
        assert_false(data_type_is_valid((enum data_type)(ARRAY_LEN(rows) + 1)));
        assert_string_equal(data_type_name((enum data_type)(ARRAY_LEN(rows) + 1)), "<invalid>");
        assert_string_equal(data_type_name((enum data_type) - 1), "<invalid>");
        assert_string_equal(data_type_config_name((enum data_type)99), "TYPE_INVALID");
        assert_int_equal(data_type_size(DATA_TYPE_INVALID), 0);
        assert_int_equal(data_type_size((enum data_type)1000), 0);
        assert_int_equal(data_type_from_name(str_of("fp32")), DATA_TYPE_INVALID);
        assert_int_equal(data_type_from_name(str_of("FP3")), DATA_TYPE_INVALID);
        assert_int_equal(data_type_from_name(str_of("FP32 ")), DATA_TYPE_INVALID);
        assert_int_equal(data_type_from_name(str_of("TYPE_FP32")), DATA_TYPE_INVALID);
        assert_int_equal(data_type_from_name(str_of("STRING")), DATA_TYPE_INVALID);
        assert_int_equal(data_type_from_name(str_of("<invalid>")), DATA_TYPE_INVALID);
        assert_int_equal(data_type_from_name(str_of("")), DATA_TYPE_INVALID);
}

SUITE(data_type) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_every_type),
                cmocka_unit_test(test_unknown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
