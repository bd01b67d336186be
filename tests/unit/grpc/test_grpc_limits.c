/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/clock.h"
#include "base/compiler.h"
#include "grpc/grpc_limits.h"

#define S NS_PER_S

static void test_token_bucket(void **state) {
        struct grpc_token_bucket a = { 0 };

        (void)state;
        for (int i = 0; i < 10; i++)
                assert_true(grpc_token_bucket_take(&a, 10, 2, 5 * S));
        assert_false(grpc_token_bucket_take(&a, 10, 2, 5 * S));
        assert_false(grpc_token_bucket_take(&a, 10, 2, 5 * S + S / 2 - 1));
        assert_true(grpc_token_bucket_take(&a, 10, 2, 5 * S + S / 2));
        assert_false(grpc_token_bucket_take(&a, 10, 2, 5 * S + S / 2));
        for (int i = 0; i < 10; i++) /* never more than at once */
                assert_true(grpc_token_bucket_take(&a, 10, 2, 1000 * S));
        assert_false(grpc_token_bucket_take(&a, 10, 2, 1000 * S));
        grpc_token_bucket_refill(&a);
        assert_true(grpc_token_bucket_take(&a, 10, 2, 1000 * S));
}

static void limits_of(struct grpc_limits *l) {
        grpc_limits_init(l);
        l->min_recv_ping_interval_without_data_ns = 10 * S;
}

static void test_strikes(void **state) {
        struct grpc_limits l;
        struct grpc_pings  p;

        (void)state;
        limits_of(&l);
        grpc_pings_init(&p, 0);
        assert_true(grpc_pings_on_ping(&p, &l, true, 1 * S));  /* the first is free */
        assert_true(grpc_pings_on_ping(&p, &l, true, 11 * S)); /* in time */
        assert_true(grpc_pings_on_ping(&p, &l, true, 20 * S)); /* strike 1 */
        assert_true(grpc_pings_on_ping(&p, &l, true, 21 * S)); /* strike 2 */
        assert_false(grpc_pings_on_ping(&p, &l, true, 22 * S));
        grpc_pings_on_payload_sent(&p);
        assert_true(grpc_pings_on_ping(&p, &l, true, 23 * S));
        /* Without calls: two hours. */
        assert_true(grpc_pings_on_ping(&p, &l, false, 100 * S));
        assert_true(grpc_pings_on_ping(&p, &l, false, 7000 * S));
        assert_false(grpc_pings_on_ping(&p, &l, false, 14000 * S));
        l.keepalive_permit_without_calls = true;
        grpc_pings_on_payload_sent(&p);
        for (uint64_t t = 20000; t < 20100; t += 10)
                assert_true(grpc_pings_on_ping(&p, &l, false, t * S));
        l.max_ping_strikes = 0;
        for (int i = 0; i < 100; i++)
                assert_true(grpc_pings_on_ping(&p, &l, true, 30000 * S));
}

static void test_keepalive(void **state) {
        struct grpc_limits l;
        struct grpc_pings  p;

        (void)state;
        grpc_limits_init(&l);
        l.keepalive_time_ns = 100 * S;
        l.keepalive_timeout_ns = 20 * S;
        grpc_pings_init(&p, 1000 * S);
        assert_int_equal(grpc_pings_check(&p, &l, true, 1099 * S), GRPC_PINGS_QUIET);
        assert_int_equal(grpc_pings_check(&p, &l, false, 1100 * S),
                         GRPC_PINGS_QUIET); /* no calls */
        assert_int_equal(grpc_pings_check(&p, &l, true, 1100 * S), GRPC_PINGS_SEND);
        assert_int_equal(grpc_pings_check(&p, &l, true, 1119 * S), GRPC_PINGS_QUIET);
        grpc_pings_on_read(&p, 1119 * S);
        grpc_pings_on_ack(&p);
        assert_int_equal(grpc_pings_check(&p, &l, true, 1218 * S), GRPC_PINGS_QUIET);
        assert_int_equal(grpc_pings_check(&p, &l, true, 1219 * S), GRPC_PINGS_SEND);
        assert_int_equal(grpc_pings_check(&p, &l, true, 1239 * S), GRPC_PINGS_DEAD);

        /* Two without anything else sent between them; then no more. */
        grpc_pings_on_read(&p, 1239 * S);
        grpc_pings_on_ack(&p);
        assert_int_equal(grpc_pings_check(&p, &l, true, 1400 * S), GRPC_PINGS_QUIET);
        grpc_pings_on_payload_sent(&p);
        assert_int_equal(grpc_pings_check(&p, &l, true, 1400 * S), GRPC_PINGS_SEND);
        l.max_pings_without_data = 0;
        l.keepalive_permit_without_calls = true;
        for (uint64_t t = 1500; t < 3000; t += 100) {
                grpc_pings_on_read(&p, t * S);
                grpc_pings_on_ack(&p);
                assert_int_equal(grpc_pings_check(&p, &l, false, (t + 100) * S), GRPC_PINGS_SEND);
        }
}

static void test_defaults_and_names(void **state) {
        struct grpc_limits l;

        (void)state;
        grpc_limits_init(&l);
        assert_int_equal(l.header_bytes, 32768);
        assert_int_equal(l.header_fields, 100);
        assert_int_equal(l.message_bytes, INT32_MAX);
        assert_int_equal(l.streams, 256);
        assert_int_equal(l.keepalive_time_ns, 7200 * NS_PER_S);
        assert_int_equal(l.max_connection_age_ns, CLOCK_NEVER);
        for (int i = 0; i < N_GRPC_LIMITS; i++)
                assert_non_null(grpc_limit_name((enum grpc_limit)i));
        assert_string_equal(grpc_limit_name(GRPC_LIMIT_RESETS), "resets");
}

SUITE(grpc_limits) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_defaults_and_names),
                cmocka_unit_test(test_token_bucket),
                cmocka_unit_test(test_strikes),
                cmocka_unit_test(test_keepalive),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
