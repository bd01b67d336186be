/* SPDX-License-Identifier: BSD-3-Clause */
/* Every fault of an infer request and its text; values that arrive; the order of faults. */
#include "suite.h"

#include "base/compiler.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "http/http_infer_decode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fixture {
        struct arena         arena;
        struct infer_request request;
        struct error        *err;
        char                *body; /* owned: exactly as long as the body, for the sanitizer */
        size_t               max_input_bytes;
};

static void open_fixture(struct fixture *f) {
        memset(f, 0, sizeof(*f));
        arena_init(&f->arena, NULL, 0, 0);
        f->max_input_bytes = 1 << 20;
}

static void close_fixture(struct fixture *f) {
        if (f->err == NULL)
                infer_request_done(&f->request);
        error_free(f->err);
        arena_done(&f->arena);
        free(f->body);
}

static void decode_bytes(struct fixture *f, const void *body, size_t bytes, size_t json_bytes) {
        struct http_infer_source source = {
                .json_bytes = json_bytes,
                .model_name = "m",
                .max_input_bytes = f->max_input_bytes,
                .arena = &f->arena,
        };

        f->body = malloc(bytes);
        if (bytes > 0)
                memcpy(f->body, body, bytes);
        source.body = str_range(f->body, bytes);
        f->err = http_infer_decode(&source, &f->request);
}

/* JSON alone. */
static void decode(struct fixture *f, const char *json) {
        open_fixture(f);
        decode_bytes(f, json, strlen(json), strlen(json));
}

static void assert_ok(const struct fixture *f) {
        if (f->err != NULL)
                fail_msg("unexpected: %s", f->err->message);
}

/* Faults. */

struct fault_row {
        const char     *json;
        const char     *message;
        enum error_code code; /* 0 = INVALID_ARG */
};

#define IN_FP32(members) "{\"inputs\":[{\"name\":\"A\",\"datatype\":\"FP32\"," members "}]}"
#define ONE_OF                                                                                     \
        "Input must set only one of the following fields: 'data', 'binary_data_size' in "          \
        "'parameters', 'shared_memory_region' in 'parameters'. But"
#define MISSING(member)                                                                            \
        "Unable to parse '" member "': attempt to access non-existing object member '" member "'"
#define TYPE(member, type)                                                                         \
        "Unable to parse '" member "': attempt to access JSON non-" type " as " type
#define PARAMETERS(members) "{\"parameters\":{" members "},\"inputs\":[]}"
#define OUTPUTS(text) "{\"inputs\":[],\"outputs\":" text "}"
#define SYNTAX "failed to parse the request JSON buffer: "

