/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "http/http_route.h"

#include <stdlib.h>

/* Stands for a row in the rows below. */
static void handler(struct http_call *call) {
        (void)call;
}

#define G HTTP_METHOD_GET
#define P HTTP_METHOD_POST

static const struct http_route rows[] = {
        [0] = { "/v2/models/{m}/infer", P, ENDPOINT_INFERENCE, NULL, handler },
        [1] = { "/v2/models/{m}/versions/{v}/infer", P, ENDPOINT_INFERENCE, NULL, handler },
        [2] = { "/v2/models/stats", G, ENDPOINT_STATISTICS, HTTP_JSON, handler },
        [3] = { "/v2/logging", G, ENDPOINT_LOGGING, HTTP_JSON, handler },
        [4] = { "/v2/logging", P, ENDPOINT_LOGGING, HTTP_JSON, handler },
        [5] = { "/v2/models/{m}", G, ENDPOINT_METADATA, HTTP_JSON, handler },
        [6] = { "/v2/models/{m}/versions/{v}", G, ENDPOINT_METADATA, HTTP_JSON, handler },
        [7] = { "/v2", G, ENDPOINT_METADATA, HTTP_JSON, handler },
        [8] = { "/v2/systemsharedmemory/region/{r}/status", G, ENDPOINT_SHARED_MEMORY, HTTP_JSON,
                handler },
        [9] = { "/v2/repository/{*}/models/{m}/load", P, ENDPOINT_MODEL_REPOSITORY, HTTP_JSON,
                handler },
        [10] = { "/models/{m}", G, ENDPOINT_MODEL_REPOSITORY, HTTP_JSON, handler },
        [11] = { "/models/{m}", HTTP_METHOD_DELETE, ENDPOINT_MODEL_REPOSITORY, HTTP_JSON, handler },
};
static const struct http_route_table table = { .rows = rows, .n_rows = ARRAY_LEN(rows) };

struct row {
        enum http_method        method;
        const char             *path;
        enum http_route_verdict verdict;
        int                     row;
        const char             *model, *version, *region;
};

