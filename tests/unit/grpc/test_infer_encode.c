/* SPDX-License-Identifier: BSD-3-Clause */
/* Every answer is compared, byte for byte, with what protobuf-c writes for the same content. */
#include "suite.h"

#include "base/mem.h"
#include "base/strbuf.h"
#include "grpc/infer_encode.h"
#include "grpc_service.pb-c.h"

#include <string.h>

struct fixture {
        struct arena              arena;
        struct infer_answer_parts parts;
        struct strbuf             bytes;    /* of all parts */
        struct strbuf             expected; /* by protobuf-c */
};

static struct fixture f;

static int setup(void **state) {
        (void)state;
        memset(&f, 0, sizeof(f));
        arena_init(&f.arena, NULL, 0, 0);
        strbuf_init(&f.bytes, 0);
        strbuf_init(&f.expected, 0);
        return 0;
}

static int teardown(void **state) {
        (void)state;
        infer_answer_parts_done(&f.parts);
        strbuf_done(&f.bytes);
        strbuf_done(&f.expected);
        arena_done(&f.arena);
        return 0;
}

static void encode(const struct infer_answer *a) {
        struct infer_answer_memory memory = { .arena = &f.arena };
        struct error              *err;

        infer_answer_parts_done(&f.parts);
        err = infer_encode(a, &memory, &f.parts);
        if (err != NULL)
                fail_msg("%s", err->message);
        strbuf_clear(&f.bytes);
        for (size_t i = 0; i < f.parts.n_parts; i++)
                strbuf_put(&f.bytes, f.parts.parts[i].ptr, f.parts.parts[i].len);
        assert_int_equal(f.bytes.len, f.parts.bytes);
}

static void expect(const ProtobufCMessage *m) {
        size_t   len = protobuf_c_message_get_packed_size(m);
        uint8_t *bytes = mem_alloc(len);

        protobuf_c_message_pack(m, bytes);
        strbuf_clear(&f.expected);
        strbuf_put(&f.expected, bytes, len);
        free(bytes);
        assert_int_equal(f.bytes.len, len);
        assert_memory_equal(strbuf_cstr(&f.bytes), strbuf_cstr(&f.expected), len);
}

static void head_only(void **state) {
        Inference__ModelInferResponse m = INFERENCE__MODEL_INFER_RESPONSE__INIT;
        struct infer_answer           a = { .model_name = "m", .model_version = "1", .id = "" };

        (void)state;
        m.model_name = (char *)"m";
        m.model_version = (char *)"1";
        encode(&a);
        expect(&m.base);
        a.id = "an id";
        m.id = (char *)"an id";
        encode(&a);
        expect(&m.base);
}

static void nothing_at_all(void **state) {
        struct infer_answer a = { .model_name = "", .model_version = "", .id = "" };

        (void)state;
        encode(&a);
        assert_int_equal(f.parts.bytes, 0);
        assert_int_equal(f.parts.n_parts, 0);
}

/* Every type of parameter, also with the value that proto3 would leave out elsewhere. */
static void parameters(void **state) {
        static const struct infer_parameter given[] = {
                { "t", TRITONSERVER_PARAMETER_STRING, { .text = "text" } },
                { "e", TRITONSERVER_PARAMETER_STRING, { .text = "" } },
                { "i", TRITONSERVER_PARAMETER_INT, { .integer = -5 } },
                { "z", TRITONSERVER_PARAMETER_INT, { .integer = 0 } },
                { "b", TRITONSERVER_PARAMETER_BOOL, { .boolean = true } },
                { "n", TRITONSERVER_PARAMETER_BOOL, { .boolean = false } },
                { "d", TRITONSERVER_PARAMETER_DOUBLE, { .real = 0.1 } },
        };
        enum { N = ARRAY_LEN(given) };
        Inference__ModelInferResponse                   m = INFERENCE__MODEL_INFER_RESPONSE__INIT;
        Inference__ModelInferResponse__ParametersEntry  entries[N];
        Inference__ModelInferResponse__ParametersEntry *at[N];
        Inference__InferParameter                       values[N];
        struct infer_answer                             a = { .model_name = "m",
                                                              .model_version = "1",
                                                              .id = "",
                                                              .parameters = given,
                                                              .n_parameters = N };

        (void)state;
        for (int i = 0; i < N; i++) {
                inference__model_infer_response__parameters_entry__init(&entries[i]);
                inference__infer_parameter__init(&values[i]);
                entries[i].key = (char *)given[i].name;
                entries[i].value = &values[i];
                at[i] = &entries[i];
        }
        values[0].parameter_choice_case = values[1].parameter_choice_case =
                INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_STRING_PARAM;
        values[0].string_param = (char *)"text";
        values[1].string_param = (char *)"";
        values[2].parameter_choice_case = values[3].parameter_choice_case =
                INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_INT64_PARAM;
        values[2].int64_param = -5;
        values[4].parameter_choice_case = values[5].parameter_choice_case =
                INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_BOOL_PARAM;
        values[4].bool_param = 1;
        values[6].parameter_choice_case = INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_DOUBLE_PARAM;
        values[6].double_param = 0.1;
        m.model_name = (char *)"m";
        m.model_version = (char *)"1";
        m.parameters = at;
        m.n_parameters = N;
        encode(&a);
        expect(&m.base);
}

