/* SPDX-License-Identifier: BSD-3-Clause */
#include "grpc/rpc_infer.h"

#include "base/mem.h"
#include "frontend/header_forward.h"
#include "grpc/grpc_trace.h"
#include "grpc/rpc_inference.h"

struct grpc_infer {
        struct infer_core     core;
        struct header_forward forward;
};

/* ---- what the methods share ---- */

struct error *rpc_infer_new(const struct rpc_infer_options *o, struct grpc_infer **ret) {
        struct grpc_infer *s = mem_zalloc(sizeof(*s));
        struct error      *err = header_forward_init(&s->forward, o->header_forward_pattern);

        if (!err)
                err = infer_core_init(&s->core, o->core, o->shared_memory);
        if (err) {
                rpc_infer_free(s);
                return err;
        }
        s->core.admission = o->admission;
        *ret = s;
        return NULL;
}

void rpc_infer_free(struct grpc_infer *s) {
        if (!s)
                return;
        infer_core_done(&s->core);
        header_forward_done(&s->forward);
        free(s);
}

const struct infer_core *rpc_infer_core(const struct grpc_infer *s) {
        return &s->core;
}

const struct header_forward *rpc_infer_header_forward(const struct grpc_infer *s) {
        return &s->forward;
}

/* ---- ModelInfer ---- */

static struct error *make_answer(struct rpc_inference *i, struct infer_answer_parts *ret) {
        static const struct rpc_inference_framing framing = { .is_streamed = false };
        struct TRITONSERVER_InferenceResponse    *response;

        TRY(infer_call_get_response(&i->call, &response));
        return rpc_inference_encode(i, response, &framing, i->arena, ret);
}

/* Takes the error. An overloaded server says as well when to come back. */
static void fail(struct grpc_call *grpc, struct error *err) {
        if (err->code == ERR_UNAVAILABLE)
                grpc_call_add_trailing(grpc, STR_LIT("retry-after"), STR_LIT("1"));
        grpc_call_fail(grpc, err);
}

static void on_done(struct infer_call *c) {
        struct rpc_inference     *i = c->options.owner;
        struct grpc_call         *grpc = i->grpc;
        struct infer_answer_parts parts;
        struct error             *err;

        if (grpc_call_is_aborted(grpc))
                err = error_new_text(ERR_CANCELLED, "the client has gone");
        else
                err = make_answer(i, &parts);
        /* What is copied of the outputs is copied by now, the rest is held by the parts. */
        rpc_inference_done(i);
        if (err)
                fail(grpc, err);
        else
                grpc_call_reply(grpc, parts.parts, parts.n_parts);
}

static struct error *prepare(struct rpc_inference *i, struct str message, struct buf *owner) {
        TRY(rpc_inference_read(i, message, owner));
        if (i->is_decoupled)
                return error_new_text(ERR_UNSUPPORTED, "ModelInfer RPC doesn't support models with "
                                                       "decoupled transaction policy");
        return rpc_inference_fill(i);
}

/* Takes the error, whose text it is. */
static void refuse_access(struct grpc_call *grpc, enum access_verdict verdict, struct error *err) {
        AUTO_ERROR gone = err;

        grpc_call_finish(grpc, grpc_code_of_access(verdict), gone->message);
}

static struct trace_record *start_trace(const struct rpc_inference *i) {
        struct grpc_call *grpc = i->grpc;

        return grpc_trace_start(grpc, &(struct grpc_trace_read){ i->wire.model_name,
                                                                 grpc->recv_start_ns,
                                                                 grpc->recv_end_ns });
}

void rpc_infer(struct grpc_call *grpc, struct str message, struct buf *owner) {
        struct rpc_inference *i = arena_alloc(&grpc->arena, sizeof(*i));
        struct error         *err;

        rpc_inference_init(i, grpc, &grpc->arena, i, on_done);
        grpc->pending = i;
        err = prepare(i, message, owner);
        if (!err)
                err = infer_call_start(&i->call, start_trace(i));
        if (!err)
                return; /* it may have been answered already */
        rpc_inference_done(i);
        if (i->verdict == ACCESS_GRANTED)
                fail(grpc, err);
        else
                refuse_access(grpc, i->verdict, err);
}

void rpc_infer_cancel(struct grpc_call *grpc) {
        struct rpc_inference *i = grpc->pending;

        infer_call_cancel(&i->call);
}
