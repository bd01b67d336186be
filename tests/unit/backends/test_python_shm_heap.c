/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "python/shm_heap.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define GRANULE_UNITS ((uint32_t)(SHM_GRANULE / SHM_UNIT))

static _Atomic uint64_t committed, committed_by_other;

static uint64_t file_of(int fd) {
        struct stat st;

        assert_int_equal(fstat(fd, &st), 0);
        return (uint64_t)st.st_ino;
}

/* Without a segment. */
static void open_empty(struct shm_heap *heap, int fd, uint64_t max_bytes) {
        atomic_store(&committed, 0);
        atomic_store(&committed_by_other, 0);
        shm_heap_init(heap,
                      &(struct shm_heap_options){ .begin = SHM_SERVER_AREA,
                                                  .fd = fd,
                                                  .file = fd >= 0 ? file_of(fd) : 0,
                                                  .max_bytes = max_bytes,
                                                  .committed = &committed,
                                                  .committed_by_other = &committed_by_other });
}

/* With one large segment. */
static void open_heap(struct shm_heap *heap, int fd, uint64_t max_bytes) {
        open_empty(heap, fd, max_bytes);
        assert_int_equal(shm_heap_add(heap, 8000), 0);
}

static void test_sizes(void **state) {
        static const uint64_t asked[] = { 0, 1, 64, 65, 4096, 4097, 16384, 16385, 1 << 20 };
        static const uint64_t given[] = { 64, 64, 64, 128, 4096, 16384, 16384, 32768, 1 << 20 };
        struct shm_heap       heap;

        (void)state;
        open_heap(&heap, -1, 0);
        for (size_t i = 0; i < sizeof(asked) / sizeof(*asked); i++) {
                uint32_t block = shm_heap_alloc(&heap, asked[i]);

                assert_int_not_equal(block, 0);
                assert_int_equal(shm_heap_size(&heap, block), given[i]);
                assert_true(shm_heap_free(&heap, block));
        }
        assert_int_equal(heap.allocated_bytes, 0);
        assert_int_equal(shm_heap_alloc(&heap, SHM_AREA_BYTES + 1), 0);
        shm_heap_done(&heap);
}

static void test_what_is_no_block(void **state) {
        struct shm_heap heap;
        uint32_t        small, large;

        (void)state;
        open_heap(&heap, -1, 0);
        small = shm_heap_alloc(&heap, 200);
        large = shm_heap_alloc(&heap, 100000);
        assert_false(shm_heap_free(&heap, 0));
        assert_false(shm_heap_free(&heap, small + 1));
        assert_false(shm_heap_free(&heap, small + 4)); /* a free neighbour */
        assert_false(shm_heap_free(&heap, large + 1));
        assert_false(shm_heap_free(&heap, large + SHM_UNIT / SHM_BLOCK)); /* its second unit */
        assert_false(shm_heap_free(&heap, UINT32_MAX));
        assert_true(shm_heap_free(&heap, small));
        assert_false(shm_heap_free(&heap, small));
        assert_true(shm_heap_free(&heap, large));
        assert_false(shm_heap_free(&heap, large));
        shm_heap_done(&heap);
}

/* A run that was joined with the one before it is no block any more. */
static void test_joined_runs(void **state) {
        struct shm_heap heap;
        uint32_t        runs[3], joined;

        (void)state;
        open_heap(&heap, -1, 0);
        for (unsigned i = 0; i < 3; i++)
                runs[i] = shm_heap_alloc(&heap, 2 * SHM_UNIT);
        assert_true(shm_heap_free(&heap, runs[0]));
        assert_true(shm_heap_free(&heap, runs[2]));
        assert_true(shm_heap_free(&heap, runs[1]));
        for (unsigned i = 0; i < 3; i++)
                assert_false(shm_heap_free(&heap, runs[i]));
        joined = shm_heap_alloc(&heap, 6 * SHM_UNIT);
        assert_int_equal(joined, runs[0]);
        shm_heap_done(&heap);
}

