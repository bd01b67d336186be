/* SPDX-License-Identifier: BSD-3-Clause */
#include "http/http_generate.h"

#include "base/strbuf.h"
#include "call/infer_call.h"
#include "call/infer_response.h"
#include "call/kept_responses.h"
#include "call/service.h"
#include "core_api/core_error.h"
#include "core_api/model_version.h"
#include "http/http_generate_json.h"
#include "http/http_infer.h"
#include "http/http_reply.h"
#include "http/http_trace.h"
#include "net/loop.h"
#include "triton/core/neso.h"

#include <string.h>

#define EVENT_STREAM "text/event-stream; charset=utf-8"

/* A text up to this size is put into the arena, because a buffer of the pool is at least a page. */
#define MAX_TEXT_IN_ARENA 4096

/* Limits of a stream's responses that are not written yet; beyond them the backend waits. The text of a
 * response is a few times as large, which stays below the `unsent_bytes` of an answer. */
#define MAX_UNWRITTEN_BYTES ((size_t)8 << 20)
#define MAX_UNWRITTEN 1024

/* One request in progress; in the arena of its http_call. */
struct pending_generate {
        struct http_call    *http;    /* borrowed: holds this */
        struct strbuf        text;    /* of one response */
        struct arena         scratch; /* of one response */
        bool                 is_stream;
        bool                 has_begun; /* stream: status and headers are sent */
        struct infer_request request;
        struct infer_call    call;
        /* A compute thread reads a long body and prints a long answer. */
        struct loop_work      work;
        bool                  is_reading; /* the compute thread reads the request */
        struct error         *err;        /* owned; result of the work */
        struct http_part      answer;     /* result of the work */
        unsigned              status;
        struct kept_responses kept;
};

static void on_written(struct http_call *http) {
        struct pending_generate *p = http->pending;

        kept_responses_drop(&p->kept, http_call_chunks_written(http));
}

/* Frees what the request holds outside the arena. */
static void pending_done(struct pending_generate *p) {
        kept_responses_drop(&p->kept, UINT64_MAX);
        infer_call_done(&p->call);
        infer_request_done(&p->request);
        strbuf_done(&p->text);
        arena_done(&p->scratch);
}

/* ---- the text of an answer ---- */

static void open_text(struct pending_generate *p) {
        strbuf_clear(&p->text);
        if (p->is_stream)
                strbuf_puts(&p->text, "data: ");
}

static void close_text(struct pending_generate *p) {
        if (p->is_stream)
                strbuf_puts(&p->text, "\n\n");
}

/* Room for what put_error() prints when memory is short. */
#define SHORT_ERROR_BYTES 64

static void put_error(struct pending_generate *p, const char *message) {
        open_text(p);
        http_generate_print_error(message, &p->text);
        close_text(p);
        if (!p->text.overflowed)
                return;
        strbuf_clear(&p->text);
        strbuf_need(&p->text, SHORT_ERROR_BYTES);
        open_text(p);
        strbuf_puts(&p->text, "{\"error\":\"out of memory\"}");
        close_text(p);
}

static struct error *put_response(struct pending_generate               *p,
                                  struct TRITONSERVER_InferenceResponse *response) {
        struct infer_response r;

        open_text(p);
        TRY(infer_response_read(response, &p->request, &p->scratch, &r));
        TRY(http_generate_print(&r, &p->scratch, &p->text));
        close_text(p);
        if (p->text.no_memory)
                return strbuf_check(&p->text, "the response");
        if (p->text.overflowed)
                return error_new(ERR_INTERNAL, "the response is too large for JSON");
        return NULL;
}

/* Prints the response, or the error that it carries or that printing meets. Returns the status. */
static unsigned put_outcome(struct pending_generate               *p,
                            struct TRITONSERVER_InferenceResponse *response) {
        AUTO_ERROR err = put_response(p, response);

        arena_reset(&p->scratch);
        if (err != NULL)
                put_error(p, err->message);
        return err != NULL ? http_status_of_code(err->code) : 200;
}

/* ---- generate_stream ---- */

static void send_head(struct pending_generate *p, unsigned status) {
        const struct http_reply head = { .status = status, .content_type = EVENT_STREAM };

        p->has_begun = true;
        http_call_begin_chunks(p->http, &head);
}

