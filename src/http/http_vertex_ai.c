/* SPDX-License-Identifier: BSD-3-Clause */
/* The front of Vertex AI: two routes, whose paths the platform sets. */
#include "base/log.h"
#include "call/service.h"
#include "http/http_cloud.h"
#include "http/http_handlers.h"
#include "http/http_infer.h"
#include "http/http_server.h"

/* Their paths are in the front. Every prediction is a POST, whatever endpoint it is redirected to. */
static const struct http_route own_rows[] = {
        { "$AIP_PREDICT_ROUTE", HTTP_METHOD_POST, ENDPOINT_INFERENCE, NULL, http_infer_post },
        { "$AIP_HEALTH_ROUTE", HTTP_METHOD_GET, ENDPOINT_HEALTH, NULL, http_health_ready },
};
static const struct http_route *const predict = &own_rows[0];
static const struct http_route *const health = &own_rows[1];

/* Clients of a prediction read the server and infer. They do not change it: they load no models, map no
 * memory, and set neither log nor traces. */
static bool is_offered(const struct http_route *row) {
        switch (row->group) {
        case ENDPOINT_HEALTH:
        case ENDPOINT_METADATA:
        case ENDPOINT_INFERENCE:
        case ENDPOINT_MODEL_CONFIG:
        case ENDPOINT_STATISTICS:
        case ENDPOINT_METRICS: return true;
        case ENDPOINT_MODEL_REPOSITORY: return row->handler == http_repository_index;
        case ENDPOINT_NONE:
        case ENDPOINT_SHARED_MEMORY:
        case ENDPOINT_TRACE:
        case ENDPOINT_LOGGING:
        case ENDPOINT_PUBLIC:
        case N_ENDPOINT_GROUPS: break;
        }
        return false;
}

/* Returns the row of a path without its leading slash; NULL when there is none. The POST of the prediction
 * stands for the GET of endpoints that have no POST. */
static const struct http_route *find_row(const struct http_route_table *table, struct str path,
                                         struct http_captures *ret) {
        const struct http_route *found = NULL;
        struct http_captures     captures;

        for (size_t i = 0; i < table->n_rows; i++) {
                const struct http_route *row = &table->rows[i];

                if ((found != NULL && row->method != HTTP_METHOD_POST) ||
                    !http_route_matches(row->pattern + 1, path, &captures))
                        continue;
                *ret = captures;
                found = row;
                if (row->method == HTTP_METHOD_POST)
                        break;
        }
        return found;
}

static enum http_route_verdict find_endpoint(const struct http_route_table *table, struct str path,
                                             const struct http_route **ret_row,
                                             struct http_captures     *ret_captures) {
        const struct http_route_table metrics = http_metrics_routes();
        const struct http_route      *row = find_row(table, path, ret_captures);

        if (row == NULL)
                row = find_row(&metrics, path, ret_captures);
        if (row == NULL || !is_offered(row))
                return HTTP_ROUTE_NOT_FOUND;
        *ret_row = row;
        return HTTP_ROUTE_OK;
}

static enum http_route_verdict find_prediction(const struct http_route_table *table,
                                               struct http_call              *call,
                                               const struct http_route      **ret_row,
                                               struct http_captures          *ret_captures) {
        const char *model = call->service->cloud->default_model;
        struct str  to = http_call_header(call, "X-Vertex-Ai-Triton-Redirect");

        *ret_row = predict;
        *ret_captures = (struct http_captures){ .model = str_of(model) };
        if (call->method != HTTP_METHOD_POST)
                return HTTP_ROUTE_WRONG_METHOD;
        if (to.ptr == NULL)
                return HTTP_ROUTE_OK;
        if (log_is_verbose(1))
                log_verbose(1, "Redirecting Vertex AI request: /%.*s", STR_ARG(to));
        return find_endpoint(table, to, ret_row, ret_captures);
}

static enum http_route_verdict find_vertex_ai_route(const struct http_route_table *table,
                                                    struct http_call              *call,
                                                    const struct http_route      **ret_row,
                                                    struct http_captures          *ret_captures) {
        const struct cloud_front *front = call->service->cloud;

        if (str_equal(call->path, front->predict_route))
                return find_prediction(table, call, ret_row, ret_captures);
        if (!str_equal(call->path, front->health_route))
                return HTTP_ROUTE_NOT_FOUND;
        *ret_row = health;
        *ret_captures = (struct http_captures){ 0 };
        return call->method == HTTP_METHOD_GET ? HTTP_ROUTE_OK : HTTP_ROUTE_WRONG_METHOD;
}

struct http_route_table http_vertex_ai_routes(void) {
        struct http_route_table table = http_api_routes_without_dashboard();

        table.fallback = http_cloud_refuse_path;
        table.fallback_group = ENDPOINT_PUBLIC;
        table.find = find_vertex_ai_route;
        table.openai = NULL; /* the platform's own routes may begin like its paths */
        return table;
}

struct http_route_table http_vertex_ai_own_routes(void) {
        return (struct http_route_table){ .rows = own_rows,
                                          .n_rows = ARRAY_LEN(own_rows),
                                          .fallback = http_cloud_refuse_path,
                                          .fallback_group = ENDPOINT_PUBLIC };
}
