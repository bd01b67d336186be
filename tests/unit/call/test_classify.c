/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "call/classify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const float    f32s[] = { 1.0f, 4.0f, 2.5f, 4.0f };
static const float    odd[] = { NAN, -INFINITY, INFINITY, -0.0f, 0.0f, -1.5f };
static const double   f64s[] = { -1e300, 2.0, 1e15 };
static const uint8_t  u8s[] = { 3, 200, 7 };
static const uint16_t u16s[] = { 3, 60000, 7 };
static const uint32_t u32s[] = { 3, 4000000000u, 7 };
static const uint64_t u64s[] = { 3, UINT64_MAX, UINT64_MAX - 1 };
static const int8_t   i8s[] = { -3, 100, -128 };
static const int16_t  i16s[] = { -3, 30000, -32768 };
static const int32_t  i32s[] = { -3, 2000000000, INT32_MIN };
static const int64_t  i64s[] = { INT64_MAX - 1, INT64_MAX, INT64_MIN };
static const float    batch[] = { 1, 2, 3, 9, 8, 7 };

static const char *find_label(void *labels, size_t class_index) {
        return ((const char *const *)labels)[class_index];
}

static const char *const labels[] = { "zero", NULL, "", "drei" };

struct row {
        TRITONSERVER_DataType datatype;
        const void           *values;
        size_t                bytes;
        size_t                n_rows;
        uint32_t              n_classes;
        bool                  has_labels;
        size_t                n_got;
        const char           *expected; /* strings, separated by blanks */
};

#define VALUES(array) array, sizeof(array)

static const struct row rows[] = {
        { TRITONSERVER_TYPE_FP32, VALUES(f32s), 1, 1, false, 1, "4.000000:1" },
        /* of equal values the lower index first */
        { TRITONSERVER_TYPE_FP32, VALUES(f32s), 1, 4, false, 4,
          "4.000000:1 4.000000:3 2.500000:2 1.000000:0" },
        { TRITONSERVER_TYPE_FP32, VALUES(f32s), 1, 3, true, 3,
          "4.000000:1 4.000000:3:drei 2.500000:2" },
        /* more than there are */
        { TRITONSERVER_TYPE_FP32, VALUES(f32s), 1, 100, true, 4,
          "4.000000:1 4.000000:3:drei 2.500000:2 1.000000:0:zero" },
        { TRITONSERVER_TYPE_FP32, VALUES(odd), 1, 6, false, 6,
          "inf:2 -0.000000:3 0.000000:4 -1.500000:5 -inf:1 nan:0" },
        { TRITONSERVER_TYPE_FP64, VALUES(f64s), 1, 2, false, 2,
          "1000000000000000.000000:2 2.000000:1" },
        { TRITONSERVER_TYPE_UINT8, VALUES(u8s), 1, 3, false, 3, "200:1 7:2 3:0" },
        { TRITONSERVER_TYPE_UINT16, VALUES(u16s), 1, 3, false, 3, "60000:1 7:2 3:0" },
        { TRITONSERVER_TYPE_UINT32, VALUES(u32s), 1, 3, false, 3, "4000000000:1 7:2 3:0" },
        { TRITONSERVER_TYPE_UINT64, VALUES(u64s), 1, 3, false, 3,
          "18446744073709551615:1 18446744073709551614:2 3:0" },
        { TRITONSERVER_TYPE_INT8, VALUES(i8s), 1, 3, false, 3, "100:1 -3:0 -128:2" },
        { TRITONSERVER_TYPE_INT16, VALUES(i16s), 1, 3, false, 3, "30000:1 -3:0 -32768:2" },
        { TRITONSERVER_TYPE_INT32, VALUES(i32s), 1, 3, true, 3,
          "2000000000:1 -3:0:zero -2147483648:2" },
        { TRITONSERVER_TYPE_INT64, VALUES(i64s), 1, 3, false, 3,
          "9223372036854775807:1 9223372036854775806:0 -9223372036854775808:2" },
        /* rows of a batch, each with its own classes */
        { TRITONSERVER_TYPE_FP32, VALUES(batch), 2, 2, false, 2,
          "3.000000:2 2.000000:1 9.000000:0 8.000000:1" },
        { TRITONSERVER_TYPE_FP32, VALUES(batch), 6, 2, false, 1,
          "1.000000:0 2.000000:0 3.000000:0 9.000000:0 8.000000:0 7.000000:0" },
        { TRITONSERVER_TYPE_FP32, batch, 0, 0, 2, false, 0, "" },
        { TRITONSERVER_TYPE_FP32, batch, 0, 1, 2, false, 0, "" },
};

/* The strings of a BYTES tensor, separated by blanks. */
static void join(const struct strbuf *tensor, struct strbuf *out) {
        for (size_t at = 0; at < tensor->len;) {
                uint32_t len;

                assert_true(tensor->len - at >= sizeof(len));
                memcpy(&len, tensor->ptr + at, sizeof(len));
                at += sizeof(len);
                assert_true(len <= tensor->len - at);
                if (out->len > 0)
                        strbuf_putc(out, ' ');
                strbuf_put(out, tensor->ptr + at, len);
                at += len;
        }
}

