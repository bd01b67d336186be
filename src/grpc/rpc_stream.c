/* SPDX-License-Identifier: BSD-3-Clause */
#include "grpc/rpc_stream.h"

#include "base/list.h"
#include "base/mem.h"
#include "base/clock.h"
#include "frontend/tracer.h"
#include "grpc/grpc_service.h"
#include "grpc/grpc_trace.h"
#include "grpc/rpc_inference.h"

#include "triton/core/tritonserver.h"

/* A request of a few small tensors fits without another allocation. */
#define REQUEST_FIRST_BYTES 4096
/* Requests kept for the next ones. Few: there may be ten thousand streams. */
#define MAX_IDLE_REQUESTS 2

struct stream {
        struct grpc_call *call;    /* borrowed: holds this */
        struct list       active;  /* struct stream_request, all */
        struct list       ordered; /* those that answer in order, oldest first */
        struct list       idle;    /* struct stream_request, owned, for reuse */
        struct arena      scratch; /* of one response */
        struct infer_call_response *first_kept; /* owned; not yet with the socket, oldest first */
        struct infer_call_response *last_kept;
        struct error     *failure; /* owned; the stream ends with it */
        size_t            n_users; /* active requests, callbacks that are running */
        size_t            n_active;
        size_t            n_idle;
        size_t            n_bytes;          /* of the messages of active requests */
        uint64_t          waiting_since_ns; /* for traces: of the next message */
        bool              ends_with_errors; /* triton_grpc_error */
        bool              is_half_closed;
        bool              is_over; /* aborted or failed: nothing more is started or sent */
        bool              is_paused;
};

struct stream_request {
        struct stream            *stream; /* borrowed: outlives it */
        struct list_node          by_stream;
        struct list_node          in_order;
        size_t                    n_bytes;
        bool                      is_ordered;
        bool                      is_ready;  /* ordered: `answer` can be sent */
        bool                      was_final; /* decoupled: the last response said so */
        struct infer_answer_parts answer;    /* ordered; in arena */
        struct trace_record      *trace;     /* ref; NULL = not traced */
        struct rpc_inference      inference;
        struct arena              arena;
        char                      first[REQUEST_FIRST_BYTES];
};

/* What all streams of this thread's loop have in flight. */
static _Thread_local struct {
        size_t n_requests;
        size_t n_bytes;
} in_flight;

/* ---- requests ---- */

static struct stream_request *take_request(struct stream *s) {
        struct stream_request *r;

        if (s->n_idle > 0) {
                r = LIST_ENTRY(list_first(&s->idle), struct stream_request, by_stream);
                list_remove(&r->by_stream);
                s->n_idle--;
        } else {
                r = mem_alloc(sizeof(*r));
                arena_init(&r->arena, r->first, sizeof(r->first), 0);
        }
        r->stream = s;
        r->is_ordered = r->is_ready = r->was_final = false;
        r->trace = NULL;
        r->answer = (struct infer_answer_parts){ 0 };
        list_append(&s->active, &r->by_stream);
        s->n_active++;
        in_flight.n_requests++;
        s->n_users++;
        return r;
}

static void free_request(struct stream_request *r) {
        arena_done(&r->arena);
        free(r);
}

static void release(struct stream_request *r) {
        struct stream *s = r->stream;

        rpc_inference_done(&r->inference);
        trace_record_unref(r->trace);
        arena_reset(&r->arena);
        list_remove(&r->by_stream);
        s->n_bytes -= r->n_bytes;
        in_flight.n_bytes -= r->n_bytes;
        s->n_active--;
        in_flight.n_requests--;
        s->n_users--;
        if (s->n_idle == MAX_IDLE_REQUESTS) {
                free_request(r);
                return;
        }
        list_append(&s->idle, &r->by_stream);
        s->n_idle++;
}

/* ---- responses that are not written yet ---- */

/* In on_response(), after the response was sent. `mark`: where its last byte is in all of the
 * stream's. */
