/* SPDX-License-Identifier: BSD-3-Clause */
#include "grpc_fixture.h"

#include "base/buf.h"
#include "base/mem.h"

#include <nghttp2/nghttp2.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static struct fixture *current; /* one test at a time */

/* ---- methods ---- */

static void echo(struct grpc_call *call, struct str message, struct buf *owner) {
        const struct grpc_part part = { message.ptr, message.len, owner };

        if (owner != NULL)
                buf_ref(owner);
        grpc_call_reply(call, &part, 1);
}

static void meta(struct grpc_call *call, struct str message, struct buf *owner) {
        struct str       reported = grpc_call_metadata(call, "x-tell");
        struct grpc_part part = { reported.ptr, reported.len, NULL };

        (void)message;
        (void)owner;
        grpc_call_add_initial(call, STR_LIT("x-first"), STR_LIT("one"));
        grpc_call_add_initial(call, STR_LIT("x-bad"), STR_LIT("a\r\nb"));
        grpc_call_add_initial(call, STR_LIT("grpc-status"), STR_LIT("0"));
        grpc_call_add_trailing(call, STR_LIT("x-last"), STR_LIT("two"));
        grpc_call_reply(call, &part, reported.len > 0);
}

static void refuse(struct grpc_call *call, struct str message, struct buf *owner) {
        (void)owner;
        grpc_call_fail(call,
                       error_new(ERR_NOT_FOUND, "100%% not \xc3\xa4 '%.*s'\n", STR_ARG(message)));
}

static void on_sent(struct grpc_call *call) {
        (void)call;
        seen_count(&current->seen, &current->seen.n_sent);
}

static void hold(struct grpc_call *call) {
        MUTEX_GUARD(&current->seen.lock);

        call->on_sent = on_sent;
        current->held = call;
        current->seen.n_held++;
        cond_broadcast(&current->seen.changed);
}

static void later(struct grpc_call *call, struct str message, struct buf *owner) {
        (void)message;
        (void)owner;
        hold(call);
}

static void on_abort(struct grpc_call *call) {
        MUTEX_GUARD(&current->seen.lock);

        current->seen.n_aborted++;
        current->reason = call->abort_reason;
        cond_broadcast(&current->seen.changed);
}

static void abort_and_finish(struct grpc_call *call) {
        on_abort(call);
        grpc_call_finish(call, GRPC_CANCELLED, NULL);
}

#define MIB ((size_t)1 << 20)

static struct grpc_part filled(struct grpc_call *call, size_t len, int c) {
        struct buf *b = buf_new(grpc_call_buf_pool(call), len);

        memset(b->bytes, c, len);
        return (struct grpc_part){ b->bytes, len, b };
}

static void big(struct grpc_call *call, struct str message, struct buf *owner) {
        struct grpc_part parts[12];

        (void)message;
        (void)owner;
        for (size_t i = 0; i < ARRAY_LEN(parts); i++)
                parts[i] = filled(call, MIB, 'a' + (int)i);
        grpc_call_reply(call, parts, ARRAY_LEN(parts));
}

/* Until the limit of what may wait unsent ends it. */
static void flood(struct grpc_call *call, struct str message, struct buf *owner) {
        (void)message;
        (void)owner;
        for (int i = 0; i < 1000 && !grpc_call_is_aborted(call); i++) {
                struct grpc_part part = filled(call, MIB, 'x');

                grpc_call_send(call, &part, 1);
        }
        grpc_call_finish(call, GRPC_OK, NULL);
}

static void chat(struct grpc_call *call, struct str message, struct buf *owner) {
        struct grpc_part part = { message.ptr, message.len, NULL };

        (void)owner;
        grpc_call_send(call, &part, 1);
}

static void end_chat(struct grpc_call *call) {
        grpc_call_finish(call, GRPC_OK, NULL);
}

