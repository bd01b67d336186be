/* SPDX-License-Identifier: BSD-3-Clause */
#include "http/http_infer.h"

#include "call/infer_call.h"
#include "call/infer_response.h"
#include "call/service.h"
#include "core_api/core_error.h"
#include "core_api/model_version.h"
#include "http/http_cloud.h"
#include "http/http_infer_decode.h"
#include "http/http_infer_encode.h"
#include "http/http_route.h"
#include "http/http_trace.h"
#include "net/loop.h"
#include "triton/core/neso.h"

#include <stdio.h>

/* Temporary memory on the stack for encoding an answer: its arrays, and the text of a small one. */
#define SCRATCH_BYTES 1536
/* Limit of all temporary memory; lists of a model's outputs and parameters may be long. */
#define MAX_SCRATCH_BYTES ((size_t)1 << 30)

/* The next step of reading a request. The content type of an error answer depends on it. */
enum stage {
        STAGE_MODEL,   /* find the model */
        STAGE_BODY,    /* decompress the body */
        STAGE_LENGTH,  /* find the length of the JSON part */
        STAGE_JSON,    /* decode the JSON part */
        STAGE_TENSORS, /* find shared memory regions, build the core's request */
        STAGE_READ,    /* all is read */
};

struct long_work;

/* One request in progress; in the arena of its http_call. */
struct pending_infer {
        struct http_call    *http; /* borrowed: holds this */
        const char          *model;
        int64_t              version;
        enum stage           stage;
        size_t               json_bytes;
        struct long_work    *long_work; /* set while a compute thread has the request */
        bool                 is_short;  /* of an answer that takes too long for the loop */
        struct infer_request request;
        struct infer_call    call;
};

/* A step that takes too long for the loop. A compute thread runs it and owns the call until then. */
struct long_work {
        struct loop_work       work;
        struct pending_infer  *p;       /* borrowed: holds this */
        struct error          *err;     /* owned; result of the work */
        struct arena           scratch; /* for encoding an answer */
        struct http_infer_body body;
};

/* ---- the answer ---- */

/* Prints into the end of `text`, which has room for the largest number. */
static struct str print_size(char *text, size_t room, size_t n) {
        char *at = text + room;

        do {
                *--at = (char)('0' + n % 10);
                n /= 10;
        } while (n > 0);
        return str_range(at, (size_t)(text + room - at));
}

void http_infer_reply_error(struct http_call *http, struct error *err, const char *content_type) {
        static const struct http_header retry = { STR_LIT("Retry-After"), STR_LIT("1") };
        unsigned                        cloud_status = cloud_error_status(http, err);
        const struct http_reply         reply = {
                        .status = 503, .content_type = content_type, .headers = &retry, .n_headers = 1
        };

        if (cloud_status != 0) {
                http_call_reply_refusal(http, cloud_status, err->message, content_type);
                error_free(err);
                return;
        }
        if (err->code != ERR_UNAVAILABLE) {
                http_call_reply_error(http, err, content_type);
                return;
        }
        http_call_reply_with_error(http, reply, err->message);
        error_free(err);
}

static void send_answer(struct http_call *http, struct http_infer_body *body) {
        char                      text[20];               /* the digits of a size_t */
        char                      type[CLOUD_TYPE_BYTES]; /* the arena may be reset by the reply */
        const struct cloud_front *cloud = http->service->cloud;
        struct http_header        headers[2];
        struct http_reply         reply = {
                        .status = 200,
                        .content_type = body->has_binary ? "application/octet-stream" : HTTP_JSON,
                        .parts = body->parts,
                        .n_parts = body->n_parts,
                        .is_brief = body->is_brief,
                        .is_compressible = true,
                        .packed_as = body->packed_as,
                        .headers = headers,
        };

        if (body->has_binary && cloud != NULL) {
                snprintf(type, sizeof(type), "%s;" CLOUD_JSON_SIZE "=%zu", cloud->binary_type,
                         body->json_bytes);
                reply.content_type = type;
        } else if (body->has_binary) {
                headers[0].name = STR_LIT("Inference-Header-Content-Length");
                headers[0].value = print_size(text, sizeof(text), body->json_bytes);
                reply.n_headers = 1;
        }
        if (http_trace_answer_header(http, &headers[reply.n_headers]))
                reply.n_headers++;
        http_call_reply(http, &reply);
}

