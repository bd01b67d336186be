/* SPDX-License-Identifier: BSD-3-Clause */
/* Heads read in one pass: what is plain, what is left to llhttp, and that both agree. */
#include "suite.h"

#include "base/mem.h"
#include "http/http_head.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct http_limits limits;

static struct http_message *new_message(void) {
        http_limits_init(&limits);
        return http_message_new(&limits, NULL);
}

/* Read from memory of exactly that size, for the sanitizer. */
static bool read_plain(struct http_message *m, struct str text) {
        char *copy = mem_alloc(text.len > 0 ? text.len : 1);
        bool  is_plain;

        memcpy(copy, text.ptr, text.len);
        is_plain = http_head_read_plain(m, str_range(copy, text.len));
        free(copy);
        return is_plain;
}

#define START "POST /v2/models/m/infer HTTP/1.1\r\n"
#define PLAIN START "Host: a\r\n" /* a blank line would end it */

static void test_plain(void **state) {
        static const char    text[] = START "Host: 127.0.0.1:8000\r\ncontent-LENGTH: 0173\r\n"
                                            "X-Mine:two words\r\n"
                                            "Inference-Header-Content-Length: 169\r\n"
                                            "Accept-Encoding: gzip\r\naccept-encoding: deflate\r\n"
                                            "Connection: Keep-Alive\r\n\r\nbody";
        struct http_message *m = new_message();
        struct http_header   h;

        (void)state;
        assert_true(read_plain(m, str_of(text)));
        assert_int_equal(m->method, HTTP_METHOD_POST);
        assert_string_equal(m->method_text, "POST");
        assert_true(str_is(http_message_target(m, text), "/v2/models/m/infer"));
        assert_int_equal(m->head_bytes, sizeof(text) - sizeof("body"));
        assert_int_equal(m->content_length, 173);
        assert_true(m->keep_alive);
        assert_false(m->is_chunked || m->is_http10 || m->expects_continue);
        assert_int_equal(m->n_fields, 7);
        h = http_message_header(m, text, 2);
        assert_true(str_is(h.name, "X-Mine") && str_is(h.value, "two words"));
        assert_int_equal(m->known[HTTP_NAME_HOST], 1);
        assert_int_equal(m->known[HTTP_NAME_CONTENT_LENGTH], 2);
        assert_int_equal(m->known[HTTP_NAME_INFER_JSON_LENGTH], 4);
        assert_int_equal(m->known[HTTP_NAME_ACCEPT_ENCODING], 5); /* the first */
        assert_int_equal(m->known[HTTP_NAME_CONTENT_ENCODING], 0);
        http_message_free(m);
}

static void test_close(void **state) {
        struct http_message *m = new_message();

        (void)state;
        assert_true(
                read_plain(m, STR_LIT("GET /v2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")));
        assert_int_equal(m->method, HTTP_METHOD_GET);
        assert_false(m->keep_alive);
        http_message_free(m);
}

/* Nothing may be left behind for llhttp to stumble on. */
static void assert_untouched(const struct http_message *m) {
        static const uint32_t none[N_HTTP_NAMES];

        assert_int_equal(m->n_fields + m->head_bytes + m->target_at + m->target_len, 0);
        assert_int_equal(m->content_length, 0);
        assert_memory_equal(m->known, none, sizeof(none));
        assert_int_equal(m->refusal.status, 0);
}