static void slow(struct grpc_call *call, struct str message, struct buf *owner) {
        chat(call, message, owner);
        grpc_call_pause(call);
        MUTEX_GUARD(&current->seen.lock);

        current->n_messages++;
        current->held = call;
        cond_broadcast(&current->seen.changed);
}

static void starve(struct grpc_call *call, struct str message, struct buf *owner) {
        uint64_t n = 0;

        (void)owner;
        assert_true(str_to_u64(message, &n));
        current->starved = grpc_call_mailbox(call);
        grpc_call_reply(call, NULL, 0);
        mem_fail_after((unsigned)n);
}

static void on_feed(struct mail *m) {
        struct fixture *f = CONTAINER_OF(m, struct fixture, feed);
        MUTEX_GUARD(&f->seen.lock);

        mem_fail_after(0);
        f->n_fed++;
        cond_broadcast(&f->seen.changed);
}

static const struct grpc_method rows[] = {
        { .path = "/t.T/Echo", .group = ENDPOINT_INFERENCE, .on_message = echo },
        { .path = "/t.T/Meta", .group = ENDPOINT_INFERENCE, .on_message = meta },
        { .path = "/t.T/Fail", .group = ENDPOINT_INFERENCE, .on_message = refuse },
        { .path = "/t.T/Later",
          .group = ENDPOINT_INFERENCE,
          .on_message = later,
          .on_abort = on_abort },
        { .path = "/t.T/Big", .group = ENDPOINT_INFERENCE, .on_message = big },
        { .path = "/t.T/Flood",
          .group = ENDPOINT_INFERENCE,
          .is_server_stream = true,
          .on_message = flood,
          .on_abort = on_abort },
        { .path = "/t.T/Chat",
          .group = ENDPOINT_INFERENCE,
          .is_client_stream = true,
          .is_server_stream = true,
          .on_message = chat,
          .on_half_close = end_chat,
          .on_abort = abort_and_finish },
        { .path = "/t.T/Slow",
          .group = ENDPOINT_INFERENCE,
          .is_client_stream = true,
          .is_server_stream = true,
          .on_message = slow,
          .on_half_close = end_chat,
          .on_abort = abort_and_finish },
        { .path = "/t.T/Locked", .group = ENDPOINT_TRACE, .on_message = echo },
        { .path = "/t.T/Packed",
          .group = ENDPOINT_INFERENCE,
          .is_compressible = true,
          .on_message = echo },
        { .path = "/t.T/Starve", .group = ENDPOINT_INFERENCE, .on_message = starve },
};

/* ---- the server ---- */

static const char *code_name(unsigned code) {
        static const char *const names[N_GRPC_CODES] = {
                "OK",
                "CANCELLED",
                "UNKNOWN",
                "INVALID_ARGUMENT",
                "DEADLINE_EXCEEDED",
                "NOT_FOUND",
                "ALREADY_EXISTS",
                "PERMISSION_DENIED",
                "RESOURCE_EXHAUSTED",
                "FAILED_PRECONDITION",
                "ABORTED",
                "OUT_OF_RANGE",
                "UNIMPLEMENTED",
                "INTERNAL",
                "UNAVAILABLE",
                "DATA_LOSS",
                "UNAUTHENTICATED",
        };

        assert_in_range(code, 0, N_GRPC_CODES - 1);
        return names[code];
}

static void on_access(void *owner, const struct access_entry *a) {
        seen_access(owner, "%.*s %s in %llu out %llu%s\n", STR_ARG(a->path), code_name(a->status),
                    (unsigned long long)a->bytes_in, (unsigned long long)a->bytes_out,
                    a->is_aborted ? " aborted" : "");
}

