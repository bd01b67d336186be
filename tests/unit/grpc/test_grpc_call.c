/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls as a well-behaved client makes them. */
#include "suite.h"

#include "base/clock.h"
#include "base/mem.h"
#include "codec/gzip.h"
#include "grpc_fixture.h"

#include <string.h>

static void test_unary(void **state) {
        struct fixture f;
        struct client  c;
        struct answer  a;

        (void)state;
        fixture_init(&f);
        fixture_start(&f);
        client_open(&c, &f, true);
        client_expect(&c, 1, "/t.T/Echo", "hello", 0, "hello");
        client_expect(&c, 3, "/t.T/Echo", "", 0, "");
        client_call(&c, 5, "/t.T/Fail", NULL);
        client_message(&c, 5, END_STREAM, "x", 1);
        client_answer(&c, 5, &a);
        assert_int_equal(a.code, GRPC_NOT_FOUND);
        assert_string_equal(strbuf_cstr(&a.text), "100%25 not %C3%A4 'x'%0A");
        assert_int_equal(a.n_headers, 1); /* trailers only */
        assert_non_null(strstr(a.fields.ptr, "content-type: application/grpc\n"));
        answer_done(&a);
        client_expect(&c, 7, "/t.T/Unknown", "x", GRPC_UNIMPLEMENTED, NULL);
        seen_wait(&f.seen, &f.seen.n_access, 4);
        assert_string_equal(strbuf_cstr(&f.seen.access),
                            "/t.T/Echo OK in 10 out 10\n/t.T/Echo OK in 5 out 5\n"
                            "/t.T/Fail NOT_FOUND in 6 out 0\n"
                            "/t.T/Unknown UNIMPLEMENTED in 6 out 0\n");
        client_close(&c);
        fixture_done(&f);
}

static void test_metadata(void **state) {
        struct fixture f;
        struct client  c;
        struct answer  a;

        (void)state;
        fixture_init(&f);
        fixture_start(&f);
        client_open(&c, &f, true);
        client_call(&c, 1, "/t.T/Meta", "x-other", "1", "x-tell", "value", "x-tell", "2", NULL);
        client_message(&c, 1, END_STREAM, "", 0);
        client_answer(&c, 1, &a);
        assert_int_equal(a.code, 0);
        assert_int_equal(a.n_headers, 2);
        assert_string_equal(strbuf_cstr(&a.fields),
                            ":status: 200\ncontent-type: application/grpc\n"
                            "grpc-accept-encoding: identity,deflate,gzip\nx-first: one\n"
                            "grpc-status: 0\nx-last: two\n");
        assert_memory_equal(a.body.ptr, "\0\0\0\0\5value", 10);
        answer_done(&a);
        /* The connection knows what is accepted; a refusal says it again. */
        client_call(&c, 3, "/t.T/Echo", NULL);
        client_message(&c, 3, END_STREAM, "", 0);
        client_answer(&c, 3, &a);
        assert_string_equal(strbuf_cstr(&a.fields),
                            ":status: 200\ncontent-type: application/grpc\ngrpc-status: 0\n");
        answer_done(&a);
        client_call(&c, 5, "/t.T/Echo", "grpc-encoding", "snappy", NULL);
        client_message(&c, 5, END_STREAM, "", 0);
        client_answer(&c, 5, &a);
        assert_non_null(strstr(a.fields.ptr, "grpc-accept-encoding: identity,deflate,gzip\n"));
        answer_done(&a);
        client_close(&c);
        fixture_done(&f);
}

