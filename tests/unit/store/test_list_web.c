/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "base/mem.h"
#include "store/list_web.h"
#include "store/store_list.h"

#define SHA "00112233445566778899aabbccddeeff00112233445566778899aabbccddeefF"

static struct error *read_index(const char *text, const char *prefix, struct store_list *l) {
        store_list_init(l, "");
        return list_web_read(str_of(text), str_of(prefix), l);
}

static void test_entries(void **state) {
        static const char text[] = "{\"version\": {\"files\": []}, \"files\": ["
                                   "{\"path\": \"m/1/model.onnx\", \"size\": 18446744073709551615, "
                                   "\"etag\": \"\\\"e\\\"\", "
                                   "\"sha256\": \"" SHA "\"},"
                                   "{\"size\": 5, \"other\": [1, {}], \"path\": \"m/\\u00e9\"},"
                                   "{\"path\": \"m/2/\"}, {\"path\": \"n/x\", \"size\": 0}]}";
        struct store_list l;

        (void)state;
        assert_null(read_index(text, "", &l));
        assert_int_equal(l.n_entries, 4);
        assert_string_equal(l.entries[0].name, "m/1/model.onnx");
        assert_true(l.entries[0].size == UINT64_MAX);
        assert_string_equal(l.entries[0].etag, "\"e\"");
        assert_int_equal(l.entries[0].sha256[0], 0x00);
        assert_int_equal(l.entries[0].sha256[31], 0xff);
        assert_false(l.entries[0].has_md5);
        assert_string_equal(l.entries[1].name, "m/\xc3\xa9");
        assert_string_equal(l.entries[1].etag, "");
        assert_false(l.entries[1].has_sha256);
        assert_true(l.entries[2].is_directory);
        assert_false(l.entries[3].is_directory);
        store_list_done(&l);
        assert_null(read_index(text, "m/", &l));
        assert_int_equal(l.n_entries, 3);
        store_list_done(&l);
}

static void test_mistakes(void **state) {
        static const struct {
                const char *text, *message;
        } rows[] = {
                { "", "index.json is no JSON object" },
                { "[]", "index.json is no JSON object" },
                { "{}", "index.json has no 'files'" },
                { "{\"files\": {}}", "index.json: 'files' is no list" },
                { "{\"files\": [1]}", "index.json: file 0: it is no object" },
                { "{\"files\": [{}]}", "index.json: file 0: it has no 'path'" },
                { "{\"files\": [{\"path\": \"a\", \"size\": 1}, {\"path\": \"b\"}]}",
                  "index.json: file 'b': it has no 'size'" },
                { "{\"files\": [{\"path\": \"a\", \"size\": -1}]}",
                  "index.json: file 'a': 'size' is no number of bytes" },
                { "{\"files\": [{\"path\": \"a\", \"size\": \"1\"}]}",
                  "index.json: file 'a': 'size' is no number of bytes" },
                { "{\"files\": [{\"path\": 1}]}", "index.json: file 0: 'path' is no text" },
                { "{\"files\": [{\"path\": \"a\", \"etag\": 1}]}",
                  "index.json: file 'a': 'etag' is no text" },
                { "{\"files\": [{\"path\": \"a\", \"size\": 1, \"sha256\": \"00\"}]}",
                  "index.json: file 'a': 'sha256' is not 64 hexadecimal digits" },
        };
        struct store_list l;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                AUTO_ERROR err = read_index(rows[i].text, "", &l);

                if (err == NULL)
                        fail_msg("%s was accepted", rows[i].text);
                assert_string_equal(err->message, rows[i].message);
                assert_int_equal(err->code, ERR_INVALID_ARG);
                store_list_done(&l);
        }
}

/* Every cut of a right text is an error, and none leaves the list unusable. */
static void test_cut_texts(void **state) {
        static const char text[] = "{\"files\": [{\"path\": \"m/1/a\", \"size\": 1}]}";
        struct store_list l;

        (void)state;
        for (size_t n = 0; n < sizeof(text) - 1; n++) {
                AUTO_CHARS cut = mem_strndup(text, n);
                AUTO_ERROR err = read_index(cut, "", &l);

                assert_non_null(err);
                store_list_done(&l);
        }
        assert_null(read_index(text, "", &l));
        store_list_done(&l);
}

SUITE(list_web) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_entries),
                cmocka_unit_test(test_mistakes),
                cmocka_unit_test(test_cut_texts),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
