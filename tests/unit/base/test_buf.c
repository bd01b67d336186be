/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/buf.h"
#include "base/byte_budget.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/thread.h"

#include <string.h>

#define KIB ((size_t)1024)
#define MIB (KIB * KIB)

static void test_classes(void **state) {
        (void)state;
        struct buf_pool *pool = buf_pool_new(MIB);
        static const struct {
                size_t asked, given;
        } rows[] = {
                { 0, 256 },
                { 1, 256 },
                { 256, 256 },
                { 257, 512 },
                { 4 * KIB, 4 * KIB },
                { 4 * KIB + 1, 8 * KIB },
                { 65 * KIB, 128 * KIB },
                { 64 * MIB, 64 * MIB },
                { 64 * MIB + 1, 64 * MIB + 1 }, /* beyond the classes: as it is */
        };

        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct buf *b = buf_new(pool, rows[i].asked);

                assert_int_equal(b->cap, rows[i].given);
                assert_int_equal(b->len, 0);
                assert_int_equal((uintptr_t)b->bytes % 64, 0);
                b->bytes[0] = b->bytes[b->cap - 1] = 'x';
                buf_unref(b);
        }
        buf_pool_unref(pool);
}

static void test_freed_memory_comes_back(void **state) {
        (void)state;
        struct buf_pool *pool = buf_pool_new(MIB);
        struct buf      *first = buf_new(pool, 10 * KIB), *again, *other;

        first->len = 77;
        buf_unref(first);
        other = buf_new(pool, 4 * KIB); /* another class */
        assert_ptr_not_equal(other, first);
        again = buf_new(pool, 16 * KIB);
        assert_ptr_equal(again, first);
        assert_int_equal(again->len, 0);
        buf_unref(other);
        buf_unref(again);
        buf_pool_unref(pool);
}

static void test_counting(void **state) {
        (void)state;
        struct buf_pool *pool = buf_pool_new(MIB);
        struct buf      *b = buf_new(pool, 1), *other;

        buf_ref(b);
        buf_unref(b);
        other = buf_new(pool, 1); /* b is still out */
        assert_ptr_not_equal(other, b);
        buf_unref(b);
        buf_unref(other);
        buf_unref(NULL);
        buf_pool_unref(pool);
        buf_pool_unref(NULL);
}

static void fill_pool(struct buf_pool *pool, size_t cap, size_t n) {
        struct buf *many[16];

        for (size_t i = 0; i < n; i++)
                many[i] = buf_new(pool, cap);
        for (size_t i = 0; i < n; i++)
                buf_unref(many[i]);
}

/* How many of one class are kept: without memory nothing else can be had. */
static size_t count_kept(struct buf_pool *pool, size_t cap) {
        struct buf *many[16];
        size_t      n = 0;

        mem_fail_after(1);
        while (n < 16 && (many[n] = buf_new(pool, cap)) != NULL)
                n++;
        mem_fail_after(0);
        for (size_t i = 0; i < n; i++)
                buf_unref(many[i]);
        return n;
}

static void test_kept_bytes_are_bounded(void **state) {
        (void)state;
        struct buf_pool *pool = buf_pool_new(3 * 64 * KIB + 1);

        fill_pool(pool, 64 * KIB, 8);
        assert_int_equal(count_kept(pool, 64 * KIB), 3);
        buf_pool_unref(pool);
}

static void test_trim_halves_from_the_largest(void **state) {
        (void)state;
        struct buf_pool *pool = buf_pool_new(MIB);

        fill_pool(pool, 64 * KIB, 2); /* 128 KiB */
        fill_pool(pool, 4 * KIB, 16); /* 64 KiB */
        buf_pool_trim(pool);          /* at most 96 KiB: both large ones have to go */
        assert_int_equal(count_kept(pool, 64 * KIB), 0);
        assert_int_equal(count_kept(pool, 4 * KIB), 16);
        for (int i = 0; i < 20; i++)
                buf_pool_trim(pool);
        assert_int_equal(count_kept(pool, 4 * KIB), 0);
        buf_pool_unref(pool);
}

