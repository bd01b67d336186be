/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "openai/openai_prompt.h"
#include "openai/openai_request.h"
#include "shortage.h"

static void test_a_chat(void **state) {
        static const char body[] =
                "{\"model\":\"m\\u00e9\",\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"},"
                "{\"role\":\"assistant\",\"content\":null},{\"role\":\"tool\",\"content\":"
                "[{\"type\":\"text\",\"text\":\"a\"}]}],\"temperature\":0.5,\"max_tokens\":4,"
                "\"max_completion_tokens\":9.0,\"n\":2,\"stop\":[\"a\",\"bc\"],\"seed\":-7,"
                "\"stream\":true,\"stream_options\":{\"include_usage\":true},\"top_k\":40,"
                "\"logprobs\":true,\"top_logprobs\":3,\"user\":\"me\",\"top_p\":null}";
        struct openai_request q;
        struct arena          arena;

        (void)state;
        arena_init(&arena, NULL, 0, 0);
        assert_null(openai_request_read(OPENAI_CHAT, str_of(body), &arena, &q));
        assert_string_equal(q.model, "m\xc3\xa9");
        assert_true(q.temperature.value == 0.5 && str_is(q.temperature.json, "0.5"));
        assert_null(q.top_p.json.ptr);
        assert_int_equal(openai_request_max_tokens(&q), 9);
        assert_int_equal(openai_request_choices(&q), 2);
        assert_int_equal(q.seed.integer, -7);
        assert_int_equal(q.n_stops, 2);
        assert_true(str_is(q.stops[1], "bc"));
        assert_true(q.is_stream && q.includes_usage && q.wants_logprobs);
        assert_int_equal(q.n_logprobs.integer, 3);
        assert_int_equal(q.n_others, 1);
        assert_true(str_is(q.others[0].key, "top_k") && str_is(q.others[0].json, "40"));
        assert_true(str_starts(q.messages, STR_LIT("[{\"role\":\"user\"")));
        arena_done(&arena);
}

static void test_texts(void **state) {
        static const struct {
                const char *prompt;
                uint32_t    n;
                bool        has_ids;
        } rows[] = {
                { "\"a\"", 1, false },
                { "[\"a\",\"b\"]", 2, false },
                { "[1,2,3]", 0, true },
                { "[[1],[2,3]]", 0, true },
        };
        struct openai_request q;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                AUTO_CHARS   body = mem_printf("{\"model\":\"m\",\"prompt\":%s}", rows[i].prompt);
                struct arena arena;

                arena_init(&arena, NULL, 0, 0);
                assert_null(openai_request_read(OPENAI_COMPLETIONS, str_of(body), &arena, &q));
                assert_int_equal(q.n_texts, rows[i].n);
                assert_int_equal(q.has_token_ids, rows[i].has_ids);
                arena_done(&arena);
        }
}

static void test_forms_of_the_answer(void **state) {
        static const char body[] =
                "{\"model\":\"m\",\"prompt\":\"a\",\"response_format\":{\"json_schema\":"
                "{\"name\":\"x\",\"schema\":{\"type\":\"object\"}},\"type\":\"json_schema\"}}";
        static const char     text[] = "{\"model\":\"m\",\"prompt\":\"a\",\"response_format\":"
                                       "{\"type\":\"text\"}}";
        struct openai_request q;
        struct arena          arena;

        (void)state;
        arena_init(&arena, NULL, 0, 0);
        assert_null(openai_request_read(OPENAI_COMPLETIONS, str_of(body), &arena, &q));
        assert_true(str_is(q.schema, "{\"type\":\"object\"}"));
        assert_null(openai_request_read(OPENAI_COMPLETIONS, str_of(text), &arena, &q));
        assert_null(q.schema.ptr);
        assert_null(q.response_format.ptr);
        arena_done(&arena);
}