static const struct row cases[] = {
        { P, "/v2/models/simple/infer", HTTP_ROUTE_OK, 0, "simple", "", "" },
        { P, "/v2/models/a%5Fb/infer", HTTP_ROUTE_OK, 0, "a%5Fb", "", "" },
        { P, "/v2/models/simple/versions/12/infer", HTTP_ROUTE_OK, 1, "simple", "12", "" },
        { P, "/v2/models/versions/versions/0/infer", HTTP_ROUTE_OK, 1, "versions", "0", "" },
        { G, "/v2/models/simple/infer", HTTP_ROUTE_WRONG_METHOD, 0, "simple", "", "" },
        { HTTP_METHOD_HEAD, "/v2", HTTP_ROUTE_WRONG_METHOD, 7, "", "", "" },
        { G, "/v2/models/stats", HTTP_ROUTE_OK, 2, "", "", "" },
        { P, "/v2/models/stats", HTTP_ROUTE_WRONG_METHOD, 2, "", "", "" },
        { G, "/v2/models/other", HTTP_ROUTE_OK, 5, "other", "", "" },
        { G, "/v2/models/stats/versions/1", HTTP_ROUTE_OK, 6, "stats", "1", "" },
        { G, "/v2/logging", HTTP_ROUTE_OK, 3, "", "", "" },
        { P, "/v2/logging", HTTP_ROUTE_OK, 4, "", "", "" },
        { HTTP_METHOD_OTHER, "/v2/logging", HTTP_ROUTE_WRONG_METHOD, 3, "", "", "" },
        { G, "/v2", HTTP_ROUTE_OK, 7, "", "", "" },
        { G, "/v2/systemsharedmemory/region/r 1/status", HTTP_ROUTE_OK, 8, "", "", "r 1" },
        { P, "/v2/repository/repo/models/m/load", HTTP_ROUTE_OK, 9, "m", "", "" },
        { HTTP_METHOD_DELETE, "/models/m", HTTP_ROUTE_OK, 11, "m", "", "" },
        { P, "/models/m", HTTP_ROUTE_WRONG_METHOD, 10, "m", "", "" },
        { HTTP_METHOD_DELETE, "/v2", HTTP_ROUTE_WRONG_METHOD, 7, "", "", "" },
        { G, "/v2/", HTTP_ROUTE_NOT_FOUND, 0, NULL, NULL, NULL },
        { G, "/", HTTP_ROUTE_NOT_FOUND, 0, NULL, NULL, NULL },
        { G, "", HTTP_ROUTE_NOT_FOUND, 0, NULL, NULL, NULL },
        { G, "/v", HTTP_ROUTE_NOT_FOUND, 0, NULL, NULL, NULL },
        { G, "/v2x", HTTP_ROUTE_NOT_FOUND, 0, NULL, NULL, NULL },
        { G, "v2", HTTP_ROUTE_NOT_FOUND, 0, NULL, NULL, NULL },
        { G, "/V2", HTTP_ROUTE_NOT_FOUND, 0, NULL, NULL, NULL },
        { G, "/v2/models/", HTTP_ROUTE_NOT_FOUND, 0, NULL, NULL, NULL },
        { P, "/v2/models//infer", HTTP_ROUTE_NOT_FOUND, 0, NULL, NULL, NULL },
        { P, "/v2/models/a/b/infer", HTTP_ROUTE_NOT_FOUND, 0, NULL, NULL, NULL },
        { P, "/v2/models/a/infer/", HTTP_ROUTE_NOT_FOUND, 0, NULL, NULL, NULL },
        { P, "/v2/models/a/inferx", HTTP_ROUTE_NOT_FOUND, 0, NULL, NULL, NULL },
        { P, "/v2/models/a/infe", HTTP_ROUTE_NOT_FOUND, 0, NULL, NULL, NULL },
        { P, "/v2/models/a/versions//infer", HTTP_ROUTE_NOT_FOUND, 0, NULL, NULL, NULL },
        { P, "/v2/models/a/versions/abc/infer", HTTP_ROUTE_NOT_FOUND, 0, NULL, NULL, NULL },
        { P, "/v2/models/a/versions/-1/infer", HTTP_ROUTE_NOT_FOUND, 0, NULL, NULL, NULL },
        { P, "/v2/models/a/versions/1 /infer", HTTP_ROUTE_NOT_FOUND, 0, NULL, NULL, NULL },
        { G, "*", HTTP_ROUTE_NOT_FOUND, 0, NULL, NULL, NULL },
};

static void test_table(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                const struct row        *c = &cases[i];
                const struct http_route *found = NULL;
                struct http_captures     captures = { 0 };
                enum http_route_verdict  verdict;

                verdict = http_route_find(&table, c->method, str_of(c->path), &found, &captures);
                if (verdict != c->verdict)
                        fail_msg("%s: verdict %d, want %d", c->path, verdict, c->verdict);
                if (verdict == HTTP_ROUTE_NOT_FOUND || c->model == NULL)
                        continue;
                if (found != &rows[c->row])
                        fail_msg("%s: row %d, want %d", c->path, (int)(found - rows), c->row);
                assert_true(str_is(captures.model, c->model));
                assert_true(str_is(captures.version, c->version));
                assert_true(str_is(captures.region, c->region));
        }
}

/* A path that ends within a capture or a literal is not read beyond its end. */
static void test_prefixes(void **state) {
        static const char path[] = "/v2/models/simple/versions/12/infer";

        (void)state;
        for (size_t len = 0; len < sizeof(path); len++) {
                const struct http_route *found;
                struct http_captures     captures;
                char                    *exact = malloc(len + !len);
                enum http_route_verdict  verdict;

                memcpy(exact, path, len);
                verdict = http_route_find(&table, P, str_range(exact, len), &found, &captures);
                if (len == sizeof(path) - 1)
                        assert_int_equal(verdict, HTTP_ROUTE_OK);
                else
                        assert_int_not_equal(verdict, HTTP_ROUTE_OK);
                free(exact);
        }
}