/* 3 MiB in frames of 16 KiB; then a message in many small frames, cut anywhere. */
static void test_large_message_in(void **state) {
        struct fixture f;
        struct client  c;
        struct answer  a;
        size_t         len = 3 << 20, at = 0;
        char          *bytes = mem_alloc(len + 5);

        (void)state;
        fixture_init(&f);
        fixture_start(&f);
        client_open(&c, &f, true);
        for (size_t i = 0; i < len; i++)
                bytes[5 + i] = (char)(i * 7 + i / 4096);
        memcpy(bytes, "\0\0\x30\0\0", 5);
        client_call(&c, 1, "/t.T/Echo", NULL);
        for (; at < len + 5; at += 16384) {
                size_t n = MIN((size_t)16384, len + 5 - at);

                client_frame(&c, FRAME_DATA, at + n == len + 5 ? END_STREAM : 0, 1, bytes + at, n);
        }
        client_answer(&c, 1, &a);
        assert_int_equal(a.code, 0);
        assert_int_equal(a.body.len, len + 5);
        assert_memory_equal(a.body.ptr, bytes, len + 5);
        answer_done(&a);

        memcpy(bytes, "\0\0\0\x27\x10", 5); /* 10000 */
        client_call(&c, 3, "/t.T/Echo", NULL);
        for (at = 0; at < 10005; at += 3)
                client_frame(&c, FRAME_DATA, at + 3 >= 10005 ? END_STREAM : 0, 3, bytes + at, 3);
        client_answer(&c, 3, &a);
        assert_int_equal(a.body.len, 10005);
        assert_memory_equal(a.body.ptr, bytes, 10005);
        answer_done(&a);
        client_close(&c);
        free(bytes);
        fixture_done(&f);
}

static void test_large_message_out(void **state) {
        struct fixture f;
        struct client  c;
        struct answer  a;

        (void)state;
        fixture_init(&f);
        fixture_start(&f);
        client_open(&c, &f, true);
        for (uint32_t id = 1; id <= 5; id += 2) {
                client_call(&c, id, "/t.T/Big", NULL);
                client_message(&c, id, END_STREAM, "", 0);
                client_answer(&c, id, &a);
                assert_int_equal(a.code, 0);
                assert_int_equal(a.body.len, 5 + (12 << 20));
                for (size_t i = 0; i < 12; i++) {
                        const char *part = a.body.ptr + 5 + (i << 20);

                        assert_int_equal(part[0], 'a' + (int)i);
                        assert_memory_equal(part, part + 1, (1 << 20) - 1);
                }
                answer_done(&a);
        }
        client_close(&c);
        fixture_done(&f);
}

/* Ten calls at once, answered by another thread. */
static void test_later(void **state) {
        struct fixture f;
        struct client  c;

        (void)state;
        fixture_init(&f);
        fixture_start(&f);
        client_open(&c, &f, true);
        for (uint32_t i = 0; i < 10; i++) {
                struct answer a;

                client_call(&c, 2 * i + 1, "/t.T/Later", NULL);
                client_message(&c, 2 * i + 1, END_STREAM, "", 0);
                client_flush(&c);
                fixture_answer_held(&f);
                client_answer(&c, 2 * i + 1, &a);
                assert_memory_equal(a.body.ptr, "\0\0\0\0\4late", 9);
                answer_done(&a);
        }
        seen_wait(&f.seen, &f.seen.n_sent, 10);
        assert_int_equal(f.seen.n_aborted, 0);
        client_close(&c);
        fixture_done(&f);
}

static void test_chat(void **state) {
        struct fixture f;
        struct client  c;
        struct answer  a;

        (void)state;
        fixture_init(&f);
        fixture_start(&f);
        client_open(&c, &f, true);
        client_call(&c, 1, "/t.T/Chat", NULL);
        client_message(&c, 1, 0, "one", 3);
        client_frame(&c, FRAME_DATA, 0, 1, "\0\0\0\0\3two\0\0\0\0\0\0\0", 15); /* and a half */
        client_frame(&c, FRAME_DATA, 0, 1, "\0\0\5three", 8);
        client_frame(&c, FRAME_DATA, END_STREAM, 1, "", 0);
        client_answer(&c, 1, &a);
        assert_int_equal(a.code, 0);
        assert_int_equal(a.body.len, 31);
        assert_memory_equal(a.body.ptr, "\0\0\0\0\3one\0\0\0\0\3two\0\0\0\0\0\0\0\0\0\5three", 31);
        answer_done(&a);
        client_close(&c);
        fixture_done(&f);
}

