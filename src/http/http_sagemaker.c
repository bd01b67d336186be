/* SPDX-License-Identifier: BSD-3-Clause */
/* The front of SageMaker: the container contract of its endpoints with one model and with many. */
#include "base/log.h"
#include "base/strbuf.h"
#include "call/hosted_models.h"
#include "call/service.h"
#include "codec/json_reader.h"
#include "http/http_cloud.h"
#include "http/http_generate.h"
#include "http/http_handlers.h"
#include "http/http_infer.h"
#include "http/http_members.h"
#include "net/loop.h"

#define GET HTTP_METHOD_GET
#define POST HTTP_METHOD_POST
#define DELETE HTTP_METHOD_DELETE

#define CONFLICT 409
#define INSUFFICIENT_STORAGE                                                                       \
        507 /* RFC 4918, 11.5; what SageMaker takes for "unload another model" */

#define MAX_TARGET_SHOWN 256

static const struct cloud_front *front_of(const struct http_call *call) {
        return call->service->cloud;
}

/* Logs the archive that the platform knows the model by. */
static void log_target(struct http_call *call, const char *what, struct str model) {
        struct str target = http_call_header(call, "X-Amzn-SageMaker-Target-Model");
        struct str shown = { target.ptr, MIN(target.len, (size_t)MAX_TARGET_SHOWN) };

        model.len = MIN(model.len, (size_t)MAX_TARGET_SHOWN);
        if (target.ptr != NULL)
                log_info("%s SageMaker TargetModel: %.*s, model '%.*s'", what, STR_ARG(shown),
                         STR_ARG(model));
}

/* ---- load and unload ------------------------------------------------------------------------- */

/* In the call's arena. */
struct hosted_order {
        struct loop_work    work;
        struct http_call   *call; /* borrowed: holds this */
        struct str          name, url;
        enum hosted_outcome outcome;
        struct error       *err; /* owned */
};

static unsigned status_of(const struct hosted_order *o) {
        switch (o->outcome) {
        case HOSTED_DONE: return 200;
        case HOSTED_IN_USE: return CONFLICT;
        case HOSTED_UNKNOWN: return 404;
        case HOSTED_NO_MEMORY: return INSUFFICIENT_STORAGE;
        case HOSTED_FAILED: break;
        }
        return 400;
}

static void on_ordered(struct loop_work *w) {
        struct hosted_order *o = CONTAINER_OF(w, struct hosted_order, work);
        AUTO_ERROR           err = o->err;

        if (err != NULL)
                http_call_reply_refusal(o->call, status_of(o), err->message, HTTP_JSON);
        else
                http_call_reply_empty(o->call, status_of(o));
}

static void run_load(struct loop_work *w) {
        struct hosted_order *o = CONTAINER_OF(w, struct hosted_order, work);

        o->err = hosted_models_load(front_of(o->call)->models, o->name, o->url, &o->outcome);
}

static void run_unload(struct loop_work *w) {
        struct hosted_order *o = CONTAINER_OF(w, struct hosted_order, work);

        o->err = hosted_models_unload(front_of(o->call)->models, o->name, &o->outcome);
}

static void refuse_order(struct loop_work *w, struct error *err) {
        struct hosted_order *o = CONTAINER_OF(w, struct hosted_order, work);

        o->outcome = HOSTED_FAILED;
        o->err = err;
}

static struct hosted_order *new_order(struct http_call *call, loop_work_fn run) {
        struct hosted_order *o = ARENA_NEW(&call->arena, struct hosted_order);

        o->work = (struct loop_work){
                .run = run, .refuse = refuse_order, .done = on_ordered, .is_background = true
        };
        o->call = call;
        o->outcome = HOSTED_FAILED;
        return o;
}

static struct error *read_load_member(void *owner, struct json_reader *r, struct str key) {
        struct hosted_order *o = owner;

        if (str_is(key, "model_name"))
                return http_members_read_text(r, &o->call->arena, &o->name);
        if (str_is(key, "url"))
                return http_members_read_text(r, &o->call->arena, &o->url);
        json_skip(r);
        return NULL;
}

static struct error *read_load(struct hosted_order *o) {
        TRY(http_members_read(o->call->body, &o->call->arena, read_load_member, o));
        if (o->name.ptr == NULL)
                return error_new_text(ERR_INVALID_ARG, "the request has no model_name");
        if (o->url.ptr == NULL)
                return error_new_text(ERR_INVALID_ARG, "the request has no url");
        return NULL;
}

static void load_hosted(struct http_call *call) {
        struct hosted_order *o = new_order(call, run_load);

        o->err = read_load(o);
        if (o->err != NULL) {
                on_ordered(&o->work);
                return;
        }
        log_target(call, "Loading", o->name);
        http_call_start_work_thread(call, &o->work);
}

static void unload(struct http_call *call) {
        struct hosted_order *o = new_order(call, run_unload);

        o->name = call->model;
        log_target(call, "Unloading", o->name);
        http_call_start_work_thread(call, &o->work);
}

