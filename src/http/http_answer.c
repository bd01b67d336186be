/* SPDX-License-Identifier: BSD-3-Clause */
/* An answer: its head, its compression, and the one write that sends it. */
#include "http/http_call.h"

#include "base/buf.h"
#include "base/clock.h"
#include "codec/gzip.h"
#include "http/http_conn.h"
#include "http/http_encoding.h"
#include "http/http_head.h"
#include "http/http_message.h"
#include "http/http_status.h"

#include <string.h>

/* Parts up to this many need no allocation. */
#define INLINE_PARTS 15
/* Further headers of an answer, beside those that each has. */
#define MAX_GATHERED_HEADERS 4

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
static bool compress(struct http_call *call, const struct http_part *parts, size_t n_parts,
                     enum http_encoding encoding, struct http_part *ret) {
        enum gzip_format format =
                encoding == HTTP_ENCODING_GZIP ? GZIP_FORMAT_GZIP : GZIP_FORMAT_ZLIB;
        struct iovec    *iov = arena_try_alloc(&call->arena, (n_parts + 1) * sizeof(*iov));
        struct buf      *packed;

        if (!iov)
                return false;
        for (size_t i = 0; i < n_parts; i++)
                iov[i] = (struct iovec){ (void *)(uintptr_t)parts[i].ptr, parts[i].len };
        if (gzip_deflate_buf(format, iov, n_parts, http_call_buf_pool(call), &packed) != GZIP_OK)
                return false;
        for (size_t i = 0; i < n_parts; i++)
                buf_unref(parts[i].buf);
        *ret = (struct http_part){ packed->bytes, packed->len, packed };
        return true;
}

/* The parts are compressed; the head says so. */
static enum conn_write write_packed(struct http_conn *c, const struct http_reply *reply,
                                    const char *encoding) {
        struct http_reply   dressed = *reply;
        struct http_header *headers;

        headers = arena_alloc(&c->call.arena, (reply->n_headers + 1) * sizeof(*headers));
        if (reply->n_headers > 0)
                memcpy(headers, reply->headers, reply->n_headers * sizeof(*headers));
        headers[reply->n_headers] = (struct http_header){
                STR_LIT("Content-Encoding"), str_of(encoding)
        };
        dressed.headers = headers;
        dressed.n_headers = reply->n_headers + 1;
        return http_answer_write(c, &dressed, false);
}

