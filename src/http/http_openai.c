/* SPDX-License-Identifier: BSD-3-Clause */
#include "http/http_openai.h"

#include "base/buf.h"
#include "base/byte_budget.h"
#include "base/clock.h"
#include "base/strbuf.h"
#include "call/infer_call.h"
#include "call/infer_response.h"
#include "call/kept_responses.h"
#include "call/service.h"
#include "core_api/core_error.h"
#include "http/http_infer.h"
#include "http/http_reply.h"
#include "http/http_trace.h"
#include "net/loop.h"
#include "net/loop_timer.h"
#include "openai/openai_answer.h"
#include "openai/openai_embedding.h"
#include "openai/openai_error.h"
#include "openai/openai_map.h"
#include "openai/openai_metrics.h"
#include "openai/openai_settings.h"
#include "triton/core/neso.h"

#include <string.h>

#define EVENT_STREAM "text/event-stream; charset=utf-8"
#define HEARTBEAT ": \n\n" /* a comment, which clients ignore */

/* Limits of a request's responses that are not written yet; its inferences share them, and beyond them the
 * backend waits. */
#define MAX_UNWRITTEN_BYTES ((size_t)1 << 20)
#define MAX_UNWRITTEN 1024
/* What a request holds for its answer beyond this is charged to the memory budget, in steps of as much. */
#define CHARGE_STEP ((size_t)16 << 10)
/* Inferences of an embedding request at a time: this many, and one more for so many bytes of the body. Each holds some
 * 4 KiB, and a text may have one byte. */
#define MIN_AT_ONCE 128
#define BYTES_PER_RUN 512

struct pending_openai;

/* One inference of a request. */
struct openai_run {
        struct pending_openai   *p; /* borrowed: holds this */
        struct openai_part_state state;
        struct infer_request     request;
        struct infer_call        call;
        struct arena       arena;  /* of the request, when this is not the first one of the run */
        struct openai_run *next;   /* borrowed: of the list `idle` */
        uint32_t           number; /* of the part */
        bool               has_vectors;
};

/* One request in progress; in the arena of its http_call. */
struct pending_openai {
        struct http_call           *http; /* borrowed: holds this */
        struct openai_settings     *settings;
        struct openai_request       request;
        struct openai_model         model;
        struct openai_answer        answer;
        struct strbuf               text;       /* events that are not sent; or the whole answer */
        struct arena                scratch;    /* of one response */
        struct openai_run         **runs;       /* in arena */
        struct openai_run          *render;     /* chat: renders the messages; NULL = not needed */
        struct openai_vectors      *vectors;    /* embeddings: one for each part; in arena */
        struct infer_call_response *vectors_of; /* owned: the responses that they are in */
        struct openai_split         split;
        struct openai_run    *idle;    /* borrowed: runs that have ended, for the parts to come */
        uint32_t              n_begun; /* parts */
        uint32_t              n_runs;
        uint32_t              n_running;   /* inferences, and 1 while they are being started */
        bool                  is_reading;  /* a compute thread has the request */
        bool                  is_starting; /* start_idle() is running */
        bool                  has_begun;   /* stream: status and headers are sent */
        bool                  has_failed;  /* its failure is sent, though inferences go on */
        bool                  is_late; /* so is the end of the answer: a time limit has passed */
        struct error         *failure; /* owned: that the client has not seen */
        enum access_verdict   verdict; /* of the model that the body names */
        const char           *refusal; /* text of the verdict */
        struct kept_responses kept;
        struct loop_timer     heartbeat;
        struct loop_timer     deadline;
        uint64_t              render_by_ns; /* end of the time to render the messages */
        struct loop_work      work;
        struct http_part      part;          /* the whole answer */
        size_t                charged_bytes; /* to the memory budget, for `answer` and `text` */
        struct openai_meter  *meter;
        uint64_t              last_text_ns; /* 0: there was none */
        uint64_t              last_sent_ns;
        char                  id[OPENAI_ID_BYTES];
};

/* ---- the end ---- */

static void run_done(struct openai_run *run) {
        if (run == NULL)
                return;
        infer_call_done(&run->call);
        infer_request_done(&run->request);
}

static void free_vectors(struct pending_openai *p) {
        struct infer_call_response *one;

        while ((one = p->vectors_of) != NULL) {
                p->vectors_of = one->next;
                infer_call_response_free(one);
        }
}

static struct byte_budget *budget_of(const struct pending_openai *p) {
        return buf_pool_budget(http_call_buf_pool(p->http));
}

/* Charges the budget for what the answer holds now, `more` included: the model decides how much that is, for each
 * choice. Runs on the thread that has the request. */
static struct error *charge_answer(struct pending_openai *p, size_t more) {
        struct byte_budget *budget = budget_of(p);
        size_t              held = openai_answer_held_bytes(&p->answer) + p->text.cap + more;