static size_t answer_work(const struct http_call *http, const struct infer_response *r) {
        size_t work = infer_response_work(r);

        if (work > LOOP_MAX_WORK_BYTES || infer_response_bytes(r) <= LOOP_MAX_WORK_BYTES ||
            !http_call_wants_packing(http))
                return work;
        return SIZE_MAX;
}

/* If the answer takes more than max_work, sets *ret_is_more and encodes nothing. */
static struct error *make_answer(struct pending_infer *p, struct arena *scratch, size_t max_work,
                                 struct http_infer_body *ret, bool *ret_is_more) {
        struct TRITONSERVER_InferenceResponse *core_response;
        struct http_call                      *http = p->http;
        const struct http_infer_room room = { &http->arena, scratch, http_call_buf_pool(http) };
        struct infer_classes         classes;
        struct infer_response        response;
        struct error                *err;
        size_t                       work;

        TRY(infer_call_get_response(&p->call, &core_response));
        TRY(infer_call_check_regions(&p->call));
        TRY(infer_response_read(core_response, &p->request, scratch, &response));
        work = max_work < SIZE_MAX ? answer_work(http, &response) : 0;
        p->is_short = work <= LOOP_SHORT_WORK_BYTES;
        *ret_is_more = work > max_work;
        if (*ret_is_more)
                return NULL;
        infer_classes_init(&classes);
        err = infer_classes_replace(&classes, http->core, core_response, &response, scratch);
        if (err == NULL)
                err = http_infer_encode(&response, &room, ret);
        infer_classes_done(&classes);
        return err;
}

/* Frees what the request holds outside the arena. */
static void pending_done(struct pending_infer *p) {
        infer_call_done(&p->call);
        infer_request_done(&p->request);
}

/* Answers the call; takes the error. */
static void answer_infer(struct pending_infer *p, struct error *err, struct http_infer_body *body) {
        struct http_call *http = p->http;

        pending_done(p);
        if (err != NULL)
                http_infer_reply_error(http, err, HTTP_JSON);
        else
                send_answer(http, body);
}

static void start_long_work(struct pending_infer *p, loop_work_fn run, loop_work_fn done,
                            bool is_short) {
        struct long_work *w = ARENA_NEW(&p->http->arena, struct long_work);

        w->work.run = run;
        w->work.done = done;
        w->work.is_short = is_short;
        w->p = p;
        p->long_work = w;
        http_call_compute(p->http, &w->work);
}

static void run_answer(struct loop_work *work) {
        struct long_work       *w = CONTAINER_OF(work, struct long_work, work);
        struct http_infer_body *body = &w->body;
        bool                    is_more;

        arena_init(&w->scratch, NULL, 0, MAX_SCRATCH_BYTES);
        arena_set_budget(&w->scratch, buf_pool_budget(http_call_buf_pool(w->p->http)));
        w->err = make_answer(w->p, &w->scratch, SIZE_MAX, body, &is_more);
        if (w->err == NULL)
                body->packed_as = http_call_pack(w->p->http, body->parts, &body->n_parts);
}

static void on_answer(struct loop_work *work) {
        struct long_work *w = CONTAINER_OF(work, struct long_work, work);
        struct arena      scratch = w->scratch; /* `w` may be gone after the answer */

        w->p->long_work = NULL;
        answer_infer(w->p, w->err, &w->body);
        arena_done(&scratch);
}

static void on_done(struct infer_call *c) {
        _Alignas(ARENA_ALIGNMENT) char memory[SCRATCH_BYTES];
        struct arena                   scratch;
        struct pending_infer          *p = c->options.owner;
        struct http_infer_body         body;
        struct error                  *err;
        bool                           is_more = false;

        arena_init(&scratch, memory, sizeof(memory), MAX_SCRATCH_BYTES);
        /* Also when the client has closed its sending side: it may still read. */
        err = make_answer(p, &scratch, LOOP_MAX_WORK_BYTES, &body, &is_more);
        if (is_more)
                start_long_work(p, run_answer, on_answer, p->is_short);
        else
                answer_infer(p, err, &body);
        arena_done(&scratch);
}

/* ---- the request ---- */

static struct error *check_model(const struct infer_call *c) {
        bool is_decoupled = false;

        TRY(core_error_take(NESO_InferenceRequestIsDecoupled(c->request, &is_decoupled)));
        if (is_decoupled)
                return error_new(ERR_UNSUPPORTED, "HTTP end point doesn't support models with "
                                                  "decoupled transaction policy");
        return NULL;
}

