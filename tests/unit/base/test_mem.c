/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static void test_alloc_of_zero_is_unique(void **state) {
        (void)state;
        void *a = mem_alloc(0), *b = try_alloc(0), *c = mem_zalloc(0);

        assert_non_null(a);
        assert_non_null(b);
        assert_non_null(c);
        assert_ptr_not_equal(a, b);
        free(a);
        free(b);
        free(c);
}

static void test_zalloc_is_zero(void **state) {
        (void)state;
        static const char zeros[300];
        char             *a = mem_zalloc(300), *b = try_zalloc(300);

        assert_memory_equal(a, zeros, 300);
        assert_memory_equal(b, zeros, 300);
        free(a);
        free(b);
}

static void test_strings(void **state) {
        (void)state;
        AUTO_CHARS copy = mem_strdup("neso");
        AUTO_CHARS part = mem_strndup("nesocore", 4);
        AUTO_CHARS none = mem_strndup(NULL, 0);
        AUTO_CHARS text = mem_printf("%s-%03d", "a", 7);

        assert_string_equal(copy, "neso");
        assert_string_equal(part, "neso");
        assert_string_equal(none, "");
        assert_string_equal(text, "a-007");
        assert_null(mem_strdup(NULL));
}

static void test_fail_after(void **state) {
        (void)state;
        void *first, *old;

        old = mem_alloc(8);
        mem_fail_after(2);
        first = try_alloc(8);
        assert_non_null(first);
        assert_false(mem_fail_was_hit());
        assert_null(try_zalloc(8));
        assert_true(mem_fail_was_hit());
        assert_null(try_realloc(old, 16)); /* and old is still ours */
        assert_null(try_aligned_alloc(64, 16));
        memset(old, 1, 8);
        mem_fail_after(0);
        assert_false(mem_fail_was_hit());
        old = try_realloc(old, 16);
        assert_non_null(old);
        free(old);
        free(first);
}

static void test_one_failure(void **state) {
        (void)state;
        void *first, *third;

        mem_fail_once(2);
        first = try_alloc(8);
        assert_non_null(first);
        assert_null(try_alloc(8));
        assert_true(mem_fail_was_hit());
        third = try_alloc(8);
        assert_non_null(third);
        assert_true(mem_fail_was_hit());
        mem_fail_after(0);
        free(first);
        free(third);
}

static void test_mem_functions_are_not_failed(void **state) {
        (void)state;
        void *memory;

        mem_fail_after(1);
        memory = mem_alloc(8);
        assert_non_null(memory);
        assert_false(mem_fail_was_hit());
        mem_fail_after(0);
        free(memory);
}

static void test_aligned(void **state) {
        (void)state;
        char *memory = try_aligned_alloc(64, 100);

        assert_int_equal((uintptr_t)memory % 64, 0);
        memset(memory, 1, 100);
        free(memory);
        memory = mem_aligned_alloc(64, 100);
        assert_int_equal((uintptr_t)memory % 64, 0);
        memset(memory, 1, 100);
        free(memory);
}

static void test_forget(void **state) {
        size_t size = (size_t)1 << 20;
        char  *block = try_aligned_alloc(64, size);

        (void)state;
        assert_non_null(block);
        memset(block, 'x', size);
        mem_discard_pages(block + 100, size - 200);
        assert_int_equal(block[99], 'x');
        assert_int_equal(block[size - 100], 'x');
        assert_int_equal(block[size / 2], 0);
        block[size / 2] = 'y';
        mem_discard_pages(block + size / 2, 10); /* not a page */
        assert_int_equal(block[size / 2], 'y');
        free(block);
}

static void test_absurd_sizes_give_null(void **state) {
        (void)state;
        /* Without volatile the compiler sees the size and warns. */
        volatile size_t absurd = SIZE_MAX / 2 + 1;

        assert_null(try_alloc(absurd));
        assert_null(try_zalloc(absurd));
        assert_null(try_realloc(NULL, absurd));
}

