/* SPDX-License-Identifier: BSD-3-Clause */
/* Health, KServe's and the one that gRPC clients and orchestrators know by convention. The latter
 * is about the server whatever service it names. */
#include "grpc/rpc_health.h"

#include "base/clock.h"
#include "base/timer.h"
#include "codec/pb_build.h"
#include "frontend/core_error.h"
#include "frontend/model_version.h"
#include "grpc/grpc_service.h"
#include "grpc/rpc_control.h"
#include "grpc/rpc_infer.h"
#include "grpc/rpc_map.h"
#include "grpc_service.pb-c.h"
#include "health.pb-c.h"

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

struct error *rpc_server_ready(struct grpc_call *call, const ProtobufCMessage *request UNUSED,
                               ProtobufCMessage **ret_answer) {
        bool is_ready = false;

        TRY(core_error_take(TRITONSERVER_ServerIsReady(call->core, &is_ready)));
        TRY(pb_message_new(&inference__server_ready_response__descriptor, &call->arena,
                           ret_answer));
        ((Inference__ServerReadyResponse *)(void *)*ret_answer)->ready = is_ready;
        return NULL;
}

struct error *rpc_model_ready(struct grpc_call *call, const ProtobufCMessage *request,
                              ProtobufCMessage **ret_answer) {
        const Inference__ModelReadyRequest *q = RPC_REQUEST(Inference__ModelReadyRequest, request);
        bool                                is_ready = false;
        int64_t                             version;

        TRY(model_version_read(str_of(q->version), &version));
        TRY(core_error_take(
                TRITONSERVER_ServerModelIsReady(call->core, q->name, version, &is_ready)));
        TRY(pb_message_new(&inference__model_ready_response__descriptor, &call->arena, ret_answer));
        ((Inference__ModelReadyResponse *)(void *)*ret_answer)->ready = is_ready;
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
        struct timer         timer;
        struct timer_thread *thread;    /* borrowed: the service's */
        struct grpc_call    *call;      /* borrowed: holds this */
        _Atomic bool         is_posted; /* a look is on its way to the loop */
        bool                 is_ended;
        bool                 was_told, was_ready;
};

/* A watch may go on for months, so the arena is not touched: the call copies the few bytes. */
static void tell(struct watch *w, bool is_ready) {
        Grpc__Health__V1__HealthCheckResponse answer =
                GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
        uint8_t          bytes[16]; /* a tag and a small number */
        struct grpc_part part = { .ptr = bytes };

        if (w->was_told && w->was_ready == is_ready)
                return;
        w->was_told = true;
        w->was_ready = is_ready;
        answer.status = status_of(is_ready);
        part.len = grpc__health__v1__health_check_response__pack(&answer, bytes);
        grpc_call_send(w->call, &part, 1);
}

/* Tells what has changed, and looks again later. A server that is exiting says so by an error,
 * and its watchers must not hold it up. */
static void look(struct watch *w) {
        struct TRITONSERVER_Server *core = w->call->core;
        bool                        is_live = false, is_ready = false;
        struct error *err = core_error_take(TRITONSERVER_ServerIsLive(core, &is_live));

        if (!err)
                err = core_error_take(TRITONSERVER_ServerIsReady(core, &is_ready));
        tell(w, !err && is_ready);
        if (err) {
                w->is_ended = true;
                grpc_call_fail(w->call, err);
                return;
        }
        timer_arm(w->thread, &w->timer, clock_now_ns() + RPC_HEALTH_WATCH_NS);
}

static void on_posted(struct grpc_call *call) {
        struct watch *w = call->pending;

        atomic_store(&w->is_posted, false);
        if (w->is_ended)
                grpc_call_finish(call, GRPC_CANCELLED, NULL);
        else
                look(w);
}

/* On the timer's thread. */
static void on_time(struct timer *t) {
        struct watch *w = CONTAINER_OF(t, struct watch, timer);

        atomic_store(&w->is_posted, true);
        grpc_call_post(w->call, on_posted);
}

void rpc_health_watch(struct grpc_call *call, struct str message UNUSED, struct buf *owner UNUSED) {
        struct watch *w = ARENA_NEW(&call->arena, struct watch);

        timer_init(&w->timer, on_time);
        w->thread = rpc_infer_timers(call->service->infer);
        w->call = call;
        call->pending = w;
        look(w);
}

void rpc_health_end_watch(struct grpc_call *call) {
        struct watch *w = call->pending;

        w->is_ended = true;
        timer_cancel(w->thread, &w->timer);
        /* With a look on its way the call must stay until it has come. */
        if (!atomic_load(&w->is_posted))
                grpc_call_finish(call, GRPC_CANCELLED, NULL);
}
