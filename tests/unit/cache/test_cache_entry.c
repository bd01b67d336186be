/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/mem.h"
#include "cache/cache_entry.h"
#include "infer/fake_model.h"

static void test_buffers(void **state) {
        struct cache_entry       e;
        struct buffer_attributes attributes = cpu_bytes(0), found;
        char                     bytes[100];
        void                    *base;

        (void)state;
        cache_entry_init(&e);
        for (size_t i = 0; i < sizeof(bytes); i++) {
                attributes.byte_size = i;
                assert_ok(cache_entry_add(&e, &bytes[i], &attributes), "add");
        }
        assert_int_equal(e.n_buffers, sizeof(bytes));
        for (size_t i = 0; i < sizeof(bytes); i++) {
                assert_ok(cache_entry_get(&e, i, &base, &found), "get");
                assert_ptr_equal(base, &bytes[i]);
                assert_int_equal(found.byte_size, i);
        }
        assert_ok(cache_entry_set(&e, 3, bytes, NULL), "set");
        assert_ok(cache_entry_get(&e, 3, &base, &found), "get");
        assert_ptr_equal(base, bytes);
        assert_int_equal(found.byte_size, 3);
        attributes.byte_size = 7;
        assert_ok(cache_entry_set(&e, 3, bytes, &attributes), "set");
        assert_ok(cache_entry_get(&e, 3, &base, &found), "get");
        assert_int_equal(found.byte_size, 7);
        assert_error(cache_entry_get(&e, 100, &base, &found), ERR_INVALID_ARG,
                     "there is no buffer 100 in a cache entry of 100");
        assert_error(cache_entry_set(&e, 100, bytes, NULL), ERR_INVALID_ARG,
                     "there is no buffer 100 in a cache entry of 100");
        cache_entry_done(&e);
}

static void test_limits(void **state) {
        struct cache_entry       e;
        struct buffer_attributes attributes = cpu_bytes(1);
        char                     byte;

        (void)state;
        cache_entry_init(&e);
        for (size_t i = 0; i < CACHE_ENTRY_MAX_BUFFERS; i++)
                assert_ok(cache_entry_add(&e, &byte, &attributes), "add");
        assert_error(cache_entry_add(&e, &byte, &attributes), ERR_INVALID_ARG,
                     "a cache entry has at most 1024 buffers");
        cache_entry_done(&e);

        cache_entry_init(&e);
        for (size_t i = 0; i < CACHE_ENTRY_FIRST_BUFFERS; i++)
                assert_ok(cache_entry_add(&e, &byte, &attributes), "add");
        mem_fail_after(1);
        struct error *err = cache_entry_add(&e, &byte, &attributes);
        mem_fail_after(0);
        assert_out_of_memory(err);
        assert_int_equal(e.n_buffers, CACHE_ENTRY_FIRST_BUFFERS);
        cache_entry_done(&e);
}

SUITE(cache_entry) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_buffers),
                cmocka_unit_test(test_limits),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