static void keep_response(struct stream *s, struct infer_call *c) {
        struct infer_call_response *r = infer_call_keep_response(c);

        r->mark = grpc_call_written_bytes(s->call) + grpc_call_unsent_bytes(s->call);
        r->next = NULL;
        if (s->first_kept)
                s->last_kept->next = r;
        else
                s->first_kept = r;
        s->last_kept = r;
}

static void drop_kept(struct stream *s, uint64_t written) {
        while (s->first_kept && s->first_kept->mark <= written) {
                struct infer_call_response *r = s->first_kept;

                s->first_kept = r->next;
                infer_call_response_free(r);
        }
}

static void on_written(struct grpc_call *call) {
        drop_kept(call->pending, grpc_call_written_bytes(call));
}

/* ---- the end ---- */

static void cancel_all(struct stream *s) {
        s->is_over = true;
        drop_kept(s, UINT64_MAX);
        LIST_FOR_EACH(&s->active, node) {
                infer_call_cancel(
                        &LIST_ENTRY(node, struct stream_request, by_stream)->inference.call);
        }
}

/* The first failure counts; takes it. */
static void fail_stream(struct stream *s, struct error *err) {
        if (s->is_over) {
                error_free(err);
                return;
        }
        s->failure = err;
        cancel_all(s);
}

static void finish(struct stream *s) {
        struct grpc_call *call = s->call;
        struct error     *failure = s->failure;
        bool              is_over = s->is_over;

        LIST_FOR_EACH(&s->idle, node) {
                free_request(LIST_ENTRY(node, struct stream_request, by_stream));
        }
        drop_kept(s, UINT64_MAX);
        arena_done(&s->scratch);
        call->on_written = NULL;
        if (failure)
                grpc_call_fail(call, failure);
        else
                grpc_call_finish(call, is_over ? GRPC_CANCELLED : GRPC_OK, NULL);
}

/* When all streams together have too much in flight, each may have one request: then the end of
 * that one is when it looks again. */
static bool is_full(const struct stream *s) {
        if (s->n_active > 0 && (in_flight.n_requests >= RPC_STREAM_MAX_REQUESTS_OF_LOOP ||
                                in_flight.n_bytes >= RPC_STREAM_MAX_BYTES_OF_LOOP))
                return true;
        return s->n_active >= RPC_STREAM_MAX_REQUESTS || s->n_bytes >= RPC_STREAM_MAX_BYTES;
}

/* The end of each callback, which counts as a user while it runs: the stream may be gone
 * afterwards. */
static void leave(struct stream *s) {
        s->n_users--;
        if (s->n_users == 0 && (s->is_over || s->is_half_closed)) {
                finish(s);
        } else if (s->is_paused && !is_full(s)) {
                s->is_paused = false;
                grpc_call_resume(s->call); /* may call back before it returns */
        } else if (!s->is_paused && !s->is_half_closed && is_full(s)) {
                s->is_paused = true;
                grpc_call_pause(s->call);
        }
}

/* ---- answers ---- */

static void trace_point(struct stream_request *r, enum trace_point point) {
        if (UNLIKELY(r->trace != NULL))
                trace_record_point(r->trace, point, clock_now_ns());
}

static void send_parts(struct stream_request *r, struct infer_answer_parts *parts) {
        struct stream *s = r->stream;

        trace_point(r, TRACE_POINT_GRPC_SEND_START);
        if (s->is_over)
                infer_answer_parts_done(parts);
        else
                grpc_call_send(s->call, parts->parts, parts->n_parts);
        parts->n_parts = 0;
        trace_point(r, TRACE_POINT_GRPC_SEND_END);
}

/* Everything that is ready and has nothing before it. */
static void flush_ordered(struct stream *s) {
        while (!list_is_empty(&s->ordered)) {
                struct stream_request *r =
                        LIST_ENTRY(list_first(&s->ordered), struct stream_request, in_order);

                if (!r->is_ready)
                        return;
                list_remove(&r->in_order);
                send_parts(r, &r->answer);
                release(r);
        }
}

