/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "fake_server.h"
#include "kit/json.h"
#include "kit/text.h"

#include <stdlib.h>
#include <string.h>

static struct kit_json *read_good(const char *text) {
        struct kit_json *doc = NULL;

        assert_null(kit_json_read(text, strlen(text), "the text", &doc));
        return doc;
}

static void test_values(void **state) {
        struct kit_json *doc = read_good(
                " { \"a.b\" : [ 1, -2, \"30\", 4.5, 1e2, 99999999999999999999 ], \"t\": true,"
                "\"f\":false, \"n\":null, \"o\":{\"x\":{\"y\":[[],[7]]}}, \"s\":\"q\" } ");
        const struct kit_json_value *root = kit_json_root(doc);

        (void)state;
        assert_int_equal(kit_json_count(root), 6);
        assert_int_equal(kit_json_int(kit_json_find(root, "a.b/0"), 9), 1);
        assert_int_equal(kit_json_int(kit_json_find(root, "a.b/1"), 9), -2);
        assert_int_equal(kit_json_int(kit_json_find(root, "a.b/2"), 9), 30);
        assert_int_equal(kit_json_int(kit_json_find(root, "a.b/3"), 9), 9);
        assert_int_equal(kit_json_int(kit_json_find(root, "a.b/4"), 9), 9);
        assert_int_equal(kit_json_int(kit_json_find(root, "a.b/5"), 9), 9);
        assert_null(kit_json_find(root, "a.b/6"));
        assert_null(kit_json_find(root, "a.b/x"));
        assert_null(kit_json_find(root, "a.b/99999999999999999999"));
        assert_true(kit_json_double(kit_json_find(root, "a.b/3"), 0) == 4.5);
        assert_true(kit_json_double(kit_json_find(root, "a.b/4"), 0) == 100.0);
        assert_true(kit_json_bool(kit_json_find(root, "t"), false));
        assert_false(kit_json_bool(kit_json_find(root, "f"), true));
        assert_true(kit_json_bool(kit_json_find(root, "n"), true));
        assert_int_equal(kit_json_int(kit_json_find(root, "o/x/y/1/0"), 0), 7);
        assert_int_equal(kit_json_count(kit_json_find(root, "o/x/y/0")), 0);
        assert_null(kit_json_find(root, "s/0"));
        assert_null(kit_json_find(root, "o/none/y"));
        assert_string_equal(kit_json_string(kit_json_find(root, "s"), "?"), "q");
        assert_string_equal(kit_json_string(kit_json_find(root, "t"), "?"), "?");
        assert_string_equal(kit_json_string(NULL, "?"), "?");
        kit_json_free(doc);
}

static void test_strings(void **state) {
        struct kit_json *doc =
                read_good("[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\", \"\\u0041\\u00e9\\u20ac\","
                          "\"\\ud83d\\ude00\", \"\", \"\\u00e9x\"]");
        const struct kit_json_value *root = kit_json_root(doc);

        (void)state;
        assert_string_equal(kit_json_find(root, "0")->text, "\"\\/\b\f\n\r\t");
        assert_string_equal(kit_json_find(root, "1")->text, "A\xc3\xa9\xe2\x82\xac");
        assert_string_equal(kit_json_find(root, "2")->text, "\xf0\x9f\x98\x80");
        assert_string_equal(kit_json_find(root, "3")->text, "");
        assert_string_equal(kit_json_find(root, "4")->text, "\xc3\xa9x");
        kit_json_free(doc);
}

