/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "base/heap_end.h"
#include "base/job_thread.h"
#include "base/mem.h"
#include "base/thread.h"

#include <malloc.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* Blocks that malloc() does not map on their own. */
#define BLOCK_BYTES ((size_t)64 << 10)
#define N_BLOCKS 64
/* From here on the C library maps blocks, and returns a heap's end by itself from twice of it. It begins with 128 KiB
 * and takes the size of the largest mapped block that was freed. */
#define LARGE_BYTES ((size_t)16 << 20)

/* What a piece of work had from the heap of its thread. */
struct work {
        char  *blocks[N_BLOCKS];
        bool   trims, is_low, keeps;
        size_t n_before; /* resident bytes of the blocks after they were freed */
        size_t n_after;  /* the same after both trims */
        size_t n_more;   /* bytes that page faults of the trim brought */
};

static size_t resident_bytes(const struct work *w) {
        size_t page = (size_t)sysconf(_SC_PAGESIZE), n = 0;

        for (size_t i = 0; i < N_BLOCKS; i++) {
                uintptr_t     at = ((uintptr_t)w->blocks[i] + page - 1) & ~(page - 1);
                unsigned char is_resident[BLOCK_BYTES / 4096];

                if (mincore((void *)at, BLOCK_BYTES - page, is_resident) != 0)
                        continue; /* unmapped */
                for (size_t k = 0; k < BLOCK_BYTES / page - 1; k++)
                        n += is_resident[k] & 1 ? page : 0;
        }
        return n;
}

/* Of the calling thread, in bytes. */
static size_t n_faulted(void) {
        struct rusage usage;

        getrusage(RUSAGE_THREAD, &usage);
        return (size_t)usage.ru_minflt * (size_t)sysconf(_SC_PAGESIZE);
}

static void use_and_free(void *arg) {
        struct work *w = arg;
        size_t       n;

        if (w->is_low)
                thread_lower_priority();
        if (w->keeps)
                thread_keep_heap_end();
        free(mem_alloc(LARGE_BYTES));
        for (size_t i = 0; i < N_BLOCKS; i++) {
                w->blocks[i] = mem_alloc(BLOCK_BYTES);
                memset(w->blocks[i], 1, BLOCK_BYTES);
        }
        for (size_t i = 0; i < N_BLOCKS; i++)
                free(w->blocks[i]);
        w->n_before = resident_bytes(w);
        n = n_faulted();
        if (w->trims)
                heap_end_trim();
        w->n_more = n_faulted() - n;
}

#define N_HOLE_BLOCKS 8

/* A free block without pages lies before the free end. */
static void *use_behind_a_hole(void *arg) {
        struct work *w = arg;
        char        *hole[N_HOLE_BLOCKS], *last;

        free(mem_alloc(LARGE_BYTES));
        for (size_t i = 0; i < N_HOLE_BLOCKS; i++)
                hole[i] = mem_alloc(BLOCK_BYTES);
        last = mem_alloc(BLOCK_BYTES);
        memset(last, 1, BLOCK_BYTES);
        for (size_t i = 0; i < N_HOLE_BLOCKS; i++)
                free(hole[i]);
        use_and_free(w);
        mem_trim();
        heap_end_trim();
        w->n_after = resident_bytes(w);
        free(last);
        return NULL;
}

static void *use_on_a_bare_thread(void *arg) {
        use_and_free(arg);
        return NULL;
}

static void run_on_a_bare_thread(struct work *w) {
        pthread_t thread;

        assert_int_equal(pthread_create(&thread, NULL, use_on_a_bare_thread, w), 0);
        pthread_join(thread, NULL);
}

static void run_on_a_thread(struct work *w) {
        struct thread thread;

        assert_null(thread_start(&thread, "work", use_and_free, w));
        thread_join(&thread);
}

/* Some pages stay, of which a part was another block's. */
static void assert_returned(const struct work *w) {
        assert_true(w->n_before > N_BLOCKS * BLOCK_BYTES / 2);
        assert_true(resident_bytes(w) < N_BLOCKS * BLOCK_BYTES / 8);
}

static void assert_kept(const struct work *w) {
        assert_true(w->n_before > N_BLOCKS * BLOCK_BYTES / 2);
        assert_true(resident_bytes(w) > N_BLOCKS * BLOCK_BYTES / 2);
}

/* Tests run with MALLOC_PERTURB_, where each block is written when it is allocated and when it is freed. */
static void set_perturb(int byte) {
#ifdef __GLIBC__
        mallopt(M_PERTURB, byte);
#endif
}

static void skip_without_heaps(void) {
#if !defined(__GLIBC__) || IS_SANITIZED
        skip();
#endif
        set_perturb(0);
}

/* Without a call free() keeps it, which is why there is one. */
static void test_trim(void **state) {
        struct work keeps = { .trims = false }, trims = { .trims = true };

        (void)state;
        skip_without_heaps();
        run_on_a_bare_thread(&keeps);
        assert_kept(&keeps);
        run_on_a_bare_thread(&trims);
        assert_returned(&trims);
}

static void test_end_of_a_thread(void **state) {
        struct work w = { .trims = false };

        (void)state;
        skip_without_heaps();
        run_on_a_thread(&w);
        assert_returned(&w);
}

/* The next request needs it again. */
static void test_end_of_a_thread_that_computes(void **state) {
        struct work w = { .keeps = true };

        (void)state;
        skip_without_heaps();
        run_on_a_thread(&w);
        assert_kept(&w);
}

/* It makes an index or statistics of all models. The next one may get another heap. */
static void test_end_of_a_thread_of_low_priority(void **state) {
        struct work w = { .is_low = true };

        (void)state;
        skip_without_heaps();
        run_on_a_thread(&w);
        assert_returned(&w);
}

static void test_behind_a_hole(void **state) {
        struct work w = { .trims = false };
        pthread_t   thread;

        (void)state;
        skip_without_heaps();
        assert_int_equal(pthread_create(&thread, NULL, use_behind_a_hole, &w), 0);
        pthread_join(thread, NULL);
        assert_true(w.n_before > N_BLOCKS * BLOCK_BYTES / 2);
        assert_true(w.n_after < N_BLOCKS * BLOCK_BYTES / 8);
}

/* No memory comes that was not there: of 64 MiB that a heap may have, most was never used. */
static void test_where_each_block_is_written(void **state) {
        struct work w = { .trims = true };

        (void)state;
        skip_without_heaps();
        set_perturb(7);
        run_on_a_bare_thread(&w);
        set_perturb(0);
        assert_true(w.n_more < 4 * N_BLOCKS * BLOCK_BYTES);
}

static void test_end_of_a_job(void **state) {
        struct work        w = { .trims = false };
        struct job_thread *t;

        (void)state;
        skip_without_heaps();
        assert_null(job_thread_new(NULL, "job", &t));
        job_thread_run(t, use_and_free, &w);
        job_thread_wait(t);
        assert_returned(&w);
        job_thread_free(t);
}

SUITE(heap_end) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_trim),
                cmocka_unit_test(test_end_of_a_thread),
                cmocka_unit_test(test_end_of_a_thread_that_computes),
                cmocka_unit_test(test_end_of_a_thread_of_low_priority),
                cmocka_unit_test(test_where_each_block_is_written),
                cmocka_unit_test(test_end_of_a_job),
                cmocka_unit_test(test_behind_a_hole),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
