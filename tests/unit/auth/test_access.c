/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "auth/access.h"
#include "auth/api_keys.h"
#include "backend/temp_tree.h"
#include "base/mem.h"
#include "base/strbuf.h"

/* Of "one", "two" and "three". */
#define ONE "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"
#define TWO "3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3"
#define THREE "8b5b9db0c13db24256c829aa364aa90c6d2eba318b9232a4ab9313b954d3555f"

#define FILE_TEXT                                                                                  \
        "one " ONE " inference,statistics,health m*\n"                                             \
        "two " TWO " *\n"
#define ANONYMOUS "anonymous - health,inference open\n"

struct field {
        const char *name, *value;
};

#define MAX_FIELDS 3

struct fixture {
        struct temp_tree       tree;
        struct endpoint_policy policy;
        struct arena           arena;
        struct strbuf          refused;
};

static void on_refused(void *owner, const char *key, const char *reason) {
        struct fixture *f = owner;

        strbuf_printf(&f->refused, "%s:%s", key, reason);
}

static void begin(struct fixture *f, const char *file) {
        AUTO_CHARS path = NULL;

        f->tree = temp_tree_make();
        path = temp_tree_path(&f->tree, "keys");
        endpoint_policy_init(&f->policy);
        arena_init(&f->arena, NULL, 0, 0);
        strbuf_init(&f->refused, 0);
        f->policy.on_key_refused = on_refused;
        f->policy.owner = f;
        if (file != NULL) {
                temp_tree_write(&f->tree, "keys", file);
                assert_null(api_keys_open(path, &f->policy.keys));
        }
}

static void end(struct fixture *f) {
        api_keys_free(f->policy.keys);
        endpoint_policy_done(&f->policy);
        arena_done(&f->arena);
        strbuf_done(&f->refused);
        temp_tree_remove(&f->tree);
}

static void field_at(const void *call, size_t at, struct str *ret_name, struct str *ret_value) {
        const struct field *fields = call;

        *ret_name = str_of(fields[at].name);
        *ret_value = str_of(fields[at].value);
}

/* `model` NULL: not known yet. */
static enum access_verdict ask(struct fixture *f, enum endpoint_group group,
                               const struct field *fields, const char *model, struct access *a,
                               const char **ret_text) {
        struct access_question q = { .group = group,
                                     .knows_model = model != NULL,
                                     .model = str_of(model),
                                     .noun = "API",
                                     .field = field_at,
                                     .call = fields,
                                     .arena = &f->arena };

        while (q.n_fields < MAX_FIELDS && fields[q.n_fields].name != NULL)
                q.n_fields++;
        *a = (struct access){ 0 };
        *ret_text = "";
        strbuf_clear(&f->refused);
        return access_check(&f->policy, &q, a, ret_text);
}

struct row {
        enum endpoint_group group;
        const char         *model;
        struct field        fields[MAX_FIELDS];
        enum access_verdict verdict;
        const char         *text, *counted, *key;
};