struct error *http_infer_forward_headers(struct http_call *http, struct infer_request *q) {
        const struct header_forward *f = &http->service->infer->header_forward;
        const struct http_header    *headers;

        if (!f->has_pattern)
                return NULL;
        headers = http_call_headers(http);
        for (size_t i = 0; i < http->n_headers; i++)
                if (!access_hides_field(&http->access, headers[i].name))
                        TRY(header_forward_add(f, headers[i].name, headers[i].value, &http->arena,
                                               q));
        return NULL;
}

static struct error *read_json(struct pending_infer *p) {
        struct http_call        *http = p->http;
        struct http_infer_source source = {
                .body = http->body,
                .json_bytes = p->json_bytes,
                .model_name = p->model,
                .max_input_bytes = http->service->max_input_bytes,
                .arena = &http->arena,
                .pool = http_call_buf_pool(http),
        };

        return http_infer_decode(&source, &p->request);
}

/* Reads the length of the JSON part of a body, wherever this front announces it. */
static struct error *read_json_bytes(const struct http_call *http, size_t body_bytes, size_t *ret) {
        const struct cloud_front *cloud = http->service->cloud;

        if (cloud != NULL)
                return cloud_read_json_bytes(cloud, http_call_find(http, HTTP_NAME_CONTENT_TYPE),
                                             body_bytes, ret);
        return http_infer_read_json_bytes(http_call_find(http, HTTP_NAME_INFER_JSON_LENGTH),
                                          body_bytes, ret);
}

static bool announces_tensors(const struct http_call *http) {
        const struct cloud_front *cloud = http->service->cloud;

        if (cloud != NULL)
                return cloud_is_binary(cloud, http_call_find(http, HTTP_NAME_CONTENT_TYPE));
        return http_call_find(http, HTTP_NAME_INFER_JSON_LENGTH).ptr != NULL;
}

static struct error *read_tensors(struct pending_infer *p) {
        TRY(infer_call_find_regions(&p->call, &p->request, &p->http->arena));
        TRY(http_infer_forward_headers(p->http, &p->request));
        TRY(infer_request_add_key_name(&p->request, &p->http->arena,
                                       access_key_name(&p->http->access)));
        return infer_call_fill(&p->call, &p->request);
}

/* Continues at p->stage, to the end or to the first stage that takes more than max_work. */
static struct error *read_request(struct pending_infer *p, size_t max_work) {
        bool is_more;

        if (p->stage == STAGE_BODY) {
                TRY(http_call_decode_body(p->http, max_work, &is_more));
                if (is_more)
                        return NULL;
                p->call.options.message_bytes = p->http->body.len; /* decompressed */
                p->stage = STAGE_LENGTH;
        }
        if (p->stage == STAGE_LENGTH) {
                if (p->http->service->cloud != NULL)
                        TRY(cloud_check_types(p->http));
                TRY(read_json_bytes(p->http, p->http->body.len, &p->json_bytes));
                p->stage = STAGE_JSON;
        }
        if (p->stage == STAGE_JSON) {
                if (p->json_bytes > max_work)
                        return NULL;
                TRY(read_json(p));
                p->stage = STAGE_TENSORS;
        }
        if (infer_call_is_long(&p->call, &p->request, max_work))
                return NULL;
        TRY(read_tensors(p));
        p->stage = STAGE_READ;
        return NULL;
}

/* Answers a request that was not started; takes the error. */
static void refuse_infer(struct pending_infer *p, struct error *err) {
        struct http_call *http = p->http;
        enum stage        stage = p->stage;

        http->on_abort = NULL;
        pending_done(p);
        if (stage == STAGE_BODY)
                http_call_reply_encoding_error(http, err, NULL);
        else
                http_infer_reply_error(http, err, stage < STAGE_JSON ? NULL : HTTP_JSON);
}

static void start_infer(struct pending_infer *p) {
        struct error *err = infer_call_start(&p->call, http_trace_start(p->http, p->model));

        if (err != NULL)
                refuse_infer(p, err);
        /* On success `p` may already be gone, because the request was answered. */
}

/* Submits the request here as well, because the core also reads the tensors. */
static void run_reading(struct loop_work *work) {
        struct long_work     *w = CONTAINER_OF(work, struct long_work, work);
        struct pending_infer *p = w->p;

        w->err = read_request(p, SIZE_MAX);
        if (w->err == NULL)
                w->err = infer_call_submit(&p->call, http_trace_start(p->http, p->model));
}

