/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/buf.h"
#include "base/mem.h"
#include "http/http_message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POST_LINE "POST /v2 HTTP/1.1\r\nHost: a\r\n"
#define CHUNKED "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
#define JSON_LENGTH "Inference-Header-Content-Length: "
/* What a reader that is not strict would take for a second request. */
#define NEXT "GET /v2 HTTP/1.1\r\nHost: a\r\n\r\n"

/* A request fed `step` bytes at a time, each time from memory of exactly that size, so that the
 * sanitizer sees any byte read beyond it, and moved between the calls. */
struct run {
        struct http_message *m;
        enum http_parse      verdict;
        char                *base;  /* owned: the bytes last given */
        size_t               total; /* bytes of the request, when DONE */
};

static char *copy_of(const char *bytes, size_t len) {
        char *copy = mem_alloc(len > 0 ? len : 1);

        memcpy(copy, bytes, len);
        return copy;
}

static void feed_head(struct run *r, struct str in, size_t step) {
        size_t len = 0;

        do {
                len = MIN(len + step, in.len);
                free(r->base);
                r->base = copy_of(in.ptr, len);
                r->verdict = http_message_parse_head(r->m, str_range(r->base, len));
        } while (r->verdict == HTTP_PARSE_MORE && len < in.len);
        r->total = r->m->head_bytes;
}

static void feed_chunks(struct run *r, struct str in, size_t step) {
        size_t at = r->m->head_bytes;

        r->verdict = HTTP_PARSE_MORE;
        while (r->verdict == HTTP_PARSE_MORE && at < in.len) {
                size_t len = MIN(step, in.len - at), used = 0;
                char  *piece = copy_of(in.ptr + at, len);

                r->verdict = http_message_parse_chunks(r->m, str_range(piece, len), &used);
                at += used;
                free(piece);
        }
        r->total = at;
}

static void run_limited(struct run *r, struct str in, size_t step, const struct http_limits *l) {
        *r = (struct run){ .m = http_message_new(l, NULL) };
        feed_head(r, in, step);
        if (r->verdict == HTTP_PARSE_DONE && r->m->is_chunked)
                feed_chunks(r, in, step);
}

static struct http_limits defaults;

static void run(struct run *r, struct str in, size_t step) {
        http_limits_init(&defaults);
        run_limited(r, in, step, &defaults);
}

static void run_done(struct run *r) {
        http_message_free(r->m);
        free(r->base);
}

static void assert_header(const struct run *r, size_t i, const char *name, const char *value) {
        struct http_header h = http_message_header(r->m, r->base, i);

        assert_true(str_is(h.name, name));
        assert_true(str_is(h.value, value));
}

static void test_head_split_everywhere(void **state) {
        static const char text[] = "POST /v2/models/m/infer?x=1 HTTP/1.1\r\nHost: here\r\n"
                                   "X-Empty:\r\nContent-Length: 5 \r\nA: \t b c \t\r\n\r\nhello";

        (void)state;
        for (size_t step = 1; step < sizeof(text); step++) {
                struct run r;

                run(&r, str_of(text), step);
                assert_int_equal(r.verdict, HTTP_PARSE_DONE);
                assert_int_equal(r.m->method, HTTP_METHOD_POST);
                assert_string_equal(r.m->method_text, "POST");
                assert_true(str_is(http_message_target(r.m, r.base), "/v2/models/m/infer?x=1"));
                assert_int_equal(r.m->n_fields, 4);
                assert_header(&r, 0, "Host", "here");
                assert_header(&r, 1, "X-Empty", "");
                assert_header(&r, 2, "Content-Length", "5");
                assert_header(&r, 3, "A", "b c");
                assert_int_equal(r.m->content_length, 5);
                assert_int_equal(r.m->head_bytes, sizeof(text) - 1 - 5);
                assert_true(r.m->keep_alive);
                assert_false(r.m->is_chunked);
                run_done(&r);
        }
}

