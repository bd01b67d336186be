/* SPDX-License-Identifier: BSD-3-Clause */
/* ModelInfer: one request, one response.
 *
 *     rpc_infer                message -> struct infer_request, checked in the reference's order
 *       infer_call_*           through the C API; the loop serves other calls meanwhile
 *     on_done                  struct infer_response -> parts; grpc_call_reply
 *
 * Ownership.  Everything of one request lives in the arena of its call.
 * Threads.  Handlers run on the call's loop.
 */
#include "grpc/rpc_inference.h"
#include "grpc/rpc_methods.h"
#include "net/loop.h"

/* A step that takes too long for the loop. A compute thread runs it and owns the inference until then. It has an
 * arena of its own, because the loop keeps the call's arena. */
struct long_work {
        struct loop_work          work;
        struct rpc_infer         *r;       /* borrowed: holds this */
        struct str                message; /* to be read; empty = already read */
        struct buf               *owner;   /* ref: of the message */
        struct error             *err;     /* owned */
        struct trace_record      *trace;   /* attached to the call when the work is done */
        struct infer_answer_parts parts;
        struct arena              arena;
};

/* One call; in its arena. */
struct rpc_infer {
        struct rpc_inference inference;
        struct long_work    *memory;        /* NULL = everything is in the call's arena */
        bool                 has_long_work; /* a compute thread has it */
};

static const struct rpc_inference_framing framing = { .is_streamed = false };

static struct error *make_answer(struct rpc_inference *i, struct infer_answer_parts *ret,
                                 bool *ret_is_long) {
        struct TRITONSERVER_InferenceResponse *response;

        TRY(infer_call_get_response(&i->call, &response));
        return rpc_inference_encode(i, response, &framing, i->arena, ret, ret_is_long);
}

/* Fails the call, with retry-after when the error is UNAVAILABLE; takes the error. */
static void fail_call(struct grpc_call *grpc, struct error *err) {
        if (err->code == ERR_UNAVAILABLE)
                grpc_call_add_trailing(grpc, STR_LIT("retry-after"), STR_LIT("1"));
        grpc_call_fail(grpc, err);
}

static struct error *client_is_gone(void) {
        return error_new_text(ERR_CANCELLED, "the client has gone");
}

/* Answers the call; takes the error. */
static void answer_infer(struct rpc_infer *r, struct error *err,
                         const struct infer_answer_parts *parts) {
        struct grpc_call *grpc = r->inference.grpc;
        struct arena      memory = { 0 };

        if (r->memory != NULL)
                memory = r->memory->arena;
        /* Small outputs are copied by now, and the parts hold the buffers of the others. */
        rpc_inference_done(&r->inference);
        if (err != NULL)
                fail_call(grpc, err);
        else if (parts->is_packed)
                grpc_call_reply_packed(grpc, parts->parts);
        else
                grpc_call_reply(grpc, parts->parts, parts->n_parts);
        arena_done(&memory);
}

static struct long_work *get_long_work(struct rpc_infer *r) {
        if (r->memory == NULL) {
                r->memory = ARENA_NEW(&r->inference.grpc->arena, struct long_work);
                r->memory->r = r;
                arena_init(&r->memory->arena, NULL, 0, 0);
                arena_set_budget(&r->memory->arena,
                                 buf_pool_budget(grpc_call_buf_pool(r->inference.grpc)));
        }
        return r->memory;
}

static void start_long_work(struct long_work *w, loop_work_fn run, loop_work_fn done,
                            bool is_short) {
        struct rpc_infer *r = w->r;

        w->work.run = run;
        w->work.done = done;
        w->work.is_short = is_short;
        r->inference.arena = &w->arena;
        r->has_long_work = true;
        grpc_call_compute(r->inference.grpc, &w->work);
}

static void run_answer(struct loop_work *work) {
        struct long_work                      *w = CONTAINER_OF(work, struct long_work, work);
        struct rpc_inference                  *i = &w->r->inference;
        struct TRITONSERVER_InferenceResponse *response;

        w->err = infer_call_get_response(&i->call, &response);
        if (w->err == NULL)
                w->err = rpc_inference_encode_long(i, response, &framing, &w->arena, &w->parts);
}

static void on_answer(struct loop_work *work) {
        struct long_work *w = CONTAINER_OF(work, struct long_work, work);

        w->r->has_long_work = false;
        if (work->is_cancelled)
                w->err = client_is_gone();
        answer_infer(w->r, w->err, &w->parts);
}

