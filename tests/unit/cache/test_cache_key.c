/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/mem.h"
#include "base/strbuf.h"
#include "cache/cache_key.h"
#include "infer/fake_model.h"
#include "infer/request_prepare.h"

static const char config[] =
        "backend: 'b' "
        "input { name: 'A' data_type: TYPE_UINT8 dims: [ -1 ] } "
        "input { name: 'B' data_type: TYPE_UINT8 dims: [ -1 ] optional: true } "
        "input { name: 'C' data_type: TYPE_UINT8 dims: [ -1, -1 ] "
        "optional: true } "
        "output { name: 'X' data_type: TYPE_UINT8 dims: [ -1 ] } "
        "output { name: 'Y' data_type: TYPE_UINT8 dims: [ -1 ] }";

static struct keyed_hash_key secret;

static int make_secret(void **state) {
        (void)state;
        return keyed_hash_key_make(&secret) != NULL;
}

/* "A=ab B=c": inputs of bytes; "C:2=abcd" has two rows; "|" between pieces; ">X" asks for an output. */
static struct cache_keys keys_of(struct fake_model *f, const char *text) {
        struct request   *req = fake_request(f);
        struct cache_keys keys;
        char             *copy = mem_strdup(text), *left = copy;

        for (char *word; (word = strsep(&left, " ")) != NULL;) {
                char   *bytes = strchr(word, '='), *piece;
                char    name[2] = { word[0], '\0' };
                int64_t n = 0, dims[2];

                if (*word == '>') {
                        assert_ok(request_add_output(req, word + 1), text);
                        continue;
                }
                for (const char *at = bytes + 1; *at != '\0'; at++)
                        n += *at != '|';
                dims[0] = word[1] == ':' ? word[2] - '0' : n;
                dims[1] = word[1] == ':' ? n / dims[0] : 0;
                assert_ok(request_add_input(req, name, DATA_TYPE_UINT8, dims, *name == 'C' ? 2 : 1),
                          text);
                bytes++;
                while ((piece = strsep(&bytes, "|")) != NULL)
                        /* Where the bytes are does not matter, what they are does. */
                        append_bytes(req, name, text + (piece - copy), strlen(piece));
        }
        assert_ok(request_prepare(req), text);
        assert_true(cache_keys_make(req, &secret, &keys));
        request_free(req);
        free(copy);
        return keys;
}

static void test_same_or_not(void **state) {
        static const struct {
                const char *a, *b;
                bool        is_same;
        } rows[] = {
                { "A=ab", "A=ab", true },
                { "A=ab", "A=ac", false },
                { "A=ab", "A=abc", false },
                { "A=ab B=c", "A=a B=bc", false },
                { "A=ab B=c", "B=c A=ab", true },
                { "A=ab B=c", "A=c B=ab", false },
                { "A=ab", "A=ab B=", false },
                { "A=abcdefghi", "A=abc|defgh|i", true },
                { "A=abcdefghijklmnopq", "A=a|bcdefghijklmnop|q", true },
                { "A=a C:2=abcd", "A=a C:4=abcd", false },
                { "A=a C:2=abcd", "C:2=abcd A=a", true },
                { "A=a C:1=ab B=ab", "B=ab C:1=ab A=a", true },
                { "A=a B=ab", "A=a C:1=ab", false },
                { "A=a >X", "A=a", true },
                { "A=a >X", "A=a >Y", true },
        };
        struct fake_model *f = fake_model_new(config);

        (void)state;
        assert_ok(siphash_key_make(&f->model.cache_key), "key");
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct cache_keys a = keys_of(f, rows[i].a), b = keys_of(f, rows[i].b);

                if ((strcmp(a.all.text, b.all.text) == 0) != rows[i].is_same)
                        fail_msg("%s and %s", rows[i].a, rows[i].b);
                assert_int_equal(strlen(a.all.text), 32);
        }
        fake_model_free(f);
}

static struct cache_keys key_of_input(struct fake_model *f, const char *name, enum data_type type,
                                      const int64_t *dims, uint64_t n_dims, const void *bytes,
                                      size_t n_bytes) {
        struct request   *req = fake_request(f);
        struct cache_keys keys;

        assert_ok(request_add_input(req, name, type, dims, n_dims), name);
        append_bytes(req, name, bytes, n_bytes);
        assert_ok(request_prepare(req), name);
        assert_true(cache_keys_make(req, &secret, &keys));
        request_free(req);
        return keys;
}

/* The same bytes in every shape of up to five dimensions. */
static void test_shapes(void **state) {
        static const char    shaped[] = "backend: 'b' input { name: 'A' data_type: TYPE_UINT8 "
                                        "dims: [ -1, -1, -1, -1, -1 ] } "
                                        "output { name: 'X' data_type: TYPE_UINT8 dims: [ 1 ] }";
        static const int64_t dims[][5] = { { 2, 2, 2, 2, 1 },  { 2, 2, 2, 1, 2 }, { 2, 2, 1, 2, 2 },
                                           { 2, 1, 2, 2, 2 },  { 1, 2, 2, 2, 2 }, { 4, 4, 1, 1, 1 },
                                           { 16, 1, 1, 1, 1 }, { 1, 1, 1, 1, 16 } };
        struct cache_keys    keys[ARRAY_LEN(dims)];
        struct fake_model   *f = fake_model_new(shaped);

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(dims); i++) {
                keys[i] = key_of_input(f, "A", DATA_TYPE_UINT8, dims[i], 5, "0123456789abcdef", 16);
                for (size_t k = 0; k < i; k++)
                        assert_string_not_equal(keys[i].all.text, keys[k].all.text);
        }
        fake_model_free(f);
}

