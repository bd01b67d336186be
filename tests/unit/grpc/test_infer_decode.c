/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/mem.h"
#include "grpc/decode_fixture.h"

#include <stdlib.h>
#include <string.h>

static bool is_in_message(struct str bytes) {
        return bytes.ptr >= f.bytes && bytes.ptr + bytes.len <= f.bytes + f.message.len;
}

static void raw_input(void **state) {
        struct one_input m;

        (void)state;
        one_input_init(&m, "FP32");
        m.request.model_version = (char *)"7";
        m.request.id = (char *)"an id";
        m.raws[0] = (ProtobufCBinaryData)BYTES("abcdefghijkl");
        m.request.n_raw_input_contents = 1;
        put_message(&m.request.base);
        assert_decodes();

        assert_string_equal(f.wire.model_name, "m");
        assert_string_equal(f.wire.model_version, "7");
        assert_string_equal(f.wire.request.id, "an id");
        assert_false(f.wire.wants_empty_final);
        assert_true(f.wire.request.is_binary_by_default);
        assert_int_equal(f.wire.request.n_inputs, 1);
        assert_int_equal(f.wire.request.n_outputs, 0);
        assert_int_equal(f.wire.request.n_parameters, 0);

        const struct infer_input *in = &f.wire.request.inputs[0];

        assert_string_equal(in->name, "INPUT0");
        assert_string_equal(in->datatype_name, "FP32");
        assert_int_equal(in->datatype, TRITONSERVER_TYPE_FP32);
        assert_int_equal(in->n_dims, 2);
        assert_int_equal(in->shape[0], 3);
        assert_int_equal(in->shape[1], -1);
        assert_true(str_is(in->bytes, "abcdefghijkl"));
        assert_true(is_in_message(in->bytes));
        assert_null(in->converted);
        assert_null(in->shared_memory.region);
}

static void empty_message(void **state) {
        (void)state;
        assert_decodes();
        assert_string_equal(f.wire.model_name, "");
        assert_string_equal(f.wire.model_version, "");
        assert_string_equal(f.wire.request.id, "");
        assert_int_equal(f.wire.request.n_inputs, 0);
}

static void unknown_datatype_is_the_cores_to_refuse(void **state) {
        struct one_input m;

        (void)state;
        one_input_init(&m, "FP99");
        m.raws[0] = (ProtobufCBinaryData)BYTES("x");
        m.request.n_raw_input_contents = 1;
        put_message(&m.request.base);
        assert_decodes();
        assert_int_equal(f.wire.request.inputs[0].datatype, TRITONSERVER_TYPE_INVALID);
        assert_string_equal(f.wire.request.inputs[0].datatype_name, "FP99");
}

/* ---- typed contents ---- */

static void put_contents(const char *datatype, void (*fill)(Inference__InferTensorContents *c)) {
        struct one_input m;

        one_input_init(&m, datatype);
        m.input.contents = &m.contents;
        fill(&m.contents);
        put_message(&m.request.base);
}

static void fill_bool(Inference__InferTensorContents *c) {
        static protobuf_c_boolean values[] = { 1, 0, 1 };

        c->bool_contents = values;
        c->n_bool_contents = 3;
}

static void fill_int(Inference__InferTensorContents *c) {
        static int32_t values[] = { 1, -2, 300 };

        c->int_contents = values;
        c->n_int_contents = 3;
}

static void fill_int64(Inference__InferTensorContents *c) {
        static int64_t values[] = { INT64_MIN, 0, INT64_MAX };

        c->int64_contents = values;
        c->n_int64_contents = 3;
}

static void fill_uint(Inference__InferTensorContents *c) {
        static uint32_t values[] = { 1, 255, 4294967295 };

        c->uint_contents = values;
        c->n_uint_contents = 3;
}

static void fill_uint64(Inference__InferTensorContents *c) {
        static uint64_t values[] = { 1, UINT64_MAX };

        c->uint64_contents = values;
        c->n_uint64_contents = 2;
}

static void fill_fp32(Inference__InferTensorContents *c) {
        static float values[] = { 1.5F, -0.0F, 3e38F };

        c->fp32_contents = values;
        c->n_fp32_contents = 3;
}

