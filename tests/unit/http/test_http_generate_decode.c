/* SPDX-License-Identifier: BSD-3-Clause */
/* Bodies of generate requests: what becomes of each member, how elements are divided over the
 * model's dimensions, every fault and its text.
 */
#include "suite.h"

#include "base/compiler.h"
#include "base/strbuf.h"
#include "http/http_generate_json.h"

#include <stdlib.h>
#include <string.h>

/* ---- the model ---- */

#define MAX_DIMS 4

struct model_row {
        const char           *name;
        TRITONSERVER_DataType datatype;
        uint64_t              n_dims;
        int64_t               dims[MAX_DIMS];
        bool                  is_batched;
};

static const struct model_row *model; /* of the running test; ends with a row without a name */

static struct error *find(void *owner, const char *name, struct http_generate_input *ret) {
        const struct model_row *row = model;

        assert_ptr_equal(owner, &model);
        if (strcmp(name, "unlucky") == 0)
                return error_new(ERR_UNAVAILABLE, "not now");
        while (row->name != NULL && strcmp(row->name, name) != 0)
                row++;
        *ret = (struct http_generate_input){ row->datatype, row->dims, row->n_dims,
                                             row->is_batched };
        return NULL;
}

struct fixture {
        struct arena         arena;
        struct infer_request request;
        struct error        *err;
        char                *body; /* owned: exactly as long as the body, for the sanitizer */
};

static void decode_some(struct fixture *f, struct str body, size_t max_input_bytes) {
        struct http_generate_source source = {
                .max_input_bytes = max_input_bytes,
                .arena = &f->arena,
                .find = find,
                .owner = &model,
        };

        arena_init(&f->arena, NULL, 0, 0);
        f->body = malloc(body.len);
        if (body.len > 0)
                memcpy(f->body, body.ptr, body.len);
        source.body = str_range(f->body, body.len);
        f->err = http_generate_decode(&source, &f->request);
}

static void decode(struct fixture *f, const char *json) {
        decode_some(f, str_of(json), 1 << 20);
}

static void close_fixture(struct fixture *f) {
        if (f->err == NULL)
                infer_request_done(&f->request);
        error_free(f->err);
        arena_done(&f->arena);
        free(f->body);
}

/* ---- shapes ---- */

struct shape_row {
        uint64_t    n_dims;
        int64_t     dims[MAX_DIMS];
        bool        is_batched;
        unsigned    n_elements; /* 0 = an empty array; SCALAR = no array */
        const char *want;       /* NULL: refused */
};

#define SCALAR 99999

static const struct shape_row shapes[] = {
        { 1, { -1 }, false, SCALAR, "1" },
        { 1, { -1 }, false, 1, "1" },
        { 1, { -1 }, false, 5, "5" },
        { 1, { -1 }, false, 0, "0" },
        { 1, { 1 }, false, SCALAR, "1" },
        { 1, { 3 }, false, 3, "3" },
        { 1, { 3 }, false, 2, NULL },
        { 1, { 3 }, false, 6, NULL },
        { 1, { 3 }, false, 0, NULL },
        { 0, { 0 }, false, SCALAR, "" },
        { 0, { 0 }, false, 2, NULL },
        { 2, { 2, 3 }, false, 6, "2,3" },
        { 2, { 2, 3 }, false, 12, NULL },
        { 2, { 2, -1 }, false, 6, "2,3" },
        { 2, { 2, -1 }, false, 5, NULL },
        { 2, { 2, -1 }, false, SCALAR, NULL },
        { 2, { -1, 2 }, false, 6, "3,2" },
        { 2, { -1, -1 }, false, 6, "1,6" },
        { 2, { -1, -1 }, false, 0, "1,0" },
        { 3, { -1, -1, 4 }, false, 8, "1,2,4" },
        { 3, { -1, 4, -1 }, false, 8, "1,4,2" },
        { 4, { 2, -1, 1, 3 }, false, 12, "2,2,1,3" },
        { 1, { 1 }, true, SCALAR, "1,1" },
        { 1, { 1 }, true, 4, "4,1" },
        { 1, { 2 }, true, 4, "2,2" },
        { 1, { 2 }, true, 3, NULL },
        { 1, { -1 }, true, 3, "1,3" },
        { 2, { 2, -1 }, true, 6, "1,2,3" },
        { 0, { 0 }, true, SCALAR, "1" },
        { 1, { 0 }, false, 0, NULL }, /* no such configuration loads */
};