/* ---- lists ----------------------------------------------------------------------------------- */

static void list_models(struct http_call *call) {
        AUTO_STRBUF text = { 0 };

        hosted_models_print(front_of(call)->models, &text);
        http_call_reply_json(call, &text);
}

static void get_model(struct http_call *call) {
        AUTO_STRBUF text = { 0 };

        if (hosted_models_print_one(front_of(call)->models, call->model, &text))
                http_call_reply_json(call, &text);
        else
                http_call_reply_empty(call, 404);
}

/* ---- inference ------------------------------------------------------------------------------- */

static void invoke(struct http_call *call) {
        if (!hosted_models_has(front_of(call)->models, call->model)) {
                http_call_reply_empty(call, 404);
                return;
        }
        log_target(call, "Invoking", call->model);
        http_infer_post(call);
}

unsigned http_sagemaker_error_status(const struct http_call *call, const struct error *err) {
        if (call->route == NULL || call->route->handler != invoke)
                return 0;
        /* The platform unloads another model then. The error of a wrong request quotes the client. */
        if (err->code != ERR_INVALID_ARG && hosted_models_tells_no_memory(err->message))
                return INSUFFICIENT_STORAGE;
        /* Unloaded since the handler has looked. */
        return hosted_models_has(front_of(call)->models, call->model) ? 0 : 404;
}

static void refuse_invocation(struct http_call *call) {
        http_call_reply_refusal(call, 400,
                                "no default model: the variable "
                                "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME is not set",
                                HTTP_JSON);
}

/* ---- the routes ------------------------------------------------------------------------------ */

static const struct http_route rows[] = {
        { "/models/{m}/invoke", POST, ENDPOINT_INFERENCE, NULL, invoke },
        { "/invocations", POST, ENDPOINT_INFERENCE, NULL, http_infer_post },
        { "/ping", GET, ENDPOINT_HEALTH, NULL, http_health_ready },
        { "/models", GET, ENDPOINT_MODEL_REPOSITORY, HTTP_JSON, list_models },
        { "/models", POST, ENDPOINT_MODEL_REPOSITORY, HTTP_JSON, load_hosted },
        { "/models/{m}", GET, ENDPOINT_MODEL_REPOSITORY, HTTP_JSON, get_model },
        { "/models/{m}", DELETE, ENDPOINT_MODEL_REPOSITORY, HTTP_JSON, unload },
};

/* What the row "/invocations" is by the inference type, and without a default model. */
static const struct http_route invocations[N_CLOUD_INFERENCES] = {
        [CLOUD_INFER] = { "/invocations", POST, ENDPOINT_INFERENCE, NULL, http_infer_post },
        [CLOUD_GENERATE] = { "/invocations", POST, ENDPOINT_INFERENCE, HTTP_JSON,
                             http_generate_post },
        [CLOUD_GENERATE_STREAM] = { "/invocations", POST, ENDPOINT_INFERENCE, HTTP_JSON,
                                    http_generate_stream_post },
};
static const struct http_route no_default = { "/invocations", POST, ENDPOINT_INFERENCE, HTTP_JSON,
                                              refuse_invocation };
/* What the row "/ping" is with SAGEMAKER_TRITON_PING_MODE=live. */
static const struct http_route ping_live = { "/ping", GET, ENDPOINT_HEALTH, NULL,
                                             http_health_live };

static const struct http_route *choose_row(const struct cloud_front *front,
                                           const struct http_route  *row,
                                           struct http_captures     *captures) {
        if (row->handler == http_health_ready)
                return front->asks_if_live ? &ping_live : row;
        if (row->handler != http_infer_post)
                return row;
        if (*front->default_model == '\0')
                return &no_default;
        captures->model = str_of(front->default_model);
        return &invocations[front->inference];
}

static enum http_route_verdict find_sagemaker_route(const struct http_route_table *table,
                                                    struct http_call              *call,
                                                    const struct http_route      **ret_row,
                                                    struct http_captures          *ret_captures) {
        enum http_route_verdict verdict =
                http_route_find(table, call->method, call->path, ret_row, ret_captures);

        if (verdict != HTTP_ROUTE_NOT_FOUND)
                *ret_row = choose_row(front_of(call), *ret_row, ret_captures);
        return verdict;
}

static struct error *check_body(const struct http_call *call, uint64_t bytes,
                                struct http_body_limit *limit) {
        http_call_fn handler = call->route->handler;

        return handler == http_infer_post || handler == invoke
                       ? http_infer_check_body(call, bytes, limit)
                       : NULL;
}

struct http_route_table http_sagemaker_routes(void) {
        return (struct http_route_table){ .rows = rows,
                                          .n_rows = ARRAY_LEN(rows),
                                          .fallback = http_cloud_refuse_path,
                                          .fallback_group = ENDPOINT_PUBLIC,
                                          .check_body = check_body,
                                          .find = find_sagemaker_route };
}