static void on_reading(struct loop_work *work) {
        struct long_work     *w = CONTAINER_OF(work, struct long_work, work);
        struct pending_infer *p = w->p;
        struct error         *err;

        p->long_work = NULL;
        err = infer_call_take_back(&p->call, work, w->err, p->http->is_aborted);
        if (err != NULL)
                refuse_infer(p, err);
}

/* What a body decompresses to is not known before, nor are the strings in shared memory. */
static bool is_short_reading(const struct pending_infer *p) {
        if (p->stage == STAGE_JSON)
                return p->json_bytes <= LOOP_SHORT_WORK_BYTES;
        return p->stage == STAGE_TENSORS &&
               !infer_call_is_long(&p->call, &p->request, LOOP_SHORT_WORK_BYTES);
}

static void init_pending(struct pending_infer *p, struct http_call *http) {
        struct infer_call_options options = {
                .core = http->service->infer,
                .mailbox = http_call_mailbox(http),
                .pool = http_call_buf_pool(http),
                .on_done = on_done,
                .owner = p,
                .message_bytes = http->body.len,
                .cold = http_call_state(http),
        };

        p->http = http;
        p->stage = STAGE_MODEL;
        p->long_work = NULL;
        infer_request_init(&p->request);
        infer_call_init(&p->call, &options);
}

static struct error *find_model(struct pending_infer *p) {
        struct http_call *http = p->http;

        p->model = arena_str(&http->arena, http->model);
        TRY(model_version_read(http->version, &p->version));
        TRY(infer_call_open(&p->call, p->model, p->version));
        return check_model(&p->call);
}

/* A compute thread that encodes an answer is not cancelled: the client may still read. */
static void on_abort(struct http_call *http) {
        struct pending_infer *p = http->pending;

        if (p->long_work == NULL)
                infer_call_cancel(&p->call);
        else if (p->long_work->work.run == run_reading)
                loop_compute_cancel(&p->long_work->work);
}

/* ---- the size of the body ---- */

/* What a body has, as its head announces it. */
enum content {
        CONTENT_OTHER, /* the handler refuses it */
        CONTENT_JSON,
        CONTENT_TENSORS, /* after the JSON */
        CONTENT_RAW,     /* the data of the only input */
        CONTENT_COMPRESSED,
};

static enum content content_of(const struct http_call *http, size_t *ret_json_bytes) {
        struct str encoding = http_call_find(http, HTTP_NAME_CONTENT_ENCODING);
        AUTO_ERROR err = NULL;

        if (str_is(encoding, "gzip") || str_is(encoding, "deflate"))
                return CONTENT_COMPRESSED;
        if (encoding.len > 0 && !str_is(encoding, "identity"))
                return CONTENT_OTHER;
        if (!announces_tensors(http))
                return CONTENT_JSON;
        err = read_json_bytes(http, SIZE_MAX, ret_json_bytes);
        if (err != NULL)
                return CONTENT_OTHER;
        return *ret_json_bytes == 0 ? CONTENT_RAW : CONTENT_TENSORS;
}

struct error *http_infer_check_body(const struct http_call *http, uint64_t bytes,
                                    struct http_body_limit *limit) {
        size_t       max = http->service->max_input_bytes, json_bytes = bytes;
        enum content content = content_of(http, &json_bytes);

        if (content == CONTENT_TENSORS && json_bytes <= max)
                limit->max_bytes = SIZE_MAX;
        if (bytes <= limit->max_bytes)
                return NULL;
        if (content == CONTENT_COMPRESSED)
                return http_call_inflated_too_large(http);
        if (content == CONTENT_OTHER)
                return http_call_body_too_large(bytes, max);
        limit->refusal_type = HTTP_JSON;
        return content == CONTENT_RAW ? http_infer_raw_too_large(bytes, max)
                                      : http_infer_json_too_large(json_bytes, max);
}

void http_infer_post(struct http_call *http) {
        struct pending_infer *p = arena_alloc(&http->arena, sizeof(*p));
        struct error         *err;

        init_pending(p, http);
        err = find_model(p);
        if (err == NULL) {
                p->stage = STAGE_BODY;
                err = read_request(p, LOOP_MAX_WORK_BYTES);
        }
        if (err != NULL) {
                refuse_infer(p, err);
                return;
        }
        http->pending = p;
        http->on_abort = on_abort;
        if (p->stage == STAGE_READ)
                start_infer(p);
        else
                start_long_work(p, run_reading, on_reading, is_short_reading(p));
}
