/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/mem.h"
#include "codec/json_find.h"
#include "openai/openai_answer.h"
#include "openai/openai_error.h"

#include <string.h>

#define HEAD                                                                                       \
        "data: "                                                                                   \
        "{\"id\":\"the-id\",\"object\":\"chat.completion.chunk\",\"created\":7,\"model\":\"m\""

static const int64_t one = 1;

struct place {
        struct openai_request    q;
        struct openai_model      model;
        struct openai_answer     a;
        struct openai_part_state part;
        struct arena             arena, scratch;
        struct strbuf            out;
        char                     bytes[512];
};

static void open_place(struct place *p, enum openai_format format, bool is_stream) {
        memset(p, 0, sizeof(*p));
        p->q = (struct openai_request){ .endpoint = OPENAI_CHAT,
                                        .model = "m",
                                        .is_stream = is_stream };
        p->model = (struct openai_model){ .name = "m", .format = format };
        arena_init(&p->arena, NULL, 0, 0);
        arena_init(&p->scratch, NULL, 0, 0);
        strbuf_init(&p->out, 0);
        p->part.part.n_choices = format != OPENAI_FORMAT_OPENAI;
        assert_null(openai_answer_init(&p->a, &p->q, &p->model, "the-id", p->part.part.n_choices,
                                       &p->arena));
        /* The time is not the same in each run. */
        p->a.head = str_range(HEAD, sizeof(HEAD) - 1);
}

static void close_place(struct place *p) {
        openai_answer_done(&p->a);
        strbuf_done(&p->out);
        arena_done(&p->arena);
        arena_done(&p->scratch);
}

static struct infer_output bytes_output(struct place *p, size_t at, const char *name,
                                        struct str text) {
        uint32_t len = (uint32_t)text.len;

        memcpy(p->bytes + at, &len, sizeof(len));
        memcpy(p->bytes + at + sizeof(len), text.ptr, len);
        return (struct infer_output){ .name = name,
                                      .datatype = TRITONSERVER_TYPE_BYTES,
                                      .n_dims = 1,
                                      .shape = &one,
                                      .bytes = { p->bytes + at, sizeof(len) + len } };
}

/* A response with a text and, if it is not NULL, a reason. */
static struct error *add(struct place *p, const char *name, struct str text, const char *reason) {
        struct infer_output   outputs[2] = { bytes_output(p, 0, name, text) };
        struct infer_response r = { .outputs = outputs, .n_outputs = 1 };

        if (reason != NULL) {
                outputs[1] = bytes_output(p, 256, "finish_reason", str_of(reason));
                r.n_outputs = 2;
        }
        strbuf_clear(&p->out);
        return openai_answer_add(&p->a, &p->part, &r, &p->scratch, &p->out);
}

#define EVENT(inside) HEAD ",\"choices\":[{\"index\":0," inside "}]}\n\n"

static void test_events(void **state) {
        struct place p;

        (void)state;
        open_place(&p, OPENAI_FORMAT_VLLM, true);
        assert_null(add(&p, "text_output", STR_LIT("a\"\n\xe2\x82"), "None"));
        assert_string_equal(strbuf_cstr(&p.out),
                            EVENT("\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
                                  "\"logprobs\":null,\"finish_reason\":null")
                                    EVENT("\"delta\":{\"content\":\"a\\\"\\n\"},\"logprobs\":null,"
                                          "\"finish_reason\":null"));
        assert_null(add(&p, "text_output", STR_LIT(""), "None")); /* nothing to report */
        assert_string_equal(strbuf_cstr(&p.out), "");
        assert_null(add(&p, "text_output", STR_LIT("\xac"), "length"));
        assert_string_equal(strbuf_cstr(&p.out),
                            EVENT("\"delta\":{\"content\":\"\xe2\x82\xac\"},\"logprobs\":null,"
                                  "\"finish_reason\":\"length\""));
        strbuf_clear(&p.out);
        openai_answer_end_part(&p.a, &p.part, &p.out); /* it has ended already */
        openai_answer_end_stream(&p.a, &p.out);
        assert_string_equal(strbuf_cstr(&p.out), "data: [DONE]\n\n");
        assert_int_equal(p.a.n_cut, 1);
        close_place(&p);
}

