/* SPDX-License-Identifier: BSD-3-Clause */
/* Texts of a server for a terminal. */
#include "suite.h"

#include "base/compiler.h"
#include "load/plain_text.h"

#include <string.h>

static void test_control_characters(void **state) {
        static const struct {
                const char *text, *plain;
        } rows[] = {
                { "a\nb \xc3\xa4 \xe2\x82\xac", "a\nb \xc3\xa4 \xe2\x82\xac" },
                { "\x1b[2J\x07\t\r\x7f", "?[2J????" },
                { "\xc2\x9b"
                  "31m\xc2\x80\xc2\x9f\xc2\xa0",
                  "??31m????\xc2\xa0" },
                { "\xc2", "\xc2" },
                { "\xc2\x1b", "\xc2?" },
                { "", "" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                char text[32];

                assert_true(strlen(rows[i].text) < sizeof(text));
                strcpy(text, rows[i].text);
                plain_text_make(text, strlen(text), '?');
                assert_string_equal(text, rows[i].plain);
        }
}

/* `len` cuts the character after its first byte: plain_text_make() leaves both bytes as they are. */
static void test_the_end(void **state) {
        char text[] = "\xc2\x9b";

        (void)state;
        plain_text_make(text, 1, '?');
        assert_string_equal(text, "\xc2\x9b");
}

SUITE(plain_text) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_control_characters),
                cmocka_unit_test(test_the_end),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
