/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "core_api/datatype.h"

#define NO_ELEMENT JSON_ELEMENT_BOOL /* not compared */

static const struct {
        TRITONSERVER_DataType type;
        const char           *name;
        size_t                bytes;
        bool                  is_json;
        enum json_element     element;
} rows[] = {
        { TRITONSERVER_TYPE_BOOL, "BOOL", 1, true, JSON_ELEMENT_BOOL },
        { TRITONSERVER_TYPE_UINT8, "UINT8", 1, true, JSON_ELEMENT_U8 },
        { TRITONSERVER_TYPE_UINT16, "UINT16", 2, true, JSON_ELEMENT_U16 },
        { TRITONSERVER_TYPE_UINT32, "UINT32", 4, true, JSON_ELEMENT_U32 },
        { TRITONSERVER_TYPE_UINT64, "UINT64", 8, true, JSON_ELEMENT_U64 },
        { TRITONSERVER_TYPE_INT8, "INT8", 1, true, JSON_ELEMENT_I8 },
        { TRITONSERVER_TYPE_INT16, "INT16", 2, true, JSON_ELEMENT_I16 },
        { TRITONSERVER_TYPE_INT32, "INT32", 4, true, JSON_ELEMENT_I32 },
        { TRITONSERVER_TYPE_INT64, "INT64", 8, true, JSON_ELEMENT_I64 },
        { TRITONSERVER_TYPE_FP16, "FP16", 2, false, NO_ELEMENT },
        { TRITONSERVER_TYPE_FP32, "FP32", 4, true, JSON_ELEMENT_F32 },
        { TRITONSERVER_TYPE_FP64, "FP64", 8, true, JSON_ELEMENT_F64 },
        { TRITONSERVER_TYPE_BYTES, "BYTES", 0, false, NO_ELEMENT },
        { TRITONSERVER_TYPE_BF16, "BF16", 2, false, NO_ELEMENT },
};

static void test_rows(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                enum json_element element;

                assert_int_equal(datatype_from_name(str_of(rows[i].name)), rows[i].type);
                assert_string_equal(datatype_name(rows[i].type), rows[i].name);
                assert_true(str_is(datatype_str(rows[i].type), rows[i].name));
                assert_int_equal(datatype_bytes(rows[i].type), rows[i].bytes);
                assert_int_equal(datatype_json_element(rows[i].type, &element), rows[i].is_json);
                if (rows[i].is_json)
                        assert_int_equal(element, rows[i].element);
        }
}

static void test_unknown(void **state) {
        static const char *const names[] = { "", "fp32", "FP3", "FP322", "<invalid>", "STRING" };
        enum json_element        element;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(names); i++)
                assert_int_equal(datatype_from_name(str_of(names[i])), TRITONSERVER_TYPE_INVALID);
        assert_string_equal(datatype_name(TRITONSERVER_TYPE_INVALID), "<invalid>");
        assert_string_equal(datatype_name((TRITONSERVER_DataType)99), "<invalid>");
        assert_int_equal(datatype_bytes((TRITONSERVER_DataType)99), 0);
        assert_false(datatype_json_element((TRITONSERVER_DataType)99, &element));
}

SUITE(datatype) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rows),
                cmocka_unit_test(test_unknown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
