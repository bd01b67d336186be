/* SPDX-License-Identifier: BSD-3-Clause */
#include "python/shm_heap.h"
#include "suite.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static _Atomic uint64_t committed, committed_by_other;

static void open_heap(struct shm_heap *heap, int fd, uint64_t max_bytes) {
        atomic_store(&committed, 0);
        atomic_store(&committed_by_other, 0);
        shm_heap_init(heap,
                      &(struct shm_heap_options){ .begin = SHM_SERVER_AREA,
                                                  .fd = fd,
                                                  .max_bytes = max_bytes,
                                                  .committed = &committed,
                                                  .committed_by_other = &committed_by_other });
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
        assert_int_equal(heap.n_units, 6);
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
        assert_in_range(heap.n_units, 1, 4000); /* what was free was used again */
        shm_heap_done(&heap);
}

SUITE(python_shm_heap) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_sizes),
                cmocka_unit_test(test_what_is_no_block),
                cmocka_unit_test(test_joined_runs),
                cmocka_unit_test(test_limit),
                cmocka_unit_test(test_memory_comes_and_goes),
                cmocka_unit_test(test_random_story),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