static const struct fault_row faults[] = {
        /* the document */
        { "null", MISSING("inputs"), 0 },
        { "3", MISSING("inputs"), 0 },
        { "[]", MISSING("inputs"), 0 },
        { "{}", MISSING("inputs"), 0 },
        { " ", SYNTAX "The document is empty. at 1", 0 },
        { "{", SYNTAX "Missing a name for object member. at 1", 0 },
        { "{\"inputs\":[]} x",
          SYNTAX "The document root must not be followed by other values. at 14", 0 },
        { "{\"inputs\":[}", SYNTAX "Invalid value. at 11", 0 },
        { "{\"inputs\":3}", TYPE("inputs", "array"), 0 },
        { "{\"inputs\":{}}", TYPE("inputs", "array"), 0 },

        /* id */
        { "{\"id\":3,\"inputs\":[]}", TYPE("id", "string"), 0 },
        { "{\"id\":null,\"inputs\":[]}", TYPE("id", "string"), 0 },
        { "{\"id\":\"a\\u0000b\",\"inputs\":[]}",
          "Unable to parse 'id': the text contains a NUL character", 0 },

        /* parameters */
        { "{\"parameters\":3,\"inputs\":[]}",
          "failed to get request params.: attempt to get members for non-object", 0 },
        { "{\"parameters\":[],\"inputs\":[]}",
          "failed to get request params.: attempt to get members for non-object", 0 },
        { PARAMETERS("\"sequence_id\":-1"), TYPE("sequence_id", "string"), 0 },
        { PARAMETERS("\"sequence_id\":1.5"), TYPE("sequence_id", "string"), 0 },
        { PARAMETERS("\"sequence_id\":18446744073709551616"), TYPE("sequence_id", "string"), 0 },
        { PARAMETERS("\"sequence_id\":true"), TYPE("sequence_id", "string"), 0 },
        { PARAMETERS("\"sequence_start\":1"), TYPE("sequence_start", "boolean"), 0 },
        { PARAMETERS("\"sequence_end\":\"x\""), TYPE("sequence_end", "boolean"), 0 },
        { PARAMETERS("\"priority\":-3"), TYPE("priority", "unsigned-integer"), 0 },
        { PARAMETERS("\"priority\":1.5"), TYPE("priority", "unsigned-integer"), 0 },
        { PARAMETERS("\"timeout\":\"1\""), TYPE("timeout", "unsigned-integer"), 0 },
        { PARAMETERS("\"binary_data_output\":1"), TYPE("binary_data_output", "boolean"), 0 },
        { PARAMETERS("\"triton_x\":1"),
          "parameter keys starting with 'triton_' are reserved for Triton usage and should not be "
          "specified.",
          0 },
        { PARAMETERS("\"foo\":[1]"),
          "parameter 'foo' has invalid type. It should be either 'int', 'bool', or 'string'.", 0 },
        { PARAMETERS("\"foo\":{}"),
          "parameter 'foo' has invalid type. It should be either 'int', 'bool', or 'string'.", 0 },
        { PARAMETERS("\"foo\":null"),
          "parameter 'foo' has invalid type. It should be either 'int', 'bool', or 'string'.", 0 },
        { PARAMETERS("\"a\\u0000\":1"),
          "Unable to parse 'parameters': the text contains a NUL character", 0 },

        /* an input's members, in the order in which their faults are told */
        { "{\"inputs\":[3]}", ONE_OF " no field is set", 0 },
        { "{\"inputs\":[{}]}", ONE_OF " no field is set", 0 },
        { "{\"inputs\":[{\"name\":\"A\",\"datatype\":\"FP32\",\"shape\":[1]}]}",
          ONE_OF " no field is set", 0 },
        { IN_FP32("\"shape\":[1],\"data\":[1],\"parameters\":{\"binary_data_size\":4}"),
          ONE_OF " set 'data' 'binary_data_size'", 0 },
        { IN_FP32("\"shape\":[1],\"parameters\":{\"binary_data_size\":4},\"data\":[1]"),
          ONE_OF " set 'data' 'binary_data_size'", 0 },
        { IN_FP32("\"shape\":[1],\"data\":[1],\"parameters\":{\"shared_memory_region\":\"r\"}"),
          ONE_OF " set 'data' 'shared_memory_region'", 0 },
        { IN_FP32("\"shape\":[1],\"data\":[1],\"parameters\":{\"shared_memory_region\":\"r\","
                  "\"binary_data_size\":1}"),
          ONE_OF " set 'data' 'binary_data_size' 'shared_memory_region'", 0 },
        { "{\"inputs\":[{\"data\":[1]}]}", MISSING("name"), 0 },
        { "{\"inputs\":[{\"data\":[1],\"name\":3}]}", TYPE("name", "string"), 0 },
        { "{\"inputs\":[{\"data\":[1],\"name\":\"A\"}]}", MISSING("datatype"), 0 },
        { "{\"inputs\":[{\"data\":[1],\"name\":\"A\",\"datatype\":1}]}", TYPE("datatype", "string"),
          0 },
        { IN_FP32("\"data\":[1]"), MISSING("shape"), 0 },
        { IN_FP32("\"data\":[1],\"shape\":3"), TYPE("shape", "array"), 0 },
        { IN_FP32("\"data\":[1],\"shape\":[-1]"), TYPE("shape", "unsigned-integer"), 0 },
        { IN_FP32("\"data\":[1],\"shape\":[\"1\"]"), TYPE("shape", "unsigned-integer"), 0 },
        { IN_FP32("\"data\":[1],\"shape\":[1.0]"), TYPE("shape", "unsigned-integer"), 0 },
        { IN_FP32("\"shape\":[1],\"parameters\":{\"binary_data_size\":-1}"),
          TYPE("binary_data_size", "unsigned-integer"), 0 },
        { IN_FP32("\"shape\":[1],\"data\":[1],\"parameters\":7"), TYPE("parameters", "object"), 0 },
        { IN_FP32("\"shape\":[1],\"parameters\":{\"shared_memory_region\":7}"),
          TYPE("shared_memory_region", "string"), 0 },
        { IN_FP32("\"shape\":[1],\"parameters\":{\"shared_memory_region\":\"r\","
                  "\"shared_memory_offset\":-1}"),
          TYPE("shared_memory_offset", "unsigned-integer"), 0 },
        { IN_FP32("\"shape\":[1],\"parameters\":{\"shared_memory_region\":\"r\","
                  "\"shared_memory_byte_size\":\"1\"}"),
          TYPE("shared_memory_byte_size", "unsigned-integer"), 0 },

        /* elements */
        { IN_FP32("\"shape\":[1],\"data\":3"), TYPE("data", "array"), 0 },
        { IN_FP32("\"shape\":[1],\"data\":[1,2]"),
          "Unable to parse 'data': Shape does not match true shape of 'data' field", 0 },
        { IN_FP32("\"shape\":[3],\"data\":[1,2]"),
          "Failed to parse 'data' field: shape does not match true shape", 0 },
        { IN_FP32("\"shape\":[100000],\"data\":[1,2]"),
          "Failed to parse 'data' field: shape does not match true shape", 0 },
        { IN_FP32("\"shape\":[100000],\"data\":[1,true]"),
          "Unable to parse 'data': attempt to access JSON non-number as double", 0 },
        { IN_FP32("\"shape\":[1],\"data\":[\"1\"]"),
          "Unable to parse 'data': attempt to access JSON non-number as double", 0 },
        { IN_FP32("\"shape\":[1],\"data\":[null]"),
          "Unable to parse 'data': attempt to access JSON non-number as double", 0 },
        { "{\"inputs\":[{\"name\":\"A\",\"datatype\":\"INT32\",\"shape\":[1],\"data\":[1.5]}]}",
          "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer",
          0 },
        { "{\"inputs\":[{\"name\":\"A\",\"datatype\":\"UINT8\",\"shape\":[1],\"data\":[-1]}]}",
          "Unable to parse 'data': attempt to access JSON non-unsigned-integer as unsigned-integer",
          0 },
        { "{\"inputs\":[{\"name\":\"A\",\"datatype\":\"BOOL\",\"shape\":[1],\"data\":[1]}]}",
          "Unable to parse 'data': attempt to access JSON non-boolean as boolean", 0 },
        { "{\"inputs\":[{\"name\":\"A\",\"datatype\":\"FP16\",\"shape\":[1],\"data\":[1]}]}",
          "receiving FP16 data via JSON is not supported. Please use the binary data format for "
          "input A",
          0 },
        { "{\"inputs\":[{\"name\":\"A\",\"datatype\":\"BF16\",\"shape\":[1],\"data\":[1]}]}",
          "receiving BF16 data via JSON is not supported. Please use the binary data format for "
          "input A",
          0 },
        { "{\"inputs\":[{\"name\":\"A\",\"datatype\":\"FP33\",\"shape\":[1],\"data\":[1]}]}",
          "invalid datatype for input A", 0 },
        { "{\"inputs\":[{\"name\":\"A\",\"datatype\":\"BYTES\",\"shape\":[1],\"data\":[1]}]}",
          "Unable to parse JSON bytes array: attempt to access JSON non-string as string", 0 },
        { "{\"inputs\":[{\"name\":\"A\",\"datatype\":\"BYTES\",\"shape\":[1],\"data\":[\"a\",\"b\"]"
          "}]}",
          "Unable to parse 'data': Shape does not match true shape of 'data' field", 0 },
        { "{\"inputs\":[{\"name\":\"A\",\"datatype\":\"BYTES\",\"shape\":[3],\"data\":[\"a\",\"b\"]"
          "}]}",
          "Failed to parse 'data' field: shape does not match true shape", 0 },
        { "{\"inputs\":[{\"name\":\"A\",\"datatype\":\"BYTES\",\"shape\":[9999999],\"data\":[\"a\"]"
          "}]}",
          "Failed to parse 'data' field: shape does not match true shape", 0 },
        { "{\"inputs\":[{\"name\":\"A\",\"datatype\":\"BYTES\",\"shape\":[1],\"data\":\"a\"}]}",
          TYPE("data", "array"), 0 },

        /* shapes that cannot be */
        { IN_FP32("\"shape\":[9223372036854775807,2],\"data\":[1]"),
          "invalid shape for input 'A': shape [9223372036854775807,2] causes total element count "
          "to "
          "exceed maximum size of 9223372036854775807",
          0 },
        { IN_FP32("\"shape\":[18446744073709551615],\"data\":[1]"),
          "invalid shape for input 'A': shape [-1] contains one or more invalid dimensions", 0 },
        { IN_FP32("\"shape\":[9223372036854775807],\"data\":[1]"),
          "byte size overflow for input 'A': element count (9223372036854775807) * data type size "
          "(4) exceeds maximum allowed size (9223372036854775807)",
          0 },
        { IN_FP32("\"shape\":[262145],\"data\":[1]"),
          "JSON input 'A' has a byte_size (1048580 bytes) that exceeds the maximum allowed value "
          "of "
          "1048576 bytes. Use --http-max-input-size to increase the limit.",
          0 },

        /* binary tensors that the body does not have */
        { IN_FP32("\"shape\":[1],\"parameters\":{\"binary_data_size\":4}"),
          "unexpected size for input 'A', expecting 4 additional bytes for model 'm'", 0 },

        /* outputs */
        { OUTPUTS("3"), TYPE("outputs", "array"), 0 },
        { OUTPUTS("[3]"), MISSING("name"), 0 },
        { OUTPUTS("[{}]"), MISSING("name"), 0 },
        { OUTPUTS("[{\"name\":1}]"), TYPE("name", "string"), 0 },
        { OUTPUTS("[{\"name\":\"O\",\"parameters\":1}]"), TYPE("parameters", "object"), 0 },
        { OUTPUTS("[{\"name\":\"O\",\"parameters\":{\"binary_data\":1}}]"),
          TYPE("binary_data", "boolean"), 0 },
        { OUTPUTS("[{\"name\":\"O\",\"parameters\":{\"classification\":-1}}]"),
          "Unable to set 'classification': attempt to access JSON non-unsigned-integer as "
          "unsigned-integer",
          0 },
        { OUTPUTS("[{\"name\":\"O\",\"parameters\":{\"classification\":1,"
                  "\"shared_memory_region\":\"r\"}}]"),
          "Output can't set both 'shared_memory_region' and 'classification'", 0 },
        { OUTPUTS("[{\"name\":\"O\",\"parameters\":{\"binary_data\":true,"
                  "\"shared_memory_region\":\"r\"}}]"),
          "Output can't set both 'shared_memory_region' and 'binary_data'", 0 },

        /* of several faults the first in the reference's order, wherever it stands */
        { "{\"outputs\":3,\"inputs\":3,\"parameters\":3,\"id\":3}", TYPE("id", "string"), 0 },
        { "{\"outputs\":3,\"inputs\":3,\"parameters\":3}",
          "failed to get request params.: attempt to get members for non-object", 0 },
        { "{\"outputs\":3,\"inputs\":3}", TYPE("inputs", "array"), 0 },
        { "{\"outputs\":3}", MISSING("inputs"), 0 },
        { "{\"id\":3,\"inputs\":[1}", SYNTAX "Missing a comma or ] after an array element. at 19",
          0 },
        { "{\"inputs\":[{\"name\":1,\"data\":[tru]}]}", SYNTAX "Invalid value. at 32", 0 },
        { "{\"inputs\":[{\"shape\":[-1],\"datatype\":1,\"name\":2,\"data\":[]}]}",
          TYPE("name", "string"), 0 },
        { "{\"inputs\":[{\"name\":\"A\",\"datatype\":\"FP32\",\"shape\":[1],\"data\":[1,2]},3]}",
          "Unable to parse 'data': Shape does not match true shape of 'data' field", 0 },
        { PARAMETERS("\"priority\":-1,\"timeout\":-1"), TYPE("priority", "unsigned-integer"), 0 },
};