        if (budget == NULL || held <= p->charged_bytes + CHARGE_STEP)
                return NULL;
        if (!byte_budget_take(budget, held - p->charged_bytes)) {
                byte_budget_refused(budget);
                return error_new_text(ERR_UNAVAILABLE, BYTE_BUDGET_USED_UP);
        }
        p->charged_bytes = held;
        return NULL;
}

static void discharge_answer(struct pending_openai *p) {
        if (p->charged_bytes > 0)
                byte_budget_give(budget_of(p), p->charged_bytes);
        p->charged_bytes = 0;
}

/* Frees what the request holds outside the arena. */
static void pending_done(struct pending_openai *p) {
        loop_timer_cancel(&p->heartbeat);
        loop_timer_cancel(&p->deadline);
        p->http->on_abort = p->http->on_written = NULL;
        kept_responses_drop(&p->kept, UINT64_MAX);
        run_done(p->render);
        for (uint32_t i = 0; i < p->n_runs; i++) {
                run_done(p->runs[i]);
                arena_done(&p->runs[i]->arena);
        }
        p->n_runs = 0;
        free_vectors(p);
        openai_answer_done(&p->answer);
        strbuf_done(&p->text);
        arena_done(&p->scratch);
        discharge_answer(p);
}

static struct str print_u64(struct arena *arena, uint64_t n) {
        return str_of(arena_printf(arena, "%llu", (unsigned long long)n));
}

static struct str processing_ms(const struct pending_openai *p) {
        uint64_t ns = clock_now_ns() - p->http->recv_start_ns;

        return print_u64(&p->http->arena, ns / NS_PER_MS);
}

static unsigned status_of(const struct error *err) {
        return http_status_of_code(err->code);
}

void http_openai_refuse(struct http_call *call, const struct http_openai_refusal *refusal) {
        struct error       *err = refusal->err;
        AUTO_STRBUF         text = { 0 };
        struct http_header  headers[2];
        struct http_reply   reply = { .content_type = HTTP_JSON, .headers = headers, .n_parts = 1 };
        struct http_part    part;
        struct openai_error e = { .status = refusal->status != 0 ? refusal->status : status_of(err),
                                  .message = err->message,
                                  .param = err->field,
                                  .code = refusal->code };

        if (e.status == 404 && e.code == NULL) {
                e.code = OPENAI_CODE_NO_MODEL;
                e.param = "model";
        }
        openai_error_print(&e, &text);
        if (text.overflowed || !http_call_keep_text(call, strbuf_str(&text), &part)) {
                error_free(err);
                http_call_reply_refusal(call, 503, "out of memory", HTTP_JSON);
                return;
        }
        reply.status = e.status;
        reply.parts = &part;
        if (e.status == 503)
                headers[reply.n_headers++] =
                        (struct http_header){ STR_LIT("Retry-After"), STR_LIT("1") };
        if (refusal->request_id != NULL)
                headers[reply.n_headers++] = (struct http_header){ STR_LIT("x-request-id"),
                                                                   str_of(refusal->request_id) };
        error_free(err);
        http_call_reply(call, &reply);
}

/* The code of a 503: the model may still be loading, or there is too much to do. */
static const char *code_of(const struct pending_openai *p, const struct error *err) {
        bool is_ready = true, asks_backends;

        if (p->answer.code != NULL)
                return p->answer.code;
        if (err->code != ERR_UNAVAILABLE || p->request.served == NULL)
                return NULL;
        core_error_drop(NESO_ServerReadiness(p->http->core, p->request.served, -1, &is_ready,
                                             &asks_backends));
        return is_ready ? NULL : OPENAI_CODE_NOT_READY;
}

/* Borrows the error. */
static struct openai_error describe(const struct pending_openai *p, const struct error *err) {
        return (struct openai_error){ .status = status_of(err),
                                      .message = err->message,
                                      .param = err->field,
                                      .code = code_of(p, err) };
}

/* Answers a request that has no other answer; takes the error. */
static void refuse_request(struct pending_openai *p, struct error *err) {
        struct http_call *http = p->http;
        bool              is_large = http->body.len > http->service->max_input_bytes;
        const char       *code = code_of(p, err);

        openai_meter_add(p->meter, OPENAI_ENDED_ERROR, 1);
        pending_done(p);
        if (p->verdict != ACCESS_GRANTED) {
                error_free(err);
                http_call_refuse_access(http, p->verdict, p->refusal, HTTP_JSON);
                return;
        }
        http_openai_refuse(http, &(struct http_openai_refusal){ .err = err,
                                                                .status = is_large ? 413 : 0,
                                                                .code = code,
                                                                .request_id = p->id });
}

/* ---- metrics ---- */

/* A response that is an error names its model, too. */
static void find_meter(struct pending_openai *p, struct TRITONSERVER_InferenceResponse *response) {
        const char *name;
        int64_t     version = 0;

        if (p->meter != NULL || p->settings->metrics == NULL)
                return;
        core_error_drop(TRITONSERVER_InferenceResponseModel(response, &name, &version));
        p->meter = openai_metrics_meter(p->settings->metrics, p->request.served, version);
}