static void test_pool_of_nothing_keeps_nothing(void **state) {
        (void)state;
        struct buf_pool *pool = buf_pool_new(0);
        struct buf      *b = buf_new(pool, 1);

        assert_non_null(b);
        buf_unref(b);
        assert_int_equal(count_kept(pool, 1), 0);
        buf_pool_trim(pool);
        buf_pool_unref(pool);
}

static void test_plain_buffers(void **state) {
        (void)state;
        struct buf *b = buf_new(NULL, 100);

        assert_int_equal(b->cap, 100);
        memset(b->bytes, 1, 100);
        buf_unref(b);
}

static void test_buffers_outlive_their_pool(void **state) {
        (void)state;
        struct buf_pool   *pool = buf_pool_new(MIB);
        struct byte_budget budget;
        struct buf        *a, *b;

        byte_budget_init(&budget, MIB);
        buf_pool_set_budget(pool, &budget);
        a = buf_new(pool, 1);
        b = buf_new(pool, 100 * KIB);
        buf_unref(buf_new(pool, 1)); /* one is kept as well */
        buf_pool_unref(pool);
        assert_ptr_equal(b->pool, pool);
        memset(b->bytes, 1, b->cap);
        buf_unref(a);
        assert_true(byte_budget_used(&budget) >= 100 * KIB); /* b is charged still */
        buf_unref(b);                                        /* the last: the pool goes with it */
        assert_int_equal(byte_budget_used(&budget), 0);
}

static void count_release(void *object) {
        ++*(int *)object;
}

/* A count of references for something else, which is charged as long as it is held. */
static void test_holding(void **state) {
        (void)state;
        struct byte_budget budget;
        struct buf        *b;
        int                n_released = 0;

        byte_budget_init(&budget, MIB);
        b = buf_new_holding(&budget, 500 * KIB, count_release, &n_released);
        assert_int_equal(byte_budget_used(&budget), 500 * KIB);
        assert_null(buf_new_holding(&budget, 500 * KIB, count_release, &n_released));
        buf_ref(b);
        buf_unref(b);
        assert_int_equal(n_released, 0);
        buf_unref(b);
        assert_int_equal(n_released, 1);
        assert_int_equal(byte_budget_used(&budget), 0);

        mem_fail_after(1);
        assert_null(buf_new_holding(&budget, 500 * KIB, count_release, &n_released));
        mem_fail_after(0);
        assert_int_equal(byte_budget_used(&budget), 0);
        buf_unref(buf_new_holding(NULL, 500 * KIB, count_release, &n_released));
        assert_int_equal(n_released, 2);
}

static void test_no_memory(void **state) {
        (void)state;
        struct buf_pool *pool = buf_pool_new(MIB);
        struct buf      *b;

        mem_fail_after(1);
        assert_null(buf_new(pool, 1));
        assert_null(buf_new(NULL, 1));
        mem_fail_after(0);
        b = buf_new(pool, 1);
        buf_unref(b);
        mem_fail_after(1);
        assert_ptr_equal(buf_new(pool, 1), b); /* what is kept needs no memory */
        mem_fail_after(0);
        buf_unref(b);
        assert_null(buf_new(pool, SIZE_MAX));
        assert_null(buf_new(NULL, SIZE_MAX - 64));
        buf_pool_unref(pool);
}

/* ---- across threads: one makes, the other releases ----------------------------------------- */

#define N_PASSED 5000

struct channel {
        struct buf_pool *pool;
        struct mutex     lock;
        struct cond      changed;
        struct buf      *passed;
        bool             is_closed;
        unsigned         n_bad;
};

static void release_all(void *arg) {
        struct channel *c = arg;
        struct buf     *b;

        do {
                mutex_lock(&c->lock);
                while (c->passed == NULL && !c->is_closed)
                        cond_wait(&c->changed, &c->lock);
                b = STEAL(c->passed);
                cond_broadcast(&c->changed);
                mutex_unlock(&c->lock);

                if (b != NULL && memcmp(b->bytes, "full", 4) != 0)
                        c->n_bad++;
                buf_unref(b);
        } while (b != NULL);
}

