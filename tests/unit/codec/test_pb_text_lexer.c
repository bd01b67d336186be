/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "codec/pb_text_lexer.h"

struct row {
        enum pb_token_kind kind;
        const char        *text;
        unsigned           line, column;
};

static void check_tokens(const char *text, const struct row *rows, size_t n_rows) {
        struct pb_lexer l;

        assert_null(pb_lexer_start(&l, str_of(text), "f"));
        for (size_t i = 0; i < n_rows; i++) {
                assert_int_equal(l.token.kind, rows[i].kind);
                if (!str_is(l.token.text, rows[i].text))
                        fail_msg("token %zu is %.*s, not %s", i, STR_ARG(l.token.text),
                                 rows[i].text);
                assert_int_equal(l.token.place.line, rows[i].line);
                assert_int_equal(l.token.place.column, rows[i].column);
                assert_null(pb_lexer_next(&l));
        }
        assert_int_equal(l.token.kind, PB_TOKEN_END);
}

static void test_kinds_and_places(void **state) {
        static const struct row rows[] = {
                { PB_TOKEN_WORD, "name", 1, 1 },      { PB_TOKEN_SIGN, ":", 1, 5 },
                { PB_TOKEN_STRING, "\"a b\"", 1, 7 }, { PB_TOKEN_WORD, "_x9", 2, 2 },
                { PB_TOKEN_SIGN, "{", 2, 6 },         { PB_TOKEN_SIGN, "-", 4, 3 },
                { PB_TOKEN_NUMBER, "12", 4, 4 },      { PB_TOKEN_SIGN, ",", 4, 6 },
                { PB_TOKEN_STRING, "'\\''", 4, 7 },   { PB_TOKEN_SIGN, "}", 5, 1 },
        };

        (void)state;
        check_tokens("name: \"a b\"\n\t_x9 {# {\n#\n  -12,'\\''\n}\n# end", rows, ARRAY_LEN(rows));
}

static void test_numbers(void **state) {
        static const struct row rows[] = {
                { PB_TOKEN_NUMBER, "1.5e-3", 1, 1 }, { PB_TOKEN_NUMBER, ".5", 1, 8 },
                { PB_TOKEN_NUMBER, "0x1e", 1, 11 },  { PB_TOKEN_SIGN, "+", 1, 15 },
                { PB_TOKEN_NUMBER, "1", 1, 16 },     { PB_TOKEN_NUMBER, "1abc", 1, 18 },
                { PB_TOKEN_SIGN, ".", 1, 23 },       { PB_TOKEN_WORD, "a", 1, 25 },
                { PB_TOKEN_NUMBER, "1.", 1, 27 },    { PB_TOKEN_NUMBER, "1e+", 1, 30 },
        };

        (void)state;
        check_tokens("1.5e-3 .5 0x1e+1 1abc . a 1. 1e+", rows, ARRAY_LEN(rows));
}

static void test_bytes_beyond_ascii_are_one_sign_per_character(void **state) {
        static const struct row rows[] = {
                { PB_TOKEN_SIGN, "\xe2\x82\xac", 1, 1 },
                { PB_TOKEN_WORD, "a", 1, 2 },
                { PB_TOKEN_SIGN, "\xff", 1, 3 },
        };

        (void)state;
        check_tokens("\xe2\x82\xac"
                     "a\xff",
                     rows, ARRAY_LEN(rows));
}

static void test_accept(void **state) {
        struct pb_lexer l;
        bool            found;

        (void)state;
        assert_null(pb_lexer_start(&l, STR_LIT(": ':'"), NULL));
        assert_true(pb_lexer_is_sign(&l, ':'));
        assert_false(pb_lexer_is_sign(&l, ';'));
        assert_null(pb_lexer_accept(&l, ';', &found));
        assert_false(found);
        assert_null(pb_lexer_accept(&l, ':', &found));
        assert_true(found);
        /* A string is not a sign, whatever is in it. */
        assert_false(pb_lexer_is_sign(&l, ':'));
}

static void test_strings_are_joined(void **state) {
        struct pb_lexer l;
        AUTO_STRBUF     text;

        (void)state;
        strbuf_init(&text, 0);
        assert_null(pb_lexer_start(&l, STR_LIT("'a\\n' \"\\x00b\" end"), NULL));
        assert_null(pb_lexer_read_string(&l, &text));
        assert_int_equal(text.len, 4);
        assert_memory_equal(text.ptr, "a\n\0b", 4);
        assert_true(str_is(l.token.text, "end"));
}

static void test_errors(void **state) {
        struct pb_lexer l;
        struct error   *err;

        (void)state;
        assert_null(pb_lexer_start(&l, STR_LIT("\n  word"), "file"));
        err = pb_lexer_expected(&l, "%s number %d", "a", 7);
        assert_string_equal(err->message, "file:2:3: expected a number 7, got 'word'");
        assert_int_equal(err->code, ERR_INVALID_ARG);
        error_free(err);

        err = pb_lexer_start(&l, STR_LIT("\n 'abc"), NULL);
        assert_string_equal(err->message, "2:2: string is not terminated");
        error_free(err);

        /* What is shown of a long token ends at a whole character. */
        assert_null(pb_lexer_start(&l,
                                   STR_LIT("'0123456789012345678901234567890123456789012345"
                                           "\xe2\x82\xac more'"),
                                   "f"));
        err = pb_lexer_expected(&l, "this");
        assert_string_equal(err->message,
                            "f:1:1: expected this, got '0123456789012345678901234567890"
                            "123456789012345...");
        error_free(err);
}

SUITE(pb_text_lexer) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_kinds_and_places),
                cmocka_unit_test(test_numbers),
                cmocka_unit_test(test_bytes_beyond_ascii_are_one_sign_per_character),
                cmocka_unit_test(test_accept),
                cmocka_unit_test(test_strings_are_joined),
                cmocka_unit_test(test_errors),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
