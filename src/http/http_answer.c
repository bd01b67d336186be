/* SPDX-License-Identifier: BSD-3-Clause */
/* An answer: its head, its compression, and the one write that sends it. */
#include "http/http_call.h"

#include "base/buf.h"
#include "base/clock.h"
#include "codec/gzip.h"
#include "http/http_conn.h"
#include "http/http_encoding.h"
#include "http/http_status.h"

#include <string.h>

/* Parts up to this many need no allocation. */
#define INLINE_PARTS 15

/* ---- the head ---- */

/* A cursor into memory that was measured before. */
static char *put(char *at, const char *bytes, size_t len) {
        memcpy(at, bytes, len);
        return at + len;
}

#define PUT_LIT(at, literal) put((at), (literal), sizeof(literal) - 1)

static char *put_text(char *at, const char *text) {
        return put(at, text, strlen(text));
}

static char *put_u64(char *at, uint64_t value) {
        char  digits[20]; /* 2^64 has 20 */
        char *first = digits + sizeof(digits);

        do {
                *--first = (char)('0' + value % 10);
                value /= 10;
        } while (value > 0);
        return put(at, first, (size_t)(digits + sizeof(digits) - first));
}

/* A value that came from a peer or a model must not begin a line of its own. */
static char *put_value(char *at, struct str value) {
        for (size_t i = 0; i < value.len; i++) {
                char c = value.ptr[i];

                *at++ = c == '\r' || c == '\n' || c == '\0' ? ' ' : c;
        }
        return at;
}

static char *put_status(char *at, unsigned status) {
        if (LIKELY(status == 200))
                return PUT_LIT(at, "HTTP/1.1 200 OK\r\n");
        at = PUT_LIT(at, "HTTP/1.1 ");
        at = put_u64(at, status);
        *at++ = ' ';
        at = put_text(at, http_status_phrase(status));
        return PUT_LIT(at, "\r\n");
}

/* At least the bytes that print_head() writes. */
static size_t measure_head(const struct http_reply *reply, struct str content_type) {
        size_t bytes = sizeof("HTTP/1.1 431 Request Header Fields Too Large\r\n"
                              "Content-Type: \r\nConnection: keep-alive\r\n"
                              "Content-Length: \r\n"
                              "Transfer-Encoding: chunked\r\n\r\n") + 20;

        bytes += content_type.len;
        for (size_t i = 0; i < reply->n_headers; i++)
                bytes += reply->headers[i].name.len + reply->headers[i].value.len +
                         sizeof(": \r\n");
        return bytes;
}

struct framing {
        struct str content_type;
        uint64_t   content_length;
        bool       is_chunked;
};

static char *print_head(const struct http_conn *c, const struct http_reply *reply,
                        const struct framing *f, char *at) {
        at = put_status(at, reply->status);
        at = PUT_LIT(at, "Content-Type: ");
        at = put(at, f->content_type.ptr, f->content_type.len);
        at = PUT_LIT(at, "\r\n");
        for (size_t i = 0; i < reply->n_headers; i++) {
                at = put(at, reply->headers[i].name.ptr, reply->headers[i].name.len);
                at = PUT_LIT(at, ": ");
                at = put_value(at, reply->headers[i].value);
                at = PUT_LIT(at, "\r\n");
        }
        if (c->out.close)
                at = PUT_LIT(at, "Connection: close\r\n");
        else if (c->out.is_http10)
                at = PUT_LIT(at, "Connection: keep-alive\r\n");
        if (f->is_chunked)
                return c->out.is_http10 ? PUT_LIT(at, "\r\n")
                                        : PUT_LIT(at, "Transfer-Encoding: chunked\r\n\r\n");
        at = PUT_LIT(at, "Content-Length: ");
        at = put_u64(at, f->content_length);
        return PUT_LIT(at, "\r\n\r\n");
}

/* ---- buffers that a write needs ---- */

