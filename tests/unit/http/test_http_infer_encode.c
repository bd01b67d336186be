/* SPDX-License-Identifier: BSD-3-Clause */
/* The body of an infer answer, byte by byte. */
#include "suite.h"

#include "base/compiler.h"
#include "base/mem.h"
#include "http/http_infer_encode.h"

#include <math.h>
#include <string.h>

struct fixture {
        struct arena           arena;
        struct arena           scratch;
        struct http_infer_body body;
        struct strbuf          sent; /* all parts, one after the other */
        struct error          *err;
};

static void encode(struct fixture *f, const struct infer_response *r) {
        memset(f, 0, sizeof(*f));
        arena_init(&f->arena, NULL, 0, 0);
        arena_init(&f->scratch, NULL, 0, 0);
        strbuf_init(&f->sent, 0);
        f->err = http_infer_encode(r, &(struct http_infer_room){ &f->arena, &f->scratch, NULL },
                                   &f->body);
        for (size_t i = 0; f->err == NULL && i < f->body.n_parts; i++)
                strbuf_put(&f->sent, f->body.parts[i].ptr, f->body.parts[i].len);
}

/* Drops the references of a body that is not sent. */
static void drop_body(struct http_infer_body *body) {
        for (size_t i = 0; i < body->n_parts; i++)
                buf_unref(body->parts[i].buf);
        body->n_parts = 0;
}

static void close_fixture(struct fixture *f) {
        if (f->err == NULL)
                drop_body(&f->body);
        error_free(f->err);
        strbuf_done(&f->sent);
        arena_done(&f->arena);
        arena_done(&f->scratch);
}

#define TENSOR(type, form_of, array)                                                               \
        {                                                                                          \
                .name = "O", .datatype = TRITONSERVER_TYPE_##type, .form = INFER_OUTPUT_##form_of, \
                .shape = (const int64_t[]){ ARRAY_LEN(array) }, .n_dims = 1, .bytes = {            \
                        (const char *)(array),                                                     \
                        sizeof(array)                                                              \
                }                                                                                  \
        }

static struct infer_response response_of(struct infer_output *outputs, uint32_t n) {
        return (struct infer_response){
                .id = "", .model_name = "m", .model_version = 1, .outputs = outputs, .n_outputs = n
        };
}

#define HEAD "{\"model_name\":\"m\",\"model_version\":\"1\",\"outputs\":["

/* JSON data, one row per type. */

static const bool     bools[] = { true, false };
static const uint8_t  u8s[] = { 0, 255 };
static const uint16_t u16s[] = { 0, 65535 };
static const uint32_t u32s[] = { 0, 4294967295u };
static const uint64_t u64s[] = { 0, UINT64_MAX };
static const int8_t   i8s[] = { -128, 127 };
static const int16_t  i16s[] = { -32768, 32767 };
static const int32_t  i32s[] = { INT32_MIN, INT32_MAX };
static const int64_t  i64s[] = { INT64_MIN, INT64_MAX };
static const float    f32s[] = { 0.1f, 1.0f, -0.0f, 3.4e38f };
static const double   f64s[] = { 0.1, 1.0, 1e-7 };
static const float    odd[] = { NAN, INFINITY, -INFINITY };
static const char     strings[] = "\2\0\0\0ab\0\0\0\0\4\0\0\0a\"\n\xff";