static void test_refused(void **state) {
        static const struct {
                const char *text;
                const char *message;
        } rows[] = {
                { "", "the text is not valid JSON at byte 0: a value was expected" },
                { "{", "the text is not valid JSON at byte 1: a key was expected" },
                { "[", "the text is not valid JSON at byte 1: a value was expected" },
                { "[1,]", "the text is not valid JSON at byte 3: a value was expected" },
                { "[1 2]", "the text is not valid JSON at byte 3: ',' or a closing bracket was "
                           "expected" },
                { "{\"a\" 1}", "the text is not valid JSON at byte 5: ':' was expected" },
                { "{\"a\":1,}", "the text is not valid JSON at byte 7: a key was expected" },
                { "\"a", "the text is not valid JSON at byte 2: unfinished string" },
                { "\"a\\", "the text is not valid JSON at byte 3: unfinished string" },
                { "\"\\x\"", "the text is not valid JSON at byte 3: unknown escape" },
                { "\"\\u12\"", "the text is not valid JSON at byte 3: unfinished \\u escape" },
                { "\"\\u12zz\"", "the text is not valid JSON at byte 6: bad \\u escape" },
                { "\"\\u0000\"", "the text is not valid JSON at byte 7: bad \\u escape" },
                { "\"\\ud800\"", "the text is not valid JSON at byte 7: unpaired surrogate" },
                { "\"\\ud800\\u0041\"",
                  "the text is not valid JSON at byte 13: unpaired surrogate" },
                { "\"\n\"", "the text is not valid JSON at byte 2: control character in a string" },
                { "1 1", "the text is not valid JSON at byte 2: text after the end of the "
                         "document" },
                { "-", "the text is not valid JSON at byte 1: a value was expected" },
                { "1.", "the text is not valid JSON at byte 2: digits were expected" },
                { "1e+", "the text is not valid JSON at byte 3: digits were expected" },
                { "tru", "the text is not valid JSON at byte 0: a value was expected" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct kit_json    *doc = NULL;
                TRITONSERVER_Error *err =
                        kit_json_read(rows[i].text, strlen(rows[i].text), "the text", &doc);

                assert_non_null(err);
                assert_string_equal(TRITONSERVER_ErrorMessage(err), rows[i].message);
                assert_int_equal(TRITONSERVER_ErrorCode(err), TRITONSERVER_ERROR_INVALID_ARG);
                TRITONSERVER_ErrorDelete(err);
        }
}

static void test_depth(void **state) {
        char                text[256];
        struct kit_json    *doc = NULL;
        TRITONSERVER_Error *err;

        (void)state;
        memset(text, '[', 65);
        memset(text + 65, ']', 65);
        text[130] = '\0';
        kit_json_free(read_good(text)); /* 64 levels below the outermost one */
        memset(text, '[', 66);
        memset(text + 66, ']', 66);
        err = kit_json_read(text, 132, "the text", &doc);
        assert_string_equal(TRITONSERVER_ErrorMessage(err),
                            "the text is not valid JSON at byte 65: nested too deeply");
        TRITONSERVER_ErrorDelete(err);
}

static void test_edited(void **state) {
        struct kit_json *doc =
                read_good("{\"name\":\"m\\\"n\", \"input\":[ ], \"x\": {\"deep\" : [1.50]} }");
        const struct kit_json_edit edits[] = {
                { "input", "[{\"name\":\"a\"}]" },
                { "max_batch_size", "4" },
                { "dynamic_batching", "{}" },
        };
        char *text = kit_json_edited(doc, edits, 3);

        (void)state;
        assert_string_equal(text, "{\"name\":\"m\\\"n\",\"input\":[{\"name\":\"a\"}],"
                                  "\"x\":{\"deep\" : [1.50]},\"max_batch_size\":4,"
                                  "\"dynamic_batching\":{}}");
        free(text);
        text = kit_json_edited(doc, NULL, 0);
        assert_string_equal(text, "{\"name\":\"m\\\"n\",\"input\":[ ],\"x\":{\"deep\" : [1.50]}}");
        free(text);
        kit_json_free(doc);

        doc = read_good("{}");
        text = kit_json_edited(doc, edits + 1, 2);
        assert_string_equal(text, "{\"max_batch_size\":4,\"dynamic_batching\":{}}");
        free(text);
        kit_json_free(doc);
}

static void test_text(void **state) {
        const int64_t   dims[] = { 1, -1, 16 };
        struct kit_text text = { 0 };
        char           *taken;

        (void)state;
        for (int i = 0; i < 100; i++)
                kit_text_print(&text, "%d,", i);
        assert_int_equal(text.len, 290);
        kit_text_done(&text);

        kit_text_add_json(&text, "a\"b\\c\n\x01");
        kit_text_add_shape(&text, dims, 3);
        kit_text_add_shape(&text, dims, 0);
        taken = kit_text_take(&text);
        assert_string_equal(taken, "\"a\\\"b\\\\c\\u000a\\u0001\"[1,-1,16][]");
        assert_null(text.chars);
        free(taken);

        taken = kit_text_take(&text);
        assert_string_equal(taken, "");
        free(taken);

        text.len = KIT_TEXT_MAX - 2;
        kit_text_add(&text, "12", 2);
        assert_true(text.has_failed);
        assert_null(kit_text_take(&text));
}

static int check_errors(void **state) {
        (void)state;
        return fake.n_errors_alive == 0 ? 0 : -1;
}

SUITE(kit_json) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_teardown(test_values, check_errors),
                cmocka_unit_test_teardown(test_strings, check_errors),
                cmocka_unit_test_teardown(test_refused, check_errors),
                cmocka_unit_test_teardown(test_depth, check_errors),
                cmocka_unit_test_teardown(test_edited, check_errors),
                cmocka_unit_test_teardown(test_text, check_errors),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
