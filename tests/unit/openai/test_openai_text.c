/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "openai/openai_text.h"

static void test_unfinished(void **state) {
        static const struct {
                const char *text;
                size_t      n;
        } rows[] = {
                { "", 0 },
                { "a", 0 },
                { "\xc3", 1 },
                { "a\xc3\xa9", 0 },
                { "\xe2\x82", 2 },
                { "\xe2", 1 },
                { "\xe2\x82\xac", 0 },
                { "\xf0\x9f\x98", 3 },
                { "\xf0\x9f\x98\x80", 0 },
                /* No character can begin so. */
                { "\xff", 0 },
                { "\xc0", 0 },
                { "\x80", 0 },
                { "\x80\x80\x80\x80", 0 },
                { "\xed\xa0", 0 },
                { "\xe0\x80", 0 },
                { "\xf0\x80", 0 },
                { "\xf4\x90", 0 },
                { "\xf5", 0 },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                if (openai_text_unfinished(str_of(rows[i].text)) != rows[i].n)
                        fail_msg("row %zu", i);
}

static void test_characters(void **state) {
        (void)state;
        assert_int_equal(openai_text_characters(str_range(NULL, 0)), 0);
        assert_int_equal(openai_text_characters(STR_LIT("a\xe2\x82\xac\xf0\x9f\x98\x80z")), 4);
}

/* Each division of a text into two pieces gives the text, and no piece ends within a character. */
static void test_pieces(void **state) {
        static const char  whole[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z";
        struct strbuf      joined, seen;
        struct openai_hold hold;

        (void)state;
        strbuf_init(&joined, 0);
        strbuf_init(&seen, 0);
        for (size_t at = 0; at < sizeof(whole); at++) {
                struct str piece;

                hold = (struct openai_hold){ .n = 0 };
                strbuf_clear(&seen);
                piece = openai_hold_pass(&hold, str_range(whole, at), false, &joined);
                assert_true(str_is_utf8(piece));
                strbuf_put(&seen, piece.ptr, piece.len);
                piece = openai_hold_pass(&hold, str_of(whole + at), true, &joined);
                assert_true(str_is_utf8(piece));
                strbuf_put(&seen, piece.ptr, piece.len);
                assert_string_equal(strbuf_cstr(&seen), whole);
        }
        strbuf_done(&joined);
        strbuf_done(&seen);
}

static void test_an_end_holds_nothing_back(void **state) {
        struct openai_hold hold = { .n = 0 };
        struct strbuf      joined;
        struct str         piece;

        (void)state;
        strbuf_init(&joined, 0);
        piece = openai_hold_pass(&hold, STR_LIT("a\xe2"), false, &joined);
        assert_true(str_is(piece, "a"));
        assert_int_equal(hold.n, 1);
        piece = openai_hold_pass(&hold, STR_LIT("\x82"), false, &joined);
        assert_int_equal(piece.len, 0);
        assert_int_equal(hold.n, 2);
        piece = openai_hold_pass(&hold, STR_LIT(""), true, &joined);
        assert_true(str_is(piece, "\xe2\x82"));
        assert_int_equal(hold.n, 0);
        strbuf_done(&joined);
}

static void test_elements(void **state) {
        static const char      bytes[] = "\1\0\0\0a\0\0\0\0\3\0\0\0xyz\4\0\0\0no";
        struct openai_elements e = { str_range(bytes, sizeof(bytes) - 1) };
        struct str             text;

        (void)state;
        assert_true(openai_elements_next(&e, &text) && str_is(text, "a"));
        assert_true(openai_elements_next(&e, &text) && text.len == 0);
        assert_true(openai_elements_next(&e, &text) && str_is(text, "xyz"));
        assert_false(openai_elements_next(&e, &text)); /* longer than what is left */
}

SUITE(openai_text) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_unfinished), cmocka_unit_test(test_characters),
                cmocka_unit_test(test_pieces),     cmocka_unit_test(test_an_end_holds_nothing_back),
                cmocka_unit_test(test_elements),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
