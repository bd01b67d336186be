/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers of language models, and the requests that ask for them. */
#include "suite.h"

#include "base/compiler.h"
#include "codec/json_find.h"
#include "load/request_language.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAX_PIECES 4

static const struct answer_row {
        enum language_endpoint endpoint;
        const char            *pieces[MAX_PIECES];
        const char            *texts; /* for each piece 1: it has text */
        uint64_t               tokens, prompt;
        bool                   is_counted;
} answers[] = {
        { LANGUAGE_CHAT,
          { "{\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}",
            "{\"choices\":[{\"delta\":{\"content\":\" a\"}}],\"usage\":null}",
            "{\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}",
            "{\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":5}}" },
          "0100",
          5,
          7,
          true },
        { LANGUAGE_CHAT,
          { "{\"choices\":[{\"delta\":{\"content\":\"a\"}}]}",
            "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0}]}}]}",
            "{\"choices\":[{\"delta\":{\"content\":null,\"reasoning_content\":\"b\"}}]}",
            "[DONE]" },
          "1110",
          3,
          0,
          false },
        { LANGUAGE_CHAT,
          { "{\"choices\":[{\"delta\":{\"content\":null,\"tool_calls\":null,\"x\":\"text\"}}]}",
            "{\"choices\":null}", "{\"choices\":[7,[],{\"delta\":7}],\"usage\":7}",
            "{\"choices\"" },
          "0000",
          0,
          0,
          false },
        { LANGUAGE_COMPLETIONS, /* the usage so far in each piece, as some servers have it */
          { "{\"choices\":[{\"text\":\"a\"}],\"usage\":{\"prompt_tokens\":2,\"completion_tokens\":"
            "1}}",
            "{\"choices\":[{\"text\":\"bc\"}],\"usage\":{\"prompt_tokens\":2,\"completion_tokens\":"
            "3}}" },
          "11",
          3,
          2,
          true },
        { LANGUAGE_CHAT, /* a whole answer */
          { "{\"choices\":[{\"message\":{\"content\":\"a b\"}}],\"usage\":"
            "{\"prompt_tokens\":1,\"completion_tokens\":2,\"total_tokens\":3}}" },
          "1",
          2,
          1,
          true },
        { LANGUAGE_EMBEDDINGS,
          { "{\"data\":[{\"embedding\":[1,2]}],\"usage\":{\"prompt_tokens\":4,\"total_tokens\":4}"
            "}" },
          "0",
          0,
          4,
          true },
        { LANGUAGE_GENERATE,
          { "{\"text_output\":\"a\",\"num_output_tokens\":1,\"num_input_tokens\":6}",
            "{\"text_output\":[\"\",\"b\"],\"num_output_tokens\":[1,2],\"num_input_tokens\":[6]}",
            "{\"text_output\":\"\",\"num_output_tokens\":0}" },
          "110",
          4,
          6,
          true },
        { LANGUAGE_GENERATE,
          { "{\"text_output\":\"a\"}", "{\"text_output\":[7,\"\"]}", "7", "" },
          "1000",
          1,
          0,
          false },
};

static void test_answers(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
                const struct answer_row *row = &answers[i];
                struct language_answer   a = { 0 };
                char                     texts[MAX_PIECES + 1] = "";

                for (size_t k = 0; k < MAX_PIECES && row->pieces[k] != NULL; k++) {
                        language_answer_add(&a, row->endpoint, str_of(row->pieces[k]));
                        strcat(texts, a.has_text ? "1" : "0");
                }
                if (strcmp(texts, row->texts) != 0 || language_answer_tokens(&a) != row->tokens ||
                    a.n_prompt_tokens != row->prompt || a.is_counted != row->is_counted)
                        fail_msg("row %zu: %s, %llu tokens, %llu of the prompt", i, texts,
                                 (unsigned long long)language_answer_tokens(&a),
                                 (unsigned long long)a.n_prompt_tokens);
        }
}

static void test_names(void **state) {
        (void)state;
        assert_int_equal(language_endpoint_find(STR_LIT("chat")), LANGUAGE_CHAT);
        assert_int_equal(language_endpoint_find(STR_LIT("v1/chat/completions")), LANGUAGE_CHAT);
        assert_int_equal(language_endpoint_find(STR_LIT("/v1/embeddings")), LANGUAGE_EMBEDDINGS);
        assert_int_equal(language_endpoint_find(STR_LIT("generate")), LANGUAGE_GENERATE);
        assert_int_equal(language_endpoint_find(STR_LIT("")), LANGUAGE_NONE);
        assert_int_equal(language_endpoint_find(STR_LIT("v1/responses")), LANGUAGE_NONE);
        assert_string_equal(language_endpoint_path(LANGUAGE_COMPLETIONS), "/v1/completions");
        assert_null(language_endpoint_path(LANGUAGE_GENERATE));
}

/* ---- prompts ----------------------------------------------------------------------------------- */

static size_t count_words(struct str text) {
        size_t n = text.len > 0;

        for (size_t i = 0; i < text.len; i++)
                n += text.ptr[i] == ' ';
        return n;
}

