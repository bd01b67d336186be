/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections of clients that do not read their answers, or read them too slowly. */
#include "suite.h"

#include "base/clock.h"
#include "grpc_fixture.h"
#include "net/net_server.h"

#include <sys/socket.h>

static void test_write_stall(void **state) {
        static struct frame got;
        struct fixture      f;
        struct client       c;

        (void)state;
        fixture_init(&f);
        f.options.limits.write_stall_ns = NS_PER_MS;
        f.options.limits.write_window_bytes = 0; /* without a rate */
        fixture_start(&f);
        client_open(&c, &f, true);
        client_call(&c, 1, "/t.T/Big", NULL); /* 12 MiB against a window of 64 KiB */
        client_message(&c, 1, END_STREAM, "", 0);
        client_flush(&c);
        do
                assert_true(client_read(&c, &got));
        while (got.type != FRAME_RST_STREAM);
        assert_memory_equal(got.payload, "\0\0\0\x8", 4);
        assert_true(fixture_was_rejected(&f, "write_stall"));
        client_close(&c);
        fixture_done(&f);
}

/* The client opens its window byte by byte: that is progress, but not enough. */
static void test_write_rate(void **state) {
        static struct frame got;
        struct fixture      f;
        struct client       c;

        (void)state;
        fixture_init(&f);
        f.options.limits.write_stall_ns = NS_PER_S;
        f.options.limits.write_window_bytes = (size_t)1 << 30;
        fixture_start(&f);
        client_open(&c, &f, true);
        client_call(&c, 1, "/t.T/Big", NULL);
        client_message(&c, 1, END_STREAM, "", 0);
        client_flush(&c);
        do {
                assert_true(client_read(&c, &got));
                client_window(&c, 1, 1);
                client_window(&c, 0, 1);
                client_flush(&c);
        } while (got.type != FRAME_RST_STREAM);
        assert_memory_equal(got.payload, "\0\0\0\x8", 4);
        assert_true(fixture_was_rejected(&f, "write_rate"));
        client_close(&c);
        fixture_done(&f);
}

/* The client opens its window, and then reads its socket byte by byte. */
static void test_slow_reader(void **state) {
        struct fixture f;
        struct client  c;
        char           byte;

        (void)state;
        fixture_init(&f);
        f.options.limits.write_stall_ns = NS_PER_S;
        f.options.limits.write_window_bytes = (size_t)1 << 30;
        fixture_start(&f);
        client_open(&c, &f, true);
        client_window(&c, 0, 1 << 30);
        client_call(&c, 1, "/t.T/Big", NULL);
        client_window(&c, 1, 1 << 30);
        client_message(&c, 1, END_STREAM, "", 0);
        client_flush(&c);
        do
                assert_int_equal(recv(c.fd, &byte, 1, 0), 1);
        while (!fixture_was_rejected(&f, "write_rate"));
        client_close(&c);
        fixture_done(&f);
}

/* The client reads nothing, and is refused for something else: for header fields that never end. It is given up
 * although it does not take the refusal. */
static void test_stall_of_a_refused_connection(void **state) {
        struct fixture f;
        struct client  c;

        (void)state;
        fixture_init(&f);
        f.options.limits.header_time_ns = 4 * NS_PER_S; /* in which the client has asked */
        f.options.limits.write_stall_ns = 5 * NS_PER_S; /* more: the refusal comes first */
        fixture_start(&f);
        client_open(&c, &f, true);
        client_window(&c, 0, 1 << 30);
        client_call(&c, 1, "/t.T/Big", NULL);
        client_window(&c, 1, 1 << 30);
        client_message(&c, 1, END_STREAM, "", 0);
        client_frame(&c, FRAME_HEADERS, 0, 3, "", 0);
        client_flush(&c);
        fixture_wait_rejected(&f, "header_time");
        net_server_stop(grpc_server_net(f.server));
        assert_int_equal(net_server_wait(grpc_server_net(f.server), clock_now_ns() + 20 * NS_PER_S),
                         0);
        assert_true(fixture_was_rejected(&f, "write_stall"));
        client_close(&c);
        fixture_done(&f);
}

SUITE(h2_conn_readers) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_write_stall),
                cmocka_unit_test(test_write_rate),
                cmocka_unit_test(test_slow_reader),
                cmocka_unit_test(test_stall_of_a_refused_connection),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