static void fill_fp64(Inference__InferTensorContents *c) {
        static double values[] = { 1.5, -1e300 };

        c->fp64_contents = values;
        c->n_fp64_contents = 2;
}

static void fill_bytes(Inference__InferTensorContents *c) {
        static ProtobufCBinaryData values[] = { BYTES("ab"), { 0, NULL }, BYTES("\0\xff") };

        c->bytes_contents = values;
        c->n_bytes_contents = 3;
}

static void fill_nothing(Inference__InferTensorContents *c) {
        (void)c;
}

struct contents_row {
        const char *datatype;
        void (*fill)(Inference__InferTensorContents *c);
        const void *expected;
        size_t      len;
        bool        is_borrowed;
};

#define ROW(datatype, fill, borrowed, ...)                                                         \
        { datatype, fill, __VA_ARGS__, sizeof(__VA_ARGS__), borrowed }

static void typed_contents(void **state) {
        const struct contents_row rows[] = {
                ROW("BOOL", fill_bool, false, (uint8_t[]){ 1, 0, 1 }),
                ROW("INT8", fill_int, false, (int8_t[]){ 1, -2, 44 }),
                ROW("INT16", fill_int, false, (int16_t[]){ 1, -2, 300 }),
                ROW("INT32", fill_int, false, (int32_t[]){ 1, -2, 300 }),
                ROW("INT64", fill_int64, false, (int64_t[]){ INT64_MIN, 0, INT64_MAX }),
                ROW("UINT8", fill_uint, false, (uint8_t[]){ 1, 255, 255 }),
                ROW("UINT16", fill_uint, false, (uint16_t[]){ 1, 255, 65535 }),
                ROW("UINT32", fill_uint, false, (uint32_t[]){ 1, 255, 4294967295 }),
                ROW("UINT64", fill_uint64, false, (uint64_t[]){ 1, UINT64_MAX }),
                ROW("FP32", fill_fp32, true, (float[]){ 1.5F, -0.0F, 3e38F }),
                ROW("FP64", fill_fp64, true, (double[]){ 1.5, -1e300 }),
                { "BYTES", fill_bytes, "\2\0\0\0ab\0\0\0\0\2\0\0\0\0\xff", 16, false },
                { "FP32", fill_nothing, "", 0, false },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                const struct infer_input *in;

                put_contents(rows[i].datatype, rows[i].fill);
                assert_decodes();
                in = &f.wire.request.inputs[0];
                assert_int_equal(in->bytes.len, rows[i].len);
                if (rows[i].len > 0)
                        assert_memory_equal(in->bytes.ptr, rows[i].expected, rows[i].len);
                assert_int_equal(rows[i].len > 0 && is_in_message(in->bytes), rows[i].is_borrowed);
        }
}

static void large_contents_are_in_a_buffer(void **state) {
        int32_t         *values = mem_alloc(5000 * sizeof(*values));
        struct one_input m;

        (void)state;
        for (int i = 0; i < 5000; i++)
                values[i] = i * 7919 - 2000000;
        one_input_init(&m, "INT32");
        m.input.contents = &m.contents;
        m.contents.int_contents = values;
        m.contents.n_int_contents = 5000;
        put_message(&m.request.base);
        assert_decodes();
        assert_non_null(f.wire.request.inputs[0].converted);
        assert_int_equal(f.wire.request.inputs[0].bytes.len, 5000 * sizeof(*values));
        assert_memory_equal(f.wire.request.inputs[0].bytes.ptr, values, 5000 * sizeof(*values));
        free(values);
}

struct refusal_row {
        const char *datatype;
        void (*fill)(Inference__InferTensorContents *c);
        const char *text;
};

static void fill_int_and_fp32(Inference__InferTensorContents *c) {
        fill_int(c);
        fill_fp32(c);
}

#define UNEXPECTED "unexpected explicit tensor data for input tensor 'INPUT0' for model 'm'"