/* A member that is given again counts alone. */
static void test_forms_given_again(void **state) {
        static const char text[] =
                "{\"model\":\"m\",\"messages\":[{\"role\":\"user\"}],"
                "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{}}},"
                "\"response_format\":{\"type\":\"text\"},\"tools\":[{}],\"tools\":[]}";
        static const char schema[] =
                "{\"model\":\"m\",\"messages\":[{\"role\":\"user\"}],"
                "\"response_format\":{\"type\":\"json_object\"},"
                "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{}}}}";
        struct openai_request q;
        struct arena          arena;

        (void)state;
        arena_init(&arena, NULL, 0, 0);
        assert_null(openai_request_read(OPENAI_CHAT, str_of(text), &arena, &q));
        assert_null(q.response_format.ptr);
        assert_null(q.schema.ptr);
        assert_null(q.tools.ptr);
        assert_null(openai_request_read(OPENAI_CHAT, str_of(schema), &arena, &q));
        assert_true(str_is(q.schema, "{}"));
        assert_false(q.wants_any_object);
        arena_done(&arena);
}

/* `n` times `piece`, between `begin` and `end`, as the body of a request. The error's text is copied. */
static void read_repeated(const char *begin, const char *piece, size_t n, const char *end,
                          struct strbuf *ret_text) {
        AUTO_STRBUF           body = { 0 };
        struct openai_request q;
        struct arena          arena;
        struct error         *err;

        strbuf_init(&body, 0);
        strbuf_puts(&body, begin);
        for (size_t i = 0; i < n; i++)
                strbuf_puts(&body, piece);
        strbuf_puts(&body, end);
        arena_init(&arena, NULL, 0, 0);
        strbuf_clear(ret_text);
        err = openai_request_read(OPENAI_CHAT, strbuf_str(&body), &arena, &q);
        strbuf_puts(ret_text, err != NULL ? err->message : "");
        error_free(err);
        arena_done(&arena);
}

/* A client's text of any length is cut in an error. */
static void test_long_texts_in_errors(void **state) {
        static const struct {
                const char *begin, *piece, *end;
        } rows[] = {
                { "{\"model\":\"", "m", "\"}" },
                { "{\"model\":\"m\",\"top_p\":", "9", "}" },
                { "{\"model\":\"m\",\"messages\":[{\"role\":\"", "x", "\"}]}" },
                { "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"",
                  "x", "\"}]}]}" },
                { "{\"model\":\"m\",\"response_format\":{\"type\":\"", "x", "\"}}" },
        };
        AUTO_STRBUF text = { 0 };

        (void)state;
        strbuf_init(&text, 0);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                read_repeated(rows[i].begin, rows[i].piece, 100000, rows[i].end, &text);
                assert_in_range(text.len, 1, 256);
        }
        read_repeated(rows[0].begin, "m", OPENAI_MAX_MODEL_BYTES + 1, "\"}", &text);
        assert_true(str_is(strbuf_str(&text), "'model' has 1025 bytes, at most 1024 are allowed"));
        read_repeated(rows[0].begin, "m", OPENAI_MAX_MODEL_BYTES, "\"}", &text);
        assert_true(str_is(strbuf_str(&text), "'messages' is missing"));
}

/* Lists of token ids count as texts do. */
static void test_many_lists_of_token_ids(void **state) {
        static const char *const ends[] = { "[7]]}", "[7],[8]]}" };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
                AUTO_STRBUF           body = { 0 };
                struct openai_request q;
                struct arena          arena;
                struct error         *err;

                strbuf_init(&body, 0);
                strbuf_puts(&body, "{\"model\":\"m\",\"input\":[[1],[2]],\"input\":[");
                for (int n = 0; n < OPENAI_MAX_TEXTS - 1; n++)
                        strbuf_puts(&body, "[1,2],");
                strbuf_puts(&body, ends[i]);
                arena_init(&arena, NULL, 0, 0);
                err = openai_request_read(OPENAI_EMBEDDINGS, strbuf_str(&body), &arena, &q);
                assert_int_equal(openai_request_prompts(&q), OPENAI_MAX_TEXTS);
                if (i == 0)
                        assert_null(err);
                else
                        assert_string_equal(err->message,
                                            "'input' has more than 2048 lists of token ids");
                error_free(err);
                arena_done(&arena);
        }
}