static void test_random_prompts(void **state) {
        struct prompt_options o = { .tokens = 20, .n_prefix = 5, .n_distinct = 300, .seed = 1 };
        struct prompt_set     s, same;
        size_t                prefix = 0, sum = 0, least = SIZE_MAX, most = 0;

        (void)state;
        assert_null(prompt_set_make(&o, &s));
        assert_null(prompt_set_make(&o, &same));
        assert_int_equal(s.n, 300);
        for (int blanks = 0; blanks < 5; prefix++)
                blanks += s.items[0].ptr[prefix] == ' ';
        for (size_t i = 0; i < s.n; i++) {
                assert_int_equal(count_words(s.items[i]), 25);
                assert_memory_equal(s.items[i].ptr, s.items[0].ptr, prefix);
                assert_true(str_equal(s.items[i], same.items[i]));
        }
        assert_false(str_equal(s.items[0], s.items[1]));
        prompt_set_done(&s);
        prompt_set_done(&same);
        o = (struct prompt_options){ .tokens = 50, .deviation = 10, .n_distinct = 2000, .seed = 3 };
        assert_null(prompt_set_make(&o, &s));
        for (size_t i = 0; i < s.n; i++) {
                size_t n = count_words(s.items[i]);

                sum += n;
                least = MIN(least, n);
                most = MAX(most, n);
        }
        assert_true(sum > 49 * 2000 && sum < 51 * 2000);
        assert_true(least < 30 && most > 70); /* beyond two deviations */
        prompt_set_done(&s);
}

static void test_prompts_of_a_file(void **state) {
        char                  path[] = "/tmp/neso-prompts-XXXXXX";
        int                   fd = mkstemp(path);
        static const char     text[] = "one\n\n  two \"2\"\r\nthree";
        struct prompt_options o = { .path = path };
        struct prompt_set     s;
        AUTO_ERROR            err = NULL;
        AUTO_ERROR            other = NULL;

        (void)state;
        assert_int_equal(write(fd, text, strlen(text)), strlen(text));
        assert_null(prompt_set_make(&o, &s));
        assert_int_equal(s.n, 3);
        assert_true(STR_IS(s.items[1], "two \"2\"") && STR_IS(s.items[2], "three"));
        prompt_set_done(&s);
        assert_int_equal(ftruncate(fd, 0), 0);
        err = prompt_set_make(&o, &s);
        assert_non_null(strstr(err->message, "has no prompt"));
        assert_int_equal(pwrite(fd, "a\n\xff\n", 4, 0), 4);
        other = prompt_set_make(&o, &s);
        assert_non_null(strstr(other->message, "prompt 2 of "));
        close(fd);
        unlink(path);
}

static void test_lengths(void **state) {
        static const char *const wrong[] = { "",     "0",     "x",   "5,", "5,x",
                                             "5,-1", "5,1,2", "nan", "1e9" };
        double                   mean, deviation;

        (void)state;
        assert_null(prompt_length_read("prompt-tokens", "200,50.5", &mean, &deviation));
        assert_true(mean == 200.0 && deviation == 50.5);
        assert_null(prompt_length_read("prompt-tokens", "7", &mean, &deviation));
        assert_true(mean == 7.0 && deviation == 0.0);
        for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
                AUTO_ERROR err = prompt_length_read("prompt-tokens", wrong[i], &mean, &deviation);

                assert_non_null(err);
        }
}

/* ---- requests ---------------------------------------------------------------------------------- */

static struct str              items[] = { { "a \"1\"", 5 }, { "b", 1 }, { "c", 1 } };
static const struct prompt_set prompts = { .items = items, .n = ARRAY_LEN(items) };

static const struct request_row {
        enum language_endpoint endpoint;
        bool                   is_whole;
        uint64_t               batch, max_tokens;
        const char            *inputs; /* generate: of the model */
        const char            *line;   /* beginning of the request */
        const char            *body;   /* of the first request; else the error */
} requests[] = {
        { LANGUAGE_CHAT, false, 1, 9, "", "POST /v1/chat/completions ",
          "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"a \\\"1\\\"\"}],"
          "\"stream\":true,\"stream_options\":{\"include_usage\":true},\"max_tokens\":9,"
          "\"top_k\":4}" },
        { LANGUAGE_COMPLETIONS, true, 1, 0, "", "POST /v1/completions ",
          "{\"model\":\"m\",\"prompt\":\"a \\\"1\\\"\",\"top_k\":4}" },
        { LANGUAGE_EMBEDDINGS, false, 1, 0, "", "POST /v1/embeddings ",
          "{\"model\":\"m\",\"input\":\"a \\\"1\\\"\",\"top_k\":4}" },
        { LANGUAGE_EMBEDDINGS, false, 4, 0, "", "POST /v1/embeddings ",
          "{\"model\":\"m\",\"input\":[\"a \\\"1\\\"\",\"b\",\"c\",\"a \\\"1\\\"\"],\"top_k\":4}" },
        { LANGUAGE_GENERATE, false, 1, 9, "text_input max_tokens stream return_num_output_tokens",
          "POST /v2/models/m/generate_stream ",
          "{\"text_input\":\"a \\\"1\\\"\",\"stream\":true,\"return_num_output_tokens\":true,"
          "\"max_tokens\":9,\"top_k\":4}" },
        { LANGUAGE_GENERATE, false, 1, 9, "text_input sampling_parameters",
          "POST /v2/models/m/generate_stream ",
          "{\"text_input\":\"a \\\"1\\\"\",\"sampling_parameters\":\"{\\\"max_tokens\\\":9}\","
          "\"top_k\":4}" },
        { LANGUAGE_GENERATE, false, 1, 9, "text_input sampling_param_max_tokens streaming",
          "POST /v2/models/m/generate_stream ",
          "{\"text_input\":\"a \\\"1\\\"\",\"streaming\":true,\"sampling_param_max_tokens\":9,"
          "\"top_k\":4}" },
        { LANGUAGE_GENERATE, false, 1, 9, "text_input", NULL,
          "--output-tokens: model 'm' has no input for a limit of tokens" },
        { LANGUAGE_GENERATE, false, 1, 0, "prompt", NULL,
          "--endpoint generate: model 'm' has no input 'text_input'; --language takes models of "
          "any "
          "inputs" },
};

