/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "load/http_response.h"

#include <stdlib.h>
#include <string.h>

static const struct row {
        const char *bytes;
        const char *expected; /* "status body" of each response, or what is wrong */
} rows[] = {
        { "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "[200 hello]" },
        { "HTTP/1.1 400 Bad Request\r\ncontent-length:0\r\n\r\n", "[400 ]" },
        { "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1 204 No Content\r\n\r\n"
          "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nb",
          "[200 a][204 ][200 b]" },
        { "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n"
          "0\r\nTrailer: 1\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
          "[200 abc0123456789][200 ]" },
        { "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
          "[200 ok]" },
        { "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", "[200 last]" },
        { "HTTP/1.1 200 OK\r\nInference-Header-Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x",
          "[200 {}x json 2]" },
        { "HTTP/1.1 200 OK\r\n\r\n", "the response has neither Content-Length nor chunks" },
        { "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "the Content-Length is no number" },
        { "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
          "the Content-Length is no number" },
        { "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
          "the response is chunked and has a Content-Length" },
        { "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
          "a chunk is longer than its size" },
        { "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", "a chunk has no size" },
        { "HTTP/2 200\r\n\r\n", "what came is no HTTP/1.1" },
        { "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
          "the response is longer than 1 GiB" },
};

static void print(const struct http_response *r, struct strbuf *out) {
        strbuf_printf(out, "[%d %.*s", r->status, STR_ARG(r->body));
        if (r->is_last)
                strbuf_puts(out, "last");
        if (r->header_length > 0)
                strbuf_printf(out, " json %zu", r->header_length);
        strbuf_putc(out, ']');
}

/* Reads the bytes in pieces of `n_piece`. Each piece is a copy of its own, which is gone afterwards. */
static void read_in_pieces(const char *bytes, size_t n_piece, struct strbuf *out) {
        struct http_response r;
        struct str           left = str_of(bytes);
        bool                 is_bad = false;

        http_response_init(&r);
        while (left.len > 0 && !is_bad) {
                size_t     n = MIN(n_piece, left.len);
                char      *copy = memcpy(malloc(n), left.ptr, n);
                struct str in = str_range(copy, n);

                while (in.len > 0 && !is_bad) {
                        enum http_response_result rc = http_response_read(&r, &in);

                        is_bad = rc == HTTP_RESPONSE_BAD;
                        if (rc == HTTP_RESPONSE_DONE)
                                print(&r, out);
                }
                if (is_bad)
                        strbuf_puts(out, r.wrong);
                free(copy);
                left = str_range(left.ptr + n, left.len - n);
        }
        /* No part of a further response was read. */
        assert_true(is_bad || (r.state == HTTP_RESPONSE_HEAD && r.line.len == 0));
        http_response_done(&r);
}

/* Whatever the pieces in which the bytes come. */
static void test_rows(void **state) {
        static const size_t pieces[] = { 1, 2, 3, 7, 20, 1000 };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                for (size_t k = 0; k < ARRAY_LEN(pieces); k++) {
                        AUTO_STRBUF out = { 0 };

                        strbuf_init(&out, 0);
                        read_in_pieces(rows[i].bytes, pieces[k], &out);
                        if (strcmp(strbuf_cstr(&out), rows[i].expected) != 0)
                                fail_msg("row %zu in pieces of %zu: '%s'", i, pieces[k],
                                         strbuf_cstr(&out));
                }
}

static void test_long_head(void **state) {
        struct http_response      r;
        enum http_response_result rc = HTTP_RESPONSE_MORE;

        (void)state;
        http_response_init(&r);
        for (int i = 0; i < 100 && rc == HTTP_RESPONSE_MORE; i++) {
                char       line[1024];
                struct str in = str_range(line, sizeof(line));

                memset(line, 'x', sizeof(line));
                rc = http_response_read(&r, &in);
        }
        assert_int_equal(rc, HTTP_RESPONSE_BAD);
        assert_string_equal(r.wrong, "the head of the response is longer than 64 KiB");
        http_response_done(&r);
}

SUITE(http_response) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rows),
                cmocka_unit_test(test_long_head),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
