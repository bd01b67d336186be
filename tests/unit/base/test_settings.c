/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "base/settings.h"

static void test_last_setting_counts(void **state) {
        struct settings s = { 0 };

        (void)state;
        settings_add(&s, "onnxruntime", "threads", "1");
        settings_add(&s, "", "threads", "8");
        settings_add(&s, "onnxruntime", "threads", "2");
        assert_int_equal(s.n_items, 3);
        assert_string_equal(settings_find(&s, "onnxruntime", "threads"), "2");
        assert_string_equal(settings_find(&s, "", "threads"), "8");
        assert_null(settings_find(&s, "onnxruntime", "thread"));
        assert_null(settings_find(&s, "python", "threads"));
        settings_done(&s);
}

static void test_texts_are_copies(void **state) {
        struct settings s = { 0 }, copy = { 0 };
        char            text[] = "a";

        (void)state;
        settings_add(&s, text, text, text);
        text[0] = 'b';
        settings_add_all(&copy, s.items, s.n_items);
        settings_done(&s);
        assert_int_equal(copy.n_items, 1);
        assert_string_equal(copy.items[0].group, "a");
        assert_string_equal(settings_find(&copy, "a", "a"), "a");
        settings_done(&copy);
}

static void test_reads_text(void **state) {
        static const struct {
                const char *text, *group, *name, *value; /* group NULL: refused */
        } rows[] = {
                { "onnxruntime,threads=2", "onnxruntime", "threads", "2" },
                { "threads=2", "", "threads", "2" },
                { ",threads=2", "", "threads", "2" },
                { "a,b=c=d,e", "a", "b", "c=d,e" },
                { "a,b,c=d", "a", "b,c", "d" },
                { "a,b=", "a", "b", "" },
                { "", NULL, NULL, NULL },
                { "a", NULL, NULL, NULL },
                { "a,b", NULL, NULL, NULL },
                { "=v", NULL, NULL, NULL },
                { "a,=v", NULL, NULL, NULL },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct settings s = { 0 };

                assert_int_equal(settings_read(&s, rows[i].text), rows[i].group != NULL);
                assert_int_equal(s.n_items, rows[i].group != NULL);
                if (rows[i].group != NULL) {
                        assert_string_equal(s.items[0].group, rows[i].group);
                        assert_string_equal(s.items[0].name, rows[i].name);
                        assert_string_equal(s.items[0].value, rows[i].value);
                }
                settings_done(&s);
        }
}

SUITE(settings) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_last_setting_counts),
                cmocka_unit_test(test_texts_are_copies),
                cmocka_unit_test(test_reads_text),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