/* clang-format off */
static const struct row rows[] = {
        { ENDPOINT_INFERENCE, "m1", { { "Authorization", "Bearer one" } },
          ACCESS_GRANTED, "", "", "one" },
        { ENDPOINT_INFERENCE, "m1", { { "authorization", "bEaReR   one " } },
          ACCESS_GRANTED, "", "", "one" },
        { ENDPOINT_INFERENCE, "m1", { { "X-API-KEY", "one" } }, ACCESS_GRANTED, "", "", "one" },
        { ENDPOINT_INFERENCE, "m1", { { "other", "x" }, { "x-api-key", "one" } },
          ACCESS_GRANTED, "", "", "one" },
        { ENDPOINT_METRICS, "", { { "x-api-key", "two" } }, ACCESS_GRANTED, "", "", "two" },
        /* the same key twice, and different ones */
        { ENDPOINT_HEALTH, "", { { "x-api-key", "one" }, { "authorization", "Bearer one" } },
          ACCESS_GRANTED, "", "", "one" },
        { ENDPOINT_HEALTH, "", { { "x-api-key", "one" }, { "authorization", "Bearer two" } },
          ACCESS_NO_KEY, "the request presents several API keys", ":unknown", NULL },
        { ENDPOINT_HEALTH, "", { { "authorization", "Bearer one" },
                                 { "authorization", "Bearer x" } },
          ACCESS_NO_KEY, "the request presents several API keys", ":unknown", NULL },
        { ENDPOINT_HEALTH, "", { { "authorization", "Basic b25l" }, { "x-api-key", "one" } },
          ACCESS_GRANTED, "", "", "one" },
        /* the files of the dashboard, which a client without a key reads first */
        { ENDPOINT_PUBLIC, "", { { NULL, NULL } }, ACCESS_GRANTED, "", "", NULL },
        { ENDPOINT_PUBLIC, "", { { "x-api-key", "unknown" } }, ACCESS_GRANTED, "", "", NULL },
        /* none, and unknown ones */
        { ENDPOINT_HEALTH, "", { { NULL, NULL } },
          ACCESS_NO_KEY, "an API key that grants 'health' is required", ":missing", NULL },
        { ENDPOINT_HEALTH, "", { { "authorization", "Basic one" } },
          ACCESS_NO_KEY, "an API key that grants 'health' is required", ":missing", NULL },
        { ENDPOINT_HEALTH, "", { { "authorization", "one" } },
          ACCESS_NO_KEY, "an API key that grants 'health' is required", ":missing", NULL },
        { ENDPOINT_HEALTH, "", { { "x-api-key", "" } },
          ACCESS_NO_KEY, "the API key is unknown", ":unknown", NULL },
        { ENDPOINT_HEALTH, "", { { "authorization", "Bearer" } },
          ACCESS_NO_KEY, "the API key is unknown", ":unknown", NULL },
        { ENDPOINT_HEALTH, "", { { "x-api-key", "One" } },
          ACCESS_NO_KEY, "the API key is unknown", ":unknown", NULL },
        { ENDPOINT_HEALTH, "", { { "x-api-key", ONE } },
          ACCESS_NO_KEY, "the API key is unknown", ":unknown", NULL },
        { ENDPOINT_HEALTH, "", { { "x-api-key", "\xff\x01\x80" } },
          ACCESS_NO_KEY, "the API key is unknown", ":unknown", NULL },
        /* known ones that do not do */
        { ENDPOINT_TRACE, "", { { "x-api-key", "one" } },
          ACCESS_NOT_ALLOWED, "the API key does not grant 'trace'", "one:group", "one" },
        { ENDPOINT_INFERENCE, "n", { { "x-api-key", "one" } },
          ACCESS_NOT_ALLOWED, "the API key does not grant model 'n'", "one:model", "one" },
        { ENDPOINT_STATISTICS, "", { { "x-api-key", "one" } }, ACCESS_NOT_ALLOWED,
          "the API key does not grant all models, and this is about all of them", "one:model",
          "one" },
        { ENDPOINT_STATISTICS, "m", { { "x-api-key", "one" } }, ACCESS_GRANTED, "", "", "one" },
        { ENDPOINT_STATISTICS, NULL, { { "x-api-key", "one" } }, ACCESS_GRANTED, "", "", "one" },
        { ENDPOINT_STATISTICS, "", { { "x-api-key", "two" } }, ACCESS_GRANTED, "", "", "two" },
        /* a row that forgot its group */
        { ENDPOINT_NONE, "", { { "x-api-key", "two" } },
          ACCESS_NOT_ALLOWED, "the endpoint is in no group", "", NULL },
};
/* clang-format on */

static void check_row(struct fixture *f, const struct row *row) {
        struct access a;
        const char   *text;

        assert_int_equal(ask(f, row->group, row->fields, row->model, &a, &text), row->verdict);
        assert_string_equal(text, row->text);
        assert_string_equal(strbuf_cstr(&f->refused), row->counted);
        if (row->key != NULL)
                assert_true(str_is(access_key_name(&a), row->key));
        else
                assert_null(access_key_name(&a).ptr);
        access_done(&a);
        access_done(&a);
}

static void test_rows(void **state) {
        struct fixture f;

        (void)state;
        begin(&f, FILE_TEXT);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                check_row(&f, &rows[i]);
        end(&f);
}

