/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "fake_server.h"
#include "python/region.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED true
#elif defined(__has_feature)
#define IS_SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define IS_SANITIZED false
#endif

static const struct region_options options = { .first_bytes = 2 << 20, .growth_bytes = 1 << 20 };

/* As the stub does. */
static void give_back(struct region *r, uint32_t block) {
        shm_list_push(&r->header->released, block, region_block(r, block));
}

static void test_blocks_come_back(void **state) {
        struct region r;
        uint32_t      blocks[3];

        (void)state;
        assert_null(region_open(&r, &options));
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
        assert_null(region_open(&r, &options));
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
        assert_null(region_open(&r, &options));
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

        assert_null(region_open(&r, &options));
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
        assert_null(region_open(&r, &options));
        block = region_alloc(&r, 64);
        give_back(&r, block);
        give_back(&r, block);
        (void)region_alloc(&r, 64);
        assert_true(atomic_load(&r.is_broken));
        region_close(&r);
}

static void test_places(void **state) {
        struct region r;
        uint32_t      block;

        (void)state;
        assert_null(region_open(&r, &options));
        assert_null(region_find(&r, SHM_SERVER_AREA, 1)); /* not mapped */
        block = region_alloc(&r, 64);
        assert_int_equal(block, SHM_SERVER_AREA / SHM_BLOCK);
        assert_ptr_equal(region_find(&r, SHM_SERVER_AREA, 1), region_block(&r, block));
        assert_non_null(region_find(&r, SHM_SERVER_AREA, 2 << 20));
        assert_null(region_find(&r, SHM_SERVER_AREA, (2 << 20) + 1));
        assert_null(region_find(&r, SHM_SERVER_AREA + 1, 2 << 20));
        assert_null(region_find(&r, SHM_SERVER_AREA - 1, 1));
        assert_null(region_find(&r, 0, 1)); /* the header */
        assert_null(region_find(&r, SHM_BYTES - 1, 2));
        assert_null(region_find(&r, UINT64_MAX, 2));
        assert_null(region_find(&r, SHM_SERVER_AREA, UINT64_MAX));
        assert_null(region_find_stub_block(&r, block, 1));
        assert_null(region_find_stub_block(&r, UINT32_MAX, 1));
        region_close(&r);
}

/* ---- segments of the stub -------------------------------------------------------------------- */

/* As the stub does. */
static void offer(struct region *r, uint32_t i, uint32_t granule, uint32_t n_units) {
        struct shm_segment_record *record = &r->header->stub_segments[i];

        record->granule = granule;
        record->n_units = n_units;
        atomic_store(&record->state, SHM_SEGMENT_OFFERED);
        region_grow(r, i);
}

static uint32_t state_of(const struct region *r, uint32_t i) {
        return atomic_load(&r->header->stub_segments[i].state);
}

static uint32_t stub_block(uint32_t granule) {
        return (uint32_t)((SHM_STUB_AREA + granule * SHM_GRANULE) / SHM_BLOCK);
}

static void test_segments_of_the_stub(void **state) {
        struct region r;

        (void)state;
        assert_null(region_open(&r, &options));
        assert_null(region_find_stub_block(&r, stub_block(3), 1));
        offer(&r, 5, 3, 2000);
        assert_int_equal(state_of(&r, 5), SHM_SEGMENT_MAPPED);
        assert_non_null(region_find_stub_block(&r, stub_block(3), 2000 * SHM_UNIT));
        assert_ptr_equal(region_find_stub_block(&r, stub_block(4), 1), /* in one piece */
                         (char *)region_find_stub_block(&r, stub_block(3), 1) + SHM_GRANULE);
        assert_null(region_find_stub_block(&r, stub_block(4), 2000 * SHM_UNIT - SHM_GRANULE + 1));
        atomic_store(&r.header->stub_segments[5].state, SHM_SEGMENT_REMOVED);
        region_borrow(&r);
        region_follow(&r); /* another model may read an input there */
        assert_true(r.must_shrink);
        assert_non_null(region_find_stub_block(&r, stub_block(3), 1));
        region_end_borrow(&r);
        region_follow(&r);
        assert_false(r.must_shrink);
        assert_null(region_find_stub_block(&r, stub_block(3), 1));
        assert_null(region_find_stub_block(&r, stub_block(4), 1));
        assert_int_equal(state_of(&r, 5), SHM_SEGMENT_EMPTY);
        assert_false(atomic_load(&r.is_broken));
        region_close(&r);
}

static void check_wrong_offer(uint32_t i, uint32_t granule, uint32_t n_units) {
        struct region r;

        assert_null(region_open(&r, &options));
        offer(&r, 1, 10, 1025); /* two granules */
        assert_false(atomic_load(&r.is_broken));
        if (i < SHM_SEGMENTS)
                offer(&r, i, granule, n_units);
        else
                region_grow(&r, i);
        assert_true(atomic_load(&r.is_broken));
        region_close(&r);
}

static void test_wrong_offers_break_it(void **state) {
        (void)state;
        check_wrong_offer(1, 20, 1); /* has a segment */
        check_wrong_offer(2, 10, 1); /* the place of another one */
        check_wrong_offer(2, 11, 1);
        check_wrong_offer(2, 9, 1025);
        check_wrong_offer(2, 20, 0);
        check_wrong_offer(2, SHM_AREA_GRANULES, 1);
        check_wrong_offer(2, UINT32_MAX, 1);
        check_wrong_offer(2, SHM_AREA_GRANULES - 1, 1025);
        check_wrong_offer(2, 20, UINT32_MAX);
        check_wrong_offer(SHM_SEGMENTS, 0, 0);
        check_wrong_offer(UINT32_MAX, 0, 0);
}

