/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "openai/openai_logprobs.h"

#include <string.h>

#define LISTS                                                                                      \
        "[[{\"5\":{\"logprob\":-0.5,\"decoded_token\":\"\\u00e9\"},\"6\":{\"logprob\":-1,"         \
        "\"decoded_token\":\"b\"}}],[{\"7\":{\"logprob\":-2,\"decoded_token\":\"c\"}}]]"

static void expect(enum openai_endpoint endpoint, const char *lists, size_t offset,
                   const char *text, size_t offset_after) {
        struct arena  scratch;
        struct strbuf out;

        arena_init(&scratch, NULL, 0, 0);
        strbuf_init(&out, 0);
        openai_logprobs_print(endpoint, str_of(lists), 1, &scratch, &offset, &out);
        assert_string_equal(strbuf_cstr(&out), text);
        assert_int_equal(offset, offset_after);
        strbuf_done(&out);
        arena_done(&scratch);
}

static void test_completions(void **state) {
        (void)state;
        expect(OPENAI_COMPLETIONS, LISTS, 3,
               "{\"tokens\":[\"\xc3\xa9\",\"c\"],\"token_logprobs\":[-0.5,-2.0],\"top_logprobs\":"
               "[{\"\xc3\xa9\":-0.5},{\"c\":-2.0}],\"text_offset\":[3,4]}",
               5);
}

static void test_chat(void **state) {
        (void)state;
        expect(OPENAI_CHAT, LISTS, 0,
               "{\"content\":[{\"token\":\"\xc3\xa9\",\"logprob\":-0.5,\"bytes\":[195,169],"
               "\"top_logprobs\":[{\"token\":\"\xc3\xa9\",\"logprob\":-0.5,\"bytes\":[195,169]}]},"
               "{\"token\":\"c\",\"logprob\":-2.0,\"bytes\":[99],\"top_logprobs\":[{\"token\":"
               "\"c\",\"logprob\":-2.0,\"bytes\":[99]}]}]}",
               0);
}

/* A token that cannot be has no number in JSON. */
static void test_infinity(void **state) {
        (void)state;
        expect(OPENAI_COMPLETIONS,
               "[[{\"5\":{\"logprob\":-Infinity,\"decoded_token\":\"a\"}},{\"5\":{\"logprob\":NaN,"
               "\"decoded_token\":\"b\"}},{\"5\":{\"logprob\":Infinity,\"decoded_token\":\"c\"}}]]",
               0,
               "{\"tokens\":[\"a\",\"b\",\"c\"],\"token_logprobs\":[-9999.0,-9999.0,-9999.0],"
               "\"top_logprobs\":[{\"a\":-9999.0},{\"b\":-9999.0},{\"c\":-9999.0}],"
               "\"text_offset\":[0,1,2]}",
               3);
}

/* What has no number says nothing about the token: a 0 would say that it was certain. */
static void test_without_numbers(void **state) {
        (void)state;
        expect(OPENAI_COMPLETIONS,
               "[[{\"5\":7},{\"5\":{}},{\"5\":{\"logprob\":\"-1\",\"decoded_token\":\"a\"},"
               "\"6\":{\"logprob\":-1,\"decoded_token\":\"b\"}},{\"7\":{\"logprob\":-2},"
               "\"8\":null}]]",
               0,
               "{\"tokens\":[\"\"],\"token_logprobs\":[-2.0],\"top_logprobs\":[{\"\":-2.0}],"
               "\"text_offset\":[0]}",
               0);
}

/* The lists of a long answer need no memory for each of their tokens. */
static void test_many_tokens(void **state) {
        struct arena  scratch;
        struct strbuf lists, out;
        size_t        offset = 0, n = 0;

        (void)state;
        arena_init(&scratch, NULL, 0, 4096);
        strbuf_init(&lists, 0);
        strbuf_init(&out, 0);
        strbuf_puts(&lists, "[[{\"1\":{\"logprob\":-1,\"decoded_token\":\"a\"}}");
        for (int i = 1; i < 1000; i++)
                strbuf_puts(&lists, ",{\"1\":{\"logprob\":-1,\"decoded_token\":\"a\"}}");
        strbuf_puts(&lists, "]]");
        openai_logprobs_print(OPENAI_CHAT, strbuf_str(&lists), 20, &scratch, &offset, &out);
        for (const char *at = strbuf_cstr(&out); (at = strstr(at, "top_logprobs")) != NULL; at++)
                n++;
        assert_int_equal(n, 1000);
        strbuf_done(&lists);
        strbuf_done(&out);
        arena_done(&scratch);
}

/* A model may report anything. */
static void test_malformed(void **state) {
        static const char *const texts[] = { "", "null", "7", "[7,\"a\",[7],[{}],[{\"1\":7}]",
                                             "[[{\"1\":{\"logprob\":" };
        struct arena             scratch;
        struct strbuf            out;
        size_t                   offset = 0;

        (void)state;
        arena_init(&scratch, NULL, 0, 0);
        strbuf_init(&out, 0);
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                strbuf_clear(&out);
                openai_logprobs_print(OPENAI_CHAT, str_of(texts[i]), 2, &scratch, &offset, &out);
                assert_true(str_starts(strbuf_str(&out), STR_LIT("{\"content\":[")));
                assert_true(str_ends(strbuf_str(&out), STR_LIT("]}")));
        }
        strbuf_done(&out);
        arena_done(&scratch);
}

SUITE(openai_logprobs) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_completions), cmocka_unit_test(test_chat),
                cmocka_unit_test(test_infinity),    cmocka_unit_test(test_many_tokens),
                cmocka_unit_test(test_malformed),   cmocka_unit_test(test_without_numbers),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
