/* SPDX-License-Identifier: BSD-3-Clause */
/* Shapes and values for requests. */
#include "suite.h"

#include "cli/tensor_values.h"
#include "codec/json_reader.h"

#include <string.h>

static void check_text(const struct strbuf *out, const char *expected) {
        assert_string_equal(strbuf_cstr(out), expected);
}

static void test_shapes(void **state) {
        static const struct {
                const char *text, *printed; /* NULL: refused */
        } rows[] = {
                { "1,2,3", "[1,2,3]" },
                { " [ 4 , -1 ] ", "[4,-1]" },
                { "", "[]" },
                { "[]", "[]" },
                { "0", "[0]" },
                { "1,", NULL },
                { "a", NULL },
                { "1,,2", NULL },
                { "1 2", NULL },
                { "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", NULL },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                AUTO_STRBUF         out = { 0 };
                struct tensor_shape shape;
                AUTO_ERROR          err = tensor_shape_read(str_of(rows[i].text), &shape);

                strbuf_init(&out, 0);
                if ((err == NULL) != (rows[i].printed != NULL))
                        fail_msg("'%s': %s", rows[i].text, err != NULL ? err->message : "taken");
                if (err != NULL)
                        continue;
                tensor_shape_print(&shape, &out);
                check_text(&out, rows[i].printed);
        }
}

static void test_counts(void **state) {
        struct tensor_shape shape = { { 2, 3, 4 }, 3 };
        uint64_t            n;
        struct error       *err;

        (void)state;
        assert_null(tensor_shape_count(&shape, &n));
        assert_int_equal(n, 24);
        shape.n = 0;
        assert_null(tensor_shape_count(&shape, &n));
        assert_int_equal(n, 1);
        shape = (struct tensor_shape){ { INT64_MAX, 4 }, 2 };
        err = tensor_shape_count(&shape, &n);
        assert_string_equal(err->message, "a shape has more than 268435456 elements");
        error_free(err);
        shape = (struct tensor_shape){ { -1 }, 1 };
        err = tensor_shape_count(&shape, &n);
        assert_string_equal(err->message, "a shape has the dimension -1");
        error_free(err);
        tensor_shape_fix(&shape);
        assert_null(tensor_shape_count(&shape, &n));
        assert_int_equal(n, 1);
}

static void test_inferred_shapes(void **state) {
        static const struct {
                const char *json, *model, *shape; /* shape NULL: refused */
        } rows[] = {
                { "[[1,2],[3,4],[5,6]]", "-1,2", "[3,2]" },
                { "[1,2,3,4,5,6]", "-1,2", "[3,2]" },
                { "[1,2]", "-1", "[2]" },
                { "[]", "-1", "[0]" },
                { "7", "-1", "[1]" },
                { "7", "1,1", "[1,1]" },
                { "[1,2,3]", "3", "[3]" },
                { "[1,2,3,4]", "2,2", "[2,2]" },
                { "[1,2,3,4]", "-1,-1,2", "[1,2,2]" },
                { "[[[1],[2]]]", "-1,2", "[1,2]" },
                { "[\"a\",\"b\"]", "-1,1", "[2,1]" },
                { "[]", "-1,2", "[0,2]" },
                { "[1,2,3]", "-1,2", NULL },
                { "7", "-1,2", NULL },
                { "[1,", "-1", NULL },
                { "[1] 2", "-1", NULL },
                { "nonsense", "-1", NULL },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                AUTO_STRBUF         out = { 0 };
                struct tensor_shape model, shape;
                struct error       *err;

                strbuf_init(&out, 0);
                assert_null(tensor_shape_read(str_of(rows[i].model), &model));
                err = tensor_shape_infer(str_of(rows[i].json), &model, &shape);
                if ((err == NULL) != (rows[i].shape != NULL))
                        fail_msg("%s: %s", rows[i].json, err != NULL ? err->message : "taken");
                if (err == NULL) {
                        tensor_shape_print(&shape, &out);
                        if (strcmp(strbuf_cstr(&out), rows[i].shape) != 0)
                                fail_msg("%s: %s", rows[i].json, strbuf_cstr(&out));
                }
                error_free(err);
        }
}

static void fill(TRITONSERVER_DataType type, enum tensor_fill fill, uint64_t n,
                 struct strbuf *out) {
        strbuf_init(out, 0);
        tensor_values_fill(&(struct tensor_source){ .type = type, .fill = fill, .seed = 1 }, n,
                           out);
}