/* Memory that is short for one allocation: the fault's text, or that memory was short. */
static void check_short(const char *json, const char *message) {
        bool was_hit = true;

        for (unsigned n = 1; was_hit; n++) {
                struct fixture f;

                open_fixture(&f);
                mem_fail_once(n);
                decode_bytes(&f, json, strlen(json), strlen(json));
                was_hit = mem_fail_was_hit();
                mem_fail_after(0);
                if (f.err == NULL || (strcmp(f.err->message, message) != 0 &&
                                      strstr(f.err->message, "memory") == NULL))
                        fail_msg("%s\n  got:      %s\n  expected: %s", json,
                                 f.err != NULL ? f.err->message : "(no error)", message);
                close_fixture(&f);
        }
}

static void test_faults(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
                struct fixture f;

                decode(&f, faults[i].json);
                if (f.err == NULL)
                        fail_msg("accepted: %s", faults[i].json);
                check_short(faults[i].json, f.err->message);
                if (strcmp(f.err->message, faults[i].message) != 0)
                        fail_msg("%s\n  got:      %s\n  expected: %s", faults[i].json,
                                 f.err->message, faults[i].message);
                assert_int_equal(f.err->code,
                                 faults[i].code != 0 ? faults[i].code : ERR_INVALID_ARG);
                close_fixture(&f);
        }
}