static void test_chunks_split_everywhere(void **state) {
        static const char text[] = "POST / HTTP/1.1\r\nHost: a\r\n"
                                   "Transfer-Encoding: chunked\r\n\r\n"
                                   "4;a=\"b\";c=d\r\nwiki\r\n0005\r\npedia\r\nA\r\n 0123\r\n789\r\n"
                                   "0\r\nX-Trailer: 1\r\n\r\nGET /next";

        (void)state;
        for (size_t step = 1; step < sizeof(text); step++) {
                struct run r;

                run(&r, str_of(text), step);
                assert_int_equal(r.verdict, HTTP_PARSE_DONE);
                assert_true(r.m->is_chunked);
                assert_int_equal(r.total, sizeof(text) - 1 - sizeof("GET /next") + 1);
                assert_int_equal(r.m->body->len, 19);
                assert_memory_equal(r.m->body->bytes, "wikipedia 0123\r\n789", 19);
                assert_int_equal(r.m->n_fields, 2); /* a trailer is no header field */
                run_done(&r);
        }
}

static void test_equal_json_lengths(void **state) {
        static const char text[] = "POST / HTTP/1.1\r\nHost: a\r\n"
                                   "Inference-Header-Content-Length: 7\r\n"
                                   "inference-header-content-length:  7 \r\n\r\n";

        (void)state;
        for (size_t step = 1; step < sizeof(text); step++) {
                struct run r;

                run(&r, str_of(text), step);
                assert_int_equal(r.verdict, HTTP_PARSE_DONE);
                assert_int_equal(r.m->known[HTTP_NAME_INFER_JSON_LENGTH], 2);
                run_done(&r);
        }
}

/* A chunked body with each byte changed: however it is cut, it is read the same way. */
static void test_changed_chunks(void **state) {
        static const char head[] = CHUNKED;
        static const char text[] = "2;a=b\r\nxy\r\n0\r\nA: b\r\n\r\n";
        static const char others[] = "\r\n\0\t :;0aG";
        char              all[sizeof(head) + sizeof(text)];
        const size_t      at = sizeof(head) - 1, len = at + sizeof(text) - 1;

        (void)state;
        memcpy(all, head, sizeof(head));
        for (size_t i = 0; i < sizeof(text) - 1; i++)
                for (size_t k = 0; k < sizeof(others) - 1; k++) {
                        struct run whole, pieces;

                        memcpy(all + at, text, sizeof(text));
                        all[at + i] = others[k];
                        run(&whole, str_range(all, len), len);
                        for (size_t step = 1; step < sizeof(text); step++) {
                                run(&pieces, str_range(all, len), step);
                                assert_int_equal(pieces.verdict, whole.verdict);
                                if (whole.verdict == HTTP_PARSE_DONE)
                                        assert_int_equal(pieces.total, whole.total);
                                run_done(&pieces);
                        }
                        run_done(&whole);
                }
}

struct keep_row {
        const char *text;
        bool        keep_alive;
        bool        is_http10;
        bool        expects_continue;
};