static void on_response(struct infer_call *c, struct TRITONSERVER_InferenceResponse *response) {
        struct pending_generate *p = c->options.owner;
        unsigned                 status = put_outcome(p, response);
        struct str               text = strbuf_str(&p->text);
        const struct http_part   event = { text.ptr, text.len, NULL };

        if (!p->has_begun)
                send_head(p, status);
        http_call_send_chunk(p->http, &event);
        if (http_call_chunks_written(p->http) < http_call_chunks_sent(p->http))
                kept_responses_add(&p->kept, infer_call_keep_response(c),
                                   http_call_chunks_sent(p->http));
}

static void on_stream_done(struct infer_call *c) {
        struct pending_generate *p = c->options.owner;
        struct http_call        *http = p->http;

        if (!p->has_begun) /* a model may send no response */
                send_head(p, 200);
        http->on_written = NULL;
        pending_done(p);
        http_call_end_chunks(http);
}

/* ---- generate ---- */

/* Copies the text into memory that lives until the answer is written. */
static struct error *take_text(struct pending_generate *p, struct http_part *ret) {
        struct str  text = strbuf_str(&p->text);
        struct buf *holder = NULL;
        char       *memory;

        if (text.len <= MAX_TEXT_IN_ARENA) {
                memory = arena_try_alloc(&p->http->arena, text.len);
        } else {
                holder = buf_new(http_call_buf_pool(p->http), text.len);
                memory = holder != NULL ? holder->bytes : NULL;
        }
        if (memory == NULL)
                return error_new(ERR_UNAVAILABLE, "out of memory for the response of %zu bytes",
                                 text.len);
        memcpy(memory, text.ptr, text.len);
        *ret = (struct http_part){ memory, text.len, holder };
        return NULL;
}

static unsigned status_of(struct TRITONSERVER_InferenceResponse *response) {
        AUTO_ERROR err = core_error_take(TRITONSERVER_InferenceResponseError(response));

        return err != NULL ? http_status_of_code(err->code) : 200;
}

static unsigned put_only_response(struct pending_generate *p) {
        struct TRITONSERVER_InferenceResponse *first;
        uint32_t                               n;

        first = infer_call_first_response(&p->call, &n);
        if (n == 1)
                return put_outcome(p, first);
        put_error(p, "generate expects model to produce exactly 1 response, use generate stream "
                     "for model that generates various number of responses");
        return first != NULL ? status_of(first) : 200;
}

/* True when printing the response takes too long for the loop. Sets p->work.is_short. */
static bool is_long(struct pending_generate *p) {
        uint32_t              n;
        struct infer_response r = { 0 };
        AUTO_ERROR            err = NULL;
        bool                  is_long;

        if (infer_call_first_response(&p->call, &n) == NULL || n != 1)
                return false;
        err = infer_response_read(infer_call_first_response(&p->call, &n), &p->request, &p->scratch,
                                  &r);
        is_long = err == NULL && infer_response_bytes(&r) > LOOP_MAX_WORK_BYTES;
        p->work.is_short = is_long && infer_response_bytes(&r) <= LOOP_SHORT_WORK_BYTES;
        arena_reset(&p->scratch);
        return is_long;
}

static void make_answer(struct loop_work *work) {
        struct pending_generate *p = CONTAINER_OF(work, struct pending_generate, work);

        p->status = put_only_response(p);
        p->err = take_text(p, &p->answer);
}

static void send_answer(struct loop_work *work) {
        struct pending_generate *p = CONTAINER_OF(work, struct pending_generate, work);
        struct http_call        *http = p->http;
        struct http_part         answer = p->answer;
        struct error            *err = p->err;
        const struct http_reply  reply = {
                 .status = p->status,
                 .content_type = HTTP_JSON,
                 .parts = &answer,
                 .n_parts = 1,
                 .is_chunked = true,
        };

        pending_done(p);
        if (err != NULL)
                http_infer_reply_error(http, err, HTTP_JSON);
        else
                http_call_reply(http, &reply);
}

/* A long answer is printed although the client may be gone: it may still read. */
static void on_done(struct infer_call *c) {
        struct pending_generate *p = c->options.owner;

        if (is_long(p)) {
                p->work.run = make_answer;
                p->work.done = send_answer;
                http_call_compute(p->http, &p->work);
                return;
        }
        make_answer(&p->work);
        send_answer(&p->work);
}

/* ---- the request ---- */