/* What a handler has not read stays with the client once the window is full, and comes in order. */
static void test_paused(void **state) {
        struct fixture f;
        struct client  c;
        struct answer  a;
        char           bytes[60000];
        const int      n = 60;

        (void)state;
        fixture_init(&f);
        fixture_start(&f);
        client_open(&c, &f, true);
        client_call(&c, 1, "/t.T/Slow", NULL);
        for (int i = 0; i < n; i++) {
                memset(bytes, '0' + i, sizeof(bytes));
                client_message(&c, 1, i + 1 == n ? END_STREAM : 0, bytes, sizeof(bytes));
        }
        client_flush(&c);
        for (int i = 1; i <= n; i++) {
                seen_wait(&f.seen, &f.n_messages, (size_t)i);
                assert_int_equal(f.n_messages, i); /* no further one came */
                fixture_resume(&f);
        }
        client_answer(&c, 1, &a);
        assert_int_equal(a.code, 0);
        assert_int_equal(a.body.len, n * (5 + sizeof(bytes)));
        for (int i = 0; i < n; i++)
                assert_int_equal(a.body.ptr[(size_t)i * (5 + sizeof(bytes)) + 5], '0' + i);
        answer_done(&a);
        client_close(&c);
        fixture_done(&f);
}

static void test_compression(void **state) {
        static char    text[20000];
        struct fixture f;
        struct client  c;
        struct answer  a;
        struct buf    *packed, *plain;
        struct iovec   part = { text, sizeof(text) };
        AUTO_STRBUF    frame;
        char           prefix[5] = { 1, 0, 0 };

        (void)state;
        memset(text, 'z', sizeof(text));
        fixture_init(&f);
        f.options.compression = GRPC_COMPRESSION_LOW;
        fixture_start(&f);
        client_open(&c, &f, true);
        assert_int_equal(gzip_deflate_buf(GZIP_FORMAT_GZIP, &part, 1, NULL, &packed), GZIP_OK);
        prefix[3] = (char)(packed->len >> 8);
        prefix[4] = (char)packed->len;
        strbuf_init(&frame, 0);
        strbuf_put(&frame, prefix, 5);
        strbuf_put(&frame, packed->bytes, packed->len);
        buf_unref(packed);

        client_call(&c, 1, "/t.T/Packed", "grpc-encoding", "gzip", "grpc-accept-encoding",
                    "identity, deflate, gzip", NULL);
        client_frame(&c, FRAME_DATA, END_STREAM, 1, frame.ptr, frame.len);
        client_answer(&c, 1, &a);
        assert_int_equal(a.code, 0);
        assert_non_null(strstr(a.fields.ptr, "grpc-encoding: gzip\n"));
        assert_int_equal(a.body.ptr[0], 1);
        assert_int_equal(gzip_inflate_buf(str_range(a.body.ptr + 5, a.body.len - 5), 1 << 20, NULL,
                                          &plain),
                         GZIP_OK);
        assert_int_equal(plain->len, sizeof(text));
        assert_memory_equal(plain->bytes, text, sizeof(text));
        buf_unref(plain);
        answer_done(&a);

        /* A method that is not compressible, a client that accepts nothing, a small message. */
        client_call(&c, 3, "/t.T/Echo", "grpc-encoding", "gzip", "grpc-accept-encoding", "gzip",
                    NULL);
        client_frame(&c, FRAME_DATA, END_STREAM, 3, frame.ptr, frame.len);
        client_answer(&c, 3, &a);
        assert_int_equal(a.body.len, 5 + sizeof(text));
        assert_int_equal(a.body.ptr[0], 0);
        answer_done(&a);
        client_call(&c, 5, "/t.T/Packed", "grpc-accept-encoding", "gzip", NULL);
        client_message(&c, 5, END_STREAM, "tiny", 4);
        client_answer(&c, 5, &a);
        assert_memory_equal(a.body.ptr, "\0\0\0\0\4tiny", 9);
        answer_done(&a);
        client_close(&c);
        fixture_done(&f);
}

