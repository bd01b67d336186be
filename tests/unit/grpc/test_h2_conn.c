/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections of clients that are hostile, broken, slow, or being told to go. */
#include "suite.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "codec/gzip.h"
#include "grpc/h2_conn.h"
#include "grpc_fixture.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PROTOCOL_ERROR 0x1
#define CALM 0xb

/* The connection ends with ENHANCE_YOUR_CALM and this text; a new one works. */
static void expect_calm(struct fixture *f, struct client *c, const char *text, const char *limit) {
        AUTO_STRBUF   got;
        struct client other;

        strbuf_init(&got, 0);
        assert_int_equal(client_read_goaway(c, &got), CALM);
        assert_string_equal(strbuf_cstr(&got), text);
        assert_true(fixture_was_rejected(f, limit));
        client_close(c);
        client_open(&other, f, true);
        client_expect(&other, 1, "/t.T/Echo", "alive", 0, "alive");
        client_close(&other);
}

static void begin(struct fixture *f, struct client *c) {
        fixture_init(f);
        fixture_start(f);
        client_open(c, f, true);
}

static void test_not_http2(void **state) {
        struct fixture f;
        struct client  c;
        AUTO_STRBUF    text;

        (void)state;
        strbuf_init(&text, 0);
        fixture_init(&f);
        fixture_start(&f);
        client_open(&c, &f, false);
        strbuf_puts(&c.out, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        client_read_goaway(&c, &text); /* it ends */
        client_close(&c);
        client_open(&c, &f, true);
        client_expect(&c, 1, "/t.T/Echo", "alive", 0, "alive");
        client_close(&c);
        fixture_done(&f);
}

static void test_ping_strikes(void **state) {
        struct fixture f;
        struct client  c;

        (void)state;
        begin(&f, &c);
        for (int i = 0; i < 4; i++)
                client_frame(&c, FRAME_PING, 0, 0, "12345678", 8);
        expect_calm(&f, &c, "too_many_pings", "pings");

        /* An answer forgives. */
        client_open(&c, &f, true);
        for (uint32_t id = 1; id < 20; id += 2) {
                for (int i = 0; i < 3; i++)
                        client_frame(&c, FRAME_PING, 0, 0, "12345678", 8);
                client_expect(&c, id, "/t.T/Echo", "x", 0, "x");
        }
        client_close(&c);
        fixture_done(&f);
}

/* Reads up to the answer to a ping. */
static void client_read_ping(struct client *c) {
        static struct frame got;

        do
                assert_true(client_read(c, &got));
        while (got.type != FRAME_PING);
        assert_int_equal(got.flags, ACK);
}

static void test_ping_is_acknowledged(void **state) {
        static struct frame got;
        struct fixture      f;
        struct client       c;

        (void)state;
        begin(&f, &c);
        client_frame(&c, FRAME_PING, 0, 0, "abcdefgh", 8);
        client_flush(&c);
        do
                assert_true(client_read(&c, &got));
        while (got.type != FRAME_PING);
        assert_int_equal(got.flags, ACK);
        assert_memory_equal(got.payload, "abcdefgh", 8);
        client_close(&c);
        fixture_done(&f);
}

static void test_control_frame_floods(void **state) {
        static const struct {
                unsigned    type, flags;
                uint32_t    stream;
                const char *payload;
                size_t      len;
        } rows[] = {
                { FRAME_SETTINGS, 0, 0, "", 0 },
                { FRAME_PRIORITY, 0, 3, "\0\0\0\0\1", 5 },
                { FRAME_DATA, 0, 1, "", 0 },
        };
        struct fixture f;
        struct client  c;

        (void)state;
        fixture_init(&f);
        fixture_start(&f);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                client_open(&c, &f, true);
                client_call(&c, 1, "/t.T/Later", NULL);
                for (int n = 0; n < 3000; n++)
                        client_frame(&c, rows[i].type, rows[i].flags, rows[i].stream,
                                     rows[i].payload, rows[i].len);
                expect_calm(&f, &c, "too_many_control_frames", "control_frames");
        }
        fixture_done(&f);
}

static void test_rapid_reset(void **state) {
        struct fixture f;
        struct client  c;

        (void)state;
        fixture_init(&f);
        f.options.limits.resets_at_once = 100;
        f.options.limits.control_frames_at_once = 100000;
        fixture_start(&f);
        client_open(&c, &f, true);
        for (uint32_t i = 0; i < 500; i++) {
                client_call(&c, 2 * i + 1, "/t.T/Echo", NULL);
                client_frame(&c, FRAME_RST_STREAM, 0, 2 * i + 1, "\0\0\0\x8", 4);
        }
        expect_calm(&f, &c, "too_many_resets", "resets");

        /* The same, made by ourselves: a window that overflows costs its stream. */
        client_open(&c, &f, true);
        for (uint32_t i = 0; i < 500; i++) {
                client_call(&c, 2 * i + 1, "/t.T/Echo", NULL);
                client_window(&c, 2 * i + 1, 0x7fffffff);
        }
        expect_calm(&f, &c, "too_many_resets", "resets");
        fixture_done(&f);
}

