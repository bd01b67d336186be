/* SPDX-License-Identifier: BSD-3-Clause */
/* Metadata, configurations, statistics and other reports of the core, whose JSON is the body of the
 * answer. */
#include "base/buf.h"
#include "call/model_query.h"
#include "core_api/core_error.h"
#include "core_api/model_version.h"
#include "http/http_handlers.h"
#include "triton/core/tritonserver.h"

#include <string.h>

/* Answers with the message or the error; frees both. */
static void reply_message(struct http_call *call, struct error *err,
                          struct TRITONSERVER_Message *message) {
        const char *json = NULL;
        size_t      len = 0;

        if (err == NULL)
                err = core_error_take(TRITONSERVER_MessageSerializeToJson(message, &json, &len));
        if (err != NULL)
                http_call_reply_error(call, err, HTTP_JSON);
        else
                http_call_reply_text(call, HTTP_JSON, str_range(json, len));
        if (message != NULL)
                core_error_drop(TRITONSERVER_MessageDelete(message));
}

void http_metadata_server(struct http_call *call) {
        struct TRITONSERVER_Message *message = NULL;
        struct error *err = core_error_take(TRITONSERVER_ServerMetadata(call->core, &message));

        reply_message(call, err, message);
}

/* ---- one model ---- */

static void reply_about_model(struct http_call *call, enum model_query_kind kind) {
        struct model_query           query = { .kind = kind, .model = http_call_model(call) };
        struct TRITONSERVER_Message *message = NULL;
        struct error                *err = model_version_read(call->version, &query.version);

        if (err == NULL)
                err = model_query_ask(&query, call->core, &message);
        reply_message(call, err, message);
}

void http_metadata_sequences(struct http_call *call) {
        reply_about_model(call, MODEL_QUERY_SEQUENCES);
}

void http_metadata_chain(struct http_call *call) {
        reply_about_model(call, MODEL_QUERY_CHAIN);
}

void http_metadata_model(struct http_call *call) {
        reply_about_model(call, MODEL_QUERY_METADATA);
}

void http_metadata_config(struct http_call *call) {
        reply_about_model(call, MODEL_QUERY_CONFIG);
}

/* ---- all models ---- */

/* In the call's arena. */
struct bulk {
        struct bulk_query query;
        struct http_call *call; /* borrowed: holds this */
        struct buf       *json; /* ref */
};

/* Copies the JSON into a buffer that lives until the answer is written. */
static struct error *encode_bulk(struct bulk_query *query, struct TRITONSERVER_Message *message) {
        struct bulk *b = CONTAINER_OF(query, struct bulk, query);
        const char  *json;
        size_t       len;

        TRY(core_error_take(TRITONSERVER_MessageSerializeToJson(message, &json, &len)));
        b->json = buf_new(http_call_buf_pool(b->call), len + 1);
        if (b->json == NULL)
                return error_new_text(ERR_UNAVAILABLE,
                                      buf_pool_shortage(http_call_buf_pool(b->call), len + 1));
        memcpy(b->json->bytes, json, len);
        b->json->len = len;
        return NULL;
}

static void on_done(struct loop_work *w) {
        struct bulk *b = CONTAINER_OF(w, struct bulk, query.work);

        if (b->query.failure != NULL) {
                http_call_reply_error(b->call, b->query.failure, HTTP_JSON);
                return;
        }

        const struct http_part part = { b->json->bytes, b->json->len, b->json };

        http_call_reply(b->call, &(struct http_reply){ .status = 200,
                                                       .content_type = HTTP_JSON,
                                                       .parts = &part,
                                                       .n_parts = 1 });
}

void http_metadata_reply_bulk(struct http_call *call, const struct model_query *query) {
        struct bulk *b = ARENA_NEW(&call->arena, struct bulk);

        bulk_query_init(&b->query, call->core, query, encode_bulk, on_done);
        b->call = call;
        http_call_start_work_thread(call, &b->query.work);
}

/* About one model, but on a work thread. */
static void reply_about_model_later(struct http_call *call, enum model_query_kind kind) {
        struct model_query query = { .kind = kind, .model = http_call_model(call) };
        struct error      *err = model_version_read(call->version, &query.version);

        if (err != NULL)
                http_call_reply_error(call, err, HTTP_JSON);
        else
                http_metadata_reply_bulk(call, &query);
}

/* It waits for the model's processes. */
void http_metadata_stacks(struct http_call *call) {
        reply_about_model_later(call, MODEL_QUERY_STACKS);
}

/* It reads NVML. */
void http_metadata_gpus(struct http_call *call) {
        http_metadata_reply_bulk(call,
                                 &(struct model_query){ .kind = MODEL_QUERY_GPUS, .model = "" });
}

/* It reads a file. */
void http_metadata_config_source(struct http_call *call) {
        reply_about_model_later(call, MODEL_QUERY_CONFIG_SOURCE);
}

/* Without a model in the path: statistics of all models. */
void http_metadata_statistics(struct http_call *call) {
        struct model_query query = { .kind = MODEL_QUERY_STATISTICS, .model = "" };
        struct error      *err;

        if (call->model.len > 0) {
                reply_about_model(call, MODEL_QUERY_STATISTICS);
                return;
        }
        err = model_version_read(call->version, &query.version);
        if (err != NULL)
                http_call_reply_error(call, err, HTTP_JSON);
        else
                http_metadata_reply_bulk(call, &query);
}