static void test_limit(void **state) {
        struct shm_heap heap;
        uint32_t        block;

        (void)state;
        open_heap(&heap, -1, 8 * SHM_UNIT);
        atomic_store(&committed_by_other, 2 * SHM_UNIT);
        assert_int_equal(shm_heap_alloc(&heap, 7 * SHM_UNIT), 0);
        block = shm_heap_alloc(&heap, 6 * SHM_UNIT);
        assert_int_not_equal(block, 0);
        assert_int_equal(shm_heap_alloc(&heap, 1), 0);
        assert_true(shm_heap_free(&heap, block));
        assert_int_not_equal(shm_heap_alloc(&heap, 1), 0);
        assert_int_equal(shm_heap_idle_bytes(&heap), 6 * SHM_UNIT - 64);
        shm_heap_trim(&heap);
        assert_int_equal(atomic_load(&committed), SHM_UNIT);
        shm_heap_done(&heap);
}

static uint64_t pages_of(int fd) {
        struct stat st;

        assert_int_equal(fstat(fd, &st), 0);
        return (uint64_t)st.st_blocks * 512;
}

static void test_memory_comes_and_goes(void **state) {
        struct shm_heap heap;
        int             fd = memfd_create("test", MFD_CLOEXEC);
        uint32_t        block;

        (void)state;
        assert_int_equal(ftruncate(fd, (off_t)SHM_BYTES), 0);
        open_heap(&heap, fd, 0);
        block = shm_heap_alloc(&heap, 4u << 20);
        assert_int_equal(pages_of(fd), 4u << 20);
        assert_true(shm_heap_free(&heap, block));
        assert_int_equal(pages_of(fd), 4u << 20);
        shm_heap_trim(&heap);
        assert_int_equal(pages_of(fd), 0);
        block = shm_heap_alloc(&heap, 1u << 20);
        assert_int_equal(pages_of(fd), 1u << 20);
        assert_true(shm_heap_free(&heap, block));
        shm_heap_done(&heap);
        (void)close(fd);
}

/* Random sizes: blocks never overlap, and at the end all memory is one free run again. */
static void test_random_story(void **state) {
        enum { N = 400, STEPS = 60000 };
        static struct {
                uint32_t block;
                uint64_t n_bytes;
        } live[N];
        struct shm_heap heap;
        uint64_t        seed = 7;

        (void)state;
        open_heap(&heap, -1, 0);
        memset(live, 0, sizeof(live));
        for (unsigned step = 0; step < STEPS; step++) {
                unsigned i;

                seed = seed * 6364136223846793005u + 1442695040888963407u;
                i = (unsigned)(seed >> 33) % N;
                if (live[i].block != 0) {
                        assert_int_equal(shm_heap_size(&heap, live[i].block), live[i].n_bytes);
                        assert_true(shm_heap_free(&heap, live[i].block));
                        live[i].block = 0;
                        continue;
                }
                live[i].block =
                        shm_heap_alloc(&heap, (seed >> 20) % ((seed >> 60) == 0 ? 900000 : 5000));
                assert_int_not_equal(live[i].block, 0);
                live[i].n_bytes = shm_heap_size(&heap, live[i].block);
                for (unsigned k = 0; step % 64 == 0 && k < N; k++)
                        if (k != i && live[k].block != 0)
                                assert_true(live[i].block + live[i].n_bytes / SHM_BLOCK <=
                                                    live[k].block ||
                                            live[k].block + live[k].n_bytes / SHM_BLOCK <=
                                                    live[i].block);
        }
        for (unsigned i = 0; i < N; i++)
                if (live[i].block != 0)
                        assert_true(shm_heap_free(&heap, live[i].block));
        assert_int_equal(heap.allocated_bytes, 0);
        shm_heap_trim(&heap);
        assert_true(shm_heap_drop(&heap, 0)); /* one free run */
        shm_heap_done(&heap);
}

/* ---- segments -------------------------------------------------------------------------------- */

static uint32_t first_block(uint32_t unit) {
        return (uint32_t)((SHM_SERVER_AREA + (uint64_t)unit * SHM_UNIT) / SHM_BLOCK);
}