static void test_json_data(void **state) {
        struct {
                struct infer_output output;
                const char         *expected;
        } rows[] = {
                { TENSOR(BOOL, JSON, bools), "\"BOOL\",\"shape\":[2],\"data\":[true,false]" },
                { TENSOR(UINT8, JSON, u8s), "\"UINT8\",\"shape\":[2],\"data\":[0,255]" },
                { TENSOR(UINT16, JSON, u16s), "\"UINT16\",\"shape\":[2],\"data\":[0,65535]" },
                { TENSOR(UINT32, JSON, u32s), "\"UINT32\",\"shape\":[2],\"data\":[0,4294967295]" },
                { TENSOR(UINT64, JSON, u64s),
                  "\"UINT64\",\"shape\":[2],\"data\":[0,18446744073709551615]" },
                { TENSOR(INT8, JSON, i8s), "\"INT8\",\"shape\":[2],\"data\":[-128,127]" },
                { TENSOR(INT16, JSON, i16s), "\"INT16\",\"shape\":[2],\"data\":[-32768,32767]" },
                { TENSOR(INT32, JSON, i32s),
                  "\"INT32\",\"shape\":[2],\"data\":[-2147483648,2147483647]" },
                { TENSOR(INT64, JSON, i64s),
                  "\"INT64\",\"shape\":[2],\"data\":[-9223372036854775808,9223372036854775807]" },
                { TENSOR(FP32, JSON, f32s),
                  "\"FP32\",\"shape\":[4],\"data\":[0.1,1.0,-0.0,3.4e38]" },
                { TENSOR(FP64, JSON, f64s), "\"FP64\",\"shape\":[3],\"data\":[0.1,1.0,1e-7]" },
                { TENSOR(FP32, JSON, odd),
                  "\"FP32\",\"shape\":[3],\"data\":[NaN,Infinity,-Infinity]" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct infer_response r = response_of(&rows[i].output, 1);
                struct fixture        f;
                struct strbuf         expected;

                encode(&f, &r);
                assert_null(f.err);
                assert_false(f.body.has_binary);
                strbuf_init(&expected, 0);
                strbuf_printf(&expected, HEAD "{\"name\":\"O\",\"datatype\":%s}]}",
                              rows[i].expected);
                assert_string_equal(strbuf_cstr(&f.sent), strbuf_cstr(&expected));
                assert_int_equal(f.body.json_bytes, expected.len);
                strbuf_done(&expected);
                close_fixture(&f);
        }
}

/* Any dimension may stand beside one of 0. */
static void test_extreme_shapes(void **state) {
        static const int64_t  shape[] = { INT64_MAX, 0, INT64_MIN, -1, 9, 10, INT64_MAX - 47 };
        struct infer_output   output = { .name = "O",
                                         .datatype = TRITONSERVER_TYPE_INT8,
                                         .form = INFER_OUTPUT_JSON,
                                         .shape = shape,
                                         .n_dims = ARRAY_LEN(shape),
                                         .bytes = STR_LIT("") };
        struct infer_response r = response_of(&output, 1);
        struct fixture        f;

        (void)state;
        encode(&f, &r);
        assert_null(f.err);
        assert_string_equal(strbuf_cstr(&f.sent),
                            HEAD "{\"name\":\"O\",\"datatype\":\"INT8\",\"shape\":["
                                 "9223372036854775807,0,-9223372036854775808,-1,9,10,"
                                 "9223372036854775760],\"data\":[]}]}");
        close_fixture(&f);
}

static void test_json_strings(void **state) {
        struct infer_output output = {
                .name = "O",
                .datatype = TRITONSERVER_TYPE_BYTES,
                .shape = (const int64_t[]){ 3, 1 },
                .n_dims = 2,
                .bytes = { strings, sizeof(strings) - 1 },
        };
        struct infer_response r = response_of(&output, 1);
        struct fixture        f;

        (void)state;
        encode(&f, &r);
        assert_null(f.err);
        assert_string_equal(strbuf_cstr(&f.sent),
                            HEAD "{\"name\":\"O\",\"datatype\":\"BYTES\",\"shape\":[3,1],"
                                 "\"data\":[\"ab\",\"\",\"a\\\"\\n\xef\xbf\xbd\"],"
                                 "\"parameters\":{\"neso_replaced_bytes\":true}}]}");
        close_fixture(&f);

        /* without the parameter: the element is U+FFFD itself, and nothing was replaced */
        output.bytes = str_range("\3\0\0\0\xef\xbf\xbd", 7);
        encode(&f, &r);
        assert_null(f.err);
        assert_string_equal(strbuf_cstr(&f.sent),
                            HEAD "{\"name\":\"O\",\"datatype\":\"BYTES\",\"shape\":[3,1],"
                                 "\"data\":[\"\xef\xbf\xbd\"]}]}");
        close_fixture(&f);
        output.bytes.ptr = strings;

        /* a length that promises more than there is */
        for (size_t cut = 1; cut <= 7; cut++) {
                output.bytes.len = sizeof(strings) - 1 - cut;
                encode(&f, &r);
                assert_non_null(f.err);
                assert_string_equal(f.err->message, "output 'O' is no well-formed BYTES tensor");
                assert_int_equal(f.err->code, ERR_INTERNAL);
                close_fixture(&f);
        }
}

static void test_all_members(void **state) {
        struct infer_parameter parameters[] = {
                { .name = "b", .type = TRITONSERVER_PARAMETER_BOOL, .value.boolean = true },
                { .name = "i", .type = TRITONSERVER_PARAMETER_INT, .value.integer = -3 },
                { .name = "s\"", .type = TRITONSERVER_PARAMETER_STRING, .value.text = "t\\" },
                { .name = "d", .type = TRITONSERVER_PARAMETER_DOUBLE, .value.real = 0.5 },
        };
        struct infer_output outputs[] = {
                TENSOR(FP32, SHARED_MEMORY, f32s),
                { .name = "scalar", .datatype = TRITONSERVER_TYPE_INT8, .bytes = { "\5", 1 } },
        };
        struct infer_response r = response_of(outputs, 2);
        struct fixture        f;

        (void)state;
        r.id = "my id";
        r.model_name = "model";
        r.model_version = 1234567890123;
        r.parameters = parameters;
        r.n_parameters = ARRAY_LEN(parameters);
        encode(&f, &r);
        assert_null(f.err);
        assert_string_equal(
                strbuf_cstr(&f.sent),
                "{\"id\":\"my id\",\"model_name\":\"model\",\"model_version\":\"1234567890123\","
                "\"parameters\":{\"b\":true,\"i\":-3,\"s\\\"\":\"t\\\\\",\"d\":0.5},"
                "\"outputs\":[{\"name\":\"O\",\"datatype\":\"FP32\",\"shape\":[4]},"
                "{\"name\":\"scalar\",\"datatype\":\"INT8\",\"shape\":[],\"data\":[5]}]}");
        close_fixture(&f);
}

static void test_half_floats(void **state) {
        struct {
                TRITONSERVER_DataType type;
                const char           *message;
        } rows[] = {
                { TRITONSERVER_TYPE_FP16, "sending FP16 data via JSON is not supported. Please use "
                                          "the binary data format for output" },
                { TRITONSERVER_TYPE_BF16, "sending BF16 data via JSON is not supported. Please use "
                                          "the binary data format for output" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct infer_output   output = TENSOR(UINT16, JSON, u16s);
                struct infer_response r = response_of(&output, 1);
                struct fixture        f;

                output.datatype = rows[i].type;
                encode(&f, &r);
                assert_non_null(f.err);
                assert_string_equal(f.err->message, rows[i].message);
                assert_int_equal(f.err->code, ERR_INVALID_ARG);
                close_fixture(&f);

                output.form = INFER_OUTPUT_BINARY;
                encode(&f, &r);
                assert_null(f.err);
                assert_true(f.body.has_binary);
                close_fixture(&f);
        }
}

static void test_small_binary(void **state) {
        static const char json[] =
                HEAD "{\"name\":\"O\",\"datatype\":\"UINT8\",\"shape\":[2],\"parameters\":{"
                     "\"binary_data_size\":2}},"
                     "{\"name\":\"O\",\"datatype\":\"UINT8\",\"shape\":[2],\"data\":[0,255]},"
                     "{\"name\":\"O\",\"datatype\":\"INT8\",\"shape\":[2],\"parameters\":{\"binary_"
                     "data_size\":2}}]}";
        struct infer_output   outputs[] = { TENSOR(UINT8, BINARY, u8s), TENSOR(UINT8, JSON, u8s),
                                            TENSOR(INT8, BINARY, i8s) };
        struct infer_response r = response_of(outputs, 3);
        struct fixture        f;

        (void)state;
        encode(&f, &r);
        assert_null(f.err);
        assert_true(f.body.has_binary);
        assert_int_equal(f.body.n_parts, 1); /* copied behind the JSON */
        assert_int_equal(f.body.json_bytes, sizeof(json) - 1);
        assert_int_equal(f.sent.len, sizeof(json) - 1 + 4);
        assert_memory_equal(f.sent.ptr, json, sizeof(json) - 1);
        assert_memory_equal(f.sent.ptr + sizeof(json) - 1, "\0\xff\x80\x7f", 4);
        close_fixture(&f);
}

/* Nothing behind the JSON: the answer is plain JSON. */
static void test_empty_binary(void **state) {
        struct infer_output   output = { .name = "O",
                                         .datatype = TRITONSERVER_TYPE_FP32,
                                         .form = INFER_OUTPUT_BINARY,
                                         .shape = (const int64_t[]){ 1, 0 },
                                         .n_dims = 2 };
        struct infer_response r = response_of(&output, 1);
        struct fixture        f;

        (void)state;
        encode(&f, &r);
        assert_null(f.err);
        assert_false(f.body.has_binary);
        assert_string_equal(strbuf_cstr(&f.sent),
                            HEAD "{\"name\":\"O\",\"datatype\":\"FP32\",\"shape\":[1,0],"
                                 "\"parameters\":{\"binary_data_size\":0}}]}");
        close_fixture(&f);
}

static struct buf *new_filled(char fill, size_t bytes) {
        struct buf *b = buf_new(NULL, bytes);

        assert_non_null(b);
        memset(b->bytes, fill, bytes);
        b->len = bytes;
        return b;
}

/* Large outputs are not copied: their parts point to where the backend wrote them. */
static void test_large_binary(void **state) {
        struct buf           *a = new_filled('a', 5000), *b = new_filled('b', 6000);
        struct infer_output   outputs[] = { TENSOR(UINT8, BINARY, u8s), TENSOR(UINT8, BINARY, u8s),
                                            TENSOR(INT8, BINARY, i8s), TENSOR(UINT8, BINARY, u8s) };
        struct infer_response r = response_of(outputs, 4);
        const struct http_part *parts;
        struct fixture          f;

        (void)state;
        outputs[1].bytes = str_range(a->bytes, a->len);
        outputs[1].holder = a;
        outputs[3].bytes = str_range(b->bytes, b->len);
        outputs[3].holder = b;
        encode(&f, &r);
        buf_unref(a); /* as when the response of the core is deleted; the parts hold on */
        buf_unref(b);

        assert_null(f.err);
        parts = f.body.parts;
        assert_int_equal(f.body.n_parts, 4);
        assert_int_equal(parts[0].len, f.body.json_bytes + 2);
        assert_ptr_equal(parts[1].ptr, a->bytes);
        assert_ptr_equal(parts[1].buf, a);
        assert_int_equal(parts[2].len, 2);
        assert_ptr_equal(parts[3].ptr, b->bytes);
        assert_int_equal(f.sent.len, f.body.json_bytes + 2 + 5000 + 2 + 6000);
        assert_int_equal(f.sent.ptr[f.body.json_bytes + 2], 'a');
        assert_int_equal(f.sent.ptr[f.body.json_bytes + 2 + 5000], '\x80');
        assert_int_equal(f.sent.ptr[f.sent.len - 1], 'b');
        close_fixture(&f);
}

/* Text that is longer than guessed: every character needs six. */
static void test_longer_than_guessed(void **state) {
        static char           controls[4 + 3000] = { (char)(3000 & 0xff), 3000 >> 8 };
        struct infer_output   output = { .name = "O",
                                         .datatype = TRITONSERVER_TYPE_BYTES,
                                         .shape = (const int64_t[]){ 1 },
                                         .n_dims = 1,
                                         .bytes = { controls, sizeof(controls) } };
        struct infer_response r = response_of(&output, 1);
        struct fixture        f;

        (void)state;
        memset(controls + 4, 1, 3000);
        encode(&f, &r);
        assert_null(f.err);
        assert_int_equal(f.sent.len,
                         strlen(HEAD "{\"name\":\"O\",\"datatype\":\"BYTES\",\"shape\":[1],"
                                     "\"data\":[\"\"]}]}") +
                                 6 * 3000);
        assert_non_null(strstr(strbuf_cstr(&f.sent), "\\u0001\\u0001"));
        close_fixture(&f);
}

static void test_large_json(void **state) {
        enum { N = 100000 };
        static float          values[N];
        struct infer_output   output = TENSOR(FP32, JSON, values);
        struct infer_response r = response_of(&output, 1);
        struct fixture        f;
        const char           *at;

        (void)state;
        for (int i = 0; i < N; i++)
                values[i] = (float)i / 3;
        encode(&f, &r);
        assert_null(f.err);
        assert_int_equal(f.body.n_parts, 1);
        assert_non_null(f.body.parts[0].buf);
        at = strstr(strbuf_cstr(&f.sent), "\"data\":[");
        assert_non_null(at);
        at += strlen("\"data\":[");
        for (int i = 0; i < N; i++) {
                char *end;

                assert_true(strtof(at, &end) == values[i]);
                assert_int_equal(*end, i + 1 < N ? ',' : ']');
                at = end + 1;
        }
        assert_string_equal(at, "}]}");
        close_fixture(&f);
}

static void test_no_outputs(void **state) {
        struct infer_response r = response_of(NULL, 0);
        struct fixture        f;

        (void)state;
        encode(&f, &r);
        assert_null(f.err);
        assert_string_equal(strbuf_cstr(&f.sent), HEAD "]}");
        close_fixture(&f);
}

static void test_out_of_memory(void **state) {
        static float          values[3000];
        struct infer_output   output = TENSOR(FP32, JSON, values);
        struct infer_response r = response_of(&output, 1);
        bool                  is_done = false;

        (void)state;
        for (unsigned n = 1; !is_done; n++) {
                struct arena                 arena, scratch;
                const struct http_infer_room room = { &arena, &scratch, NULL };
                struct http_infer_body       body;
                struct error                *err;

                assert_true(n < 20);
                arena_init(&arena, NULL, 0, 0);
                arena_init(&scratch, NULL, 0, 0);
                mem_fail_after(n);
                err = http_infer_encode(&r, &room, &body);
                mem_fail_after(0);
                if (err != NULL)
                        assert_non_null(strstr(err->message, "out of memory"));
                else
                        drop_body(&body);
                is_done = err == NULL;
                error_free(err);
                arena_done(&arena);
                arena_done(&scratch);
        }
}

SUITE(http_infer_encode) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_json_data),      cmocka_unit_test(test_json_strings),
                cmocka_unit_test(test_all_members),    cmocka_unit_test(test_half_floats),
                cmocka_unit_test(test_small_binary),   cmocka_unit_test(test_empty_binary),
                cmocka_unit_test(test_large_binary),   cmocka_unit_test(test_longer_than_guessed),
                cmocka_unit_test(test_large_json),     cmocka_unit_test(test_no_outputs),
                cmocka_unit_test(test_extreme_shapes), cmocka_unit_test(test_out_of_memory),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