static void measure_text(struct pending_openai *p, uint64_t now_ns) {
        if (p->last_text_ns == 0)
                openai_meter_observe(p->meter, OPENAI_FIRST_TOKEN, now_ns - p->http->recv_start_ns);
        else
                openai_meter_observe(p->meter, OPENAI_BETWEEN_TOKENS, now_ns - p->last_text_ns);
        p->last_text_ns = now_ns;
}

static void measure_end(struct pending_openai *p) {
        const struct openai_answer *a = &p->answer;
        uint64_t                    n_other = a->n_ended - a->n_stopped - a->n_cut - a->n_called;

        if (p->request.endpoint == OPENAI_EMBEDDINGS) /* its end has no reason */
                n_other = 1;

        openai_meter_observe(p->meter, OPENAI_WHOLE_REQUEST,
                             clock_now_ns() - p->http->recv_start_ns);
        openai_meter_add(p->meter, OPENAI_PROMPT_TOKENS, a->prompt_tokens);
        openai_meter_add(p->meter, OPENAI_GENERATION_TOKENS, a->completion_tokens);
        openai_meter_add(p->meter, OPENAI_ENDED_STOP, a->n_stopped);
        openai_meter_add(p->meter, OPENAI_ENDED_LENGTH, a->n_cut);
        openai_meter_add(p->meter, OPENAI_ENDED_TOOL_CALLS, a->n_called);
        openai_meter_add(p->meter, OPENAI_ENDED_OTHER, n_other);
}

/* ---- a stream ---- */

static void send_head(struct pending_openai *p) {
        const struct http_header headers[] = {
                { STR_LIT("x-request-id"), str_of(p->id) },
                { STR_LIT("openai-processing-ms"), processing_ms(p) },
                { STR_LIT("Cache-Control"), STR_LIT("no-cache") },
                { STR_LIT("X-Accel-Buffering"), STR_LIT("no") },
        };
        const struct http_reply head = { .status = 200,
                                         .content_type = EVENT_STREAM,
                                         .headers = headers,
                                         .n_headers = ARRAY_LEN(headers) };

        p->has_begun = true;
        http_call_begin_chunks(p->http, &head);
}

/* Sends the events that were made. */
static void send_events(struct pending_openai *p) {
        struct str             text = strbuf_str(&p->text);
        const struct http_part part = { text.ptr, text.len, NULL };

        if (text.len == 0)
                return;
        if (!p->has_begun)
                send_head(p);
        http_call_send_chunk(p->http, &part);
        strbuf_clear(&p->text);
}

static void cancel_runs(struct pending_openai *p) {
        if (p->render != NULL)
                infer_call_cancel(&p->render->call);
        for (uint32_t i = 0; i < p->n_runs; i++)
                infer_call_cancel(&p->runs[i]->call);
}

/* Takes the error. The other inferences of the request are cancelled, since their results are not needed. */
static void fail_inferences(struct pending_openai *p, struct error *err) {
        if (p->has_begun) {
                const struct openai_error e = describe(p, err);

                strbuf_clear(&p->text);
                openai_answer_put_failure(&e, &p->text);
                send_events(p);
                p->has_failed = true;
                error_free(err);
        } else {
                p->failure = err;
        }
        cancel_runs(p);
}

static bool has_ended(const struct pending_openai *p) {
        return p->failure != NULL || p->has_failed;
}

/* After a failure no heartbeat is due, although an inference that ignores cancellation may run for long. */
static void arm_heartbeat(struct pending_openai *p) {
        uint64_t every_ns = p->settings->heartbeat_ns;

        if (every_ns == 0 || p->http->is_aborted || has_ended(p))
                return;
        /* When memory is short, the stream goes on without heartbeats. */
        (void)loop_timer_arm(http_call_loop(p->http), &p->heartbeat, p->last_sent_ns + every_ns);
}

static void on_heartbeat(struct loop_timer *t) {
        struct pending_openai *p = CONTAINER_OF(t, struct pending_openai, heartbeat);
        uint64_t               now_ns = clock_now_ns();

        if (has_ended(p))
                return;
        if (now_ns >= p->last_sent_ns + p->settings->heartbeat_ns) {
                strbuf_puts(&p->text, HEARTBEAT);
                send_events(p);
                p->last_sent_ns = now_ns;
        }
        arm_heartbeat(p);
}

/* Ends the answer once all inferences have ended. It has failed already when a time limit has passed. */
static void end_stream(struct pending_openai *p) {
        struct http_call *http = p->http;

        if (!p->has_failed) {
                openai_answer_end_stream(&p->answer, &p->text);
                send_events(p);
                measure_end(p);
        } else {
                openai_meter_add(p->meter, OPENAI_ENDED_ERROR, 1);
        }
        pending_done(p);
        http_call_end_chunks(http);
}

/* ---- time limits ---- */

