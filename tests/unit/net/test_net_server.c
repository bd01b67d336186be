/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/clock.h"
#include "base/compiler.h"
#include "base/reserve.h"
#include "net/conn.h"
#include "net/net_server.h"
#include "net/seen.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* In place of the C library's: the next calls fail, as when memory is short. The reserve calls it for its blocks. */
static _Atomic unsigned n_failures;

int posix_memalign(void **ret, size_t alignment, size_t size) {
        if (n_failures > 0) {
                n_failures--;
                return ENOMEM;
        }
        *ret = memalign(alignment, size);
        return *ret != NULL ? 0 : ENOMEM;
}

/* A protocol of one byte: the server sends 'k' and then waits for the end of the connection. */
struct peer {
        struct net_shard *shard;
        struct conn      *conn;
        char              bytes[16];
        struct list_node  node; /* in shard->conns */
};

static struct iovec on_room(struct conn *c) {
        struct peer *p = conn_owner(c);

        return (struct iovec){ p->bytes, sizeof(p->bytes) };
}

static void on_read(struct conn *c, size_t n) {
        (void)c;
        (void)n;
}

static void on_end(struct conn *c, bool is_reset) {
        (void)is_reset;
        conn_close(c);
}

static void on_written(struct conn *c, bool is_ok) {
        (void)c;
        (void)is_ok;
}

static void on_tick(struct conn *c, uint64_t now_ns) {
        (void)c;
        (void)now_ns;
}

static void on_closed(struct conn *c) {
        struct peer *p = conn_owner(c);

        list_remove(&p->node);
        net_shard_conn_gone(p->shard);
        free(p);
}

static const struct conn_ops conn_ops = {
        .on_room = on_room,
        .on_read = on_read,
        .on_end = on_end,
        .on_written = on_written,
        .on_tick = on_tick,
        .on_closed = on_closed,
};

static void on_shard(struct net_shard *shard, void *owner) {
        (void)shard;
        (void)owner;
}

static void on_shard_done(struct net_shard *shard) {
        (void)shard;
}

static void on_accept(struct net_shard *shard, int fd) {
        static char  greeting[] = { 'k' };
        struct peer *p = calloc(1, sizeof(*p));
        AUTO_ERROR   err = net_shard_open(shard, fd, &conn_ops, p, &p->conn);

        if (err != NULL) {
                free(p);
                net_shard_conn_gone(shard);
                return;
        }
        p->shard = shard;
        list_append(&shard->conns, &p->node);
        conn_read_start(p->conn);
        assert_int_equal(conn_write(p->conn, &(struct iovec){ greeting, 1 }, 1), CONN_WRITE_DONE);
}

static void close_all(struct net_shard *shard) {
        LIST_FOR_EACH(&shard->conns, node)
                conn_close(LIST_ENTRY(node, struct peer, node)->conn);
}

static const struct net_server_ops server_ops = {
        .shard_bytes = sizeof(struct net_shard),
        .on_shard = on_shard,
        .on_shard_done = on_shard_done,
        .on_accept = on_accept,
        .on_drain = close_all,
        .on_kill = close_all,
};

static struct net_server *start(struct seen *seen, const struct net_limits *limits) {
        const struct net_server_options options = { .name = "test",
                                                    .address = "127.0.0.1",
                                                    .n_threads = 2,
                                                    .limits = *limits,
                                                    .on_rejected = seen_rejected,
                                                    .rejected_owner = seen };
        struct net_server              *s;

        seen_init(seen);
        assert_null(net_server_new(&options, &server_ops, &s));
        net_server_start(s);
        return s;
}

static int open_accepted(struct net_server *s) {
        int  fd = seen_connect(net_server_port(s), 0);
        char c = '\0';

        assert_int_equal(recv(fd, &c, 1, 0), 1);
        assert_int_equal(c, 'k');
        return fd;
}

static void expect_rejected(struct net_server *s) {
        int  fd = seen_connect(net_server_port(s), 0);
        char c;

        assert_true(recv(fd, &c, 1, 0) <= 0);
        close(fd);
}

static void stop(struct net_server *s, struct seen *seen, const char *rejected) {
        net_server_stop(s);
        assert_int_equal(net_server_wait(s, clock_now_ns() + 20 * NS_PER_S), 0);
        net_server_free(s);
        assert_string_equal(strbuf_cstr(&seen->rejected), rejected);
        seen_done(seen);
}

/* Waits until the server has counted the end of all connections but `n`. */
static void expect_left(struct net_server *s, size_t n) {
        uint64_t deadline_ns = clock_now_ns() + 20 * NS_PER_S;

        while (net_server_n_connections(s) > n && clock_now_ns() < deadline_ns)
                net_server_wait(s, clock_now_ns() + NS_PER_MS);
        assert_int_equal(net_server_n_connections(s), n);
}

static void test_default_limits(void **state) {
        struct net_limits l;

        (void)state;
        net_limits_init(&l);
        assert_int_equal(l.connections, 16384);
        assert_int_equal(l.connections_per_address, 0);
        assert_int_equal(l.handshake_time_ns, 10 * NS_PER_S);
}

static void test_connections(void **state) {
        const struct net_limits limits = { .connections = 2 };
        struct seen             seen;
        struct net_server      *s = start(&seen, &limits);
        int                     a = open_accepted(s), b = open_accepted(s);

        (void)state;
        expect_rejected(s);
        assert_int_equal(net_server_n_connections(s), 2);
        close(a);
        expect_left(s, 1);
        a = open_accepted(s); /* the place of the one that ended */
        stop(s, &seen, "connections ");
        close(a);
        close(b);
}

static void test_connections_per_address(void **state) {
        const struct net_limits limits = { .connections = 10, .connections_per_address = 1 };
        struct seen             seen;
        struct net_server      *s = start(&seen, &limits);
        int                     a = open_accepted(s);

        (void)state;
        expect_rejected(s);
        expect_left(s, 1);
        close(a);
        expect_left(s, 0);
        a = open_accepted(s);
        stop(s, &seen, "connections_per_address ");
        close(a);
}

/* The reserve is short when the connection comes, and is full again when its refusal is counted. */
static void test_short_memory(void **state) {
        const struct net_limits limits = { .connections = 10 };
        struct seen             seen;
        struct net_server      *s;
        int                     a;

        (void)state;
        assert_null(reserve_open());
        s = start(&seen, &limits);
        n_failures = 1;
        expect_rejected(s);
        assert_int_equal(n_failures, 0);
        a = open_accepted(s);
        stop(s, &seen, "memory ");
        close(a);
        reserve_close();
}

static void test_free_closes(void **state) {
        const struct net_limits limits = { .connections = 10 };
        struct seen             seen;
        struct net_server      *s = start(&seen, &limits);
        int                     a = open_accepted(s);
        char                    c;

        (void)state;
        net_server_free(s);
        assert_int_equal(recv(a, &c, 1, 0), 0);
        close(a);
        seen_done(&seen);
}

SUITE(net_server) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_default_limits),
                cmocka_unit_test(test_connections),
                cmocka_unit_test(test_connections_per_address),
                cmocka_unit_test(test_short_memory),
                cmocka_unit_test(test_free_closes),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