static void test_long_sequence_name(void **state) {
        struct strbuf  json;
        struct fixture f;

        (void)state;
        for (int len = 128; len <= 129; len++) {
                strbuf_init(&json, 0);
                strbuf_printf(&json, "{\"inputs\":[],\"parameters\":{\"sequence_id\":\"%0*d\"}}",
                              len, 7);
                decode(&f, strbuf_cstr(&json));
                if (len == 128) {
                        assert_ok(&f);
                        assert_int_equal(strlen(f.request.sequence_name), 128);
                } else {
                        assert_non_null(f.err);
                        assert_string_equal(f.err->message,
                                            "string correlation ID cannot be longer "
                                            "than 128 characters");
                        assert_int_equal(f.err->code, ERR_UNSUPPORTED);
                }
                close_fixture(&f);
                strbuf_done(&json);
        }
}

static void test_deep_data(void **state) {
        struct strbuf  json;
        struct fixture f;

        (void)state;
        strbuf_init(&json, 0);
        strbuf_puts(&json,
                    "{\"inputs\":[{\"name\":\"A\",\"datatype\":\"FP32\",\"shape\":[1],\"data\":");
        for (int i = 0; i < 101; i++)
                strbuf_putc(&json, '[');
        strbuf_putc(&json, '1');
        for (int i = 0; i < 101; i++)
                strbuf_putc(&json, ']');
        strbuf_puts(&json, "}]}");
        decode(&f, strbuf_cstr(&json));
        assert_non_null(f.err);
        assert_string_equal(f.err->message,
                            "JSON nesting depth exceeds maximum allowed limit (100)");
        close_fixture(&f);
        strbuf_done(&json);
}

static void test_too_many_tensors(void **state) {
        static const char *const keys[] = { "inputs", "outputs" };
        static const char *const elements[] = {
                "{\"name\":\"A\",\"datatype\":\"FP32\",\"shape\":[0],\"data\":[]}",
                "{\"name\":\"A\"}",
        };
        struct strbuf  json;
        struct fixture f;

        (void)state;
        for (size_t k = 0; k < 2; k++) {
                strbuf_init(&json, 0);
                strbuf_printf(&json, "{\"%s\":[", keys[k]);
                for (int i = 0; i <= INFER_MAX_TENSORS; i++)
                        strbuf_printf(&json, "%s%s", i > 0 ? "," : "", elements[k]);
                strbuf_printf(&json, "],\"%s\":[]}", keys[1 - k]);
                decode(&f, strbuf_cstr(&json));
                assert_non_null(f.err);
                assert_non_null(
                        strstr(f.err->message, k == 0 ? "request has more than 4096 inputs"
                                                      : "request has more than 4096 outputs"));
                close_fixture(&f);
                strbuf_done(&json);
        }
}