static void test_continuation_flood(void **state) {
        struct fixture f;
        struct client  c;

        (void)state;
        begin(&f, &c);
        client_frame(&c, FRAME_HEADERS, 0, 1, "", 0);
        for (int i = 0; i < 1000; i++)
                client_frame(&c, FRAME_CONTINUATION, 0, 1, "\0\1a\1b", 5);
        expect_calm(&f, &c, "too_many_continuations", "continuations");
        fixture_done(&f);
}

/* Too large for a call, and then so large that it is no accident. */
static void test_header_lists(void **state) {
        AUTO_STRBUF    block;
        AUTO_STRBUF    bomb;
        struct fixture f;
        struct client  c;
        struct answer  a;
        char           value[4000];

        (void)state;
        memset(value, 'v', sizeof(value) - 1);
        value[sizeof(value) - 1] = '\0';
        begin(&f, &c);
        client_call(&c, 1, "/t.T/Echo", "a", value, "b", value, "c", value, "d", value, "e", value,
                    "f", value, "g", value, "h", value, "i", value, NULL);
        client_message(&c, 1, END_STREAM, "x", 1);
        client_answer(&c, 1, &a);
        assert_int_equal(a.code, GRPC_RESOURCE_EXHAUSTED);
        assert_true(fixture_was_rejected(&f, "header_bytes"));
        answer_done(&a);

        strbuf_init(&block, 0);
        client_field(&block, ":method", "POST");
        client_field(&block, ":scheme", "http");
        client_field(&block, ":path", "/t.T/Echo");
        client_field(&block, ":authority", "x");
        client_field(&block, "content-type", "application/grpc");
        for (int i = 0; i < 100; i++)
                client_field(&block, "x", "y");
        client_frame(&c, FRAME_HEADERS, END_HEADERS | END_STREAM, 3, block.ptr, block.len);
        client_answer(&c, 3, &a);
        assert_int_equal(a.code, GRPC_RESOURCE_EXHAUSTED);
        assert_true(fixture_was_rejected(&f, "header_fields"));
        answer_done(&a);
        client_expect(&c, 5, "/t.T/Echo", "alive", 0, "alive");

        /* 4000 bytes go into the dynamic table, and 100 times out of it. */
        strbuf_init(&bomb, 0);
        strbuf_putc(&bomb, 0x40);
        strbuf_puts(&bomb, "\1x\177");
        strbuf_putc(&bomb, (char)(((sizeof(value) - 1 - 127) & 127) | 128));
        strbuf_putc(&bomb, (char)((sizeof(value) - 1 - 127) >> 7));
        strbuf_puts(&bomb, value);
        for (int i = 0; i < 100; i++)
                strbuf_putc(&bomb, (char)(0x80 | 62));
        client_frame(&c, FRAME_HEADERS, END_HEADERS | END_STREAM, 7, bomb.ptr, bomb.len);
        expect_calm(&f, &c, "too_many_header_bytes", "header_bytes");
        fixture_done(&f);
}

static void test_slow_headers(void **state) {
        struct fixture f;
        struct client  c;
        AUTO_STRBUF    text;

        (void)state;
        strbuf_init(&text, 0);
        fixture_init(&f);
        f.options.limits.header_time_ns = NS_PER_MS;
        fixture_start(&f);
        client_open(&c, &f, false); /* not a word */
        assert_int_equal(client_read_goaway(&c, &text), CALM);
        client_close(&c);
        client_open(&c, &f, true);
        client_frame(&c, FRAME_HEADERS, 0, 1, "\0\1a\1b", 5); /* and no end */
        assert_int_equal(client_read_goaway(&c, &text), CALM);
        assert_string_equal(strbuf_cstr(&text), "headers_too_slow");
        assert_true(fixture_was_rejected(&f, "header_time"));
        client_close(&c);
        fixture_done(&f);
}

/* nghttp2 discards the header blocks of streams that are over or refused, and does not report their end: they are not
 * slow. Another connection shows that the time has passed, since one tick checks both. */
static void test_discarded_headers_are_not_slow(void **state) {
        struct fixture f;
        struct client  c, slow;
        struct answer  a;
        AUTO_STRBUF    text;

        (void)state;
        strbuf_init(&text, 0);
        fixture_init(&f);
        f.options.limits.header_time_ns = 100 * NS_PER_MS;
        f.options.limits.calls = 1;
        fixture_start(&f);
        for (int is_refused = 0; is_refused < 2; is_refused++) {
                client_open(&c, &f, true);
                client_call(&c, 1, is_refused ? "/t.T/Later" : "/t.T/Unknown", NULL);
                if (is_refused) {
                        client_call(&c, 3, "/t.T/Echo", NULL);
                        client_answer(&c, 3, &a);
                        assert_int_equal(a.reset, 7 + 1); /* REFUSED_STREAM */
                } else {
                        client_answer(&c, 1, &a);
                        assert_int_equal(a.code, GRPC_UNIMPLEMENTED);
                        client_frame(&c, FRAME_HEADERS, END_HEADERS | END_STREAM, 1, "\0\1a\1b", 5);
                }
                answer_done(&a);
                client_frame(&c, FRAME_PING, 0, 0, "12345678", 8);
                client_flush(&c);
                client_read_ping(&c);

                client_open(&slow, &f, true);
                client_frame(&slow, FRAME_HEADERS, 0, 1, "\0\1a\1b", 5);
                assert_int_equal(client_read_goaway(&slow, &text), CALM);
                assert_string_equal(strbuf_cstr(&text), "headers_too_slow");
                client_close(&slow);
                strbuf_clear(&text);

                client_frame(&c, FRAME_RST_STREAM, 0, 1, "\0\0\0\x8", 4);
                client_expect(&c, 5, "/t.T/Echo", "alive", 0, "alive");
                client_close(&c);
        }
        fixture_done(&f);
}