static uint64_t request_by_ns(const struct pending_openai *p) {
        return p->settings->request_ns > 0 ? p->http->recv_start_ns + p->settings->request_ns
                                           : CLOCK_NEVER;
}

/* When memory is short, the request goes on without a limit. */
static void arm_deadline(struct pending_openai *p) {
        uint64_t by_ns = MIN(request_by_ns(p), p->render_by_ns);

        if (by_ns != CLOCK_NEVER || loop_timer_is_armed(&p->deadline))
                (void)loop_timer_arm(http_call_loop(p->http), &p->deadline, by_ns);
}

static struct error *late_error(struct pending_openai *p) {
        if (p->failure != NULL) /* only other inferences are waited for */
                return STEAL(p->failure);
        if (p->render_by_ns < request_by_ns(p))
                return error_new(ERR_INTERNAL,
                                 "model '%s' did not render the messages within %llu ms "
                                 "(--openai-template-timeout-ms)",
                                 p->model.template_model,
                                 (unsigned long long)(p->settings->template_ns / NS_PER_MS));
        return error_new(ERR_UNAVAILABLE,
                         "the request took more than %llu ms (--openai-request-timeout-ms)",
                         (unsigned long long)(p->settings->request_ns / NS_PER_MS));
}

/* The whole answer of a request that has none yet. */
static void send_refusal(struct pending_openai *p, const struct error *err) {
        const struct openai_error e = describe(p, err);
        const struct http_header  headers[] = { { STR_LIT("x-request-id"), str_of(p->id) },
                                                { STR_LIT("Retry-After"), STR_LIT("1") } };
        const struct http_reply   head = { .status = e.status,
                                           .content_type = HTTP_JSON,
                                           .headers = headers,
                                           .n_headers = e.status == 503 ? 2 : 1,
                                           .close = true };

        strbuf_clear(&p->text);
        openai_error_print(&e, &p->text);
        p->has_begun = true;
        http_call_begin_chunks(p->http, &head);
        send_events(p);
}

/* The client gets its answer now. An inference that heeds no cancellation may go on for long. */
static void on_deadline(struct loop_timer *t) {
        struct pending_openai *p = CONTAINER_OF(t, struct pending_openai, deadline);
        struct error          *err;

        if (p->http->is_aborted)
                return;
        loop_timer_cancel(&p->heartbeat);
        err = p->has_failed ? NULL : late_error(p);
        if (err != NULL && p->has_begun) {
                fail_inferences(p, err);
        } else if (err != NULL) {
                send_refusal(p, err);
                error_free(err);
                p->has_failed = true;
                cancel_runs(p);
        }
        kept_responses_drop(&p->kept, UINT64_MAX);
        p->is_late = true;
        http_call_finish_chunks(p->http);
}

/* ---- a whole answer ---- */

static size_t answer_work(const struct pending_openai *p) {
        size_t work = p->answer.object.len;

        for (uint32_t i = 0; i < p->answer.n_choices; i++)
                work += p->answer.choices[i].text.len + p->answer.choices[i].logprobs.len;
        for (uint32_t i = 0; i < p->split.n_parts && p->vectors != NULL; i++)
                work += p->vectors[i].n_rows * p->vectors[i].n_dims * sizeof(float);
        return work;
}

static struct error *print_answer(struct pending_openai *p) {
        TRY(charge_answer(p, answer_work(p))); /* about what is printed */
        if (p->request.endpoint == OPENAI_EMBEDDINGS && p->vectors != NULL)
                return openai_embedding_print(&p->request, &p->model, p->vectors, p->split.n_parts,
                                              &p->text);
        return openai_answer_print(&p->answer, &p->scratch, &p->text);
}

static void make_answer(struct loop_work *work) {
        struct pending_openai *p = CONTAINER_OF(work, struct pending_openai, work);

        p->failure = print_answer(p);
        if (p->failure == NULL && !http_call_keep_text(p->http, strbuf_str(&p->text), &p->part))
                p->failure = error_new(ERR_UNAVAILABLE, "out of memory for the answer of %zu bytes",
                                       p->text.len);
}

static void send_answer(struct loop_work *work) {
        struct pending_openai   *p = CONTAINER_OF(work, struct pending_openai, work);
        struct http_call        *http = p->http;
        const struct http_header headers[] = {
                { STR_LIT("x-request-id"), str_of(p->id) },
                { STR_LIT("openai-processing-ms"), processing_ms(p) },
        };
        const struct http_part  part = p->part;
        const struct http_reply reply = { .status = 200,
                                          .content_type = HTTP_JSON,
                                          .headers = headers,
                                          .n_headers = ARRAY_LEN(headers),
                                          .parts = &part,
                                          .n_parts = 1 };

        if (p->failure != NULL) {
                refuse_request(p, STEAL(p->failure));
                return;
        }
        measure_end(p);
        pending_done(p);
        http_call_reply(http, &reply);
}

