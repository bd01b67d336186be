/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "caches/cache_host.h"
#include "local/local.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static TRITONCACHE_Cache *open_cache(size_t size) {
        TRITONCACHE_Cache *cache;
        char               config[64];

        snprintf(config, sizeof(config), "{\"size\":\"%zu\"}", size);
        assert_null(TRITONCACHE_CacheInitialize(&cache, config));
        return cache;
}

static void close_cache(TRITONCACHE_Cache *cache) {
        assert_null(TRITONCACHE_CacheFinalize(cache));
}

static void insert(TRITONCACHE_Cache *cache, const char *key, const char *text) {
        const char *const texts[] = { text, NULL };
        char             *err = host_insert(cache, key, texts);

        if (err != NULL)
                fail_msg("%s: %s", key, err);
}

static void assert_refused(TRITONCACHE_Cache *cache, const char *key, const char *text,
                           const char *why) {
        const char *const texts[] = { text, NULL };
        char             *err = host_insert(cache, key, texts);

        assert_non_null(err);
        assert_string_equal(err, why);
        free(err);
}

static void assert_found(TRITONCACHE_Cache *cache, const char *key, const char *want) {
        char *found = host_find(cache, key);

        if (want == NULL) {
                assert_null(found);
                return;
        }
        if (found == NULL)
                fail_msg("%s is not there", key);
        assert_string_equal(found, want);
        free(found);
}

static struct store_state state_of(TRITONCACHE_Cache *cache) {
        struct store_state state;

        store_get_state(((struct local_cache *)cache)->store, &state);
        return state;
}

static void test_settings(void **unused) {
        static const struct {
                const char *config, *error;
        } rows[] = {
                { "{\"size\":\"4096\"}", NULL },
                { "{\"size\":4096}", NULL },
                { "{}", "the local cache needs the setting 'size', in bytes" },
                { "{\"size\":\"0\"}", "'size' of the local cache must be a number of bytes greater "
                                      "than 0, got '0'" },
                { "{\"size\":\"\"}", "'size' of the local cache must be a number of bytes greater "
                                     "than 0, got ''" },
                { "{\"size\":\"1k\"}", "'size' of the local cache must be a number of bytes "
                                       "greater than 0, got '1k'" },
                { "{\"size\":\"-1\"}", "'size' of the local cache must be a number of bytes "
                                       "greater than 0, got '-1'" },
                { "{\"size\":1.5}", "'size' of the local cache must be a number of bytes greater "
                                    "than 0, got '1.5'" },
                { "{\"size\":\"18446744073709551616\"}",
                  "'size' of the local cache must be a number of bytes greater than 0, got "
                  "'18446744073709551616'" },
                { "{\"size\":true}", "'size' of the local cache must be a number of bytes greater "
                                     "than 0, got ''" },
                { "{\"size\":\"1\",\"policy\":\"lru\"}",
                  "unknown setting 'policy' of the local cache; there is only 'size'" },
                { "[1]", "the configuration of the local cache is not a JSON object" },
        };

        (void)unused;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                TRITONCACHE_Cache *cache = NULL;
                char *text = host_take(TRITONCACHE_CacheInitialize(&cache, rows[i].config),
                                       TRITONSERVER_ERROR_INVALID_ARG);

                if (rows[i].error == NULL) {
                        if (text != NULL)
                                fail_msg("%s: %s", rows[i].config, text);
                        assert_int_equal(state_of(cache).size, 4096);
                        close_cache(cache);
                } else {
                        assert_non_null(text);
                        assert_string_equal(text, rows[i].error);
                        free(text);
                }
        }
}

static void test_insert_and_find(void **unused) {
        TRITONCACHE_Cache *cache = open_cache(1 << 20);

        (void)unused;
        assert_found(cache, "a", NULL);
        insert(cache, "a", "one");
        insert(cache, "b", "two");
        insert(cache, "", "of the empty key");
        insert(cache, "empty", "");
        assert_found(cache, "a", "one");
        assert_found(cache, "b", "two");
        assert_found(cache, "", "of the empty key");
        assert_found(cache, "empty", "");
        assert_refused(cache, "a", "other", "key 'a' already exists");
        assert_found(cache, "a", "one");
        assert_int_equal(state_of(cache).n_entries, 4);
        close_cache(cache);
}

