/* SPDX-License-Identifier: BSD-3-Clause */
/* Health methods: those of KServe, and grpc.health.v1.Health, which reports the state of the server whatever
 * service a request names.
 *
 * Health/Watch sends the server's state at once, and again whenever it has changed. The core calls back when
 * its state or that of a model changes, and the watch then queries the state. There is no callback for the
 * state that a backend reports of its instances (TRITONBACKEND_ModelInstanceReady), so a watch also queries
 * periodically. It ends with UNAVAILABLE when the server exits.
 *
 * Ownership.  A watch lives in the arena of its call.
 * Threads.  The call's loop; the core's callback, on any thread, posts to it.
 */
#include "base/clock.h"
#include "call/model_query.h"
#include "call/service.h"
#include "codec/pb_build.h"
#include "core_api/core_error.h"
#include "core_api/model_version.h"
#include "grpc/rpc_map.h"
#include "grpc/rpc_methods.h"
#include "grpc_service.pb-c.h"
#include "health.pb-c.h"
#include "net/loop_timer.h"

#include "triton/core/neso.h"
#include "triton/core/tritonserver.h"

#include <stdatomic.h>

struct error *rpc_server_live(struct grpc_call *call, const ProtobufCMessage *request UNUSED,
                              ProtobufCMessage **ret_answer) {
        bool is_live = false;

        TRY(core_error_take(TRITONSERVER_ServerIsLive(call->core, &is_live)));
        TRY(pb_message_new(&inference__server_live_response__descriptor, &call->arena, ret_answer));
        ((Inference__ServerLiveResponse *)(void *)*ret_answer)->live = is_live;
        return NULL;
}

/* In the call's arena. */
struct question {
        struct ready_query query;
        struct grpc_call  *call;   /* borrowed: holds this */
        ProtobufCMessage  *answer; /* in arena */
};

static void ask(struct grpc_call *call, const char *model, int64_t version,
                ProtobufCMessage *answer, loop_work_fn done) {
        struct question *q = ARENA_NEW(&call->arena, struct question);

        ready_query_init(&q->query, call->core, model, version, done);
        q->call = call;
        q->answer = answer;
        grpc_call_start_work_thread(call, &q->query.work);
}

static void reply(struct question *q) {
        if (q->query.failure)
                grpc_call_fail(q->call, q->query.failure);
        else
                rpc_map_reply(q->call, q->answer);
}

static void on_server_asked(struct loop_work *w) {
        struct question *q = CONTAINER_OF(w, struct question, query.work);

        ((Inference__ServerReadyResponse *)(void *)q->answer)->ready = q->query.is_ready;
        reply(q);
}

struct error *rpc_server_ready(struct grpc_call *call, const ProtobufCMessage *request UNUSED,
                               ProtobufCMessage **ret_answer) {
        ProtobufCMessage *answer;

        TRY(pb_message_new(&inference__server_ready_response__descriptor, &call->arena, &answer));
        ask(call, NULL, -1, answer, on_server_asked);
        *ret_answer = NULL;
        return NULL;
}

static void on_model_asked(struct loop_work *w) {
        struct question *q = CONTAINER_OF(w, struct question, query.work);

        ((Inference__ModelReadyResponse *)(void *)q->answer)->ready = q->query.is_ready;
        reply(q);
}

struct error *rpc_model_ready(struct grpc_call *call, const ProtobufCMessage *request,
                              ProtobufCMessage **ret_answer) {
        const Inference__ModelReadyRequest *q = RPC_REQUEST(Inference__ModelReadyRequest, request);
        ProtobufCMessage                   *answer;
        int64_t                             version;

        TRY(model_version_read(str_of(q->version), &version));
        TRY(pb_message_new(&inference__model_ready_response__descriptor, &call->arena, &answer));
        ask(call, q->name, version, answer, on_model_asked);
        *ret_answer = NULL;
        return NULL;
}

/* ---- grpc.health.v1 ---- */

static Grpc__Health__V1__HealthCheckResponse__ServingStatus status_of(bool is_ready) {
        return is_ready ? GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
                        : GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING;
}

