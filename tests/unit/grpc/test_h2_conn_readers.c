/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections of clients that do not read their answers, or read them too slowly. */
#include "suite.h"

#include "base/clock.h"
#include "grpc_fixture.h"

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

SUITE(h2_conn_readers) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_write_stall),
                cmocka_unit_test(test_write_rate),
                cmocka_unit_test(test_slow_reader),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