void fixture_init(struct fixture *f) {
        *f = (struct fixture){ 0 };
        seen_init(&f->seen);
        endpoint_policy_init(&f->policy);
        grpc_server_options_init(&f->options);
        f->options.net.address = "127.0.0.1";
        f->options.net.n_threads = 2;
        f->options.methods = (struct grpc_method_table){ rows, ARRAY_LEN(rows) };
        f->options.service.policy = &f->policy;
        f->options.net.on_rejected = seen_rejected;
        f->options.net.rejected_owner = &f->seen;
        f->options.service.on_access = on_access;
        f->options.service.access_owner = &f->seen;
        current = f;
}

void fixture_start(struct fixture *f) {
        assert_null(grpc_server_new(&f->options, &f->server));
        net_server_start(grpc_server_net(f->server));
}

void fixture_done(struct fixture *f) {
        grpc_server_free(f->server);
        endpoint_policy_done(&f->policy);
        seen_done(&f->seen);
}

static struct grpc_call *take_held(struct fixture *f) {
        MUTEX_GUARD(&f->seen.lock);

        while (f->held == NULL)
                cond_wait(&f->seen.changed, &f->seen.lock);
        return STEAL(f->held);
}

static void answer_late(struct grpc_call *call) {
        const struct grpc_part part = { "late", 4, NULL };

        grpc_call_reply(call, &part, 1);
}

void fixture_answer_held(struct fixture *f) {
        grpc_call_post(take_held(f), answer_late);
}

void fixture_resume(struct fixture *f) {
        grpc_call_post(take_held(f), grpc_call_resume);
}

void fixture_feed(struct fixture *f) {
        size_t n = f->n_fed;

        f->feed.deliver = on_feed;
        mailbox_post(f->starved, &f->feed);
        seen_wait(&f->seen, &f->n_fed, n + 1);
}

bool fixture_was_rejected(struct fixture *f, const char *limit) {
        MUTEX_GUARD(&f->seen.lock);

        return strstr(strbuf_cstr(&f->seen.rejected), limit) != NULL;
}

void fixture_wait_rejected(struct fixture *f, const char *limit) {
        MUTEX_GUARD(&f->seen.lock);

        while (strstr(strbuf_cstr(&f->seen.rejected), limit) == NULL)
                cond_wait(&f->seen.changed, &f->seen.lock);
}

/* ---- the client: writing ---- */

static void put_u32(unsigned char *at, uint32_t value) {
        at[0] = (unsigned char)(value >> 24);
        at[1] = (unsigned char)(value >> 16);
        at[2] = (unsigned char)(value >> 8);
        at[3] = (unsigned char)value;
}