static void test_versions_and_connection(void **state) {
        static const struct keep_row rows[] = {
                { "GET / HTTP/1.1\r\nHost: a\r\n\r\n", true, false, false },
                { "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", false, false, false },
                { "GET / HTTP/1.1\r\nHost: a\r\nConnection: x, CLOSE\r\n\r\n", false, false,
                  false },
                { "GET / HTTP/1.0\r\n\r\n", false, true, false },
                { "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", true, true, false },
                { "GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\n\r\n", true, false, true },
                { "GET / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n", false, true, false },
                { "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", true, false, false },
                { "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n", true,
                  false, false },
                { "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", false, false, false },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                for (size_t step = 1; step < 100; step += 98) {
                        struct run r;

                        run(&r, str_of(rows[i].text), step);
                        assert_int_equal(r.verdict, HTTP_PARSE_DONE);
                        assert_int_equal(r.m->keep_alive, rows[i].keep_alive);
                        assert_int_equal(r.m->is_http10, rows[i].is_http10);
                        assert_int_equal(r.m->expects_continue, rows[i].expects_continue);
                        run_done(&r);
                }
}

/* Requests that two readers could understand differently, and plain nonsense. */
struct refusal_row {
        const char *name;
        struct str  text;
        unsigned    status;
};

static const struct refusal_row refusals[] = {
        { "bare CR in a value", STR_LIT(POST_LINE "X: a\rb\r\n\r\n"), 400 },
        { "bare CR ends a line", STR_LIT(POST_LINE "X: a\rY: b\r\n\r\n"), 400 },
        { "bare LF ends a line", STR_LIT(POST_LINE "X: a\nY: b\r\n\r\n"), 400 },
        { "bare LF ends the request line", STR_LIT("GET /v2 HTTP/1.1\nHost: a\r\n\r\n"), 400 },
        { "bare LF as the blank line", STR_LIT(POST_LINE "X: a\r\n\n"), 400 },
        { "blank before the colon", STR_LIT(POST_LINE "Content-Length : 3\r\n\r\nabc"), 400 },
        { "blank before the first name", STR_LIT("GET / HTTP/1.1\r\n X: 1\r\nHost: a\r\n\r\n"),
          400 },
        { "no colon", STR_LIT(POST_LINE "nonsense\r\n\r\n"), 400 },
        { "empty name", STR_LIT(POST_LINE ": 1\r\n\r\n"), 400 },
        { "empty first name", STR_LIT("GET / HTTP/1.1\r\n: 1\r\nHost: a\r\n\r\n"), 400 },
        { "two equal lengths", STR_LIT(POST_LINE "Content-Length: 3\r\nContent-Length: 3\r\n\r\n"),
          400 },
        { "two lengths", STR_LIT(POST_LINE "Content-Length: 3\r\nContent-Length: 4\r\n\r\n"), 400 },
        { "list of lengths", STR_LIT(POST_LINE "Content-Length: 3, 3\r\n\r\n"), 400 },
        { "length and chunks",
          STR_LIT(POST_LINE "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
          400 },
        { "chunks and length",
          STR_LIT(POST_LINE "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n"),
          400 },
        { "length with a sign", STR_LIT(POST_LINE "Content-Length: +4\r\n\r\nabcd"), 400 },
        { "negative length", STR_LIT(POST_LINE "Content-Length: -1\r\n\r\n"), 400 },
        { "hexadecimal length", STR_LIT(POST_LINE "Content-Length: 0x4\r\n\r\nabcd"), 400 },
        { "length with a blank in it", STR_LIT(POST_LINE "Content-Length: 1 0\r\n\r\n"), 400 },
        { "empty length", STR_LIT(POST_LINE "Content-Length:\r\n\r\n"), 400 },
        { "length 2^64", STR_LIT(POST_LINE "Content-Length: 18446744073709551616\r\n\r\n"), 400 },
        { "length 2^64 + 3", STR_LIT(POST_LINE "Content-Length: 18446744073709551619\r\n\r\nabc"),
          400 },
        { "folded value", STR_LIT(POST_LINE "X: a\r\n b\r\n\r\n"), 400 },
        { "folded after nothing", STR_LIT(POST_LINE "X:\r\n\tb\r\n\r\n"), 400 },
        { "folded length", STR_LIT(POST_LINE "Content-Length:\r\n 3\r\n\r\nabc"), 400 },
        { "folded with nothing", STR_LIT(POST_LINE "X: a\r\n \r\n\r\n"), 400 },
        { "unknown coding", STR_LIT(POST_LINE "Transfer-Encoding: xchunked\r\n\r\n"), 501 },
        { "unknown coding first", STR_LIT(POST_LINE "Transfer-Encoding: gzip, chunked\r\n\r\n"),
          501 },
        { "coding identity", STR_LIT(POST_LINE "Transfer-Encoding: identity\r\n\r\n"), 501 },
        { "chunked twice in a list",
          STR_LIT(POST_LINE "Transfer-Encoding: chunked, chunked\r\n\r\n"), 400 },
        { "chunked twice",
          STR_LIT(POST_LINE "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"),
          400 },
        { "chunked not last",
          STR_LIT(POST_LINE "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n"), 400 },
        { "vertical tab before chunked", STR_LIT(POST_LINE "Transfer-Encoding: \vchunked\r\n\r\n"),
          400 },
        { "chunks on HTTP/1.0",
          STR_LIT("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400 },
        { "NUL in a value", STR_LIT(POST_LINE "X: a\0b\r\n\r\n"), 400 },
        { "NUL in a name", STR_LIT(POST_LINE "X\0Y: a\r\n\r\n"), 400 },
        { "NUL in the target", STR_LIT("GET /v2\0 HTTP/1.1\r\nHost: a\r\n\r\n"), 400 },
        { "DEL in a value", STR_LIT(POST_LINE "X: a\177b\r\n\r\n"), 400 },
        { "two hosts in one field", STR_LIT("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n"), 400 },
        { "the same without a blank", STR_LIT("GET / HTTP/1.1\r\nHost: a,b\r\n\r\n"), 400 },
        { "an empty host", STR_LIT("GET / HTTP/1.1\r\nHost:\r\n\r\n"), 400 },
        { "a path in the host", STR_LIT("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"), 400 },
        { "a user in the host", STR_LIT("GET / HTTP/1.1\r\nHost: a@b\r\n\r\n"), 400 },
        { "two hosts", STR_LIT(POST_LINE "Host: b\r\n\r\n"), 400 },
        { "other expectation", STR_LIT(POST_LINE "Expect: cookies\r\n\r\n"), 417 },
        { "HTTP/2 preface", STR_LIT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505 },
        { "HTTP/0.9", STR_LIT("GET / HTTP/0.9\r\n\r\n"), 505 },
        { "HTTP/1.2", STR_LIT("GET / HTTP/1.2\r\n\r\n"), 400 },
        { "no version", STR_LIT("GET /\r\n\r\n"), 505 },
        { "lower case method", STR_LIT("get / HTTP/1.1\r\nHost: a\r\n\r\n"), 400 },
        { "unknown method", STR_LIT("FETCH / HTTP/1.1\r\nHost: a\r\n\r\n"), 400 },
        { "two blanks before the version", STR_LIT("GET /  HTTP/1.1\r\nHost: a\r\n\r\n"), 400 },
        { "two blanks after the method", STR_LIT("GET  / HTTP/1.1\r\nHost: a\r\n\r\n"), 400 },
        { "blank after the version", STR_LIT("GET / HTTP/1.1 \r\n\r\n"), 400 },
        { "tab before the version", STR_LIT("GET /\tHTTP/1.1\r\nHost: a\r\n\r\n"), 400 },
        { "TLS hello", STR_LIT("\x16\x03\x01\x02\x00\x01\x00"), 400 },
        { "chunk size with a sign",
          STR_LIT(POST_LINE "Transfer-Encoding: chunked\r\n\r\n+4\r\nabcd\r\n0\r\n\r\n"), 400 },
        { "chunk size with 0x",
          STR_LIT(POST_LINE "Transfer-Encoding: chunked\r\n\r\n0x4\r\nabcd\r\n0\r\n\r\n"), 400 },
        { "chunk size 2^64",
          STR_LIT(POST_LINE "Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n"), 400 },
        { "chunk size 2^64 + 4",
          STR_LIT(POST_LINE "Transfer-Encoding: chunked\r\n\r\n10000000000000004\r\nabcd\r\n"),
          400 },
        { "empty chunk size", STR_LIT(POST_LINE "Transfer-Encoding: chunked\r\n\r\n\r\nabcd"),
          400 },
        { "blank before a chunk size",
          STR_LIT(POST_LINE "Transfer-Encoding: chunked\r\n\r\n 4\r\nabcd\r\n0\r\n\r\n"), 400 },
        { "chunk size ended by LF",
          STR_LIT(POST_LINE "Transfer-Encoding: chunked\r\n\r\n4\nabcd\r\n0\r\n\r\n"), 400 },
        { "chunk ended by LF",
          STR_LIT(POST_LINE "Transfer-Encoding: chunked\r\n\r\n4\r\nabcd\n0\r\n\r\n"), 400 },
        { "chunk longer than its size",
          STR_LIT(POST_LINE "Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n"), 400 },
        { "LF in a chunk extension",
          STR_LIT(POST_LINE "Transfer-Encoding: chunked\r\n\r\n4;x\n\r\nabcd\r\n0\r\n\r\n"), 400 },
        { "chunk extension ended by LF", STR_LIT(CHUNKED "4;x\nabcd\r\n0\r\n\r\n"), 400 },
        { "CR in a chunk extension", STR_LIT(CHUNKED "4;x\r;\r\nabcd\r\n0\r\n\r\n"), 400 },
        { "NUL in a chunk extension", STR_LIT(CHUNKED "4;x\0\r\nabcd\r\n0\r\n\r\n"), 400 },
        { "blank after a chunk size", STR_LIT(CHUNKED "4 \r\nabcd\r\n0\r\n\r\n"), 400 },
        { "chunk size ended by CR", STR_LIT(CHUNKED "4\rabcd\r\n0\r\n\r\n"), 400 },
        { "chunk ended by CR", STR_LIT(CHUNKED "4\r\nabcd\r0\r\n\r\n"), 400 },
        { "chunk ended by LF CR", STR_LIT(CHUNKED "4\r\nabcd\n\r0\r\n\r\n"), 400 },
        { "chunk shorter than its size", STR_LIT(CHUNKED "5\r\nabcd\r\n0\r\n\r\n"), 400 },
        { "last chunk ended by LF", STR_LIT(CHUNKED "0\n\r\n" NEXT), 400 },
        { "last chunk ended by CR", STR_LIT(CHUNKED "0\r\r\n" NEXT), 400 },
        { "chunks ended by LF", STR_LIT(CHUNKED "0\r\n\n" NEXT), 400 },
        { "chunks ended by CR", STR_LIT(CHUNKED "0\r\n\r" NEXT), 400 },
        { "trailers ended by LF", STR_LIT(CHUNKED "0\r\nA: b\r\n\n" NEXT), 400 },
        { "trailer ended by LF", STR_LIT(CHUNKED "0\r\nA: b\n\r\n" NEXT), 400 },
        { "trailer ended by CR", STR_LIT(CHUNKED "0\r\nA: b\rB: c\r\n\r\n" NEXT), 400 },
        { "empty trailer ended by LF", STR_LIT(CHUNKED "0\r\nA:\n\r\n" NEXT), 400 },
        { "folded trailer", STR_LIT(CHUNKED "0\r\nA: b\r\n c\r\n\r\n" NEXT), 400 },
        { "folded trailer after nothing", STR_LIT(CHUNKED "0\r\nA:\r\n\tc\r\n\r\n" NEXT), 400 },
        { "trailer folded with nothing", STR_LIT(CHUNKED "0\r\nA: b\r\n \r\n\r\n" NEXT), 400 },
        { "blank before the first trailer", STR_LIT(CHUNKED "0\r\n A: b\r\n\r\n" NEXT), 400 },
        { "blank before a trailer's colon", STR_LIT(CHUNKED "0\r\nA : b\r\n\r\n" NEXT), 400 },
        { "trailer without a colon", STR_LIT(CHUNKED "0\r\nnonsense\r\n\r\n" NEXT), 400 },
        { "trailer without a name", STR_LIT(CHUNKED "0\r\n: b\r\n\r\n" NEXT), 400 },
        { "NUL in a trailer", STR_LIT(CHUNKED "0\r\nA: \0\r\n\r\n" NEXT), 400 },
        { "DEL in a trailer", STR_LIT(CHUNKED "0\r\nA: \177\r\n\r\n" NEXT), 400 },
        { "request instead of trailers", STR_LIT(CHUNKED "0\r\n" NEXT), 400 },
        { "no host", STR_LIT("GET / HTTP/1.1\r\n\r\n"), 400 },
        { "no host, other fields", STR_LIT("GET / HTTP/1.1\r\nHosts: a\r\nHos: a\r\n\r\n"), 400 },
        { "two JSON lengths", STR_LIT(POST_LINE JSON_LENGTH "1\r\n" JSON_LENGTH "2\r\n\r\n"), 400 },
        { "JSON lengths that are spelled differently",
          STR_LIT(POST_LINE JSON_LENGTH "1\r\n" JSON_LENGTH "01\r\n\r\n"), 400 },
        { "three JSON lengths",
          STR_LIT(POST_LINE JSON_LENGTH "1\r\n" JSON_LENGTH "1\r\n" JSON_LENGTH "3\r\n\r\n"), 400 },
};

static void test_refusals(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(refusals); i++) {
                const struct refusal_row *row = &refusals[i];

                for (size_t step = 1; step <= row->text.len; step++) {
                        struct run r;

                        run(&r, row->text, step);
                        if (r.verdict != HTTP_PARSE_REFUSED || r.m->refusal.status != row->status)
                                fail_msg("%s, %zu bytes at a time: verdict %d, status %u, want %u",
                                         row->name, step, r.verdict, r.m->refusal.status,
                                         row->status);
                        assert_non_null(r.m->refusal.text);
                        run_done(&r);
                }
        }
}

/* n header fields: Host, and "A: 1" again and again. */
static char *many_fields(size_t n) {
        char *text = mem_strdup("GET / HTTP/1.1\r\nHost: a\r\n"), *longer;

        for (size_t i = 1; i < n; i++) {
                longer = mem_printf("%sA: 1\r\n", text);
                free(text);
                text = longer;
        }
        longer = mem_printf("%s\r\n", text);
        free(text);
        return longer;
}

static void test_field_count(void **state) {
        AUTO_CHARS allowed = many_fields(100);
        AUTO_CHARS refused = many_fields(101);
        struct run r;

        (void)state;
        run(&r, str_of(allowed), 4096);
        assert_int_equal(r.verdict, HTTP_PARSE_DONE);
        assert_int_equal(r.m->n_fields, 100);
        run_done(&r);

        run(&r, str_of(refused), 4096);
        assert_int_equal(r.verdict, HTTP_PARSE_REFUSED);
        assert_int_equal(r.m->refusal.status, 431);
        assert_int_equal(r.m->refusal.limit, HTTP_LIMIT_HEADER_FIELDS);
        assert_string_equal(r.m->refusal.text,
                            "request has more than the maximum of 100 header fields");
        run_done(&r);
}

static char *head_of_bytes(size_t total) {
        const char *begin = "GET / HTTP/1.1\r\nHost: a\r\nA: ";
        size_t      fill = total - strlen(begin) - 4;
        char       *text = mem_alloc(total + 1);

        memcpy(text, begin, strlen(begin));
        memset(text + strlen(begin), 'a', fill);
        memcpy(text + strlen(begin) + fill, "\r\n\r\n", 5);
        return text;
}

static void test_head_bytes(void **state) {
        AUTO_CHARS allowed = head_of_bytes(32768);
        AUTO_CHARS refused = head_of_bytes(32769);
        struct run r;

        (void)state;
        for (size_t step = 1000; step <= 40000; step += 39000) {
                run(&r, str_of(allowed), step);
                assert_int_equal(r.verdict, HTTP_PARSE_DONE);
                assert_int_equal(r.m->head_bytes, 32768);
                run_done(&r);

                run(&r, str_of(refused), step);
                assert_int_equal(r.verdict, HTTP_PARSE_REFUSED);
                assert_int_equal(r.m->refusal.status, 431);
                assert_int_equal(r.m->refusal.limit, HTTP_LIMIT_HEADER_BYTES);
                run_done(&r);
        }
        /* Without an end in sight it is refused as soon as it is too long. */
        run(&r, str_range(refused, 32769 - 4), 32769 - 4);
        assert_int_equal(r.verdict, HTTP_PARSE_MORE);
        run_done(&r);
        run(&r, str_range(refused, 32769 - 1), 1000);
        assert_int_equal(r.verdict, HTTP_PARSE_MORE);
        run_done(&r);
}

static void test_chunk_count(void **state) {
        struct http_limits l;
        struct run         r;

        (void)state;
        http_limits_init(&l);
        l.chunks = 3;
        run_limited(&r, STR_LIT(CHUNKED "1\r\na\r\n1\r\nb\r\n1\r\nc\r\n0\r\n\r\n"), 5, &l);
        assert_int_equal(r.verdict, HTTP_PARSE_DONE);
        assert_memory_equal(r.m->body->bytes, "abc", 3);
        run_done(&r);

        run_limited(&r, STR_LIT(CHUNKED "1\r\na\r\n1\r\nb\r\n1\r\nc\r\n1\r\nd\r\n0\r\n\r\n"), 5,
                    &l);
        assert_int_equal(r.verdict, HTTP_PARSE_REFUSED);
        assert_int_equal(r.m->refusal.status, 400);
        assert_int_equal(r.m->refusal.limit, HTTP_LIMIT_CHUNKS);
        assert_string_equal(r.m->refusal.text,
                            "Chunked request body exceeds maximum of 3 non-empty chunks. Send "
                            "fewer or larger HTTP chunks.");
        run_done(&r);
        http_limits_init(&l);
        assert_int_equal(l.chunks, 65536);
}

static void test_chunk_extension(void **state) {
        char       text[sizeof(CHUNKED) + 400];
        struct run r;

        (void)state;
        for (int len = 256; len <= 257; len++) {
                /* All that follows the ';' counts. */
                snprintf(text, sizeof(text), CHUNKED "1;x=%0*d\r\na\r\n0\r\n\r\n", len - 2, 7);
                run(&r, str_of(text), 13);
                assert_int_equal(r.verdict, len == 256 ? HTTP_PARSE_DONE : HTTP_PARSE_REFUSED);
                if (len == 257)
                        assert_int_equal(r.m->refusal.limit, HTTP_LIMIT_CHUNK_EXTENSION);
                run_done(&r);
        }
}

static void test_endless_framing(void **state) {
        size_t     zeros = 40000, len = sizeof(CHUNKED) - 1 + zeros;
        AUTO_CHARS text = mem_alloc(len);
        struct run r;

        (void)state;
        memcpy(text, CHUNKED, sizeof(CHUNKED) - 1);
        memset(text + sizeof(CHUNKED) - 1, '0', zeros);
        run(&r, str_range(text, len), 1024);
        assert_int_equal(r.verdict, HTTP_PARSE_REFUSED);
        assert_int_equal(r.m->refusal.limit, HTTP_LIMIT_HEADER_BYTES);
        run_done(&r);
}

static void test_body_limit(void **state) {
        struct http_limits l;
        struct run         r;

        (void)state;
        http_limits_init(&l);
        l.input_bytes = 8;
        l.input_slack_bytes = 2;
        run_limited(&r, STR_LIT(CHUNKED "5\r\n01234\r\n5\r\n56789\r\n0\r\n\r\n"), 99, &l);
        assert_int_equal(r.verdict, HTTP_PARSE_DONE);
        assert_int_equal(r.m->body->len, 10);
        run_done(&r);
        run_limited(&r, STR_LIT(CHUNKED "5\r\n01234\r\n6\r\n56789a\r\n0\r\n\r\n"), 99, &l);
        assert_int_equal(r.verdict, HTTP_PARSE_REFUSED);
        assert_int_equal(r.m->refusal.limit, HTTP_LIMIT_BODY_BYTES);
        run_done(&r);
}

static void test_body_grows(void **state) {
        size_t     n = 100000;
        AUTO_CHARS text = mem_alloc(n + 100);
        int        head = snprintf(text, 100, CHUNKED "%zx\r\n", n);
        struct run r;

        (void)state;
        for (size_t i = 0; i < n; i++)
                text[head + (int)i] = (char)('a' + i % 26);
        memcpy(text + head + n, "\r\n0\r\n\r\n", 7);
        run(&r, str_range(text, (size_t)head + n + 7), 1000);
        assert_int_equal(r.verdict, HTTP_PARSE_DONE);
        assert_int_equal(r.m->body->len, n);
        assert_memory_equal(r.m->body->bytes, text + head, n);
        run_done(&r);
}

static void test_body_without_memory(void **state) {
        struct run r = { 0 };

        (void)state;
        http_limits_init(&defaults);
        r.m = http_message_new(&defaults, NULL);
        feed_head(&r, STR_LIT(CHUNKED), 99);
        assert_int_equal(r.verdict, HTTP_PARSE_DONE);
        mem_fail_after(1);
        r.verdict = http_message_parse_chunks(r.m, STR_LIT("1\r\na\r\n"), &(size_t){ 0 });
        mem_fail_after(0);
        assert_int_equal(r.verdict, HTTP_PARSE_REFUSED);
        assert_int_equal(r.m->refusal.status, 503);
        assert_int_equal(r.m->refusal.limit, HTTP_LIMIT_MEMORY);
        run_done(&r);
}

static void test_reset(void **state) {
        struct run r;

        (void)state;
        run(&r, STR_LIT("BAD\r\n\r\n"), 99);
        assert_int_equal(r.verdict, HTTP_PARSE_REFUSED);
        http_message_reset(r.m);
        feed_head(&r, STR_LIT("GET /v2 HTTP/1.1\r\nHost: a\r\n\r\n"), 99);
        assert_int_equal(r.verdict, HTTP_PARSE_DONE);
        assert_int_equal(r.m->refusal.status, 0);
        assert_int_equal(r.m->method, HTTP_METHOD_GET);
        run_done(&r);
}

SUITE(http_message) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_head_split_everywhere),
                cmocka_unit_test(test_chunks_split_everywhere),
                cmocka_unit_test(test_changed_chunks),
                cmocka_unit_test(test_equal_json_lengths),
                cmocka_unit_test(test_versions_and_connection),
                cmocka_unit_test(test_refusals),
                cmocka_unit_test(test_field_count),
                cmocka_unit_test(test_head_bytes),
                cmocka_unit_test(test_chunk_count),
                cmocka_unit_test(test_chunk_extension),
                cmocka_unit_test(test_endless_framing),
                cmocka_unit_test(test_body_limit),
                cmocka_unit_test(test_body_grows),
                cmocka_unit_test(test_body_without_memory),
                cmocka_unit_test(test_reset),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
