/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "auth/api_key_file.h"
#include "base/mem.h"
#include "base/strbuf.h"

/* Of "one", "two" and "". */
#define ALL_GROUPS                                                                                 \
        "; there are health, metadata, inference, shared-memory, model-config, model-repository, " \
        "statistics, trace, logging, metrics, and '*' for all"
#define ONE "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"
#define TWO "3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3"
#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define NAME_64 "abcdefghijklmnopqrstuvwxyz-ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789"

static const struct api_key *find(const struct api_key_file *f, const char *key) {
        unsigned char digest[DIGEST_SHA256_BYTES];

        assert_null(digest_of(DIGEST_SHA256, str_of(key), digest));
        return api_key_file_find(f, digest);
}

static void test_a_file(void **state) {
        static const char     text[] = "# who      what\n"
                                       "\n"
                                       "  team-a\t" ONE "   inference,health  llama-*,embedder\r\n"
                                       "operator " TWO " * # everything\n"
                                       "nobody.1 - health";
        struct api_key_file   f;
        const struct api_key *a, *operator;

        (void)state;
        assert_null(api_key_file_read(str_of(text), "keys", &f));
        assert_int_equal(f.n_keys, 2);
        a = find(&f, "one");
        assert_string_equal(a->name, "team-a");
        assert_int_equal(a->line, 3);
        assert_string_equal(a->models, "llama-*,embedder");
        for (enum endpoint_group g = ENDPOINT_NONE; g <= N_ENDPOINT_GROUPS; g++)
                assert_int_equal(api_key_grants_group(a, g),
                                 g == ENDPOINT_INFERENCE || g == ENDPOINT_HEALTH);
        operator= find(&f, "two");
        assert_string_equal(operator->name, "operator");
        assert_null(operator->models);
        for (enum endpoint_group g = ENDPOINT_NONE; g <= N_ENDPOINT_GROUPS; g++)
                assert_int_equal(api_key_grants_group(operator, g), endpoint_group_is_valid(g));
        assert_true(api_key_grants_model(operator, STR_LIT("")));
        assert_string_equal(f.anonymous.name, "nobody.1");
        assert_true(api_key_grants_group(&f.anonymous, ENDPOINT_HEALTH));
        assert_null(find(&f, "three"));
        assert_null(find(&f, ""));
        api_key_file_done(&f);
}

struct good_row {
        const char *text;
        size_t      n_keys;
        const char *anonymous;
};

static void test_good_files(void **state) {
        static const struct good_row rows[] = {
                { "a " ONE " health", 1, NULL },
                { "\n\n \t\r\n# \xff comment\na " ONE " health\n\n", 1, NULL },
                { "a 7692C3AD3540BB803C020B3AEE66CD8887123234EA0C6E7143C0ADD73FF431ED health", 1,
                  NULL },
                { "a " ONE " health,health *", 1, NULL },
                { "a " ONE " *,health a#b", 1, NULL },
                { "x - metrics", 0, "x" },
                { NAME_64 " " ONE " metrics", 1, NULL },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct api_key_file f;

                assert_null(api_key_file_read(str_of(rows[i].text), "keys", &f));
                assert_int_equal(f.n_keys, rows[i].n_keys);
                if (rows[i].anonymous != NULL)
                        assert_string_equal(f.anonymous.name, rows[i].anonymous);
                else
                        assert_null(f.anonymous.name);
                api_key_file_done(&f);
        }
}

struct bad_row {
        const char *text, *want;
};