/* Three outputs: one copied, one written from where it is, one in shared memory, one empty. */
struct outputs {
        struct infer_output                               given[4];
        int64_t                                           shape[3];
        struct buf                                       *large;
        Inference__ModelInferResponse                     message;
        Inference__ModelInferResponse__InferOutputTensor  tensors[4];
        Inference__ModelInferResponse__InferOutputTensor *at[4];
        ProtobufCBinaryData                               raws[4];
};

#define LARGE_BYTES 5000

static void outputs_init(struct outputs *o) {
        static const char *const names[] = { "SMALL", "LARGE", "SHARED", "EMPTY" };
        static const char *const types[] = { "FP32", "INT64", "BYTES", "BF16" };

        memset(o, 0, sizeof(*o));
        o->shape[0] = -1;
        o->shape[1] = 300;
        o->large = buf_new(NULL, LARGE_BYTES);
        for (size_t i = 0; i < LARGE_BYTES; i++)
                o->large->bytes[i] = (char)(i * 31);
        inference__model_infer_response__init(&o->message);
        for (int i = 0; i < 4; i++) {
                inference__model_infer_response__infer_output_tensor__init(&o->tensors[i]);
                o->tensors[i].name = (char *)names[i];
                o->tensors[i].datatype = (char *)types[i];
                o->tensors[i].shape = o->shape;
                o->tensors[i].n_shape = (size_t)i; /* none at all, too */
                o->at[i] = &o->tensors[i];
                o->given[i] = (struct infer_output){ .name = names[i],
                                                     .shape = o->shape,
                                                     .n_dims = (uint32_t)i,
                                                     .form = INFER_OUTPUT_BINARY };
        }
        o->given[0].datatype = TRITONSERVER_TYPE_FP32;
        o->given[0].bytes = str_range("abcd", 4);
        o->given[1].datatype = TRITONSERVER_TYPE_INT64;
        o->given[1].bytes = str_range(o->large->bytes, LARGE_BYTES);
        o->given[1].holder = o->large;
        o->given[2].datatype = TRITONSERVER_TYPE_BYTES;
        o->given[2].bytes = str_range("elsewhere", 9);
        o->given[2].form = INFER_OUTPUT_SHARED_MEMORY;
        o->given[3].datatype = TRITONSERVER_TYPE_BF16;
        o->raws[0] = (ProtobufCBinaryData){ 4, (uint8_t *)"abcd" };
        o->raws[1] = (ProtobufCBinaryData){ LARGE_BYTES, (uint8_t *)o->large->bytes };
        o->message.model_name = (char *)"m";
        o->message.model_version = (char *)"1";
        o->message.outputs = o->at;
        o->message.n_outputs = 4;
        o->message.raw_output_contents = o->raws;
        o->message.n_raw_output_contents = 4;
}

static void outputs(void **state) {
        struct infer_answer a = { .model_name = "m", .model_version = "1", .id = "" };
        struct outputs      o;

        (void)state;
        outputs_init(&o);
        a.outputs = o.given;
        a.n_outputs = 4;
        encode(&a);
        expect(&o.message.base);

        /* Text, the large tensor as it lies there, the rest of the text. */
        assert_int_equal(f.parts.n_parts, 3);
        assert_ptr_equal(f.parts.parts[1].ptr, o.large->bytes);
        assert_int_equal(f.parts.parts[1].len, LARGE_BYTES);
        assert_ptr_equal(f.parts.parts[1].buf, o.large);
        assert_null(f.parts.parts[0].buf);
        buf_unref(o.large); /* the part holds it */
}

