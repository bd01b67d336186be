/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/serve_cloud.h"

#include "base/mem.h"
#include "call/hosted_models.h"
#include "call/model_query.h"
#include "cli/cli_options.h"
#include "codec/json_find.h"
#include "core_api/core_error.h"
#include "http/http_server.h"
#include "triton/core/tritonserver.h"

#include <stdlib.h>
#include <string.h>

/* Returns the variable; "" when it is not set. */
static const char *variable(const char *name) {
        const char *value = getenv(name);

        return value != NULL ? value : "";
}

/* ---- defaults -------------------------------------------------------------------------------- */

struct error *serve_cloud_set_defaults(struct cli_options *o) {
        const char *port = variable("AIP_HTTP_PORT");

        if (strcmp(variable("AIP_MODE"), "PREDICTION") == 0) {
                o->allow_vertex_ai = true;
                o->allow_http = false;
                o->allow_grpc = false;
        }
        if (*port == '\0')
                return NULL;
        return error_wrap(cli_options_set(o, "vertex-ai-port", port), "AIP_HTTP_PORT");
}

struct error *serve_cloud_complete(struct cli_options *o) {
        const char *storage = variable("AIP_STORAGE_URI");
        const char *name = variable("MODEL_NAME");

        if (o->allow_vertex_ai && o->model_repository.n_items == 0 && *storage != '\0')
                TRY(cli_options_set(o, "model-repository", storage));
        if (*o->model_name == '\0' && *name != '\0')
                TRY(cli_options_set(o, "model-name", name));
        return NULL;
}

/* ---- checks ---------------------------------------------------------------------------------- */

static struct error *check_range(const struct cli_options *o) {
        const char *range = o->sagemaker_port_range;
        struct str  low_text, high_text;
        uint64_t    low, high;

        if (range == NULL)
                return NULL;
        high_text = str_split(str_of(range), '-', &low_text);
        if (!str_to_u64(low_text, &low) || !str_to_u64(high_text, &high) || low > high)
                return error_new(ERR_INVALID_ARG,
                                 "Bad option: \"--sagemaker-safe-port-range\".\n"
                                 "expects <integer>-<integer>, got: %s",
                                 range);
        if ((uint64_t)o->sagemaker_port >= low && (uint64_t)o->sagemaker_port <= high)
                return NULL;
        return error_new(
                ERR_INVALID_ARG,
                "The server cannot listen to SageMaker requests at port %lld, allowed port "
                "range is [%llu, %llu]",
                (long long)o->sagemaker_port, (unsigned long long)low, (unsigned long long)high);
}

static struct error *wrong_variable(const char *name, const char *expected, const char *value) {
        return error_new(ERR_INVALID_ARG, "%s must be one of: %s; got: '%s'", name, expected,
                         value);
}

static struct error *prepare_sagemaker(struct cloud_front *f, const struct cli_options *o) {
        const char *ping = variable("SAGEMAKER_TRITON_PING_MODE");
        const char *inference = variable("SAGEMAKER_TRITON_INFERENCE_TYPE");

        TRY(check_range(o));
        f->binary_type = SAGEMAKER_BINARY;
        f->error_status = http_sagemaker_error_status;
        f->default_model = variable("SAGEMAKER_TRITON_DEFAULT_MODEL_NAME");
        f->asks_if_live = strcmp(ping, "live") == 0;
        if (*ping != '\0' && !f->asks_if_live && strcmp(ping, "ready") != 0)
                return wrong_variable("SAGEMAKER_TRITON_PING_MODE", "ready, live", ping);
        if (*inference != '\0' && !cloud_inference_find(str_of(inference), &f->inference))
                return wrong_variable("SAGEMAKER_TRITON_INFERENCE_TYPE",
                                      "infer, generate, generate_stream", inference);
        return NULL;
}

static struct error *read_route(const char *name, struct str *ret) {
        const char *route = variable(name);

        if (*route == '\0')
                return error_new(ERR_INVALID_ARG, "%s is not defined for Vertex AI endpoint", name);
        if (*route != '/')
                return error_new(ERR_INVALID_ARG, "%s must begin with a slash, got: '%s'", name,
                                 route);
        *ret = str_of(route);
        return NULL;
}

static struct error *prepare_vertex_ai(struct cloud_front *f) {
        f->binary_type = VERTEX_AI_BINARY;
        TRY(read_route("AIP_PREDICT_ROUTE", &f->predict_route));
        return read_route("AIP_HEALTH_ROUTE", &f->health_route);
}

