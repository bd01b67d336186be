/* SPDX-License-Identifier: BSD-3-Clause */
/* The requests for the pages of a listing; the store is fake_exchange.c. */
#include "suite.h"

#include "fake_exchange.h"
#include "store/store.h"
#include "store/store_hub.h"
#include "store/store_listing.h"

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

SUITE(store_pages) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_each_page_has_a_limit_of_time),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