static void test_blocks_are_in_one_segment(void **state) {
        struct shm_heap heap;
        uint32_t        a, b;

        (void)state;
        open_empty(&heap, -1, 0);
        assert_int_equal(shm_heap_alloc(&heap, 1), 0);
        assert_false(shm_heap_has_room(&heap, 1));
        assert_int_equal(shm_heap_add(&heap, GRANULE_UNITS), 0);
        assert_int_equal(shm_heap_add(&heap, 10), 1); /* right after it in the file */
        assert_false(shm_heap_has_room(&heap, SHM_GRANULE + 1));
        assert_int_equal(shm_heap_alloc(&heap, SHM_GRANULE + 1), 0);
        a = shm_heap_alloc(&heap, SHM_GRANULE);
        b = shm_heap_alloc(&heap, 10 * SHM_UNIT);
        assert_int_equal(a, first_block(0));
        assert_int_equal(b, first_block(GRANULE_UNITS));
        assert_true(shm_heap_free(&heap, b));
        assert_true(shm_heap_free(&heap, a)); /* is not joined with its neighbour */
        assert_int_equal(shm_heap_alloc(&heap, SHM_GRANULE + 1), 0);
        shm_heap_done(&heap);
}

static void test_places_of_segments(void **state) {
        struct shm_heap heap;

        (void)state;
        open_empty(&heap, -1, 0);
        assert_int_equal(shm_heap_add(&heap, 1), 0);
        assert_int_equal(shm_heap_add(&heap, 2 * GRANULE_UNITS + 1), 1);
        assert_int_equal(shm_heap_add(&heap, 1), 2);
        assert_int_equal(heap.segments[1].first, GRANULE_UNITS);
        assert_int_equal(heap.segments[2].first, 4 * GRANULE_UNITS);
        assert_int_equal(heap.n_segment_units, 2 * GRANULE_UNITS + 3);
        assert_true(shm_heap_drop(&heap, 1));
        assert_int_equal(heap.n_segment_units, 2);
        assert_int_equal(shm_heap_add(&heap, 1),
                         3); /* the other side may still have the place mapped */
        assert_int_equal(heap.segments[3].first, 5 * GRANULE_UNITS);
        shm_heap_forget(&heap, 1);
        assert_int_equal(shm_heap_add(&heap, 3 * GRANULE_UNITS + 1), 1); /* too large for the gap */
        assert_int_equal(heap.segments[1].first, 6 * GRANULE_UNITS);
        assert_int_equal(shm_heap_add(&heap, 3 * GRANULE_UNITS), 4);
        assert_int_equal(heap.segments[4].first, GRANULE_UNITS);
        shm_heap_done(&heap);
}

static void test_an_area_is_full(void **state) {
        const uint32_t  all = SHM_AREA_BYTES / SHM_UNIT;
        struct shm_heap heap;

        (void)state;
        open_empty(&heap, -1, 0);
        assert_int_equal(shm_heap_add(&heap, all + 1), SHM_NO_INDEX);
        assert_int_equal(shm_heap_add(&heap, shm_heap_units(UINT64_MAX)), SHM_NO_INDEX);
        for (uint32_t i = 0; i < SHM_SEGMENTS; i++)
                assert_int_equal(shm_heap_add(&heap, 1), i);
        assert_int_equal(shm_heap_add(&heap, 1), SHM_NO_INDEX);
        assert_true(shm_heap_drop(&heap, 7));
        assert_int_equal(shm_heap_add(&heap, 1), SHM_NO_INDEX);
        shm_heap_forget(&heap, 7);
        assert_int_equal(shm_heap_add(&heap, all - (SHM_SEGMENTS - 1) * GRANULE_UNITS),
                         SHM_NO_INDEX); /* the hole is not at the end */
        assert_int_equal(shm_heap_add(&heap, 1), 7);
        shm_heap_done(&heap);
}

