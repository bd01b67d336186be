/* SPDX-License-Identifier: BSD-3-Clause */
/* A million look-ups of four threads: nothing is lost, nothing is wrong. */
#include "suite.h"

#include "caches/cache_host.h"
#include "local/local.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_THREADS 4
#define N_LOOKUPS 250000 /* of each thread */
#define N_KEYS 1000
#define VALUE_BYTES 64

/* Sanitizers make it slow; they look at each access, not at luck. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SHARE 10
#else
#define SHARE 1
#endif

struct worker {
        pthread_t          thread;
        TRITONCACHE_Cache *cache;
        uint32_t           random;
        unsigned           n_keys;
        unsigned           n_found;
        unsigned           n_missed;
        unsigned           n_wrong;
        unsigned           n_failed; /* insertions, but for a key that is there */
};

static void make_key(unsigned number, char key[33]) {
        snprintf(key, 33, "%08x%08x%08x%08x", number, number * 7, ~number, number + 1);
}

/* Every byte follows from the key. */
static void make_value(unsigned number, char value[VALUE_BYTES]) {
        for (unsigned i = 0; i < VALUE_BYTES; i++)
                value[i] = (char)(number * 31 + i * (number % 13 + 1));
}

static unsigned next_random(struct worker *w) {
        w->random = w->random * 1664525 + 1013904223;
        return w->random >> 8;
}

static void insert(struct worker *w, unsigned number) {
        char                   key[33], value[VALUE_BYTES];
        TRITONCACHE_CacheEntry entry = { .buffers = { { .bytes = VALUE_BYTES } }, .n = 1 };
        TRITONCACHE_Allocator  allocator = { .bytes = { value } };
        TRITONSERVER_Error    *err;

        make_key(number, key);
        make_value(number, value);
        err = TRITONCACHE_CacheInsert(w->cache, key, &entry, &allocator);
        if (err == NULL)
                return;
        w->n_failed += TRITONSERVER_ErrorCode(err) != TRITONSERVER_ERROR_ALREADY_EXISTS;
        TRITONSERVER_ErrorDelete(err);
}

static void look_up(struct worker *w, unsigned number) {
        char                   key[33], want[VALUE_BYTES], found[VALUE_BYTES] = { 0 };
        TRITONCACHE_CacheEntry entry = { .n = 0 };
        TRITONCACHE_Allocator  allocator = { .is_lookup = 1, .bytes = { found } };
        TRITONSERVER_Error    *err;

        make_key(number, key);
        err = TRITONCACHE_CacheLookup(w->cache, key, &entry, &allocator);
        if (err != NULL) {
                w->n_missed++;
                TRITONSERVER_ErrorDelete(err);
                insert(w, number);
                return;
        }
        make_value(number, want);
        w->n_found++;
        w->n_wrong += allocator.n_copied != VALUE_BYTES || memcmp(found, want, VALUE_BYTES) != 0;
}

static void *work(void *arg) {
        struct worker *w = arg;

        for (unsigned i = 0; i < N_LOOKUPS / SHARE; i++)
                look_up(w, next_random(w) % w->n_keys);
        return NULL;
}

static struct worker run(TRITONCACHE_Cache *cache, unsigned n_keys) {
        struct worker workers[N_THREADS], sum = { 0 };

        for (unsigned i = 0; i < N_THREADS; i++) {
                workers[i] = (struct worker){ .cache = cache, .random = i, .n_keys = n_keys };
                assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
        }
        for (unsigned i = 0; i < N_THREADS; i++) {
                assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
                sum.n_found += workers[i].n_found;
                sum.n_missed += workers[i].n_missed;
                sum.n_wrong += workers[i].n_wrong;
                sum.n_failed += workers[i].n_failed;
        }
        assert_int_equal(sum.n_found + sum.n_missed, N_THREADS * (N_LOOKUPS / SHARE));
        assert_int_equal(sum.n_wrong, 0);
        return sum;
}

static TRITONCACHE_Cache *open_cache(size_t size) {
        TRITONCACHE_Cache *cache;
        char               config[64];

        snprintf(config, sizeof(config), "{\"size\":\"%zu\"}", size);
        assert_null(TRITONCACHE_CacheInitialize(&cache, config));
        return cache;
}

static void test_all_fits(void **state) {
        TRITONCACHE_Cache *cache = open_cache(1 << 20);
        struct worker      filler = { .cache = cache };
        struct store_state s;
        struct worker      sum;

        (void)state;
        for (unsigned i = 0; i < N_KEYS; i++)
                insert(&filler, i);
        sum = run(cache, N_KEYS);
        assert_int_equal(sum.n_missed, 0);
        store_get_state(((struct local_cache *)cache)->store, &s);
        assert_int_equal(s.n_entries, N_KEYS);
        assert_int_equal(s.n_evicted, 0);
        assert_null(TRITONCACHE_CacheFinalize(cache));
}

/* Entries go while others read them, and come again. */
static void test_with_evictions(void **state) {
        TRITONCACHE_Cache *cache = open_cache(64 << 10);
        struct store_state s;
        struct worker      sum = run(cache, N_KEYS);

        (void)state;
        assert_int_equal(sum.n_failed, 0);
        store_get_state(((struct local_cache *)cache)->store, &s);
        assert_true(s.n_evicted > 0);
        assert_true(s.used <= s.size);
        /* All entries are alike: the sum is exact. */
        assert_int_equal(s.used % s.n_entries, 0);
        assert_true(s.size - s.used < s.used / s.n_entries);
        assert_null(TRITONCACHE_CacheFinalize(cache));
}

SUITE(local_cache_stress) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_all_fits),
                cmocka_unit_test(test_with_evictions),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