static void hold(struct http_conn *c, struct buf *b) {
        struct http_out *out = &c->out;

        if (out->n_held < HTTP_HELD_BUFS)
                out->held[out->n_held++] = b;
        else
                out->more_held[out->n_held++ - HTTP_HELD_BUFS] = b;
}

static void hold_parts(struct http_conn *c, const struct http_part *parts, size_t n) {
        if (n > HTTP_HELD_BUFS)
                c->out.more_held = arena_alloc(&c->call.arena, n * sizeof(struct buf *));
        for (size_t i = 0; i < n; i++)
                if (parts[i].buf)
                        hold(c, parts[i].buf);
}

void http_answer_release(struct http_conn *c) {
        struct http_out *out = &c->out;

        for (size_t i = 0; i < out->n_held; i++)
                buf_unref(i < HTTP_HELD_BUFS ? out->held[i] : out->more_held[i - HTTP_HELD_BUFS]);
        out->n_held = 0;
}

/* ---- the write ---- */

static size_t body_bytes_of(const struct http_reply *reply) {
        size_t bytes = 0;

        for (size_t i = 0; i < reply->n_parts; i++)
                bytes += reply->parts[i].len;
        return bytes;
}

/* A part of an answer that is written for longer than the call. */
static struct iovec keep_part(struct http_conn *c, const struct http_reply *reply, size_t i) {
        const struct http_part *part = &reply->parts[i];
        void                   *bytes = (void *)(uintptr_t)part->ptr;

        if (reply->is_brief && !part->buf)
                bytes = arena_strndup(&c->call.arena, part->ptr, part->len);
        return (struct iovec){ bytes, part->len };
}

/* Into `iov`, behind the head. */
static void list_parts(struct http_conn *c, const struct http_reply *reply, bool is_small,
                       struct iovec *iov) {
        for (size_t i = 0; i < reply->n_parts; i++)
                iov[1 + i] = is_small ? (struct iovec){ (void *)(uintptr_t)reply->parts[i].ptr,
                                                        reply->parts[i].len }
                                      : keep_part(c, reply, i);
}

/* A small answer is copied by the connection, if it cannot be sent at once: its head is printed on
 * the stack. */
enum conn_write http_answer_write(struct http_conn *c, const struct http_reply *reply,
                                  bool is_chunked) {
        struct framing f = {
                .content_type = str_of(reply->content_type ? reply->content_type : "text/plain"),
                .content_length = body_bytes_of(reply),
                .is_chunked = is_chunked,
        };
        struct iovec some[1 + INLINE_PARTS], *iov = some;
        char         small[CONN_SMALL_WRITE], *head = small;
        size_t       head_bytes = measure_head(reply, f.content_type);
        bool         is_small = head_bytes + f.content_length <= sizeof(small);
        size_t       n = 1 + reply->n_parts;

        hold_parts(c, reply->parts, reply->n_parts);
        if (!c->net || conn_is_closing(c->net))
                return CONN_WRITE_FAILED;
        if (reply->n_parts > INLINE_PARTS)
                iov = arena_alloc(&c->call.arena, n * sizeof(*iov));
        if (!is_small)
                head = arena_alloc(&c->call.arena, head_bytes);
        if (c->call.method == HTTP_METHOD_HEAD) /* never a body: RFC 9112, 6.3 */
                n = 1;
        else
                list_parts(c, reply, is_small, iov);
        iov[0].iov_base = head;
        iov[0].iov_len = (size_t)(print_head(c, reply, &f, head) - head);
        c->out.bytes = iov[0].iov_len + (n > 1 ? f.content_length : 0);
        return conn_write_soon(c->net, iov, n);
}

/* The parts as one compressed buffer; false (and nothing has changed) when it cannot be had. */
static bool compress(struct http_conn *c, const struct http_reply *reply, enum gzip_format format,
                     struct buf **ret) {
        struct iovec *iov = arena_alloc(&c->call.arena, (reply->n_parts + 1) * sizeof(*iov));

        for (size_t i = 0; i < reply->n_parts; i++)
                iov[i] = (struct iovec){ (void *)(uintptr_t)reply->parts[i].ptr,
                                         reply->parts[i].len };
        return gzip_deflate_buf(format, iov, reply->n_parts, http_call_buf_pool(&c->call), ret) ==
               GZIP_OK;
}

