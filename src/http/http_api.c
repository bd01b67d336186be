/* SPDX-License-Identifier: BSD-3-Clause */
/* The routes of the API in one table. */
#include "http/http_generate.h"
#include "http/http_handlers.h"
#include "http/http_infer.h"
#include "http/http_openai.h"
#include "http/http_server.h"

#define MODEL "/v2/models/{m}"
#define VERSION "/v2/models/{m}/versions/{v}"
#define SYSTEM "/v2/systemsharedmemory"
#define CUDA "/v2/cudasharedmemory"

#define GET HTTP_METHOD_GET
#define POST HTTP_METHOD_POST

/* A route of a model and the same of one of its versions. */
#define OF_MODEL(path, ...)                                                                        \
        { MODEL path, __VA_ARGS__ }, {                                                             \
                VERSION path, __VA_ARGS__                                                          \
        }
/* A route of all shared memory regions and the same of one. */
#define OF_REGION(regions, path, method, handler)                                                  \
        { regions path, method, ENDPOINT_SHARED_MEMORY, HTTP_JSON, handler }, {                    \
                regions "/region/{r}" path, method, ENDPOINT_SHARED_MEMORY, HTTP_JSON, handler     \
        }

/* Literal paths come before the patterns that match them as well. */
static const struct http_route rows[] = {
        OF_MODEL("/infer", POST, ENDPOINT_INFERENCE, NULL, http_infer_post),

        { "/v2/models/stats", GET, ENDPOINT_STATISTICS, HTTP_JSON, http_metadata_statistics },
        { "/v2/gpus", GET, ENDPOINT_STATISTICS, HTTP_JSON, http_metadata_gpus },
        { "/v2/logging", GET, ENDPOINT_LOGGING, HTTP_JSON, http_logging_get },
        { "/v2/logging", POST, ENDPOINT_LOGGING, HTTP_JSON, http_logging_post },

        OF_MODEL("/ready", GET, ENDPOINT_HEALTH, NULL, http_health_model),
        OF_MODEL("", GET, ENDPOINT_METADATA, HTTP_JSON, http_metadata_model),
        OF_MODEL("/config", GET, ENDPOINT_MODEL_CONFIG, HTTP_JSON, http_metadata_config),
        OF_MODEL("/config/source", GET, ENDPOINT_MODEL_CONFIG, HTTP_JSON,
                 http_metadata_config_source),
        OF_MODEL("/chain", GET, ENDPOINT_METADATA, HTTP_JSON, http_metadata_chain),
        OF_MODEL("/stats", GET, ENDPOINT_STATISTICS, HTTP_JSON, http_metadata_statistics),
        OF_MODEL("/sequences", GET, ENDPOINT_STATISTICS, HTTP_JSON, http_metadata_sequences),
        OF_MODEL("/stacks", GET, ENDPOINT_STATISTICS, HTTP_JSON, http_metadata_stacks),
        OF_MODEL("/generate", POST, ENDPOINT_INFERENCE, HTTP_JSON, http_generate_post),
        OF_MODEL("/generate_stream", POST, ENDPOINT_INFERENCE, HTTP_JSON,
                 http_generate_stream_post),
        { MODEL "/trace/setting", GET, ENDPOINT_TRACE, HTTP_JSON, http_trace_get },
        { MODEL "/trace/setting", POST, ENDPOINT_TRACE, HTTP_JSON, http_trace_post },

        { "/v2", GET, ENDPOINT_METADATA, HTTP_JSON, http_metadata_server },
        { "/v2/health/live", GET, ENDPOINT_HEALTH, NULL, http_health_live },
        { "/v2/health/ready", GET, ENDPOINT_HEALTH, NULL, http_health_ready },
        { "/v2/drain", POST, ENDPOINT_MODEL_REPOSITORY, HTTP_JSON, http_drain_post },

        OF_REGION(SYSTEM, "/status", GET, http_shm_system_status),
        OF_REGION(SYSTEM, "/register", POST, http_shm_system_register),
        OF_REGION(SYSTEM, "/unregister", POST, http_shm_system_unregister),
        OF_REGION(CUDA, "/status", GET, http_shm_cuda_status),
        OF_REGION(CUDA, "/register", POST, http_shm_cuda_register),
        OF_REGION(CUDA, "/unregister", POST, http_shm_cuda_unregister),

        { "/v2/repository/index", POST, ENDPOINT_MODEL_REPOSITORY, HTTP_JSON,
          http_repository_index },
        { "/v2/repository/{*}/index", POST, ENDPOINT_MODEL_REPOSITORY, HTTP_JSON,
          http_repository_index },
        { "/v2/repository/models/{m}/load", POST, ENDPOINT_MODEL_REPOSITORY, HTTP_JSON,
          http_repository_load },
        { "/v2/repository/models/{m}/unload", POST, ENDPOINT_MODEL_REPOSITORY, HTTP_JSON,
          http_repository_unload },
        { "/v2/repository/{*}/models/{m}/load", POST, ENDPOINT_MODEL_REPOSITORY, HTTP_JSON,
          http_repository_named },
        { "/v2/repository/{*}/models/{m}/unload", POST, ENDPOINT_MODEL_REPOSITORY, HTTP_JSON,
          http_repository_named },

        { "/v2/trace/setting", GET, ENDPOINT_TRACE, HTTP_JSON, http_trace_get },
        { "/v2/trace/setting", POST, ENDPOINT_TRACE, HTTP_JSON, http_trace_post },

        /* The last N_DASHBOARD_ROWS, which a server without a dashboard does not have. */
        { "/dashboard", GET, ENDPOINT_PUBLIC, NULL, http_dashboard_page },
        { "/dashboard/{*}", GET, ENDPOINT_PUBLIC, NULL, http_dashboard_page },
        { "/v2/dashboard", GET, ENDPOINT_METADATA, HTTP_JSON, http_dashboard_get },
};