static void print_value(unsigned n, struct strbuf *out) {
        if (n == SCALAR) {
                strbuf_puts(out, "{\"I\": 0 }");
                return;
        }
        strbuf_puts(out, "{\"I\":[");
        for (unsigned i = 0; i < n; i++)
                strbuf_printf(out, "%s%u", i > 0 ? " , " : "", i);
        strbuf_puts(out, "]}");
}

static void assert_tensor(const struct infer_input *in, const struct shape_row *row) {
        unsigned    n = row->n_elements == SCALAR ? 1 : row->n_elements;
        AUTO_STRBUF shape;

        strbuf_init(&shape, 0);
        for (uint32_t i = 0; i < in->n_dims; i++)
                strbuf_printf(&shape, "%s%lld", i > 0 ? "," : "", (long long)in->shape[i]);
        assert_string_equal(strbuf_cstr(&shape), row->want);
        assert_string_equal(in->name, "I");
        assert_int_equal(in->datatype, TRITONSERVER_TYPE_INT16);
        assert_int_equal(in->bytes.len, n * sizeof(int16_t));
        for (unsigned i = 0; i < n; i++)
                assert_int_equal(in->bytes.ptr[2 * i], i);
}

static void test_shapes(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
                const struct shape_row *row = &shapes[i];
                struct model_row        inputs[2] = {
                               { "I", TRITONSERVER_TYPE_INT16, row->n_dims, { 0 }, row->is_batched }
                };
                AUTO_STRBUF    json;
                struct fixture f;

                memcpy(inputs[0].dims, row->dims, sizeof(row->dims));
                model = inputs;
                strbuf_init(&json, 0);
                print_value(row->n_elements, &json);
                decode(&f, strbuf_cstr(&json));
                if (row->want != NULL) {
                        if (f.err != NULL)
                                fail_msg("row %zu: %s", i, f.err->message);
                        assert_tensor(&f.request.inputs[0], row);
                } else {
                        assert_non_null(f.err);
                        assert_string_equal(f.err->message, "The schema can not convert input 'I' "
                                                            "to tensor with proper shape");
                }
                close_fixture(&f);
        }
}

/* ---- members ---- */

static const struct model_row inputs[] = {
        { "text", TRITONSERVER_TYPE_BYTES, 1, { -1 }, false },
        { "n", TRITONSERVER_TYPE_INT32, 1, { -1 }, false },
        { "f", TRITONSERVER_TYPE_FP32, 1, { 2 }, false },
        { "b", TRITONSERVER_TYPE_BOOL, 1, { -1 }, false },
        { "half", TRITONSERVER_TYPE_FP16, 1, { 1 }, false },
        { "bf", TRITONSERVER_TYPE_BF16, 1, { 1 }, false },
        { 0 },
};
static const struct model_row odd_names[] = {
        { "id", TRITONSERVER_TYPE_INT32, 1, { -1 }, false },
        { "parameters", TRITONSERVER_TYPE_INT32, 1, { -1 }, false },
        { 0 },
};

static void print_bytes(struct str bytes, struct strbuf *out) {
        for (size_t i = 0; i < bytes.len; i++) {
                unsigned char c = (unsigned char)bytes.ptr[i];

                if (c > ' ' && c < 0x7f)
                        strbuf_putc(out, (char)c);
                else
                        strbuf_printf(out, "\\%u", c);
        }
}

