/* SPDX-License-Identifier: BSD-3-Clause */
#include "grpc/rpc_stream.h"

#include "base/byte_budget.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/reserve.h"
#include "call/kept_responses.h"
#include "call/service.h"
#include "grpc/rpc_inference.h"
#include "net/loop.h"
#include "trace/tracer.h"
#include "triton/core/tritonserver.h"

#include <assert.h>

/* First memory of a request's arena: a few small tensors fit without another allocation. */
#define REQUEST_FIRST_BYTES 4096
/* Requests that a stream keeps for reuse. Few, because there may be ten thousand streams. */
#define MAX_IDLE_REQUESTS 2
/* What the memory budget is charged for a request: this one, and the core's with its first response. */
#define REQUEST_BYTES (sizeof(struct stream_request) + 2304)

struct stream {
        struct grpc_call      *call;    /* borrowed: holds this */
        struct list            active;  /* struct stream_request, all */
        struct list            ordered; /* requests that are answered in order, oldest first */
        struct list            idle;    /* struct stream_request, owned, for reuse */
        struct stream_request *reading; /* a compute thread reads its message; the next one waits */
        struct arena           scratch; /* for one response */
        struct kept_responses  kept;
        size_t                 n_users; /* active requests and running callbacks */
        size_t                 n_active;
        size_t                 n_idle;
        size_t                 n_bytes;     /* size of the messages of active requests */
        size_t                 n_long_work; /* steps that compute threads run */
        uint64_t waiting_since_ns;          /* for traces: start of waiting for the next message */
        bool     ends_with_errors;          /* triton_grpc_error */
        bool     is_half_closed;
        bool     is_over; /* aborted or failed; nothing more is started or sent */
        bool     is_paused;
};

#define MAX_LONG_WORK 4 /* of n_long_work; beyond it the stream reads no further request */

/* A step of a request that takes too long for the loop: reading it, or encoding an answer. A compute thread runs
 * it and owns the inference and the arena of the request until then. Responses of a decoupled model still
 * arrive meanwhile. */
struct long_work {
        struct loop_work            work;
        struct str                  message;  /* to be read; empty = already read */
        struct buf                 *owner;    /* ref: of the message */
        struct infer_call_limits    limits;   /* used if the model is decoupled */
        struct infer_call_response *response; /* owned; decoupled: to be encoded */
        struct infer_answer_parts   parts;    /* decoupled; in arena */
        struct arena                arena;
        struct error               *err; /* owned */
};

/* What happens to a request on this side of the core. The loop's thread makes all changes, with set_step():
 *
 *     IDLE           READING        a compute thread gets `long_work` to read the message
 *     READING        READING_EARLY  ordered: the first response comes meanwhile
 *     READING, READING_EARLY  IDLE  the message was read
 *     IDLE           ENCODING       a compute thread gets `long_work` to encode a response or the answer
 *     ENCODING       IDLE           it was encoded
 *     IDLE           READY          ordered: `answer` can be sent in its turn
 */
enum request_step { STEP_IDLE, STEP_READING, STEP_READING_EARLY, STEP_ENCODING, STEP_READY };

struct stream_request {
        struct stream    *stream; /* borrowed: outlives it */
        struct list_node  by_stream;
        struct list_node  in_order;
        size_t            n_bytes;
        enum request_step step;
        bool              is_charged; /* the memory budget had room; otherwise it is refused */
        bool              is_ordered;
        bool              is_done;   /* the model has sent its last response */
        bool              was_final; /* decoupled: the last response had the final flag */
        struct long_work  long_work;
        struct infer_call_response
                *first_waiting; /* owned; decoupled: came while one was being encoded */
        struct infer_call_response *last_waiting;
        struct infer_answer_parts   answer; /* ordered; in arena */
        struct trace_record        *trace;  /* ref; NULL = not traced */
        struct rpc_inference        inference;
        struct arena                arena;
        char                        first[REQUEST_FIRST_BYTES];
};

/* Requests in flight of all streams of this thread's loop. */
static _Thread_local struct {
        size_t n_requests;
        size_t n_bytes;
} in_flight;

/* ---- requests ---- */

static struct byte_budget *budget_of(const struct stream *s) {
        return buf_pool_budget(grpc_call_buf_pool(s->call));
}

