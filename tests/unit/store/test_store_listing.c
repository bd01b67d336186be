/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "base/strbuf.h"
#include "store/store_listing.h"

static struct store_listing *make_listing(const char *const *names, size_t n) {
        struct store_list list;

        store_list_init(&list, "");
        for (size_t i = 0; i < n; i++)
                assert_null(store_list_add(&list, &(struct store_object){ .key = str_of(names[i]),
                                                                          .etag = STR_LIT("e"),
                                                                          .size = 1 }));
        return store_listing_new(&list);
}

/* The names of the directory's entries, one after the other. */
static void assert_found(const struct store_listing *l, const char *directory,
                         const char *expected) {
        AUTO_STRBUF               text = { 0 };
        size_t                    n;
        const struct store_entry *entries = store_listing_find(l, directory, &n);

        strbuf_init(&text, 0);
        for (size_t i = 0; i < n; i++)
                strbuf_printf(&text, "%s ", entries[i].name);
        assert_string_equal(strbuf_cstr(&text), expected);
}

/* Names that stand between those of a directory, and beside them, in the order of bytes. */
static void test_directories(void **state) {
        static const char *const names[] = { "m/2/b", "m/1/a", "m",   "m-/x", "m.x/1",
                                             "m0/1",  "n/",    "a/1", "z",    "m/10" };
        struct store_listing    *l = make_listing(names, ARRAY_LEN(names));

        (void)state;
        assert_found(l, "m", "m/1/a m/10 m/2/b ");
        assert_found(l, "m/1", "m/1/a ");
        assert_found(l, "a", "a/1 ");
        assert_found(l, "m0", "m0/1 ");
        assert_found(l, "m.x", "m.x/1 ");
        assert_found(l, "m-", "m-/x ");
        assert_found(l, "n", "");
        assert_found(l, "z", "");
        assert_found(l, "", "");
        assert_found(l, "zz", "");
        store_listing_unref(l);
}

static void test_tops(void **state) {
        static const struct {
                const char *name, *top;
        } rows[] = { { "m/1/a", "m" }, { "file", "" }, { "folder/", "folder" }, { "a/b/", "a" } };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct store_listing *l = make_listing(&rows[i].name, 1);
                struct str            top = store_entry_top(&l->list.entries[0]);

                assert_int_equal(top.len, strlen(rows[i].top));
                assert_true(str_is(top, rows[i].top));
                store_listing_unref(l);
        }
}

static void test_nothing(void **state) {
        struct store_listing *l = make_listing(NULL, 0);

        (void)state;
        assert_found(l, "m", "");
        assert_ptr_equal(store_listing_ref(l), l);
        store_listing_unref(l);
        store_listing_unref(l);
        store_listing_unref(NULL);
}

SUITE(store_listing) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_directories),
                cmocka_unit_test(test_tops),
                cmocka_unit_test(test_nothing),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