static struct error *encode(struct stream_request *r, const struct infer_answer *answer,
                            struct arena *arena, struct infer_answer_parts *ret) {
        struct infer_answer_memory memory = { arena, grpc_call_buf_pool(r->stream->call) };

        return infer_encode(answer, &memory, ret);
}

/* The answer of a decoupled model, now. */
static void send_now(struct stream_request *r, const struct infer_answer *answer) {
        struct stream            *s = r->stream;
        struct infer_answer_parts parts;
        struct error             *err = encode(r, answer, &s->scratch, &parts);

        if (err)
                fail_stream(s, err);
        else
                send_parts(r, &parts);
        arena_reset(&s->scratch);
}

/* The answer of a model that is not decoupled, in its turn; what it was made from may go. */
static void put_in_order(struct stream_request *r, const struct infer_answer *answer) {
        struct stream *s = r->stream;
        struct error  *err = encode(r, answer, &r->arena, &r->answer);

        if (err)
                fail_stream(s, err);
        r->is_ready = true;
        flush_ordered(s);
}

static void tell(struct stream_request *r, const struct infer_answer *answer) {
        if (r->is_ordered)
                put_in_order(r, answer);
        else
                send_now(r, answer);
}

/* A failure of the model or on the way from it; takes it. */
static void tell_failure(struct stream_request *r, struct error *err, bool is_final) {
        const struct infer_wire *wire = &r->inference.wire;

        if (r->stream->ends_with_errors) {
                fail_stream(r->stream, err);
                err = NULL;
        }
        tell(r, &(struct infer_answer){
                        .model_name = wire->model_name,
                        .model_version = wire->model_version,
                        .id = wire->request.id,
                        .is_streamed = true,
                        .has_final = true,
                        .is_final = is_final,
                        .error_message = err ? err->message : NULL,
                });
        error_free(err);
}

/* A request that was not started; takes the error. */
static void tell_refusal(struct stream_request *r, struct error *err) {
        bool is_ordered = r->is_ordered;

        tell(r, &(struct infer_answer){
                        .model_name = "",
                        .model_version = "",
                        .id = r->inference.wire.request.id,
                        .is_streamed = true,
                        .error_message = err->message,
                });
        error_free(err);
        if (!is_ordered)
                release(r);
}

/* The end of a decoupled request without a response: told to those who asked for it. */
static void tell_empty_final(struct stream_request *r) {
        const struct infer_wire *wire = &r->inference.wire;

        tell(r, &(struct infer_answer){
                        .model_name = wire->model_name,
                        .model_version = "",
                        .id = wire->request.id,
                        .is_streamed = true,
                        .has_final = true,
                        .is_final = true,
                });
}

/* ---- from the core ---- */

static void on_response(struct infer_call *c, struct TRITONSERVER_InferenceResponse *response) {
        struct stream_request       *r = c->options.owner;
        struct stream               *s = r->stream;
        struct rpc_inference_framing framing = { .is_streamed = true,
                                                 .is_final = c->is_final_response };
        struct infer_answer_parts    parts;
        struct error                *err;

        r->was_final = framing.is_final;
        if (s->is_over)
                return;
        err = rpc_inference_encode(&r->inference, response, &framing, &s->scratch, &parts);
        if (err) {
                arena_reset(&s->scratch);
                tell_failure(r, err, framing.is_final);
                return;
        }
        send_parts(r, &parts);
        arena_reset(&s->scratch);
        if (!s->is_over && grpc_call_unsent_bytes(s->call) > 0)
                keep_response(s, c);
}