/* Sizes. */

static void test_json_too_large(void **state) {
        struct fixture f;

        (void)state;
        open_fixture(&f);
        f.max_input_bytes = 10;
        decode_bytes(&f, "{\"inputs\":[]}", 13, 13);
        assert_non_null(f.err);
        assert_string_equal(
                f.err->message,
                "request JSON size of 13 bytes exceeds the maximum allowed input size of "
                "10 bytes. Use --http-max-input-size to increase the limit.");
        close_fixture(&f);
}

static void test_strings_too_large(void **state) {
        static const char json[] =
                "{\"inputs\":[{\"name\":\"A\",\"datatype\":\"BYTES\",\"shape\":[12],\"data\":"
                "[\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"01234567890123456789"
                "0123456789012345678901234567890123456789\"]}]}";
        struct fixture f;

        (void)state;
        open_fixture(&f);
        f.max_input_bytes = strlen(json);
        decode_bytes(&f, json, strlen(json), strlen(json));
        assert_ok(&f);
        assert_int_equal(f.request.inputs[0].bytes.len, 12 * 4 + 60);
        close_fixture(&f);
}

static void test_raw(void **state) {
        struct fixture f;

        (void)state;
        open_fixture(&f);
        decode_bytes(&f, "abcd", 4, 0);
        assert_ok(&f);
        assert_true(f.request.is_raw);
        assert_true(f.request.is_binary_by_default);
        assert_int_equal(f.request.raw.len, 4);
        assert_ptr_equal(f.request.raw.ptr, f.body);
        close_fixture(&f);

        open_fixture(&f);
        f.max_input_bytes = 3;
        decode_bytes(&f, "abcd", 4, 0);
        assert_non_null(f.err);
        assert_string_equal(f.err->message,
                            "Raw input has a byte_size (4 bytes) that exceeds the maximum allowed "
                            "value of 3 bytes. Use --http-max-input-size to increase the limit.");
        close_fixture(&f);
}

/* Values. */

static void test_request_members(void **state) {
        static const char json[] =
                "{\"model_name\":\"ignored\",\"id\":\"r\\u00e9q\",\"parameters\":{\"sequence_id\":"
                "42,"
                "\"sequence_start\":true,\"sequence_end\":false,\"priority\":7,\"timeout\":1000,"
                "\"binary_data_output\":true,\"s\":\"text\",\"i\":-5,\"b\":true,\"d\":1.5,"
                "\"min\":-9223372036854775808,\"big\":18446744073709551615},"
                "\"inputs\":[],\"outputs\":[{\"name\":\"O1\",\"parameters\":{\"binary_data\":true}}"
                ","
                "{\"name\":\"O2\",\"parameters\":{\"classification\":3}},"
                "{\"name\":\"O3\",\"extra\":1,\"parameters\":{\"shared_memory_region\":\"reg\","
                "\"shared_memory_offset\":8,\"shared_memory_byte_size\":64}},{\"name\":\"O4\"}]}";
        const struct infer_parameter        *p;
        const struct infer_requested_output *o;
        struct fixture                       f;

        (void)state;
        decode(&f, json);
        assert_ok(&f);
        assert_string_equal(f.request.id, "r\xc3\xa9q");
        assert_int_equal(f.request.sequence_id, 42);
        assert_null(f.request.sequence_name);
        assert_int_equal(f.request.flags, TRITONSERVER_REQUEST_FLAG_SEQUENCE_START);
        assert_int_equal(f.request.priority, 7);
        assert_int_equal(f.request.timeout_us, 1000);
        assert_true(f.request.is_binary_by_default);

        p = f.request.parameters;
        assert_int_equal(f.request.n_parameters, 6);
        assert_string_equal(p[0].name, "s");
        assert_int_equal(p[0].type, TRITONSERVER_PARAMETER_STRING);
        assert_string_equal(p[0].value.text, "text");
        assert_int_equal(p[1].type, TRITONSERVER_PARAMETER_INT);
        assert_int_equal(p[1].value.integer, -5);
        assert_int_equal(p[2].type, TRITONSERVER_PARAMETER_BOOL);
        assert_true(p[2].value.boolean);
        assert_int_equal(p[3].type, TRITONSERVER_PARAMETER_DOUBLE);
        assert_true(p[3].value.real == 1.5);
        assert_int_equal(p[4].type, TRITONSERVER_PARAMETER_INT);
        assert_true(p[4].value.integer == INT64_MIN);
        assert_int_equal(p[5].type, TRITONSERVER_PARAMETER_DOUBLE);
        assert_true(p[5].value.real == 18446744073709551615.0);

        o = f.request.outputs;
        assert_int_equal(f.request.n_outputs, 4);
        assert_true(o[0].is_binary);
        assert_int_equal(o[1].n_classes, 3);
        assert_false(o[1].is_binary);
        assert_string_equal(o[2].shared_memory.region, "reg");
        assert_int_equal(o[2].shared_memory.offset, 8);
        assert_int_equal(o[2].shared_memory.byte_size, 64);
        assert_ptr_equal(infer_request_find_output(&f.request, "O4"), &o[3]);
        assert_null(infer_request_find_output(&f.request, "O5"));
        close_fixture(&f);
}

