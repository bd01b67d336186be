/* SPDX-License-Identifier: BSD-3-Clause */
/* The tables of all protocols: nothing that can be asked may be without a group. */
#include "suite.h"

#include "base/compiler.h"
#include "cli/endpoint_list.h"
#include "grpc/grpc_server.h"
#include "grpc/rpc_table.h"
#include "http/http_cloud.h"
#include "http/http_server.h"

#include <protobuf-c/protobuf-c.h>
#include <string.h>

static void check_http(struct http_route_table table) {
        assert_true(table.n_rows > 0);
        assert_null(http_route_check(&table));
        for (size_t i = 0; i < table.n_rows; i++) {
                if (!endpoint_group_is_routable(table.rows[i].group))
                        fail_msg("%s has no group", table.rows[i].pattern);
                assert_non_null(table.rows[i].handler);
        }
        assert_true(table.fallback == NULL || endpoint_group_is_routable(table.fallback_group));
}

static void test_http(void **state) {
        (void)state;
        check_http(http_api_routes());
        check_http(http_metrics_routes());
        check_http(http_sagemaker_routes());
        check_http(http_vertex_ai_routes());
        check_http(http_vertex_ai_own_routes());
}

static bool has_field(const ProtobufCMessageDescriptor *d, const char *name) {
        return d != NULL && protobuf_c_message_descriptor_get_field_by_name(d, name) != NULL;
}

/* What names a model in its message is checked against it: the table must say where it is. */
static void test_grpc(void **state) {
        const struct grpc_method_table table = rpc_table();

        (void)state;
        assert_true(table.n_rows > 0);
        for (size_t i = 0; i < table.n_rows; i++) {
                const struct grpc_method         *m = &table.rows[i];
                const ProtobufCMessageDescriptor *d = rpc_table_request(i);
                bool                              names_model = has_field(d, "model_name") ||
                                   (has_field(d, "name") && m->group != ENDPOINT_SHARED_MEMORY);

                if (!endpoint_group_is_valid(m->group))
                        fail_msg("%s has no group", m->path);
                if (d != NULL && rpc_table_names_model(i) != names_model)
                        fail_msg("%s: model_at is %s", m->path, names_model ? "missing" : "wrong");
                assert_true(d || strstr(m->path, "Infer") || strstr(m->path, "/Watch") ||
                            strstr(m->path, "Reflection"));
        }
}

static void test_rows_without_group(void **state) {
        static const struct http_route  row = { .pattern = "/open" };
        static const struct grpc_method method = { .path = "/open.Open/Open" };
        struct grpc_server_options      grpc;
        struct http_server_options      http;
        struct grpc_server             *grpc_server;
        struct http_server             *http_server;
        struct error                   *err;

        (void)state;
        http_server_options_init(&http);
        http.net.address = "127.0.0.1";
        http.routes = (struct http_route_table){ .rows = &row, .n_rows = 1 };
        err = http_server_new(&http, &http_server);
        assert_string_equal(err->message, "the route '/open' is in no group of endpoints");
        error_free(err);
        http.routes = http_metrics_routes();
        http.routes.fallback_group = ENDPOINT_NONE;
        err = http_server_new(&http, &http_server);
        assert_string_equal(err->message, "the route of unknown paths is in no group of endpoints");
        error_free(err);
        grpc_server_options_init(&grpc);
        grpc.net.address = "127.0.0.1";
        grpc.methods = (struct grpc_method_table){ .rows = &method, .n_rows = 1 };
        err = grpc_server_new(&grpc, &grpc_server);
        assert_string_equal(err->message,
                            "the method '/open.Open/Open' is in no group of endpoints");
        error_free(err);
}

static size_t count(const char *text, const char *part) {
        size_t n = 0;

        for (; (text = strstr(text, part)) != NULL; text += strlen(part))
                n++;
        return n;
}

static void test_list(void **state) {
        const struct http_route_table api = http_api_routes(), metrics = http_metrics_routes();
        const struct http_route_table sagemaker = http_sagemaker_routes();
        size_t                        n_vertex_ai = http_vertex_ai_own_routes().n_rows + 1;
        size_t n = api.n_rows + metrics.n_rows + 1 + rpc_table().n_rows + sagemaker.n_rows + 1 +
                   n_vertex_ai;
        AUTO_STRBUF text = { 0 }, json = { 0 };

        (void)state;
        n += api.openai->n_rows;
        n += http_openai_routes().n_rows + api.openai->n_rows; /* on a port of their own */
        strbuf_init(&text, 0);
        strbuf_init(&json, 0);
        endpoint_list_print(&text);
        assert_int_equal(count(strbuf_cstr(&text), "\n"), n);
        assert_int_equal(count(strbuf_cstr(&text), " none "), 0);
        endpoint_list_print_json(&json);
        assert_int_equal(count(strbuf_cstr(&json), "\"protocol\":"), n);
        assert_int_equal(count(strbuf_cstr(&json), "\"group\":\"none\""), 0);
        assert_int_equal(count(strbuf_cstr(&json),
                               "{\"protocol\":\"metrics\",\"method\":\"GET\",\"path\":\"/metrics\","
                               "\"group\":\"metrics\",\"models\":\"all\"}"),
                         1);
        assert_int_equal(count(strbuf_cstr(&json),
                               "{\"protocol\":\"http\",\"method\":\"GET\",\"path\":"
                               "\"/v1/models/{m}\",\"group\":\"metadata\",\"models\":\"one\"}"),
                         1);
}

SUITE(endpoint_list) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_http),
                cmocka_unit_test(test_grpc),
                cmocka_unit_test(test_rows_without_group),
                cmocka_unit_test(test_list),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
