/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/arena.h"
#include "base/byte_budget.h"
#include "base/mem.h"

#include <string.h>

static void test_pieces_are_aligned_and_apart(void **state) {
        (void)state;
        struct arena a;
        char        *pieces[200];

        arena_init(&a, NULL, 0, 0);
        for (size_t i = 0; i < 200; i++) {
                pieces[i] = arena_alloc(&a, i);
                assert_int_equal((uintptr_t)pieces[i] % 16, 0);
                memset(pieces[i], (int)i, i);
        }
        for (size_t i = 0; i < 200; i++) {
                for (size_t j = 0; j < i; j++)
                        assert_int_equal((unsigned char)pieces[i][j], i);
        }
        assert_ptr_not_equal(pieces[0], pieces[1]); /* even nothing has a place of its own */
        arena_done(&a);
}

static void test_first_memory_is_used_first(void **state) {
        (void)state;
        char         first[512];
        struct arena a;
        char        *piece, *beyond;

        arena_init(&a, first + 1, sizeof(first) - 1, 0); /* not aligned */
        piece = arena_alloc(&a, 64);
        assert_true(piece > first && piece + 64 <= first + sizeof(first));
        assert_int_equal((uintptr_t)piece % 16, 0);
        assert_null(a.blocks);

        beyond = arena_alloc(&a, 600);
        assert_true(beyond + 600 <= first || beyond >= first + sizeof(first));
        assert_non_null(a.blocks);
        arena_reset(&a);
        assert_null(a.blocks);
        assert_ptr_equal(arena_alloc(&a, 64), piece);
        arena_done(&a);
}

static void test_first_memory_too_small(void **state) {
        (void)state;
        _Alignas(16) char first[32];
        struct arena      a;

        arena_init(&a, first + 1, 3, 0); /* not even room for the alignment */
        assert_non_null(arena_alloc(&a, 1));
        assert_non_null(a.blocks);
        arena_done(&a);
}

static void test_reset_keeps_the_first_block(void **state) {
        (void)state;
        struct arena a;
        void        *piece;

        arena_init(&a, NULL, 0, 0);
        piece = arena_alloc(&a, 100);
        for (int i = 0; i < 100; i++)
                arena_alloc(&a, 1000);
        assert_true(a.used_bytes >= 100 * 1000);
        arena_reset(&a);
        assert_int_equal(a.used_bytes, 4096);
        assert_ptr_equal(arena_alloc(&a, 100), piece);
        arena_done(&a);
}

static void test_maximum(void **state) {
        (void)state;
        struct arena a;

        arena_init(&a, NULL, 0, 1000);
        assert_non_null(arena_try_alloc(&a, 900));
        assert_null(arena_try_alloc(&a, 200));
        assert_non_null(arena_try_alloc(&a, 80)); /* a refusal changes nothing */
        assert_null(arena_try_alloc(&a, 1));
        assert_false(a.lacked_memory);
        arena_done(&a);
}

static void test_sizes_that_overflow(void **state) {
        (void)state;
        struct arena a;

        arena_init(&a, NULL, 0, SIZE_MAX);
        assert_null(arena_try_alloc(&a, SIZE_MAX));
        assert_null(arena_try_alloc(&a, SIZE_MAX - 15));
        assert_null(arena_try_alloc(&a, SIZE_MAX / 2));
        arena_done(&a);
}

static void test_allocation_failure(void **state) {
        (void)state;
        struct arena a;

        arena_init(&a, NULL, 0, 0);
        mem_fail_after(1);
        assert_null(arena_try_alloc(&a, 10));
        assert_true(mem_fail_was_hit());
        assert_true(a.lacked_memory);
        mem_fail_after(0);
        assert_non_null(arena_try_alloc(&a, 10));
        arena_done(&a);
}

/* Blocks double up to a bound; then they are a quarter of all. */
static void test_blocks_stop_doubling(void **state) {
        (void)state;
        struct arena a;
        size_t       taken = 0;

        arena_init(&a, NULL, 0, (size_t)64 << 20);
        while (taken < (size_t)48 << 20) {
                assert_non_null(arena_try_alloc(&a, 1000));
                taken += 1008;
                assert_true(a.used_bytes <= taken + taken / 100 + MAX((size_t)1 << 20, taken / 3));
        }
        arena_done(&a);
}

/* Without memory for a large block: one that is just large enough. */
static void test_less_memory_than_a_block(void **state) {
        (void)state;
        struct byte_budget b;
        struct arena       a;

        byte_budget_init(&b, 3000);
        arena_init(&a, NULL, 0, 0);
        arena_set_budget(&a, &b);
        assert_non_null(arena_try_alloc(&a, 1000));
        assert_int_equal(a.used_bytes, 1008);
        assert_non_null(arena_try_alloc(&a, 1900));
        assert_null(arena_try_alloc(&a, 200));
        assert_int_equal(byte_budget_used(&b), a.used_bytes);
        arena_done(&a);
        assert_int_equal(byte_budget_used(&b), 0);
}

/* The maximum is for peers. */
static void test_own_things_go_beyond_the_maximum(void **state) {
        (void)state;
        struct arena a;

        arena_init(&a, NULL, 0, 1000);
        assert_non_null(arena_try_alloc(&a, 900));
        assert_null(arena_try_alloc(&a, 200));
        memset(arena_alloc(&a, 200), 1, 200);
        memset(arena_alloc(&a, 100000), 1, 100000);
        assert_null(arena_try_alloc(&a, 5000));
        arena_done(&a);
}

