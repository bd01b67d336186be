/* SPDX-License-Identifier: BSD-3-Clause */
/* Health methods: those of KServe, and grpc.health.v1.Health, which reports the state of the server whatever
 * service a request names.
 *
 * A question is answered on the loop, in constant time, unless the answer depends on backends
 * (TRITONBACKEND_ModelInstanceReady): then a work thread asks them.
 *
 * Health/Watch sends the server's state at once, and again whenever it has changed. The core calls back when
 * its state or that of a model changes, and the watch then queries the state. There is no callback for the
 * state that a backend reports of its instances, so while there are such backends a watch also queries them
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

struct error *rpc_server_live(struct grpc_call *call, const ProtobufCMessage *request,
                              ProtobufCMessage **ret_answer) {
        bool is_live = false;

        (void)request;
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
        void (*fill)(ProtobufCMessage *answer, bool is_ready);
};

static void on_asked(struct loop_work *w) {
        struct question *q = CONTAINER_OF(w, struct question, query.work);

        if (q->query.failure != NULL) {
                grpc_call_fail(q->call, q->query.failure);
                return;
        }
        q->fill(q->answer, q->query.is_ready);
        rpc_map_reply(q->call, q->answer);
}

/* Writes *ret_answer, or NULL when a work thread finds the answer. */
static struct error *ask_health(struct grpc_call *call, const char *model, int64_t version,
                                const ProtobufCMessageDescriptor *type,
                                void (*fill)(ProtobufCMessage *answer, bool is_ready),
                                ProtobufCMessage **ret_answer) {
        struct question *q = ARENA_NEW(&call->arena, struct question);

        TRY(pb_message_new(type, &call->arena, &q->answer));
        q->call = call;
        q->fill = fill;
        ready_query_init(&q->query, call->core, model, version, on_asked);
        if (!ready_query_answer(&q->query)) {
                *ret_answer = NULL;
                grpc_call_start_work_thread(call, &q->query.work);
                return NULL;
        }
        TRY(q->query.failure);
        fill(q->answer, q->query.is_ready);
        *ret_answer = q->answer;
        return NULL;
}

static void fill_server_ready(ProtobufCMessage *answer, bool is_ready) {
        ((Inference__ServerReadyResponse *)(void *)answer)->ready = is_ready;
}

struct error *rpc_server_ready(struct grpc_call *call, const ProtobufCMessage *request,
                               ProtobufCMessage **ret_answer) {
        (void)request;
        return ask_health(call, NULL, -1, &inference__server_ready_response__descriptor,
                          fill_server_ready, ret_answer);
}

static void fill_model_ready(ProtobufCMessage *answer, bool is_ready) {
        ((Inference__ModelReadyResponse *)(void *)answer)->ready = is_ready;
}

struct error *rpc_model_ready(struct grpc_call *call, const ProtobufCMessage *request,
                              ProtobufCMessage **ret_answer) {
        const Inference__ModelReadyRequest *q = RPC_REQUEST(Inference__ModelReadyRequest, request);
        int64_t                             version;

        TRY(model_version_read(str_of(q->version), &version));
        return ask_health(call, q->name, version, &inference__model_ready_response__descriptor,
                          fill_model_ready, ret_answer);
}

/* ---- grpc.health.v1 ---- */

static Grpc__Health__V1__HealthCheckResponse__ServingStatus status_of(bool is_ready) {
        return is_ready ? GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
                        : GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING;
}

static void fill_status(ProtobufCMessage *answer, bool is_ready) {
        ((Grpc__Health__V1__HealthCheckResponse *)(void *)answer)->status = status_of(is_ready);
}

struct error *rpc_health_check(struct grpc_call *call, const ProtobufCMessage *request,
                               ProtobufCMessage **ret_answer) {
        (void)request;
        return ask_health(call, NULL, -1, &grpc__health__v1__health_check_response__descriptor,
                          fill_status, ret_answer);
}