/* They are kept as they were written, and ids that are not in lists are one. */
static void test_lists_of_token_ids_are_kept(void **state) {
        static const char *const bodies[] = {
                "{\"input\":[\"a\"],\"model\":\"m\",\"input\": [7, 8] }",
                "{\"model\":\"m\",\"input\":[ [7, 8] , [9]]}"
        };

        (void)state;
        for (uint32_t i = 0; i < ARRAY_LEN(bodies); i++) {
                struct openai_request q;
                struct arena          arena;

                arena_init(&arena, NULL, 0, 0);
                assert_null(openai_request_read(OPENAI_EMBEDDINGS, str_of(bodies[i]), &arena, &q));
                assert_int_equal(openai_request_prompts(&q), i + 1);
                assert_int_equal(q.n_texts, 0);
                assert_true(str_is(q.token_lists[0], "[7, 8]"));
                arena_done(&arena);
        }
}

/* Each row's error, also when memory is short at any place. */
static void test_errors(void **state) {
        static const struct {
                enum openai_endpoint endpoint;
                const char          *body, *param, *text;
        } rows[] = {
                { OPENAI_CHAT, "{}", "model", "'model' is missing" },
                { OPENAI_CHAT, "{\"model\":\"m\"}", "messages", "'messages' is missing" },
                { OPENAI_CHAT, "[]", NULL, "the body must be a JSON object" },
                { OPENAI_COMPLETIONS, "{\"model\":\"m\"}", "prompt",
                  "'prompt' is missing or empty" },
                { OPENAI_EMBEDDINGS, "{\"model\":\"m\",\"input\":[]}", "input",
                  "'input' is missing or empty" },
                { OPENAI_COMPLETIONS, "{\"model\":\"m\",\"prompt\":\"a\",\"top_p\":1.5}", "top_p",
                  "'top_p' must be between 0 and 1, not 1.5" },
                { OPENAI_COMPLETIONS, "{\"model\":\"m\",\"prompt\":\"a\",\"top_p\":NaN}", "top_p",
                  "'top_p' must be between 0 and 1, not NaN" },
                { OPENAI_EMBEDDINGS, "{\"model\":\"m\",\"input\":\"a\",\"dimensions\":0}",
                  "dimensions", "'dimensions' must be between 1 and 1048576, not 0" },
                { OPENAI_COMPLETIONS, "{\"model\":\"m\",\"prompt\":\"a\",\"max_tokens\":0}",
                  "max_tokens", "'max_tokens' must be between 1 and 1000000000, not 0" },
                { OPENAI_COMPLETIONS, "{\"model\":\"m\",\"prompt\":\"a\",\"n\":1.5}", "n",
                  "'n' must be an integer" },
                { OPENAI_COMPLETIONS, "{\"model\":\"m\",\"prompt\":\"a\",\"seed\":1e300}", "seed",
                  "'seed' must be an integer of at most 63 bits" },
                { OPENAI_COMPLETIONS, "{\"model\":\"m\",\"prompt\":\"a\",\"seed\":0.5}", "seed",
                  "'seed' must be an integer of at most 63 bits" },
                { OPENAI_COMPLETIONS,
                  "{\"model\":\"m\",\"prompt\":\"a\",\"seed\":9223372036854775808}", "seed",
                  "'seed' must be an integer of at most 63 bits" },
                { OPENAI_COMPLETIONS, "{\"model\":\"m\",\"prompt\":\"a\",\"logit_bias\":[7]}",
                  "logit_bias", "'logit_bias' must be an object" },
                { OPENAI_COMPLETIONS, "{\"model\":\"m\",\"prompt\":\"a\",\"logit_bias\":{\"a\":1}}",
                  "logit_bias", "'logit_bias' has the member 'a', which is no token id" },
                { OPENAI_CHAT, "{\"model\":\"m\",\"logit_bias\":{\"7\":1,\"-1\":1}}", "logit_bias",
                  "'logit_bias' has the member '-1', which is no token id" },
                { OPENAI_COMPLETIONS,
                  "{\"model\":\"m\",\"prompt\":\"a\",\"logit_bias\":{\"2147483648\":1}}",
                  "logit_bias", "'logit_bias' has the member '2147483648', which is no token id" },
                { OPENAI_COMPLETIONS,
                  "{\"model\":\"m\",\"prompt\":\"a\",\"logit_bias\":{\"7\":\"1\"}}", "logit_bias",
                  "a bias must be a number between -100 and 100" },
                { OPENAI_COMPLETIONS,
                  "{\"model\":\"m\",\"prompt\":\"a\",\"logit_bias\":{\"7\":-100.1}}", "logit_bias",
                  "a bias must be a number between -100 and 100" },
                { OPENAI_COMPLETIONS,
                  "{\"model\":\"m\",\"prompt\":\"a\",\"logit_bias\":{\"7\":NaN}}", "logit_bias",
                  "a bias must be a number between -100 and 100" },
                { OPENAI_COMPLETIONS, "{\"model\":\"m\",\"prompt\":[\"a\",7]}", "prompt",
                  "'prompt' mixes texts and token ids" },
                { OPENAI_EMBEDDINGS, "{\"model\":\"m\",\"input\":[7,[8]]}", "input",
                  "'input' mixes token ids and lists of them" },
                { OPENAI_EMBEDDINGS, "{\"model\":\"m\",\"input\":[[7],8]}", "input",
                  "'input' mixes token ids and lists of them" },
                { OPENAI_CHAT, "{\"model\":\"m\",\"messages\":[{\"role\":\"x\"}]}",
                  "messages[0].role",
                  "the role 'x' is unknown: system, developer, user, assistant and tool are "
                  "known" },
                { OPENAI_CHAT,
                  "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":"
                  "[{\"type\":\"input_audio\"}]}]}",
                  "messages[0].content",
                  "a content has a part of the type 'input_audio': only text is supported" },
                { OPENAI_EMBEDDINGS,
                  "{\"model\":\"m\",\"input\":\"a\",\"encoding_format\":\"hex\"}",
                  "encoding_format", "'encoding_format' must be 'float' or 'base64'" },
                { OPENAI_COMPLETIONS, "{\"model\":\"m\",\"prompt\":\"a\",\"stream_options\":{}}",
                  "stream_options", "'stream_options' needs \"stream\": true" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct openai_request q;
                struct arena          arena;
                struct error         *err;

                arena_init(&arena, NULL, 0, 0);
                err = openai_request_read(rows[i].endpoint, str_of(rows[i].body), &arena, &q);
                assert_non_null(err);
                assert_int_equal(err->code, ERR_INVALID_ARG);
                assert_string_equal(err->message, rows[i].text);
                if (rows[i].param != NULL)
                        assert_string_equal(err->field, rows[i].param);
                else
                        assert_null(err->field);
                error_free(err);
                arena_done(&arena);
        }
}

/* As other numbers, it may be written as a decimal. */
static void test_seeds(void **state) {
        static const struct {
                const char *seed;
                int64_t     integer;
        } rows[] = {
                { "7", 7 },
                { "-7.0", -7 },
                { "7e2", 700 },
                { "-0.0", 0 },
                { "9223372036854775807", INT64_MAX },
                { "-9223372036854775807", -INT64_MAX },
                { "4611686018427387904.0", INT64_C(1) << 62 },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                AUTO_CHARS body =
                        mem_printf("{\"model\":\"m\",\"prompt\":\"a\",\"seed\":%s}", rows[i].seed);
                struct openai_request q;
                struct arena          arena;

                arena_init(&arena, NULL, 0, 0);
                assert_null(openai_request_read(OPENAI_COMPLETIONS, str_of(body), &arena, &q));
                assert_true(q.seed.json.ptr != NULL && q.seed.integer == rows[i].integer);
                arena_done(&arena);
        }
}

static void test_no_seed(void **state) {
        static const char *const seeds[] = { "-1", "-1.0", "null" };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(seeds); i++) {
                AUTO_CHARS body =
                        mem_printf("{\"model\":\"m\",\"prompt\":\"a\",\"seed\":%s}", seeds[i]);
                struct openai_request q;
                struct arena          arena;

                arena_init(&arena, NULL, 0, 0);
                assert_null(openai_request_read(OPENAI_COMPLETIONS, str_of(body), &arena, &q));
                assert_null(q.seed.json.ptr);
                arena_done(&arena);
        }
}

