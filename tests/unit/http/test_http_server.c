/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/clock.h"
#include "base/mem.h"
#include "codec/gzip.h"
#include "http/http_server.h"
#include "http_fixture.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define POST_CHUNKS "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
#define INFER "POST /v2/models/m/infer HTTP/1.1\r\nHost: a\r\n"

static void test_exact_answer_and_keep_alive(void **state) {
        struct fixture f;
        int            fd;

        (void)state;
        fixture_init(&f);
        fixture_start(&f);
        fd = client_open(&f);
        for (int i = 0; i < 3; i++) {
                client_say(fd, "POST /v2/models/simple/versions/3/infer?q=1 HTTP/1.1\r\n"
                               "Host: a\r\nX-Tell:  hello \r\nContent-Length: 3\r\n\r\nabc");
                client_expect(fd, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                                  "Content-Length: 14\r\n\r\nsimple 3 hello");
        }
        client_say(fd, "POST http://a:80/v2/models/x/infer HTTP/1.1\r\nHost: a\r\n\r\n");
        client_expect_answer(fd, 200, "x -1 ");
        client_say(fd, "POST /v2/models/x/versions/99999999999999999999/infer HTTP/1.1\r\n"
                       "Host: a\r\n\r\n");
        client_expect_answer(fd, 400,
                             "{\"error\":\"failed to get model version from specified version "
                             "string '99999999999999999999' (details: stol), version should be an "
                             "integral value > 0\"}");
        close(fd);
        fixture_done(&f);
}

/* The bytes arrive in two pieces, cut at every place. */
static void test_split_everywhere(void **state) {
        static const char text[] = "POST /echo HTTP/1.1\r\nHost: a\r\n"
                                   "Content-Length: 5\r\n\r\nhello"
                                   "POST /echo HTTP/1.1\r\nHost: a\r\n"
                                   "Transfer-Encoding: chunked\r\n\r\n"
                                   "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
        struct fixture    f;
        int               fd;

        (void)state;
        fixture_init(&f);
        fixture_start(&f);
        fd = client_open(&f);
        for (size_t cut = 1; cut < sizeof(text) - 1; cut++) {
                client_send(fd, text, cut);
                client_send(fd, text + cut, sizeof(text) - 1 - cut);
                client_expect_answer(fd, 200, "hello");
                client_expect_answer(fd, 200, "abcde");
        }
        close(fd);
        fixture_done(&f);
}

static void test_pipelined_behind_a_late_answer(void **state) {
        struct fixture f;
        int            fd;

        (void)state;
        fixture_init(&f);
        fixture_start(&f);
        fd = client_open(&f);
        client_say(fd, "GET /later HTTP/1.1\r\nHost: a\r\n\r\n" INFER "\r\n"
                       "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"
                       "GET /later HTTP/1.1\r\nHost: a\r\n"
                       "\r\nGET /nothing HTTP/1.1\r\nHost: a\r\n\r\n");
        fixture_answer_held(&f);
        client_expect_answer(fd, 200, "late");
        client_expect_answer(fd, 200, "m -1 ");
        client_expect_answer(fd, 200, "hi");
        fixture_answer_held(&f);
        client_expect_answer(fd, 200, "late");
        client_expect_answer(fd, 404, "{\"error\":\"Not Found\"}");
        close(fd);
        fixture_done(&f);
        assert_int_equal(f.seen.n_aborted, 0);
        assert_int_equal(f.seen.n_sent, 2);
}

static void send_echo(int fd, const char *bytes, size_t len, bool in_chunks) {
        char head[100];
        int  n;

        if (!in_chunks) {
                n = snprintf(head, sizeof(head),
                             "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", len);
                client_send(fd, head, (size_t)n);
                client_send(fd, bytes, len);
                return;
        }
        client_say(fd, "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        for (size_t at = 0; at < len;) {
                size_t piece = MIN(len - at, (size_t)70001);

                n = snprintf(head, sizeof(head), "%zx\r\n", piece);
                client_send(fd, head, (size_t)n);
                client_send(fd, bytes + at, piece);
                client_say(fd, "\r\n");
                at += piece;
        }
        client_say(fd, "0\r\n\r\n");
}