static struct stream_request *take_request(struct stream *s) {
        struct stream_request *r;

        if (s->n_idle > 0) {
                r = LIST_ENTRY(list_first(&s->idle), struct stream_request, by_stream);
                list_remove(&r->by_stream);
                s->n_idle--;
        } else {
                r = mem_alloc(sizeof(*r));
                r->is_charged = grpc_call_charge(s->call, REQUEST_BYTES);
                arena_init(&r->arena, r->first, sizeof(r->first), 0);
                arena_set_budget(&r->arena, budget_of(s));
        }
        r->stream = s;
        r->is_ordered = r->is_done = r->was_final = false;
        r->step = STEP_IDLE;
        r->first_waiting = r->last_waiting = NULL;
        r->trace = NULL;
        r->answer = (struct infer_answer_parts){ 0 };
        list_append(&s->active, &r->by_stream);
        s->n_active++;
        in_flight.n_requests++;
        s->n_users++;
        return r;
}

static void set_step(struct stream_request *r, enum request_step to) {
        static const uint8_t targets[] = {
                [STEP_IDLE] = 1 << STEP_READING | 1 << STEP_ENCODING | 1 << STEP_READY,
                [STEP_READING] = 1 << STEP_READING_EARLY | 1 << STEP_IDLE,
                [STEP_READING_EARLY] = 1 << STEP_IDLE,
                [STEP_ENCODING] = 1 << STEP_IDLE,
                [STEP_READY] = 0,
        };

        (void)targets;
        assert((targets[r->step] & 1 << to) != 0);
        r->step = to;
}

/* True while a compute thread owns the inference and the arena. */
static bool has_long_work(const struct stream_request *r) {
        return r->step != STEP_IDLE && r->step != STEP_READY;
}

static void free_request(struct stream_request *r) {
        if (r->is_charged)
                grpc_call_discharge(r->stream->call, REQUEST_BYTES);
        arena_done(&r->arena);
        free(r);
}

static bool may_keep(const struct stream_request *r) {
        const struct stream *s = r->stream;

        /* Not one that the budget had no room for: it would be refused at each later use as well. */
        return r->is_charged && s->n_idle < MAX_IDLE_REQUESTS &&
               !byte_budget_is_half_used(budget_of(s));
}

static void release_request(struct stream_request *r) {
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
        if (!may_keep(r)) {
                free_request(r);
                return;
        }
        list_append(&s->idle, &r->by_stream);
        s->n_idle++;
}

/* ---- responses that are not written yet ---- */

/* Keeps a response that was sent until the stream has written its last byte. */
static void keep_response(struct stream *s, struct infer_call_response *r) {
        kept_responses_add(&s->kept, r,
                           grpc_call_written_bytes(s->call) + grpc_call_unsent_bytes(s->call));
}

static void on_written(struct grpc_call *call) {
        struct stream *s = call->pending;

        kept_responses_drop(&s->kept, grpc_call_written_bytes(call));
}

/* ---- the end ---- */

static void cancel_all(struct stream *s) {
        s->is_over = true;
        kept_responses_drop(&s->kept, UINT64_MAX);
        LIST_FOR_EACH(&s->active, node) {
                struct stream_request *r = LIST_ENTRY(node, struct stream_request, by_stream);

                if (has_long_work(r))
                        grpc_call_compute_cancel(s->call, &r->long_work.work);
                /* A compute thread may be writing the inference of that one; on_reading() cancels it. */
                if (r != s->reading)
                        infer_call_cancel(&r->inference.call);
        }
}

/* Ends the stream with the status of its first error and cancels all requests in flight. Takes the error. */
static void fail_stream(struct stream *s, struct error *err) {
        if (!s->is_over) {
                grpc_call_conclude(s->call, grpc_code_of_error(err->code), err->message);
                cancel_all(s);
        }
        error_free(err);
}

static void finish_stream(struct stream *s) {
        struct grpc_call *call = s->call;
        bool              is_over = s->is_over;

        LIST_FOR_EACH(&s->idle, node) {
                free_request(LIST_ENTRY(node, struct stream_request, by_stream));
        }
        kept_responses_drop(&s->kept, UINT64_MAX);
        arena_done(&s->scratch);
        call->on_written = NULL;
        grpc_call_finish(call, is_over ? GRPC_CANCELLED : GRPC_OK, NULL);
}