static void test_allowed_methods(void **state) {
        static const struct http_route elsewhere = { "/elsewhere", P, ENDPOINT_HEALTH, NULL,
                                                     handler };

        (void)state;
        assert_true(str_is(http_route_allowed(&table, &rows[0]), "POST"));
        assert_true(str_is(http_route_allowed(&table, &rows[4]), "GET, POST"));
        assert_true(str_is(http_route_allowed(&table, &rows[7]), "GET"));
        assert_true(str_is(http_route_allowed(&table, &rows[11]), "GET, DELETE"));
        assert_true(str_is(http_route_allowed(&table, &elsewhere), "POST"));
}

/* ---- a second table, for the paths of the OpenAI API ---- */

static const struct http_route openai_rows[] = {
        { "/v1/models/{e}", G, ENDPOINT_METADATA, NULL, handler },
        { "/openai/v1/completions", P, ENDPOINT_INFERENCE, NULL, handler },
};
static const struct http_route_table openai_table = { .rows = openai_rows,
                                                      .n_rows = ARRAY_LEN(openai_rows) };

static void test_openai_paths(void **state) {
        static const struct {
                const char *path;
                bool        is_openai;
        } paths[] = {
                { "/v1", true },         { "/v1/", true },         { "/v1/models", true },
                { "/openai/v1", true },  { "/openai/v1/x", true }, { "/v10", false },
                { "/v2/v1/", false },    { "/v", false },          { "", false },
                { "/openai/v2", false }, { "/openai/v10", false }, { "*", false },
        };
        struct http_route_table both = table;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
                both.openai = &openai_table;
                assert_int_equal(http_route_is_openai(&both, str_of(paths[i].path)),
                                 paths[i].is_openai);
                both.openai = NULL;
                assert_false(http_route_is_openai(&both, str_of(paths[i].path)));
        }
}

static void test_openai_table(void **state) {
        struct http_route_table  both = table;
        const struct http_route *found;
        struct http_captures     captures;

        (void)state;
        both.openai = &openai_table;
        assert_null(http_route_check(&both));
        assert_int_equal(http_route_find(&both, G, STR_LIT("/v1/models/a%2Fb"), &found, &captures),
                         HTTP_ROUTE_OK);
        assert_ptr_equal(found, &openai_rows[0]);
        assert_true(captures.model_is_encoded && str_is(captures.model, "a%2Fb"));
        assert_int_equal(http_route_find(&both, P, STR_LIT("/v2/models/a/infer"), &found,
                                         &captures),
                         HTTP_ROUTE_OK);
        assert_false(captures.model_is_encoded);
        assert_int_equal(http_route_find(&both, G, STR_LIT("/openai/v1/completions"), &found,
                                         &captures),
                         HTTP_ROUTE_WRONG_METHOD);
        assert_true(str_is(http_route_allowed(&both, found), "POST"));
        both.openai = NULL;
        assert_int_equal(http_route_find(&both, G, STR_LIT("/v1/models/a"), &found, &captures),
                         HTTP_ROUTE_NOT_FOUND);
}

static void test_encoded_names(void **state) {
        struct arena  arena;
        struct str    name;
        struct error *err;

        (void)state;
        arena_init(&arena, NULL, 0, 0);
        assert_null(http_route_decode_model(STR_LIT("a%2Fb%20c"), &arena, &name));
        assert_true(str_is(name, "a/b c"));
        err = http_route_decode_model(STR_LIT("a%00"), &arena, &name);
        assert_int_equal(err->code, ERR_INVALID_ARG);
        error_free(err);
        err = http_route_decode_model(STR_LIT("a%2"), &arena, &name);
        assert_int_equal(err->code, ERR_INVALID_ARG);
        error_free(err);
        arena_done(&arena);
}

SUITE(http_route) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_table),           cmocka_unit_test(test_prefixes),
                cmocka_unit_test(test_allowed_methods), cmocka_unit_test(test_openai_paths),
                cmocka_unit_test(test_openai_table),    cmocka_unit_test(test_encoded_names),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