/* One Watch; in the arena of its call. */
struct watch {
        struct NESO_ReadyWatch *ready; /* owned; NULL once it has ended */
        struct ready_query      query;
        struct loop_timer       timer;     /* period of the queries of backends */
        struct grpc_call       *call;      /* borrowed: holds this */
        struct error           *failure;   /* owned; why it has ended */
        _Atomic bool            is_posted; /* on_posted() is on its way to the loop */
        bool                    is_asking; /* a work thread runs the query */
        bool                    is_stale;  /* something has changed since it began */
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

/* Finishes the call of a watch that has ended, once nothing is on its way that uses it. */
static void finish_if_free(struct watch *w) {
        struct grpc_call *call = w->call;

        if (w->is_asking || atomic_load(&w->is_posted))
                return;
        if (w->failure != NULL)
                grpc_call_fail(call, STEAL(w->failure));
        else
                grpc_call_finish(call, GRPC_CANCELLED, NULL);
}

/* Ends the watch. The client has its status at once, also when a backend takes its time. */
static void end_watch(struct watch *w) {
        loop_timer_cancel(&w->timer);
        core_error_drop(NESO_ReadyWatchDelete(STEAL(w->ready)));
        if (w->failure != NULL && w->is_asking)
                grpc_call_conclude(w->call, grpc_code_of_error(w->failure->code),
                                   w->failure->message);
        finish_if_free(w);
}

/* The server is exiting: the watch ends, so that it does not delay the exit. */
static void fail_watch(struct watch *w, struct error *err) {
        send_state(w, false);
        w->failure = err;
        end_watch(w);
}

/* Backends report no change, so they are queried again. Without memory for the timer only that stops. */
static void query_later(struct watch *w) {
        if (!loop_timer_arm(grpc_call_loop(w->call), &w->timer,
                            clock_now_ns() + RPC_HEALTH_QUERY_NS))
                return;
}

static void on_watch_asked(struct loop_work *work);

static void ask_backends(struct watch *w) {
        w->is_asking = true;
        w->is_stale = false;
        ready_query_init(&w->query, w->call->core, NULL, -1, on_watch_asked);
        grpc_call_start_work_thread(w->call, &w->query.work);
}

/* Finds the state and sends a change. */
static void query_state(struct watch *w) {
        struct ready_query now; /* a work thread may have the other */
        bool               is_known;

        ready_query_init(&now, w->call->core, NULL, -1, NULL);
        is_known = ready_query_answer(&now);
        loop_timer_cancel(&w->timer);
        w->is_stale = true;
        if (now.failure != NULL)
                fail_watch(w, now.failure);
        else if (is_known)
                send_state(w, now.is_ready);
        else if (!w->is_asking)
                ask_backends(w);
}

/* A query that fails is that of a server that is exiting, which was announced, or got no thread. */
static void on_watch_asked(struct loop_work *work) {
        struct watch *w = CONTAINER_OF(work, struct watch, query.work);
        bool          has_answer = w->query.failure == NULL;

        w->is_asking = false;
        error_free(STEAL(w->query.failure));
        if (w->ready == NULL) {
                finish_if_free(w);
                return;
        }
        if (w->is_stale) {
                query_state(w);
                return;
        }
        if (has_answer)
                send_state(w, w->query.is_ready);
        query_later(w);
}

static void on_posted(struct grpc_call *call) {
        struct watch *w = call->pending;

        atomic_store(&w->is_posted, false); /* before the query: a later change posts again */
        if (w->ready != NULL)
                query_state(w);
        else
                finish_if_free(w);
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

void rpc_health_watch(struct grpc_call *call, struct str message, struct buf *owner) {
        struct watch *w = ARENA_NEW(&call->arena, struct watch);
        struct error *err;

        (void)message;
        (void)owner;
        loop_timer_init(&w->timer, on_time);
        w->call = call;
        call->pending = w;
        err = core_error_take(NESO_ReadyWatchNew(&w->ready, call->core, on_change, w));
        if (err != NULL)
                grpc_call_fail(call, err);
        else
                query_state(w);
}

void rpc_health_end_watch(struct grpc_call *call) {
        struct watch *w = call->pending;

        if (w->ready != NULL)
                end_watch(w);
}

bool rpc_health_watch_is_quiet(const struct grpc_call *call) {
        const struct watch *w = call->pending;

        return !w->is_asking && !atomic_load(&w->is_posted);
}
