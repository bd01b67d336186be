/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "base/strbuf.h"
#include "config/shape.h"

#define BIG (INT64_C(1) << 62)

static void test_element_count(void **state) {
        static const struct {
                int64_t dims[4];
                size_t  n;
                int64_t count;
        } rows[] = {
                { { 0 }, 0, 1 },
                { { 1 }, 1, 1 },
                { { 2, 3, 4 }, 3, 24 },
                { { 5, 0, 7 }, 3, 0 },
                { { INT64_MAX }, 1, INT64_MAX },
                { { BIG, 1 }, 2, BIG },
                { { BIG, 2 }, 2, SHAPE_OVERFLOW },
                { { INT64_MAX, 2 }, 2, SHAPE_OVERFLOW },
                { { 4, BIG, 4 }, 3, SHAPE_OVERFLOW },
                { { -1 }, 1, SHAPE_VARIABLE },
                { { 3, -1, 2 }, 3, SHAPE_VARIABLE },
                { { BIG, 4, -1 }, 3, SHAPE_VARIABLE },
                { { -2 }, 1, SHAPE_INVALID_DIM },
                { { -1, -2 }, 2, SHAPE_INVALID_DIM },
                { { BIG, 4, INT64_MIN }, 3, SHAPE_INVALID_DIM },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                assert_int_equal(shape_element_count(rows[i].dims, rows[i].n), rows[i].count);
        assert_int_equal(shape_element_count(NULL, 0), 1);
}

static void test_byte_size(void **state) {
        const int64_t dims[] = { 2, 3 };
        const int64_t large[] = { BIG };
        const int64_t too_large[] = { BIG, 4 };
        const int64_t variable[] = { 2, -1 };
        const int64_t invalid[] = { 2, -3 };

        (void)state;
        assert_int_equal(shape_byte_size(DATA_TYPE_FP32, dims, 2), 24);
        assert_int_equal(shape_byte_size(DATA_TYPE_BF16, dims, 2), 12);
        assert_int_equal(shape_byte_size(DATA_TYPE_FP64, NULL, 0), 8);
        assert_int_equal(shape_byte_size(DATA_TYPE_BYTES, dims, 2), SHAPE_VARIABLE);
        assert_int_equal(shape_byte_size(DATA_TYPE_INT8, large, 1), BIG);
        assert_int_equal(shape_byte_size(DATA_TYPE_FP16, large, 1), SHAPE_BYTES_OVERFLOW);
        assert_int_equal(shape_byte_size(DATA_TYPE_FP16, too_large, 2), SHAPE_OVERFLOW);
        assert_int_equal(shape_byte_size(DATA_TYPE_FP16, variable, 2), SHAPE_VARIABLE);
        assert_int_equal(shape_byte_size(DATA_TYPE_BYTES, invalid, 2), SHAPE_INVALID_DIM);
}

static void test_matches(void **state) {
        const int64_t config[] = { -1, 16 };

        (void)state;
        assert_true(shape_matches(config, 2, (int64_t[]){ 1, 16 }, 2));
        assert_true(shape_matches(config, 2, (int64_t[]){ 0, 16 }, 2));
        assert_true(shape_matches(config, 2, (int64_t[]){ INT64_MAX, 16 }, 2));
        assert_false(shape_matches(config, 2, (int64_t[]){ 1, 15 }, 2));
        assert_false(shape_matches(config, 2, (int64_t[]){ -1, 16 }, 2));
        assert_false(shape_matches(config, 2, (int64_t[]){ 1, 16, 1 }, 3));
        assert_false(shape_matches(config, 2, (int64_t[]){ 16 }, 1));
        assert_true(shape_matches(NULL, 0, NULL, 0));
        assert_true(shape_equal(config, 2, (int64_t[]){ -1, 16 }, 2));
        assert_false(shape_equal(config, 2, (int64_t[]){ 1, 16 }, 2));
        assert_false(shape_equal(config, 2, config, 1));
        assert_true(shape_equal(NULL, 0, config, 0));
        assert_true(shape_is_variable(config, 2));
        assert_false(shape_is_variable(config + 1, 1));
        assert_false(shape_is_variable(NULL, 0));
}

#define MAX_DIMS 5

static const struct reshape_row {
        int64_t from[MAX_DIMS];
        size_t  n_from;
        int64_t to[MAX_DIMS];
        size_t  n_to;
        int64_t given[MAX_DIMS];
        int64_t result[MAX_DIMS];
        bool    is_possible;
} reshape_rows[] = {
        { { 1 }, 1, { 0 }, 0, { 1 }, { 0 }, true },
        { { 4, 4 }, 2, { 16 }, 1, { 4, 4 }, { 16 }, true },
        { { 2, 4, -1, 6 }, 4, { 8, -1, 1, 6 }, 4, { 2, 4, 7, 6 }, { 8, 7, 1, 6 }, true },
        { { -1, 3, -1 }, 3, { 3, -1, -1, 1 }, 4, { 5, 3, 9 }, { 3, 5, 9, 1 }, true },
        { { -1 }, 1, { -1, 1 }, 2, { 0 }, { 0, 1 }, true },
        { { -1 }, 1, { 1, -1 }, 2, { 3 }, { 1, 3 }, true },
        /* the given shape is not of that form */
        { { 4, 4 }, 2, { 16 }, 1, { 4, 5 }, { 0 }, false },
        { { -1 }, 1, { -1, 1 }, 2, { -1 }, { 0 }, false },
        /* more variable sizes on one side than on the other */
        { { -1, 2 }, 2, { -1, -1 }, 2, { 5, 2 }, { 0 }, false },
        { { -1, -1 }, 2, { -1 }, 1, { 5, 2 }, { 0 }, false },
        { { 2 }, 1, { -1 }, 1, { 2 }, { 0 }, false },
};

static void test_reshape(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(reshape_rows); i++) {
                const struct reshape_row *row = &reshape_rows[i];
                struct shape_form         from = { row->from, row->n_from };
                struct shape_form         to = { row->to, row->n_to };
                int64_t                   back[MAX_DIMS];
                int64_t                   result[MAX_DIMS];

                assert_int_equal(shape_reshape(from, to, row->given, result), row->is_possible);
                if (!row->is_possible)
                        continue;
                assert_true(shape_equal(result, to.n_dims, row->result, to.n_dims));
                assert_true(shape_reshape(to, from, result, back));
                assert_true(shape_equal(back, from.n_dims, row->given, from.n_dims));
        }
}

static void test_print(void **state) {
        AUTO_STRBUF text;

        (void)state;
        strbuf_init(&text, 0);
        shape_print((int64_t[]){ -1, 16 }, 2, &text);
        shape_print(NULL, 0, &text);
        shape_print((int64_t[]){ INT64_MIN, INT64_MAX, 0 }, 3, &text);
        assert_string_equal(strbuf_cstr(&text),
                            "[-1,16][][-9223372036854775808,9223372036854775807,0]");
}

SUITE(shape) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_element_count), cmocka_unit_test(test_byte_size),
                cmocka_unit_test(test_matches),       cmocka_unit_test(test_reshape),
                cmocka_unit_test(test_print),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