static void test_an_offer_without_a_segment_breaks_it(void **state) {
        struct region r;

        (void)state;
        assert_null(region_open(&r, &options));
        region_grow(&r, 3);
        assert_true(atomic_load(&r.is_broken));
        region_close(&r);
}

/* ---- segments of the server ------------------------------------------------------------------ */

static uint64_t addresses_in_use(void) {
        unsigned long n_pages = 0;
        FILE         *in = fopen("/proc/self/statm", "re");

        assert_non_null(in);
        assert_int_equal(fscanf(in, "%lu", &n_pages), 1);
        (void)fclose(in);
        return n_pages * 4096u;
}

static void test_it_grows_and_shrinks(void **state) {
        struct region r;
        uint64_t      at_first = addresses_in_use();
        uint32_t      small, large;

        (void)state;
        assert_null(region_open(&r, &options));
        small = region_alloc(&r, 64);
        assert_in_range(addresses_in_use() - at_first, 2 << 20, 4 << 20);
        large = region_alloc(&r, 64 << 20);
        memset(region_block(&r, large), 1, 64 << 20);
        assert_in_range(addresses_in_use() - at_first, 66 << 20, 70 << 20);
        assert_false(region_shrink(&r));
        give_back(&r, large);
        region_borrow(&r);
        assert_false(region_shrink(&r));
        assert_non_null(region_find(&r, (uint64_t)large * SHM_BLOCK, 1));
        region_end_borrow(&r);
        assert_true(region_shrink(&r));
        assert_null(region_find(&r, (uint64_t)large * SHM_BLOCK, 1));
        assert_in_range(addresses_in_use() - at_first, 2 << 20, 5 << 20);
        assert_int_equal(atomic_load(&r.header->n_server_removed), 1);
        assert_int_equal(atomic_load(&r.header->server_segments[1].state), SHM_SEGMENT_REMOVED);
        assert_non_null(region_block(&r, small));
        region_close(&r);
}

static void limit_addresses(rlim_t n_bytes) {
        struct rlimit limit;

        assert_int_equal(getrlimit(RLIMIT_AS, &limit), 0);
        limit.rlim_cur = n_bytes;
        assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
}

/* Without addresses an allocation and an offer are refused, and the next ones that fit work. */
static void test_addresses_have_a_limit(void **state) {
        struct region r;

        (void)state;
        SKIP_WHEN_EMULATED("qemu-user does not set RLIMIT_AS");
        if (IS_SANITIZED)
                skip(); /* sanitizers reserve more addresses themselves */
        assert_null(region_open(&r, &options));
        limit_addresses(addresses_in_use() + (64u << 20));
        assert_int_equal(region_alloc(&r, 128 << 20), 0);
        offer(&r, 0, 0, (128 << 20) / SHM_UNIT);
        assert_int_equal(state_of(&r, 0), SHM_SEGMENT_REFUSED);
        assert_int_equal(atomic_load(&r.header->n_stub_refused), 1);
        atomic_store(&r.header->stub_segments[0].state, SHM_SEGMENT_REMOVED);
        region_follow(&r);
        assert_int_equal(state_of(&r, 0), SHM_SEGMENT_EMPTY);
        assert_int_not_equal(region_alloc(&r, 8 << 20), 0);
        offer(&r, 0, 0, (8 << 20) / SHM_UNIT);
        assert_int_equal(state_of(&r, 0), SHM_SEGMENT_MAPPED);
        limit_addresses(RLIM_INFINITY);
        assert_false(atomic_load(&r.is_broken));
        region_close(&r);
}

/* The stub has no addresses for a segment. */
static void test_a_refused_segment(void **state) {
        struct region r;
        uint32_t      refused, other;

        (void)state;
        assert_null(region_open(&r, &options));
        assert_int_not_equal(region_alloc(&r, 64), 0);
        atomic_store(&r.header->server_segments[0].state, SHM_SEGMENT_MAPPED);
        refused = region_alloc(&r, 4 << 20);
        atomic_store(&r.header->server_segments[1].state, SHM_SEGMENT_REFUSED);
        atomic_store(&r.header->n_server_refused, 1);
        give_back(&r, refused);
        other = region_alloc(&r, 4 << 20); /* not there again */
        assert_int_not_equal(other, refused);
        assert_non_null(region_find(&r, (uint64_t)refused * SHM_BLOCK, 1));
        assert_true(region_shrink(&r));
        assert_null(region_find(&r, (uint64_t)refused * SHM_BLOCK, 1));
        assert_non_null(region_find(&r, (uint64_t)other * SHM_BLOCK, 1));
        assert_int_equal(atomic_load(&r.header->server_segments[1].state), SHM_SEGMENT_REMOVED);
        region_close(&r);
}

static void test_limit(void **state) {
        struct region r;

        (void)state;
        assert_null(region_open(&r, &(struct region_options){ 1 << 20, 2 << 20, 1 << 20 }));
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
                cmocka_unit_test(test_segments_of_the_stub),
                cmocka_unit_test(test_wrong_offers_break_it),
                cmocka_unit_test(test_an_offer_without_a_segment_breaks_it),
                cmocka_unit_test(test_it_grows_and_shrinks),
                cmocka_unit_test(test_addresses_have_a_limit),
                cmocka_unit_test(test_a_refused_segment),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