static enum conn_write write_compressed(struct http_conn *c, const struct http_reply *reply,
                                        enum http_encoding encoding) {
        struct http_reply   dressed = *reply;
        struct http_header *headers;
        struct http_part    part;
        struct buf         *packed;

        if (!compress(c, reply,
                      encoding == HTTP_ENCODING_GZIP ? GZIP_FORMAT_GZIP : GZIP_FORMAT_ZLIB,
                      &packed))
                return http_answer_write(c, reply, false);
        headers = arena_alloc(&c->call.arena, (reply->n_headers + 1) * sizeof(*headers));
        if (reply->n_headers > 0)
                memcpy(headers, reply->headers, reply->n_headers * sizeof(*headers));
        headers[reply->n_headers] = (struct http_header){
                STR_LIT("Content-Encoding"), str_of(http_encoding_name(encoding))
        };
        part = (struct http_part){ packed->bytes, packed->len, packed };
        dressed.headers = headers;
        dressed.n_headers = reply->n_headers + 1;
        dressed.parts = &part;
        dressed.n_parts = 1;
        for (size_t i = 0; i < reply->n_parts; i++)
                buf_unref(reply->parts[i].buf);
        return http_answer_write(c, &dressed, false);
}

/* The whole body as one chunk, and the end behind it. */
static enum conn_write write_one_chunk(struct http_conn *c, const struct http_reply *reply) {
        struct arena     *arena = &c->call.arena;
        struct http_reply dressed = *reply;
        struct http_part *parts = arena_alloc(arena, (reply->n_parts + 2) * sizeof(*parts));
        size_t            bytes = 0, n = 1;

        for (size_t i = 0; i < reply->n_parts; i++) {
                parts[n++] = reply->parts[i];
                bytes += reply->parts[i].len;
        }
        parts[0].ptr = arena_printf(arena, "%zx\r\n", bytes);
        parts[0].len = strlen(parts[0].ptr);
        parts[0].buf = NULL;
        parts[n++] = (struct http_part){ "\r\n0\r\n\r\n", sizeof("\r\n0\r\n\r\n") - 1, NULL };
        dressed.parts = parts;
        dressed.n_parts = n;
        return http_answer_write(c, &dressed, true);
}

static enum conn_write write_plain(struct http_conn *c, const struct http_reply *reply) {
        if (reply->is_chunked && reply->n_parts > 0 && !c->out.is_http10)
                return write_one_chunk(c, reply);
        return http_answer_write(c, reply, false);
}

static enum http_encoding accepted_encoding(const struct http_call *call) {
        struct str accept = http_call_find(call, HTTP_NAME_ACCEPT_ENCODING);

        return accept.len > 0 ? http_encoding_choose(accept) : HTTP_ENCODING_IDENTITY;
}

void http_call_reply(struct http_call *call, const struct http_reply *reply) {
        enum http_encoding encoding = HTTP_ENCODING_IDENTITY;
        struct http_conn  *c = call->conn;
        enum conn_write    rc;

        call->send_start_ns = clock_now_ns();
        c->out.status = reply->status;
        c->out.close = c->out.close || reply->close || c->must_linger || c->home->net.is_draining ||
                       c->has_ended;
        if (reply->is_compressible)
                encoding = accepted_encoding(call);
        rc = encoding == HTTP_ENCODING_IDENTITY ? write_plain(c, reply)
                                                : write_compressed(c, reply, encoding);
        if (rc == CONN_WRITE_PENDING) {
                http_conn_enter(c, HTTP_CONN_WRITE, HTTP_PHASE_WRITE, call->send_start_ns);
                return;
        }
        if (rc == CONN_WRITE_FAILED)
                http_conn_close(c);
        http_conn_end_call(c);
        http_conn_run(c);
}