static void on_done(struct infer_call *c) {
        struct rpc_infer         *r = c->options.owner;
        struct infer_answer_parts parts;
        struct error             *err;
        bool                      is_long = false;

        if (grpc_call_is_aborted(r->inference.grpc))
                err = client_is_gone();
        else
                err = make_answer(&r->inference, &parts, &is_long);
        if (is_long)
                start_long_work(get_long_work(r), run_answer, on_answer, false);
        else
                answer_infer(r, err, &parts);
}

static struct error *read_message(struct rpc_inference *i, struct str message, struct buf *owner) {
        TRY(rpc_inference_read(i, message, owner));
        if (i->is_decoupled)
                return error_new_text(ERR_UNSUPPORTED, "ModelInfer RPC doesn't support models with "
                                                       "decoupled transaction policy");
        return NULL;
}

/* Finishes the call with the text of the error; takes the error. */
static void refuse_access(struct grpc_call *grpc, enum access_verdict verdict, struct error *err) {
        AUTO_ERROR gone = err;

        grpc_call_finish(grpc, grpc_code_of_access(verdict), gone->message);
}

static struct rpc_inference_read_times trace_read(const struct rpc_inference *i) {
        return (struct rpc_inference_read_times){ i->wire.model_name, i->grpc->recv_start_ns,
                                                  i->grpc->recv_end_ns };
}

static struct trace_record *start_trace(const struct rpc_inference *i) {
        struct rpc_inference_read_times read = trace_read(i);

        return rpc_inference_start_trace(i->grpc, &read);
}

/* Answers a request that was not started; takes the error. */
static void refuse_infer(struct rpc_infer *r, struct error *err) {
        struct grpc_call   *grpc = r->inference.grpc;
        enum access_verdict verdict = r->inference.verdict;
        struct arena        memory = { 0 };

        if (r->memory != NULL)
                memory = r->memory->arena;
        rpc_inference_done(&r->inference);
        if (verdict == ACCESS_GRANTED)
                fail_call(grpc, err);
        else
                refuse_access(grpc, verdict, err);
        arena_done(&memory);
}

static struct error *submit_decoded(struct long_work *w) {
        struct rpc_inference           *i = &w->r->inference;
        struct rpc_inference_read_times read;

        if (w->message.len > 0)
                TRY(read_message(i, w->message, w->owner));
        TRY(rpc_inference_fill(i));
        read = trace_read(i);
        w->trace = rpc_inference_create_trace(i->grpc, &read);
        return infer_call_submit(&i->call, w->trace);
}

static void run_reading(struct loop_work *work) {
        struct long_work *w = CONTAINER_OF(work, struct long_work, work);

        w->err = submit_decoded(w);
}

static void on_reading(struct loop_work *work) {
        struct long_work *w = CONTAINER_OF(work, struct long_work, work);
        struct rpc_infer *r = w->r;
        struct error     *err;

        r->has_long_work = false;
        buf_unref(STEAL(w->owner));
        rpc_inference_attach_trace(r->inference.grpc, w->trace);
        err = infer_call_take_back(&r->inference.call, work, w->err,
                                   grpc_call_is_aborted(r->inference.grpc));
        if (err != NULL)
                refuse_infer(r, err);
}

/* `owner` is NULL when the message is already read. */
static void start_long_read(struct rpc_infer *r, struct str message, struct buf *owner) {
        struct long_work *w = get_long_work(r);

        w->message = message;
        w->owner = owner;
        if (owner != NULL)
                buf_ref(owner);
        start_long_work(w, run_reading, on_reading,
                        message.len > 0 && rpc_inference_is_short(message));
}

void rpc_infer(struct grpc_call *grpc, struct str message, struct buf *owner) {
        struct rpc_infer     *r = arena_alloc(&grpc->arena, sizeof(*r));
        struct rpc_inference *i = &r->inference;
        struct error         *err;

        rpc_inference_init(i, grpc, &grpc->arena, r, on_done);
        r->memory = NULL;
        r->has_long_work = false;
        grpc->pending = r;
        if (rpc_inference_is_long(message)) {
                start_long_read(r, message, owner);
                return;
        }
        err = read_message(i, message, owner);
        if (err == NULL && rpc_inference_has_long_tensors(i)) {
                start_long_read(r, STR_LIT(""), NULL);
                return;
        }
        if (err == NULL)
                err = rpc_inference_fill(i);
        if (err == NULL)
                err = infer_call_start(&i->call, start_trace(i));
        if (err != NULL)
                refuse_infer(r, err);
        /* On success `r` may already be gone, because the call was answered. */
}

void rpc_infer_cancel(struct grpc_call *grpc) {
        struct rpc_infer *r = grpc->pending;

        if (r->has_long_work)
                grpc_call_compute_cancel(grpc, &r->memory->work);
        else
                infer_call_cancel(&r->inference.call);
}