static void on_abort(struct http_call *http) {
        struct pending_generate *p = http->pending;

        kept_responses_drop(&p->kept, UINT64_MAX);
        if (p->is_reading)
                loop_compute_cancel(&p->work);
        else
                infer_call_cancel(&p->call);
}

static struct error *find_input(void *owner, const char *name, struct http_generate_input *ret) {
        struct pending_generate *p = owner;

        return core_error_take(NESO_InferenceRequestModelInput(p->call.request, name,
                                                               &ret->datatype, &ret->dims,
                                                               &ret->n_dims, &ret->is_batched));
}

static struct error *open_model(struct pending_generate *p) {
        struct http_call *http = p->http;
        int64_t           version;

        TRY(model_version_read(http->version, &version));
        return infer_call_open(&p->call, http_call_model(http), version);
}

static struct error *read_request(struct pending_generate *p) {
        struct http_call                 *http = p->http;
        const struct http_generate_source source = {
                .body = http->body,
                .max_input_bytes = http->service->max_input_bytes,
                .arena = &http->arena,
                .pool = http_call_buf_pool(http),
                .find = find_input,
                .owner = p,
        };

        TRY(open_model(p));
        TRY(http_call_check_identity(http));
        TRY(http_generate_decode(&source, &p->request));
        TRY(http_infer_forward_headers(http, &p->request));
        TRY(infer_request_add_key_name(&p->request, &http->arena, access_key_name(&http->access)));
        return infer_call_fill(&p->call, &p->request);
}

/* Answers a request that was not started; takes the error. */
static void refuse_generate(struct pending_generate *p, struct error *err) {
        struct http_call *http = p->http;

        http->on_abort = http->on_written = NULL;
        pending_done(p);
        http_infer_reply_error(http, err, HTTP_JSON);
}

static void run_reading(struct loop_work *work) {
        struct pending_generate *p = CONTAINER_OF(work, struct pending_generate, work);
        struct http_call        *http = p->http;

        p->err = read_request(p);
        if (p->err == NULL)
                p->err = infer_call_submit(&p->call, http_trace_start(http, http_call_model(http)));
}

static void on_reading(struct loop_work *work) {
        struct pending_generate *p = CONTAINER_OF(work, struct pending_generate, work);
        struct error            *err;

        p->is_reading = false;
        err = infer_call_take_back(&p->call, work, p->err, p->http->is_aborted);
        if (err != NULL)
                refuse_generate(p, err);
}

static void start_generate(struct pending_generate *p) {
        struct http_call *http = p->http;
        struct error     *err;

        http->pending = p;
        http->on_abort = on_abort;
        http->on_written = p->is_stream ? on_written : NULL;
        if (http->body.len > LOOP_MAX_WORK_BYTES) {
                p->work.run = run_reading;
                p->work.done = on_reading;
                p->work.is_short = http->body.len <= LOOP_SHORT_WORK_BYTES;
                p->err = NULL;
                p->is_reading = true;
                http_call_compute(http, &p->work);
                return;
        }
        err = read_request(p);
        if (err == NULL)
                err = infer_call_start(&p->call, http_trace_start(http, http_call_model(http)));
        if (err != NULL)
                refuse_generate(p, err);
        /* On success `p` may already be gone, because the request was answered. */
}

static void post_generate(struct http_call *http, bool is_stream) {
        struct pending_generate  *p = arena_alloc(&http->arena, sizeof(*p));
        struct infer_call_options options = {
                .core = http->service->infer,
                .mailbox = http_call_mailbox(http),
                .pool = http_call_buf_pool(http),
                .on_done = is_stream ? on_stream_done : on_done,
                .on_response = is_stream ? on_response : NULL,
                .limits = { MAX_UNWRITTEN, MAX_UNWRITTEN_BYTES },
                .owner = p,
                .message_bytes = http->body.len,
        };

        p->http = http;
        p->is_stream = is_stream;
        p->has_begun = p->is_reading = false;
        p->kept = (struct kept_responses){ 0 };
        strbuf_init(&p->text, 0);
        arena_init(&p->scratch, NULL, 0, 0);
        infer_request_init(&p->request);
        infer_call_init(&p->call, &options);
        start_generate(p);
}

void http_generate_post(struct http_call *call) {
        post_generate(call, false);
}

void http_generate_stream_post(struct http_call *call) {
        post_generate(call, true);
}