static void pass(struct channel *c, struct buf *b) {
        MUTEX_GUARD(&c->lock);

        while (c->passed != NULL)
                cond_wait(&c->changed, &c->lock);
        c->passed = b;
        c->is_closed = b == NULL;
        cond_broadcast(&c->changed);
}

static void test_across_threads(void **state) {
        (void)state;
        struct channel c = { .pool = buf_pool_new(MIB) };
        struct thread  t;

        mutex_init(&c.lock, LOCK_QUEUE);
        cond_init(&c.changed);
        assert_null(thread_start(&t, "release", release_all, &c));
        for (size_t i = 0; i < N_PASSED; i++) {
                struct buf *b = buf_new(c.pool, (i % 5) * 10 * KIB);

                memcpy(b->bytes, "full", 4);
                pass(&c, b);
                if (i % 1000 == 0)
                        buf_pool_trim(c.pool);
        }
        pass(&c, NULL);
        buf_pool_unref(c.pool);
        thread_join(&t);
        assert_int_equal(c.n_bad, 0);
        cond_done(&c.changed);
        mutex_done(&c.lock);
}

#define LARGE (200 * MIB + 3)

/* Up to 64 MiB a buffer has room for the whole message. */
static void test_small_messages_have_their_room(void **state) {
        (void)state;
        struct buf_pool *pool = buf_pool_new(MIB);
        struct buf      *b = buf_new_growing(pool, 64 * MIB, 10);

        assert_int_equal(b->cap, 64 * MIB);
        buf_unref(b);
        b = buf_new_growing(pool, 300, 10);
        assert_int_equal(b->cap, 512);
        buf_unref(b);
        buf_pool_unref(pool);
}

/* A larger one takes what it holds, and no more than twice that; its bytes stay. */
static void test_growing(void **state) {
        (void)state;
        struct buf_pool   *pool = buf_pool_new(MIB);
        struct byte_budget budget;
        struct buf        *b;
        size_t             filled = 0;

        byte_budget_init(&budget, 400 * MIB);
        buf_pool_set_budget(pool, &budget);
        b = buf_new_growing(pool, LARGE, 10);
        assert_int_equal(b->cap, MIB);
        assert_int_equal(byte_budget_used(&budget), MIB);
        assert_int_equal((uintptr_t)b->bytes % 64, 0);
        for (;;) {
                b->bytes[filled] = (char)filled;
                b->bytes[b->cap - 1] = 'z';
                filled = b->cap;
                if (filled == LARGE)
                        break;
                assert_true(buf_grow(&b, LARGE));
                assert_int_equal(b->cap, MIN(2 * filled, LARGE));
                assert_int_equal(byte_budget_used(&budget), b->cap);
                assert_int_equal(b->bytes[0], 0);
                assert_int_equal(b->bytes[filled - 1], 'z');
        }
        buf_unref(b);
        assert_int_equal(byte_budget_used(&budget), 0);
        b = buf_new_growing(pool, LARGE, 100 * MIB);
        assert_int_equal(b->cap, 100 * MIB);
        buf_unref(b);
        buf_pool_unref(pool);
}