static void end_whole(struct pending_openai *p) {
        p->work.run = make_answer;
        p->work.done = send_answer;
        if (answer_work(p) > LOOP_MAX_WORK_BYTES) {
                p->work.is_short = answer_work(p) <= LOOP_SHORT_WORK_BYTES;
                http_call_compute(p->http, &p->work);
                return;
        }
        make_answer(&p->work);
        send_answer(&p->work);
}

/* ---- responses ---- */

static void end_request(struct pending_openai *p) {
        loop_timer_cancel(&p->deadline);
        if (p->failure != NULL && !p->is_late)
                refuse_request(p, STEAL(p->failure));
        else if (p->request.is_stream || p->is_late)
                end_stream(p);
        else
                end_whole(p);
}

/* A stream of nothing would look like an answer. */
static void check_stream(struct pending_openai *p) {
        struct error *err = openai_answer_check(&p->answer);

        if (err != NULL)
                fail_inferences(p, err);
}

/* An inference ended, or the function that starts them. The last one ends the request. */
static void drop_running(struct pending_openai *p) {
        if (--p->n_running > 0)
                return;
        if (p->request.is_stream && !has_ended(p))
                check_stream(p);
        end_request(p);
}

/* Takes the error. 404 is for the model that the client named: what else is missing is a failure of the server. */
static struct error *own_failure(struct error *err) {
        return err != NULL && err->code == ERR_NOT_FOUND ? error_recode(err, ERR_INTERNAL) : err;
}

static void keep_response_of(struct openai_run *run) {
        struct infer_call_response *one = infer_call_keep_response(&run->call);

        one->next = run->p->vectors_of;
        run->p->vectors_of = one;
}

/* The run makes further inferences, and its memory has the outputs of small responses. So these are copied, and larger
 * ones are kept. */
static struct error *keep_vectors(struct openai_run *run, struct openai_vectors *v) {
        size_t bytes = v->n_rows * v->n_dims * sizeof(*v->values);
        void  *copy;

        if (run->p->model.format == OPENAI_FORMAT_VLLM) /* were read from JSON */
                return NULL;
        if (bytes > INFER_CALL_INLINE_BYTES) {
                keep_response_of(run);
                return NULL;
        }
        copy = arena_try_alloc(&run->p->http->arena, bytes);
        if (copy == NULL)
                return infer_no_memory();
        v->values = memcpy(copy, v->values, bytes);
        return NULL;
}

static struct error *take_vectors(struct openai_run *run, const struct infer_response *r) {
        struct pending_openai *p = run->p;
        struct openai_vectors *v = &p->vectors[run->number];

        if (run->has_vectors || r->n_outputs == 0)
                return NULL;
        TRY(openai_vectors_read(&p->model, &run->state.part, r, &p->http->arena, v));
        TRY(keep_vectors(run, v));
        p->answer.prompt_tokens += v->n_tokens;
        run->has_vectors = true;
        return NULL;
}

static struct error *take_response(struct openai_run                     *run,
                                   struct TRITONSERVER_InferenceResponse *response) {
        struct pending_openai *p = run->p;
        struct infer_response  r;

        TRY(own_failure(infer_response_read(response, &run->request, &p->scratch, &r)));
        if (p->vectors != NULL)
                return take_vectors(run, &r);
        TRY(openai_answer_add(&p->answer, &run->state, &r, &p->scratch, &p->text));
        return charge_answer(p, 0);
}

static void on_response(struct infer_call *c, struct TRITONSERVER_InferenceResponse *response) {
        struct openai_run     *run = c->options.owner;
        struct pending_openai *p = run->p;
        struct error          *err;
        uint64_t               now_ns;

        /* Also for a request that was answered, since its error is counted at the end. */
        find_meter(p, response);
        if (has_ended(p))
                return;
        err = take_response(run, response);
        arena_reset(&p->scratch);
        if (err != NULL) {
                fail_inferences(p, err);
                return;
        }
        if (!p->request.is_stream)
                return;
        now_ns = clock_now_ns();
        if (p->answer.has_text)
                measure_text(p, now_ns);
        if (p->text.len > 0)
                p->last_sent_ns = now_ns;
        send_events(p);
        if (http_call_chunks_written(p->http) < http_call_chunks_sent(p->http))
                kept_responses_add(&p->kept, infer_call_keep_response(c),
                                   http_call_chunks_sent(p->http));
}

static void use_again(struct openai_run *run);

/* The end of a choice does not wait for events of the others. That of the last part is sent with the end of the
 * answer. It begins no stream: a response decides the status. */
static void end_part(struct openai_run *run) {
        struct pending_openai *p = run->p;

        openai_answer_end_part(&p->answer, &run->state, &p->text);
        if (!p->has_begun || p->n_running == 1 || p->text.len == 0)
                return;
        p->last_sent_ns = clock_now_ns();
        send_events(p);
}