static uint32_t get_u32(const unsigned char *at) {
        return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

void client_frame(struct client *c, unsigned type, unsigned flags, uint32_t stream,
                  const void *payload, size_t len) {
        unsigned char head[9] = { (unsigned char)(len >> 16), (unsigned char)(len >> 8),
                                  (unsigned char)len, (unsigned char)type, (unsigned char)flags };

        put_u32(head + 5, stream);
        strbuf_put(&c->out, head, sizeof(head));
        strbuf_put(&c->out, payload, len);
}

void client_close(struct client *c) {
        close(c->fd);
        strbuf_done(&c->out);
        nghttp2_hd_inflate_del(c->inflater);
}

/* A length in HPACK's prefix of seven bits (RFC 7541, 5.1), not Huffman-coded. */
static void put_length(struct strbuf *block, size_t n) {
        if (n < 127) {
                strbuf_putc(block, (char)n);
                return;
        }
        strbuf_putc(block, 127);
        for (n -= 127; n >= 128; n >>= 7)
                strbuf_putc(block, (char)((n & 127) | 128));
        strbuf_putc(block, (char)n);
}

void client_field(struct strbuf *block, const char *name, const char *value) {
        strbuf_putc(block, 0); /* literal, not indexed */
        put_length(block, strlen(name));
        strbuf_puts(block, name);
        put_length(block, strlen(value));
        strbuf_puts(block, value);
}

void client_call(struct client *c, uint32_t stream, const char *path, ...) {
        AUTO_STRBUF block;
        const char *name;
        va_list     more;

        strbuf_init(&block, 0);
        client_field(&block, ":method", "POST");
        client_field(&block, ":scheme", "http");
        client_field(&block, ":path", path);
        client_field(&block, ":authority", "localhost");
        client_field(&block, "te", "trailers");
        client_field(&block, "content-type", "application/grpc");
        va_start(more, path);
        while ((name = va_arg(more, const char *)) != NULL)
                client_field(&block, name, va_arg(more, const char *));
        va_end(more);
        client_frame(c, FRAME_HEADERS, END_HEADERS, stream, block.ptr, block.len);
}

void client_message(struct client *c, uint32_t stream, unsigned flags, const void *bytes,
                    size_t len) {
        AUTO_STRBUF   payload;
        unsigned char prefix[5] = { 0 };

        strbuf_init(&payload, 0);
        put_u32(prefix + 1, (uint32_t)len);
        strbuf_put(&payload, prefix, sizeof(prefix));
        strbuf_put(&payload, bytes, len);
        client_frame(c, FRAME_DATA, flags, stream, payload.ptr, payload.len);
}

void client_window(struct client *c, uint32_t stream, uint32_t n) {
        unsigned char payload[4];

        put_u32(payload, n);
        client_frame(c, FRAME_WINDOW_UPDATE, 0, stream, payload, sizeof(payload));
}

/* A server that ends the connection may do so before all is written. */
void client_flush(struct client *c) {
        size_t at = 0;

        while (at < c->out.len) {
                ssize_t n = send(c->fd, c->out.ptr + at, c->out.len - at, MSG_NOSIGNAL);

                if (n <= 0)
                        break;
                at += (size_t)n;
        }
        strbuf_clear(&c->out);
}

/* ---- the client: reading ---- */

static bool read_all(int fd, void *to, size_t len) {
        char *at = to;

        while (len > 0) {
                ssize_t n = recv(fd, at, len, 0);

                if (n <= 0)
                        return false;
                at += n;
                len -= (size_t)n;
        }
        return true;
}

bool client_read(struct client *c, struct frame *ret) {
        unsigned char head[9];

        if (!read_all(c->fd, head, sizeof(head)))
                return false;
        ret->len = get_u32(head) >> 8;
        ret->type = head[3];
        ret->flags = head[4];
        ret->stream = get_u32(head + 5);
        assert_true(ret->len <= sizeof(ret->payload));
        return read_all(c->fd, ret->payload, ret->len);
}

/* Both have told their settings, and the server knows that its own are heard. */
static void greet(struct client *c) {
        static struct frame f;

        strbuf_puts(&c->out, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        client_frame(c, FRAME_SETTINGS, 0, 0, "", 0);
        client_frame(c, FRAME_SETTINGS, ACK, 0, "", 0);
        client_flush(c);
        do
                assert_true(client_read(c, &f));
        while (f.type != FRAME_SETTINGS || !(f.flags & ACK));
}

void client_open(struct client *c, const struct fixture *f, bool greets) {
        nghttp2_hd_inflater *inflater;

        *c = (struct client){ .fd = seen_connect(net_server_port(grpc_server_net(f->server)), 0) };
        strbuf_init(&c->out, 0);
        assert_int_equal(nghttp2_hd_inflate_new(&inflater), 0);
        c->inflater = inflater;
        if (greets)
                greet(c);
}

static void inflate(struct client *c, const struct frame *f, struct answer *a) {
        const uint8_t *at = f->payload;
        size_t         left = f->len;

        assert_true(f->flags & END_HEADERS);
        for (;;) {
                nghttp2_nv nv;
                int        flags = 0;
                ssize_t    n = nghttp2_hd_inflate_hd2(c->inflater, &nv, &flags, at, left, 1);

                assert_true(n >= 0);
                at += n;
                left -= (size_t)n;
                if (flags & NGHTTP2_HD_INFLATE_EMIT) {
                        const char *name = (const char *)nv.name, *value = (const char *)nv.value;

                        if (a == NULL)
                                continue;
                        strbuf_printf(&a->fields, "%s: %s\n", name, value);
                        if (strcmp(name, ":status") == 0)
                                memcpy(a->status, value, MIN(nv.valuelen + 1, sizeof(a->status)));
                        if (strcmp(name, "grpc-status") == 0)
                                a->code = atoi(value);
                        if (strcmp(name, "grpc-message") == 0)
                                strbuf_put(&a->text, value, nv.valuelen);
                }
                if (flags & NGHTTP2_HD_INFLATE_FINAL)
                        break;
        }
        nghttp2_hd_inflate_end_headers(c->inflater);
}

static void take_data(struct client *c, const struct frame *f, struct answer *a) {
        strbuf_put(&a->body, f->payload, f->len);
        if (f->len == 0)
                return;
        client_window(c, 0, f->len);
        client_window(c, f->stream, f->len);
        client_flush(c);
}

void client_answer(struct client *c, uint32_t stream, struct answer *a) {
        static struct frame f;
        bool                has_ended = false;

        *a = (struct answer){ .code = -1 };
        strbuf_init(&a->text, 0);
        strbuf_init(&a->fields, 0);
        strbuf_init(&a->body, 0);
        client_flush(c);
        while (!has_ended) {
                if (!client_read(c, &f))
                        fail_msg("the connection ended before stream %u", stream);
                if (f.type == FRAME_HEADERS)
                        inflate(c, &f, f.stream == stream ? a : NULL);
                if (f.stream != stream)
                        continue;
                if (f.type == FRAME_HEADERS)
                        a->n_headers++;
                else if (f.type == FRAME_DATA)
                        take_data(c, &f, a);
                else if (f.type == FRAME_RST_STREAM)
                        a->reset = get_u32(f.payload) + 1;
                has_ended = f.type == FRAME_RST_STREAM ||
                            ((f.type == FRAME_HEADERS || f.type == FRAME_DATA) &&
                             (f.flags & END_STREAM));
        }
}

bool client_try(struct client *c, uint32_t stream) {
        static struct frame f;

        client_flush(c);
        while (client_read(c, &f)) {
                if (f.type == FRAME_DATA && f.len > 0) {
                        client_window(c, 0, f.len);
                        client_flush(c);
                }
                if (f.stream != stream)
                        continue;
                if (f.type == FRAME_RST_STREAM ||
                    ((f.type == FRAME_HEADERS || f.type == FRAME_DATA) && (f.flags & END_STREAM)))
                        return true;
        }
        return false;
}

void answer_done(struct answer *a) {
        strbuf_done(&a->text);
        strbuf_done(&a->fields);
        strbuf_done(&a->body);
}

void client_expect(struct client *c, uint32_t stream, const char *path, const char *text, int code,
                   const char *body) {
        struct answer a;

        client_call(c, stream, path, NULL);
        client_message(c, stream, END_STREAM, text, strlen(text));
        client_answer(c, stream, &a);
        assert_string_equal(a.status, "200");
        assert_int_equal(a.code, code);
        if (body != NULL) {
                assert_int_equal(a.body.len, 5 + strlen(body));
                assert_int_equal(get_u32((unsigned char *)a.body.ptr + 1), strlen(body));
                assert_memory_equal(a.body.ptr + 5, body, strlen(body));
        }
        answer_done(&a);
}

uint32_t client_read_goaway(struct client *c, struct strbuf *ret) {
        static struct frame f;
        uint32_t            code = UINT32_MAX;

        client_flush(c);
        while (client_read(c, &f)) {
                if (f.type != FRAME_GOAWAY)
                        continue;
                code = get_u32(f.payload + 4);
                strbuf_clear(ret);
                strbuf_put(ret, f.payload + 8, f.len - 8);
        }
        return code;
}