/* Around the size of the read buffer (16 KiB), and far beyond it. */
static void test_body_sizes(void **state) {
        static const size_t sizes[] = { 1,     16000, 16330, 16331, 16332,   16333,  16383,
                                        16384, 16385, 32768, 65536, 1000003, 5000000 };
        size_t              largest = sizes[ARRAY_LEN(sizes) - 1];
        char               *bytes = mem_alloc(largest + 1);
        struct fixture      f;
        int                 fd;

        (void)state;
        fixture_init(&f);
        fixture_start(&f);
        fd = client_open(&f);
        for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
                for (size_t k = 0; k < sizes[i]; k++)
                        bytes[k] = (char)('a' + k % 23);
                bytes[sizes[i]] = '\0';
                for (int in_chunks = 0; in_chunks < 2; in_chunks++) {
                        send_echo(fd, bytes, sizes[i], in_chunks);
                        client_expect_answer(fd, 200, bytes);
                }
        }
        close(fd);
        fixture_done(&f);
        free(bytes);
}

/* A head larger than the read buffer moves to a larger one; what follows it is not lost. */
static void test_large_heads(void **state) {
        static const size_t fills[] = { 10000, 16200, 16300, 16350, 16400, 20000, 32000 };
        struct fixture      f;
        int                 fd;

        (void)state;
        fixture_init(&f);
        fixture_start(&f);
        fd = client_open(&f);
        for (size_t i = 0; i < ARRAY_LEN(fills); i++) {
                AUTO_CHARS fill = mem_zalloc(fills[i] + 1);
                AUTO_CHARS text = NULL;

                memset(fill, 'a', fills[i]);
                text = mem_printf("POST /echo HTTP/1.1\r\nHost: a\r\n"
                                  "X-Fill: %s\r\nContent-Length: 3\r\n\r\n"
                                  "abcPOST /echo HTTP/1.1\r\nHost: a\r\n"
                                  "Transfer-Encoding: chunked\r\n"
                                  "X-Fill: %s\r\n\r\n3\r\ndef\r\n0\r\n\r\n" INFER
                                  "X-Tell: %s\r\n\r\n",
                                  fill, fill, fill);
                client_say(fd, text);
                client_expect_answer(fd, 200, "abc");
                client_expect_answer(fd, 200, "def");
                free(text);
                text = mem_printf("m -1 %s", fill);
                client_expect_answer(fd, 200, text);
        }
        close(fd);
        fixture_done(&f);
}