static void test_an_end_without_a_reason(void **state) {
        struct place p;

        (void)state;
        open_place(&p, OPENAI_FORMAT_VLLM, true);
        assert_null(add(&p, "text_output", STR_LIT("a\xe2\x82"), NULL));
        strbuf_clear(&p.out);
        openai_answer_end_part(&p.a, &p.part, &p.out);
        assert_non_null(strstr(strbuf_cstr(&p.out), "{\"content\":\"\xef\xbf\xbd"));
        assert_non_null(strstr(strbuf_cstr(&p.out), "\"finish_reason\":\"stop\""));
        assert_int_equal(p.a.n_stopped, 1);
        close_place(&p);
}

/* The last chunk of a completion often has an empty text, and its reason at the end of the object. */
static void test_an_empty_text_of_a_model_that_speaks(void **state) {
        struct place p;

        (void)state;
        open_place(&p, OPENAI_FORMAT_OPENAI, true);
        assert_null(add(&p, "openai_response",
                        STR_LIT("{\"choices\":[{\"text\":\"\",\"finish_reason\":\"stop\"}]}"),
                        NULL));
        assert_string_equal(strbuf_cstr(&p.out),
                            HEAD ",\"choices\":[{\"text\":\"\",\"finish_reason\":\"stop\"}]}\n\n");
        assert_false(p.a.has_text);
        assert_int_equal(p.a.n_stopped, 1);
        close_place(&p);
}

static void test_a_model_that_speaks(void **state) {
        struct place  p;
        struct error *err;

        (void)state;
        open_place(&p, OPENAI_FORMAT_OPENAI, true);
        assert_null(add(&p, "openai_response",
                        STR_LIT("{\"id\":\"x\",\n\"choices\":[ {\"index\":0,\r\n\"delta\":{}} ],"
                                "\"model\":\"y\",\"object\":\"z\",\"created\":1,\"own\":true}"),
                        NULL));
        assert_string_equal(strbuf_cstr(&p.out),
                            HEAD ",\"choices\":[ {\"index\":0,  \"delta\":{}} ],\"own\":true}\n\n");
        assert_null(add(&p, "openai_response",
                        STR_LIT("{\"choices\":[],\"usage\":{\"prompt_tokens\":3,"
                                "\"completion_tokens\":4}}"),
                        NULL));
        assert_string_equal(strbuf_cstr(&p.out), "");
        assert_int_equal(p.a.prompt_tokens, 3);
        assert_int_equal(p.a.completion_tokens, 4);
        err = add(&p, "openai_response",
                  STR_LIT("{\"error\":{\"message\":\"no\",\"type\":\"invalid_request_error\","
                          "\"param\":\"messages\",\"code\":\"context_length_exceeded\"}}"),
                  NULL);
        assert_int_equal(err->code, ERR_INVALID_ARG);
        assert_string_equal(err->message, "no");
        assert_string_equal(err->field, "messages");
        assert_string_equal(p.a.code, OPENAI_CODE_TOO_LONG);
        error_free(err);
        close_place(&p);
}

/* Python's json.dumps() writes words that JSON does not have. */
static void test_numbers_that_json_does_not_have(void **state) {
        static const struct {
                const char *object, *members;
        } rows[] = {
                { "{\"choices\":[{\"logprobs\":{\"content\":[{\"logprob\":-Infinity,\"bytes\":[]},"
                  "{\"logprob\": NaN},{\"logprob\":Infinity},{\"logprob\":-NaN}]}}]}",
                  "\"choices\":[{\"logprobs\":{\"content\":[{\"logprob\":-9999.0,\"bytes\":[]},"
                  "{\"logprob\": null},{\"logprob\":null},{\"logprob\":null}]}}]" },
                { "{\"choices\":[],\"own\":[Inf,-Inf,-1.5,NaN]}",
                  "\"choices\":[],\"own\":[null,-9999.0,-1.5,null]" },
                /* Inside texts they are texts. */
                { "{\"choices\":[],\"NaN\":\"-Infinity\",\"a\":\"\\\\\",\"b\":\"\\\"NaN\",\"c\":"
                  "NaN}",
                  "\"choices\":[],\"NaN\":\"-Infinity\",\"a\":\"\\\\\",\"b\":\"\\\"NaN\",\"c\":"
                  "null" },
        };
        struct place p;

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                AUTO_CHARS expected = mem_printf(HEAD ",%s}\n\n", rows[i].members);

                open_place(&p, OPENAI_FORMAT_OPENAI, true);
                assert_null(add(&p, "openai_response", str_of(rows[i].object), NULL));
                assert_string_equal(strbuf_cstr(&p.out), expected);
                close_place(&p);
        }
}