static void test_zeros(void **state) {
        static const struct {
                TRITONSERVER_DataType type;
                const char           *json;
        } rows[] = {
                { TRITONSERVER_TYPE_BOOL, "[false,false]" },
                { TRITONSERVER_TYPE_INT8, "[0,0]" },
                { TRITONSERVER_TYPE_UINT64, "[0,0]" },
                { TRITONSERVER_TYPE_FP32, "[0.0,0.0]" },
                { TRITONSERVER_TYPE_BYTES, "[\"\",\"\"]" },
                { TRITONSERVER_TYPE_FP16, "[0.0,0.0]" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                AUTO_STRBUF out = { 0 };

                fill(rows[i].type, TENSOR_ZEROS, 2, &out);
                check_text(&out, rows[i].json);
        }
}

/* Whole numbers of 0 to 127, reals of 0 to 1; the same for the same seed, others for another. */
static void test_random(void **state) {
        AUTO_STRBUF        first = { 0 }, again = { 0 }, other = { 0 };
        struct json_reader r;
        size_t             n = 0, n_set = 0;

        (void)state;
        fill(TRITONSERVER_TYPE_INT8, TENSOR_RANDOM, 100, &first);
        fill(TRITONSERVER_TYPE_INT8, TENSOR_RANDOM, 100, &again);
        check_text(&again, strbuf_cstr(&first));
        strbuf_init(&other, 0);
        tensor_values_fill(&(struct tensor_source){ .type = TRITONSERVER_TYPE_INT8,
                                                    .fill = TENSOR_RANDOM,
                                                    .seed = 2 },
                           100, &other);
        assert_string_not_equal(strbuf_cstr(&other), strbuf_cstr(&first));
        json_reader_init(&r, strbuf_str(&first));
        for (json_enter_array(&r); json_next_element(&r); n++) {
                struct json_number v = json_read_number(&r);

                assert_true(v.is_integer && !v.is_negative && v.magnitude < 128);
                n_set += v.magnitude > 0;
        }
        assert_int_equal(n, 100);
        assert_true(n_set > 80);
        strbuf_done(&again);
        fill(TRITONSERVER_TYPE_FP64, TENSOR_RANDOM, 50, &again);
        json_reader_init(&r, strbuf_str(&again));
        for (json_enter_array(&r); json_next_element(&r);) {
                double v = json_read_number(&r).real;

                assert_true(v >= 0 && v < 1);
        }
        assert_false(json_failed(&r));
}

static void test_half_floats(void **state) {
        static const uint8_t fp16[] = { 0x00, 0x38, 0x00, 0xc0, 0x00, 0x3c };
        static const uint8_t bf16[] = { 0x00, 0x3f, 0x00, 0xc0, 0x80, 0x3f };
        AUTO_STRBUF          out = { 0 }, json = { 0 };
        struct error        *err;

        (void)state;
        strbuf_init(&out, 0);
        strbuf_init(&json, 0);
        assert_true(tensor_is_binary(TRITONSERVER_TYPE_BF16));
        assert_false(tensor_is_binary(TRITONSERVER_TYPE_FP32));
        assert_null(tensor_values_encode(TRITONSERVER_TYPE_FP16, STR_LIT("[[0.5, -2],[1]]"), &out));
        assert_int_equal(out.len, sizeof(fp16));
        assert_memory_equal(out.ptr, fp16, sizeof(fp16));
        tensor_values_decode(TRITONSERVER_TYPE_FP16, strbuf_str(&out), &json);
        check_text(&json, "[0.5,-2.0,1.0]");
        strbuf_clear(&out);
        strbuf_clear(&json);
        assert_null(tensor_values_encode(TRITONSERVER_TYPE_BF16, STR_LIT("[0.5,-2,1]"), &out));
        assert_memory_equal(out.ptr, bf16, sizeof(bf16));
        tensor_values_decode(TRITONSERVER_TYPE_BF16, strbuf_str(&out), &json);
        check_text(&json, "[0.5,-2.0,1.0]");
        err = tensor_values_encode(TRITONSERVER_TYPE_FP16, STR_LIT("[\"a\"]"), &out);
        assert_string_equal(err->message, "FP16 and BF16 values are numbers");
        error_free(err);
}

SUITE(tensor_values) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_shapes),          cmocka_unit_test(test_counts),
                cmocka_unit_test(test_inferred_shapes), cmocka_unit_test(test_zeros),
                cmocka_unit_test(test_random),          cmocka_unit_test(test_half_floats),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