/* "id=x n[2]=\1\0\0\0\2\0\0\0 p:5" */
static void describe(const struct infer_request *q, struct strbuf *out) {
        if (q->id[0] != '\0')
                strbuf_printf(out, "id=%s ", q->id);
        for (uint32_t i = 0; i < q->n_inputs; i++) {
                const struct infer_input *in = &q->inputs[i];

                assert_int_equal(in->n_dims, 1);
                strbuf_printf(out, "%s[%lld]=", in->name, (long long)in->shape[0]);
                print_bytes(in->bytes, out);
                strbuf_putc(out, ' ');
        }
        for (uint32_t i = 0; i < q->n_parameters; i++) {
                const struct infer_parameter *p = &q->parameters[i];

                strbuf_printf(out, "%s:", p->name);
                if (p->type == TRITONSERVER_PARAMETER_STRING)
                        strbuf_printf(out, "'%s' ", p->value.text);
                else if (p->type == TRITONSERVER_PARAMETER_INT)
                        strbuf_printf(out, "%lld ", (long long)p->value.integer);
                else if (p->type == TRITONSERVER_PARAMETER_BOOL)
                        strbuf_printf(out, "%s ", p->value.boolean ? "true" : "false");
                else
                        strbuf_printf(out, "%g ", p->value.real);
        }
}

struct member_row {
        const struct model_row *model;
        const char             *json;
        const char             *want;
};

static const struct member_row members[] = {
        { inputs, "{}", "" },
        { inputs, " { } ", "" },
        { inputs, "{\"text\":\"hi\"}", "text[1]=\\2\\0\\0\\0hi " },
        { inputs, "{\"text\":\"\"}", "text[1]=\\0\\0\\0\\0 " },
        { inputs, "{\"text\":[\"a\",\"\\u00e9\"]}",
          "text[2]=\\1\\0\\0\\0a\\2\\0\\0\\0\\195\\169 " },
        { inputs, "{\"text\":[]}", "text[0]= " },
        { inputs, "{\"te\\u0078t\":\"hi\"}", "text[1]=\\2\\0\\0\\0hi " },
        { inputs, "{\"n\":-2}", "n[1]=\\254\\255\\255\\255 " },
        { inputs, "{\"n\":[1,2]}", "n[2]=\\1\\0\\0\\0\\2\\0\\0\\0 " },
        { inputs, "{\"f\":[1,-0.5]}", "f[2]=\\0\\0\\128?\\0\\0\\0\\191 " },
        { inputs, "{\"b\":true}", "b[1]=\\1 " },
        { inputs, "{\"b\":[false,true]}", "b[2]=\\0\\1 " },
        { inputs, "{\"s\":\"t\",\"i\":-7,\"y\":true,\"d\":1.5}", "s:'t' i:-7 y:true d:1.5 " },
        { inputs, "{\"big\":18446744073709551615}", "big:1.84467e+19 " },
        { inputs, "{\"parameters\":{\"n\":1,\"p\":2}}", "n[1]=\\1\\0\\0\\0 p:2 " },
        { inputs, "{\"parameters\":{}}", "" },
        { inputs, "{\"p\":1,\"parameters\":{\"p\":2}}", "p:1 p:2 " },
        /* of the names that mean something in an infer request none does here */
        { inputs, "{\"sequence_id\":3,\"priority\":\"x\",\"triton_x\":1}",
          "sequence_id:3 priority:'x' triton_x:1 " },
        { inputs, "{\"id\":\"x\"}", "id=x id:'x' " },
        { inputs, "{\"id\":\"x\",\"id\":4}", "id=x id:'x' id:4 " },
        { inputs, "{\"parameters\":{\"id\":\"x\"}}", "id:'x' " },
        { odd_names, "{\"id\":[4,5]}", "id[2]=\\4\\0\\0\\0\\5\\0\\0\\0 " },
};

