/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/strbuf.h"
#include "grpc/infer_decode.h"
#include "grpc_service.pb-c.h"

/* What one test works with: a message, and what became of it. */
struct fixture {
        struct arena      arena;
        struct strbuf     message;
        struct infer_wire wire;
        char             *bytes; /* exactly as long as the message, so that overruns show */
};

static struct fixture f;

static int setup(void **state) {
        (void)state;
        memset(&f, 0, sizeof(f));
        arena_init(&f.arena, NULL, 0, 0);
        strbuf_init(&f.message, 0);
        f.wire = (struct infer_wire){ .model_name = "" };
        infer_request_init(&f.wire.request);
        return 0;
}

static int teardown(void **state) {
        (void)state;
        infer_wire_done(&f.wire);
        strbuf_done(&f.message);
        arena_done(&f.arena);
        free(f.bytes);
        return 0;
}

static struct error *decode(void) {
        struct infer_source source = { .arena = &f.arena };

        infer_wire_done(&f.wire);
        free(f.bytes);
        f.bytes = mem_alloc(f.message.len);
        memcpy(f.bytes, strbuf_cstr(&f.message), f.message.len);
        source.message = str_range(f.bytes, f.message.len);
        return infer_decode(&source, &f.wire);
}

static void assert_decodes(void) {
        struct error *err = decode();

        if (err)
                fail_msg("refused: %s", err->message);
        if (f.wire.parameter_fault)
                fail_msg("fault: %s", f.wire.parameter_fault->message);
        if (f.wire.tensor_fault)
                fail_msg("fault: %s", f.wire.tensor_fault->message);
}

static void assert_fault(const struct error *fault, const char *text) {
        assert_non_null(fault);
        assert_string_equal(fault->message, text);
        assert_int_equal(fault->code, ERR_INVALID_ARG);
}

static void assert_malformed(void) {
        struct error *err = decode();

        assert_non_null(err);
        assert_int_equal(err->code, ERR_INVALID_ARG);
        assert_string_equal(err->message, "failed to parse the ModelInferRequest message");
        error_free(err);
}

/* ---- messages by protobuf-c ---- */

static void put_message(const ProtobufCMessage *m) {
        size_t   len = protobuf_c_message_get_packed_size(m);
        uint8_t *bytes = mem_alloc(len);

        protobuf_c_message_pack(m, bytes);
        strbuf_clear(&f.message);
        strbuf_put(&f.message, bytes, len);
        free(bytes);
}

#define BYTES(literal)                                                                             \
        { sizeof("" literal) - 1, (uint8_t *)(literal) }

/* One input and what it needs, to be changed by tests. */
struct one_input {
        Inference__ModelInferRequest                    request;
        Inference__ModelInferRequest__InferInputTensor  input;
        Inference__ModelInferRequest__InferInputTensor *inputs[1];
        Inference__InferTensorContents                  contents;
        ProtobufCBinaryData                             raws[2];
        int64_t                                         shape[2];
};

static void one_input_init(struct one_input *m, const char *datatype) {
        memset(m, 0, sizeof(*m));
        inference__model_infer_request__init(&m->request);
        inference__model_infer_request__infer_input_tensor__init(&m->input);
        inference__infer_tensor_contents__init(&m->contents);
        m->shape[0] = 3;
        m->shape[1] = -1;
        m->inputs[0] = &m->input;
        m->input.name = (char *)"INPUT0";
        m->input.datatype = (char *)datatype;
        m->input.shape = m->shape;
        m->input.n_shape = 2;
        m->request.model_name = (char *)"m";
        m->request.inputs = m->inputs;
        m->request.n_inputs = 1;
        m->request.raw_input_contents = m->raws;
}

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

/* ---- parameters ---- */

static const Inference__InferParameter *parameter(Inference__InferParameter *p, const char *type) {
        inference__infer_parameter__init(p);
        if (strcmp(type, "bool") == 0) {
                p->parameter_choice_case = INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_BOOL_PARAM;
                p->bool_param = 1;
        } else if (strcmp(type, "int64") == 0) {
                p->parameter_choice_case = INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_INT64_PARAM;
                p->int64_param = 42;
        } else if (strcmp(type, "negative") == 0) {
                p->parameter_choice_case = INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_INT64_PARAM;
                p->int64_param = -1;
        } else if (strcmp(type, "uint64") == 0) {
                p->parameter_choice_case =
                        INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_UINT64_PARAM;
                p->uint64_param = 43;
        } else if (strcmp(type, "double") == 0) {
                p->parameter_choice_case =
                        INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_DOUBLE_PARAM;
                p->double_param = 0.5;
        } else if (strcmp(type, "string") == 0) {
                p->parameter_choice_case =
                        INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_STRING_PARAM;
                p->string_param = (char *)"text";
        }
        return p;
}