static void test_restricted(void **state) {
        struct fixture f;
        struct client  c;
        struct answer  a;

        (void)state;
        fixture_init(&f);
        assert_null(endpoint_policy_add(&f.policy, "trace:key=secret", "protocol",
                                        "triton-grpc-protocol-"));
        fixture_start(&f);
        client_open(&c, &f, true);
        for (uint32_t id = 1; id <= 3; id += 2) {
                client_call(&c, id, "/t.T/Locked", id == 1 ? "x" : "triton-grpc-protocol-key",
                            "secre", NULL);
                client_message(&c, id, END_STREAM, "m", 1);
                client_answer(&c, id, &a);
                assert_int_equal(a.code, GRPC_UNAVAILABLE);
                assert_string_equal(strbuf_cstr(&a.text),
                                    "This protocol is restricted, expecting header "
                                    "'triton-grpc-protocol-key'");
                answer_done(&a);
        }
        client_call(&c, 5, "/t.T/Locked", "triton-grpc-protocol-key", "secret", NULL);
        client_message(&c, 5, END_STREAM, "m", 1);
        client_answer(&c, 5, &a);
        assert_int_equal(a.code, 0);
        answer_done(&a);
        client_expect(&c, 7, "/t.T/Echo", "open", 0, "open");
        client_close(&c);
        fixture_done(&f);
}

/* The time is up while the handler works; it learns of it, and its answer is dropped. */
static void test_deadline(void **state) {
        struct fixture f;
        struct client  c;
        struct answer  a;
        uint64_t       start_ns = clock_now_ns();

        (void)state;
        fixture_init(&f);
        fixture_start(&f);
        client_open(&c, &f, true);
        client_call(&c, 1, "/t.T/Later", "grpc-timeout", "100m", NULL);
        client_message(&c, 1, END_STREAM, "", 0);
        client_answer(&c, 1, &a);
        assert_int_equal(a.code, GRPC_DEADLINE_EXCEEDED);
        assert_true(clock_now_ns() - start_ns >= 100 * NS_PER_MS);
        answer_done(&a);
        seen_wait(&f.seen, &f.seen.n_aborted, 1);
        assert_int_equal(f.reason, GRPC_ABORT_DEADLINE);
        assert_int_equal(f.seen.n_sent, 0);
        fixture_answer_held(&f);
        seen_wait(&f.seen, &f.seen.n_sent, 1);
        client_call(&c, 3, "/t.T/Echo", "grpc-timeout", "soon", NULL);
        client_message(&c, 3, END_STREAM, "", 0);
        client_answer(&c, 3, &a);
        assert_int_equal(a.code, GRPC_INTERNAL);
        answer_done(&a);
        client_close(&c);
        fixture_done(&f);
}

/* A deadline that is over when the call comes: no handler sees it. */
static void test_no_time(void **state) {
        static const char *const rows[] = { "0n", "0H", "00000000m" };
        struct fixture           f;
        struct client            c;
        struct answer            a;
        uint32_t                 id = 1;

        (void)state;
        fixture_init(&f);
        fixture_start(&f);
        client_open(&c, &f, true);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++, id += 2) {
                client_call(&c, id, "/t.T/Echo", "grpc-timeout", rows[i], NULL);
                client_message(&c, id, END_STREAM, "hi", 2);
                client_answer(&c, id, &a);
                assert_int_equal(a.code, GRPC_DEADLINE_EXCEEDED);
                assert_string_equal(strbuf_cstr(&a.text), "Deadline Exceeded");
                assert_int_equal(a.body.len, 0);
                answer_done(&a);
        }
        client_expect(&c, id, "/t.T/Echo", "alive", 0, "alive");
        client_close(&c);
        fixture_done(&f);
}