static void streamed(void **state) {
        Inference__ModelStreamInferResponse m = INFERENCE__MODEL_STREAM_INFER_RESPONSE__INIT;
        Inference__ModelInferResponse__ParametersEntry entry =
                INFERENCE__MODEL_INFER_RESPONSE__PARAMETERS_ENTRY__INIT;
        Inference__ModelInferResponse__ParametersEntry *at[] = { &entry };
        Inference__InferParameter                       value = INFERENCE__INFER_PARAMETER__INIT;
        struct infer_answer                             a = { .model_name = "m",
                                                              .model_version = "1",
                                                              .id = "x",
                                                              .is_streamed = true,
                                                              .has_final = true };
        struct outputs                                  o;

        (void)state;
        outputs_init(&o);
        a.outputs = o.given;
        a.n_outputs = 4;
        o.message.id = (char *)"x";
        m.infer_response = &o.message;
        entry.key = (char *)"triton_final_response";
        entry.value = &value;
        value.parameter_choice_case = INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_BOOL_PARAM;
        o.message.parameters = at;
        o.message.n_parameters = 1;
        for (int is_final = 0; is_final < 2; is_final++) {
                a.is_final = is_final == 1;
                value.bool_param = is_final;
                encode(&a);
                expect(&m.base);
        }
        a.outputs = NULL;
        a.n_outputs = 0;
        a.error_message = "it failed";
        o.message.n_outputs = o.message.n_raw_output_contents = 0;
        m.error_message = (char *)"it failed";
        encode(&a);
        expect(&m.base);
        buf_unref(o.large);
}

/* A refusal tells no more than the id; without one, infer_response is there and empty. */
static void streamed_refusal(void **state) {
        Inference__ModelStreamInferResponse m = INFERENCE__MODEL_STREAM_INFER_RESPONSE__INIT;
        Inference__ModelInferResponse       inner = INFERENCE__MODEL_INFER_RESPONSE__INIT;
        struct infer_answer                 a = { .model_name = "",
                                                  .model_version = "",
                                                  .id = "",
                                                  .is_streamed = true,
                                                  .error_message = "no" };

        (void)state;
        m.infer_response = &inner;
        m.error_message = (char *)"no";
        encode(&a);
        expect(&m.base);
}

/* Beyond a few KiB the text is in a buffer of its own, and the parts hold it. */
static void long_text(void **state) {
        Inference__ModelInferResponse m = INFERENCE__MODEL_INFER_RESPONSE__INIT;
        struct infer_answer           a = { .model_name = "m", .model_version = "1" };
        char                         *id = mem_alloc(10001);

        (void)state;
        memset(id, 'x', 10000);
        id[10000] = '\0';
        a.id = m.id = id;
        m.model_name = (char *)"m";
        m.model_version = (char *)"1";
        encode(&a);
        expect(&m.base);
        assert_int_equal(f.parts.n_parts, 1);
        assert_non_null(f.parts.parts[0].buf);
        free(id);
}

static void too_large(void **state) {
        struct infer_answer_memory memory = { .arena = &f.arena };
        struct infer_output        out = { .name = "O", .datatype = TRITONSERVER_TYPE_UINT8 };
        struct infer_answer        a = {
                       .model_name = "m", .model_version = "1", .id = "", .outputs = &out, .n_outputs = 1
        };
        struct error *err;

        (void)state;
        /* Never read: the size alone is refused. 6 bytes of the head, 10 of the output. */
        out.bytes = str_range("", (size_t)INT32_MAX);
        out.form = INFER_OUTPUT_BINARY;
        err = infer_encode(&a, &memory, &f.parts);
        assert_non_null(err);
        assert_int_equal(err->code, ERR_INVALID_ARG);
        assert_string_equal(err->message, "Response has byte size 2147483671 which exceeds gRPC's "
                                          "byte size limit 2147483647.");
        error_free(err);
}

static void short_of_memory(void **state) {
        struct infer_answer        a = { .model_name = "m", .model_version = "1", .id = "" };
        struct infer_answer_memory memory = { .arena = &f.arena };
        struct outputs             o;

        (void)state;
        outputs_init(&o);
        o.given[0].bytes = str_range(o.large->bytes, LARGE_BYTES); /* text in a buffer */
        a.outputs = o.given;
        a.n_outputs = 4;
        for (unsigned n = 1;; n++) {
                struct error *err;
                bool          was_hit;

                arena_done(&f.arena);
                arena_init(&f.arena, NULL, 0, 0);
                mem_fail_after(n);
                err = infer_encode(&a, &memory, &f.parts);
                was_hit = mem_fail_was_hit();
                mem_fail_after(0);
                if (!was_hit) {
                        assert_null(err);
                        assert_true(n > 2);
                        break;
                }
                assert_non_null(err);
                error_free(err);
        }
        buf_unref(o.large);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

SUITE(infer_encode) {
        const struct CMUnitTest tests[] = {
                TEST(head_only), TEST(nothing_at_all), TEST(parameters),
                TEST(outputs),   TEST(streamed),       TEST(streamed_refusal),
                TEST(long_text), TEST(too_large),      TEST(short_of_memory),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