/* As a model gives the halves of a character that is split over two responses. */
static void test_halves_of_surrogates(void **state) {
        static const struct {
                const char *object, *members;
        } rows[] = {
                { "{\"a\":\"x\\ud83d\"}", "\"a\":\"x\\ufffd\"" },
                { "{\"a\":\"\\uDE00y\",\"b\":\"\\u00e9\"}",
                  "\"a\":\"\\ufffdy\",\"b\":\"\\u00e9\"" },
                { "{\"a\":\"\\ud83d\\ud83d\\ude00\\ude00\"}",
                  "\"a\":\"\\ufffd\\ud83d\\ude00\\ufffd\"" },
                { "{\"a\":\"\\\\ud83d\\\"\\ud83d\\n\"}", "\"a\":\"\\\\ud83d\\\"\\ufffd\\n\"" },
                { "{\"\\ud800\":[\"\\ud800\\u0041\"]}", "\"\xef\xbf\xbd\":[\"\\ufffd\\u0041\"]" },
        };
        struct place p;

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                AUTO_CHARS expected = mem_printf(HEAD ",%s}\n\n", rows[i].members);

                open_place(&p, OPENAI_FORMAT_OPENAI, true);
                assert_null(add(&p, "openai_response", str_of(rows[i].object), NULL));
                assert_string_equal(strbuf_cstr(&p.out), expected);
                close_place(&p);
        }
}

static void test_texts_that_are_no_objects(void **state) {
        static const char *const texts[] = { "",
                                             "[]",
                                             "{",
                                             "{} x",
                                             "{\"a\":}",
                                             "{\"a\":\"NaN",
                                             "{\"NaN\\",
                                             "NaN",
                                             "{\"a\":\"\\ud83d",
                                             "{\"a\":\"\\ud83",
                                             "{\"a\":\"\\ud83d\\u",
                                             "{\"\\ud83d\\" };
        struct place             p;

        (void)state;
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                struct error *err;

                open_place(&p, OPENAI_FORMAT_OPENAI, true);
                err = add(&p, "openai_response", str_of(texts[i]), NULL);
                assert_non_null(err);
                assert_int_equal(err->code, ERR_INTERNAL);
                error_free(err);
                close_place(&p);
        }
}

static void test_a_whole_answer(void **state) {
        struct place p;

        (void)state;
        open_place(&p, OPENAI_FORMAT_TRTLLM, false);
        p.q.max_tokens = (struct openai_number){ .json = STR_LIT("2"), .value = 2, .integer = 2 };
        assert_null(add(&p, "text_output", STR_LIT("\xe2"), NULL));
        assert_null(add(&p, "text_output", STR_LIT("\x82\xac!"), NULL));
        p.part.completion_tokens = 2;
        openai_answer_end_part(&p.a, &p.part, &p.out);
        strbuf_clear(&p.out);
        assert_null(openai_answer_print(&p.a, &p.scratch, &p.out));
        assert_string_equal(strbuf_cstr(&p.out), HEAD
                            ",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\","
                            "\"content\":\"\xe2\x82\xac!\",\"refusal\":null},\"logprobs\":null,"
                            "\"finish_reason\":\"length\"}],\"usage\":null}");
        close_place(&p);
}