static void test_grow(void **state) {
        int *items = NULL, *before;

        (void)state;
        for (size_t n = 0; n < 1000; n++) {
                before = items;
                items = mem_grow(items, n, sizeof(*items));
                if (n != 0 && n != 4 && n != 8 && n != 16 && (n & (n - 1)) != 0)
                        assert_ptr_equal(items, before);
                items[n] = (int)n;
        }
        for (int n = 0; n < 1000; n++)
                assert_int_equal(items[n], n);
        /* Items may go and come again. */
        for (size_t n = 64; n < 70; n++) {
                items = mem_grow(items, n, sizeof(*items));
                items[n] = -1;
        }
        assert_int_equal(items[63], 63);
        free(items);
}

/* Kernels can be built without huge pages. */
static bool has_huge_pages(void) {
        return access("/sys/kernel/mm/transparent_hugepage/enabled", R_OK) == 0;
}

/* Whether huge pages were asked for where `at` lies: the line of flags of its mapping has "hg". */
static bool is_for_huge_pages(const void *at) {
        FILE *maps = fopen("/proc/self/smaps", "re");
        char  line[512];
        bool  is_here = false, has_flag = false;

        assert_non_null(maps);
        while (fgets(line, sizeof(line), maps) != NULL) {
                uintptr_t first, end;

                if (sscanf(line, "%lx-%lx ", &first, &end) == 2)
                        is_here = first <= (uintptr_t)at && (uintptr_t)at < end;
                else if (is_here && strncmp(line, "VmFlags:", 8) == 0)
                        has_flag = strstr(line, " hg") != NULL;
        }
        fclose(maps);
        return has_flag;
}

static void test_huge_pages(void **state) {
        (void)state;
        char *large, *small;

        if (!has_huge_pages())
                skip();
        large = try_aligned_alloc(64, 100 * MIB);
        small = try_aligned_alloc(64, MEM_LARGE_BYTES - 1);
        assert_true(is_for_huge_pages(large + 50 * MIB));
        assert_false(is_for_huge_pages(large));           /* what was announced takes nothing */
        assert_false(is_for_huge_pages(large + MIB - 1)); /* until a mebibyte came */
        assert_false(is_for_huge_pages(small + 2 * MIB));
        free(large);
        free(small);
}

/* The flag covers all of a block that grows, since mremap() takes one mapping only. */
static void test_huge_pages_of_a_block_that_grows(void **state) {
        (void)state;
        char *block = try_map(MIB);

        for (size_t bytes = MIB; bytes < 128 * MIB; bytes *= 2) {
                block[0] = 'a';
                block[bytes - 1] = 'z';
                block = try_remap(block, bytes, 2 * bytes);
                assert_non_null(block);
                assert_int_equal(block[0], 'a');
                assert_int_equal(block[bytes - 1], 'z');
                if (has_huge_pages())
                        assert_int_equal(is_for_huge_pages(block + bytes),
                                         2 * bytes >= MEM_LARGE_BYTES);
        }
        mem_unmap(block, 128 * MIB);
}

static void test_size_arithmetic(void **state) {
        (void)state;
        size_t result = 42;

        assert_true(size_add(SIZE_MAX - 1, 1, &result));
        assert_true(result == SIZE_MAX);
        assert_false(size_add(SIZE_MAX, 1, &result));
        assert_true(result == SIZE_MAX); /* untouched */
        assert_true(size_mul(6, 7, &result));
        assert_int_equal(result, 42);
        assert_false(size_mul(SIZE_MAX / 2 + 1, 2, &result));
        assert_int_equal(result, 42);
        assert_true(size_mul(SIZE_MAX, 0, &result));
        assert_int_equal(result, 0);
}

SUITE(mem) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_alloc_of_zero_is_unique),
                cmocka_unit_test(test_zalloc_is_zero),
                cmocka_unit_test(test_strings),
                cmocka_unit_test(test_fail_after),
                cmocka_unit_test(test_one_failure),
                cmocka_unit_test(test_mem_functions_are_not_failed),
                cmocka_unit_test(test_aligned),
                cmocka_unit_test(test_forget),
                cmocka_unit_test(test_absurd_sizes_give_null),
                cmocka_unit_test(test_grow),
                cmocka_unit_test(test_huge_pages),
                cmocka_unit_test(test_huge_pages_of_a_block_that_grows),
                cmocka_unit_test(test_size_arithmetic),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