static void test_members(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(members); i++) {
                AUTO_STRBUF    got;
                struct fixture f;

                model = members[i].model;
                strbuf_init(&got, 0);
                decode(&f, members[i].json);
                if (f.err != NULL)
                        fail_msg("%s: %s", members[i].json, f.err->message);
                describe(&f.request, &got);
                if (strcmp(strbuf_cstr(&got), members[i].want) != 0)
                        fail_msg("%s: %s, not %s", members[i].json, strbuf_cstr(&got),
                                 members[i].want);
                close_fixture(&f);
        }
}

/* ---- faults ---- */

#define SYNTAX "failed to parse the request JSON buffer: "
#define BAD_TYPE(name)                                                                             \
        "parameter '" name "' has invalid type. It should be either 'int', 'bool', or 'string'."
#define KEY_NAME "parameter 'triton_api_key_name' is set by the server and should not be specified"
#define NESTED "Converting keyword: 'parameters': "
#define NOT_OBJECT                                                                                 \
        "Expected JSON object for keyword: 'parameters': attempt to access JSON non-object as "    \
        "object"
#define NOT_TEXT "Unable to parse JSON bytes array: attempt to access JSON non-string as string"
#define NO_SHAPE(name) "The schema can not convert input '" name "' to tensor with proper shape"
#define NUL "Unable to parse 'parameters': the text contains a NUL character"

static const struct member_row faults[] = {
        { inputs, "", SYNTAX "The document is empty. at 0" },
        { inputs, "{\"n\":1", SYNTAX "Missing a comma or } after an object member. at 6" },
        { inputs, "{\"n\":1}}",
          SYNTAX "The document root must not be followed by other values. at 7" },
        { inputs, "null", "attempt to get members for non-object" },
        { inputs, "[{}]", "attempt to get members for non-object" },
        { inputs, "\"x\" y",
          SYNTAX "The document root must not be followed by other values. at 4" },
        { inputs, "{\"x\":null}", BAD_TYPE("x") },
        { inputs, "{\"x\":[]}", BAD_TYPE("x") },
        { inputs, "{\"x\":{}}", BAD_TYPE("x") },
        { inputs, "{\"triton_api_key_name\":\"a\"}", KEY_NAME },
        { inputs, "{\"triton_api_key_\\u006eame\":{},\"n\":1}", KEY_NAME },
        { inputs, "{\"parameters\":{\"triton_api_key_name\":\"a\"}}", NESTED KEY_NAME },
        { inputs, "{\"x\":{},\"y\":tru}", SYNTAX "Invalid value. at 15" },
        { inputs, "{\"x\":{},\"y\":[]}", BAD_TYPE("x") },
        { inputs, "{\"a\\u0000\":1}", NUL },
        { inputs, "{\"parameters\":{\"x\":null,\"y\":[]}}", NESTED BAD_TYPE("x") },
        { inputs, "{\"parameters\":{\"parameters\":{}}}", NESTED BAD_TYPE("parameters") },
        { inputs, "{\"parameters\":{\"n\":\"x\"}}",
          NESTED "Unable to parse 'data': attempt to access JSON non-signed-integer as "
                 "signed-integer" },
        { inputs, "{\"parameters\":null}", NOT_OBJECT },
        { inputs, "{\"parameters\":[]}", NOT_OBJECT },
        { inputs, "{\"parameters\":\"x\"}", NOT_OBJECT },
        { inputs, "{\"parameters\":{\"n\":}}", SYNTAX "Invalid value. at 19" },
        { inputs, "{\"id\":1}",
          "Unable to parse 'id': attempt to access JSON non-string as string" },
        { inputs, "{\"id\":\"\\u0000\"}",
          "Unable to parse 'id': the text contains a NUL character" },
        { inputs, "{\"half\":1}", "input 'half' has unsupported datatype FP16" },
        { inputs, "{\"bf\":[1]}", "input 'bf' has unsupported datatype BF16" },
        { inputs, "{\"half\":[1,}", SYNTAX "Invalid value. at 11" },
        { inputs, "{\"text\":1}", NOT_TEXT },
        { inputs, "{\"text\":null}", NOT_TEXT },
        { inputs, "{\"text\":{}}", NOT_TEXT },
        { inputs, "{\"text\":[\"a\",1]}", NOT_TEXT },
        { inputs, "{\"f\":[1,null]}",
          "Unable to parse 'data': attempt to access JSON non-number as double" },
        { inputs, "{\"f\":[1]}", NO_SHAPE("f") },
        { inputs, "{\"f\":1}", NO_SHAPE("f") },
        { inputs, "{\"f\":[[1,2]]}", NO_SHAPE("f") },
        { inputs, "{\"f\":[[1,2],[3,4]]}",
          "Unable to parse 'data': Shape does not match true shape of 'data' field" },
        { inputs, "{\"n\":[[]]}", "Failed to parse 'data' field: shape does not match true shape" },
        { inputs, "{\"unlucky\":1}", "not now" },
        { odd_names, "{\"parameters\":[1]}",
          "Keyword 'parameters' for nested schema also given as input tensor name" },
        { odd_names, "{\"parameters\":{}}",
          "Keyword 'parameters' for nested schema also given as input tensor name" },
};