static void test_slow_message(void **state) {
        struct fixture f;
        struct client  c;
        struct answer  a;

        (void)state;
        fixture_init(&f);
        f.options.limits.message_window_ns = 600 * NS_PER_MS;
        fixture_start(&f);
        client_open(&c, &f, true);
        client_call(&c, 1, "/t.T/Echo", NULL);
        client_frame(&c, FRAME_DATA, 0, 1, "\0\0\1\0\0abc", 8);
        expect_calm(&f, &c, "message_too_slow", "message_rate");
        client_open(&c, &f, true);
        client_call(&c, 1, "/t.T/Echo", NULL);
        client_message(&c, 1, 0, "all of it, but no half-close", 28);
        client_answer(&c, 1, &a); /* a proxy sees that the server is well */
        assert_int_equal(a.code, GRPC_RESOURCE_EXHAUSTED);
        answer_done(&a);
        expect_calm(&f, &c, "message_too_slow", "message_rate");
        fixture_done(&f);
}

/* A proxy sends the calls of several clients over one connection. A slow client loses its call, the others do not. */
static void test_slow_message_beside_others(void **state) {
        struct fixture f;
        struct client  c;
        struct answer  a;

        (void)state;
        fixture_init(&f);
        f.options.limits.message_window_ns = 600 * NS_PER_MS;
        fixture_start(&f);
        client_open(&c, &f, true);
        client_call(&c, 1, "/t.T/Later", NULL);
        client_message(&c, 1, END_STREAM, "x", 1);
        client_call(&c, 3, "/t.T/Echo", NULL);
        client_frame(&c, FRAME_DATA, 0, 3, "\0\0\1\0\0abc", 8);
        client_answer(&c, 3, &a);
        assert_int_equal(a.code, GRPC_RESOURCE_EXHAUSTED);
        answer_done(&a);
        assert_true(fixture_was_rejected(&f, "message_rate"));
        fixture_answer_held(&f);
        client_answer(&c, 1, &a);
        assert_int_equal(a.code, GRPC_OK);
        answer_done(&a);
        client_close(&c);
        fixture_done(&f);
}

/* The others' calls are short: at the end of the window there may be none. */
static void test_slow_message_between_others(void **state) {
        struct fixture f;
        struct client  c;
        uint32_t       id = 1;

        (void)state;
        fixture_init(&f);
        f.options.limits.message_window_ns = 600 * NS_PER_MS;
        f.options.limits.message_window_bytes = 1 << 30;
        fixture_start(&f);
        client_open(&c, &f, true);
        client_call(&c, id, "/t.T/Echo", NULL);
        client_message(&c, id, 0, "all of it, but no half-close", 28);
        while (!fixture_was_rejected(&f, "message_rate"))
                client_expect(&c, id += 2, "/t.T/Echo", "between", 0, "between");
        client_expect(&c, id + 2, "/t.T/Echo", "alive", 0, "alive");
        client_close(&c);
        fixture_done(&f);
}

/* The call whose reset is one too many has an answer that is queued, and must not be touched any more. */
static void test_rapid_reset_of_answered_calls(void **state) {
        struct fixture f;
        struct client  c;

        (void)state;
        fixture_init(&f);
        f.options.limits.resets_at_once = 5;
        fixture_start(&f);
        client_open(&c, &f, true);
        for (uint32_t id = 1; id < 40; id += 2) {
                client_call(&c, id, "/t.T/Echo", NULL);
                client_message(&c, id, END_STREAM, "x", 1);
                client_frame(&c, FRAME_RST_STREAM, 0, id, "\0\0\0\x8", 4);
        }
        expect_calm(&f, &c, "too_many_resets", "resets");
        fixture_done(&f);
}

/* Nor do these resets count as control frames: no answer comes between them that would allow more of those. */
static void test_resets_without_a_limit(void **state) {
        const uint32_t last = 5001;
        struct fixture f;
        struct client  c;

        (void)state;
        fixture_init(&f);
        f.options.limits.resets_at_once = 0;
        fixture_start(&f);
        client_open(&c, &f, true);
        for (uint32_t id = 1; id < last; id += 2) {
                client_call(&c, id, "/t.T/Echo", NULL);
                client_frame(&c, FRAME_RST_STREAM, 0, id, "\0\0\0\x8", 4);
        }
        client_expect(&c, last, "/t.T/Echo", "x", 0, "x");
        client_close(&c);
        fixture_done(&f);
}

