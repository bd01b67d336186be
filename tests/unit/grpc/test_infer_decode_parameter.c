/* SPDX-License-Identifier: BSD-3-Clause */
/* Parameters of requests, inputs and outputs: what they become, and the text of every fault. */
#include "suite.h"

#include "base/mem.h"
#include "grpc/decode_fixture.h"

#include <stdlib.h>
#include <string.h>

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
        for (; n < 4 && parameters[n].name != NULL; n++) {
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
                if (row->text != NULL) {
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
                if (rows[i].text != NULL) {
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

SUITE(infer_decode_parameter) {
        const struct CMUnitTest tests[] = {
                DECODE_TEST(parameters_of_the_request),
                DECODE_TEST(free_parameters),
                DECODE_TEST(refused_parameters),
                DECODE_TEST(a_correlation_id_has_a_limit),
                DECODE_TEST(shared_memory_of_tensors),
                DECODE_TEST(contents_beside_a_region),
                DECODE_TEST(outputs),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