/* True when the stream must not start another request. If all streams together have too much in flight, or
 * the memory budget is nearly used up, each may have one request; its end makes the stream check again. */
static bool is_full(const struct stream *s) {
        if (s->n_active > 0 && (in_flight.n_requests >= RPC_STREAM_MAX_REQUESTS_OF_LOOP ||
                                in_flight.n_bytes >= RPC_STREAM_MAX_BYTES_OF_LOOP ||
                                byte_budget_is_tight(budget_of(s))))
                return true;
        return s->n_active >= RPC_STREAM_MAX_REQUESTS || s->n_bytes >= RPC_STREAM_MAX_BYTES;
}

static bool must_wait(const struct stream *s) {
        /* `reading`: only after a message was read is it known whether its model is decoupled, and a request
         * that is not takes its place in the order of answers then. If the next message were started
         * before, its answer could go first. */
        return s->reading != NULL || s->n_long_work >= MAX_LONG_WORK || is_full(s);
}

/* Ends a callback, which counts as a user while it runs. The stream may be gone afterwards. */
static void end_callback(struct stream *s) {
        s->n_users--;
        if (s->n_users == 0 && (s->is_over || s->is_half_closed)) {
                finish_stream(s);
        } else if (s->is_paused && !must_wait(s)) {
                s->is_paused = false;
                grpc_call_resume(s->call); /* may call back before it returns */
        } else if (!s->is_paused && !s->is_half_closed && must_wait(s)) {
                s->is_paused = true;
                grpc_call_pause(s->call);
        }
}

/* ---- answers ---- */

static void trace_point(struct stream_request *r, enum trace_point point) {
        if (r->trace != NULL)
                trace_record_point(r->trace, point, clock_now_ns());
}

static void send_parts(struct stream_request *r, struct infer_answer_parts *parts) {
        struct stream *s = r->stream;

        trace_point(r, TRACE_POINT_GRPC_SEND_START);
        if (s->is_over)
                infer_answer_parts_done(parts);
        else if (parts->is_packed)
                grpc_call_send_packed(s->call, parts->parts);
        else
                grpc_call_send(s->call, parts->parts, parts->n_parts);
        parts->n_parts = 0;
        trace_point(r, TRACE_POINT_GRPC_SEND_END);
}

/* Sends all ordered answers that are ready and have none before them. */
static void flush_ordered(struct stream *s) {
        while (!list_is_empty(&s->ordered)) {
                struct stream_request *r =
                        LIST_ENTRY(list_first(&s->ordered), struct stream_request, in_order);

                if (r->step != STEP_READY)
                        return;
                list_remove(&r->in_order);
                send_parts(r, &r->answer);
                if (r->is_done)
                        release_request(r);
        }
}

static struct error *encode_answer(struct stream_request *r, const struct infer_answer *answer,
                                   struct arena *arena, struct infer_answer_parts *ret) {
        struct infer_answer_memory memory = { arena, grpc_call_buf_pool(r->stream->call) };

        return infer_encode(answer, &memory, ret);
}

/* Sends an answer of a decoupled model. */
static void send_now(struct stream_request *r, const struct infer_answer *answer) {
        struct stream            *s = r->stream;
        struct infer_answer_parts parts;
        struct error             *err = encode_answer(r, answer, &s->scratch, &parts);

        if (err != NULL)
                fail_stream(s, err);
        else
                send_parts(r, &parts);
        arena_reset(&s->scratch);
}

/* Encodes an answer of a model that is not decoupled, and sends it when its turn comes. */
static void put_in_order(struct stream_request *r, const struct infer_answer *answer) {
        struct stream *s = r->stream;
        struct error  *err = encode_answer(r, answer, &r->arena, &r->answer);

        if (err != NULL)
                fail_stream(s, err);
        /* Ready also when the stream has failed: the requests behind it are released as the list empties, and
         * the call ends with the last of them. */
        set_step(r, STEP_READY);
        flush_ordered(s);
}