struct error *serve_cloud_prepare(struct serve_cloud *c, const struct cli_options *o) {
        c->options = o;
        if (o->allow_sagemaker)
                TRY(prepare_sagemaker(&c->sagemaker_front, o));
        if (o->allow_vertex_ai)
                TRY(prepare_vertex_ai(&c->vertex_ai_front));
        return NULL;
}

/* ---- the default model of Vertex AI ----------------------------------------------------------- */

/* What the index shows of the loaded models. */
struct loaded_models {
        size_t     n_names;
        struct str first;
        bool       has_wanted;
};

static void count_names(struct str index, const char *wanted, struct arena *arena,
                        struct loaded_models *ret) {
        struct str last = STR_LIT("");

        JSON_FOR_EACH(index, row) {
                struct str name = json_find_text(row, "name", arena);

                if (str_equal(name, last)) /* a further version; the index is sorted */
                        continue;
                if (ret->n_names++ == 0)
                        ret->first = name;
                ret->has_wanted = ret->has_wanted || str_is(name, wanted);
                last = name;
        }
}

static struct error *choose_default(struct str index, const char *wanted, char **ret) {
        struct loaded_models models = { 0 };
        AUTO_ARENA           arena = arena_of(0);

        count_names(index, wanted, &arena, &models);
        if (*wanted != '\0' && !models.has_wanted)
                return error_new(ERR_INVALID_ARG, "Expect the default model '%s' is loaded",
                                 wanted);
        if (*wanted == '\0' && models.n_names != 1)
                return error_new(ERR_INVALID_ARG,
                                 "Expect the model repository contains only a single model if "
                                 "default model is not specified; %zu are loaded: give "
                                 "--vertex-ai-default-model",
                                 models.n_names);
        *ret = *wanted != '\0' ? mem_strdup(wanted)
                               : mem_strndup(models.first.ptr, models.first.len);
        return NULL;
}

static struct error *find_default(struct TRITONSERVER_Server *core, const char *wanted,
                                  char **ret) {
        const struct model_query query = {
                .kind = MODEL_QUERY_INDEX, .model = "", .version = -1, .only_ready = true
        };
        struct TRITONSERVER_Message *index;
        struct error                *err;
        const char                  *text;
        size_t                       len;

        TRY(model_query_ask(&query, core, &index));
        err = core_error_take(TRITONSERVER_MessageSerializeToJson(index, &text, &len));
        if (err == NULL)
                err = choose_default(str_range(text, len), wanted, ret);
        core_error_drop(TRITONSERVER_MessageDelete(index));
        return err;
}

/* ---- the ports ------------------------------------------------------------------------------- */

static struct error *start_sagemaker(struct serve_cloud *c, struct TRITONSERVER_Server *core,
                                     struct http_server_options o) {
        c->models = hosted_models_new(core);
        c->sagemaker_front.models = c->models;
        o.net.name = "neso-sm";
        o.net.port = (uint16_t)c->options->sagemaker_port;
        o.net.set_by = "--http-address and --sagemaker-port";
        o.net.n_threads = (size_t)c->options->sagemaker_threads;
        o.routes = http_sagemaker_routes();
        o.service.cloud = &c->sagemaker_front;
        return http_server_start(&o, "Sagemaker HTTPService", &c->sagemaker);
}

static struct error *start_vertex_ai(struct serve_cloud *c, struct TRITONSERVER_Server *core,
                                     struct http_server_options o) {
        TRY(find_default(core, c->options->vertex_ai_default_model, &c->default_model));
        c->vertex_ai_front.default_model = c->default_model;
        o.net.name = "neso-vertex";
        o.net.port = (uint16_t)c->options->vertex_ai_port;
        o.net.set_by = "--http-address and --vertex-ai-port";
        o.net.n_threads = (size_t)c->options->vertex_ai_threads;
        o.routes = http_vertex_ai_routes();
        o.service.cloud = &c->vertex_ai_front;
        return http_server_start(&o, "Vertex AI HTTPService", &c->vertex_ai);
}

struct error *serve_cloud_start(struct serve_cloud *c, struct TRITONSERVER_Server *core,
                                const struct http_server_options *base) {
        if (c->options->allow_sagemaker)
                TRY(start_sagemaker(c, core, *base));
        if (c->options->allow_vertex_ai)
                TRY(start_vertex_ai(c, core, *base));
        return NULL;
}

void serve_cloud_done(struct serve_cloud *c) {
        hosted_models_free(c->models);
        free(c->default_model);
}