static void test_biases(void **state) {
        static const char     body[] = "{\"model\":\"m\",\"prompt\":\"a\",\"logit_bias\": "
                                       "{\"7\":-100,\"\\u0038\":1e2,\"2147483647\":0} }";
        struct openai_request q;
        struct arena          arena;

        (void)state;
        arena_init(&arena, NULL, 0, 0);
        assert_null(openai_request_read(OPENAI_COMPLETIONS, str_of(body), &arena, &q));
        assert_true(str_is(q.logit_bias, "{\"7\":-100,\"\\u0038\":1e2,\"2147483647\":0}"));
        arena_done(&arena);
}

/* An error of syntax comes before any other. */
static void test_syntax_first(void **state) {
        struct openai_request q;
        struct arena          arena;
        struct error         *err;

        (void)state;
        arena_init(&arena, NULL, 0, 0);
        err = openai_request_read(OPENAI_CHAT, STR_LIT("{\"temperature\":9,\"model\":\"m\""),
                                  &arena, &q);
        assert_non_null(err);
        assert_null(err->field);
        assert_null(strstr(err->message, "temperature"));
        error_free(err);
        arena_done(&arena);
}

/* After a wrong value in a list the reader goes on: it reads "model", and it finds errors of syntax that come later. */
static void test_behind_a_wrong_value(void **state) {
        static const struct {
                const char *before, *field; /* field NULL: an error of syntax */
        } rows[] = {
                { "\"messages\":[{\"role\":7,\"x\":[1,{\"y\":2}]},{}]", "messages[0].role" },
                { "\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"a\"},[]]}]",
                  "messages[0].content" },
                { "\"stop\":[\"a\",1,[[]]]", "stop" },
                { "\"tools\":[[{}],{}]", "tools" },
                { "\"stream_options\":{\"include_usage\":[1],\"x\":{}}",
                  "stream_options.include_usage" },
                { "\"logit_bias\":{\"7\":[1,{}],\"8\":1}", "logit_bias" },
                { "\"stop\":[\"a\",1,[[}]]", NULL },
                { "\"logit_bias\":{\"7\":true,\"8\":}", NULL },
                { "\"messages\":[{\"role\":7},]", NULL },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                AUTO_CHARS            body = mem_printf("{%s,\"model\":\"m\"}", rows[i].before);
                struct arena          arena;
                struct openai_request q;
                AUTO_ERROR            err = NULL;

                arena_init(&arena, NULL, 0, 0);
                err = openai_request_read(OPENAI_CHAT, str_of(body), &arena, &q);
                assert_non_null(err);
                if (rows[i].field != NULL) {
                        assert_string_equal(err->field, rows[i].field);
                        assert_string_equal(q.model, "m");
                } else {
                        assert_null(err->field);
                }
                arena_done(&arena);
        }
}