static void test_bad_files(void **state) {
        static const struct bad_row rows[] = {
                { "", "keys:1:1: there is no key in the file" },
                { "# nothing\n\n", "keys:3:1: there is no key in the file" },
                { "a", "keys:1:2: the SHA-256 of the key is missing" },
                { "  a  # " ONE " health", "keys:1:6: the SHA-256 of the key is missing" },
                { "a " ONE, "keys:1:67: the groups of endpoints are missing; '*' is all of them" },
                { "a 1234 health",
                  "keys:1:3: the SHA-256 of a key has 64 hexadecimal digits, got 4 characters" },
                { "a g692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed health",
                  "keys:1:3: the SHA-256 of a key has 64 hexadecimal digits, got 64 characters, "
                  "not all of them digits" },
                { "a " EMPTY " health", "keys:1:3: this is the SHA-256 of an empty key" },
                { "a " ONE " health\nb " ONE " health", "keys:2:3: the digest is that of line 1" },
                { "a " ONE " health\n a " TWO " health",
                  "keys:2:2: the name 'a' is that of line 1" },
                { "a - health\n\na " TWO " health", "keys:3:1: the name 'a' is that of line 1" },
                { "a - health\nb - health",
                  "keys:2:3: line 1 says already what requests without a key may do" },
                { "a " ONE " health,inferense",
                  "keys:1:75: unknown group 'inferense'; did you mean 'inference'?" },
                { "a " ONE " everything", "keys:1:68: unknown group 'everything'" ALL_GROUPS },
                { "a " ONE " health,", "keys:1:75: unknown group ''" ALL_GROUPS },
                { "a " ONE " health m,,n", "keys:1:77: a pattern of model names is empty" },
                { "a " ONE " health m\x01n", "keys:1:76: a control character" },
                { "a " ONE " health m n", "keys:1:77: 'n' is one field too many" },
                { "a/b " ONE " health", "keys:1:1: the name of a key has 1 to 64 letters, digits, "
                                        "'.', '_' or '-', got 'a/b'" },
                { NAME_64 "x " ONE " health",
                  "keys:1:1: the name of a key has 1 to 64 letters, digits, '.', '_' or '-', got "
                  "'" NAME_64 "'" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct api_key_file f;
                AUTO_ERROR          err = api_key_file_read(str_of(rows[i].text), "keys", &f);

                assert_non_null(err);
                assert_int_equal(err->code, ERR_INVALID_ARG);
                assert_string_equal(err->message, rows[i].want);
        }
}

static void test_too_many_keys(void **state) {
        AUTO_STRBUF         text = { 0 };
        AUTO_ERROR          err = NULL;
        struct api_key_file f;

        (void)state;
        strbuf_init(&text, 0);
        for (unsigned i = 0; i < API_KEY_FILE_MAX_KEYS; i++)
                strbuf_printf(&text, "k%u %064x health\n", i, i);
        assert_null(api_key_file_read(strbuf_str(&text), "keys", &f));
        assert_int_equal(f.n_keys, API_KEY_FILE_MAX_KEYS);
        assert_int_equal(f.keys[77].digest[31], 77);
        assert_ptr_equal(api_key_file_find(&f, f.keys[77].digest), &f.keys[77]);
        assert_ptr_equal(api_key_file_find(&f, f.keys[4095].digest), &f.keys[4095]);
        api_key_file_done(&f);
        strbuf_puts(&text, "more " ONE " health");
        err = api_key_file_read(strbuf_str(&text), "keys", &f);
        assert_string_equal(err->message, "keys:4097:1: there are more than 4096 keys");
}

struct pattern_row {
        const char *models, *model;
        bool        want;
};

static void test_patterns(void **state) {
        static const struct pattern_row rows[] = {
                { "m", "m", true },           { "m", "mm", false },
                { "m", "M", false },          { "m*", "m", true },
                { "m*", "mno", true },        { "*m", "m", true },
                { "*m", "xxm", true },        { "*m", "xmx", false },
                { "a*b*c", "abc", true },     { "a*b*c", "a-b-b-c", true },
                { "a*b*c", "a-b-b-", false }, { "**", "x", true },
                { "a,b*", "bcd", true },      { "a,b*", "ab", false },
                { "a,b*", "a", true },        { "a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaa", false },
                { "m?", "mx", false },        { "[m]", "m", false },
                { "m", "", false },           { "*x*", "", false },
                { NULL, "", true },           { NULL, "anything", true },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct api_key key = { .models = (char *)rows[i].models };

                if (api_key_grants_model(&key, str_of(rows[i].model)) != rows[i].want)
                        fail_msg("%s of %s", rows[i].model, rows[i].models);
        }
}

SUITE(api_key_file) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_file),    cmocka_unit_test(test_good_files),
                cmocka_unit_test(test_bad_files), cmocka_unit_test(test_too_many_keys),
                cmocka_unit_test(test_patterns),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