/* A request with one parameter; "unset" is one without a value. */
static void put_parameter(const char *name, const char *type) {
        Inference__ModelInferRequest                  m = INFERENCE__MODEL_INFER_REQUEST__INIT;
        Inference__ModelInferRequest__ParametersEntry entry =
                INFERENCE__MODEL_INFER_REQUEST__PARAMETERS_ENTRY__INIT;
        Inference__ModelInferRequest__ParametersEntry *entries[] = { &entry };
        Inference__InferParameter                      value;

        entry.key = (char *)name;
        entry.value = (Inference__InferParameter *)parameter(&value, type);
        m.parameters = entries;
        m.n_parameters = 1;
        put_message(&m.base);
}

static void parameters_of_the_request(void **state) {
        struct infer_request *q = &f.wire.request;

        (void)state;
        put_parameter("sequence_id", "int64");
        assert_decodes();
        assert_int_equal(q->sequence_id, 42);
        assert_null(q->sequence_name);
        put_parameter("sequence_id", "negative");
        assert_decodes();
        assert_true(q->sequence_id == UINT64_MAX);
        put_parameter("sequence_id", "string");
        assert_decodes();
        assert_string_equal(q->sequence_name, "text");
        put_parameter("sequence_start", "bool");
        assert_decodes();
        assert_int_equal(q->flags, TRITONSERVER_REQUEST_FLAG_SEQUENCE_START);
        put_parameter("sequence_end", "bool");
        assert_decodes();
        assert_int_equal(q->flags, TRITONSERVER_REQUEST_FLAG_SEQUENCE_END);
        put_parameter("priority", "int64");
        assert_decodes();
        assert_int_equal(q->priority, 42);
        put_parameter("priority", "uint64");
        assert_decodes();
        assert_int_equal(q->priority, 43);
        put_parameter("timeout", "int64");
        assert_decodes();
        assert_int_equal(q->timeout_us, 42);
        put_parameter("triton_enable_empty_final_response", "bool");
        assert_decodes();
        assert_true(f.wire.wants_empty_final);
        assert_int_equal(q->n_parameters, 0);
}

static void free_parameters(void **state) {
        struct infer_request *q = &f.wire.request;

        (void)state;
        put_parameter("mine", "bool");
        assert_decodes();
        assert_int_equal(q->n_parameters, 1);
        assert_string_equal(q->parameters[0].name, "mine");
        assert_int_equal(q->parameters[0].type, TRITONSERVER_PARAMETER_BOOL);
        assert_true(q->parameters[0].value.boolean);
        put_parameter("mine", "int64");
        assert_decodes();
        assert_int_equal(q->parameters[0].type, TRITONSERVER_PARAMETER_INT);
        assert_int_equal(q->parameters[0].value.integer, 42);
        put_parameter("mine", "double");
        assert_decodes();
        assert_int_equal(q->parameters[0].type, TRITONSERVER_PARAMETER_DOUBLE);
        assert_true(q->parameters[0].value.real == 0.5);
        put_parameter("mine", "string");
        assert_decodes();
        assert_int_equal(q->parameters[0].type, TRITONSERVER_PARAMETER_STRING);
        assert_string_equal(q->parameters[0].value.text, "text");
}

struct fault_row {
        const char *name, *type, *text;
};

#define TYPE_OF(name) "invalid value type for '" name "' parameter, expected "
#define RESERVED                                                                                   \
        "parameter keys starting with 'triton_' are reserved for Triton usage. Only the "          \
        "following "                                                                               \
        "keys starting with 'triton_' are allowed: triton_enable_empty_final_response"

static void refused_parameters(void **state) {
        static const struct fault_row rows[] = {
                { "sequence_id", "bool", TYPE_OF("sequence_id") "int64_param or string_param." },
                { "sequence_id", "uint64", TYPE_OF("sequence_id") "int64_param or string_param." },
                { "sequence_start", "int64", TYPE_OF("sequence_start") "bool_param." },
                { "sequence_end", "string", TYPE_OF("sequence_end") "bool_param." },
                { "priority", "string", TYPE_OF("priority") "int64_param or uint64_param." },
                { "priority", "negative", "invalid value for 'priority', expected value >= 0." },
                { "timeout", "uint64", TYPE_OF("timeout") "int64_param." },
                { "triton_enable_empty_final_response", "int64",
                  TYPE_OF("triton_enable_empty_final_response") "bool_param." },
                { "triton_x", "bool", RESERVED },
                { "mine", "uint64", TYPE_OF("mine") "int64_param, bool_param, or string_param." },
                { "mine", "unset", TYPE_OF("mine") "int64_param, bool_param, or string_param." },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                put_parameter(rows[i].name, rows[i].type);
                assert_null(decode());
                assert_null(f.wire.tensor_fault);
                assert_fault(f.wire.parameter_fault, rows[i].text);
        }
}