static void refused_contents(void **state) {
        static const struct refusal_row rows[] = {
                { "FP32", fill_int, UNEXPECTED " of type 'INT32', expected datatype 'FP32'" },
                { "FP16", fill_fp32, UNEXPECTED " of type 'FP32', expected datatype 'FP16'" },
                { "BF16", fill_fp32, UNEXPECTED " of type 'FP32', expected datatype 'BF16'" },
                { "INT64", fill_uint, UNEXPECTED " of type 'UINT32', expected datatype 'INT64'" },
                { "INT32", fill_int64, UNEXPECTED " of type 'INT64', expected datatype 'INT32'" },
                { "UINT64", fill_bool, UNEXPECTED " of type 'BOOL', expected datatype 'UINT64'" },
                { "FP32", fill_fp64, UNEXPECTED " of type 'FP64', expected datatype 'FP32'" },
                { "FP32", fill_uint64, UNEXPECTED " of type 'UINT64', expected datatype 'FP32'" },
                { "FP32", fill_bytes, UNEXPECTED " of type 'BYTES', expected datatype 'FP32'" },
                { "nope", fill_fp32, UNEXPECTED " of type 'FP32', expected datatype '<invalid>'" },
                { "INT32", fill_int_and_fp32, UNEXPECTED ", binary data was already supplied." },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                put_contents(rows[i].datatype, rows[i].fill);
                assert_null(decode());
                assert_null(f.wire.parameter_fault);
                assert_fault(f.wire.tensor_fault, rows[i].text);
        }
}

static void where_data_is(void **state) {
        struct one_input m;

        (void)state;
        one_input_init(&m, "FP32");
        put_message(&m.request.base);
        assert_null(decode());
        assert_fault(f.wire.tensor_fault,
                     "unable to find data for input tensor 'INPUT0' for model 'm' in request.");

        m.input.contents = &m.contents;
        fill_fp32(&m.contents);
        m.raws[0] = m.raws[1] = (ProtobufCBinaryData)BYTES("abcd");
        m.request.n_raw_input_contents = 1;
        put_message(&m.request.base);
        assert_null(decode());
        assert_fault(f.wire.tensor_fault,
                     "contents field must not be specified when using raw_input_contents for "
                     "'INPUT0' for model 'm'");

        /* What nobody takes is ignored. */
        m.input.contents = NULL;
        m.request.n_raw_input_contents = 2;
        put_message(&m.request.base);
        assert_decodes();
        assert_true(str_is(f.wire.request.inputs[0].bytes, "abcd"));
}

/* ---- bytes that protobuf-c would not write ---- */

static void numbers_one_by_one(void **state) {
        (void)state;
        /* inputs { name: "I" datatype: "INT32" shape: 2 shape: 1
         *          contents { int_contents: 5 int_contents: -1 } } */
        PUT("\x2a\x1f"
            "\x0a\x01I\x12\x05INT32\x18\x02\x18\x01"
            "\x2a\x0f\x10\x05\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x48\x07");
        assert_decodes();
        assert_int_equal(f.wire.request.inputs[0].n_dims, 2);
        assert_int_equal(f.wire.request.inputs[0].shape[0], 2);
        assert_int_equal(f.wire.request.inputs[0].shape[1], 1);
        assert_int_equal(f.wire.request.inputs[0].bytes.len, 8);
        assert_memory_equal(f.wire.request.inputs[0].bytes.ptr, "\5\0\0\0\xff\xff\xff\xff", 8);
}

static void floats_in_pieces(void **state) {
        (void)state;
        /* fp32_contents: [1.0], then one by one 2.0; then a second `contents` with [3.0] */
        PUT("\x2a\x22"
            "\x0a\x01I\x12\x04"
            "FP32"
            "\x2a\x0b\x32\x04\x00\x00\x80\x3f\x35\x00\x00\x00\x40"
            "\x2a\x06\x32\x04\x00\x00\x40\x40");
        f.message.ptr[1] = (char)(f.message.len - 2);
        assert_decodes();
        assert_int_equal(f.wire.request.inputs[0].bytes.len, 12);
        assert_memory_equal(f.wire.request.inputs[0].bytes.ptr, ((float[]){ 1, 2, 3 }), 12);
}