static void test_sequence_name(void **state) {
        struct fixture f;

        (void)state;
        decode(&f,
               "{\"inputs\":[],\"parameters\":{\"sequence_id\":\"abc\",\"sequence_end\":true}}");
        assert_ok(&f);
        assert_string_equal(f.request.sequence_name, "abc");
        assert_int_equal(f.request.flags, TRITONSERVER_REQUEST_FLAG_SEQUENCE_END);
        close_fixture(&f);
}

/* Every numeric type, as a row: text of the element and what it becomes. */
struct element_row {
        const char *datatype;
        const char *text;
        size_t      bytes;
        uint8_t     expected[8];
};

static const struct element_row elements[] = {
        { "BOOL", "true", 1, { 1 } },
        { "BOOL", "false", 1, { 0 } },
        { "UINT8", "255", 1, { 0xff } },
        { "UINT8", "256", 1, { 0x00 } }, /* truncated, as the reference does */
        { "UINT16", "258", 2, { 2, 1 } },
        { "UINT32", "16909060", 4, { 4, 3, 2, 1 } },
        { "UINT64", "18446744073709551615", 8, { 255, 255, 255, 255, 255, 255, 255, 255 } },
        { "INT8", "-1", 1, { 0xff } },
        { "INT16", "-2", 2, { 0xfe, 0xff } },
        { "INT32", "-2", 4, { 0xfe, 0xff, 0xff, 0xff } },
        { "INT64", "-9223372036854775808", 8, { 0, 0, 0, 0, 0, 0, 0, 0x80 } },
        { "FP32", "0.1", 4, { 0xcd, 0xcc, 0xcc, 0x3d } },
        { "FP32", "1", 4, { 0, 0, 0x80, 0x3f } },
        { "FP64", "0.1", 8, { 0x9a, 0x99, 0x99, 0x99, 0x99, 0x99, 0xb9, 0x3f } },
};

static void test_elements(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(elements); i++) {
                struct strbuf  json;
                struct fixture f;

                strbuf_init(&json, 0);
                strbuf_printf(&json,
                              "{\"inputs\":[{\"name\":\"A\",\"datatype\":\"%s\",\"shape\":[1],"
                              "\"data\":[%s]}]}",
                              elements[i].datatype, elements[i].text);
                decode(&f, strbuf_cstr(&json));
                assert_ok(&f);
                assert_int_equal(f.request.inputs[0].bytes.len, elements[i].bytes);
                assert_memory_equal(f.request.inputs[0].bytes.ptr, elements[i].expected,
                                    elements[i].bytes);
                assert_string_equal(f.request.inputs[0].datatype_name, elements[i].datatype);
                close_fixture(&f);
                strbuf_done(&json);
        }
}

/* The same tensor from every order of members, flat and nested. */
static void test_orders(void **state) {
        static const char *const documents[] = {
                "{\"inputs\":[{\"name\":\"A\",\"shape\":[2,2],\"datatype\":\"FP32\",\"data\":[1,2,"
                "3,4]}]}",
                "{\"inputs\":[{\"name\":\"A\",\"shape\":[2,2],\"datatype\":\"FP32\","
                "\"data\":[[1,2],[3,4]]}]}",
                "{\"inputs\":[{\"data\":[[1,2],[3,4]],\"datatype\":\"FP32\",\"shape\":[2,2],"
                "\"name\":\"A\"}]}",
                "{\"inputs\":[{\"shape\":[2,2],\"data\":[[1,2,3,4]],\"name\":\"A\","
                "\"datatype\":\"FP32\"}]}",
                "{ \"inputs\" : [ { \"name\" : \"A\" , \"datatype\" : \"FP32\" , \"shape\" : [ 2 , "
                "2 ] "
                ", \"data\" : [ 1 , [ 2.0 , 3e0 ] , 4 ] } ] }",
                "{\"inputs\":[{\"\\u006eame\":\"\\u0041\",\"shape\":[2,2],\"datatype\":\"FP32\","
                "\"data\":[1,2,3,4]}],\"inputs\":7}",
        };
        static const float expected[4] = { 1, 2, 3, 4 };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(documents); i++) {
                struct fixture f;

                decode(&f, documents[i]);
                assert_ok(&f);
                assert_int_equal(f.request.n_inputs, 1);
                assert_string_equal(f.request.inputs[0].name, "A");
                assert_int_equal(f.request.inputs[0].datatype, TRITONSERVER_TYPE_FP32);
                assert_int_equal(f.request.inputs[0].n_dims, 2);
                assert_int_equal(f.request.inputs[0].shape[0], 2);
                assert_int_equal(f.request.inputs[0].shape[1], 2);
                assert_int_equal(f.request.inputs[0].bytes.len, sizeof(expected));
                assert_memory_equal(f.request.inputs[0].bytes.ptr, expected, sizeof(expected));
                close_fixture(&f);
        }
}