/* 66 requests of 1 MiB are with handlers, so the server gives no window back, and the client may have to wait in the
 * middle of a message. It is not slow. Other connections, one after the other, show that three windows have passed: in the first one the
 * requests have come. */
static void test_slow_message_without_a_window(void **state) {
        enum { N = 66 };
        static char       message[(1 << 20) - 5];
        struct fixture    f;
        struct client     c, slow;
        struct answer     a;
        struct grpc_call *held[N];

        (void)state;
        fixture_init(&f);
        f.options.limits.message_window_ns = 600 * NS_PER_MS;
        fixture_start(&f);
        client_open(&c, &f, true);
        for (uint32_t i = 0; i < N; i++) {
                client_call(&c, 2 * i + 1, "/t.T/Later", NULL);
                client_message(&c, 2 * i + 1, END_STREAM, message, sizeof(message));
                client_flush(&c);
                seen_wait(&f.seen, &f.seen.n_held, i + 1);
                held[i] = f.held;
        }
        client_call(&c, 201, "/t.T/Echo", NULL);
        client_frame(&c, FRAME_DATA, 0, 201, "\0\0\0\0\5al", 7);
        client_flush(&c);
        for (int i = 0; i < 3; i++) {
                client_open(&slow, &f, true);
                client_call(&slow, 1, "/t.T/Echo", NULL);
                client_frame(&slow, FRAME_DATA, 0, 1, "\0\0\0\0\5al", 7);
                expect_calm(&f, &slow, "message_too_slow", "message_rate");
        }
        client_frame(&c, FRAME_DATA, END_STREAM, 201, "ive", 3);
        client_answer(&c, 201, &a);
        assert_int_equal(a.code, GRPC_OK);
        answer_done(&a);
        for (uint32_t i = 0; i < N; i++) {
                f.held = held[i];
                fixture_answer_held(&f);
                client_answer(&c, 2 * i + 1, &a);
                assert_int_equal(a.code, GRPC_OK);
                answer_done(&a);
        }
        client_close(&c);
        fixture_done(&f);
}

struct bad_call {
        const char *bytes; /* of one DATA frame */
        size_t      len;
        unsigned    flags;
        int         code;
        const char *text;
        const char *encoding;
};

static void test_bad_messages(void **state) {
        static const struct bad_call rows[] = {
                { "", 0, END_STREAM, GRPC_UNIMPLEMENTED, "the method takes one message, not none",
                  NULL },
                { "\0\0\0\0\1a\0\0\0\0\1b", 12, 0, GRPC_UNIMPLEMENTED,
                  "the method takes one message, not several", NULL },
                { "\0\0\0\0\5abc", 8, END_STREAM, GRPC_INTERNAL, "the last message is incomplete",
                  NULL },
                { "\0\0\0", 3, END_STREAM, GRPC_INTERNAL, "the last message is incomplete", NULL },
                { "\2\0\0\0\1a", 6, 0, GRPC_INTERNAL, "malformed message prefix", NULL },
                { "\0\0\x10\0\1", 5, 0, GRPC_RESOURCE_EXHAUSTED,
                  "Received message larger than max (1048577 vs. 1048576)", NULL },
                { "\0\xff\xff\xff\xff", 5, 0, GRPC_RESOURCE_EXHAUSTED,
                  "Received message larger than max (4294967295 vs. 1048576)", NULL },
                { "\1\0\0\0\1a", 6, 0, GRPC_INTERNAL,
                  "a message is compressed, but the call has no grpc-encoding", NULL },
                { "\1\0\0\0\1a", 6, END_STREAM, GRPC_INTERNAL, "a compressed message is damaged",
                  "gzip" },
                { "\0\0\0\0\1a", 6, 0, GRPC_UNIMPLEMENTED, "unsupported grpc-encoding 'snappy'",
                  "snappy" },
        };
        struct fixture f;
        struct client  c;
        struct answer  a;
        uint32_t       id = 1;

        (void)state;
        fixture_init(&f);
        f.options.limits.message_bytes = 1 << 20;
        fixture_start(&f);
        client_open(&c, &f, true);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++, id += 2) {
                const struct bad_call *row = &rows[i];

                client_call(&c, id, "/t.T/Echo", row->encoding != NULL ? "grpc-encoding" : NULL,
                            row->encoding, NULL);
                client_frame(&c, FRAME_DATA, row->flags, id, row->bytes, row->len);
                client_answer(&c, id, &a);
                assert_string_equal(strbuf_cstr(&a.text), row->text);
                assert_int_equal(a.code, row->code);
                answer_done(&a);
        }
        client_expect(&c, id, "/t.T/Echo", "alive", 0, "alive");
        client_close(&c);
        fixture_done(&f);
}