static void send_answer(struct stream_request *r, const struct infer_answer *answer) {
        if (r->is_ordered)
                put_in_order(r, answer);
        else
                send_now(r, answer);
}

/* Sends an error of the model or of encoding; takes it. */
static void send_failure(struct stream_request *r, struct error *err, bool is_final) {
        const struct infer_wire *wire = &r->inference.wire;

        if (r->stream->ends_with_errors) {
                fail_stream(r->stream, err);
                err = NULL;
        }
        send_answer(r, &(struct infer_answer){
                               .model_name = wire->model_name,
                               .model_version = wire->model_version,
                               .id = wire->request.id,
                               .is_streamed = true,
                               .has_final = true,
                               .is_final = is_final,
                               .error_message = err != NULL ? err->message : NULL,
                       });
        error_free(err);
}

/* Answers a request that was not started; takes the error. */
static void send_refusal(struct stream_request *r, struct error *err) {
        bool is_ordered = r->is_ordered;

        r->is_done = true;
        send_answer(r, &(struct infer_answer){
                               .model_name = "",
                               .model_version = "",
                               .id = r->inference.wire.request.id,
                               .is_streamed = true,
                               .error_message = err->message,
                       });
        error_free(err);
        if (!is_ordered)
                release_request(r);
}

/* Sends the end of a decoupled request without a response, to clients that asked for it. */
static void send_empty_final(struct stream_request *r) {
        const struct infer_wire *wire = &r->inference.wire;

        send_answer(r, &(struct infer_answer){
                               .model_name = wire->model_name,
                               .model_version = "",
                               .id = wire->request.id,
                               .is_streamed = true,
                               .has_final = true,
                               .is_final = true,
                       });
}

/* ---- from the core ---- */

static void start_long_work(struct stream_request *r, enum request_step step, loop_work_fn run,
                            loop_work_fn done) {
        r->long_work.work.run = run;
        r->long_work.work.done = done;
        r->long_work.work.is_short = step == STEP_READING && r->long_work.message.len > 0 &&
                                     rpc_inference_is_short(r->long_work.message);
        r->long_work.err = NULL;
        set_step(r, step);
        r->stream->n_long_work++;
        grpc_call_compute(r->stream->call, &r->long_work.work);
}

static struct rpc_inference_framing framing_of(bool is_final) {
        return (struct rpc_inference_framing){ .is_streamed = true, .is_final = is_final };
}

/* Sends a response of a decoupled model. Returns false and does nothing when encoding takes too long. */
static bool try_send_response(struct stream_request                 *r,
                              struct TRITONSERVER_InferenceResponse *response, bool is_final) {
        struct rpc_inference_framing framing = framing_of(is_final);
        struct stream               *s = r->stream;
        struct infer_answer_parts    parts = { 0 };
        struct error                *err;
        bool                         is_long;

        err = rpc_inference_encode(&r->inference, response, &framing, &s->scratch, &parts,
                                   &is_long);
        if (err == NULL && !is_long)
                send_parts(r, &parts);
        arena_reset(&s->scratch);
        if (err != NULL)
                send_failure(r, err, is_final);
        return !is_long;
}

static void keep_or_free(struct stream *s, struct infer_call_response *response) {
        if (!s->is_over && grpc_call_unsent_bytes(s->call) > 0)
                keep_response(s, response);
        else
                infer_call_response_free(response);
}

static void queue_response(struct stream_request *r, struct infer_call_response *response) {
        response->next = NULL;
        if (r->first_waiting != NULL)
                r->last_waiting->next = response;
        else
                r->first_waiting = response;
        r->last_waiting = response;
}

static struct infer_call_response *take_waiting(struct stream_request *r) {
        struct infer_call_response *response = r->first_waiting;

        r->first_waiting = response->next;
        return response;
}

static void run_response(struct loop_work *work) {
        struct long_work            *w = CONTAINER_OF(work, struct long_work, work);
        struct stream_request       *r = CONTAINER_OF(w, struct stream_request, long_work);
        struct rpc_inference_framing framing = framing_of(w->response->is_final);

        w->err = rpc_inference_encode_long(&r->inference, w->response->response, &framing,
                                           &w->arena, &w->parts);
}