/* A model with BYTES inputs of these names. */
static void make_model(const char *names, struct load_model *ret) {
        AUTO_STRBUF metadata = { 0 };
        struct str  left = str_of(names), name;

        strbuf_init(&metadata, 0);
        strbuf_puts(&metadata, "{\"outputs\":[],\"inputs\":[");
        while (left.ptr != NULL && left.len > 0) {
                left = str_split(left, ' ', &name);
                strbuf_printf(&metadata,
                              "{\"name\":\"%.*s\",\"datatype\":\"BYTES\",\"shape\":[1]}%s",
                              STR_ARG(name), left.len > 0 ? "," : "");
        }
        strbuf_puts(&metadata, "]}");
        assert_null(load_model_read("m", NULL, strbuf_str(&metadata), STR_LIT("{}"), ret));
}

static void check_request(const struct request_row *row, const struct request_set *set) {
        const struct wire_message *m = &set->messages[0];
        const char                *end = memmem(m->before.ptr, m->before.len, "\r\n\r\n", 4);
        char                       length[64];

        assert_true(str_starts(m->before, str_of(row->line)));
        assert_non_null(end);
        assert_int_equal(m->before.len, (size_t)(end + 4 - m->before.ptr) + strlen(row->body));
        assert_memory_equal(end + 4, row->body, strlen(row->body));
        snprintf(length, sizeof(length), "\r\nContent-Length: %zu\r\n", strlen(row->body));
        assert_non_null(memmem(m->before.ptr, m->before.len, length, strlen(length)));
        assert_int_equal(m->is_events, !row->is_whole && row->endpoint != LANGUAGE_EMBEDDINGS);
        assert_int_equal(set->n, ARRAY_LEN(items));
}

static void test_requests(void **state) {
        char         *parameters[] = { (char[]){ "top_k:4:int" } };
        struct target target = { .protocol = TARGET_HTTP, .authority = "localhost:8000" };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
                const struct request_row       *row = &requests[i];
                struct load_model               model;
                struct request_set              set;
                AUTO_ERROR                      err = NULL;
                struct language_request_options o = { .endpoint = row->endpoint,
                                                      .target = &target,
                                                      .model = &model,
                                                      .prompts = &prompts,
                                                      .is_whole = row->is_whole,
                                                      .batch = row->batch,
                                                      .max_tokens = row->max_tokens,
                                                      .parameters = parameters,
                                                      .n_parameters = 1 };

                make_model(row->inputs, &model);
                err = request_set_make_language(&o, &set);
                if (err == NULL) {
                        assert_non_null(row->line);
                        check_request(row, &set);
                        request_set_done(&set);
                } else {
                        assert_string_equal(err->message, row->body);
                }
                load_model_done(&model);
        }
}

static void test_a_wrong_parameter(void **state) {
        char                           *parameters[] = { (char[]){ "top_k:x:int" } };
        struct target                   target = { .protocol = TARGET_HTTP, .authority = "a" };
        struct load_model               model;
        struct request_set              set;
        AUTO_ERROR                      err = NULL;
        struct language_request_options o = { .endpoint = LANGUAGE_CHAT,
                                              .target = &target,
                                              .model = &model,
                                              .prompts = &prompts,
                                              .batch = 1,
                                              .parameters = parameters,
                                              .n_parameters = 1 };

        (void)state;
        load_model_init_bare("m", &model);
        err = request_set_make_language(&o, &set);
        assert_non_null(strstr(err->message, "--request-parameter top_k:x:int"));
        load_model_done(&model);
}

SUITE(language) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_answers),           cmocka_unit_test(test_names),
                cmocka_unit_test(test_random_prompts),    cmocka_unit_test(test_prompts_of_a_file),
                cmocka_unit_test(test_lengths),           cmocka_unit_test(test_requests),
                cmocka_unit_test(test_a_wrong_parameter),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