static void test_a_failure(void **state) {
        static const struct openai_error full = { .status = 503, .message = "a\nb" };
        static const struct openai_error long_prompt = {
                .status = 400, .message = "x", .param = "messages", .code = OPENAI_CODE_TOO_LONG
        };
        struct strbuf out;

        (void)state;
        strbuf_init(&out, 0);
        openai_answer_put_failure(&full, &out);
        assert_string_equal(strbuf_cstr(&out),
                            "data: {\"error\":{\"message\":\"a\\nb\",\"type\":\"server_error\","
                            "\"param\":null,\"code\":\"overloaded\"}}\n\ndata: [DONE]\n\n");
        strbuf_clear(&out);
        openai_answer_put_failure(&long_prompt, &out);
        assert_string_equal(
                strbuf_cstr(&out),
                "data: {\"error\":{\"message\":\"x\",\"type\":\"invalid_request_error\","
                "\"param\":\"messages\",\"code\":\"context_length_exceeded\"}}\n\n"
                "data: [DONE]\n\n");
        strbuf_done(&out);
}

static void test_counts_of_tokens(void **state) {
        static const uint32_t few[] = { 3, 4 };
        static const uint64_t many[] = { UINT64_C(1) << 40, 2 };
        static const float    reals[] = { 3, 4 };
        static const double   wide_reals[] = { 5 };
        static const int32_t  negative[] = { 3, -1 };
        static const int64_t  wide_negative[] = { -1 };
        struct infer_output   outputs[] = {
                  { .name = "a",
                    .datatype = TRITONSERVER_TYPE_INT32,
                    .bytes = { (const char *)few, 8 } },
                  { .name = "b",
                    .datatype = TRITONSERVER_TYPE_UINT64,
                    .bytes = { (const char *)many, 16 } },
                  { .name = "c",
                    .datatype = TRITONSERVER_TYPE_INT32,
                    .bytes = { (const char *)few, 3 } },
                  { .name = "d",
                    .datatype = TRITONSERVER_TYPE_BYTES,
                    .bytes = { (const char *)few, 8 } },
                  { .name = "fp32",
                    .datatype = TRITONSERVER_TYPE_FP32,
                    .bytes = { (const char *)reals, 8 } },
                  { .name = "fp64",
                    .datatype = TRITONSERVER_TYPE_FP64,
                    .bytes = { (const char *)wide_reals, 8 } },
                  { .name = "negative",
                    .datatype = TRITONSERVER_TYPE_INT32,
                    .bytes = { (const char *)negative, 8 } },
                  { .name = "wide_negative",
                    .datatype = TRITONSERVER_TYPE_INT64,
                    .bytes = { (const char *)wide_negative, 8 } },
        };
        struct infer_response r = { .outputs = outputs, .n_outputs = ARRAY_LEN(outputs) };
        uint64_t              n;

        (void)state;
        assert_true(openai_answer_read_count(&r, "a", &n));
        assert_int_equal(n, 7);
        assert_true(openai_answer_read_count(&r, "b", &n));
        assert_true(n == (UINT64_C(1) << 40) + 2);
        assert_false(openai_answer_read_count(&r, "c", &n));
        assert_false(openai_answer_read_count(&r, "d", &n));
        assert_false(openai_answer_read_count(&r, "e", &n));
        assert_false(openai_answer_read_count(&r, "fp32", &n));
        assert_false(openai_answer_read_count(&r, "fp64", &n));
        assert_false(openai_answer_read_count(&r, "negative", &n));
        assert_false(openai_answer_read_count(&r, "wide_negative", &n));
}

SUITE(openai_answer) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_events),
                cmocka_unit_test(test_an_end_without_a_reason),
                cmocka_unit_test(test_an_empty_text_of_a_model_that_speaks),
                cmocka_unit_test(test_a_model_that_speaks),
                cmocka_unit_test(test_numbers_that_json_does_not_have),
                cmocka_unit_test(test_halves_of_surrogates),
                cmocka_unit_test(test_texts_that_are_no_objects),
                cmocka_unit_test(test_a_whole_answer),
                cmocka_unit_test(test_a_failure),
                cmocka_unit_test(test_counts_of_tokens),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