/* Reset by the client; then the connection goes: both tell the handler once. */
static void test_cancelled(void **state) {
        struct fixture f;
        struct client  c;

        (void)state;
        fixture_init(&f);
        fixture_start(&f);
        client_open(&c, &f, true);
        client_call(&c, 1, "/t.T/Later", NULL);
        client_message(&c, 1, END_STREAM, "", 0);
        client_flush(&c);
        seen_wait(&f.seen, &f.seen.n_held, 1);
        client_frame(&c, FRAME_RST_STREAM, 0, 1, "\0\0\0\x8", 4);
        client_flush(&c);
        seen_wait(&f.seen, &f.seen.n_aborted, 1);
        assert_int_equal(f.reason, GRPC_ABORT_CANCELLED);
        client_expect(&c, 3, "/t.T/Echo", "alive", 0, "alive");
        fixture_answer_held(&f);
        seen_wait(&f.seen, &f.seen.n_sent, 1);

        client_call(&c, 5, "/t.T/Later", NULL);
        client_message(&c, 5, END_STREAM, "", 0);
        client_flush(&c);
        seen_wait(&f.seen, &f.seen.n_held, 2);
        client_close(&c);
        seen_wait(&f.seen, &f.seen.n_aborted, 2);
        fixture_answer_held(&f);
        seen_wait(&f.seen, &f.seen.n_sent, 2);
        fixture_done(&f);
}

/* A client that does not read: what may wait is bounded, and the handler is told. */
static void test_overflow(void **state) {
        struct fixture f;
        struct client  c;
        struct answer  a;

        (void)state;
        fixture_init(&f);
        f.options.limits.unsent_bytes = 8 << 20;
        fixture_start(&f);
        client_open(&c, &f, true);
        client_call(&c, 1, "/t.T/Flood", NULL);
        client_message(&c, 1, END_STREAM, "", 0);
        client_answer(&c, 1, &a);
        assert_int_equal(a.reset, 0xb + 1);
        answer_done(&a);
        seen_wait(&f.seen, &f.seen.n_aborted, 1);
        assert_int_equal(f.reason, GRPC_ABORT_OVERFLOW);
        assert_true(fixture_was_rejected(&f, "unsent_bytes"));
        client_expect(&c, 3, "/t.T/Echo", "alive", 0, "alive");
        client_close(&c);
        fixture_done(&f);
}

/* ---- messages that are decompressed elsewhere ---- */

#define LONG_BYTES (600 << 10)
#define SHORT_BYTES 10

/* Letters, compressed, behind a prefix. */
static void pack(char letter, size_t bytes, struct strbuf *ret) {
        char        *text = mem_alloc(bytes);
        struct iovec part = { text, bytes };
        char         prefix[5] = { 1, 0, 0 };
        struct buf  *packed;

        memset(text, letter, bytes);
        assert_int_equal(gzip_deflate_buf(GZIP_FORMAT_GZIP, &part, 1, NULL, &packed), GZIP_OK);
        assert_true(packed->len < 1 << 16);
        prefix[3] = (char)(packed->len >> 8);
        prefix[4] = (char)packed->len;
        strbuf_init(ret, 0);
        strbuf_put(ret, prefix, sizeof(prefix));
        strbuf_put(ret, packed->bytes, packed->len);
        buf_unref(packed);
        free(text);
}

static void test_long_packed_message(void **state) {
        struct fixture f;
        struct client  c;
        struct answer  a;
        struct strbuf  packed;

        (void)state;
        pack('z', LONG_BYTES, &packed);
        fixture_init(&f);
        fixture_start(&f);
        client_open(&c, &f, true);
        client_call(&c, 1, "/t.T/Echo", "grpc-encoding", "gzip", NULL);
        client_frame(&c, FRAME_DATA, END_STREAM, 1, packed.ptr, packed.len);
        client_answer(&c, 1, &a);
        assert_int_equal(a.code, 0);
        assert_int_equal(a.body.len, 5 + LONG_BYTES);
        for (size_t i = 5; i < a.body.len; i++)
                assert_int_equal(a.body.ptr[i], 'z');
        answer_done(&a);
        client_close(&c);
        fixture_done(&f);
        strbuf_done(&packed);
}

