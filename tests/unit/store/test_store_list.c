/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "shortage.h"
#include "store/store_list.h"

static void add(struct store_list *l, struct str key) {
        struct store_object o = { .key = key, .size = key.len, .etag = STR_LIT("\"e\"") };

        assert_null(store_list_add(l, &o));
}

static void test_names(void **state) {
        static const unsigned char md5[STORE_LIST_MD5_BYTES] = { 1, 2, 3 };
        static const unsigned char sha256[STORE_LIST_SHA256_BYTES] = { 4, 5, 6 };
        struct store_object        o = {
                       .key = STR_LIT("m/a"), .size = 7, .etag = STR_LIT("x"), .md5 = md5, .sha256 = sha256
        };
        struct store_list l;

        (void)state;
        store_list_init(&l, "m");
        add(&l, STR_LIT("m/"));
        add(&l, STR_LIT("m/b/1/model.onnx"));
        add(&l, STR_LIT("m/b/"));
        assert_null(store_list_add(&l, &o));
        store_list_sort(&l);
        assert_int_equal(l.n_entries, 3);
        assert_string_equal(l.entries[0].name, "a");
        assert_string_equal(l.entries[0].etag, "x");
        assert_int_equal(l.entries[0].size, 7);
        assert_true(l.entries[0].has_md5);
        assert_memory_equal(l.entries[0].md5, md5, sizeof(md5));
        assert_false(l.entries[0].is_directory);
        assert_true(l.entries[0].has_sha256);
        assert_memory_equal(l.entries[0].sha256, sha256, sizeof(sha256));
        assert_string_equal(l.entries[1].name, "b");
        assert_true(l.entries[1].is_directory);
        assert_string_equal(l.entries[2].name, "b/1/model.onnx");
        assert_false(l.entries[2].has_md5);
        assert_false(l.entries[2].has_sha256);
        assert_int_equal(l.n_refused, 0);
        store_list_done(&l);
}