static void the_last_one_counts(void **state) {
        (void)state;
        /* model_name twice, a parameter twice with other types, an unknown field in between */
        PUT("\x0a\x01"
            "a"
            "\x22\x09\x0a\x01p\x12\x04\x0a\x00\x08\x01"
            "\xfa\x01\x02zz"
            "\x22\x0b\x0a\x01p\x12\x06\x08\x01\x1a\x02xy"
            "\x22\x07\x0a\x01q\x12\x02\x10\x05"
            "\x0a\x01"
            "b");
        assert_decodes();
        assert_string_equal(f.wire.model_name, "b");
        assert_int_equal(f.wire.request.n_parameters, 2);
        assert_string_equal(f.wire.request.parameters[0].name, "p");
        assert_int_equal(f.wire.request.parameters[0].type, TRITONSERVER_PARAMETER_STRING);
        assert_string_equal(f.wire.request.parameters[0].value.text, "xy");
        assert_string_equal(f.wire.request.parameters[1].name, "q");
}

static void raw_contents_may_come_first(void **state) {
        (void)state;
        /* three raws around three inputs; the second input has shape only */
        PUT("\x3a\x02"
            "AA\x2a\x03\x0a\x01x\x3a\x02"
            "BB\x2a\x03\x0a\x01y\x2a\x03\x0a\x01z\x3a\x00");
        assert_decodes();
        assert_true(str_is(f.wire.request.inputs[0].bytes, "AA"));
        assert_true(str_is(f.wire.request.inputs[1].bytes, "BB"));
        assert_int_equal(f.wire.request.inputs[2].bytes.len, 0);
}

static void malformed(void **state) {
        (void)state;
        PUT("\x0a\x05"
            "abc");
        assert_malformed();
        PUT("\x0a\x01\xff"); /* not UTF-8 */
        assert_malformed();
        PUT("\x00"); /* field 0 */
        assert_malformed();
        PUT("\x2a\x02\x18\x80"); /* a varint without its end, in an input */
        assert_malformed();
        PUT("\x2a\x04\x1a\x02\x01\x80"); /* the same, packed */
        assert_malformed();
        PUT("\x22\x04\x12\x02\x1a\x05"); /* in a parameter */
        assert_malformed();
        PUT("\x2a\x0b\x12\x04"
            "FP32\x2a\x03\x32\x01\x00"); /* a quarter of a float */
        assert_malformed();
        PUT("\x2a\x0c\x12\x05"
            "INT32\x2a\x03\x12\x01\x80"); /* a number without its end */
        assert_malformed();
        PUT("\x32\x03\x0a\x02x"); /* an output */
        assert_malformed();
}

static void nul_in_a_name(void **state) {
        struct error *err;

        (void)state;
        PUT("\x0a\x03"
            "a\0b");
        err = decode();
        assert_non_null(err);
        assert_string_equal(err->message,
                            "a string of the ModelInferRequest contains a NUL character");
        error_free(err);
}

static void put_rich_message(void) {
        struct one_input m;

        one_input_init(&m, "BYTES");
        m.request.id = (char *)"id";
        m.input.contents = &m.contents;
        fill_bytes(&m.contents);
        put_message(&m.request.base);
        STRBUF_PUT_LIT(&f.message, "\x22\x0b\x0a\x01p\x12\x06\x08\x01\x1a\x02xy"
                                   "\x32\x03\x0a\x01O");
}

/* Every prefix is a message or is refused; nothing else happens. */
static void cut_short(void **state) {
        size_t len;

        (void)state;
        put_rich_message();
        assert_decodes();
        for (len = f.message.len; len > 0; len--) {
                f.message.len = len - 1;
                error_free(decode());
        }
}

static void limits(void **state) {
        struct error *err;

        (void)state;
        for (int i = 0; i <= INFER_MAX_TENSORS; i++)
                STRBUF_PUT_LIT(&f.message, "\x2a\x00");
        err = decode();
        assert_non_null(err);
        assert_string_equal(err->message, "request has more than 4096 inputs");
        error_free(err);

        PUT("\x2a\x84\x02\x1a\x81\x02");
        for (int i = 0; i < 257; i++)
                strbuf_putc(&f.message, 1);
        err = decode();
        assert_non_null(err);
        assert_string_equal(err->message, "shape of an input has more than 256 dimensions");
        error_free(err);

        PUT("\x2a\x83\x02\x1a\x80\x02");
        for (int i = 0; i < 256; i++)
                strbuf_putc(&f.message, 1);
        assert_null(decode());
        assert_int_equal(f.wire.request.inputs[0].n_dims, 256);
        assert_int_equal(f.wire.request.inputs[0].shape[255], 1);

        strbuf_clear(&f.message);
        STRBUF_PUT_LIT(&f.message, "\x2a\x00");
        for (int i = 0; i <= INFER_MAX_TENSORS; i++)
                STRBUF_PUT_LIT(&f.message, "\x3a\x01x");
        assert_decodes();
        assert_true(str_is(f.wire.request.inputs[0].bytes, "x"));
}

