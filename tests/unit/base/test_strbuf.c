/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/mem.h"
#include "base/strbuf.h"

#include <string.h>

static void test_put(void **state) {
        (void)state;
        AUTO_STRBUF b;

        strbuf_init(&b, 0);
        assert_string_equal(strbuf_cstr(&b), "");
        strbuf_puts(&b, "one");
        strbuf_putc(&b, ',');
        strbuf_put(&b, "t\0o", 3);
        strbuf_printf(&b, "%d", 3);
        assert_int_equal(b.len, 8);
        assert_memory_equal(strbuf_str(&b).ptr, "one,t\0o3", 9);
        strbuf_clear(&b);
        assert_int_equal(b.len, 0);
        assert_string_equal(strbuf_cstr(&b), "");
}

static void test_printf_grows(void **state) {
        (void)state;
        AUTO_STRBUF b;
        size_t      expected = 0;

        strbuf_init(&b, 0);
        for (int i = 0; i < 2000; i++) {
                strbuf_printf(&b, "%04d", i);
                expected += 4;
                assert_int_equal(b.len, expected);
                assert_int_equal(b.ptr[b.len], '\0');
        }
        assert_memory_equal(b.ptr + 4 * 1234, "1234", 4);
        strbuf_printf(&b, "%5000d", 1);
        assert_int_equal(b.len, expected + 5000);
}

static void test_maximum_is_all_or_nothing(void **state) {
        (void)state;
        AUTO_STRBUF b;

        strbuf_init(&b, 10);
        strbuf_puts(&b, "0123456789"); /* exactly */
        assert_false(b.overflowed);
        strbuf_putc(&b, 'x');
        assert_true(b.overflowed);
        assert_string_equal(b.ptr, "0123456789");
        strbuf_clear(&b);
        assert_false(b.overflowed);

        strbuf_puts(&b, "0123456");
        strbuf_printf(&b, "%s", "abcd");
        assert_true(b.overflowed);
        assert_string_equal(b.ptr, "0123456"); /* no half */
        strbuf_puts(&b, "a");                  /* ignored although it would fit */
        assert_string_equal(b.ptr, "0123456");
        assert_false(strbuf_reserve(&b, 1));
}

static void test_initializers(void **state) {
        AUTO_STRBUF large = { 0 }, small = { .max = 3 };

        (void)state;
        assert_string_equal(strbuf_cstr(&large), "");
        assert_int_equal(strbuf_max(&large), 1 << 30);
        strbuf_printf(&large, "%05d", 1);
        assert_string_equal(strbuf_cstr(&large), "00001");
        strbuf_puts(&small, "abcd");
        assert_true(small.overflowed);
        strbuf_done(&small);
        strbuf_puts(&small, "abc");
        assert_string_equal(strbuf_cstr(&small), "abc");
        assert_int_equal(strbuf_max(&small), 3);
}

static void test_take(void **state) {
        (void)state;
        struct strbuf b;
        char         *text;

        strbuf_init(&b, 5);
        text = strbuf_take(&b); /* of nothing: "" */
        assert_string_equal(text, "");
        free(text);
        strbuf_puts(&b, "abc");
        text = strbuf_take(&b);
        assert_string_equal(text, "abc");
        free(text);
        assert_int_equal(b.len, 0);
        assert_int_equal(b.max, 5);
        strbuf_done(&b);
}

static void test_allocation_failure(void **state) {
        (void)state;
        AUTO_STRBUF b;

        strbuf_init(&b, 0);
        strbuf_puts(&b, "kept");
        mem_fail_after(1);
        assert_false(strbuf_reserve(&b, 10000));
        assert_true(mem_fail_was_hit());
        mem_fail_after(0);
        assert_true(b.overflowed);
        assert_string_equal(b.ptr, "kept");
}

static void test_needed_room_is_not_failed(void **state) {
        (void)state;
        AUTO_STRBUF b;

        strbuf_init(&b, 0);
        mem_fail_after(1);
        strbuf_need(&b, 5);
        strbuf_puts(&b, "12");
        strbuf_need(&b, 3);
        strbuf_puts(&b, "345");
        assert_false(b.overflowed);
        strbuf_need(&b, 1000);
        mem_fail_after(0);
        assert_string_equal(b.ptr, "12345");
        assert_true(b.cap > 1000);
}

/* A text that is made from a part which memory was too short for is no better than the part. */
static void test_a_part_spoils_the_whole(void **state) {
        (void)state;
        AUTO_STRBUF whole, part;

        strbuf_init(&whole, 0);
        strbuf_init(&part, 3);
        strbuf_puts(&part, "abc");
        strbuf_spoil(&whole, &part);
        assert_false(whole.overflowed);
        strbuf_putc(&part, 'd');
        strbuf_spoil(&whole, &part);
        assert_true(whole.overflowed && !whole.no_memory);
        strbuf_clear(&whole);
        strbuf_done(&part);
        strbuf_init(&part, 0);
        mem_fail_after(1);
        strbuf_putc(&part, 'a');
        mem_fail_after(0);
        strbuf_spoil(&whole, &part);
        assert_true(whole.overflowed && whole.no_memory);
}

static void test_reserve(void **state) {
        (void)state;
        AUTO_STRBUF b;

        strbuf_init(&b, 100000);
        assert_true(strbuf_reserve(&b, 100000));
        assert_int_equal(b.len, 0);
        memset(b.ptr, 'x', 100000);
        b.len = 100000;
        b.ptr[b.len] = '\0';
        assert_false(strbuf_reserve(&b, SIZE_MAX));
}

static void test_put_few(void **state) {
        char          memory[8];
        struct strbuf b;

        (void)state;
        strbuf_init(&b, 0);
        STRBUF_PUT_LIT(&b, "abc"); /* no memory yet */
        STRBUF_PUT_LIT(&b, "de");
        assert_string_equal(strbuf_cstr(&b), "abcde");
        assert_int_equal(b.len, 5);
        strbuf_done(&b);

        b = (struct strbuf){ .ptr = memory, .cap = sizeof(memory), .max = sizeof(memory) - 1 };
        STRBUF_PUT_LIT(&b, "1234567");
        assert_string_equal(strbuf_cstr(&b), "1234567");
        STRBUF_PUT_LIT(&b, "8");
        assert_true(b.overflowed);
        assert_string_equal(strbuf_cstr(&b), "1234567");
        b.len = 0;
        STRBUF_PUT_LIT(&b, "x"); /* ignored from then on */
        assert_int_equal(b.len, 0);
}

SUITE(strbuf) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_put),
                cmocka_unit_test(test_printf_grows),
                cmocka_unit_test(test_maximum_is_all_or_nothing),
                cmocka_unit_test(test_initializers),
                cmocka_unit_test(test_take),
                cmocka_unit_test(test_allocation_failure),
                cmocka_unit_test(test_put_few),
                cmocka_unit_test(test_needed_room_is_not_failed),
                cmocka_unit_test(test_a_part_spoils_the_whole),
                cmocka_unit_test(test_reserve),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
