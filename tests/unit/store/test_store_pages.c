/* SPDX-License-Identifier: BSD-3-Clause */
/* The requests for the pages of a listing; the store is fake_exchange.c. */
#include "suite.h"

#include "fake_exchange.h"
#include "store/store.h"
#include "store/store_hub.h"
#include "store/store_listing.h"

#include <stdlib.h>

#define INDEX "{\"files\": [{\"path\": \"m/config.pbtxt\", \"size\": 1}]}"

/* A server that sends a byte now and then is never silent, so silence does not end the request. */
static void test_each_page_has_a_limit_of_time(void **state) {
        struct store_hub     *hub = store_hub_new(&(struct store_hub_options){ .n_transfers = 1 });
        struct store_listing *l;
        struct store         *s;
        size_t                n;

        (void)state;
        fake_begin();
        fake_expect("GET https://s.example/models/index.json", 200, "", INDEX);
        assert_null(store_open(hub, "https://s.example/models", &s));
        assert_null(store_list_directory(s, "", &l));
        (void)store_listing_find(l, "m", &n);
        assert_int_equal(n, 1);
        assert_in_range(fake_request()->max_ms, 60000, 3600000);
        fake_end();
        store_listing_unref(l);
        store_unref(s);
        store_hub_free(hub);
}

#define GOOGLE                                                                                     \
        "GET http://s.example/storage/v1/b/bucket/o?maxResults=1000"                               \
        "&fields=items%28name%2Csize%2Cetag%2Cgeneration%2Cmd5Hash%29%2CnextPageToken"

/* The second page has the token that led to it. */
static void test_a_page_that_follows_itself(void **state) {
        struct store_hub     *hub = store_hub_new(&(struct store_hub_options){ .n_transfers = 1 });
        struct store_listing *l;
        struct store         *s;
        struct error         *err;

        (void)state;
        setenv("STORAGE_EMULATOR_HOST", "http://s.example", 1);
        fake_begin();
        fake_expect(GOOGLE, 200, "", "{\"nextPageToken\": \"t\"}");
        fake_expect(GOOGLE "&pageToken=t", 200, "", "{\"nextPageToken\": \"t\"}");
        assert_null(store_open(hub, "gs://bucket", &s));
        err = store_list_directory(s, "", &l);
        assert_non_null(err);
        assert_string_equal(err->message,
                            "gs://bucket: a page of the listing names itself as the next one");
        fake_end();
        unsetenv("STORAGE_EMULATOR_HOST");
        error_free(err);
        store_unref(s);
        store_hub_free(hub);
}

SUITE(store_pages) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_each_page_has_a_limit_of_time),
                cmocka_unit_test(test_a_page_that_follows_itself),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