/* Announced bytes take no more than half of the budget. */
static void test_growing_with_half_of_the_budget(void **state) {
        (void)state;
        struct buf_pool   *pool = buf_pool_new(MIB);
        struct byte_budget budget;
        struct buf        *whole[3], *some[100], *b;

        byte_budget_init(&budget, 256 * MIB);
        buf_pool_set_budget(pool, &budget);
        for (size_t i = 0; i < ARRAY_LEN(whole); i++) {
                whole[i] = buf_new_growing(pool, 60 * MIB, 10);
                assert_int_equal(whole[i]->cap, i < 2 ? 64 * MIB : MIB / 8);
                if (i == 1) /* exactly half is not more than that */
                        assert_true(byte_budget_take(&budget, 1));
        }
        for (size_t i = 0; i < ARRAY_LEN(some); i++) {
                some[i] = buf_new_growing(pool, 60 * MIB, 10);
                assert_int_equal(some[i]->cap, MIB / 8);
        }
        assert_int_equal(byte_budget_used(&budget), 128 * MIB + 1 + 101 * (MIB / 8));
        b = buf_new_growing(pool, MIB / 8, 10); /* not worth it */
        assert_int_equal(b->cap, MIB / 8);
        buf_unref(b);
        b = buf_new_growing(pool, 3 * MIB, 2 * MIB);
        assert_int_equal(b->cap, 2 * MIB);
        b->bytes[2 * MIB - 1] = 'z';
        assert_true(buf_grow(&b, 3 * MIB));
        assert_int_equal(b->cap, 3 * MIB);
        assert_int_equal(b->bytes[2 * MIB - 1], 'z');
        buf_unref(b);
        for (size_t i = 0; i < ARRAY_LEN(some); i++)
                buf_unref(some[i]);
        for (size_t i = 0; i < ARRAY_LEN(whole); i++)
                buf_unref(whole[i]);
        byte_budget_give(&budget, 1);
        buf_pool_unref(pool);
        assert_int_equal(byte_budget_used(&budget), 0);
}

static void count_refusal(void *n) {
        ++*(unsigned *)n;
}

static void test_growing_without_room(void **state) {
        (void)state;
        struct buf_pool   *pool = buf_pool_new(MIB);
        struct byte_budget budget;
        unsigned           n_refused = 0;
        struct buf        *b, *other;

        byte_budget_init(&budget, 400 * MIB);
        budget.on_refused = count_refusal;
        budget.owner = &n_refused;
        buf_pool_set_budget(pool, &budget);
        assert_int_equal(buf_pool_largest(pool), 350 * MIB); /* an eighth is for small pieces */
        assert_null(buf_new_growing(pool, 350 * MIB + 1, 10));
        assert_int_equal(n_refused, 1);
        b = buf_new_growing(pool, 300 * MIB, 100 * MIB);
        other = buf_new(pool, 150 * MIB + 1);
        assert_false(buf_grow(&b, 300 * MIB));
        assert_int_equal(n_refused, 2);
        assert_int_equal(b->cap, 100 * MIB);
        buf_unref(other);
        mem_fail_after(1);
        assert_false(buf_grow(&b, 300 * MIB));
        assert_null(buf_new_growing(pool, 100 * MIB, 10));
        mem_fail_after(0);
        assert_int_equal(n_refused, 2);
        assert_int_equal(byte_budget_used(&budget), 100 * MIB);
        assert_true(buf_grow(&b, 300 * MIB));
        buf_unref(b);
        assert_int_equal(byte_budget_used(&budget), 0);
        buf_pool_unref(pool);
        assert_int_equal(buf_pool_largest(NULL), SIZE_MAX);
        assert_null(buf_new_growing(NULL, SIZE_MAX, 10));
}

/* The largest message of a class, since a class is taken as a whole. */
static void test_largest_message(void **state) {
        (void)state;
        struct buf_pool   *pool = buf_pool_new(MIB);
        struct byte_budget budget;

        byte_budget_init(&budget, 64 * MIB);
        buf_pool_set_budget(pool, &budget);
        assert_int_equal(buf_pool_largest(pool), 32 * MIB);
        buf_pool_unref(pool);
}

SUITE(buf) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_classes),
                cmocka_unit_test(test_freed_memory_comes_back),
                cmocka_unit_test(test_counting),
                cmocka_unit_test(test_kept_bytes_are_bounded),
                cmocka_unit_test(test_trim_halves_from_the_largest),
                cmocka_unit_test(test_pool_of_nothing_keeps_nothing),
                cmocka_unit_test(test_plain_buffers),
                cmocka_unit_test(test_buffers_outlive_their_pool),
                cmocka_unit_test(test_holding),
                cmocka_unit_test(test_no_memory),
                cmocka_unit_test(test_across_threads),
                cmocka_unit_test(test_small_messages_have_their_room),
                cmocka_unit_test(test_growing),
                cmocka_unit_test(test_growing_with_half_of_the_budget),
                cmocka_unit_test(test_growing_without_room),
                cmocka_unit_test(test_largest_message),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
