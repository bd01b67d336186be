/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "base/lock.h"
#include "base/mem.h"
#include "net/conn.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/seen.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A server that sends back what it gets. A first letter says something else:
 *   b  sends BIG bytes
 *   m  sends FEW bytes, g GATHERED, in parts of one byte behind empty ones, MANY_PARTS in all
 *   q  ends its side, and tries to send more */
#define BIG ((size_t)16 << 20)
#define MANY_PARTS 3000 /* more than one call of the kernel takes */
#define FEW 1500
#define GATHERED 1000
#define MAX_LOOPS 4

struct server {
        struct loop_group *loops;
        struct listener   *listener;
        char              *big;

        struct mutex lock;
        struct cond  changed;
        size_t       n_opened[MAX_LOOPS];
        size_t       n_open;
        size_t       n_closed;
        size_t       n_ended, n_reset;
        size_t       n_pending, n_pending_ok, n_pending_failed;
        size_t       max_open;
        char         peer[64];
};

struct peer {
        struct server *server;
        struct conn   *conn;
        char           bytes[1000];
        size_t         len;
};

static struct iovec on_room(struct conn *c) {
        struct peer *p = conn_owner(c);

        return (struct iovec){ p->bytes, sizeof(p->bytes) };
}

static void count(struct server *s, size_t *counter) {
        MUTEX_GUARD(&s->lock);

        ++*counter;
        cond_broadcast(&s->changed);
}

static void write_many(struct conn *c, char *bytes, size_t n) {
        struct iovec *parts = mem_zalloc(MANY_PARTS * sizeof(*parts));

        for (size_t i = 0; i < n; i++)
                parts[MANY_PARTS - n + i] = (struct iovec){ bytes + i, 1 };
        assert_int_not_equal(conn_write(c, parts, MANY_PARTS), CONN_WRITE_FAILED);
        free(parts);
}

static void write_too_late(struct conn *c) {
        conn_shutdown(c);
        assert_int_equal(conn_write(c, NULL, 0), CONN_WRITE_FAILED);
        assert_int_equal(conn_write(c, &(struct iovec){ (char[]){ "late" }, 4 }, 1),
                         CONN_WRITE_FAILED);
}

static void write_back(struct conn *c, size_t n) {
        struct peer *p = conn_owner(c);
        bool         is_big = p->bytes[0] == 'b';
        char        *bytes = is_big ? p->server->big : p->bytes;
        size_t       first = n / 2, rest = (is_big ? BIG : n) - first;
        struct iovec parts[3] = { { bytes, first }, { NULL, 0 }, { bytes + first, rest } };

        switch (conn_write(c, parts, ARRAY_LEN(parts))) {
        case CONN_WRITE_DONE: break;
        case CONN_WRITE_PENDING:
                assert_true(conn_is_writing(c));
                assert_true(conn_unwritten_bytes(c) > 0 && conn_unwritten_bytes(c) < BIG);
                conn_read_stop(c);
                count(p->server, &p->server->n_pending);
                break;
        case CONN_WRITE_FAILED: conn_close(c); break;
        }
}

static void on_read(struct conn *c, size_t n) {
        struct peer *p = conn_owner(c);

        switch (p->bytes[0]) {
        case 'm': write_many(c, p->server->big, FEW); break;
        case 'g': write_many(c, p->server->big, GATHERED); break;
        case 'q': write_too_late(c); break;
        default: write_back(c, n); break;
        }
}

static void on_written(struct conn *c, bool is_ok) {
        struct peer *p = conn_owner(c);

        assert_false(conn_is_writing(c));
        count(p->server, is_ok ? &p->server->n_pending_ok : &p->server->n_pending_failed);
        conn_read_start(c);
}

static void on_end(struct conn *c, bool is_reset) {
        struct peer *p = conn_owner(c);

        count(p->server, is_reset ? &p->server->n_reset : &p->server->n_ended);
        conn_close(c);
}

static void on_tick(struct conn *c, uint64_t now_ns) {
        (void)c;
        (void)now_ns;
}

