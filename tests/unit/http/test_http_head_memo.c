/* SPDX-License-Identifier: BSD-3-Clause */
/* Heads that came before are taken as they were read then. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/strbuf.h"
#include "http/http_head_memo.h"

#define PLAIN                                                                                      \
        "POST /v2/models/m/infer HTTP/1.1\r\nHost: h\r\nContent-Length: 17\r\n"                      \
        "Connection: close\r\nX-Mine: 1\r\n\r\n"

struct fixture {
        struct http_limits    limits;
        struct http_head_memo memo;
        struct http_message  *first, *second;
};

static int set_up(void **state) {
        struct fixture *f = mem_zalloc(sizeof(*f));

        http_limits_init(&f->limits);
        f->first = http_message_new(&f->limits, NULL);
        f->second = http_message_new(&f->limits, NULL);
        *state = f;
        return 0;
}

static int tear_down(void **state) {
        struct fixture *f = *state;

        http_message_free(f->first);
        http_message_free(f->second);
        free(f);
        return 0;
}

/* As a connection does: true when it was known. */
static bool take(struct fixture *f, struct http_message *m, struct str bytes) {
        bool is_known;

        http_message_reset(m);
        is_known = http_head_memo_find(&f->memo, m, bytes);
        if (!is_known) {
                assert_int_equal(http_message_parse_head(m, bytes), HTTP_PARSE_DONE);
                http_head_memo_keep(&f->memo, m, bytes);
        }
        return is_known;
}

static bool take_numbered(struct fixture *f, int number) {
        char text[128];

        snprintf(text, sizeof(text), "GET /%d HTTP/1.1\r\nHost: h\r\n\r\n", number);
        return take(f, f->first, str_of(text));
}

static void test_the_same_is_read(void **state) {
        struct fixture      *f = *state;
        struct http_message *a = f->first, *b = f->second;

        assert_false(take(f, a, STR_LIT(PLAIN "body of the first")));
        assert_true(take(f, b, STR_LIT(PLAIN)));
        assert_memory_equal((char *)a + HTTP_MESSAGE_HEAD_AT, (char *)b + HTTP_MESSAGE_HEAD_AT,
                            HTTP_MESSAGE_HEAD_BYTES);
        assert_int_equal(b->content_length, 17);
        assert_int_equal(b->n_fields, 4);
        assert_false(b->keep_alive);
        assert_memory_equal(a->fields, b->fields, 4 * sizeof(b->fields[0]));
}

/* One byte less, one more, one that differs: each is another head. */
static void test_what_is_not_the_same(void **state) {
        static const struct str others[] = {
                STR_LIT("POST /v2/models/m/infer HTTP/1.1\r\nHost: h\r\nContent-Length: 18\r\n"
                        "Connection: close\r\nX-Mine: 1\r\n\r\n"),
                STR_LIT("POST /v2/models/m/infer HTTP/1.1\r\nHost: h\r\nContent-Length: 17\r\n"
                        "Connection: close\r\nX-Mine: 1\r\nY: 2\r\n\r\n"),
                STR_LIT("POST /v2/models/m/infer HTTP/1.1\r\nHost: a\r\n\r\n"),
        };
        struct fixture *f = *state;

        take(f, f->first, STR_LIT(PLAIN));
        assert_false(http_head_memo_find(&f->memo, f->second,
                                         str_range(PLAIN, sizeof(PLAIN) - 2)));
        for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
                assert_false(http_head_memo_find(&f->memo, f->second, others[i]));
        assert_int_equal(f->second->n_fields, 0);
        assert_int_equal(f->second->head_bytes, 0);
}

static void test_the_last_few_are_kept(void **state) {
        struct fixture *f = *state;

        for (int i = 0; i <= HTTP_HEAD_MEMO_HEADS; i++)
                assert_false(take_numbered(f, i));
        for (int i = 1; i <= HTTP_HEAD_MEMO_HEADS; i++)
                assert_true(take_numbered(f, i));
        assert_false(take_numbered(f, 0));
}

static void test_others_are_read_each_time(void **state) {
        struct fixture *f = *state;
        struct strbuf   large, many;

        strbuf_init(&large, 0);
        strbuf_init(&many, 0);
        strbuf_puts(&large, "GET / HTTP/1.1\r\nHost: a\r\nX: ");
        for (int i = 0; i < HTTP_HEAD_MEMO_BYTES; i++)
                strbuf_putc(&large, 'x');
        strbuf_puts(&large, "\r\n\r\n");
        strbuf_puts(&many, "GET / HTTP/1.1\r\nHost: a\r\n");
        for (int i = 0; i <= HTTP_HEAD_MEMO_FIELDS; i++)
                strbuf_puts(&many, "X: x\r\n");
        strbuf_puts(&many, "\r\n");
        for (int i = 0; i < 2; i++) {
                assert_false(take(f, f->first, strbuf_str(&large)));
                assert_false(take(f, f->first, strbuf_str(&many)));
                assert_false(take(f, f->first, STR_LIT("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")));
        }
        strbuf_done(&large);
        strbuf_done(&many);
}

/* The rest of a head whose beginning the parser has. */
static void test_a_head_in_pieces(void **state) {
        struct fixture *f = *state;

        take(f, f->first, STR_LIT(PLAIN));
        assert_int_equal(http_message_parse_head(f->second, str_range(PLAIN, 20)),
                         HTTP_PARSE_MORE);
        assert_false(http_head_memo_find(&f->memo, f->second, STR_LIT(PLAIN)));
        assert_int_equal(http_message_parse_head(f->second, STR_LIT(PLAIN)), HTTP_PARSE_DONE);
        assert_int_equal(f->second->n_fields, 4);
}

/* Nobody sends a head twice: few are looked for, but one that comes again is found in the end. */
static void test_after_many_failures(void **state) {
        struct fixture *f = *state;
        int             n = 0;

        for (int i = 0; i < 1000; i++)
                assert_false(take_numbered(f, i));
        while (!take(f, f->first, STR_LIT(PLAIN)))
                assert_true(++n < 100);
        assert_true(n > 1);
        assert_true(take(f, f->first, STR_LIT(PLAIN)));
        assert_true(take(f, f->first, STR_LIT(PLAIN)));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_the_same_is_read),
                TEST(test_what_is_not_the_same),
                TEST(test_the_last_few_are_kept),
                TEST(test_others_are_read_each_time),
                TEST(test_a_head_in_pieces),
                TEST(test_after_many_failures),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