/* 64 MiB of zeros in 64 KiB. */
static void test_decompression_bomb(void **state) {
        static char    zeros[1 << 16];
        struct iovec   parts[1024];
        struct fixture f;
        struct client  c;
        struct answer  a;
        struct buf    *packed;
        AUTO_STRBUF    frame;
        char           prefix[5] = { 1 };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(parts); i++)
                parts[i] = (struct iovec){ zeros, sizeof(zeros) };
        assert_int_equal(gzip_deflate_buf(GZIP_FORMAT_GZIP, parts, ARRAY_LEN(parts), NULL, &packed),
                         GZIP_OK);
        prefix[2] = (char)(packed->len >> 16);
        prefix[3] = (char)(packed->len >> 8);
        prefix[4] = (char)packed->len;
        strbuf_init(&frame, 0);
        strbuf_put(&frame, prefix, 5);
        strbuf_put(&frame, packed->bytes, packed->len);
        buf_unref(packed);
        fixture_init(&f);
        f.options.limits.message_bytes = 8 << 20;
        fixture_start(&f);
        client_open(&c, &f, true);
        client_call(&c, 1, "/t.T/Echo", "grpc-encoding", "gzip", NULL);
        client_frame(&c, FRAME_DATA, END_STREAM, 1, frame.ptr, frame.len);
        client_answer(&c, 1, &a);
        assert_int_equal(a.code, GRPC_RESOURCE_EXHAUSTED);
        assert_true(fixture_was_rejected(&f, "message_bytes"));
        answer_done(&a);
        client_close(&c);
        fixture_done(&f);
}

/* A later message of a stream that is none: what was sent before still arrives. */
static void test_bad_message_in_stream(void **state) {
        struct fixture f;
        struct client  c;
        struct answer  a;

        (void)state;
        begin(&f, &c);
        client_call(&c, 1, "/t.T/Chat", NULL);
        client_message(&c, 1, 0, "one", 3);
        client_frame(&c, FRAME_DATA, 0, 1, "\7\0\0\0\0", 5);
        client_answer(&c, 1, &a);
        assert_int_equal(a.code, GRPC_INTERNAL);
        assert_int_equal(a.body.len, 8);
        answer_done(&a);
        seen_wait(&f.seen, &f.seen.n_aborted, 1);
        assert_int_equal(f.reason, GRPC_ABORT_REFUSED);
        client_close(&c);
        fixture_done(&f);
}

static void test_no_call(void **state) {
        struct fixture f;
        struct client  c;
        struct answer  a;
        AUTO_STRBUF    block;

        (void)state;
        begin(&f, &c);
        strbuf_init(&block, 0);
        client_field(&block, ":method", "GET");
        client_field(&block, ":scheme", "http");
        client_field(&block, ":path", "/");
        client_field(&block, ":authority", "x");
        client_frame(&c, FRAME_HEADERS, END_HEADERS | END_STREAM, 1, block.ptr, block.len);
        client_answer(&c, 1, &a);
        assert_string_equal(a.status, "405");
        answer_done(&a);
        strbuf_clear(&block);
        client_field(&block, ":method", "POST");
        client_field(&block, ":scheme", "http");
        client_field(&block, ":path", "/t.T/Echo");
        client_field(&block, ":authority", "x");
        client_field(&block, "content-type", "application/grpcx");
        client_frame(&c, FRAME_HEADERS, END_HEADERS | END_STREAM, 3, block.ptr, block.len);
        client_answer(&c, 3, &a);
        assert_string_equal(a.status, "415");
        answer_done(&a);
        client_close(&c);
        fixture_done(&f);
}

/* What the rules of HTTP/2 say of a request's fields and of its length; PROTOCOL_ERROR for the
 * stream, and the connection lives on. Fields come in pairs up to a NULL. */
struct bad_request {
        const char *fields[14];
        const char *body;     /* NULL: the headers end the stream */
        const char *trailers; /* one name; NULL: none */
        bool        is_fine;
        bool        is_open_behind; /* the trailers do not end the stream */
};

#define ORDINARY                                                                                   \
        ":method", "POST", ":scheme", "http", ":path", "/t.T/Echo", ":authority", "x",             \
                "content-type", "application/grpc"
#define MESSAGE "\0\0\0\0\1a"
#define MESSAGE_BYTES 6

static void send_request(struct client *c, uint32_t id, const struct bad_request *r) {
        AUTO_STRBUF block;

        strbuf_init(&block, 0);
        for (size_t i = 0; i < ARRAY_LEN(r->fields) && r->fields[i] != NULL; i += 2)
                client_field(&block, r->fields[i], r->fields[i + 1]);
        client_frame(c, FRAME_HEADERS, r->body != NULL ? END_HEADERS : END_HEADERS | END_STREAM, id,
                     block.ptr, block.len);
        if (r->body != NULL)
                client_frame(c, FRAME_DATA, r->trailers != NULL ? 0 : END_STREAM, id, r->body,
                             MESSAGE_BYTES);
        if (r->trailers == NULL)
                return;
        strbuf_clear(&block);
        client_field(&block, r->trailers, "x");
        client_frame(c, FRAME_HEADERS, r->is_open_behind ? END_HEADERS : END_HEADERS | END_STREAM,
                     id, block.ptr, block.len);
}