/* Those behind it wait, and the end does. */
static void test_long_packed_message_in_stream(void **state) {
        struct fixture f;
        struct client  c;
        struct answer  a;
        struct strbuf  lengthy, brief;
        const size_t   n = 2 * (5 + LONG_BYTES) + 2 * (5 + SHORT_BYTES);

        (void)state;
        pack('a', LONG_BYTES, &lengthy);
        pack('b', SHORT_BYTES, &brief);
        fixture_init(&f);
        fixture_start(&f);
        client_open(&c, &f, true);
        client_call(&c, 1, "/t.T/Chat", "grpc-encoding", "gzip", NULL);
        client_frame(&c, FRAME_DATA, 0, 1, lengthy.ptr, lengthy.len);
        client_frame(&c, FRAME_DATA, 0, 1, brief.ptr, brief.len);
        client_frame(&c, FRAME_DATA, 0, 1, brief.ptr, brief.len);
        client_frame(&c, FRAME_DATA, END_STREAM, 1, lengthy.ptr, lengthy.len);
        client_answer(&c, 1, &a);
        assert_int_equal(a.code, 0);
        assert_int_equal(a.body.len, n);
        assert_int_equal(a.body.ptr[5], 'a');
        assert_int_equal(a.body.ptr[5 + LONG_BYTES + 5], 'b');
        assert_int_equal(a.body.ptr[n - 1], 'a');
        answer_done(&a);
        client_close(&c);
        fixture_done(&f);
        strbuf_done(&lengthy);
        strbuf_done(&brief);
}

/* Clients that leave meanwhile, each a little later than the one before. */
static void test_long_packed_message_of_one_who_leaves(void **state) {
        static const char cancel[4] = { 0, 0, 0, 8 };
        struct fixture    f;
        struct client     c;
        struct strbuf     packed;
        uint32_t          id = 1;

        (void)state;
        pack('z', LONG_BYTES, &packed);
        fixture_init(&f);
        fixture_start(&f);
        for (unsigned i = 0; i < 20; i++) {
                client_open(&c, &f, true);
                for (id = 1; id < 1 + 2 * i; id += 2) {
                        client_call(&c, id, id % 4 == 1 ? "/t.T/Echo" : "/t.T/Chat",
                                    "grpc-encoding", "gzip", NULL);
                        client_frame(&c, FRAME_DATA, id % 4 == 1 ? END_STREAM : 0, id, packed.ptr,
                                     packed.len);
                        if (i % 2 == 0)
                                client_frame(&c, FRAME_RST_STREAM, 0, id, cancel, sizeof(cancel));
                }
                client_close(&c);
        }
        client_open(&c, &f, true);
        client_expect(&c, 1, "/t.T/Echo", "alive", 0, "alive");
        client_close(&c);
        fixture_done(&f);
        strbuf_done(&packed);
}

SUITE(grpc_call) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_unary),
                cmocka_unit_test(test_metadata),
                cmocka_unit_test(test_large_message_in),
                cmocka_unit_test(test_large_message_out),
                cmocka_unit_test(test_later),
                cmocka_unit_test(test_chat),
                cmocka_unit_test(test_paused),
                cmocka_unit_test(test_compression),
                cmocka_unit_test(test_long_packed_message),
                cmocka_unit_test(test_long_packed_message_in_stream),
                cmocka_unit_test(test_long_packed_message_of_one_who_leaves),
                cmocka_unit_test(test_restricted),
                cmocka_unit_test(test_deadline),
                cmocka_unit_test(test_no_time),
                cmocka_unit_test(test_cancelled),
                cmocka_unit_test(test_overflow),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