static void end_decoupled(struct stream_request *r) {
        if (r->inference.wire.wants_empty_final && !r->was_final)
                send_empty_final(r);
        release_request(r);
}

static void send_waiting(struct stream_request *r);

static void on_response_encoded(struct loop_work *work) {
        struct long_work      *w = CONTAINER_OF(work, struct long_work, work);
        struct stream_request *r = CONTAINER_OF(w, struct stream_request, long_work);
        struct stream         *s = r->stream;
        bool                   is_final = w->response->is_final;

        s->n_users++;
        set_step(r, STEP_IDLE);
        s->n_long_work--;
        if (w->err != NULL)
                send_failure(r, STEAL(w->err), is_final);
        else
                send_parts(r, &w->parts);
        arena_done(&w->arena);
        keep_or_free(s, STEAL(w->response));
        send_waiting(r);
        end_callback(s);
}

/* Sends the responses that have arrived meanwhile, up to the next one that takes long to encode. The request
 * may be gone afterwards. */
static void send_waiting(struct stream_request *r) {
        struct stream *s = r->stream;

        while (r->first_waiting != NULL) {
                struct infer_call_response *response = take_waiting(r);

                if (!s->is_over && !try_send_response(r, response->response, response->is_final)) {
                        /* Neither the stream's scratch, which the loop uses meanwhile for other requests, nor
                         * the request's arena, which grows until the request ends: there may be any number
                         * of such responses. */
                        arena_init(&r->long_work.arena, NULL, 0, 0);
                        arena_set_budget(&r->long_work.arena, budget_of(s));
                        r->long_work.parts = (struct infer_answer_parts){ 0 };
                        r->long_work.response = response;
                        start_long_work(r, STEP_ENCODING, run_response, on_response_encoded);
                        return;
                }
                keep_or_free(s, response);
        }
        if (r->is_done)
                end_decoupled(r);
}

static void on_response(struct infer_call *c, struct TRITONSERVER_InferenceResponse *response) {
        struct stream_request *r = c->options.owner;
        struct stream         *s = r->stream;

        r->was_final = c->is_final_response;
        if (s->is_over)
                return;
        /* Queued even if it is small: responses of one request are sent in the order in which they came. */
        if (has_long_work(r)) {
                queue_response(r, infer_call_keep_response(c));
        } else if (!try_send_response(r, response, c->is_final_response)) {
                queue_response(r, infer_call_keep_response(c));
                send_waiting(r);
        } else if (!s->is_over && grpc_call_unsent_bytes(s->call) > 0) {
                keep_response(s, infer_call_keep_response(c));
        }
}

/* Finishes an ordered answer: frees the inference, and sends the answer when its turn comes. Takes the
 * error. */
static void answer_ordered(struct stream_request *r, struct error *err) {
        if (err != NULL) {
                send_failure(r, err, true);
                return;
        }
        rpc_inference_done(&r->inference);
        set_step(r, STEP_READY);
        flush_ordered(r->stream);
}

/* Finishes an early answer. The model may send more responses, which are dropped. Takes the error. */
static void answer_early(struct stream_request *r, struct error *err) {
        if (err != NULL)
                send_failure(r, err, false);
        else
                set_step(r, STEP_READY);
        flush_ordered(r->stream);
}

/* Ends a request whose early answer still waits for its turn, or was sent. */
static void end_early(struct stream_request *r) {
        if (list_is_linked(&r->in_order))
                rpc_inference_done(&r->inference);
        else
                release_request(r);
}

static void run_early(struct loop_work *work) {
        struct long_work            *w = CONTAINER_OF(work, struct long_work, work);
        struct stream_request       *r = CONTAINER_OF(w, struct stream_request, long_work);
        struct rpc_inference_framing framing = framing_of(false);
        uint32_t                     n;

        w->err = rpc_inference_encode_long(&r->inference,
                                           infer_call_first_response(&r->inference.call, &n),
                                           &framing, &r->arena, &r->answer);
}

static void on_early_made(struct loop_work *work) {
        struct long_work      *w = CONTAINER_OF(work, struct long_work, work);
        struct stream_request *r = CONTAINER_OF(w, struct stream_request, long_work);
        struct stream         *s = r->stream;
        bool                   was_done = r->is_done;

        s->n_users++;
        set_step(r, STEP_IDLE);
        s->n_long_work--;
        r->is_done = false; /* so that sending does not release it; end_early() does */
        answer_early(r, STEAL(w->err));
        r->is_done = was_done;
        if (was_done)
                end_early(r);
        end_callback(s);
}