static void on_done(struct infer_call *c) {
        struct openai_run     *run = c->options.owner;
        struct pending_openai *p = run->p;

        if (!has_ended(p)) {
                if (p->vectors != NULL && !run->has_vectors)
                        fail_inferences(p, error_new(ERR_INTERNAL, "model '%s' gave no embedding",
                                                     p->model.name));
                else if (p->vectors == NULL)
                        end_part(run);
        }
        use_again(run);
        drop_running(p);
}

static void on_written(struct http_call *http) {
        struct pending_openai *p = http->pending;

        kept_responses_drop(&p->kept, http_call_chunks_written(http));
}

static void on_abort(struct http_call *http) {
        struct pending_openai *p = http->pending;

        loop_timer_cancel(&p->heartbeat);
        kept_responses_drop(&p->kept, UINT64_MAX);
        if (p->is_reading)
                loop_compute_cancel(&p->work);
        else
                cancel_runs(p);
}

/* ---- the inferences ---- */

static struct openai_run *new_run(struct pending_openai *p, infer_call_fn done,
                                  infer_call_response_fn respond) {
        struct http_call         *http = p->http;
        struct openai_run        *run = arena_try_alloc(&http->arena, sizeof(*run));
        struct infer_call_options options = {
                .core = http->service->infer,
                .mailbox = http_call_mailbox(http),
                .pool = http_call_buf_pool(http),
                .on_done = done,
                .on_response = respond,
                .limits = { MAX_UNWRITTEN, MAX_UNWRITTEN_BYTES },
                .owner = run,
                .message_bytes = p->n_runs == 0 ? http->body.len : 0,
        };

        if (run == NULL)
                return NULL;
        run->p = p;
        run->state = (struct openai_part_state){ 0 };
        run->next = NULL;
        run->number = 0;
        run->has_vectors = false;
        arena_init(&run->arena, NULL, 0, 0);
        arena_set_budget(&run->arena, budget_of(p));
        infer_request_init(&run->request);
        infer_call_init(&run->call, &options);
        return run;
}

static struct error *add_run(struct pending_openai *p) {
        struct openai_run *run = new_run(p, on_done, on_response);

        if (run == NULL)
                return infer_no_memory();
        TRY(infer_array_grow(&p->http->arena, (void **)&p->runs, p->n_runs,
                             sizeof(struct openai_run *)));
        p->runs[p->n_runs++] = run;
        return infer_call_open(&run->call, p->request.served, -1);
}

/* Makes the request of the next part. */
static struct error *map_next_part(struct openai_run *run, const struct infer_request *before,
                                   struct arena *arena) {
        struct pending_openai  *p = run->p;
        const struct openai_map map = { &p->request, &p->model, arena, http_call_buf_pool(p->http),
                                        before };

        run->number = p->n_begun++;
        run->state.part = openai_split_part(&p->request, &p->split, run->number);
        TRY(openai_map_fill(&map, &run->state.part, &run->request));
        run->request.id = p->id;
        return NULL;
}

static struct error *fill_run(struct openai_run *run, const struct infer_request *before) {
        struct pending_openai *p = run->p;
        struct arena          *arena = &p->http->arena;

        TRY(map_next_part(run, before, arena));
        TRY(http_infer_forward_headers(p->http, &run->request));
        TRY(infer_request_add_key_name(&run->request, arena, access_key_name(&p->http->access)));
        return infer_call_fill(&run->call, &run->request);
}

/* Responses with vectors stay until the answer, so their inferences, of one response each, share nothing. */
static struct infer_call_limits limits_of(const struct pending_openai *p, uint32_t n_runs) {
        uint32_t n = p->vectors == NULL ? n_runs : 1;

        return (struct infer_call_limits){ MAX_UNWRITTEN / n, MAX_UNWRITTEN_BYTES / n };
}

/* Of all inferences, how many run at a time. Those of a completion all do: a stream has them side by side. */
static uint32_t count_at_once(const struct pending_openai *p) {
        size_t most = MIN_AT_ONCE + p->http->body.len / BYTES_PER_RUN;

        return p->vectors == NULL ? p->split.n_parts
                                  : (uint32_t)MIN(most, (size_t)p->split.n_parts);
}

/* Decides how many inferences there are, and makes the first ones ready to start. */
static struct error *fill_runs(struct pending_openai *p) {
        struct arena        *arena = &p->http->arena;
        struct openai_split *split = &p->split;

        TRY(openai_split_make(&p->request, &p->model, p->settings->max_choices, split));
        if (p->request.endpoint == OPENAI_EMBEDDINGS && p->model.format != OPENAI_FORMAT_OPENAI) {
                p->vectors = arena_try_alloc(arena, split->n_parts * sizeof(*p->vectors));
                if (p->vectors == NULL)
                        return infer_no_memory();
                split->n_choices = 0;
        }
        TRY(openai_answer_init(&p->answer, &p->request, &p->model, p->id,
                               split->n_parts * split->n_choices, arena));
        for (uint32_t i = 0, n = count_at_once(p); i < n; i++) {
                if (i > 0)
                        TRY(add_run(p));
                p->runs[i]->call.options.limits = limits_of(p, split->n_parts);
                TRY(fill_run(p->runs[i], i > 0 ? &p->runs[i - 1]->request : NULL));
        }
        return NULL;
}