/* Each is left out, and the next object is there. */
static void test_refused(void **state) {
        static const struct {
                struct str  key;
                const char *text;
        } rows[] = {
                { { "../x", 4 }, "the name of the object '../x' has a component '.' or '..'" },
                { { "a/../x", 6 }, "the name of the object 'a/../x' has a component '.' or '..'" },
                { { "a/./x", 5 }, "the name of the object 'a/./x' has a component '.' or '..'" },
                { { "a/..", 4 }, "the name of the object 'a/..' has a component '.' or '..'" },
                { { "../", 3 }, "the name of the object '../' has a component '.' or '..'" },
                { { "a//x", 4 }, "the name of the object 'a//x' has an empty component" },
                { { "a//", 3 }, "the name of the object 'a//' has an empty component" },
                { { "/x", 2 }, "the name of the object '/x' is an absolute path" },
                { { "/", 1 }, "the name of the object '/' is an absolute path" },
                { { "a\nb", 3 }, "the name of the object 'a?b' has a control character" },
                { { "a\0b", 3 }, "the name of the object 'a' has a control character" },
                { { "a\x7f", 2 }, "the name of the object 'a?' has a control character" },
                { { "a\xff", 2 }, "the name of the object 'a?' is not UTF-8" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct store_list l;

                store_list_init(&l, "");
                add(&l, rows[i].key);
                add(&l, STR_LIT("a..b"));
                assert_int_equal(l.n_entries, 1);
                assert_string_equal(l.entries[0].name, "a..b");
                assert_int_equal(l.n_refused, 1);
                assert_int_equal(l.refusal->code, ERR_INVALID_ARG);
                assert_string_equal(l.refusal->message, rows[i].text);
                store_list_done(&l);
        }
}

static void test_other_prefix(void **state) {
        struct store_list l;

        (void)state;
        store_list_init(&l, "m");
        add(&l, STR_LIT("mm/a"));
        add(&l, STR_LIT("m//a"));
        assert_int_equal(l.n_entries, 0);
        assert_int_equal(l.n_refused, 2);
        assert_string_equal(
                l.refusal->message,
                "the name of the object 'mm/a' does not begin with the prefix of the listing");
        store_list_done(&l);
}

static void test_same_names(void **state) {
        struct store_list l;

        (void)state;
        store_list_init(&l, "");
        add(&l, STR_LIT("b"));
        add(&l, STR_LIT("a"));
        add(&l, STR_LIT("b"));
        store_list_sort(&l);
        assert_int_equal(l.n_entries, 2);
        assert_string_equal(l.entries[0].name, "a");
        assert_string_equal(l.entries[1].name, "b");
        store_list_done(&l);
}

static void test_folders(void **state) {
        struct store_object o = { .key = STR_LIT("a"), .etag = STR_LIT("") };
        struct store_list   l;

        (void)state;
        store_list_init(&l, "");
        assert_null(store_list_add(&l, &o)); /* a folder: something is below it */
        o.key = STR_LIT("e");
        assert_null(store_list_add(&l, &o)); /* a file without bytes */
        o.key = STR_LIT("c");
        o.size = 1;
        assert_null(store_list_add(&l, &o)); /* a file with bytes stays */
        add(&l, STR_LIT("a-b"));
        add(&l, STR_LIT("a/x"));
        add(&l, STR_LIT("c/x"));
        store_list_sort(&l);
        assert_int_equal(l.n_entries, 5);
        assert_string_equal(l.entries[0].name, "a-b");
        assert_string_equal(l.entries[1].name, "a/x");
        assert_string_equal(l.entries[2].name, "c");
        assert_string_equal(l.entries[3].name, "c/x");
        assert_string_equal(l.entries[4].name, "e");
        store_list_done(&l);
}

static void test_limits(void **state) {
        struct store_object o = { .key = STR_LIT("0123456789012345"), .etag = STR_LIT("") };
        struct store_list   l;
        struct error       *err;

        (void)state;
        store_list_init(&l, "");
        l.max_entries = 100;
        for (unsigned i = 0; i < 100; i++)
                assert_null(store_list_add(&l, &o));
        err = store_list_add(&l, &o);
        assert_int_equal(err->code, ERR_UNAVAILABLE);
        assert_string_equal(err->message, "more than 100 objects");
        error_free(err);
        assert_int_equal(l.n_entries, 100);
        store_list_done(&l);

        store_list_init(&l, "");
        arena_set_max(&l.arena, 8192);
        while ((err = store_list_add(&l, &o)) == NULL)
                assert_true(l.n_entries < 8192);
        assert_string_equal(err->message, "more than 8192 bytes of names");
        error_free(err);
        store_list_done(&l);
}

/* An arena helps itself with a smaller block, so not every failure shows. */
static void test_no_memory(void **state) {
        struct store_object o = { .key = STR_LIT("a"), .etag = STR_LIT("b") };
        unsigned            n = 0, n_failures = 0;
        bool                was_hit;

        (void)state;
        do {
                struct store_list l;
                struct error     *err;

                store_list_init(&l, "");
                mem_fail_after(++n);
                err = store_list_add(&l, &o);
                n_failures += err != NULL;
                assert_int_equal(l.n_entries, err != NULL ? 0 : 1);
                was_hit = expect_or_shortage(err, ERR_UNAVAILABLE, NULL);
                store_list_done(&l);
        } while (was_hit);
        assert_int_equal(n_failures, 2);
}

/* An ETag is sent back in If-Match: the end of a line in it would begin another header. */
static void test_etags(void **state) {
        static const struct str bad[] = { { "a\r\nX: y", 7 }, { "\n", 1 }, { "\x7f", 1 } };
        struct store_object     o = { .key = STR_LIT("a/x"), .size = 1 };
        struct store_list       l;

        (void)state;
        store_list_init(&l, "");
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                o.etag = bad[i];
                assert_null(store_list_add(&l, &o));
        }
        assert_int_equal(l.n_entries, 0);
        assert_int_equal(l.n_refused, 3);
        assert_string_equal(l.refusal->message,
                            "the ETag of the object 'a/x' has a control character");
        add(&l, STR_LIT("b"));
        assert_int_equal(l.n_entries, 1);
        store_list_done(&l);
}

SUITE(store_list) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_names),        cmocka_unit_test(test_refused),
                cmocka_unit_test(test_other_prefix), cmocka_unit_test(test_same_names),
                cmocka_unit_test(test_folders),      cmocka_unit_test(test_limits),
                cmocka_unit_test(test_no_memory),    cmocka_unit_test(test_etags),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