static void a_correlation_id_has_a_limit(void **state) {
        char text[130];

        (void)state;
        memset(text, 'x', sizeof(text));
        for (size_t len = 128; len <= 129; len++) {
                strbuf_clear(&f.message);
                /* parameters { key: "sequence_id" value { string_param: "xx..." } } */
                STRBUF_PUT_LIT(&f.message, "\x22");
                strbuf_putc(&f.message, (char)((13 + 6 + len) | 0x80));
                strbuf_putc(&f.message, (char)((13 + 6 + len) >> 7));
                STRBUF_PUT_LIT(&f.message, "\x0a\x0bsequence_id\x12");
                strbuf_putc(&f.message, (char)((3 + len) | 0x80));
                strbuf_putc(&f.message, (char)((3 + len) >> 7));
                STRBUF_PUT_LIT(&f.message, "\x1a");
                strbuf_putc(&f.message, (char)(len | 0x80));
                strbuf_putc(&f.message, (char)(len >> 7));
                strbuf_put(&f.message, text, len);
                assert_null(decode());
                if (len == 128) {
                        assert_null(f.wire.parameter_fault);
                        assert_int_equal(strlen(f.wire.request.sequence_name), 128);
                        continue;
                }
                assert_non_null(f.wire.parameter_fault);
                assert_int_equal(f.wire.parameter_fault->code, ERR_UNSUPPORTED);
                assert_string_equal(f.wire.parameter_fault->message,
                                    "string correlation ID cannot be longer than 128 characters");
        }
}

/* ---- parameters of tensors ---- */

struct tensor_parameter {
        const char *name, *type;
};

struct tensor_row {
        struct tensor_parameter parameters[4];
        const char             *text; /* NULL = fine */
};

/* An output and, when it is the other one's turn, an input of these parameters. */
static void put_tensor(const struct tensor_parameter *parameters, bool is_output) {
        Inference__ModelInferRequest                              m;
        Inference__ModelInferRequest__InferInputTensor            in;
        Inference__ModelInferRequest__InferRequestedOutputTensor  out;
        Inference__ModelInferRequest__InferInputTensor           *ins[] = { &in };
        Inference__ModelInferRequest__InferRequestedOutputTensor *outs[] = { &out };
        Inference__InferParameter                                 values[4];
        /* The entries of both maps look alike on the wire. */
        Inference__ModelInferRequest__InferInputTensor__ParametersEntry            in_entries[4];
        Inference__ModelInferRequest__InferInputTensor__ParametersEntry           *in_at[4];
        Inference__ModelInferRequest__InferRequestedOutputTensor__ParametersEntry  out_entries[4];
        Inference__ModelInferRequest__InferRequestedOutputTensor__ParametersEntry *out_at[4];
        size_t                                                                     n = 0;

        inference__model_infer_request__init(&m);
        inference__model_infer_request__infer_input_tensor__init(&in);
        inference__model_infer_request__infer_requested_output_tensor__init(&out);
        m.model_name = (char *)"m";
        in.name = out.name = (char *)"T";
        for (; n < 4 && parameters[n].name; n++) {
                inference__model_infer_request__infer_input_tensor__parameters_entry__init(
                        &in_entries[n]);
                inference__model_infer_request__infer_requested_output_tensor__parameters_entry__init(
                        &out_entries[n]);
                in_entries[n].key = out_entries[n].key = (char *)parameters[n].name;
                in_entries[n].value = out_entries[n].value =
                        (Inference__InferParameter *)parameter(&values[n], parameters[n].type);
                in_at[n] = &in_entries[n];
                out_at[n] = &out_entries[n];
        }
        in.parameters = in_at;
        out.parameters = out_at;
        in.n_parameters = out.n_parameters = n;
        m.inputs = ins;
        m.outputs = outs;
        m.n_inputs = !is_output;
        m.n_outputs = is_output;
        put_message(&m.base);
}

#define REGION "shared_memory_region"
#define OFFSET "shared_memory_offset"
#define SIZE "shared_memory_byte_size"