/* The first one is traced. */
static struct trace_record *trace_of(struct pending_openai *p, uint32_t i) {
        return i == 0 ? http_trace_start(p->http, http_call_model(p->http)) : NULL;
}

static void start_run(struct openai_run *run) {
        struct pending_openai *p = run->p;
        struct error          *err;

        p->n_running++;
        err = infer_call_start(&run->call, trace_of(p, run->number));
        if (err != NULL) {
                p->n_running--;
                fail_inferences(p, err);
        }
}

/* Makes the inference of the next part with a run whose own has ended. The request of the core stays, and with it the
 * model, which may be unloaded meanwhile. */
static struct error *refill_run(struct openai_run *run) {
        infer_request_done(&run->request);
        infer_request_init(&run->request);
        arena_reset(&run->arena);
        run->state = (struct openai_part_state){ 0 };
        run->has_vectors = false;
        TRY(map_next_part(run, NULL, &run->arena));
        return infer_call_refill(&run->call, &run->request);
}

static bool has_more(const struct pending_openai *p) {
        return p->n_begun < p->split.n_parts && !has_ended(p) && !p->http->is_aborted;
}

/* An inference may end while it is started. Its run is idle then, and this loop goes on with it. */
static void start_idle(struct pending_openai *p) {
        struct openai_run *run;

        if (p->is_starting)
                return;
        p->is_starting = true;
        while ((run = p->idle) != NULL && has_more(p)) {
                struct error *err;

                p->idle = run->next;
                err = refill_run(run);
                if (err != NULL)
                        fail_inferences(p, err);
                else
                        start_run(run);
        }
        p->is_starting = false;
}

/* The inference of the run has ended. */
static void use_again(struct openai_run *run) {
        struct pending_openai *p = run->p;

        if (!has_more(p))
                return;
        run->next = p->idle;
        p->idle = run;
        start_idle(p);
}

static void start_runs(struct pending_openai *p) {
        uint32_t n = p->n_runs;

        p->last_sent_ns = clock_now_ns();
        if (p->request.is_stream)
                arm_heartbeat(p);
        p->n_running = 1; /* so that no inference that ends at once ends the request */
        p->is_starting = true;
        for (uint32_t i = 0; i < n && !has_ended(p); i++)
                start_run(p->runs[i]);
        p->is_starting = false;
        start_idle(p);
        drop_running(p);
        /* `p` may be gone, because the request was answered. */
}

/* ---- chat: the messages as a text ---- */

static struct error *take_rendered(struct pending_openai *p) {
        struct TRITONSERVER_InferenceResponse *response;
        struct infer_response                  r;
        struct openai_elements                 texts = { { NULL, 0 } };

        TRY(infer_call_get_response(&p->render->call, &response));
        TRY(own_failure(infer_response_read(response, &p->render->request, &p->http->arena, &r)));
        for (uint32_t i = 0; i < r.n_outputs; i++)
                if (r.outputs[i].datatype == TRITONSERVER_TYPE_BYTES && texts.left.ptr == NULL)
                        texts.left = r.outputs[i].bytes;
        p->request.texts = arena_alloc(&p->http->arena, sizeof(*p->request.texts));
        if (!openai_elements_next(&texts, p->request.texts))
                return error_new(ERR_INTERNAL, "model '%s' rendered no text",
                                 p->model.template_model);
        p->request.n_texts = 1;
        if (p->request.texts->len > OPENAI_MAX_TEXT_BYTES)
                return error_new(ERR_INTERNAL,
                                 "model '%s' rendered a text of %zu bytes, at most %zu are allowed",
                                 p->model.template_model, p->request.texts->len,
                                 OPENAI_MAX_TEXT_BYTES);
        return NULL;
}

static void on_rendered(struct infer_call *c) {
        struct openai_run     *run = c->options.owner;
        struct pending_openai *p = run->p;
        struct error          *err = take_rendered(p);

        p->render_by_ns = CLOCK_NEVER;
        if (p->is_late) {
                error_free(err);
                end_stream(p);
                return;
        }
        if (err == NULL && p->http->is_aborted)
                err = error_new_text(ERR_CANCELLED, "the client has gone");
        if (err == NULL)
                err = fill_runs(p);
        if (err != NULL) {
                refuse_request(p, err);
                return;
        }
        arm_deadline(p);
        start_runs(p);
}

static struct error *fill_render(struct pending_openai *p) {
        struct openai_model model = { .name = p->model.template_model,
                                      .format = OPENAI_FORMAT_OPENAI };
        struct openai_map map = { &p->request, &model, &p->http->arena, http_call_buf_pool(p->http),
                                  NULL };