static void test_many_keys(void **unused) {
        TRITONCACHE_Cache *cache = open_cache(64 << 20);
        char               key[33];

        (void)unused;
        for (int i = 0; i < 20000; i++) {
                snprintf(key, sizeof(key), "%032x", i);
                insert(cache, key, key);
        }
        for (int i = 0; i < 20000; i++) {
                snprintf(key, sizeof(key), "%032x", i);
                assert_found(cache, key, key);
        }
        assert_int_equal(state_of(cache).n_evicted, 0);
        close_cache(cache);
}

static void test_several_buffers(void **unused) {
        static const char *const texts[] = { "first", "", "the third", NULL };
        char                     first[16] = "", third[16] = "";
        TRITONCACHE_CacheEntry   entry = { .n = 0 };
        TRITONCACHE_Allocator    allocator = { .is_lookup = 1, .bytes = { first, first, third } };
        TRITONCACHE_Cache       *cache = open_cache(1 << 20);

        (void)unused;
        assert_null(host_insert(cache, "k", texts));
        assert_null(TRITONCACHE_CacheLookup(cache, "k", &entry, &allocator));
        assert_int_equal(entry.n, 3);
        assert_string_equal(first, "first");
        assert_string_equal(third, "the third");
        for (size_t i = 0; i < entry.n; i++)
                assert_int_equal((uintptr_t)entry.buffers[i].base % 16, 0);
        close_cache(cache);
}

/* What one entry with a key of one letter and this text takes. */
static size_t cost_of(const char *text) {
        TRITONCACHE_Cache *cache = open_cache(1 << 20);
        size_t             cost;

        insert(cache, "x", text);
        cost = state_of(cache).used;
        close_cache(cache);
        return cost;
}

static void test_sizes_are_counted(void **unused) {
        size_t empty = cost_of("");
        char   text[1025];

        (void)unused;
        memset(text, 'x', sizeof(text) - 1);
        text[sizeof(text) - 1] = '\0';
        assert_int_equal(cost_of("123456789"), empty + 16); /* at multiples of 16 */
        assert_int_equal(cost_of("0123456789abcdef"), empty + 16);
        assert_int_equal(cost_of(text), empty + 1024);
        assert_true(empty < 320);
}

static void test_exactly_one_fits(void **unused) {
        size_t             cost = cost_of("text");
        TRITONCACHE_Cache *cache = open_cache(cost);
        char               why[128];

        (void)unused;
        insert(cache, "a", "text");
        assert_int_equal(state_of(cache).used, cost);
        insert(cache, "b", "next");
        assert_found(cache, "a", NULL);
        assert_found(cache, "b", "next");
        assert_int_equal(state_of(cache).used, cost);
        assert_int_equal(state_of(cache).n_evicted, 1);
        /* What never fits leaves the others alone. */
        snprintf(why, sizeof(why), "the entry takes %zu bytes, the cache has a size of %zu bytes",
                 cost + 16, cost);
        assert_refused(cache, "c", "0123456789abcdefg", why);
        assert_found(cache, "b", "next");
        close_cache(cache);

        cache = open_cache(cost - 1);
        snprintf(why, sizeof(why), "the entry takes %zu bytes, the cache has a size of %zu bytes",
                 cost, cost - 1);
        assert_refused(cache, "a", "text", why);
        assert_int_equal(state_of(cache).used, 0);
        close_cache(cache);
}