static void test_not_plain(void **state) {
        static const char *const rows[] = {
                "",
                "POST",
                "POST /",
                START,
                START "Host: a\r\n",
                START "Host: a\r\n\r",
                "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n",
                "post / HTTP/1.1\r\nHost: a\r\n\r\n",
                "POST  / HTTP/1.1\r\nHost: a\r\n\r\n",
                "POST http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
                "POST * HTTP/1.1\r\nHost: a\r\n\r\n",
                "POST / HTTP/1.0\r\nHost: a\r\n\r\n",
                "POST / HTTP/1.1 \r\nHost: a\r\n\r\n",
                "POST / HTTP/1.1\nHost: a\r\n\r\n",
                "\r\nPOST / HTTP/1.1\r\nHost: a\r\n\r\n",
                START " Host: a\r\n\r\n",
                START "Host : a\r\n\r\n",
                PLAIN ": a\r\n\r\n",
                START "Host\r\n\r\n",
                START "Host: a\n\r\n",
                START "Host: a\r\r\n\r\n",
                PLAIN "X:\r\n\r\n",
                PLAIN "X:  a\r\n\r\n",
                PLAIN "X: a \r\n\r\n",
                PLAIN "X:\ta\r\n\r\n",
                PLAIN "X: a\tb\r\n\r\n",
                PLAIN "X: a\r\n b\r\n\r\n",
                PLAIN "X: \xc3\xa9\r\n\r\n",
                PLAIN "X: \x7f\r\n\r\n",
                PLAIN "X!: a\r\n\r\n",
                PLAIN "Host: a\r\n\r\n",
                PLAIN "Content-Length: 1\r\nContent-Length: 1\r\n\r\n",
                PLAIN "Content-Length: +1\r\n\r\n",
                PLAIN "Content-Length: 1 1\r\n\r\n",
                PLAIN "Content-Length: 1234567890123456789\r\n\r\n",
                PLAIN "Transfer-Encoding: chunked\r\n\r\n",
                PLAIN "Connection: upgrade\r\n\r\n",
                PLAIN "Connection: close\r\nConnection: close\r\n\r\n",
                PLAIN "Proxy-Connection: close\r\n\r\n",
                PLAIN "Upgrade: h2c\r\n\r\n",
                PLAIN "Expect: 100-continue\r\n\r\n",
                START "\r\n",
                START "X: a\r\n\r\n",
                PLAIN "Inference-Header-Content-Length: 1\r\n"
                      "Inference-Header-Content-Length: 1\r\n\r\n",
        };
        struct http_message *m = new_message();

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                if (read_plain(m, str_of(rows[i])))
                        fail_msg("taken: %s", rows[i]);
                assert_untouched(m);
        }
        http_message_free(m);
}

static void test_limits(void **state) {
        static const char    text[] = START "Host: a\r\nX: b\r\n\r\n";
        struct http_message *m = new_message();

        (void)state;
        limits.header_fields = 2;
        limits.header_bytes = sizeof(text) - 1;
        assert_true(read_plain(m, str_of(text)));
        http_message_reset(m);
        limits.header_bytes--;
        assert_false(read_plain(m, str_of(text)));
        assert_untouched(m);
        limits.header_bytes++;
        limits.header_fields--;
        assert_false(read_plain(m, str_of(text)));
        assert_untouched(m);
        http_message_free(m);
}

static void test_names(void **state) {
        static const struct {
                const char    *text;
                enum http_name name;
        } rows[] = {
                { "accept-encoding", HTTP_NAME_ACCEPT_ENCODING },
                { "connection", HTTP_NAME_CONNECTION },
                { "content-encoding", HTTP_NAME_CONTENT_ENCODING },
                { "content-length", HTTP_NAME_CONTENT_LENGTH },
                { "content-type", HTTP_NAME_CONTENT_TYPE },
                { "expect", HTTP_NAME_EXPECT },
                { "host", HTTP_NAME_HOST },
                { "inference-header-content-length", HTTP_NAME_INFER_JSON_LENGTH },
                { "proxy-connection", HTTP_NAME_PROXY_CONNECTION },
                { "transfer-encoding", HTTP_NAME_TRANSFER_ENCODING },
                { "upgrade", HTTP_NAME_UPGRADE },
        };

        (void)state;
        assert_int_equal(ARRAY_LEN(rows), N_HTTP_NAMES - 1);
        assert_int_equal(http_head_find_name(str_range(NULL, 0)), HTTP_NAME_OTHER);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                size_t len = strlen(rows[i].text);
                char  *text = mem_alloc(len); /* no NUL behind it, for the sanitizer */

                /* Any byte but the letter in its other case makes it another name. */
                for (size_t at = 0; at < len; at++) {
                        memcpy(text, rows[i].text, len);
                        for (int c = 0; c < 256; c++) {
                                bool is_same;

                                text[at] = (char)c;
                                is_same = c < 128 && tolower(c) == rows[i].text[at];
                                assert_int_equal(http_head_find_name(str_range(text, len)),
                                                 is_same ? rows[i].name : HTTP_NAME_OTHER);
                        }
                }
                assert_int_equal(http_head_find_name(str_range(rows[i].text, len - 1)),
                                 HTTP_NAME_OTHER);
                free(text);
        }
}

