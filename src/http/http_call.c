/* SPDX-License-Identifier: BSD-3-Clause */
#include "http/http_call.h"

#include "base/buf.h"
#include "call/service.h"
#include "codec/gzip.h"
#include "http/http_conn.h"
#include "http/http_message.h"
#include "http/http_reply.h"
#include "net/loop.h"

#include <string.h>

/* A response text up to this size is copied into the arena, a larger one into a buffer. */
#define MAX_TEXT_IN_ARENA ((size_t)4 << 10)

struct str http_call_find(const struct http_call *call, enum http_name name) {
        const struct http_message *m = call->conn->message;

        if (call->head == NULL || m->known[name] == 0)
                return str_range(NULL, 0);
        return http_message_header(m, call->head, m->known[name] - 1).value;
}

const struct http_header *http_call_headers(struct http_call *call) {
        struct http_header *headers;

        if (call->headers == NULL) {
                headers = arena_alloc(&call->arena, (call->n_headers + 1) * sizeof(*headers));
                for (size_t i = 0; i < call->n_headers; i++)
                        headers[i] = http_message_header(call->conn->message, call->head, i);
                call->headers = headers;
        }
        return call->headers;
}

struct str http_call_header_nth(struct http_call *call, const char *name, size_t n) {
        const struct http_header *headers = http_call_headers(call);
        struct str                wanted = str_of(name);

        for (size_t i = 0; i < call->n_headers; i++)
                if (str_equal_nocase(headers[i].name, wanted) && n-- == 0)
                        return headers[i].value;
        return str_range(NULL, 0);
}

struct str http_call_header(struct http_call *call, const char *name) {
        return http_call_header_nth(call, name, 0);
}

const char *http_call_model(struct http_call *call) {
        return arena_str(&call->arena, call->model);
}

bool http_call_keep_text(struct http_call *call, struct str text, struct http_part *ret) {
        struct buf *holder;

        if (text.len <= MAX_TEXT_IN_ARENA) {
                *ret = (struct http_part){ arena_str(&call->arena, text), text.len, NULL };
                return true;
        }
        holder = buf_new(http_call_buf_pool(call), text.len);
        if (holder == NULL)
                return false;
        memcpy(holder->bytes, text.ptr, text.len);
        *ret = (struct http_part){ holder->bytes, text.len, holder };
        return true;
}

void http_call_reply_text(struct http_call *call, const char *content_type, struct str text) {
        struct http_part        part;
        const struct http_reply reply = {
                .status = 200,
                .content_type = content_type,
                .parts = &part,
                .n_parts = text.len > 0 ? 1 : 0,
        };

        if (http_call_keep_text(call, text, &part))
                http_call_reply(call, &reply);
        else
                http_call_reply_refusal(call, 503,
                                        buf_pool_shortage(http_call_buf_pool(call), text.len),
                                        content_type);
}

void http_call_reply_json(struct http_call *call, const struct strbuf *text) {
        struct error *err = strbuf_check(text, "the answer");

        if (err != NULL)
                http_call_reply_error(call, err, HTTP_JSON);
        else
                http_call_reply_text(call, HTTP_JSON, strbuf_str(text));
}

void http_call_reply_empty(struct http_call *call, unsigned status) {
        const struct http_reply reply = { .status = status };

        http_call_reply(call, &reply);
}

void http_call_reply_error(struct http_call *call, struct error *err, const char *content_type) {
        AUTO_ERROR gone = err;

        http_call_reply_refusal(call, http_status_of_code(gone->code), gone->message, content_type);
}

struct loop *http_call_loop(const struct http_call *call) {
        return call->conn->shard->net.loop;
}

struct mailbox *http_call_mailbox(const struct http_call *call) {
        return loop_mailbox(call->conn->shard->net.loop);
}

struct str http_call_state(const struct http_call *call) {
        return str_range((const char *)call->conn + HTTP_CONN_BUSY_AT,
                         HTTP_CONN_BUSY_END - HTTP_CONN_BUSY_AT);
}

struct buf_pool *http_call_buf_pool(const struct http_call *call) {
        return loop_buf_pool(call->conn->shard->net.loop);
}

void http_call_start_work_thread(struct http_call *call, struct loop_work *work) {
        loop_start_work_thread(call->conn->shard->net.loop, work);
}

void http_call_compute(struct http_call *call, struct loop_work *work) {
        loop_compute(call->conn->shard->net.loop, work);
}

/* ---- a compressed body ---- */

struct error *http_call_inflated_too_large(const struct http_call *call) {
        return error_new(ERR_INVALID_ARG,
                         "Decompressed data size exceeds the maximum allowed value of %zu bytes. "
                         "Use --http-max-input-size to increase the limit.",
                         call->service->max_input_bytes);
}

static struct error *inflate_error(const struct http_call *call, enum gzip_status status) {
        if (status == GZIP_TOO_LARGE)
                return http_call_inflated_too_large(call);
        if (status == GZIP_NO_MEMORY)
                return error_new(ERR_UNAVAILABLE, "out of memory");
        if (status == GZIP_OVER_BUDGET)
                return error_new(ERR_UNAVAILABLE, "unable to decompress the request body: %s",
                                 gzip_status_text(status));
        return error_new(ERR_INVALID_ARG, "unable to decompress the request body: %s",
                         gzip_status_text(status));
}

struct error *http_call_check_identity(const struct http_call *call) {
        struct str encoding = http_call_find(call, HTTP_NAME_CONTENT_ENCODING);

        if (encoding.len == 0 || STR_IS(encoding, "identity"))
                return NULL;
        return error_new(ERR_INVALID_ARG,
                         "Unsupported content-encoding, only 'identity' is supported.");
}

struct error *http_call_decode_body(struct http_call *call, size_t max_bytes, bool *ret_is_more) {
        struct str       encoding = http_call_find(call, HTTP_NAME_CONTENT_ENCODING);
        size_t           max_input_bytes = call->service->max_input_bytes;
        enum gzip_status status = GZIP_TOO_LARGE;
        struct buf      *plain;

        *ret_is_more = false;
        if (encoding.len == 0 || str_is(encoding, "identity"))
                return NULL;
        if (!str_is(encoding, "gzip") && !str_is(encoding, "deflate"))
                return error_new(ERR_UNSUPPORTED, "Unsupported compression type");
        /* Compressed bytes beyond the limit: do not even try. */
        if (call->body.len <= max_bytes)
                status = gzip_inflate_buf(call->body, MIN(max_bytes, max_input_bytes),
                                          http_call_buf_pool(call), &plain);
        if (status == GZIP_TOO_LARGE && max_bytes < max_input_bytes) {
                *ret_is_more = true;
                return NULL;
        }
        if (status != GZIP_OK)
                return inflate_error(call, status);
        buf_unref(call->body_buf);
        call->body_buf = plain;
        call->body = str_range(plain->bytes, plain->len);
        return NULL;
}

void http_call_reply_encoding_error(struct http_call *call, struct error *err,
                                    const char *content_type) {
        static const struct http_header accepted = { STR_LIT("Accept-Encoding"),
                                                     STR_LIT("gzip, deflate") };
        static const struct http_part   body = { "{\"error\":\"Unsupported compression type\"}", 40,
                                                 NULL };
        const struct http_reply         reply = { .status = 501,
                                                  .content_type = content_type,
                                                  .headers = &accepted,
                                                  .n_headers = 1,
                                                  .parts = &body,
                                                  .n_parts = 1 };

        if (err->code != ERR_UNSUPPORTED) {
                http_call_reply_error(call, err, content_type);
                return;
        }
        error_free(err);
        http_call_reply(call, &reply);
}