static void test_rows(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct classify_source source = {
                        .datatype = rows[i].datatype,
                        .bytes = { rows[i].values, rows[i].bytes },
                        .n_rows = rows[i].n_rows,
                        .n_classes = rows[i].n_classes,
                        .label = rows[i].has_labels ? find_label : NULL,
                        .labels = (void *)labels,
                };
                struct strbuf tensor, text;
                size_t        n_got = 99;

                strbuf_init(&tensor, 0);
                strbuf_init(&text, 0);
                assert_null(classify(&source, &tensor, &n_got));
                join(&tensor, &text);
                assert_string_equal(strbuf_cstr(&text), rows[i].expected);
                assert_int_equal(n_got, rows[i].n_got);
                strbuf_done(&tensor);
                strbuf_done(&text);
        }
}

static void assert_refused(const struct classify_source *source, const char *message) {
        struct strbuf tensor;
        size_t        n_got;
        struct error *err;

        strbuf_init(&tensor, 0);
        err = classify(source, &tensor, &n_got);
        assert_non_null(err);
        assert_int_equal(err->code, ERR_INVALID_ARG);
        assert_string_equal(err->message, message);
        assert_int_equal(tensor.len, 0);
        error_free(err);
        strbuf_done(&tensor);
}

static void test_types(void **state) {
        static const struct {
                TRITONSERVER_DataType type;
                const char           *message;
        } refused[] = {
#define REFUSED(type) "class result not available for output due to unsupported type '" type "'"
                { TRITONSERVER_TYPE_BOOL, REFUSED("BOOL") },
                { TRITONSERVER_TYPE_BYTES, REFUSED("BYTES") },
                { TRITONSERVER_TYPE_FP16, REFUSED("FP16") },
                { TRITONSERVER_TYPE_BF16, REFUSED("BF16") },
                { TRITONSERVER_TYPE_INVALID, REFUSED("<invalid>") },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
                struct classify_source source = { .datatype = refused[i].type,
                                                  .bytes = { "\1\0\0\0", 4 },
                                                  .n_rows = 1,
                                                  .n_classes = 1 };

                assert_refused(&source, refused[i].message);
        }
}

static void test_too_large(void **state) {
        uint8_t               *values = calloc(CLASSIFY_MAX_ELEMENTS + 1, 1);
        struct classify_source source = { .datatype = TRITONSERVER_TYPE_UINT8,
                                          .bytes = { (char *)values, CLASSIFY_MAX_ELEMENTS + 1 },
                                          .n_rows = 1,
                                          .n_classes = 1 };
        struct strbuf          tensor;
        size_t                 n_got;

        (void)state;
        assert_refused(&source, "classification output tensor too large");

        source.bytes.len = CLASSIFY_MAX_ELEMENTS;
        values[777777] = 1;
        strbuf_init(&tensor, 0);
        assert_null(classify(&source, &tensor, &n_got));
        assert_int_equal(n_got, 1);
        assert_int_equal(tensor.len, 4 + strlen("1:777777"));
        assert_memory_equal(tensor.ptr + 4, "1:777777", strlen("1:777777"));
        strbuf_done(&tensor);
        free(values);
}

/* Against plain sorting, for every k. */
static int compare_pairs(const void *left, const void *right) {
        const int *a = left, *b = right;

        return a[0] != b[0] ? (a[0] < b[0] ? 1 : -1) : a[1] - b[1];
}

static void test_against_sorting(void **state) {
        enum { N = 50 };
        int32_t  values[N];
        int      pairs[N][2];
        uint32_t seed = 1;

        (void)state;
        for (int i = 0; i < N; i++) {
                seed = seed * 1664525 + 1013904223;
                values[i] = (int32_t)(seed >> 24) % 20 - 10;
                pairs[i][0] = values[i];
                pairs[i][1] = i;
        }
        qsort(pairs, N, sizeof(pairs[0]), compare_pairs);
        for (uint32_t k = 1; k <= N; k++) {
                struct classify_source source = { .datatype = TRITONSERVER_TYPE_INT32,
                                                  .bytes = { (char *)values, sizeof(values) },
                                                  .n_rows = 1,
                                                  .n_classes = k };
                struct strbuf          tensor, text, expected;
                size_t                 n_got;

                strbuf_init(&tensor, 0);
                strbuf_init(&text, 0);
                strbuf_init(&expected, 0);
                for (uint32_t i = 0; i < k; i++)
                        strbuf_printf(&expected, "%s%d:%d", i > 0 ? " " : "", pairs[i][0],
                                      pairs[i][1]);
                assert_null(classify(&source, &tensor, &n_got));
                join(&tensor, &text);
                assert_string_equal(strbuf_cstr(&text), strbuf_cstr(&expected));
                strbuf_done(&tensor);
                strbuf_done(&text);
                strbuf_done(&expected);
        }
}

SUITE(classify) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rows),
                cmocka_unit_test(test_types),
                cmocka_unit_test(test_too_large),
                cmocka_unit_test(test_against_sorting),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