/* The same head whole and in two pieces, which llhttp reads. */
static void assert_agree(struct http_message *whole, struct http_message *pieces, struct str text) {
        enum http_parse verdict;

        http_message_reset(whole);
        if (!http_head_read_plain(whole, text))
                return;
        http_message_reset(pieces);
        verdict = http_message_parse_head(pieces, str_range(text.ptr, 1));
        assert_int_equal(verdict, HTTP_PARSE_MORE);
        verdict = http_message_parse_head(pieces, text);
        if (verdict != HTTP_PARSE_DONE)
                fail_msg("refused by llhttp (%s): %.*s", pieces->refusal.text, STR_ARG(text));
        assert_int_equal(whole->method, pieces->method);
        assert_string_equal(whole->method_text, pieces->method_text);
        assert_int_equal(whole->target_at, pieces->target_at);
        assert_int_equal(whole->target_len, pieces->target_len);
        assert_int_equal(whole->head_bytes, pieces->head_bytes);
        assert_int_equal(whole->content_length, pieces->content_length);
        assert_int_equal(whole->keep_alive, pieces->keep_alive);
        assert_false(pieces->is_chunked || pieces->is_http10 || pieces->expects_continue);
        assert_memory_equal(whole->known, pieces->known, sizeof(whole->known));
        assert_int_equal(whole->n_fields, pieces->n_fields);
        for (size_t i = 0; i < whole->n_fields; i++) {
                struct http_header a = http_message_header(whole, text.ptr, i);
                struct http_header b = http_message_header(pieces, text.ptr, i);

                assert_true(a.name.ptr == b.name.ptr && a.name.len == b.name.len);
                assert_true(a.value.ptr == b.value.ptr && a.value.len == b.value.len);
        }
}

/* Every byte in every place of a plain head, instead of what was there and before it. */
static void test_agrees_with_llhttp(void **state) {
        static const char    text[] = "POST /v2/m?a=b HTTP/1.1\r\nHost: a:1\r\nX_y-1: c d\r\n"
                                      "Content-Length: 12\r\nConnection: close\r\n"
                                      "Accept-Encoding: gzip\r\n\r\n";
        const size_t         len = sizeof(text) - 1;
        struct http_message *whole = new_message(), *pieces = new_message();
        char                 changed[sizeof(text)];

        (void)state;
        for (size_t at = 0; at < len; at++) {
                for (int c = 0; c < 256; c++) {
                        memcpy(changed, text, len);
                        changed[at] = (char)c;
                        assert_agree(whole, pieces, str_range(changed, len));
                        memcpy(changed + at + 1, text + at, len - at);
                        assert_agree(whole, pieces, str_range(changed, len + 1));
                }
        }
        http_message_free(whole);
        http_message_free(pieces);
}

SUITE(http_head) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_plain),     cmocka_unit_test(test_close),
                cmocka_unit_test(test_not_plain), cmocka_unit_test(test_limits),
                cmocka_unit_test(test_names),     cmocka_unit_test(test_agrees_with_llhttp),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