static void test_malformed_requests(void **state) {
        static const struct bad_request rows[] = {
                { .fields = { ORDINARY }, .body = MESSAGE, .is_fine = true },
                { .fields = { ORDINARY, "content-length", "6" }, .body = MESSAGE, .is_fine = true },
                { .fields = { ORDINARY, "x", "a " }, .body = MESSAGE, .is_fine = true },
                { .fields = { ORDINARY }, .body = MESSAGE, .trailers = "x", .is_fine = true },
                { .fields = { ORDINARY, "content-length", "5" }, .body = MESSAGE },
                { .fields = { ORDINARY, "content-length", "7" }, .body = MESSAGE },
                { .fields = { ORDINARY, "content-length", "7" }, .body = MESSAGE, .trailers = "x" },
                { .fields = { ORDINARY, "content-length", "7" } },
                { .fields = { ORDINARY, "content-length", "six" }, .body = MESSAGE },
                { .fields = { ORDINARY, "connection", "close" }, .body = MESSAGE },
                { .fields = { ORDINARY, "X", "y" }, .body = MESSAGE },
                { .fields = { ORDINARY, "x", "a\r\nb: c" }, .body = MESSAGE },
                { .fields = { ORDINARY, "x", "a\n" }, .body = MESSAGE },
                { .fields = { ORDINARY, "a\rb", "c" }, .body = MESSAGE },
                { .fields = { ORDINARY }, .body = MESSAGE, .trailers = "a\nb" },
                { .fields = { ORDINARY, ":path", "/t.T/Echo" }, .body = MESSAGE },
                { .fields = { ":method", "POST", ":scheme", "http", ":path", "/t.T/Echo" },
                  .body = MESSAGE },
                { .fields = { ":method", "POST", ":scheme", "http", ":authority", "x" },
                  .body = MESSAGE },
                { .fields = { ORDINARY }, .body = MESSAGE, .trailers = ":path" },
                { .fields = { ORDINARY }, .body = MESSAGE, .trailers = "X" },
                { .fields = { ORDINARY },
                  .body = MESSAGE,
                  .trailers = "x",
                  .is_open_behind = true },
        };
        struct fixture f;
        struct client  c;
        struct answer  a;
        uint32_t       id = 1;

        (void)state;
        begin(&f, &c);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++, id += 2) {
                send_request(&c, id, &rows[i]);
                client_answer(&c, id, &a);
                if (rows[i].is_fine != (a.code == GRPC_OK) ||
                    a.reset != (rows[i].is_fine ? 0 : PROTOCOL_ERROR + 1))
                        fail_msg("row %zu: code %d, reset %u", i, a.code, a.reset);
                answer_done(&a);
        }
        client_expect(&c, id, "/t.T/Echo", "alive", 0, "alive");
        client_close(&c);
        fixture_done(&f);
}

/* Handlers that are still at work after their client has gone count, too. */
static void test_calls_limit(void **state) {
        struct fixture    f;
        struct client     c;
        struct answer     a;
        struct grpc_call *held[4];

        (void)state;
        fixture_init(&f);
        f.options.limits.calls = 4;
        fixture_start(&f);
        client_open(&c, &f, true);
        for (uint32_t i = 0; i < 4; i++) {
                client_call(&c, 2 * i + 1, "/t.T/Later", NULL);
                client_message(&c, 2 * i + 1, END_STREAM, "", 0);
                client_flush(&c);
                seen_wait(&f.seen, &f.seen.n_held, i + 1);
                held[i] = f.held;
                client_frame(&c, FRAME_RST_STREAM, 0, 2 * i + 1, "\0\0\0\x8", 4);
                client_flush(&c);
                seen_wait(&f.seen, &f.seen.n_aborted, i + 1);
        }
        client_call(&c, 9, "/t.T/Echo", NULL);
        client_answer(&c, 9, &a);
        assert_int_equal(a.reset, 7 + 1); /* REFUSED_STREAM: may be tried again */
        assert_true(fixture_was_rejected(&f, "streams"));
        answer_done(&a);
        for (size_t i = 0; i < 4; i++) {
                f.held = held[i];
                fixture_answer_held(&f);
                seen_wait(&f.seen, &f.seen.n_sent, i + 1);
        }
        client_expect(&c, 11, "/t.T/Echo", "alive", 0, "alive");
        client_close(&c);
        fixture_done(&f);
}

/* An answer before the end of the request: the rest is not wanted. */
static void test_early_answer(void **state) {
        static struct frame got;
        struct fixture      f;
        struct client       c;
        bool                has_ended = false;

        (void)state;
        begin(&f, &c);
        client_call(&c, 1, "/t.T/Unknown", NULL);
        client_frame(&c, FRAME_DATA, 0, 1, "\0\0\0\x10\0", 5);
        client_flush(&c);
        do {
                assert_true(client_read(&c, &got));
                if (got.type == FRAME_HEADERS && (got.flags & END_STREAM))
                        has_ended = true;
        } while (got.type != FRAME_RST_STREAM);
        assert_true(has_ended);
        assert_memory_equal(got.payload, "\0\0\0\0", 4);
        client_close(&c);
        fixture_done(&f);
}