#define N_DASHBOARD_ROWS 3

/* The paths of the OpenAI API below a prefix. */
#define OPENAI_ROWS(prefix)                                                                        \
        { prefix "/chat/completions", POST, ENDPOINT_INFERENCE, HTTP_JSON, http_openai_chat },     \
                { prefix "/completions", POST, ENDPOINT_INFERENCE, HTTP_JSON,                      \
                  http_openai_completions },                                                       \
                { prefix "/embeddings", POST, ENDPOINT_INFERENCE, HTTP_JSON,                       \
                  http_openai_embeddings },                                                        \
                { prefix "/models", GET, ENDPOINT_METADATA, HTTP_JSON, http_openai_models },       \
                { prefix "/models/{e}", GET, ENDPOINT_METADATA, HTTP_JSON, http_openai_model },    \
                { prefix "/models/{e}/load", POST, ENDPOINT_MODEL_REPOSITORY, HTTP_JSON,           \
                  http_openai_load },                                                              \
        {                                                                                          \
                prefix "/models/{e}/unload", POST, ENDPOINT_MODEL_REPOSITORY, HTTP_JSON,           \
                        http_openai_unload                                                         \
        }

static const struct http_route openai_rows[] = { OPENAI_ROWS("/v1"), OPENAI_ROWS("/openai/v1") };

static const struct http_route_table openai_table = { .rows = openai_rows,
                                                      .n_rows = ARRAY_LEN(openai_rows) };

static struct error *check_body(const struct http_call *call, uint64_t bytes,
                                struct http_body_limit *limit) {
        return call->route->handler == http_infer_post ? http_infer_check_body(call, bytes, limit)
                                                       : NULL;
}

struct http_route_table http_api_routes(void) {
        return (struct http_route_table){ .rows = rows,
                                          .n_rows = ARRAY_LEN(rows),
                                          .check_body = check_body,
                                          .openai = &openai_table };
}

struct http_route_table http_api_routes_without_dashboard(void) {
        struct http_route_table table = http_api_routes();

        table.n_rows -= N_DASHBOARD_ROWS;
        return table;
}

/* "/health/ready" is the path of the reference server's program for this API. */
static const struct http_route openai_port_rows[] = {
        { "/v2/health/live", GET, ENDPOINT_HEALTH, NULL, http_health_live },
        { "/v2/health/ready", GET, ENDPOINT_HEALTH, NULL, http_health_ready },
        { "/health/ready", GET, ENDPOINT_HEALTH, NULL, http_health_ready },
};

struct http_route_table http_openai_routes(void) {
        return (struct http_route_table){ .rows = openai_port_rows,
                                          .n_rows = ARRAY_LEN(openai_port_rows),
                                          .openai = &openai_table };
}
