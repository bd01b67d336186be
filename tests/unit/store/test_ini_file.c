/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "store/ini_file.h"

#include <string.h>

static struct error *read_text(struct str text, struct ini_file *ret) {
        struct strbuf b;

        strbuf_init(&b, 0);
        strbuf_put(&b, text.ptr, text.len);
        return ini_file_read("f", &b, ret);
}

static void check_value(const struct ini_file *f, const char *section, const char *key,
                        const char *value, unsigned line) {
        const struct ini_entry *e = ini_file_find(f, str_of(section), key);

        assert_non_null(e);
        assert_true(str_is(e->value, value));
        assert_int_equal(e->line, line);
}

static void test_values(void **state) {
        struct ini_file f;

        (void)state;
        assert_null(read_text(STR_LIT("\xef\xbb\xbf# comment\r\n"
                                      "\n"
                                      "[ default ] ; the first\r\n"
                                      "region = eu-west-1 \r\n"
                                      "key=a=b#c\n"
                                      "empty =\n"
                                      "s3 =\n"
                                      "  region = nested\n"
                                      "\tcontinued\n"
                                      "; comment\n"
                                      "last = 1\n"
                                      "[profile a b]\n"
                                      "[default]\n"
                                      "region = us-east-1"),
                              &f));
        check_value(&f, "default", "region", "us-east-1", 14);
        check_value(&f, "default", "key", "a=b#c", 5);
        check_value(&f, "default", "empty", "", 6);
        check_value(&f, "default", "s3", "", 7);
        check_value(&f, "default", "last", "1", 11);
        assert_true(ini_file_has_section(&f, STR_LIT("profile a b")));
        assert_false(ini_file_has_section(&f, STR_LIT("profile a")));
        assert_null(ini_file_find(&f, STR_LIT("profile a b"), "region"));
        assert_null(ini_file_find(&f, STR_LIT("default"), "Region"));
        ini_file_done(&f);

        assert_null(read_text(STR_LIT(""), &f));
        assert_int_equal(f.n_entries, 0);
        ini_file_done(&f);
}

/* The error has the line, and nothing of its text, which may be a key. */
static void test_refused(void **state) {
        static const struct {
                struct str  text;
                const char *error;
        } rows[] = {
                { { "[a", 2 }, "f:1: a section without ']'" },
                { { "\n[a] b", 6 }, "f:2: text behind the section" },
                { { "[ ]", 3 }, "f:1: a section without a name" },
                { { "[a]\nsecret", 10 }, "f:2: neither '[section]' nor 'key = value'" },
                { { "[a]\n= secret", 12 }, "f:2: neither '[section]' nor 'key = value'" },
                { { "[a]\n  secret", 12 }, "f:2: neither '[section]' nor 'key = value'" },
                { { "a = secret", 10 }, "f:1: a value before the first section" },
                { { "[a]\nb=\0", 7 }, "f: not a text file" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct ini_file f;
                struct error   *err = read_text(rows[i].text, &f);

                assert_non_null(err);
                assert_int_equal(err->code, ERR_INVALID_ARG);
                assert_string_equal(err->message, rows[i].error);
                error_free(err);
        }
}

SUITE(ini_file) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_values),
                cmocka_unit_test(test_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