static void test_cut(void **state) {
        (void)state;
        _Alignas(16) char   first[64];
        struct arena        a;
        char               *kept;
        struct arena_block *newest;
        size_t              used;

        arena_init(&a, first, sizeof(first), 0);
        assert_non_null(arena_strdup(&a, "in the first memory"));
        kept = arena_alloc(&a, 3000);
        strcpy(kept, "kept");
        newest = a.blocks;
        used = a.used_bytes;
        arena_cut(&a, newest); /* nothing was added */
        assert_ptr_equal(a.blocks, newest);
        memset(arena_alloc(&a, 100000), 1, 100000);
        memset(arena_alloc(&a, 2000000), 1, 2000000);
        arena_cut(&a, newest);
        assert_int_equal(a.used_bytes, used);
        assert_string_equal(kept, "kept");
        strcpy(arena_alloc(&a, 10), "more");
        assert_string_equal(kept, "kept");
        arena_cut(&a, NULL);
        assert_int_equal(a.used_bytes, 0);
        assert_string_equal(first, "in the first memory");
        arena_done(&a);
}

static void test_text_beyond_the_maximum(void **state) {
        (void)state;
        static char  text[5000];
        struct arena a;

        memset(text, 'x', sizeof(text));
        arena_init(&a, NULL, 0, 4000);
        assert_null(arena_try_str(&a, str_range(text, sizeof(text))));
        assert_null(arena_try_str(&a, str_range(text, SIZE_MAX)));
        assert_int_equal(strlen(arena_try_str(&a, str_range(text, 1000))), 1000);
        arena_done(&a);
}

static void test_texts(void **state) {
        (void)state;
        struct arena a;

        arena_init(&a, NULL, 0, 0);
        assert_string_equal(arena_strdup(&a, "one"), "one");
        assert_null(arena_strdup(&a, NULL));
        assert_string_equal(arena_strndup(&a, "onetwo", 3), "one");
        assert_string_equal(arena_str(&a, STR_LIT("three")), "three");
        assert_string_equal(arena_str(&a, str_range(NULL, 0)), "");
        assert_string_equal(arena_try_str(&a, STR_LIT("three")), "three");
        assert_string_equal(arena_try_str(&a, str_range(NULL, 0)), "");
        assert_string_equal(arena_printf(&a, "%d-%s", 4, "five"), "4-five");
        assert_string_equal(arena_printf(&a, "%s", ""), "");
        arena_done(&a);
}

/* All pieces ever given up together take no more than the last one. */
static void test_room(void **state) {
        (void)state;
        struct arena_room room = { 0 }, before;
        struct arena      a;
        size_t            n_moves = 0;

        arena_init(&a, NULL, 0, 1000000);
        assert_non_null(arena_room_get(&a, &room, 0));
        for (size_t bytes = 1; bytes <= 100000; bytes++) {
                before = room;
                memset(arena_room_get(&a, &room, bytes), 'x', bytes);
                assert_in_range(room.bytes, bytes, 2 * bytes);
                if (room.memory != before.memory)
                        n_moves++;
                else
                        assert_int_equal(room.bytes, before.bytes);
        }
        assert_int_equal(n_moves, 18); /* 1, 2, 4, ... 131072 */
        assert_ptr_equal(arena_room_get(&a, &room, 1), room.memory);

        before = room;
        assert_null(arena_room_get(&a, &room, 900000));
        assert_null(arena_room_get(&a, &room, SIZE_MAX));
        assert_ptr_equal(room.memory, before.memory);
        assert_int_equal(room.bytes, before.bytes);
        arena_done(&a);

        /* Doubling does not fit, the size asked for does. */
        arena_init(&a, NULL, 0, 1500);
        room = (struct arena_room){ 0 };
        assert_non_null(arena_room_get(&a, &room, 600));
        assert_non_null(arena_room_get(&a, &room, 700));
        assert_int_equal(room.bytes, 700);
        arena_done(&a);
}

static void test_zalloc_is_zero_after_reset(void **state) {
        (void)state;
        static const char zeros[64];
        struct arena      a;

        arena_init(&a, NULL, 0, 0);
        memset(arena_alloc(&a, 64), 0xff, 64);
        arena_reset(&a);
        assert_memory_equal(arena_zalloc(&a, 64), zeros, 64);
        arena_done(&a);
        arena_done(&a); /* twice is fine */
}

static void test_zeroed_array(void **state) {
        (void)state;
        static const char zeros[3 * 8];
        struct arena      a;

        arena_init(&a, NULL, 0, 1000);
        memset(arena_alloc(&a, 64), 0xff, 64);
        arena_reset(&a);
        assert_memory_equal(arena_try_calloc(&a, 3, 8), zeros, sizeof(zeros));
        assert_non_null(arena_try_calloc(&a, 0, 8));
        assert_null(arena_try_calloc(&a, SIZE_MAX / 8 + 2, 8)); /* overflows to 8 */
        assert_null(arena_try_calloc(&a, 1000, 8));
        arena_done(&a);
}

SUITE(arena) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_pieces_are_aligned_and_apart),
                cmocka_unit_test(test_first_memory_is_used_first),
                cmocka_unit_test(test_first_memory_too_small),
                cmocka_unit_test(test_reset_keeps_the_first_block),
                cmocka_unit_test(test_maximum),
                cmocka_unit_test(test_sizes_that_overflow),
                cmocka_unit_test(test_allocation_failure),
                cmocka_unit_test(test_blocks_stop_doubling),
                cmocka_unit_test(test_less_memory_than_a_block),
                cmocka_unit_test(test_own_things_go_beyond_the_maximum),
                cmocka_unit_test(test_cut),
                cmocka_unit_test(test_text_beyond_the_maximum),
                cmocka_unit_test(test_texts),
                cmocka_unit_test(test_room),
                cmocka_unit_test(test_zalloc_is_zero_after_reset),
                cmocka_unit_test(test_zeroed_array),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