static void test_faults(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
                struct fixture f;

                model = faults[i].model;
                decode(&f, faults[i].json);
                if (f.err == NULL)
                        fail_msg("%s: no fault", faults[i].json);
                if (strcmp(f.err->message, faults[i].want) != 0)
                        fail_msg("%s: %s", faults[i].json, f.err->message);
                assert_int_equal(f.err->code, strcmp(f.err->message, "not now") == 0
                                                      ? ERR_UNAVAILABLE
                                                      : ERR_INVALID_ARG);
                close_fixture(&f);
        }
}

/* ---- sizes ---- */

struct size_row {
        const char *json;
        size_t      max;
        const char *want; /* NULL: it passes */
};

#define TOO_LARGE(sum, name, bytes, max)                                                           \
        "request size of " sum " bytes with input '" name "' of size " bytes " bytes exceeds the " \
        "maximum allowed input size of " max ". Use --http-max-input-size to increase the limit."

static const struct size_row sizes[] = {
        { "{\"n\":[1,2,3,4,5]}", 20, NULL },
        { "{\"n\":[1,2,3,4,5]}", 19, TOO_LARGE("20", "n", "20", "19") },
        { "{\"n\":[1,2,3,4,5]}", 16,
          "request JSON size of 17 bytes exceeds the maximum allowed input size of 16 bytes. Use "
          "--http-max-input-size to increase the limit." },
        { "{\"text\":[\"\",\"\",\"\",\"\",\"\",\"\"]}", 28, NULL },
        { "{\"text\":[\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\"]}", 37, NULL },
        { "{\"text\":[\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\"]}", 51,
          TOO_LARGE("52", "text", "52", "51") },
        /* all tensors together */
        { "{\"f\":[1,2],\"n\":[1,2,3,4,5,6]}", 32, NULL },
        { "{\"f\":[1,2],\"n\":[1,2,3,4,5,6]}", 31, TOO_LARGE("32", "n", "24", "31") },
};

static void test_sizes(void **state) {
        (void)state;
        model = inputs;
        for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
                struct fixture f;

                decode_some(&f, str_of(sizes[i].json), sizes[i].max);
                if (sizes[i].want != NULL) {
                        assert_non_null(f.err);
                        assert_string_equal(f.err->message, sizes[i].want);
                } else if (f.err != NULL) {
                        fail_msg("%s: %s", sizes[i].json, f.err->message);
                }
                close_fixture(&f);
        }
}

SUITE(http_generate_decode) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_shapes),
                cmocka_unit_test(test_members),
                cmocka_unit_test(test_faults),
                cmocka_unit_test(test_sizes),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