static void test_strings(void **state) {
        static const char expected[] = "\2\0\0\0ab\0\0\0\0\3\0\0\0\"\n\xc3\4\0\0\0a\0bc";
        struct fixture    f;

        (void)state;
        decode(&f, "{\"inputs\":[{\"name\":\"A\",\"datatype\":\"BYTES\",\"shape\":[2,2],"
                   "\"data\":[[\"ab\",\"\"],[[\"\\\"\\n!\"],\"a\\u0000bc\"]]}]}");
        assert_ok(&f);
        assert_int_equal(f.request.inputs[0].bytes.len, sizeof(expected) - 1);
        assert_memory_equal(f.request.inputs[0].bytes.ptr, expected, 16);
        assert_memory_equal(f.request.inputs[0].bytes.ptr + 17, expected + 17,
                            sizeof(expected) - 1 - 17);
        assert_int_equal(f.request.inputs[0].bytes.ptr[16], '!');
        close_fixture(&f);
}

/* Larger than what lives in the arena, so a buffer holds it. */
static void test_large_tensor(void **state) {
        enum { N = 5000 };
        struct strbuf  json;
        struct fixture f;

        (void)state;
        strbuf_init(&json, 0);
        strbuf_printf(
                &json,
                "{\"inputs\":[{\"name\":\"A\",\"datatype\":\"INT32\",\"shape\":[%d],\"data\":[", N);
        for (int i = 0; i < N; i++)
                strbuf_printf(&json, "%s%d", i > 0 ? "," : "", i);
        strbuf_puts(&json, "]}]}");
        decode(&f, strbuf_cstr(&json));
        assert_ok(&f);
        assert_non_null(f.request.inputs[0].converted);
        assert_int_equal(f.request.inputs[0].bytes.len, N * sizeof(int32_t));
        for (int i = 0; i < N; i++) {
                int32_t value;

                memcpy(&value, f.request.inputs[0].bytes.ptr + (size_t)i * 4, sizeof(value));
                assert_int_equal(value, i);
        }
        close_fixture(&f);
        strbuf_done(&json);
}

static void test_empty_shapes(void **state) {
        struct fixture f;

        (void)state;
        /* no elements: "data" is not looked at; no dimensions: one element */
        decode(&f,
               "{\"inputs\":[{\"name\":\"A\",\"datatype\":\"FP32\",\"shape\":[0,5],\"data\":\"x\"},"
               "{\"name\":\"B\",\"datatype\":\"FP32\",\"shape\":[],\"data\":[2]}]}");
        assert_ok(&f);
        assert_int_equal(f.request.inputs[0].bytes.len, 0);
        assert_int_equal(f.request.inputs[1].n_dims, 0);
        assert_int_equal(f.request.inputs[1].bytes.len, 4);
        close_fixture(&f);
}

/* Binary tensors follow the JSON in the order of the inputs, whatever stands between them. */
#define BINARY_JSON                                                                                \
        "{\"inputs\":[{\"name\":\"A\",\"shape\":[2],\"datatype\":\"INT16\","                       \
        "\"parameters\":{\"binary_data_size\":4}},"                                                \
        "{\"name\":\"J\",\"shape\":[1],\"datatype\":\"INT8\",\"data\":[9]},"                       \
        "{\"name\":\"Z\",\"shape\":[0],\"datatype\":\"INT8\",\"parameters\":{\"binary_data_"       \
        "size\":0}},"                                                                              \
        "{\"name\":\"B\",\"shape\":[3],\"datatype\":\"UINT8\","                                    \
        "\"parameters\":{\"binary_data_size\":3}}]}"

static void test_binary(void **state) {
        static const char body[] = BINARY_JSON "abcdXYZ";
        size_t            json_bytes = sizeof(BINARY_JSON) - 1;
        struct fixture    f;

        (void)state;
        open_fixture(&f);
        decode_bytes(&f, body, sizeof(body) - 1, json_bytes);
        assert_ok(&f);
        assert_int_equal(f.request.n_inputs, 4);
        assert_ptr_equal(f.request.inputs[0].bytes.ptr, f.body + json_bytes);
        assert_int_equal(f.request.inputs[0].bytes.len, 4);
        assert_int_equal(f.request.inputs[1].bytes.ptr[0], 9);
        assert_int_equal(f.request.inputs[2].bytes.len, 0);
        assert_ptr_equal(f.request.inputs[3].bytes.ptr, f.body + json_bytes + 4);
        assert_int_equal(f.request.inputs[3].bytes.len, 3);
        close_fixture(&f);

        open_fixture(&f);
        decode_bytes(&f, body, sizeof(body) - 2, json_bytes);
        assert_non_null(f.err);
        assert_string_equal(f.err->message,
                            "unexpected size for input 'B', expecting 1 additional bytes for model "
                            "'m'");
        close_fixture(&f);

        open_fixture(&f);
        decode_bytes(&f, body, sizeof(body), json_bytes);
        assert_non_null(f.err);
        assert_string_equal(f.err->message, "unexpected additional input data for model 'm'");
        close_fixture(&f);
}

