/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/mem.h"
#include "infer/message.h"

#include <string.h>

static void test_parsed_is_a_copy(void **state) {
        char            json[] = "[1, 2]xxx";
        struct message *m = NULL;

        (void)state;
        assert_null(message_new_parsed(str_range(json, 6), &m));
        json[1] = '9';
        assert_true(str_is(message_text(m), "[1, 2]"));
        assert_int_equal(m->text[m->len], '\0');
        message_free(m);
        message_free(NULL);
}

static void test_taken_from_a_buffer(void **state) {
        struct strbuf   json;
        struct message *m = NULL;

        (void)state;
        strbuf_init(&json, 100);
        strbuf_puts(&json, "{\"a\":1}");
        assert_null(message_new_take(&json, &m));
        assert_true(str_is(message_text(m), "{\"a\":1}"));
        assert_int_equal(json.len, 0);
        message_free(m);
        strbuf_done(&json);
}

static void test_overflowed_buffer_is_refused(void **state) {
        struct strbuf   json;
        struct message *m = NULL;
        struct error   *err;

        (void)state;
        strbuf_init(&json, 4);
        strbuf_puts(&json, "\"12345\"");
        err = message_new_take(&json, &m);
        assert_non_null(err);
        assert_int_equal(err->code, ERR_INTERNAL);
        assert_string_equal(err->message, "a message is longer than 4 bytes");
        assert_null(m);
        error_free(err);
        strbuf_done(&json);
}

static void test_short_of_memory(void **state) {
        struct message *m = NULL;
        struct error   *err;

        (void)state;
        mem_fail_after(1);
        err = message_new_parsed(STR_LIT("{}"), &m);
        assert_true(mem_fail_was_hit());
        mem_fail_after(0);
        assert_non_null(err);
        assert_null(m);
        error_free(err);
}

SUITE(message) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_parsed_is_a_copy),
                cmocka_unit_test(test_taken_from_a_buffer),
                cmocka_unit_test(test_overflowed_buffer_is_refused),
                cmocka_unit_test(test_short_of_memory),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
