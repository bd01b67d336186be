/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/endpoint_list.h"

#include "auth/endpoint.h"
#include "base/mem.h"
#include "codec/json_writer.h"
#include "grpc/rpc_table.h"
#include "http/http_cloud.h"
#include "http/http_server.h"

struct endpoint_entry {
        const char         *protocol, *method, *path;
        enum endpoint_group group;
        bool                names_model;
};

typedef void (*entry_fn)(void *out, const struct endpoint_entry *e);

static const char *method_name(enum http_method method) {
        switch (method) {
        case HTTP_METHOD_GET: return "GET";
        case HTTP_METHOD_POST: return "POST";
        case HTTP_METHOD_HEAD: return "HEAD";
        case HTTP_METHOD_DELETE: return "DELETE";
        case HTTP_METHOD_OTHER: break;
        }
        return "*";
}

/* Both captures of a model look the same to a reader; that of an encoded name is "{e}" in the table. */
static char *shown_pattern(const char *pattern) {
        char *shown = mem_strdup(pattern);
        char *capture = strstr(shown, "{e}");

        if (capture != NULL)
                capture[1] = 'm';
        return shown;
}

static void visit_http(const char *protocol, const struct http_route_table *table, entry_fn entry,
                       void *out) {
        for (size_t i = 0; i < table->n_rows; i++) {
                const struct http_route *row = &table->rows[i];
                AUTO_CHARS               path = shown_pattern(row->pattern);

                entry(out, &(struct endpoint_entry){
                                   .protocol = protocol,
                                   .method = method_name(row->method),
                                   .path = path,
                                   .group = row->group,
                                   .names_model = strstr(path, "{m}") != NULL,
                           });
        }
        if (table->openai != NULL)
                visit_http(protocol, table->openai, entry, out);
        if (table->fallback != NULL)
                entry(out, &(struct endpoint_entry){
                                   .protocol = protocol,
                                   .method = "*",
                                   .path = "/{*}",
                                   .group = table->fallback_group,
                           });
}

static void visit_grpc(entry_fn entry, void *out) {
        const struct grpc_method_table table = rpc_table();

        for (size_t i = 0; i < table.n_rows; i++)
                entry(out, &(struct endpoint_entry){
                                   .protocol = "grpc",
                                   .method = "POST",
                                   .path = table.rows[i].path,
                                   .group = table.rows[i].group,
                                   .names_model = rpc_table_names_model(i),
                           });
}

static void visit_all(entry_fn entry, void *out) {
        const struct http_route_table api = http_api_routes(), metrics = http_metrics_routes();
        const struct http_route_table openai = http_openai_routes();
        const struct http_route_table sagemaker = http_sagemaker_routes();
        const struct http_route_table vertex_ai = http_vertex_ai_own_routes();

        visit_http("http", &api, entry, out);
        visit_http("metrics", &metrics, entry, out);
        visit_http("openai", &openai, entry, out);
        visit_http("sagemaker", &sagemaker, entry, out);
        visit_http("vertex-ai", &vertex_ai, entry, out);
        visit_grpc(entry, out);
}

static const char *models_of(const struct endpoint_entry *e) {
        if (e->names_model)
                return "one";
        return endpoint_group_spans_models(e->group) ? "all" : "none";
}

static void put_line(void *out, const struct endpoint_entry *e) {
        strbuf_printf(out, "%-9s %-6s %-62s %-16s %s\n", e->protocol, e->method, e->path,
                      endpoint_group_name(e->group), models_of(e));
}

void endpoint_list_print(struct strbuf *out) {
        visit_all(put_line, out);
}

static void put_object(void *out, const struct endpoint_entry *e) {
        struct json_writer *w = out;

        json_begin_object(w);
        json_member_string(w, "protocol", e->protocol);
        json_member_string(w, "method", e->method);
        json_member_string(w, "path", e->path);
        json_member_string(w, "group", endpoint_group_name(e->group));
        json_member_string(w, "models", models_of(e));
        json_end_object(w);
}

void endpoint_list_print_json(struct strbuf *out) {
        struct json_writer w = { .out = out };

        json_begin_array(&w);
        visit_all(put_object, &w);
        json_end_array(&w);
        strbuf_putc(out, '\n');
}