static void test_deep_schema(void **state) {
        AUTO_STRBUF           body = { 0 };
        struct openai_request q;
        struct arena          arena;
        struct error         *err;

        (void)state;
        strbuf_init(&body, 0);
        strbuf_puts(&body, "{\"model\":\"m\",\"prompt\":\"a\",\"response_format\":{\"type\":"
                           "\"json_schema\",\"json_schema\":{\"schema\":");
        for (int i = 0; i <= OPENAI_MAX_SCHEMA_DEPTH; i++)
                strbuf_puts(&body, "{\"[[[\":");
        strbuf_puts(&body, "1");
        for (int i = 0; i <= OPENAI_MAX_SCHEMA_DEPTH; i++)
                strbuf_puts(&body, "}");
        strbuf_puts(&body, "}}}");
        arena_init(&arena, NULL, 0, 0);
        err = openai_request_read(OPENAI_COMPLETIONS, strbuf_str(&body), &arena, &q);
        assert_non_null(err);
        assert_string_equal(err->message, "the JSON schema has more than 32 levels");
        error_free(err);
        arena_done(&arena);
}

static void test_the_prompt_of_a_model(void **state) {
        static const char     body[] = "\xef\xbb\xbf{\"model\":\"m\",\"prompt\":\"}\"}  \n";
        struct openai_request q = { .endpoint = OPENAI_COMPLETIONS, .body = str_of(body) };
        char                  memory[128];
        struct str            text;

        (void)state;
        assert_true(openai_prompt_measure(&q) <= sizeof(memory));
        text = openai_prompt_print(&q, memory);
        assert_true(text.len <= openai_prompt_measure(&q));
        assert_true(str_is(text, "{\"model\":\"m\",\"prompt\":\"}\",\"endpoint\":\"completion\"}"));
}