/* clang-format off */
static const struct row anonymous_rows[] = {
        { ENDPOINT_HEALTH, "", { { NULL, NULL } }, ACCESS_GRANTED, "", "", "anonymous" },
        { ENDPOINT_INFERENCE, "open", { { NULL, NULL } }, ACCESS_GRANTED, "", "", "anonymous" },
        { ENDPOINT_HEALTH, "", { { "authorization", "Basic x" } }, ACCESS_GRANTED, "", "",
          "anonymous" },
        /* more needs a key */
        { ENDPOINT_INFERENCE, "m", { { NULL, NULL } }, ACCESS_NO_KEY,
          "an API key that grants 'inference' is required", ":missing", "anonymous" },
        { ENDPOINT_TRACE, "", { { NULL, NULL } }, ACCESS_NO_KEY,
          "an API key that grants 'trace' is required", ":missing", "anonymous" },
        /* and a wrong one is worse than none */
        { ENDPOINT_HEALTH, "", { { "x-api-key", "x" } }, ACCESS_NO_KEY, "the API key is unknown",
          ":unknown", NULL },
        { ENDPOINT_INFERENCE, "open", { { "x-api-key", "one" } }, ACCESS_NOT_ALLOWED,
          "the API key does not grant model 'open'", "one:model", "one" },
};
/* clang-format on */

static void test_anonymous(void **state) {
        struct fixture f;

        (void)state;
        begin(&f, FILE_TEXT ANONYMOUS);
        for (size_t i = 0; i < ARRAY_LEN(anonymous_rows); i++)
                check_row(&f, &anonymous_rows[i]);
        end(&f);
}

/* Both are asked for; without a file, the rule alone. */
static void test_rules(void **state) {
        const struct field none[MAX_FIELDS] = { { NULL, NULL } };
        const struct field header[MAX_FIELDS] = { { "X-KEY", "v" } };
        const struct field both[MAX_FIELDS] = { { "x-key", "v" }, { "x-api-key", "two" } };
        const struct field key[MAX_FIELDS] = { { "x-key", "w" }, { "x-api-key", "two" } };
        struct fixture     f;
        struct access      a;
        const char        *text;

        (void)state;
        begin(&f, NULL);
        assert_null(endpoint_policy_add(&f.policy, "trace:x-Key=v", "api", ""));
        assert_int_equal(ask(&f, ENDPOINT_TRACE, none, "", &a, &text), ACCESS_NO_HEADER);
        assert_string_equal(text, "This API is restricted, expecting header 'x-Key'");
        assert_int_equal(ask(&f, ENDPOINT_TRACE, key, "", &a, &text), ACCESS_NO_HEADER);
        assert_int_equal(ask(&f, ENDPOINT_TRACE, header, "", &a, &text), ACCESS_GRANTED);
        assert_int_equal(ask(&f, ENDPOINT_HEALTH, none, "", &a, &text), ACCESS_GRANTED);
        assert_null(a.keys);
        end(&f);

        begin(&f, FILE_TEXT);
        assert_null(endpoint_policy_add(&f.policy, "trace:x-Key=v", "api", ""));
        assert_int_equal(ask(&f, ENDPOINT_TRACE, header, "", &a, &text), ACCESS_NO_KEY);
        access_done(&a);
        assert_int_equal(ask(&f, ENDPOINT_TRACE, key, "", &a, &text), ACCESS_NO_HEADER);
        access_done(&a);
        assert_int_equal(ask(&f, ENDPOINT_TRACE, both, "", &a, &text), ACCESS_GRANTED);
        access_done(&a);
        end(&f);
}

static void reload(struct fixture *f, const char *file) {
        temp_tree_write(&f->tree, "keys", file);
        assert_null(api_keys_reload(f->policy.keys));
}