/* Letters insert, capitals look up, on a cache for four. */
static void test_order_of_eviction(void **unused) {
        static const struct {
                const char *steps, *left;
        } rows[] = {
                { "abcd", "abcd" },        { "abcde", "bcde" },    { "abcdefgh", "efgh" },
                { "abcdAe", "acde" },      { "abcdABe", "abde" },  { "abcdABCDe", "bcde" },
                { "abcdDCBAe", "abce" },   { "abcdAAAe", "acde" }, { "abcdAef", "adef" },
                { "abcdAeBfb", "aefb" },   { "abcdDDDe", "bcde" }, { "abcdDDADe", "acde" },
                { "abcdDDBBAAe", "abde" },
        };
        size_t cost = cost_of("text");

        (void)unused;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                TRITONCACHE_Cache *cache = open_cache(4 * cost);
                char               key[2] = "";

                for (const char *at = rows[i].steps; *at != '\0'; at++) {
                        key[0] = *at | 0x20;
                        if (*at >= 'a')
                                insert(cache, key, "text");
                        else
                                free(host_find(cache, key));
                }
                for (key[0] = 'a'; key[0] <= 'h'; key[0]++) {
                        char *found = host_find(cache, key);

                        if ((found != NULL) != (strchr(rows[i].left, key[0]) != NULL))
                                fail_msg("%s: %s", rows[i].steps, key);
                        free(found);
                }
                assert_int_equal(state_of(cache).used, 4 * cost);
                close_cache(cache);
        }
}

/* Hundreds of keys are in all shards: the order holds over all of them. */
static void test_order_over_all_shards(void **unused) {
        TRITONCACHE_Cache *cache = open_cache(100 * cost_of("text"));
        char               key[2] = "";

        (void)unused;
        for (int i = 0; i < 250; i++) {
                key[0] = (char)(i + 1);
                insert(cache, key, "text");
        }
        for (int i = 0; i < 250; i++) {
                key[0] = (char)(i + 1);
                assert_found(cache, key, i < 150 ? NULL : "text");
        }
        close_cache(cache);
}

static void test_one_large_for_several_small(void **unused) {
        TRITONCACHE_Cache *cache = open_cache(4 * cost_of("text"));
        char               text[353];

        (void)unused;
        memset(text, 'x', 352);
        text[352] = '\0';
        for (char key[2] = "a"; *key <= 'd'; ++*key)
                insert(cache, key, "text");
        insert(cache, "e", text);
        assert_true(state_of(cache).used <= state_of(cache).size);
        assert_found(cache, "a", NULL);
        assert_found(cache, "d", "text");
        assert_found(cache, "e", text);
        close_cache(cache);
}

static void test_failed_copies_leave_nothing(void **unused) {
        TRITONCACHE_Cache     *cache = open_cache(1 << 20);
        TRITONCACHE_CacheEntry entry = { .buffers = { { .bytes = 4 } }, .n = 1 };
        TRITONCACHE_Allocator  allocator = { .bytes = { (char *)"text" }, .fail = "no copy" };
        char                  *text;

        (void)unused;
        text = host_take(TRITONCACHE_CacheInsert(cache, "k", &entry, &allocator),
                         TRITONSERVER_ERROR_INTERNAL);
        assert_string_equal(text, "no copy");
        free(text);
        assert_int_equal(state_of(cache).used, 0);
        assert_int_equal(state_of(cache).n_entries, 0);
        assert_found(cache, "k", NULL);

        entry.buffers[0].memory_type = TRITONSERVER_MEMORY_GPU;
        text = host_take(TRITONCACHE_CacheInsert(cache, "k", &entry, &allocator),
                         TRITONSERVER_ERROR_UNSUPPORTED);
        assert_string_equal(text, "only buffers in CPU memory can be kept");
        free(text);

        insert(cache, "k", "text");
        entry = (TRITONCACHE_CacheEntry){ .n = 0 };
        allocator.is_lookup = 1;
        text = host_take(TRITONCACHE_CacheLookup(cache, "k", &entry, &allocator),
                         TRITONSERVER_ERROR_INTERNAL);
        assert_string_equal(text, "no copy");
        free(text);
        assert_found(cache, "k", "text");
        close_cache(cache);
}

SUITE(local_cache) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_settings),
                cmocka_unit_test(test_insert_and_find),
                cmocka_unit_test(test_many_keys),
                cmocka_unit_test(test_several_buffers),
                cmocka_unit_test(test_sizes_are_counted),
                cmocka_unit_test(test_exactly_one_fits),
                cmocka_unit_test(test_order_of_eviction),
                cmocka_unit_test(test_order_over_all_shards),
                cmocka_unit_test(test_one_large_for_several_small),
                cmocka_unit_test(test_failed_copies_leave_nothing),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