static void on_closed(struct conn *c) {
        struct peer   *p = conn_owner(c);
        struct server *s = p->server;

        mutex_lock(&s->lock);
        s->n_open--;
        mutex_unlock(&s->lock);
        count(s, &s->n_closed);
        free(p);
}

static const struct conn_ops ops = { .on_room = on_room,
                                     .on_read = on_read,
                                     .on_end = on_end,
                                     .on_written = on_written,
                                     .on_tick = on_tick,
                                     .on_closed = on_closed };

static void on_accept(void *owner, struct loop *l, int fd) {
        struct server *s = owner;
        struct peer   *p = mem_zalloc(sizeof(*p));

        assert_true(loop_is_current(l));
        p->server = s;
        assert_null(conn_open(l, fd, &ops, p, &p->conn));
        strncpy(s->peer, conn_peer(p->conn), sizeof(s->peer) - 1);
        conn_read_start(p->conn);
        count(s, &s->n_opened[loop_index(l)]);
}

static bool can_accept(void *owner) {
        struct server *s = owner;
        MUTEX_GUARD(&s->lock);

        if (s->n_open == s->max_open)
                return false;
        s->n_open++;
        return true;
}

static void server_start(struct server *s, size_t n_loops, const char *address) {
        struct listener_options o = {
                .address = address, .on_accept = on_accept, .can_accept = can_accept, .owner = s
        };

        *s = (struct server){ .max_open = 1000 };
        s->big = mem_alloc(BIG);
        for (size_t i = 0; i < BIG; i++)
                s->big[i] = (char)(i % 251);
        mutex_init(&s->lock, LOCK_LEAF);
        cond_init(&s->changed);
        assert_null(loop_group_new("test", n_loops, &s->loops));
        o.loops = s->loops;
        assert_null(listener_open(&o, &s->listener));
        assert_int_not_equal(listener_port(s->listener), 0);
        listener_start(s->listener);
}

static void wait_for(struct server *s, const size_t *counter, size_t n) {
        MUTEX_GUARD(&s->lock);

        while (*counter < n)
                cond_wait(&s->changed, &s->lock);
}

/* All clients are closed by now. */
static void server_stop(struct server *s, size_t n_conns) {
        listener_close(s->listener);
        wait_for(s, &s->n_closed, n_conns);
        loop_group_free(s->loops);
        cond_done(&s->changed);
        mutex_done(&s->lock);
        free(s->big);
}

static void assert_received(int fd, const char *want, size_t len) {
        char  *got = mem_alloc(len);
        size_t n = 0;

        while (n < len) {
                ssize_t rc = recv(fd, got + n, len - n, 0);

                assert_true(rc > 0);
                n += (size_t)rc;
        }
        assert_memory_equal(got, want, len);
        free(got);
}

static void test_echo_and_end(void **state) {
        struct server s;
        int           fd;

        (void)state;
        server_start(&s, 1, "127.0.0.1");
        fd = seen_connect(listener_port(s.listener), 0);
        for (int i = 0; i < 3; i++) {
                assert_int_equal(send(fd, "hello", 5, 0), 5);
                assert_received(fd, "hello", 5);
        }
        wait_for(&s, &s.n_opened[0], 1);
        assert_memory_equal(s.peer, "127.0.0.1:", 10);
        close(fd);
        server_stop(&s, 1);
        assert_int_equal(s.n_ended, 1);
        assert_int_equal(s.n_reset, 0);
}

static void test_write_larger_than_the_socket(void **state) {
        struct server s;
        int           fd;

        (void)state;
        server_start(&s, 1, "localhost");
        fd = seen_connect(listener_port(s.listener), 0);
        assert_int_equal(send(fd, "b", 1, 0), 1);
        wait_for(&s, &s.n_pending, 1); /* a reader may be as fast as the writer */
        assert_received(fd, s.big, BIG);
        wait_for(&s, &s.n_pending_ok, 1);
        assert_int_equal(send(fd, "again", 5, 0), 5);
        assert_received(fd, "again", 5);
        close(fd);
        server_stop(&s, 1);
}