/* Every allocation fails once. */
static void test_short_memory(void **state) {
        static const char body[] =
                "{\"model\":\"m\\u00e9\",\"prompt\":[\"a\\n\",\"b\",\"c\",\"d\",\"e\"],\"stop\":"
                "[\"x\",\"y\\t\"],\"top_k\":1,\"\\u006din_p\":2}";
        struct openai_request q;
        unsigned              n = 0;
        struct error         *err;

        (void)state;
        do {
                struct arena arena;

                arena_init(&arena, NULL, 0, 0);
                mem_fail_once(++n);
                err = openai_request_read(OPENAI_COMPLETIONS, str_of(body), &arena, &q);
                if (err == NULL) {
                        assert_int_equal(q.n_texts, 5);
                        assert_int_equal(q.n_others, 2);
                }
                arena_done(&arena);
        } while (expect_or_shortage(err, ERR_INVALID_ARG, NULL));
        assert_true(n > 1);
}

static void test_adapters(void **state) {
        static const struct {
                const char *name, *separator, *served, *lora;
        } rows[] = {
                { "m", "", "m", "" },       { "m_lora_a", "", "m_lora_a", "" },
                { "m", "_lora_", "m", "" }, { "m_lora_a", "_lora_", "m", "a" },
                { "m:a", ":", "m", "a" },   { "m:a:b", ":", "m:a:b", "" },
                { ":a", ":", ":a", "" },    { "m:", ":", "m:", "" },
                { "m::a", "::", "m", "a" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct openai_request q = { .model = rows[i].name };
                struct arena          arena;

                arena_init(&arena, NULL, 0, 0);
                assert_null(openai_request_split_model(&q, rows[i].separator, &arena));
                assert_string_equal(q.served, rows[i].served);
                assert_true(str_is(q.lora, rows[i].lora));
                assert_string_equal(q.model, rows[i].name);
                arena_done(&arena);
        }
}

SUITE(openai_request) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_adapters),
                cmocka_unit_test(test_a_chat),
                cmocka_unit_test(test_texts),
                cmocka_unit_test(test_forms_of_the_answer),
                cmocka_unit_test(test_forms_given_again),
                cmocka_unit_test(test_long_texts_in_errors),
                cmocka_unit_test(test_many_lists_of_token_ids),
                cmocka_unit_test(test_lists_of_token_ids_are_kept),
                cmocka_unit_test(test_errors),
                cmocka_unit_test(test_seeds),
                cmocka_unit_test(test_no_seed),
                cmocka_unit_test(test_biases),
                cmocka_unit_test(test_syntax_first),
                cmocka_unit_test(test_behind_a_wrong_value),
                cmocka_unit_test(test_deep_schema),
                cmocka_unit_test(test_the_prompt_of_a_model),
                cmocka_unit_test(test_short_memory),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
