/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "fake_server.h"
#include "python/region.h"

/* As the stub does. */
static void give_back(struct region *r, uint32_t block) {
        shm_list_push(&r->header->released, block, region_block(r, block));
}

static void test_blocks_come_back(void **state) {
        struct region r;
        uint32_t      blocks[3];

        (void)state;
        assert_null(region_open(&r, 0));
        for (unsigned i = 0; i < 3; i++)
                blocks[i] = region_alloc(&r, 100000);
        for (unsigned i = 0; i < 3; i++)
                give_back(&r, blocks[i]);
        assert_int_equal(region_alloc(&r, 300000), blocks[0]); /* joined, and used again */
        assert_false(atomic_load(&r.is_broken));
        region_close(&r);
}

/* What came back may be named by a message that is not read yet. */
static void test_blocks_wait_for_messages(void **state) {
        struct region r;
        uint32_t      block, other;

        (void)state;
        assert_null(region_open(&r, 0));
        block = region_alloc(&r, 100000);
        atomic_store(&r.header->message_tail, 1);
        give_back(&r, block);
        other = region_alloc(&r, 100000);
        assert_int_not_equal(other, block);
        atomic_store(&r.n_handled, 1);
        assert_int_equal(region_alloc(&r, 100000), block);
        region_close(&r);
}

/* The count of messages begins again after 2^32. */
static void test_count_of_messages_wraps(void **state) {
        struct region r;
        uint32_t      block;

        (void)state;
        assert_null(region_open(&r, 0));
        block = region_alloc(&r, 100000);
        atomic_store(&r.n_handled, UINT32_MAX);
        atomic_store(&r.header->message_tail, 1);
        give_back(&r, block);
        assert_int_not_equal(region_alloc(&r, 100000), block);
        atomic_store(&r.n_handled, 1);
        assert_int_equal(region_alloc(&r, 100000), block);
        region_close(&r);
}

static void check_broken(uint32_t block) {
        struct region r;

        assert_null(region_open(&r, 0));
        assert_int_not_equal(region_alloc(&r, 64), 0);
        atomic_store(&r.header->released, block);
        (void)region_alloc(&r, 64);
        assert_true(atomic_load(&r.is_broken));
        region_close(&r);
}

static void test_what_is_no_block_breaks_it(void **state) {
        (void)state;
        check_broken(1);
        check_broken(UINT32_MAX);
        check_broken((uint32_t)(SHM_STUB_AREA / SHM_BLOCK));
        check_broken((uint32_t)(SHM_SERVER_AREA / SHM_BLOCK) + 1);
}

/* A list that leads to itself ends at the block that was freed already. */
static void test_a_circle_breaks_it(void **state) {
        struct region r;
        uint32_t      block;

        (void)state;
        assert_null(region_open(&r, 0));
        block = region_alloc(&r, 64);
        give_back(&r, block);
        give_back(&r, block);
        (void)region_alloc(&r, 64);
        assert_true(atomic_load(&r.is_broken));
        region_close(&r);
}

static void test_places(void **state) {
        struct region r;

        (void)state;
        assert_null(region_open(&r, 0));
        assert_ptr_equal(region_find(&r, SHM_SERVER_AREA, 1), r.base + SHM_SERVER_AREA);
        assert_null(region_find(&r, SHM_SERVER_AREA - 1, 1)); /* the header */
        assert_null(region_find(&r, SHM_BYTES - 1, 2));
        assert_null(region_find(&r, UINT64_MAX, 2));
        assert_null(region_find(&r, SHM_SERVER_AREA, UINT64_MAX));
        assert_null(region_find_stub_block(&r, (uint32_t)(SHM_SERVER_AREA / SHM_BLOCK), 1));
        assert_non_null(region_find_stub_block(&r, (uint32_t)(SHM_STUB_AREA / SHM_BLOCK), 1));
        assert_null(region_find_stub_block(&r, UINT32_MAX, 1));
        region_close(&r);
}

static void test_limit(void **state) {
        struct region r;

        (void)state;
        assert_null(region_open(&r, 1 << 20));
        assert_int_equal(region_alloc(&r, 2 << 20), 0);
        assert_int_not_equal(region_alloc(&r, 1 << 19), 0);
        region_close(&r);
}

SUITE(python_region) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_blocks_come_back),
                cmocka_unit_test(test_blocks_wait_for_messages),
                cmocka_unit_test(test_count_of_messages_wraps),
                cmocka_unit_test(test_what_is_no_block_breaks_it),
                cmocka_unit_test(test_a_circle_breaks_it),
                cmocka_unit_test(test_places),
                cmocka_unit_test(test_limit),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