static void test_keepalive(void **state) {
        static struct frame got;
        struct fixture      f;
        struct client       c;
        bool                was_pinged = false;
        uint64_t            start_ns = clock_now_ns();

        (void)state;
        fixture_init(&f);
        f.options.limits.keepalive_time_ns = 100 * NS_PER_MS;
        f.options.limits.keepalive_timeout_ns = 100 * NS_PER_MS;
        f.options.limits.keepalive_permit_without_calls = true;
        fixture_start(&f);
        client_open(&c, &f, true);
        client_flush(&c);
        while (client_read(&c, &got)) /* not acknowledged: the end follows */
                was_pinged = was_pinged || (got.type == FRAME_PING && !(got.flags & ACK));
        assert_true(was_pinged);
        assert_true(clock_now_ns() - start_ns >= 200 * NS_PER_MS);
        client_close(&c);
        fixture_done(&f);
}

/* GOAWAY comes first as a notice; a call under way is finished; then the connection ends. */
static void test_age(void **state) {
        static struct frame got;
        struct fixture      f;
        struct client       c;
        unsigned            n_goaways = 0;
        bool                was_answered = false;

        (void)state;
        fixture_init(&f);
        f.options.limits.max_connection_age_ns = NS_PER_MS;
        fixture_start(&f);
        client_open(&c, &f, true);
        client_call(&c, 1, "/t.T/Later", NULL);
        client_message(&c, 1, END_STREAM, "", 0);
        client_flush(&c);
        while (client_read(&c, &got)) {
                if (got.type == FRAME_PING && !(got.flags & ACK)) {
                        client_frame(&c, FRAME_PING, ACK, 0, got.payload, 8);
                        client_flush(&c);
                }
                if (got.type == FRAME_GOAWAY) {
                        n_goaways++;
                        assert_memory_equal(got.payload + 4, "\0\0\0\0", 4);
                        assert_memory_equal(got.payload,
                                            n_goaways == 1 ? "\x7f\xff\xff\xff" : "\0\0\0\1", 4);
                        if (n_goaways == 2)
                                fixture_answer_held(&f);
                }
                if (got.type == FRAME_DATA)
                        was_answered = got.len == 9 && memcmp(got.payload + 5, "late", 4) == 0;
        }
        assert_int_equal(n_goaways, 2);
        assert_true(was_answered);
        client_close(&c);
        fixture_done(&f);
}

static void test_age_grace(void **state) {
        static struct frame got;
        struct fixture      f;
        struct client       c;

        (void)state;
        fixture_init(&f);
        f.options.limits.max_connection_age_ns = NS_PER_MS;
        f.options.limits.max_connection_age_grace_ns = NS_PER_MS;
        fixture_start(&f);
        client_open(&c, &f, true);
        client_call(&c, 1, "/t.T/Later", NULL);
        client_message(&c, 1, END_STREAM, "", 0);
        client_flush(&c);
        while (client_read(&c, &got))
                ;
        seen_wait(&f.seen, &f.seen.n_aborted, 1);
        fixture_answer_held(&f);
        client_close(&c);
        fixture_done(&f);
}

/* stop(): an idle connection goes at once; another one when its call is done, and refuses others
 * meanwhile. */
static void test_drain(void **state) {
        struct fixture f;
        struct client  idle, busy;
        struct answer  a;
        AUTO_STRBUF    text;

        (void)state;
        strbuf_init(&text, 0);
        begin(&f, &idle);
        client_open(&busy, &f, true);
        client_call(&busy, 1, "/t.T/Later", NULL);
        client_message(&busy, 1, END_STREAM, "", 0);
        client_flush(&busy);
        seen_wait(&f.seen, &f.seen.n_held, 1);
        net_server_stop(grpc_server_net(f.server));
        assert_int_equal(client_read_goaway(&idle, &text), 0);
        client_close(&idle);

        client_call(&busy, 3, "/t.T/Echo", NULL);
        client_message(&busy, 3, END_STREAM, "x", 1);
        client_answer(&busy, 3, &a);
        assert_int_equal(a.code, GRPC_UNAVAILABLE);
        assert_string_equal(strbuf_cstr(&a.text), "GRPC server is shutting down and has stopped "
                                                  "accepting new requests.");
        answer_done(&a);
        assert_int_not_equal(net_server_wait(grpc_server_net(f.server), clock_now_ns()), 0);
        fixture_answer_held(&f);
        client_answer(&busy, 1, &a);
        assert_int_equal(a.code, 0);
        answer_done(&a);
        assert_int_equal(client_read_goaway(&busy, &text), 0);
        client_close(&busy);
        assert_int_equal(net_server_wait(grpc_server_net(f.server), CLOCK_NEVER), 0);
        fixture_done(&f);
}

/* free() with a call in a handler's hands waits for it. */
static void test_free_with_a_call(void **state) {
        struct fixture f;
        struct client  c;

        (void)state;
        begin(&f, &c);
        client_call(&c, 1, "/t.T/Later", NULL);
        client_message(&c, 1, END_STREAM, "", 0);
        client_flush(&c);
        seen_wait(&f.seen, &f.seen.n_held, 1);
        fixture_answer_held(&f);
        fixture_done(&f);
        client_close(&c);
}

static void test_connections_limit(void **state) {
        struct fixture f;
        struct client  c, other;
        char           byte;

        (void)state;
        fixture_init(&f);
        f.options.net.limits.connections = 1;
        fixture_start(&f);
        client_open(&c, &f, true);
        client_open(&other, &f, false);
        assert_int_equal(read(other.fd, &byte, 1), 0);
        assert_true(fixture_was_rejected(&f, "connections"));
        client_close(&other);
        client_close(&c);
        fixture_done(&f);
}

