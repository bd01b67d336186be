/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "http/http_route.h"
#include "shortage.h"

static void test_names(void **state) {
        static const struct {
                const char *segment, *name, *fault;
        } rows[] = {
                { "simple", "simple", NULL },
                { "", "", NULL },
                /* As the reference server takes them. */
                { "a%5Fb", "a%5Fb", NULL },
                { "a%20b", "a%20b", NULL },
                { "100%", "100%", NULL },
                { "%", "%", NULL },
                { "%8", "%8", NULL },
                { "%zz", "%zz", NULL },
                { "%8z", "%8z", NULL },
                { "%2e%2e", "%2e%2e", NULL },
                /* Percent-encoded as a whole. */
                { "%C3%BC", "\xc3\xbc", NULL },
                { "%c3%bc", "\xc3\xbc", NULL },
                { "gr%C3%B6%C3%9Fe%202",
                  "gr\xc3\xb6\xc3\x9f"
                  "e 2",
                  NULL },
                { "%E6%A8%A1%E5%9E%8B_1", "\xe6\xa8\xa1\xe5\x9e\x8b_1", NULL },
                { "%F0%9F%98%80", "\xf0\x9f\x98\x80", NULL },
                { "50%25%C3%BC", "50%\xc3\xbc", NULL },
                { "%C3%BC%2e%2E", "\xc3\xbc..", NULL },
                { "%C3%BC+", "\xc3\xbc+", NULL },
                /* Faults. */
                { "%C3%BC%", NULL,
                  "the model name '%C3%BC%' has a percent escape that is not two hexadecimal "
                  "digits" },
                { "%C3%BC%2", NULL,
                  "the model name '%C3%BC%2' has a percent escape that is not two hexadecimal "
                  "digits" },
                { "%C3%BC%zz", NULL,
                  "the model name '%C3%BC%zz' has a percent escape that is not two hexadecimal "
                  "digits" },
                { "%C3", NULL, "the model name '%C3' is not percent-encoded UTF-8" },
                { "a%ff", NULL, "the model name 'a%ff' is not percent-encoded UTF-8" },
                { "%C0%AF", NULL, "the model name '%C0%AF' is not percent-encoded UTF-8" },
                { "%ED%A0%80", NULL, "the model name '%ED%A0%80' is not percent-encoded UTF-8" },
                { "%C3%BC%2F", NULL,
                  "the model name '%C3%BC%2F' contains a slash or a NUL character" },
                { "%C3%BC%00", NULL,
                  "the model name '%C3%BC%00' contains a slash or a NUL character" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct arena  arena;
                struct str    name = STR_LIT("untouched");
                struct error *err;
                unsigned      n = 0;

                arena_init(&arena, NULL, 0, 0);
                do {
                        name = STR_LIT("untouched");
                        mem_fail_once(++n);
                        err = http_route_read_model(str_of(rows[i].segment), &arena, &name);
                        if (err == NULL && !str_is(name, rows[i].name))
                                fail_msg("row %zu: '%.*s'", i, STR_ARG(name));
                } while (expect_or_shortage(err, ERR_INVALID_ARG, rows[i].fault));
                name = STR_LIT("untouched");
                err = http_route_read_model(str_of(rows[i].segment), &arena, &name);
                if (err != NULL) {
                        assert_int_equal(err->code, ERR_INVALID_ARG);
                        assert_string_equal(err->message, rows[i].fault);
                        assert_true(str_is(name, "untouched"));
                } else if (!str_is(name, rows[i].name)) {
                        fail_msg("row %zu: '%.*s'", i, STR_ARG(name));
                }
                error_free(err);
                arena_done(&arena);
        }
}

SUITE(http_model_name) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_names),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
