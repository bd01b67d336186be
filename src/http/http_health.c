/* SPDX-License-Identifier: BSD-3-Clause */
/* Liveness and readiness of the server and of models. */
#include "call/model_query.h"
#include "call/service.h"
#include "core_api/core_error.h"
#include "core_api/model_version.h"
#include "http/http_handlers.h"
#include "triton/core/tritonserver.h"

/* The status alone reports health; only an error (the server is exiting) has a body, which cloud platforms
 * do not expect. */
static void reply_health(struct http_call *call, struct error *err, bool is_well) {
        if (err != NULL && call->service->cloud == NULL) {
                http_call_reply_error(call, err, NULL);
                return;
        }
        http_call_reply_empty(call, err == NULL && is_well ? 200 : 400);
        error_free(err);
}

void http_health_live(struct http_call *call) {
        bool          live = false;
        struct error *err = core_error_take(TRITONSERVER_ServerIsLive(call->core, &live));

        reply_health(call, err, live);
}

/* In the call's arena. */
struct question {
        struct ready_query query;
        struct http_call  *call; /* borrowed: holds this */
};

static void ask_health(struct http_call *call, const char *model, int64_t version,
                       loop_work_fn done) {
        struct question *q = ARENA_NEW(&call->arena, struct question);

        ready_query_init(&q->query, call->core, model, version, done);
        q->call = call;
        if (ready_query_answer(&q->query))
                done(&q->query.work);
        else
                http_call_start_work_thread(call, &q->query.work);
}

static void on_server_asked(struct loop_work *w) {
        struct question *q = CONTAINER_OF(w, struct question, query.work);

        reply_health(q->call, q->query.failure, q->query.is_ready);
}

void http_health_ready(struct http_call *call) {
        ask_health(call, NULL, -1, on_server_asked);
}

static void on_model_asked(struct loop_work *w) {
        struct question *q = CONTAINER_OF(w, struct question, query.work);
        struct error    *err = q->query.failure;

        if (err == NULL && !q->query.is_ready)
                err = error_new_text(ERR_INVALID_ARG, "Model version not ready");
        if (err != NULL)
                http_call_reply_error(q->call, err, NULL);
        else
                http_call_reply_empty(q->call, 200);
}

void http_health_model(struct http_call *call) {
        int64_t       version;
        struct error *err = model_version_read(call->version, &version);

        if (err != NULL)
                http_call_reply_error(call, err, NULL);
        else
                ask_health(call, http_call_model(call), version, on_model_asked);
}