struct error *rpc_health_check(struct grpc_call *call, const ProtobufCMessage *request UNUSED,
                               ProtobufCMessage **ret_answer) {
        bool is_ready = false;

        TRY(core_error_take(TRITONSERVER_ServerIsReady(call->core, &is_ready)));
        TRY(pb_message_new(&grpc__health__v1__health_check_response__descriptor, &call->arena,
                           ret_answer));
        ((Grpc__Health__V1__HealthCheckResponse *)(void *)*ret_answer)->status =
                status_of(is_ready);
        return NULL;
}

/* One Watch; in the arena of its call. */
struct watch {
        struct NESO_ReadyWatch *ready;     /* owned; NULL once it has ended */
        struct loop_timer       timer;     /* period of the queries */
        struct grpc_call       *call;      /* borrowed: holds this */
        struct error           *failure;   /* owned; why it has ended */
        _Atomic bool            is_posted; /* on_posted() is on its way to the loop */
        bool                    was_sent, was_ready;
};

/* Sends the state if it has changed. A watch may last for months, so the call copies the few bytes and
 * nothing is put into the arena. */
static void send_state(struct watch *w, bool is_ready) {
        Grpc__Health__V1__HealthCheckResponse answer =
                GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
        uint8_t          bytes[16]; /* a tag and a small number */
        struct grpc_part part = { .ptr = bytes };

        if (w->was_sent && w->was_ready == is_ready)
                return;
        w->was_sent = true;
        w->was_ready = is_ready;
        answer.status = status_of(is_ready);
        part.len = grpc__health__v1__health_check_response__pack(&answer, bytes);
        grpc_call_send(w->call, &part, 1);
}

static void finish(struct watch *w) {
        struct grpc_call *call = w->call;

        if (w->failure)
                grpc_call_fail(call, STEAL(w->failure));
        else
                grpc_call_finish(call, GRPC_CANCELLED, NULL);
}

/* Ends the watch; while on_posted() is on its way, the call must stay until it has run. */
static void end(struct watch *w) {
        loop_timer_cancel(&w->timer);
        core_error_drop(NESO_ReadyWatchDelete(STEAL(w->ready)));
        if (!atomic_load(&w->is_posted))
                finish(w);
}

/* Queries the state and sends a change. An error means that the server is exiting; the watch then ends, so
 * that it does not delay the exit. */
static void query_state(struct watch *w) {
        struct TRITONSERVER_Server *core = w->call->core;
        bool                        is_live = false, is_ready = false;
        struct error *err = core_error_take(TRITONSERVER_ServerIsLive(core, &is_live));

        if (!err)
                err = core_error_take(TRITONSERVER_ServerIsReady(core, &is_ready));
        send_state(w, !err && is_ready);
        w->failure = err;
        if (err)
                end(w);
        else if (!loop_timer_arm(grpc_call_loop(w->call), &w->timer,
                                 clock_now_ns() + RPC_HEALTH_QUERY_NS))
                return; /* out of memory: only the periodic queries stop */
}

static void on_posted(struct grpc_call *call) {
        struct watch *w = call->pending;

        atomic_store(&w->is_posted, false); /* before the query: a later change posts again */
        if (w->ready)
                query_state(w);
        else
                finish(w);
}

/* Called on any thread. */
static void on_change(void *userp) {
        struct watch *w = userp;

        if (!atomic_exchange(&w->is_posted, true))
                grpc_call_post(w->call, on_posted);
}

static void on_time(struct loop_timer *t) {
        query_state(CONTAINER_OF(t, struct watch, timer));
}

void rpc_health_watch(struct grpc_call *call, struct str message UNUSED, struct buf *owner UNUSED) {
        struct watch *w = ARENA_NEW(&call->arena, struct watch);
        struct error *err;

        loop_timer_init(&w->timer, on_time);
        w->call = call;
        call->pending = w;
        err = core_error_take(NESO_ReadyWatchNew(&w->ready, call->core, on_change, w));
        if (err)
                grpc_call_fail(call, err);
        else
                query_state(w);
}

void rpc_health_end_watch(struct grpc_call *call) {
        struct watch *w = call->pending;

        if (w->ready)
                end(w);
}