static void test_segments_go_when_they_are_empty(void **state) {
        struct shm_heap heap;
        int             fd = memfd_create("test", MFD_CLOEXEC);
        uint32_t        small, large;

        (void)state;
        assert_int_equal(ftruncate(fd, (off_t)SHM_BYTES), 0);
        open_empty(&heap, fd, 0);
        assert_int_equal(shm_heap_add(&heap, 2), 0);
        small = shm_heap_alloc(&heap, 64);
        assert_int_equal(shm_heap_add(&heap, 100), 1);
        large = shm_heap_alloc(&heap, 100 * SHM_UNIT);
        assert_int_equal(pages_of(fd), 101 * SHM_UNIT);
        assert_false(shm_heap_drop(&heap, 0));
        assert_false(shm_heap_drop(&heap, 1));
        assert_true(shm_heap_free(&heap, large));
        assert_true(shm_heap_drop(&heap, 1));
        assert_false(shm_heap_free(&heap, large));
        assert_int_equal(pages_of(fd), SHM_UNIT);
        assert_int_equal(atomic_load(&committed), SHM_UNIT);
        assert_true(shm_heap_free(&heap, small));
        assert_false(
                shm_heap_drop(&heap, 0)); /* keeps an empty unit for the next small block, ... */
        shm_heap_trim(&heap);             /* ... until it is trimmed */
        assert_true(shm_heap_drop(&heap, 0));
        assert_int_equal(pages_of(fd), 0);
        shm_heap_done(&heap);
        (void)close(fd);
}

static void test_a_closed_segment(void **state) {
        struct shm_heap heap;
        uint32_t        blocks[5];

        (void)state;
        open_empty(&heap, -1, 0);
        assert_int_equal(shm_heap_add(&heap, 20), 0);
        blocks[0] = shm_heap_alloc(&heap, 64);
        blocks[1] = shm_heap_alloc(&heap, 64);
        blocks[2] = shm_heap_alloc(&heap, 3 * SHM_UNIT);
        blocks[3] = shm_heap_alloc(&heap, 128);
        blocks[4] = shm_heap_alloc(&heap, 5 * SHM_UNIT);
        assert_true(shm_heap_free(&heap, blocks[3])); /* an empty unit is kept */
        shm_heap_close(&heap, 0);
        assert_int_equal(shm_heap_alloc(&heap, 64), 0);
        assert_int_equal(shm_heap_alloc(&heap, SHM_UNIT), 0);
        for (unsigned i = 0; i < 5; i++) {
                assert_false(shm_heap_drop(&heap, 0));
                assert_int_equal(shm_heap_free(&heap, blocks[i]), i != 3);
                assert_false(shm_heap_free(&heap, blocks[i]));
        }
        assert_int_equal(shm_heap_alloc(&heap, 64), 0);
        assert_int_equal(heap.allocated_bytes, 0);
        assert_true(shm_heap_drop(&heap, 0));
        assert_int_equal(atomic_load(&committed), 0);
        assert_int_equal(heap.n_segment_units, 0);
        shm_heap_forget(&heap, 0);
        assert_int_equal(shm_heap_add(&heap, 20), 0);
        assert_int_equal(shm_heap_alloc(&heap, 20 * SHM_UNIT), first_block(0));
        shm_heap_done(&heap);
}

/* The descriptor of the memory denotes a file of the model. */
static void test_another_file_is_not_touched(void **state) {
        struct shm_heap heap;
        int             fd = memfd_create("test", MFD_CLOEXEC);
        int             other = memfd_create("other", MFD_CLOEXEC);
        uint32_t        block;

        (void)state;
        open_heap(&heap, fd, 0);
        block = shm_heap_alloc(&heap, SHM_UNIT);
        assert_int_not_equal(block, 0);
        assert_int_equal(dup2(other, fd), fd);
        assert_int_equal(shm_heap_alloc(&heap, 2 * SHM_UNIT), 0);
        assert_true(shm_heap_free(&heap, block));
        shm_heap_trim(&heap);
        assert_int_equal(pages_of(other), 0);
        shm_heap_done(&heap);
        (void)close(fd);
        (void)close(other);
}

SUITE(python_shm_heap) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_sizes),
                cmocka_unit_test(test_what_is_no_block),
                cmocka_unit_test(test_joined_runs),
                cmocka_unit_test(test_limit),
                cmocka_unit_test(test_memory_comes_and_goes),
                cmocka_unit_test(test_random_story),
                cmocka_unit_test(test_blocks_are_in_one_segment),
                cmocka_unit_test(test_places_of_segments),
                cmocka_unit_test(test_an_area_is_full),
                cmocka_unit_test(test_segments_go_when_they_are_empty),
                cmocka_unit_test(test_a_closed_segment),
                cmocka_unit_test(test_another_file_is_not_touched),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
