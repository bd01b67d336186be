/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/clock.h"
#include "base/compiler.h"
#include "http/http_limits.h"

#define START (UINT64_C(1000) * NS_PER_S)

struct pace_row {
        uint64_t        at_s; /* after the start */
        uint64_t        moved;
        enum http_limit want;
};

static void check(enum http_phase phase, const struct pace_row *rows, size_t n_rows) {
        struct http_limits     l;
        struct http_rate_watch p;

        http_limits_init(&l);
        http_rate_watch_enter(&p, phase, START);
        for (size_t i = 0; i < n_rows; i++)
                assert_int_equal(http_rate_watch_check(&p, &l, START + rows[i].at_s * NS_PER_S,
                                                       rows[i].moved),
                                 rows[i].want);
}

static void test_idle(void **state) {
        static const struct pace_row rows[] = {
                { 0, 0, HTTP_LIMIT_NONE },
                { 74, 0, HTTP_LIMIT_NONE },
                { 75, 0, HTTP_LIMIT_IDLE_TIME },
        };

        (void)state;
        check(HTTP_PHASE_IDLE, rows, ARRAY_LEN(rows));
}

static void test_head(void **state) {
        static const struct pace_row rows[] = { { 9, 0, HTTP_LIMIT_NONE },
                                                { 10, 30000, HTTP_LIMIT_HEADER_TIME } };

        (void)state;
        check(HTTP_PHASE_HEAD, rows, ARRAY_LEN(rows));
}

/* 1 KiB/s averaged over 10 s: fast bytes of one window are no credit for the next. */
static void test_body(void **state) {
        static const struct pace_row slow[] = { { 9, 0, HTTP_LIMIT_NONE },
                                                { 10, 10239, HTTP_LIMIT_BODY_RATE } };
        static const struct pace_row steady[] = {
                { 5, 100, HTTP_LIMIT_NONE },         { 10, 10240, HTTP_LIMIT_NONE },
                { 19, 10240, HTTP_LIMIT_NONE },      { 20, 20480, HTTP_LIMIT_NONE },
                { 30, 30719, HTTP_LIMIT_BODY_RATE },
        };
        static const struct pace_row stops[] = { { 10, 50000000, HTTP_LIMIT_NONE },
                                                 { 20, 50000000, HTTP_LIMIT_BODY_RATE } };

        (void)state;
        check(HTTP_PHASE_BODY, slow, ARRAY_LEN(slow));
        check(HTTP_PHASE_BODY, steady, ARRAY_LEN(steady));
        check(HTTP_PHASE_BODY, stops, ARRAY_LEN(stops));
}

/* A reader may be slow, 1 KiB/s averaged over 75 s, but neither stand still nor crawl. Where it was
 * when the phase began does not matter, and the count may wrap. */
static void test_write(void **state) {
        static const struct pace_row stops[] = {
                { 0, 5, HTTP_LIMIT_NONE },
                { 75, 76805, HTTP_LIMIT_NONE },
                { 149, 76805, HTTP_LIMIT_NONE },
                { 150, 76805, HTTP_LIMIT_WRITE_STALL },
        };
        static const struct pace_row crawls[] = {
                { 0, 0, HTTP_LIMIT_NONE },
                { 74, 76799, HTTP_LIMIT_NONE },
                { 75, 76799, HTTP_LIMIT_WRITE_RATE },
        };
        static const struct pace_row steady[] = {
                { 0, 1000000, HTTP_LIMIT_NONE },         { 75, 1076800, HTTP_LIMIT_NONE },
                { 76, 1076800, HTTP_LIMIT_NONE },        { 150, 1153600, HTTP_LIMIT_NONE },
                { 225, 1153601, HTTP_LIMIT_WRITE_RATE },
        };
        static const struct pace_row wraps[] = {
                { 0, UINT64_MAX - 9, HTTP_LIMIT_NONE },
                { 75, 76790, HTTP_LIMIT_NONE },
                { 150, 76700, HTTP_LIMIT_WRITE_STALL },
        };

        (void)state;
        check(HTTP_PHASE_WRITE, stops, ARRAY_LEN(stops));
        check(HTTP_PHASE_WRITE, crawls, ARRAY_LEN(crawls));
        check(HTTP_PHASE_WRITE, steady, ARRAY_LEN(steady));
        check(HTTP_PHASE_WRITE, wraps, ARRAY_LEN(wraps));
}

/* Without a rate one byte is enough. */
static void test_write_without_a_rate(void **state) {
        struct http_limits     l;
        struct http_rate_watch p;

        (void)state;
        http_limits_init(&l);
        l.write_window_bytes = 0;
        http_rate_watch_enter(&p, HTTP_PHASE_WRITE, START);
        assert_int_equal(http_rate_watch_check(&p, &l, START, 7), HTTP_LIMIT_NONE);
        assert_int_equal(http_rate_watch_check(&p, &l, START + 75 * NS_PER_S, 8), HTTP_LIMIT_NONE);
        assert_int_equal(http_rate_watch_check(&p, &l, START + 150 * NS_PER_S, 8),
                         HTTP_LIMIT_WRITE_STALL);
}

static void test_handler_has_no_limit(void **state) {
        static const struct pace_row rows[] = { { 1000000, 0, HTTP_LIMIT_NONE } };

        (void)state;
        check(HTTP_PHASE_HANDLER, rows, ARRAY_LEN(rows));
}

/* The loop's clock may be read before the phase began. */
static void test_clock_behind(void **state) {
        struct http_limits     l;
        struct http_rate_watch p;

        (void)state;
        http_limits_init(&l);
        http_rate_watch_enter(&p, HTTP_PHASE_HEAD, START);
        assert_int_equal(http_rate_watch_check(&p, &l, START - NS_PER_S, 0), HTTP_LIMIT_NONE);
}

static void test_defaults_and_names(void **state) {
        struct http_limits l;

        (void)state;
        http_limits_init(&l);
        assert_int_equal(l.header_bytes, 32768);
        assert_int_equal(l.header_fields, 100);
        assert_int_equal(l.input_bytes, 67108864);
        assert_int_equal(l.chunk_extension_bytes, 256);
        assert_string_equal(http_limit_name(HTTP_LIMIT_BODY_BYTES), "body_bytes");
        for (int i = 0; i < N_HTTP_LIMITS; i++)
                assert_non_null(http_limit_name((enum http_limit)i));
}

SUITE(http_limits) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_idle),
                cmocka_unit_test(test_head),
                cmocka_unit_test(test_body),
                cmocka_unit_test(test_write),
                cmocka_unit_test(test_write_without_a_rate),
                cmocka_unit_test(test_handler_has_no_limit),
                cmocka_unit_test(test_clock_behind),
                cmocka_unit_test(test_defaults_and_names),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
