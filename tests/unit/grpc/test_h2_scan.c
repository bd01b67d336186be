/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "grpc/h2_scan.h"

#include <string.h>

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define SETTINGS "\0\0\0\4\0\0\0\0\0"
#define HEADERS(id) "\0\0\3\1\4\0\0\0" id "abc"
#define DATA(id) "\0\0\2\0\1\0\0\0" id "xy"
#define RESET(id) "\0\0\4\3\0\0\0\0" id "\0\0\0\10"

struct feed {
        char   bytes[1024];
        size_t n;
        size_t n_strays;
};

static void append(struct feed *f, struct str bytes) {
        assert_true(f->n + bytes.len <= sizeof(f->bytes));
        if (bytes.len > 0)
                memcpy(f->bytes + f->n, bytes.ptr, bytes.len);
        f->n += bytes.len;
}

static void run(struct h2_scan *s, struct str bytes, struct feed *f) {
        while (bytes.len > 0) {
                struct h2_piece p = h2_scan_take(s, bytes);

                f->n_strays += p.is_stray;
                append(f, p.feed);
                bytes = str_skip(bytes, p.n_used);
        }
}

#define CHECK(sent, expected, n_strays)                                                            \
        check(str_range(sent, sizeof(sent) - 1), str_range(expected, sizeof(expected) - 1),        \
              n_strays)

/* However the bytes are divided. */
static void check(struct str sent, struct str expected, size_t n_strays) {
        for (size_t at = 0; at <= sent.len; at++) {
                struct h2_scan s;
                struct feed    f = { .n = 0 };

                h2_scan_init(&s);
                run(&s, str_range(sent.ptr, at), &f);
                run(&s, str_skip(sent, at), &f);
                assert_true(str_equal(str_range(f.bytes, f.n), expected));
                assert_int_equal(f.n_strays, n_strays);
        }
        for (size_t step = 1; step <= 24; step++) {
                struct h2_scan s;
                struct feed    f = { .n = 0 };

                h2_scan_init(&s);
                for (size_t at = 0; at < sent.len; at += step)
                        run(&s, str_range(sent.ptr + at, MIN(step, sent.len - at)), &f);
                assert_true(str_equal(str_range(f.bytes, f.n), expected));
                assert_int_equal(f.n_strays, n_strays);
        }
}

static void test_strays(void **state) {
        (void)state;
        CHECK(PREFACE SETTINGS, PREFACE SETTINGS, 0);
        CHECK(PREFACE SETTINGS RESET("\1"), PREFACE SETTINGS, 1);
        CHECK(PREFACE SETTINGS HEADERS("\1") RESET("\3") DATA("\1") RESET("\5") RESET("\1")
                      HEADERS("\7"),
              PREFACE SETTINGS HEADERS("\1") DATA("\1") RESET("\1") HEADERS("\7"), 2);
}

/* The session knows what to do with these. */
static void test_others(void **state) {
        (void)state;
        CHECK(PREFACE HEADERS("\5") RESET("\3") RESET("\5"),
              PREFACE HEADERS("\5") RESET("\3") RESET("\5"), 0);
        CHECK(PREFACE RESET("\0") RESET("\2") "\0\0\1\3\0\0\0\0\3x",
              PREFACE RESET("\0") RESET("\2") "\0\0\1\3\0\0\0\0\3x", 0);
        CHECK(PREFACE "\0\0\15\0\0\0\0\0\1" RESET("\3"), PREFACE "\0\0\15\0\0\0\0\0\1" RESET("\3"),
              0); /* bytes of a message that look like one */
}

/* A session pauses behind a frame or within its payload. */
static void test_pauses(void **state) {
        static const char sent[] = PREFACE SETTINGS HEADERS("\1") RESET("\3") DATA("\1");
        static const char expected[] = PREFACE SETTINGS HEADERS("\1") DATA("\1");
        static const size_t                             taken[] = { 24, 33, 42, 43, 44, 45 };
        const struct str                                all = str_range(sent, sizeof(sent) - 1);

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(taken); i++) {
                struct feed     f = { .n = 0 };
                struct h2_scan  s, before;
                struct h2_piece p;

                h2_scan_init(&s);
                before = s;
                p = h2_scan_take(&s, all);
                assert_int_equal(p.feed.len, 45);
                h2_scan_take_back(&s, &before, p.feed, taken[i]);
                append(&f, str_range(sent, taken[i]));
                run(&s, str_skip(all, taken[i]), &f);
                assert_true(str_equal(str_range(f.bytes, f.n),
                                      str_range(expected, sizeof(expected) - 1)));
                assert_int_equal(f.n_strays, 1);
        }
}

SUITE(h2_scan) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_strays),
                cmocka_unit_test(test_others),
                cmocka_unit_test(test_pauses),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