static void test_more_parts_than_the_kernel_takes(void **state) {
        struct server s;
        int           fd;

        (void)state;
        server_start(&s, 1, "127.0.0.1");
        fd = seen_connect(listener_port(s.listener), 0);
        assert_int_equal(send(fd, "m", 1, 0), 1);
        assert_received(fd, s.big, FEW);
        assert_int_equal(send(fd, "g", 1, 0), 1);
        assert_received(fd, s.big, GATHERED);
        close(fd);
        server_stop(&s, 1);
        assert_int_equal(s.n_ended, 1);
}

static void test_nothing_behind_the_end(void **state) {
        struct server s;
        char          c;
        int           fd;

        (void)state;
        server_start(&s, 1, "127.0.0.1");
        fd = seen_connect(listener_port(s.listener), 0);
        assert_int_equal(send(fd, "q", 1, 0), 1);
        assert_int_equal(recv(fd, &c, 1, 0), 0);
        close(fd);
        server_stop(&s, 1);
        assert_int_equal(s.n_ended, 1);
}

static void test_reset_while_writing(void **state) {
        struct server       s;
        const struct linger reset = { .l_onoff = 1 };
        int                 fd;

        (void)state;
        server_start(&s, 1, "127.0.0.1");
        fd = seen_connect(listener_port(s.listener), 0);
        assert_int_equal(send(fd, "b", 1, 0), 1);
        assert_received(fd, s.big, 1000); /* so that the write has begun */
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        close(fd);
        wait_for(&s, &s.n_pending_failed, 1);
        server_stop(&s, 1);
        assert_int_equal(s.n_reset + s.n_ended, 1);
}

/* Twelve connections over three loops: four each. */
static void test_dealt_to_the_fewest(void **state) {
        struct server s;
        int           fds[12];

        (void)state;
        server_start(&s, 3, "127.0.0.1");
        for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
                fds[i] = seen_connect(listener_port(s.listener), 0);
                assert_int_equal(send(fds[i], "x", 1, 0), 1);
                assert_received(fds[i], "x", 1);
        }
        for (size_t i = 0; i < 3; i++) {
                wait_for(&s, &s.n_opened[i], 4);
                assert_int_equal(s.n_opened[i], 4);
                assert_int_equal(loop_n_conns(loop_group_get(s.loops, i)), 4);
        }
        for (size_t i = 0; i < ARRAY_LEN(fds); i++)
                close(fds[i]);
        server_stop(&s, 12);
}

static void test_refused_connection(void **state) {
        struct server s;
        int           first, second;
        char          c;

        (void)state;
        server_start(&s, 1, "127.0.0.1");
        mutex_lock(&s.lock);
        s.max_open = 1;
        mutex_unlock(&s.lock);
        first = seen_connect(listener_port(s.listener), 0);
        assert_int_equal(send(first, "x", 1, 0), 1);
        assert_received(first, "x", 1);
        second = seen_connect(listener_port(s.listener), 0);
        assert_true(recv(second, &c, 1, 0) <= 0);
        close(first);
        close(second);
        server_stop(&s, 1);
}

static void test_port_in_use_and_bad_address(void **state) {
        struct server           s;
        struct listener        *second;
        struct listener_options o = { .address = "127.0.0.1" };
        struct error           *err;

        (void)state;
        server_start(&s, 1, "127.0.0.1");
        o.loops = s.loops;
        o.port = listener_port(s.listener);
        err = listener_open(&o, &second);
        assert_non_null(err);
        assert_int_equal(err->code, ERR_UNAVAILABLE);
        assert_non_null(strstr(err->message, "127.0.0.1:"));
        error_free(err);
        o.address = "256.0.0.1.invalid";
        err = listener_open(&o, &second);
        assert_non_null(err);
        assert_int_equal(err->code, ERR_INVALID_ARG);
        error_free(err);
        server_stop(&s, 0);
}

SUITE(conn) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_echo_and_end),
                cmocka_unit_test(test_write_larger_than_the_socket),
                cmocka_unit_test(test_more_parts_than_the_kernel_takes),
                cmocka_unit_test(test_nothing_behind_the_end),
                cmocka_unit_test(test_reset_while_writing),
                cmocka_unit_test(test_dealt_to_the_fewest),
                cmocka_unit_test(test_refused_connection),
                cmocka_unit_test(test_port_in_use_and_bad_address),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