/* The lengths of texts are among their bytes, and how many bytes there are is in the key. */
static void test_texts(void **state) {
        static const char    texts[] = "backend: 'b' "
                                       "input { name: 'A' data_type: TYPE_STRING dims: [ -1 ] } "
                                       "output { name: 'X' data_type: TYPE_UINT8 dims: [ 1 ] }";
        static const int64_t two[] = { 2 };
        static const struct {
                const char *bytes;
                size_t      n;
        } rows[] = {
                { "\1\0\0\0a\1\0\0\0b", 10 },   { "\1\0\0\0a\2\0\0\0b\0", 11 },
                { "\2\0\0\0a\0\1\0\0\0b", 11 }, { "\1\0\0\0a\0\0\0\0", 9 },
                { "\0\0\0\0\1\0\0\0a", 9 },     { "\0\0\0\0\0\0\0\0", 8 },
                { "\1\0\0\0\0\0\0\0\0", 9 },
        };
        struct fake_model *f = fake_model_new(texts);
        struct cache_keys  keys[ARRAY_LEN(rows)];

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                keys[i] = key_of_input(f, "A", DATA_TYPE_BYTES, two, 1, rows[i].bytes, rows[i].n);
                for (size_t k = 0; k < i; k++)
                        assert_string_not_equal(keys[i].all.text, keys[k].all.text);
        }
        fake_model_free(f);
}

/* More outputs than bits of a word: which ones are asked for is seen of all. */
static void test_many_outputs(void **state) {
        enum { N = 130 };
        struct strbuf      text;
        struct fake_model *f;
        struct cache_keys  keys[N];

        (void)state;
        strbuf_init(&text, 0);
        strbuf_puts(&text, "backend: 'b' input { name: 'A' data_type: TYPE_UINT8 dims: [ -1 ] } ");
        for (int i = 0; i < N; i++)
                strbuf_printf(&text, "output { name: 'O%d' data_type: TYPE_UINT8 dims: [ 1 ] } ",
                              i);
        f = fake_model_new(strbuf_cstr(&text));
        strbuf_done(&text);
        for (int i = 0; i < N; i++) {
                char *asked = mem_printf("A=a >O%d", i);

                keys[i] = keys_of(f, asked);
                free(asked);
                assert_true(keys[i].is_some);
                assert_string_equal(keys[i].all.text, keys[0].all.text);
                for (int k = 0; k < i; k++)
                        assert_string_not_equal(keys[i].some.text, keys[k].some.text);
        }
        fake_model_free(f);
}

static void test_some_outputs(void **state) {
        struct fake_model *f = fake_model_new(config);
        struct cache_keys  all = keys_of(f, "A=a"), both = keys_of(f, "A=a >Y >X");
        struct cache_keys  x = keys_of(f, "A=a >X"), y = keys_of(f, "A=a >Y");

        (void)state;
        assert_false(all.is_some);
        assert_false(both.is_some);
        assert_true(x.is_some && y.is_some);
        assert_string_not_equal(x.some.text, y.some.text);
        assert_string_not_equal(x.some.text, x.all.text);
        fake_model_free(f);
}

static void test_each_load_has_its_own(void **state) {
        struct fake_model *f = fake_model_new(config);
        struct cache_keys  before, after;

        (void)state;
        assert_ok(siphash_key_make(&f->model.cache_key), "key");
        before = keys_of(f, "A=a");
        assert_ok(siphash_key_make(&f->model.cache_key), "key");
        after = keys_of(f, "A=a");
        assert_string_not_equal(before.all.text, after.all.text);
        fake_model_free(f);
}

static void test_what_has_no_key(void **state) {
        struct fake_model *f = fake_model_new(config);

        (void)state;
        for (int i = 0; i < 3; i++) {
                struct buffer_attributes attributes = cpu_bytes(1);
                struct request          *req = fake_request(f);
                struct cache_keys        keys;
                int64_t                  dims[] = { 1 };

                assert_ok(request_add_input(req, "A", DATA_TYPE_UINT8, dims, 1), "A");
                attributes.memory_type = i == 1 ? MEMORY_GPU : MEMORY_CPU_PINNED;
                assert_ok(request_append_bytes(req, "A", "x", &attributes, NULL), "A");
                if (i == 2)
                        assert_ok(request_append_bytes(req, "A", "y", &attributes, "policy"), "A");
                assert_ok(request_prepare(req), "prepare");
                assert_int_equal(cache_keys_make(req, &secret, &keys), i == 0);
                request_free(req);
        }
        fake_model_free(f);
}

SUITE(cache_key) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_same_or_not),
                cmocka_unit_test(test_shapes),
                cmocka_unit_test(test_texts),
                cmocka_unit_test(test_many_outputs),
                cmocka_unit_test(test_some_outputs),
                cmocka_unit_test(test_each_load_has_its_own),
                cmocka_unit_test(test_what_has_no_key),
        };

        return cmocka_run_group_tests(tests, make_secret, NULL);
}