static void shared_memory_of_tensors(void **state) {
        static const struct tensor_row rows[] = {
                { { { REGION, "string" }, { OFFSET, "int64" }, { SIZE, "int64" } }, NULL },
                { { { SIZE, "int64" }, { REGION, "string" } }, NULL },
                { { { REGION, "int64" }, { SIZE, "int64" } },
                  "invalid value type for '" REGION "' parameter for tensor 'T', expected "
                  "string_param." },
                { { { REGION, "unset" }, { SIZE, "int64" } },
                  "invalid value type for '" REGION "' parameter for tensor 'T', expected "
                  "string_param." },
                { { { OFFSET, "int64" } },
                  "'" OFFSET "' can not be specified without '" REGION "' parameter for tensor "
                  "'T'" },
                { { { SIZE, "int64" } },
                  "'" SIZE "' can not be specified without '" REGION "' parameter for tensor "
                  "'T'" },
                { { { REGION, "string" } },
                  "'" SIZE "' must be specified along with '" REGION "' parameter for tensor "
                  "'T'" },
                { { { REGION, "string" }, { OFFSET, "string" }, { SIZE, "int64" } },
                  "invalid value type for '" OFFSET "' parameter for tensor 'T', expected "
                  "int64_param." },
                { { { REGION, "string" }, { SIZE, "uint64" } },
                  "invalid value type for '" SIZE "' parameter for tensor 'T', expected "
                  "int64_param." },
        };

        (void)state;
        for (size_t i = 0; i < 2 * ARRAY_LEN(rows); i++) {
                const struct tensor_row *row = &rows[i / 2];
                bool                     is_output = i % 2 == 1;

                put_tensor(row->parameters, is_output);
                assert_null(decode());
                if (row->text) {
                        assert_fault(f.wire.tensor_fault, row->text);
                        continue;
                }
                assert_null(f.wire.tensor_fault);

                const struct infer_shared_memory *at =
                        is_output ? &f.wire.request.outputs[0].shared_memory
                                  : &f.wire.request.inputs[0].shared_memory;

                assert_string_equal(at->region, "text");
                assert_int_equal(at->byte_size, 42);
                assert_int_equal(at->offset, i < 2 ? 42 : 0);
        }
}

static void contents_beside_a_region(void **state) {
        struct one_input                                                 m;
        Inference__InferParameter                                        values[2];
        Inference__ModelInferRequest__InferInputTensor__ParametersEntry  entries[2];
        Inference__ModelInferRequest__InferInputTensor__ParametersEntry *at[] = { &entries[0],
                                                                                  &entries[1] };

        (void)state;
        one_input_init(&m, "FP32");
        for (int i = 0; i < 2; i++)
                inference__model_infer_request__infer_input_tensor__parameters_entry__init(
                        &entries[i]);
        entries[0].key = (char *)REGION;
        entries[0].value = (Inference__InferParameter *)parameter(&values[0], "string");
        entries[1].key = (char *)SIZE;
        entries[1].value = (Inference__InferParameter *)parameter(&values[1], "int64");
        m.input.parameters = at;
        m.input.n_parameters = 2;
        m.input.contents = &m.contents;
        put_message(&m.request.base);
        assert_null(decode());
        assert_fault(f.wire.tensor_fault, "unexpected 'content' provided when using shared memory "
                                          "for input tensor 'INPUT0' for model 'm'");
}

static void outputs(void **state) {
        static const struct tensor_row rows[] = {
                { { { NULL, NULL } }, NULL },
                { { { "classification", "int64" } }, NULL },
                { { { "binary_data", "string" } }, NULL },
                { { { "classification", "negative" } },
                  "invalid value for 'classification' parameter, expected >= 0" },
                { { { "classification", "string" } },
                  "invalid value type for 'classification' parameter, expected int64_param" },
                { { { "classification", "int64" }, { REGION, "string" }, { SIZE, "int64" } },
                  "output can't set both '" REGION "' and 'classification'" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                put_tensor(rows[i].parameters, true);
                assert_null(decode());
                if (rows[i].text) {
                        assert_fault(f.wire.tensor_fault, rows[i].text);
                        continue;
                }
                assert_null(f.wire.tensor_fault);
                assert_int_equal(f.wire.request.n_outputs, 1);
                assert_string_equal(f.wire.request.outputs[0].name, "T");
                assert_true(f.wire.request.outputs[0].is_binary);
                assert_int_equal(f.wire.request.outputs[0].n_classes, i == 1 ? 42 : 0);
        }
}

/* ---- bytes that protobuf-c would not write ---- */

#define PUT(literal)                                                                               \
        do {                                                                                       \
                strbuf_clear(&f.message);                                                          \
                STRBUF_PUT_LIT(&f.message, literal);                                               \
        } while (0)

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

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(raw_input),
                TEST(empty_message),
                TEST(unknown_datatype_is_the_cores_to_refuse),
                TEST(typed_contents),
                TEST(large_contents_are_in_a_buffer),
                TEST(refused_contents),
                TEST(where_data_is),
                TEST(parameters_of_the_request),
                TEST(free_parameters),
                TEST(refused_parameters),
                TEST(a_correlation_id_has_a_limit),
                TEST(shared_memory_of_tensors),
                TEST(contents_beside_a_region),
                TEST(outputs),
                TEST(numbers_one_by_one),
                TEST(floats_in_pieces),
                TEST(the_last_one_counts),
                TEST(raw_contents_may_come_first),
                TEST(malformed),
                TEST(nul_in_a_name),
                TEST(cut_short),
                TEST(limits),
                TEST(short_of_memory),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