/* Bytes left over are told after the inputs and before the outputs. */
static void test_left_over_order(void **state) {
        static const char body[] = "{\"outputs\":3,\"inputs\":[]}x";
        struct fixture    f;

        (void)state;
        open_fixture(&f);
        decode_bytes(&f, body, sizeof(body) - 1, sizeof(body) - 2);
        assert_non_null(f.err);
        assert_string_equal(f.err->message, "unexpected additional input data for model 'm'");
        close_fixture(&f);
}

/* The length header. */

struct length_row {
        const char *value; /* NULL = absent */
        size_t      body_bytes;
        size_t      json_bytes;
        const char *message;
};

#define LENGTH "Unable to parse Inference-Header-Content-Length, "

static const struct length_row lengths[] = {
        { NULL, 17, 17, NULL },
        { NULL, 0, 0, NULL },
        { "0", 17, 0, NULL },
        { "17", 17, 17, NULL },
        { "+5", 17, 5, NULL },
        { "-0", 17, 0, NULL },
        { "18", 17, 0, "inference header size should be in range (0, 17), got: 18" },
        { "-1", 17, 0, "inference header size should be in range (0, 17), got: -1" },
        { "abc", 17, 0, LENGTH "got: abc" },
        { "1x", 17, 0, LENGTH "got: 1x" },
        { "-", 17, 0, LENGTH "got: -" },
        { "", 17, 0, LENGTH "got: " },
        { "2147483647", 17, 0,
          "inference header size should be in range (0, 17), got: 2147483647" },
        { "-2147483648", 17, 0,
          "inference header size should be in range (0, 17), got: -2147483648" },
        { "2147483648", 17, 0,
          LENGTH "value is out of range [ -2147483648, 2147483647 ], got: 2147483648" },
        { "-2147483649", 17, 0,
          LENGTH "value is out of range [ -2147483648, 2147483647 ], got: -2147483649" },
        { "99999999999999999999", 17, 0,
          LENGTH "value is out of range [ -2147483648, 2147483647 ], got: 99999999999999999999" },
};

static void test_length(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
                size_t        json_bytes = 12345;
                struct error *err = http_infer_read_json_bytes(str_of(lengths[i].value),
                                                               lengths[i].body_bytes, &json_bytes);

                if (lengths[i].message != NULL) {
                        assert_non_null(err);
                        assert_string_equal(err->message, lengths[i].message);
                        assert_int_equal(err->code, ERR_INVALID_ARG);
                } else {
                        assert_null(err);
                        assert_int_equal(json_bytes, lengths[i].json_bytes);
                }
                error_free(err);
        }
}

/* Memory that is short at any point ends in an error and leaks nothing. */
static void test_out_of_memory(void **state) {
        static const char json[] =
                "{\"id\":\"x\",\"parameters\":{\"a\":\"b\"},\"inputs\":[{\"name\":\"A\",\"shape\":["
                "600],"
                "\"datatype\":\"BYTES\",\"data\":[%s]}],\"outputs\":[{\"name\":\"O\"}]}";
        struct strbuf  list, text;
        struct fixture f;
        bool           is_done = false;

        (void)state;
        strbuf_init(&list, 0);
        strbuf_init(&text, 0);
        for (int i = 0; i < 600; i++)
                strbuf_puts(&list, i > 0 ? ",\"a\\nb\"" : "\"a\\nb\"");
        strbuf_printf(&text, json, strbuf_cstr(&list));
        for (unsigned n = 1; !is_done; n++) {
                assert_true(n < 100);
                open_fixture(&f);
                mem_fail_after(n);
                decode_bytes(&f, text.ptr, text.len, text.len);
                mem_fail_after(0);
                is_done = f.err == NULL;
                close_fixture(&f);
        }
        strbuf_done(&list);
        strbuf_done(&text);
}

SUITE(http_infer_decode) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_faults),
                cmocka_unit_test(test_long_sequence_name),
                cmocka_unit_test(test_deep_data),
                cmocka_unit_test(test_too_many_tensors),
                cmocka_unit_test(test_json_too_large),
                cmocka_unit_test(test_strings_too_large),
                cmocka_unit_test(test_raw),
                cmocka_unit_test(test_request_members),
                cmocka_unit_test(test_sequence_name),
                cmocka_unit_test(test_elements),
                cmocka_unit_test(test_orders),
                cmocka_unit_test(test_strings),
                cmocka_unit_test(test_large_tensor),
                cmocka_unit_test(test_empty_shapes),
                cmocka_unit_test(test_binary),
                cmocka_unit_test(test_left_over_order),
                cmocka_unit_test(test_length),
                cmocka_unit_test(test_out_of_memory),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