/* Sends the first response when its turn comes, although the model has not ended; further ones are
 * dropped. */
static void send_early(struct stream_request *r) {
        struct rpc_inference_framing framing = framing_of(false);
        bool                         is_long = false;
        uint32_t                     n;
        struct infer_call           *c = &r->inference.call;
        struct error *err = rpc_inference_encode(&r->inference, infer_call_first_response(c, &n),
                                                 &framing, &r->arena, &r->answer, &is_long);

        if (is_long)
                start_long_work(r, STEP_ENCODING, run_early, on_early_made);
        else
                answer_early(r, err);
}

static void on_early(struct infer_call *c) {
        struct stream_request *r = c->options.owner;
        struct stream         *s = r->stream;

        if (s->is_over)
                return;
        s->n_users++;
        if (has_long_work(r)) /* still being submitted: on_reading() continues */
                set_step(r, STEP_READING_EARLY);
        else
                send_early(r);
        end_callback(s);
}

static void run_answer(struct loop_work *work) {
        struct long_work            *w = CONTAINER_OF(work, struct long_work, work);
        struct stream_request       *r = CONTAINER_OF(w, struct stream_request, long_work);
        struct rpc_inference_framing framing = framing_of(true);
        struct TRITONSERVER_InferenceResponse *response;

        w->err = infer_call_get_response(&r->inference.call, &response);
        if (w->err == NULL)
                w->err = rpc_inference_encode_long(&r->inference, response, &framing, &r->arena,
                                                   &r->answer);
}

static void on_answer(struct loop_work *work) {
        struct long_work      *w = CONTAINER_OF(work, struct long_work, work);
        struct stream_request *r = CONTAINER_OF(w, struct stream_request, long_work);
        struct stream         *s = r->stream;

        s->n_users++;
        set_step(r, STEP_IDLE);
        s->n_long_work--;
        answer_ordered(r, STEAL(w->err));
        end_callback(s);
}

static void end_ordered(struct stream_request *r) {
        struct rpc_inference_framing           framing = framing_of(true);
        struct TRITONSERVER_InferenceResponse *response;
        struct error *err = infer_call_get_response(&r->inference.call, &response);
        bool          is_long = false;

        if (err == NULL)
                err = rpc_inference_encode(&r->inference, response, &framing, &r->arena, &r->answer,
                                           &is_long);
        if (is_long)
                start_long_work(r, STEP_ENCODING, run_answer, on_answer);
        else
                answer_ordered(r, err);
}

static void end_request(struct stream_request *r) {
        if (!r->is_ordered)
                end_decoupled(r);
        else if (r->step == STEP_READY)
                end_early(r);
        else
                end_ordered(r);
}

