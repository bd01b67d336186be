/* SPDX-License-Identifier: BSD-3-Clause */
/* A response of the generate endpoints, byte by byte. */
#include "suite.h"

#include "base/compiler.h"
#include "http/http_generate_json.h"

#include <string.h>

#define TENSOR(key, type, literal)                                                                 \
        {                                                                                          \
                .name = (key), .datatype = TRITONSERVER_TYPE_##type, .bytes = {                    \
                        "" literal,                                                                \
                        sizeof(literal) - 1                                                        \
                }                                                                                  \
        }
#define TEXT(key, content)                                                                         \
        { .name = (key), .type = TRITONSERVER_PARAMETER_STRING, .value.text = (content) }

struct row {
        const char            *want; /* an error's text when it does not begin with '{' */
        const char            *id;   /* NULL = none */
        struct infer_parameter parameters[4];
        struct infer_output    outputs[3];
        uint32_t               n_parameters, n_outputs;
};

#define MODEL "\"model_name\":\"m\",\"model_version\":\"3\""

static const struct row rows[] = {
        { .want = "{" MODEL "}" },
        { .want = "{\"id\":\"a\\\"b\"," MODEL "}", .id = "a\"b" },
        { .want = "{\"A\":7,\"Z\":[1,2],\"id\":\"x\"," MODEL ",\"z\":true}",
          .id = "x",
          .parameters = { { .name = "z",
                            .type = TRITONSERVER_PARAMETER_BOOL,
                            .value.boolean = true } },
          .n_parameters = 1,
          .outputs = { TENSOR("Z", INT8, "\1\2"), TENSOR("A", INT16, "\7\0") },
          .n_outputs = 2 },
        { .want = "{" MODEL ",\"n\":-5,\"r\":1.5,\"s\":\"t\"}",
          .parameters = { TEXT("s", "t"),
                          { .name = "r", .type = TRITONSERVER_PARAMETER_DOUBLE, .value.real = 1.5 },
                          { .name = "n",
                            .type = TRITONSERVER_PARAMETER_INT,
                            .value.integer = -5 } },
          .n_parameters = 3 },
        /* texts: none, one, several, one that is empty */
        { .want = "{\"a\":[],\"b\":\"hi\",\"c\":[\"\",\"x\"]," MODEL "}",
          .outputs = { TENSOR("c", BYTES, "\0\0\0\0\1\0\0\0x"), TENSOR("b", BYTES, "\2\0\0\0hi"),
                       TENSOR("a", BYTES, "") },
          .n_outputs = 3 },
        { .want = "{\"a\":\"\",\"b\":true,\"c\":0.1," MODEL "}",
          .outputs = { TENSOR("a", BYTES, "\0\0\0\0"), TENSOR("b", BOOL, "\1"),
                       TENSOR("c", FP32, "\xcd\xcc\xcc\x3d") },
          .n_outputs = 3 },
        { .want = "{\"e\":[]," MODEL ",\"n\":[NaN,-Infinity]}",
          .outputs = { TENSOR("n", FP32, "\0\0\xc0\x7f\0\0\x80\xff"), TENSOR("e", INT64, "") },
          .n_outputs = 2 },
        /* of equal keys the first counts */
        { .want = "{\"id\":\"x\"," MODEL ",\"p\":\"first\"}",
          .id = "x",
          .parameters = { TEXT("p", "first"), TEXT("p", "second"), TEXT("model_name", "other") },
          .n_parameters = 3,
          .outputs = { TENSOR("p", INT8, "\1"), TENSOR("id", INT8, "\2"),
                       TENSOR("model_version", FP16, "\0\0") },
          .n_outputs = 3 },
        /* keys are escaped, and sorted by their bytes */
        { .want = "{\"\\n\":1,\"a\":2," MODEL ",\"\xc3\xa9\":3}",
          .outputs = { TENSOR("\xc3\xa9", INT8, "\3"), TENSOR("a", INT8, "\2"),
                       TENSOR("\n", INT8, "\1") },
          .n_outputs = 3 },
        { .want = "sending FP16 data via JSON is not supported. Please use the binary data format "
                  "for output",
          .outputs = { TENSOR("h", FP16, "\0\0") },
          .n_outputs = 1 },
        { .want = "output 'b' is no well-formed BYTES tensor",
          .outputs = { TENSOR("b", BYTES, "\4\0\0\0abc") },
          .n_outputs = 1 },
};

static struct error *print(const struct row *row, struct arena *scratch, struct strbuf *out) {
        const struct infer_response r = {
                .id = row->id != NULL ? row->id : "",
                .model_name = "m",
                .model_version = 3,
                .parameters = (struct infer_parameter *)row->parameters,
                .n_parameters = row->n_parameters,
                .outputs = (struct infer_output *)row->outputs,
                .n_outputs = row->n_outputs,
        };

        return http_generate_print(&r, scratch, out);
}

static void test_rows(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                AUTO_STRBUF  out;
                struct arena scratch;

                strbuf_init(&out, 0);
                arena_init(&scratch, NULL, 0, 0);
                AUTO_ERROR err = print(&rows[i], &scratch, &out);

                assert_string_equal(err != NULL ? err->message : strbuf_cstr(&out), rows[i].want);
                arena_done(&scratch);
        }
}

/* Whatever the room, nothing is written beyond it, and the end tells. */
static void test_room(void **state) {
        const struct row *row = &rows[2];

        (void)state;
        for (size_t room = 1; room <= strlen(row->want); room++) {
                AUTO_STRBUF  out;
                struct arena scratch;

                strbuf_init(&out, room);
                arena_init(&scratch, NULL, 0, 0);
                assert_null(print(row, &scratch, &out));
                assert_int_equal(out.overflowed, room < strlen(row->want));
                assert_true(out.len <= room);
                arena_done(&scratch);
        }
}

static void test_error(void **state) {
        AUTO_STRBUF out;

        (void)state;
        strbuf_init(&out, 0);
        http_generate_print_error("it said \"no\"\n", &out);
        assert_string_equal(strbuf_cstr(&out), "{\"error\":\"it said \\\"no\\\"\\n\"}");
}

SUITE(http_generate_print) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rows),
                cmocka_unit_test(test_room),
                cmocka_unit_test(test_error),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