static void test_expect_continue(void **state) {
        struct fixture f;
        int            fd;

        (void)state;
        fixture_init(&f);
        fixture_start(&f);
        fd = client_open(&f);
        for (int i = 0; i < 2; i++) {
                client_say(fd, "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                               "Content-Length: 4\r\n\r\n");
                client_expect(fd, "HTTP/1.1 100 Continue\r\n\r\n");
                client_say(fd, "body");
                client_expect_answer(fd, 200, "body");
        }
        /* With the body right behind, nobody waits. */
        client_say(fd, "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                       "Content-Length: 4\r\n\r\nbody");
        client_expect_answer(fd, 200, "body");
        /* Nobody would take this body. */
        client_say(fd, "POST /none HTTP/1.1\r\nHost: a\r\n"
                       "Expect: 100-continue\r\nContent-Length: 4\r\n\r\n");
        client_expect_answer(fd, 404, "{\"error\":\"Not Found\"}");
        client_expect_end(fd);
        close(fd);
        fixture_done(&f);
}

static void test_methods_and_unknown_paths(void **state) {
        struct fixture f;
        int            fd;

        (void)state;
        fixture_init(&f);
        fixture_start(&f);
        fd = client_open(&f);
        client_say(fd, "GET /v2/ HTTP/1.1\r\nHost: a\r\n\r\n");
        client_expect(fd, "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\n"
                          "Content-Length: 21\r\n\r\n{\"error\":\"Not Found\"}");
        client_say(fd, "GET /echo HTTP/1.1\r\nHost: a\r\n\r\n");
        client_expect(fd, "HTTP/1.1 405 Not Allowed\r\nContent-Type: application/json\r\n"
                          "Allow: POST\r\nContent-Length: 30\r\n\r\n"
                          "{\"error\":\"Method Not Allowed\"}");
        client_say(fd, "DELETE /both HTTP/1.1\r\nHost: a\r\n\r\n");
        client_expect(fd, "HTTP/1.1 405 Not Allowed\r\nContent-Type: application/json\r\n"
                          "Allow: GET, POST\r\nContent-Length: 30\r\n\r\n"
                          "{\"error\":\"Method Not Allowed\"}");
        /* The answer to HEAD has a length, but no body that would be taken for the next answer. */
        client_say(fd, "HEAD /later HTTP/1.1\r\nHost: a\r\n\r\n" INFER "\r\n");
        client_expect(fd, "HTTP/1.1 405 Not Allowed\r\nContent-Type: text/plain\r\nAllow: GET\r\n"
                          "Content-Length: 30\r\n\r\n");
        client_expect_answer(fd, 200, "m -1 ");
        close(fd);
        fixture_done(&f);
}

static void test_restricted(void **state) {
        struct fixture f;
        int            fd;

        (void)state;
        fixture_init(&f);
        assert_null(endpoint_policy_add(&f.policy, "inference,trace:X-Key=s3cret", "api", ""));
        fixture_start(&f);
        fd = client_open(&f);
        client_say(fd, INFER "\r\n");
        client_expect(fd, "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\n"
                          "Content-Length: 60\r\n\r\n"
                          "{\"error\":\"This API is restricted, expecting header 'X-Key'\"}");
        close(fd);
        fixture_done(&f);
}

static void expect_refusal(struct fixture *f, const char *request, const char *status_line) {
        AUTO_STRBUF all;
        int         fd = client_open(f);

        strbuf_init(&all, 0);
        client_say(fd, request);
        client_read_all(fd, &all);
        if (!str_starts(strbuf_str(&all), str_of(status_line)))
                fail_msg("%s gave %s", request, strbuf_cstr(&all));
        assert_non_null(strstr(all.ptr, "\r\nConnection: close\r\n"));
        close(fd);
}

static void test_refusals_close(void **state) {
        struct fixture f;

        (void)state;
        fixture_init(&f);
        f.options.limits.header_bytes = 200;
        f.options.limits.header_fields = 4;
        f.options.limits.input_bytes = 1000;
        f.options.limits.input_slack_bytes = 24;
        fixture_start(&f);
        expect_refusal(&f, "nonsense\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n");
        expect_refusal(&f,
                       "GET / HTTP/1.1\r\nHost: a\r\n"
                       "A: b\n\r\n",
                       "HTTP/1.1 400 Bad Request\r\n");
        expect_refusal(&f,
                       "GET / HTTP/1.1\r\nHost: a\r\nA: 1\r\nA: 1\r\nA: 1\r\nA: 1\r\nA: 1\r\n\r\n",
                       "HTTP/1.1 431 Request Header Fields Too Large\r\n");
        expect_refusal(&f,
                       "GET / HTTP/1.1\r\nHost: a\r\n"
                       "A: 0123456789012345678901234567890123456789012345678901"
                       "012345678901234567890123456789012345678901234567890123456789012345678901"
                       "0123456789012345678901234567890123456789012345678901234567890123456789",
                       "HTTP/1.1 431 Request Header Fields Too Large\r\n");
        expect_refusal(&f, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1025\r\n\r\nabc",
                       "HTTP/1.1 400 Bad Request\r\n");
        expect_refusal(&f,
                       "POST /echo HTTP/1.1\r\nHost: a\r\n"
                       "Content-Length: 18446744073709551615\r\n\r\nabc",
                       "HTTP/1.1 400 Bad Request\r\n");
        expect_refusal(&f,
                       "POST /echo HTTP/1.1\r\nHost: a\r\n"
                       "Transfer-Encoding: chunked\r\n\r\n401\r\n",
                       "HTTP/1.1 400 Bad Request\r\n");
        expect_refusal(&f, "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
                       "HTTP/1.1 501 Not Implemented\r\n");
        /* A body for nobody is not even read. */
        expect_refusal(&f, "POST /none HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nabc",
                       "HTTP/1.1 404 Not Found\r\n");
        /* What a lenient reader would take for a second request. */
        expect_refusal(&f, POST_CHUNKS "0\r\n\n" INFER "\r\n", "HTTP/1.1 400 Bad Request\r\n");
        expect_refusal(&f, POST_CHUNKS "0\r\nA: b\r\n\n" INFER "\r\n",
                       "HTTP/1.1 400 Bad Request\r\n");
        expect_refusal(&f, POST_CHUNKS "0\r\nA: b\r\n c\r\n\r\n" INFER "\r\n",
                       "HTTP/1.1 400 Bad Request\r\n");
        expect_refusal(&f, "GET /later HTTP/1.1\r\n\r\n" INFER "\r\n",
                       "HTTP/1.1 400 Bad Request\r\n");
        net_server_stop(http_server_net(f.server));
        assert_int_equal(net_server_wait(http_server_net(f.server), clock_now_ns() + 20 * NS_PER_S),
                         0);
        assert_string_equal(strbuf_cstr(&f.seen.rejected),
                            "header_fields header_bytes body_bytes body_bytes body_bytes ");
        fixture_done(&f);
}

/* The chunk itself has to come before its size is too much. */
static void test_chunked_body_too_large(void **state) {
        struct fixture f;

        (void)state;
        fixture_init(&f);
        f.options.limits.input_bytes = 4;
        f.options.limits.input_slack_bytes = 0;
        fixture_start(&f);
        expect_refusal(&f,
                       "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                       "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
                       "HTTP/1.1 400 Bad Request\r\n");
        fixture_done(&f);
}

#define ONE_MOMENT                                                                                 \
        "POST /v2/models/m/infer HTTP/1.1\r\nHost: a\r\n"                                          \
        "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n"

/* The connection holds a read buffer until client_end_moment(). */
static void client_begin_moment(int fd) {
        client_say(fd, ONE_MOMENT);
        client_expect(fd, "HTTP/1.1 100 Continue\r\n\r\n");
}

static void client_end_moment(int fd) {
        client_say(fd, "ab");
        client_expect_answer(fd, 200, "m -1 ");
}

/* Requests that need memory are refused; those that do not are served. */
static void test_out_of_memory(void **state) {
        struct fixture f;
        int            fds[4];

        (void)state;
        fixture_init(&f);
        f.options.net.n_threads = 1;
        fixture_start(&f);
        for (size_t i = 0; i < ARRAY_LEN(fds); i++) { /* leaves four read buffers to the loop */
                fds[i] = client_open(&f);
                client_begin_moment(fds[i]);
        }
        for (size_t i = 0; i < ARRAY_LEN(fds); i++)
                client_end_moment(fds[i]);
        client_say(fds[0], "GET /starve HTTP/1.1\r\nHost: a\r\n\r\n" INFER "\r\n");
        client_expect_answer(fds[0], 200, "");
        client_expect_answer(fds[0], 200, "m -1 ");
        expect_refusal(&f, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nabc",
                       "HTTP/1.1 503 Service Unavailable\r\n");
        expect_refusal(&f,
                       "POST /echo HTTP/1.1\r\nHost: a\r\n"
                       "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
                       "HTTP/1.1 503 Service Unavailable\r\n");
        client_say(fds[1], INFER "\r\n");
        client_expect_answer(fds[1], 200, "m -1 ");
        for (size_t i = 0; i < ARRAY_LEN(fds); i++)
                close(fds[i]);
        net_server_stop(http_server_net(f.server));
        assert_int_equal(net_server_wait(http_server_net(f.server), clock_now_ns() + 20 * NS_PER_S),
                         0);
        assert_string_equal(strbuf_cstr(&f.seen.rejected), "memory memory ");
        fixture_done(&f);
}

/* A connection for which there is not even a read buffer ends; the others do not notice. */
static void test_no_read_buffer(void **state) {
        struct fixture f;
        int            first, second;

        (void)state;
        fixture_init(&f);
        f.options.net.n_threads = 1;
        fixture_start(&f);
        first = client_open(&f);
        client_say(first, "GET /starve HTTP/1.1\r\nHost: a\r\n\r\n");
        client_expect_answer(first, 200, "");
        client_begin_moment(first); /* with the only one */
        second = client_open(&f);
        client_say(second, INFER "\r\n");
        assert_true(recv(second, &(char){ 0 }, 1, 0) <= 0);
        client_end_moment(first);
        close(first);
        close(second);
        net_server_stop(http_server_net(f.server));
        assert_int_equal(net_server_wait(http_server_net(f.server), clock_now_ns() + 20 * NS_PER_S),
                         0);
        assert_string_equal(strbuf_cstr(&f.seen.rejected), "memory ");
        fixture_done(&f);
}

/* An answer that has begun and cannot go on ends with its connection, and the server stays. */
static void test_no_memory_for_a_chunk(void **state) {
        AUTO_STRBUF    got = { 0 };
        struct fixture f;
        int            fd;

        (void)state;
        strbuf_init(&got, 0);
        fixture_init(&f);
        f.options.net.n_threads = 1;
        fixture_start(&f);
        fd = client_open(&f);
        client_say(fd, "GET /piece HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        client_read_all(fd, &got);
        assert_non_null(strstr(strbuf_cstr(&got), "\r\n\r\n5\r\nfirst\r\n0\r\n\r\n"));
        close(fd);
        strbuf_clear(&got);
        fd = client_open(&f);
        client_say(fd, "GET /starve HTTP/1.1\r\nHost: a\r\n\r\n");
        client_expect_answer(fd, 200, "");
        client_say(fd, "GET /piece HTTP/1.1\r\nHost: a\r\n\r\n");
        client_read_all(fd, &got);
        assert_null(strstr(strbuf_cstr(&got), "first"));
        close(fd);
        net_server_stop(http_server_net(f.server));
        assert_int_equal(net_server_wait(http_server_net(f.server), clock_now_ns() + 20 * NS_PER_S),
                         0);
        assert_string_equal(strbuf_cstr(&f.seen.rejected), "memory ");
        fixture_done(&f);
}

static void test_http10(void **state) {
        struct fixture f;
        int            fd;

        (void)state;
        fixture_init(&f);
        fixture_start(&f);
        fd = client_open(&f);
        client_say(fd, "POST /v2/models/a/infer HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        client_expect(fd, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                          "Connection: keep-alive\r\nContent-Length: 5\r\n\r\na -1 ");
        client_say(fd, "POST /v2/models/b/infer HTTP/1.0\r\n\r\n");
        client_expect(fd, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                          "Connection: close\r\nContent-Length: 5\r\n\r\nb -1 ");
        client_expect_end(fd);
        close(fd);
        fd = client_open(&f);
        client_say(fd, INFER "Connection: close\r\n\r\n");
        client_expect_answer(fd, 200, "m -1 ");
        client_expect_end(fd);
        close(fd);
        fixture_done(&f);
}

static void test_headers_of_an_answer(void **state) {
        struct fixture f;
        AUTO_STRBUF    all;
        int            fd;

        (void)state;
        fixture_init(&f);
        fixture_start(&f);
        strbuf_init(&all, 0);
        fd = client_open(&f);
        client_say(fd, "GET /fields HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        client_read_all(fd, &all);
        assert_non_null(strstr(all.ptr, "\r\nX-Field: a  Evil: yes    0123456789\r\n"));
        assert_null(strstr(all.ptr, "\nEvil"));
        assert_true(str_ends(strbuf_str(&all), STR_LIT("\r\nContent-Length: 0\r\n\r\n")));
        close(fd);
        fixture_done(&f);
}

static void test_access_log(void **state) {
        struct fixture f;
        int            fd;

        (void)state;
        fixture_init(&f);
        fixture_start(&f);
        fd = client_open(&f);
        client_say(fd, "POST /v2/models/m/infer HTTP/1.1\r\nHost: a\r\n"
                       "Content-Length: 4\r\n\r\nbody"
                       "GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
        client_expect_answer(fd, 200, "m -1 ");
        fixture_wait_held(&f);
        close(fd);
        seen_wait(&f.seen, &f.seen.n_aborted, 1);
        fixture_answer_held(&f);
        seen_wait(&f.seen, &f.seen.n_access, 2);
        assert_true(str_starts(strbuf_str(&f.seen.access),
                               STR_LIT("POST /v2/models/m/infer m 200 in 68 out 75\n"
                                       "GET /later  200 in 32 out ")));
        fixture_done(&f);
}

static const char plain[] = "0123456789012345678901234567890123456789012345678901234567890123";

/* Posts `plain`, compressed, with more header lines. */
static void post_compressed(int fd, enum gzip_format format, const char *lines) {
        const struct iovec part = { (void *)(uintptr_t)plain, sizeof(plain) - 1 };
        AUTO_STRBUF        head;
        struct buf        *packed;

        strbuf_init(&head, 0);
        assert_int_equal(gzip_deflate_buf(format, &part, 1, NULL, &packed), GZIP_OK);
        strbuf_printf(&head,
                      "POST /echo HTTP/1.1\r\nHost: a\r\n"
                      "Content-Length: %zu\r\n%s\r\n",
                      packed->len, lines);
        client_send(fd, head.ptr, head.len);
        client_send(fd, packed->bytes, packed->len);
        buf_unref(packed);
}

static void test_compressed_requests(void **state) {
        struct fixture f;
        int            fd;

        (void)state;
        fixture_init(&f);
        f.options.service.max_input_bytes = sizeof(plain) - 1;
        fixture_start(&f);
        fd = client_open(&f);
        post_compressed(fd, GZIP_FORMAT_GZIP, "Content-Encoding: gzip\r\n");
        client_expect_answer(fd, 200, plain);
        post_compressed(fd, GZIP_FORMAT_ZLIB, "Content-Encoding: deflate\r\n");
        client_expect_answer(fd, 200, plain);
        client_say(fd, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Encoding: identity\r\n"
                       "Content-Length: 2\r\n\r\nhi");
        client_expect_answer(fd, 200, "hi");
        client_say(fd, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Encoding: br\r\n"
                       "Content-Length: 2\r\n\r\nhi");
        client_expect(fd, "HTTP/1.1 501 Not Implemented\r\nContent-Type: application/json\r\n"
                          "Accept-Encoding: gzip, deflate\r\nContent-Length: 40\r\n\r\n"
                          "{\"error\":\"Unsupported compression type\"}");
        client_say(fd, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\n"
                       "Content-Length: 2\r\n\r\nhi");
        client_expect(fd, "HTTP/1.1 400 Bad Request\r\n");
        close(fd);
        fixture_done(&f);
}

static void test_decompressed_size_is_bounded(void **state) {
        struct fixture f;
        int            fd;

        (void)state;
        fixture_init(&f);
        f.options.service.max_input_bytes = sizeof(plain) - 2;
        fixture_start(&f);
        fd = client_open(&f);
        post_compressed(fd, GZIP_FORMAT_GZIP, "Content-Encoding: gzip\r\n");
        client_expect_answer(fd, 400,
                             "{\"error\":\"Decompressed data size exceeds the maximum allowed "
                             "value of 63 bytes. Use --http-max-input-size to increase the "
                             "limit.\"}");
        close(fd);
        fixture_done(&f);
}

static void test_compressed_answers(void **state) {
        static const char *const encodings[] = { "gzip", "deflate" };
        struct fixture           f;

        (void)state;
        fixture_init(&f);
        fixture_start(&f);
        for (size_t i = 0; i < ARRAY_LEN(encodings); i++) {
                AUTO_STRBUF all;
                struct buf *out;
                AUTO_CHARS  request = mem_printf("POST /echo HTTP/1.1\r\nHost: a\r\n"
                                                  "Connection: close\r\n"
                                                  "Accept-Encoding: br, %s;q=0.5\r\n"
                                                  "Content-Length: %zu\r\n\r\n%s",
                                                 encodings[i], sizeof(plain) - 1, plain);
                AUTO_CHARS  field = mem_printf("\r\nContent-Encoding: %s\r\n", encodings[i]);
                const char *body;
                int         fd = client_open(&f);

                strbuf_init(&all, 0);
                client_say(fd, request);
                client_read_all(fd, &all);
                assert_non_null(strstr(all.ptr, field));
                body = strstr(all.ptr, "\r\n\r\n") + 4;
                assert_int_equal(gzip_inflate_buf(str_range(body,
                                                            (size_t)(all.ptr + all.len - body)),
                                                  1000, NULL, &out),
                                 GZIP_OK);
                assert_true(str_is(str_range(out->bytes, out->len), plain));
                buf_unref(out);
                close(fd);
        }
        fixture_done(&f);
}

SUITE(http_server) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_exact_answer_and_keep_alive),
                cmocka_unit_test(test_split_everywhere),
                cmocka_unit_test(test_pipelined_behind_a_late_answer),
                cmocka_unit_test(test_body_sizes),
                cmocka_unit_test(test_large_heads),
                cmocka_unit_test(test_expect_continue),
                cmocka_unit_test(test_methods_and_unknown_paths),
                cmocka_unit_test(test_restricted),
                cmocka_unit_test(test_refusals_close),
                cmocka_unit_test(test_chunked_body_too_large),
                cmocka_unit_test(test_out_of_memory),
                cmocka_unit_test(test_no_read_buffer),
                cmocka_unit_test(test_no_memory_for_a_chunk),
                cmocka_unit_test(test_http10),
                cmocka_unit_test(test_headers_of_an_answer),
                cmocka_unit_test(test_access_log),
                cmocka_unit_test(test_compressed_requests),
                cmocka_unit_test(test_decompressed_size_is_bounded),
                cmocka_unit_test(test_compressed_answers),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
