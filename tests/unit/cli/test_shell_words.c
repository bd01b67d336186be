/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/mem.h"
#include "cli/shell_words.h"

/* Splits the text, and puts the words with a bar between them; a word with an expansion ends in $. */
static char *split(const char *text) {
        struct shell_words words;
        struct strbuf      out;
        struct error      *err = shell_words_split(text, &words);

        strbuf_init(&out, 0);
        if (err != NULL) {
                strbuf_puts(&out, err->message);
                error_free(err);
                return strbuf_take(&out);
        }
        for (size_t i = 0; i < words.n_items; i++)
                strbuf_printf(&out, "%s%s%s", i > 0 ? "|" : "", words.items[i].text,
                              words.items[i].has_expansion ? "$" : "");
        shell_words_done(&words);
        return strbuf_take(&out);
}

static void assert_split(const char *text, const char *expected) {
        AUTO_CHARS got = split(text);

        if (strcmp(got, expected) != 0)
                fail_msg("%s\ngot      %s\nexpected %s", text, got, expected);
}

static void test_words(void **state) {
        (void)state;
        assert_split("", "");
        assert_split(" \t\n", "");
        assert_split("a  b\tc\nd", "a|b|c|d");
        assert_split("--load-model=*", "--load-model=*");
}

static void test_quotes(void **state) {
        (void)state;
        assert_split("'a b' \"c d\" e\\ f", "a b|c d|e f");
        assert_split("--x='a'\"b\"c", "--x=abc");
        assert_split("'' \"\"", "|");
        assert_split("'a\\b' \"a\\b\" \"a\\\"b\" \"a\\\\b\"", "a\\b|a\\b|a\"b|a\\b");
        assert_split("';' \\& \"|\"", ";|&||");
}

static void test_lines(void **state) {
        (void)state;
        assert_split("a \\\n  b", "a|b");
        assert_split("a\\\nb", "ab");
        assert_split("\"a\\\nb\"", "ab");
        assert_split("a # b c\nd#e", "a|d#e");
        assert_split("a \\\n", "a");
}

static void test_expansions(void **state) {
        (void)state;
        assert_split("$X", "$X$");
        assert_split("--a=${X}/b c", "--a=${X}/b$|c");
        assert_split("\"$X\" '$X' \\$X \"\\$X\"", "$X$|$X|$X|$X");
        assert_split("`x` ~/a a~ $ $. 5$", "`x`$|~/a$|a~|$|$.|5$");
}

static void test_refusals(void **state) {
        (void)state;
        assert_split("a 'b", "a quote ' without its end at character 3");
        assert_split("a \"b\\\"", "a quote \" without its end at character 3");
        assert_split("a\\", "a backslash without the character after it at character 2");
        assert_split("a & b", "'&', which a shell would interpret, at character 3");
        assert_split("a >b", "'>', which a shell would interpret, at character 3");
        assert_split("a $(b)", "'$(', which a shell would replace, at character 3");
}

static void test_raw(void **state) {
        struct shell_words words;

        (void)state;
        assert_null(shell_words_split("a \"$X/b\"'c' d", &words));
        assert_int_equal(words.n_items, 3);
        assert_true(str_is(words.items[1].raw, "\"$X/b\"'c'"));
        shell_words_done(&words);
}

static void assert_put(const char *text, const char *expected) {
        AUTO_STRBUF out = { 0 };
        AUTO_CHARS  again = NULL;

        strbuf_init(&out, 0);
        shell_word_put(text, &out);
        assert_string_equal(strbuf_cstr(&out), expected);
        again = split(strbuf_cstr(&out));
        assert_string_equal(again, text);
}

static void test_put(void **state) {
        (void)state;
        assert_put("--http-port=8000", "--http-port=8000");
        assert_put("--load-model=*", "'--load-model=*'");
        assert_put("", "''");
        assert_put("a b", "'a b'");
        assert_put("it's", "'it'\\''s'");
        assert_put("a;b|c", "'a;b|c'");
        assert_put("~a", "'~a'");
        assert_put("$X", "'$X'");
}

SUITE(shell_words) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_words),    cmocka_unit_test(test_quotes),
                cmocka_unit_test(test_lines),    cmocka_unit_test(test_expansions),
                cmocka_unit_test(test_refusals), cmocka_unit_test(test_raw),
                cmocka_unit_test(test_put),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