        p->render = new_run(p, on_rendered, NULL);
        if (p->render == NULL)
                return infer_no_memory();
        TRY(own_failure(error_wrap(infer_call_open(&p->render->call, model.name, -1),
                                   "the model that renders the messages for '%s'", p->model.name)));
        model.request = p->render->call.request;
        if (!openai_model_takes(&model, "openai_request"))
                return error_new(ERR_INTERNAL,
                                 "model '%s' cannot render messages: it has no input "
                                 "'openai_request'",
                                 model.name);
        TRY(openai_map_fill(&map, NULL, &p->render->request));
        p->render->request.id = p->id;
        return infer_call_fill(&p->render->call, &p->render->request);
}

static bool needs_render(const struct pending_openai *p) {
        return p->request.endpoint == OPENAI_CHAT && p->model.format != OPENAI_FORMAT_OPENAI;
}

/* ---- the request ---- */

static struct error *check_size(const struct http_call *http) {
        size_t max = http->service->max_input_bytes;

        return http->body.len > max ? http_call_body_too_large(http->body.len, max) : NULL;
}

/* The body names the model, so the check of the head could not compare it with the key. */
static struct error *check_model_access(struct pending_openai *p) {
        struct http_call *http = p->http;

        TRY(openai_request_split_model(&p->request, p->settings->lora_separator, &http->arena));
        http->model = str_of(p->request.served);
        p->verdict = access_check_model(&http->access, http->model, &http->arena, &p->refusal);
        return p->verdict == ACCESS_GRANTED ? NULL : error_new_text(ERR_INVALID_ARG, p->refusal);
}

static struct error *read_request(struct pending_openai *p) {
        struct http_call *http = p->http;
        struct error     *err;

        TRY(check_size(http));
        TRY(http_call_check_identity(http));
        err = openai_request_read(p->request.endpoint, http->body, &http->arena, &p->request);
        if (p->request.model != NULL) {
                struct error *refusal = check_model_access(p);

                if (refusal != NULL) {
                        error_free(err);
                        return refusal;
                }
        }
        TRY(err);
        TRY(add_run(p));
        TRY(openai_model_read(p->runs[0]->call.request, p->request.served, &p->model));
        TRY(openai_model_check(&p->model, p->request.endpoint));
        if (p->model.format != OPENAI_FORMAT_OPENAI)
                TRY(openai_tool_choose(&p->request, &http->arena, &p->request.tool));
        return needs_render(p) ? fill_render(p) : fill_runs(p);
}

static void start_request(struct pending_openai *p) {
        struct error *err;

        if (p->render != NULL && p->settings->template_ns > 0)
                p->render_by_ns = clock_now_ns() + p->settings->template_ns;
        arm_deadline(p);
        if (p->render == NULL) {
                start_runs(p);
                return;
        }
        err = infer_call_start(&p->render->call, NULL);
        if (err != NULL)
                refuse_request(p, err);
}

static void run_reading(struct loop_work *work) {
        struct pending_openai *p = CONTAINER_OF(work, struct pending_openai, work);

        p->failure = read_request(p);
}

static void on_reading(struct loop_work *work) {
        struct pending_openai *p = CONTAINER_OF(work, struct pending_openai, work);

        p->is_reading = false;
        if (p->failure == NULL && (work->is_cancelled || p->http->is_aborted))
                p->failure = error_new_text(ERR_CANCELLED, "the client has gone");
        if (p->failure != NULL)
                refuse_request(p, STEAL(p->failure));
        else
                start_request(p);
}

static void post(struct http_call *http, enum openai_endpoint endpoint) {
        struct pending_openai *p = ARENA_NEW(&http->arena, struct pending_openai);
        struct error          *err;

        p->http = http;
        p->settings = http->service->openai;
        p->request.endpoint = endpoint;
        p->verdict = ACCESS_GRANTED;
        strbuf_init(&p->text, 0);
        arena_init(&p->scratch, NULL, 0, 0);
        loop_timer_init(&p->heartbeat, on_heartbeat);
        loop_timer_init(&p->deadline, on_deadline);
        p->render_by_ns = CLOCK_NEVER;
        openai_settings_next_id(p->settings, endpoint, p->id);
        http->pending = p;
        http->on_abort = on_abort;
        http->on_written = on_written;
        if (http->body.len > LOOP_MAX_WORK_BYTES) {
                p->work.run = run_reading;
                p->work.done = on_reading;
                p->work.is_short = http->body.len <= LOOP_SHORT_WORK_BYTES;
                p->is_reading = true;
                http_call_compute(http, &p->work);
                return;
        }
        err = read_request(p);
        if (err != NULL)
                refuse_request(p, err);
        else
                start_request(p);
}

void http_openai_chat(struct http_call *call) {
        post(call, OPENAI_CHAT);
}

void http_openai_completions(struct http_call *call) {
        post(call, OPENAI_COMPLETIONS);
}

void http_openai_embeddings(struct http_call *call) {
        post(call, OPENAI_EMBEDDINGS);
}