static enum conn_write write_compressed(struct http_conn *c, const struct http_reply *reply,
                                        enum http_encoding encoding) {
        struct http_reply dressed = *reply;
        struct http_part  part;

        if (!compress(&c->call, reply->parts, reply->n_parts, encoding, &part))
                return http_answer_write(c, reply, false);
        dressed.parts = &part;
        dressed.n_parts = 1;
        return write_packed(c, &dressed, http_encoding_name(encoding));
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

/* ---- what a call holds while its answer is written ---- */

/* Of an arena, or of a body's own buffer, that stays as it is until the client has read the answer. */
#define KEPT_BYTES ((size_t)64 << 10)

static bool holds_much(const struct http_conn *c) {
        const struct http_call *call = &c->call;

        return call->arena.used_bytes > KEPT_BYTES ||
               (call->body_buf && call->body_buf->cap > KEPT_BYTES);
}

/* An answer whose parts and headers lie in buffers of their own. */
struct gathered {
        struct http_reply  reply;
        struct buf        *holder; /* ref, and another one of each part in it */
        struct http_part   parts[INLINE_PARTS];
        struct http_header headers[MAX_GATHERED_HEADERS];
};

static size_t measure_gathered(const struct http_reply *reply) {
        size_t bytes = 0;

        for (size_t i = 0; i < reply->n_parts; i++)
                bytes += reply->parts[i].buf ? 0 : reply->parts[i].len;
        for (size_t i = 0; i < reply->n_headers; i++)
                bytes += reply->headers[i].name.len + reply->headers[i].value.len;
        return bytes;
}

static const char *move_to(struct buf *b, const void *bytes, size_t len) {
        char *at = b->bytes + b->len;

        if (len > 0)
                memcpy(at, bytes, len);
        b->len += len;
        return at;
}

/* Copies what lies in the call's memory. False without memory for it, or when there are many parts:
 * then nothing has changed. */
static bool gather(struct http_conn *c, const struct http_reply *reply, struct gathered *ret) {
        struct buf *b;

        if (reply->n_parts > INLINE_PARTS || reply->n_headers > MAX_GATHERED_HEADERS)
                return false;
        b = buf_new(http_call_buf_pool(&c->call), measure_gathered(reply));
        if (!b)
                return false;
        ret->reply = *reply;
        ret->reply.parts = ret->parts;
        ret->reply.headers = ret->headers;
        ret->reply.is_brief = false;
        for (size_t i = 0; i < reply->n_parts; i++) {
                ret->parts[i] = reply->parts[i];
                if (ret->parts[i].buf)
                        continue;
                ret->parts[i].ptr = move_to(b, reply->parts[i].ptr, reply->parts[i].len);
                ret->parts[i].buf = b;
                buf_ref(b);
        }
        for (size_t i = 0; i < reply->n_headers; i++) {
                struct str name = reply->headers[i].name, value = reply->headers[i].value;

                ret->headers[i].name = str_range(move_to(b, name.ptr, name.len), name.len);
                ret->headers[i].value = str_range(move_to(b, value.ptr, value.len), value.len);
        }
        ret->holder = b;
        return true;
}

/* What the handler has needed goes before the client has read its answer. */
static COLD const struct http_reply *shed(struct http_conn *c, const struct http_reply *reply,
                                          struct gathered *memory, struct buf **ret_holder) {
        struct http_call *call = &c->call;

        if (!gather(c, reply, memory))
                return reply;
        arena_reset(&call->arena);
        call->headers = NULL;
        call->pending = NULL;
        if (call->body_buf != c->in) {
                buf_unref(STEAL(call->body_buf));
                call->body = (struct str){ 0 };
        }
        *ret_holder = memory->holder; /* of headers, until they are printed */
        return &memory->reply;
}

static enum http_encoding accepted_encoding(const struct http_call *call) {
        const struct http_message  *m = call->conn->message;
        struct http_encoding_choice choice = { 0 };

        if (!call->head || m->known[HTTP_NAME_ACCEPT_ENCODING] == 0)
                return HTTP_ENCODING_IDENTITY;
        for (size_t i = m->known[HTTP_NAME_ACCEPT_ENCODING] - 1; i < m->n_fields; i++) {
                struct http_header h = http_message_header(m, call->head, i);

                if (http_head_find_name(h.name) == HTTP_NAME_ACCEPT_ENCODING)
                        http_encoding_consider(&choice, h.value);
        }
        return choice.best;
}

bool http_call_wants_packing(const struct http_call *call) {
        return accepted_encoding(call) != HTTP_ENCODING_IDENTITY;
}

const char *http_call_pack(struct http_call *call, struct http_part *parts, size_t *n_parts) {
        enum http_encoding encoding = accepted_encoding(call);
        struct http_part   packed;

        if (encoding == HTTP_ENCODING_IDENTITY || *n_parts == 0 ||
            !compress(call, parts, *n_parts, encoding, &packed))
                return NULL;
        parts[0] = packed;
        *n_parts = 1;
        return http_encoding_name(encoding);
}

static enum conn_write write_answer(struct http_conn *c, const struct http_reply *reply) {
        enum http_encoding encoding = HTTP_ENCODING_IDENTITY;

        if (reply->packed_as)
                return write_packed(c, reply, reply->packed_as);
        if (reply->is_compressible)
                encoding = accepted_encoding(&c->call);
        return encoding == HTTP_ENCODING_IDENTITY ? write_plain(c, reply)
                                                  : write_compressed(c, reply, encoding);
}

void http_call_reply(struct http_call *call, const struct http_reply *reply) {
        struct http_conn *c = call->conn;
        struct gathered   memory; /* mostly untouched */
        struct buf       *holder = NULL;
        enum conn_write   rc;

        call->send_start_ns = clock_now_ns();
        c->out.status = reply->status;
        c->out.close = c->out.close || reply->close || c->must_linger || c->home->net.is_draining ||
                       c->has_ended;
        if (UNLIKELY(holds_much(c)))
                reply = shed(c, reply, &memory, &holder);
        rc = write_answer(c, reply);
        buf_unref(holder);
        if (rc == CONN_WRITE_PENDING) {
                http_conn_enter(c, HTTP_CONN_WRITE, HTTP_PHASE_WRITE, call->send_start_ns);
                return;
        }
        if (rc == CONN_WRITE_FAILED)
                http_conn_close(c);
        http_conn_end_call(c);
        http_conn_run(c);
}