static void end_ordered(struct stream_request *r) {
        static const struct rpc_inference_framing framing = { .is_streamed = true,
                                                              .is_final = true };
        struct TRITONSERVER_InferenceResponse    *response;
        struct error *err = infer_call_get_response(&r->inference.call, &response);

        if (!err)
                err = rpc_inference_encode(&r->inference, response, &framing, &r->arena,
                                           &r->answer);
        if (err) {
                tell_failure(r, err, true);
                return;
        }
        /* It may have to wait, and needs no longer what it was made from. */
        rpc_inference_done(&r->inference);
        r->is_ready = true;
        flush_ordered(r->stream);
}

static void on_done(struct infer_call *c) {
        struct stream_request *r = c->options.owner;
        struct stream         *s = r->stream;

        s->n_users++;
        if (r->is_ordered) {
                end_ordered(r);
        } else {
                if (r->inference.wire.wants_empty_final && !r->was_final)
                        tell_empty_final(r);
                release(r);
        }
        leave(s);
}

/* ---- from the client ---- */

static struct infer_call_limits get_limits(const struct stream *s) {
        uint32_t max = s->call->service->max_responses;
        uint32_t share = (uint32_t)MAX(RPC_STREAM_MAX_UNWRITTEN / s->n_active, 1);

        return (struct infer_call_limits){
                .max_responses = max > 0 ? MIN(max, share) : share,
                .max_bytes = RPC_STREAM_MAX_UNWRITTEN_BYTES / s->n_active,
        };
}

static struct error *prepare(struct stream_request *r, struct str message, struct buf *owner) {
        struct error *err = rpc_inference_read(&r->inference, message, owner);

        if (r->inference.is_decoupled) {
                r->inference.call.options.on_response = on_response;
                r->inference.call.options.limits = get_limits(r->stream);
        } else {
                r->is_ordered = true;
                list_append(&r->stream->ordered, &r->in_order);
        }
        return err ? err : rpc_inference_fill(&r->inference);
}

/* What was waited for since the message before it. */
static struct trace_record *start_trace(struct stream_request *r) {
        struct stream *s = r->stream;
        uint64_t       since_ns = s->waiting_since_ns;

        if (LIKELY(!tracer_is_on(s->call->service->tracer)))
                return NULL;
        s->waiting_since_ns = clock_now_ns();
        r->trace = grpc_trace_start(s->call,
                                    &(struct grpc_trace_read){ r->inference.wire.model_name,
                                                               since_ns, s->waiting_since_ns });
        return r->trace;
}

static void start(struct stream *s, struct str message, struct buf *owner) {
        struct stream_request *r = take_request(s);
        struct error          *err;

        r->n_bytes = message.len;
        s->n_bytes += message.len;
        in_flight.n_bytes += message.len;
        rpc_inference_init(&r->inference, s->call, &r->arena, r, on_done);
        err = prepare(r, message, owner);
        if (!err)
                err = infer_call_start(&r->inference.call, start_trace(r));
        if (err)
                tell_refusal(r, err);
        /* Otherwise it may have been answered already. */
}

void rpc_stream_open(struct grpc_call *call) {
        struct stream *s = ARENA_NEW(&call->arena, struct stream);

        s->call = call;
        s->waiting_since_ns = call->recv_start_ns;
        list_init(&s->active);
        list_init(&s->ordered);
        list_init(&s->idle);
        arena_init(&s->scratch, NULL, 0, 0);
        s->ends_with_errors = str_is(grpc_call_metadata(call, "triton_grpc_error"), "true");
        call->pending = s;
        call->on_written = on_written;
}

void rpc_stream_read(struct grpc_call *call, struct str message, struct buf *owner) {
        struct stream *s = call->pending;

        s->n_users++;
        if (!s->is_over)
                start(s, message, owner);
        leave(s);
}

void rpc_stream_half_close(struct grpc_call *call) {
        struct stream *s = call->pending;

        s->n_users++;
        s->is_half_closed = true;
        leave(s);
}

void rpc_stream_abort(struct grpc_call *call) {
        struct stream *s = call->pending;

        s->n_users++;
        cancel_all(s);
        leave(s);
}