static void on_done(struct infer_call *c) {
        struct stream_request *r = c->options.owner;
        struct stream         *s = r->stream;

        s->n_users++;
        r->is_done = true;
        /* Otherwise a compute thread still uses its memory, and the end of that work ends the request. */
        if (!has_long_work(r))
                end_request(r);
        end_callback(s);
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

/* Runs on any thread. */
static struct error *read_message(struct stream_request *r, struct str message, struct buf *owner,
                                  const struct infer_call_limits *limits) {
        struct error *err = rpc_inference_read(&r->inference, message, owner);

        if (r->inference.is_decoupled) {
                r->inference.call.options.on_response = on_response;
                r->inference.call.options.limits = *limits;
        } else {
                r->inference.call.options.on_early = on_early;
        }
        return err;
}

/* Called once it is known whether the model is decoupled. */
static void append_ordered(struct stream_request *r) {
        if (r->inference.is_decoupled)
                return;
        r->is_ordered = true;
        list_append(&r->stream->ordered, &r->in_order);
}

/* Starts the trace; the wait began after the message before. */
static struct trace_record *start_trace(struct stream_request *r) {
        struct stream *s = r->stream;
        uint64_t       since_ns = s->waiting_since_ns;

        if (!tracer_is_on(s->call->service->tracer))
                return NULL;
        s->waiting_since_ns = clock_now_ns();
        r->trace = rpc_inference_start_trace(s->call, &(struct rpc_inference_read_times){
                                                              r->inference.wire.model_name,
                                                              since_ns, s->waiting_since_ns });
        return r->trace;
}

static struct error *fill_request(struct stream_request *r) {
        if (!r->is_charged)
                return error_new_text(ERR_UNAVAILABLE, BYTE_BUDGET_USED_UP);
        return rpc_inference_fill(&r->inference);
}

static struct error *submit_request(struct stream_request *r) {
        struct long_work *w = &r->long_work;

        if (w->message.len > 0)
                TRY(read_message(r, w->message, w->owner, &w->limits));
        TRY(fill_request(r));
        return infer_call_submit(&r->inference.call, start_trace(r));
}

static void run_reading(struct loop_work *work) {
        struct long_work *w = CONTAINER_OF(work, struct long_work, work);

        w->err = submit_request(CONTAINER_OF(w, struct stream_request, long_work));
}

static void on_reading(struct loop_work *work) {
        struct long_work      *w = CONTAINER_OF(work, struct long_work, work);
        struct stream_request *r = CONTAINER_OF(w, struct stream_request, long_work);
        struct stream         *s = r->stream;
        bool                   came_early = r->step == STEP_READING_EARLY;

        s->n_users++;
        s->reading = NULL;
        set_step(r, STEP_IDLE);
        s->n_long_work--;
        buf_unref(STEAL(w->owner));
        if (work->is_cancelled)
                w->err = error_new_text(ERR_CANCELLED, "the client has gone");
        if (w->message.len > 0)
                append_ordered(r);
        if (w->err != NULL) {
                send_refusal(r, STEAL(w->err));
        } else {
                if (s->is_over)
                        infer_call_cancel(&r->inference.call);
                if (r->first_waiting !=
                    NULL) /* the response came before this; the request has not ended */
                        send_waiting(r);
                if (came_early && !s->is_over)
                        send_early(r);
                infer_call_submitted(&r->inference.call);
        }
        end_callback(s);
}

/* `owner` is NULL when the message is already read. */
static void start_long_read(struct stream_request *r, struct str message, struct buf *owner) {
        r->long_work.message = message;
        r->long_work.owner = owner;
        r->long_work.limits = get_limits(r->stream);
        if (owner != NULL)
                buf_ref(owner);
        r->stream->reading = r;
        start_long_work(r, STEP_READING, run_reading, on_reading);
}

static void start_request(struct stream *s, struct str message, struct buf *owner) {
        struct infer_call_limits limits;
        struct stream_request   *r = take_request(s);
        struct error            *err;

        r->n_bytes = message.len;
        s->n_bytes += message.len;
        in_flight.n_bytes += message.len;
        rpc_inference_init(&r->inference, s->call, &r->arena, r, on_done);
        if (rpc_inference_is_long(message)) {
                start_long_read(r, message, owner);
                return;
        }
        limits = get_limits(s);
        err = read_message(r, message, owner, &limits);
        append_ordered(r);
        if (err == NULL && rpc_inference_has_long_tensors(&r->inference)) {
                start_long_read(r, STR_LIT(""), NULL);
                return;
        }
        if (err == NULL)
                err = fill_request(r);
        if (err == NULL)
                err = infer_call_start(&r->inference.call, start_trace(r));
        if (err != NULL)
                send_refusal(r, err);
        /* On success `r` may already be gone, because the request was answered. */
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
        if (reserve_is_short())
                fail_stream(s, infer_no_memory());
        if (!s->is_over)
                start_request(s, message, owner);
        end_callback(s);
}

void rpc_stream_half_close(struct grpc_call *call) {
        struct stream *s = call->pending;

        s->n_users++;
        s->is_half_closed = true;
        end_callback(s);
}

void rpc_stream_abort(struct grpc_call *call) {
        struct stream *s = call->pending;

        s->n_users++;
        cancel_all(s);
        end_callback(s);
}

bool rpc_stream_is_quiet(const struct grpc_call *call) {
        const struct stream *s = call->pending;

        return s->n_users == 0 && s->kept.first == NULL;
}