/* The n-th allocation of a connection fails, and all that follow: it gets an answer or its end, and
 * the server goes on. */
static void test_no_memory(void **state) {
        static char    message[40000];
        struct fixture f;
        struct client  c;
        char           text[16], value[3000];
        unsigned       n_answers = 0;

        (void)state;
        memset(value, 'v', sizeof(value) - 1);
        value[sizeof(value) - 1] = '\0';
        fixture_init(&f);
        f.options.net.n_threads = 1;
        fixture_start(&f);
        for (unsigned n = 1; n < 60; n++) {
                snprintf(text, sizeof(text), "%u", n);
                client_open(&c, &f, true);
                client_call(&c, 1, "/t.T/Starve", NULL);
                client_message(&c, 1, END_STREAM, text, strlen(text));
                client_try(&c, 1);
                client_call(&c, 3, "/t.T/Chat", "a", value, "b", value, "c", value, NULL);
                client_message(&c, 3, 0, "one", 3);
                client_message(&c, 3, END_STREAM, message, sizeof(message));
                client_call(&c, 5, "/t.T/Packed", "grpc-accept-encoding", "gzip", NULL);
                client_message(&c, 5, END_STREAM, message, sizeof(message));
                n_answers += client_try(&c, 5);
                fixture_feed(&f);
                client_close(&c);
                client_open(&c, &f, true);
                client_expect(&c, 1, "/t.T/Echo", "alive", 0, "alive");
                client_close(&c);
        }
        assert_true(n_answers > 0);
        assert_true(fixture_was_rejected(&f, "memory"));
        fixture_done(&f);
}

/* Without a socket: what is written counts as sent. */
static void test_states(void **state) {
        static const char          preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                                               "\0\0\0\4\0\0\0\0\0";
        static const char          data_of_no_stream[] = "\0\0\0\0\0\0\0\0\1";
        static const char          ping[] = "\0\0\10\6\0\0\0\0\0pingping";
        struct grpc_server_options options;
        struct h2_shard            shard = { 0 };
        struct h2_conn            *c;

        (void)state;
        grpc_server_options_init(&options);
        list_init(&shard.net.conns);
        grpc_server_init_shard(&shard, &options, NULL);
        shard.pool = buf_pool_new(0);
        c = h2_conn_new(&shard, NS_PER_S);
        assert_int_equal(c->state, H2_OPENING);
        h2_conn_feed(c, str_range(preface, sizeof(preface) - 10), NULL);
        assert_int_equal(c->state, H2_OPENING);
        h2_conn_feed(c, str_range(preface + sizeof(preface) - 10, 9), NULL);
        assert_int_equal(c->state, H2_OPEN);
        h2_conn_feed(c, str_range(ping, sizeof(ping) - 1), NULL);
        assert_int_equal(c->state, H2_OPEN);
        h2_conn_feed(c, str_range(data_of_no_stream, sizeof(data_of_no_stream) - 1), NULL);
        assert_int_equal(c->state, H2_LINGERING); /* FAILED until the GOAWAY was written */
        h2_conn_feed(c, str_range(ping, sizeof(ping) - 1), NULL);
        h2_conn_kill(c);
        assert_int_equal(c->state, H2_LINGERING); /* never back */
        h2_conn_end(c);
        assert_true(list_is_empty(&shard.net.conns));
        h2_shard_done(&shard);
        buf_pool_unref(shard.pool);
}

SUITE(h2_conn) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_states),
                cmocka_unit_test(test_not_http2),
                cmocka_unit_test(test_ping_strikes),
                cmocka_unit_test(test_ping_is_acknowledged),
                cmocka_unit_test(test_control_frame_floods),
                cmocka_unit_test(test_rapid_reset),
                cmocka_unit_test(test_continuation_flood),
                cmocka_unit_test(test_header_lists),
                cmocka_unit_test(test_slow_headers),
                cmocka_unit_test(test_discarded_headers_are_not_slow),
                cmocka_unit_test(test_slow_message),
                cmocka_unit_test(test_slow_message_beside_others),
                cmocka_unit_test(test_slow_message_between_others),
                cmocka_unit_test(test_rapid_reset_of_answered_calls),
                cmocka_unit_test(test_resets_without_a_limit),
                cmocka_unit_test(test_slow_message_without_a_window),
                cmocka_unit_test(test_bad_messages),
                cmocka_unit_test(test_decompression_bomb),
                cmocka_unit_test(test_bad_message_in_stream),
                cmocka_unit_test(test_no_call),
                cmocka_unit_test(test_malformed_requests),
                cmocka_unit_test(test_calls_limit),
                cmocka_unit_test(test_early_answer),
                cmocka_unit_test(test_keepalive),
                cmocka_unit_test(test_age),
                cmocka_unit_test(test_age_grace),
                cmocka_unit_test(test_drain),
                cmocka_unit_test(test_free_with_a_call),
                cmocka_unit_test(test_connections_limit),
                cmocka_unit_test(test_no_memory),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