/* The last of each counts, and is the only one that is copied. */
static void repeated_strings_take_no_memory(void **state) {
        static const char model[] = "\x0a\x14"
                                    "a model's name, long";
        static const char version[] = "\x12\x14"
                                      "a version that is so";
        static const char id[] = "\x1a\x14"
                                 "an id that is so long";
        static const char name[] = "\x0a\x14"
                                   "the name of an input";
        static const char datatype[] = "\x12\x14"
                                       "some datatype or else";
        AUTO_STRBUF       input = { 0 };
        const int         n = 100000;

        (void)state;
        strbuf_init(&input, 0);
        for (int i = 0; i < n; i++) {
                strbuf_put(&f.message, model, 22);
                strbuf_put(&f.message, version, 22);
                strbuf_put(&f.message, id, 22);
                strbuf_put(&input, name, 22);
                strbuf_put(&input, datatype, 22);
        }
        STRBUF_PUT_LIT(&input, "\x0a\x01I");
        STRBUF_PUT_LIT(&f.message, "\x0a\x01m");
        strbuf_putc(&f.message, 0x2a);
        for (size_t left = input.len; left > 0; left >>= 7)
                strbuf_putc(&f.message, (char)((left & 0x7f) | (left > 0x7f ? 0x80 : 0)));
        strbuf_put(&f.message, input.ptr, input.len);
        STRBUF_PUT_LIT(&f.message, "\x3a\x01x");
        assert_decodes();
        assert_string_equal(f.wire.model_name, "m");
        assert_string_equal(f.wire.model_version, "a version that is so");
        assert_string_equal(f.wire.request.inputs[0].name, "I");
        assert_true(f.arena.used_bytes <= 8192);
}

/* 4096 inputs in two bytes each, and so on, are as much as there can be. */
static void lists_take_bounded_memory(void **state) {
        (void)state;
        for (int i = 0; i < INFER_MAX_TENSORS; i++) {
                STRBUF_PUT_LIT(&f.message, "\x2a\x00");
                STRBUF_PUT_LIT(&f.message, "\x32\x00");
                STRBUF_PUT_LIT(&f.message, "\x3a\x00");
        }
        assert_decodes();
        assert_true(f.arena.used_bytes <= INFER_ARENA_BASE_BYTES);
}

/* The n-th allocation fails, for every n. */
static void short_of_memory(void **state) {
        (void)state;
        put_rich_message();
        for (unsigned n = 1;; n++) {
                struct error *err;
                bool          was_hit;

                arena_done(&f.arena);
                arena_init(&f.arena, NULL, 0, 0);
                mem_fail_after(n);
                err = decode();
                was_hit = mem_fail_was_hit();
                mem_fail_after(0);
                if (!was_hit) {
                        assert_null(err);
                        assert_true(n > 1);
                        return;
                }
                assert_non_null(err);
                assert_int_equal(err->code, ERR_UNAVAILABLE);
                error_free(err);
        }
}

SUITE(infer_decode) {
        const struct CMUnitTest tests[] = {
                DECODE_TEST(raw_input),
                DECODE_TEST(empty_message),
                DECODE_TEST(repeated_strings_take_no_memory),
                DECODE_TEST(lists_take_bounded_memory),
                DECODE_TEST(unknown_datatype_is_the_cores_to_refuse),
                DECODE_TEST(typed_contents),
                DECODE_TEST(large_contents_are_in_a_buffer),
                DECODE_TEST(refused_contents),
                DECODE_TEST(where_data_is),
                DECODE_TEST(numbers_one_by_one),
                DECODE_TEST(floats_in_pieces),
                DECODE_TEST(the_last_one_counts),
                DECODE_TEST(raw_contents_may_come_first),
                DECODE_TEST(malformed),
                DECODE_TEST(nul_in_a_name),
                DECODE_TEST(cut_short),
                DECODE_TEST(limits),
                DECODE_TEST(short_of_memory),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