/* A stream whose key changes, and goes, while it is open. */
static void test_reload(void **state) {
        const struct field fields[MAX_FIELDS] = { { "x-api-key", "one" } };
        struct fixture     f;
        struct access      a;
        const char        *text;

        (void)state;
        begin(&f, FILE_TEXT);
        assert_int_equal(ask(&f, ENDPOINT_INFERENCE, fields, NULL, &a, &text), ACCESS_GRANTED);
        assert_int_equal(access_check_model(&a, STR_LIT("m"), &f.arena, &text), ACCESS_GRANTED);
        assert_true(access_hides_field(&a, STR_LIT("Authorization")));
        assert_true(access_hides_field(&a, STR_LIT("X-API-Key")));
        assert_false(access_hides_field(&a, STR_LIT("x-api-keys")));
        reload(&f, "renamed " ONE " inference x*");
        assert_int_equal(access_check_model(&a, STR_LIT("m"), &f.arena, &text), ACCESS_NOT_ALLOWED);
        assert_string_equal(text, "the API key does not grant model 'm'");
        assert_string_equal(strbuf_cstr(&f.refused), "renamed:model");
        assert_int_equal(access_check_model(&a, STR_LIT("x"), &f.arena, &text), ACCESS_GRANTED);
        reload(&f, "renamed " ONE " health");
        strbuf_clear(&f.refused);
        assert_int_equal(access_check_model(&a, STR_LIT("x"), &f.arena, &text), ACCESS_NOT_ALLOWED);
        assert_string_equal(strbuf_cstr(&f.refused), "renamed:group");
        reload(&f, "one " TWO " *");
        strbuf_clear(&f.refused);
        for (unsigned i = 0; i < 2; i++)
                assert_int_equal(access_check_model(&a, STR_LIT("x"), &f.arena, &text),
                                 ACCESS_NO_KEY);
        assert_string_equal(text, "the API key is unknown");
        assert_string_equal(strbuf_cstr(&f.refused), ":unknown:unknown");
        assert_true(str_is(access_key_name(&a), "renamed"));
        reload(&f, "back " ONE " *");
        assert_int_equal(access_check_model(&a, STR_LIT("x"), &f.arena, &text), ACCESS_GRANTED);
        access_done(&a);
        end(&f);
}

static void test_anonymous_reload(void **state) {
        const struct field none[MAX_FIELDS] = { { NULL, NULL } };
        struct fixture     f;
        struct access      a;
        const char        *text;

        (void)state;
        begin(&f, FILE_TEXT ANONYMOUS);
        assert_int_equal(ask(&f, ENDPOINT_INFERENCE, none, NULL, &a, &text), ACCESS_GRANTED);
        reload(&f, "a - inference other");
        assert_int_equal(access_check_model(&a, STR_LIT("other"), &f.arena, &text), ACCESS_GRANTED);
        reload(&f, FILE_TEXT);
        assert_int_equal(access_check_model(&a, STR_LIT("other"), &f.arena, &text), ACCESS_NO_KEY);
        assert_string_equal(text, "an API key that grants 'inference' is required");
        access_done(&a);
        end(&f);
}

/* A request that was never checked, or not by keys. */
static void test_without_keys(void **state) {
        struct access a = { 0 };
        const char   *text;

        (void)state;
        assert_int_equal(access_check_model(&a, STR_LIT("m"), NULL, &text), ACCESS_GRANTED);
        assert_null(access_key_name(&a).ptr);
        assert_false(access_hides_field(&a, STR_LIT("authorization")));
        access_done(&a);
}

static void expect_group(struct fixture *f, const char *key, enum endpoint_group group,
                         bool is_granted) {
        struct field  fields[MAX_FIELDS] = { { "x-api-key", key } };
        const char   *text;
        struct access a;

        assert_int_equal(ask(f, ENDPOINT_HEALTH, fields, "", &a, &text), ACCESS_GRANTED);
        assert_int_equal(access_grants_group(&a, &f->policy, group), is_granted);
        access_done(&a);
        assert_int_equal(f->refused.len, 0);
}

/* What an answer may contain besides what was asked for. */
static void test_another_group(void **state) {
        struct fixture f;

        (void)state;
        begin(&f, FILE_TEXT "three " THREE " logging,health\n");
        expect_group(&f, "two", ENDPOINT_LOGGING, true);
        expect_group(&f, "three", ENDPOINT_LOGGING, true);
        expect_group(&f, "three", ENDPOINT_TRACE, false);
        expect_group(&f, "one", ENDPOINT_STATISTICS, false); /* of some models only */
        assert_null(endpoint_policy_add(&f.policy, "logging:x=y", "api", ""));
        expect_group(&f, "two", ENDPOINT_LOGGING, false);
        assert_true(access_grants_group(&(struct access){ 0 }, NULL, ENDPOINT_LOGGING));
        assert_false(access_grants_group(&(struct access){ 0 }, &f.policy, ENDPOINT_LOGGING));
        end(&f);
}

SUITE(access) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rows),         cmocka_unit_test(test_anonymous),
                cmocka_unit_test(test_rules),        cmocka_unit_test(test_another_group),
                cmocka_unit_test(test_reload),       cmocka_unit_test(test_anonymous_reload),
                cmocka_unit_test(test_without_keys),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
