/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/byte_budget.h"
#include "base/clock.h"
#include "base/mem.h"
#include "http/http_conn.h"
#include "http_fixture.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define INFER "POST /v2/models/m/infer HTTP/1.1\r\nHost: a\r\n\r\n"
#define LATER "GET /later HTTP/1.1\r\nHost: a\r\n\r\n"
#define ECHO "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"
#define SOON (clock_now_ns() + 20 * NS_PER_S)

static void test_big_answer_to_a_slow_reader(void **state) {
        struct fixture f;
        AUTO_STRBUF    all;
        int            fd;

        (void)state;
        fixture_init(&f);
        fixture_start(&f);
        strbuf_init(&all, 0);
        fd = client_open(&f);
        /* The second request waits until the first answer is taken. */
        client_say(fd, "GET /big HTTP/1.1\r\nHost: a\r\n\r\n"
                       "POST /v2/models/m/infer HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        seen_wait(&f.seen, &f.seen.n_access, 0);
        client_read_all(fd, &all);
        assert_true(str_starts(strbuf_str(&all), STR_LIT("HTTP/1.1 200 OK\r\n")));
        for (int i = 0; i < 12; i++) {
                const char *part = strstr(all.ptr, "\r\n\r\n") + 4 + (size_t)i * (2 << 20);

                assert_int_equal(part[0], 'a' + i);
                assert_int_equal(part[(2 << 20) - 1], 'a' + i);
        }
        assert_true(str_ends(strbuf_str(&all), STR_LIT("\r\n\r\nm -1 ")));
        close(fd);
        fixture_done(&f);
}

/* More requests than the read buffer holds wait behind a late answer: reading stops, and goes on. */
static void test_many_requests_behind_a_late_answer(void **state) {
        struct fixture f;
        AUTO_STRBUF    text;
        int            fd;

        (void)state;
        fixture_init(&f);
        fixture_start(&f);
        strbuf_init(&text, 0);
        strbuf_puts(&text, "GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
        for (int i = 0; i < 2000; i++)
                strbuf_printf(&text,
                              "POST /echo HTTP/1.1\r\nHost: a\r\n"
                              "Content-Length: 4\r\n\r\n%04d",
                              i);
        fd = client_open(&f);
        client_send(fd, text.ptr, text.len);
        fixture_answer_held(&f);
        client_expect_answer(fd, 200, "late");
        for (int i = 0; i < 2000; i++) {
                AUTO_CHARS body = mem_printf("%04d", i);

                client_expect_answer(fd, 200, body);
        }
        close(fd);
        assert_string_equal(strbuf_cstr(&f.seen.rejected), "");
        fixture_done(&f);
}

static void test_reader_goes_away(void **state) {
        const struct linger reset = { .l_onoff = 1 };
        struct fixture      f;
        char                some[1000];
        int                 fd;

        (void)state;
        fixture_init(&f);
        fixture_start(&f);
        fd = client_open(&f);
        client_say(fd, "GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_true(recv(fd, some, sizeof(some), 0) > 0);
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        close(fd);
        seen_wait(&f.seen, &f.seen.n_access, 1);
        assert_non_null(strstr(f.seen.access.ptr, " aborted\n"));
        fd = client_open(&f); /* the others do not mind */
        client_say(fd, INFER);
        client_expect_answer(fd, 200, "m -1 ");
        close(fd);
        fixture_done(&f);
}

static void test_client_gone_before_the_answer(void **state) {
        struct fixture f;
        int            fd;

        (void)state;
        fixture_init(&f);
        fixture_start(&f);
        fd = client_open(&f);
        client_say(fd, "GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
        fixture_wait_held(&f);
        assert_int_equal(net_server_n_connections(http_server_net(f.server)), 1);
        close(fd);
        seen_wait(&f.seen, &f.seen.n_aborted, 1);
        fixture_answer_held(&f);
        net_server_stop(http_server_net(f.server));
        assert_int_equal(net_server_wait(http_server_net(f.server), SOON), 0);
        assert_int_equal(f.seen.n_aborted, 1);
        assert_int_equal(f.seen.n_sent, 1);
        fixture_done(&f);
}

/* A client that only says that it will send no more still gets its answer. */
static void test_half_closed_client(void **state) {
        struct fixture f;
        int            fd;

        (void)state;
        fixture_init(&f);
        fixture_start(&f);
        fd = client_open(&f);
        client_say(fd, INFER INFER "GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
        shutdown(fd, SHUT_WR);
        client_expect_answer(fd, 200, "m -1 ");
        client_expect_answer(fd, 200, "m -1 ");
        fixture_answer_held(&f);
        client_expect_answer(fd, 200, "late");
        client_expect_end(fd);
        close(fd);
        fixture_done(&f);
}

/* What came behind a request that is being handled is answered as well; a part of a request is not. The handlers learn
 * that the client may have left. */
static void test_half_close_behind_a_pipeline(void **state) {
        static const char *const parts[] = {
                "",
                "GET /health HTTP/1.1\r\nHost: a\r\n",
                "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nhi",
                "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\nhi",
                "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab",
        };
        struct fixture f;

        (void)state;
        fixture_init(&f);
        fixture_start(&f);
        for (unsigned i = 0; i < ARRAY_LEN(parts); i++) {
                int fd = client_open(&f);

                client_say(fd, LATER INFER LATER ECHO);
                client_say(fd, parts[i]);
                shutdown(fd, SHUT_WR);
                seen_wait(&f.seen, &f.seen.n_aborted, 2 * i + 1);
                fixture_answer_held(&f);
                client_expect_answer(fd, 200, "late");
                client_expect_answer(fd, 200, "m -1 ");
                seen_wait(&f.seen, &f.seen.n_aborted, 2 * i + 2);
                fixture_answer_held(&f);
                client_expect_answer(fd, 200, "late");
                client_expect_answer(fd, 200, "hi");
                client_expect_end(fd);
                close(fd);
        }
        assert_int_equal(f.seen.n_aborted, 2 * ARRAY_LEN(parts));
        fixture_done(&f);
}

static void expect_end_after(int fd, const char *sent, const char *want) {
        AUTO_STRBUF all;

        strbuf_init(&all, 0);
        client_say(fd, sent);
        client_read_all(fd, &all);
        if (!str_starts(strbuf_str(&all), str_of(want)) || (*want == '\0' && all.len > 0))
                fail_msg("after \"%s\": \"%s\"", sent, strbuf_cstr(&all));
        close(fd);
}

static void test_idle(void **state) {
        struct fixture f;
        uint64_t       start;

        (void)state;
        fixture_init(&f);
        f.options.limits.idle_time_ns = 100 * NS_PER_MS;
        fixture_start(&f);
        start = clock_now_ns();
        expect_end_after(client_open(&f), "", "");
        assert_true(clock_now_ns() - start >= 100 * NS_PER_MS);
        net_server_stop(http_server_net(f.server));
        assert_int_equal(net_server_wait(http_server_net(f.server), SOON), 0);
        assert_string_equal(strbuf_cstr(&f.seen.rejected), "");
        fixture_done(&f);
}

#define TICK "GET /tick_now HTTP/1.1\r\nHost: a\r\n\r\n"

/* The idle time, and the time for the next head, begin when an answer has ended, however long it took. */
static void test_idle_after_a_long_answer(void **state) {
        struct fixture f;
        int            big_fd, chunks_fd, other;

        (void)state;
        fixture_init(&f);
        f.options.net.n_threads = 1;
        f.options.limits.header_time_ns = 60 * NS_PER_S;
        fixture_start(&f);
        big_fd = client_open(&f);
        chunks_fd = client_open(&f);
        other = client_open(&f);
        client_say(big_fd, "GET /slow_big HTTP/1.1\r\nHost: a\r\n\r\nGET /health");
        client_skip_answer(big_fd);
        client_say(chunks_fd, "GET /slow_chunks HTTP/1.1\r\nHost: a\r\n\r\n");
        fixture_answer_held(&f);
        client_expect(chunks_fd, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
                                 "Transfer-Encoding: chunked\r\n\r\n"
                                 "5\r\nfirst\r\n4\r\nlast\r\n0\r\n\r\n");
        client_say(other, TICK);
        client_expect_answer(other, 200, "");
        client_say(big_fd, " HTTP/1.1\r\nHost: a\r\n\r\n");
        client_expect_answer(big_fd, 404, "{\"error\":\"Not Found\"}");
        client_say(chunks_fd, INFER);
        client_expect_answer(chunks_fd, 200, "m -1 ");
        close(big_fd);
        close(chunks_fd);
        close(other);
        assert_string_equal(strbuf_cstr(&f.seen.rejected), "");
        fixture_done(&f);
}

/* Room was asked for while there was no memory; the bytes come when there is some. They are those that the connection
 * received, not those that another one has left in the memory that they share. */
static void test_room_without_a_read(void **state) {
        struct fixture     f;
        struct byte_budget budget;
        int                fd, other;

        (void)state;
        fixture_init(&f);
        byte_budget_init(&budget, (size_t)16 << 20);
        byte_budget_force(&budget, budget.max - (budget.max >> 5));
        f.options.net.n_threads = 1;
        f.options.net.budget = &budget;
        fixture_start(&f);
        fd = client_open(&f);
        other = client_open(&f);
        client_say(other, "GET /ask_for_room HTTP/1.1\r\nHost: a\r\n\r\n");
        client_expect_answer(other, 200, "");
        byte_budget_give(&budget, budget.max / 2);
        client_say(fd, INFER);
        client_expect_answer(fd, 200, "m -1 ");
        byte_budget_give(&budget, budget.max / 2 - (budget.max >> 5));
        close(fd);
        close(other);
        fixture_done(&f);
        assert_int_equal(byte_budget_used(&budget), 0);
}

/* A connection that was asked for room, and received nothing, does not keep it. */
static void test_idle_without_a_buffer(void **state) {
        struct fixture f;
        int            idle, other;

        (void)state;
        fixture_init(&f);
        f.options.net.n_threads = 1;
        fixture_start(&f);
        idle = client_open(&f);
        other = client_open(&f);
        client_say(other, "GET /ask_for_room HTTP/1.1\r\nHost: a\r\n\r\n");
        client_expect_answer(other, 200, "");
        client_say(other, TICK);
        client_expect_answer(other, 200, "");
        client_say(other, "GET /count_buffers HTTP/1.1\r\nHost: a\r\n\r\n");
        client_expect_answer(other, 200, "0");
        client_say(idle, INFER);
        client_expect_answer(idle, 200, "m -1 ");
        close(idle);
        close(other);
        fixture_done(&f);
}

static void test_too_slow(void **state) {
        struct fixture f;

        (void)state;
        fixture_init(&f);
        f.options.limits.header_time_ns = 100 * NS_PER_MS;
        f.options.limits.body_window_ns = 100 * NS_PER_MS;
        fixture_start(&f);
        expect_end_after(client_open(&f), "GET / HT", "HTTP/1.1 408 Request Timeout\r\n");
        expect_end_after(client_open(&f), INFER "GET / HT", "HTTP/1.1 200 OK\r\n");
        expect_end_after(client_open(&f),
                         "POST /echo HTTP/1.1\r\nHost: a\r\n"
                         "Content-Length: 9\r\n\r\nabc",
                         "HTTP/1.1 408 Request Timeout\r\n");
        expect_end_after(client_open(&f),
                         "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\n\r\nabc",
                         "HTTP/1.1 408 Request Timeout\r\n");
        expect_end_after(client_open(&f),
                         "POST /echo HTTP/1.1\r\nHost: a\r\n"
                         "Transfer-Encoding: chunked\r\n\r\n3\r\nabc",
                         "HTTP/1.1 408 Request Timeout\r\n");
        net_server_stop(http_server_net(f.server));
        assert_int_equal(net_server_wait(http_server_net(f.server), SOON), 0);
        assert_string_equal(strbuf_cstr(&f.seen.rejected),
                            "header_time header_time body_rate body_rate body_rate ");
        fixture_done(&f);
}

/* An idle reader of a large answer is given up; a handler that takes long is not. */
static void test_stalled_reader(void **state) {
        struct fixture f;
        int            fd;

        (void)state;
        fixture_init(&f);
        f.options.limits.idle_time_ns = NS_PER_S; /* in which the client has asked */
        fixture_start(&f);
        fd = client_open(&f);
        client_say(fd, "GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
        seen_wait(&f.seen, &f.seen.n_access, 1); /* nothing is read meanwhile */
        net_server_stop(http_server_net(f.server));
        assert_int_equal(net_server_wait(http_server_net(f.server), SOON), 0);
        assert_string_equal(strbuf_cstr(&f.seen.rejected), "write_stall ");
        close(fd);
        fixture_done(&f);
}

static bool was_rejected(struct fixture *f) {
        MUTEX_GUARD(&f->seen.lock);

        return f->seen.rejected.len > 0;
}

/* One that reads byte by byte is given up, too: it makes progress, but not enough. */
static void test_slow_reader(void **state) {
        struct fixture f;
        char           c;
        int            fd;

        (void)state;
        fixture_init(&f);
        f.options.limits.idle_time_ns = NS_PER_S; /* in which the client has asked */
        f.options.limits.write_window_bytes = (size_t)1 << 30;
        fixture_start(&f);
        /* With a small receive buffer the peer acknowledges every few bytes that are read, so progress shows
         * however rarely this thread runs. */
        fd = seen_connect(net_server_port(http_server_net(f.server)), 4096);
        client_say(fd, "GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
        do
                assert_int_equal(recv(fd, &c, 1, 0), 1);
        while (!was_rejected(&f));
        net_server_stop(http_server_net(f.server));
        assert_int_equal(net_server_wait(http_server_net(f.server), SOON), 0);
        assert_string_equal(strbuf_cstr(&f.seen.rejected), "write_rate ");
        close(fd);
        fixture_done(&f);
}

/* The same when the answer comes in pieces and its end is not yet known. */
static void test_stalled_reader_of_chunks(void **state) {
        struct fixture f;
        int            fd;

        (void)state;
        fixture_init(&f);
        f.options.limits.idle_time_ns = NS_PER_S; /* in which the client has asked */
        fixture_start(&f);
        fd = client_open(&f);
        client_say(fd, "GET /endless HTTP/1.1\r\nHost: a\r\n\r\n");
        seen_wait(&f.seen, &f.seen.n_access, 1); /* nothing is read meanwhile */
        net_server_stop(http_server_net(f.server));
        assert_int_equal(net_server_wait(http_server_net(f.server), SOON), 0);
        assert_string_equal(strbuf_cstr(&f.seen.rejected), "write_stall ");
        close(fd);
        fixture_done(&f);
}

static void test_too_many_connections(void **state) {
        struct fixture f;
        int            fds[2], third;
        char           c;

        (void)state;
        fixture_init(&f);
        f.options.net.limits.connections = 2;
        fixture_start(&f);
        for (int i = 0; i < 2; i++) {
                fds[i] = client_open(&f);
                client_say(fds[i], INFER);
                client_expect_answer(fds[i], 200, "m -1 ");
        }
        third = client_open(&f);
        assert_true(recv(third, &c, 1, 0) <= 0);
        close(third);
        close(fds[0]);
        close(fds[1]);
        net_server_stop(http_server_net(f.server));
        assert_int_equal(net_server_wait(http_server_net(f.server), SOON), 0);
        assert_string_equal(strbuf_cstr(&f.seen.rejected), "connections ");
        fixture_done(&f);
}

/* A client sees its end a moment before the server has counted it. */
static void expect_left(struct fixture *f, unsigned n) {
        uint64_t deadline_ns = SOON;
        size_t   n_left;

        do
                n_left = net_server_wait(http_server_net(f->server),
                                         clock_now_ns() + 50 * NS_PER_MS);
        while (n_left > n && clock_now_ns() < deadline_ns);
        assert_int_equal(n_left, n);
}

static void test_drain(void **state) {
        struct fixture f;
        int            idle, busy, halfway;

        (void)state;
        fixture_init(&f);
        fixture_start(&f);
        idle = client_open(&f);
        busy = client_open(&f);
        halfway = client_open(&f);
        client_say(idle, INFER);
        client_expect_answer(idle, 200, "m -1 ");
        client_say(halfway, INFER);
        client_expect_answer(halfway, 200, "m -1 ");
        client_say(halfway, "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                            "Content-Length: 2\r\n\r\n");
        client_expect(halfway, "HTTP/1.1 100 Continue\r\n\r\n");
        client_say(busy, "GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
        fixture_wait_held(&f);

        net_server_stop(http_server_net(f.server));
        client_expect_end(idle);
        expect_left(&f, 2);
        client_say(halfway, "hi");
        client_expect(halfway, "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"
                               "Connection: close\r\nContent-Length: 2\r\n\r\nhi");
        client_expect_end(halfway);
        expect_left(&f, 1);
        fixture_answer_held(&f);
        client_expect(busy, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
                            "Connection: close\r\nContent-Length: 4\r\n\r\nlate");
        client_expect_end(busy);
        assert_int_equal(net_server_wait(http_server_net(f.server), SOON), 0);
        close(idle);
        close(busy);
        close(halfway);
        fixture_done(&f);
}

#define LAST(type) "HTTP/1.1 200 OK\r\nContent-Type: " type "\r\nConnection: close\r\n"

/* Who asks again before it can know that the server stops is answered, and told. */
static void test_request_on_its_way(void **state) {
        struct fixture f;
        int            fd;

        (void)state;
        fixture_init(&f);
        f.options.limits.leave_ns = 20 * NS_PER_S;
        fixture_start(&f);
        fd = client_open(&f);
        client_say(fd, INFER);
        client_expect_answer(fd, 200, "m -1 ");
        net_server_stop(http_server_net(f.server));
        client_say(fd, INFER);
        client_expect(fd, LAST("application/json") "Content-Length: 5\r\n\r\nm -1 ");
        client_expect_end(fd);
        close(fd);
        fixture_done(&f);
}

static void *stop(void *arg) {
        struct fixture *f = arg;

        net_server_stop(http_server_net(f->server));
        return NULL;
}

/* So is one that has connected and was not accepted yet. */
static void test_request_in_the_backlog(void **state) {
        struct fixture f;
        pthread_t      stopping;
        int            holder, fd;

        (void)state;
        fixture_init(&f);
        f.options.net.n_threads = 1;
        fixture_start(&f);
        holder = client_open(&f);
        client_say(holder, "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
        fixture_wait_loop_held(&f);
        fd = client_open(&f);
        client_say_through(fd, INFER);
        pthread_create(&stopping, NULL, stop, &f);
        fixture_let_loop_go(&f);
        client_expect_answer(holder, 200, "");
        client_expect_answer(fd, 200, "m -1 ");
        client_expect_end(fd);
        pthread_join(stopping, NULL);
        close(holder);
        close(fd);
        fixture_done(&f);
}

/* What comes behind the request of a last answer does not take that answer away. */
static void test_requests_behind_the_last_answer(void **state) {
        static char    more[200000];
        struct fixture f;
        AUTO_STRBUF    all;
        int            fd;

        (void)state;
        fixture_init(&f);
        fixture_start(&f);
        strbuf_init(&all, 0);
        memset(more, 'x', sizeof(more));
        fd = client_open(&f);
        client_say(fd, "GET /later HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        fixture_wait_held(&f);
        client_send(fd, more, sizeof(more));
        fixture_answer_held(&f);
        client_read_all(fd, &all); /* to its end, not to a reset */
        assert_string_equal(strbuf_cstr(&all), LAST("text/plain") "Content-Length: 4\r\n\r\nlate");
        close(fd);
        fixture_done(&f);
}

static size_t n_answered(struct fixture *f) {
        MUTEX_GUARD(&f->seen.lock);

        return f->seen.n_access;
}

/* Nor does the end of the server, while the rest of that answer is on its way. */
static void test_last_answer_of_a_leaving_server(void **state) {
        struct fixture f;
        AUTO_STRBUF    all;
        char           piece[65536];
        ssize_t        n;
        int            fd, other;

        (void)state;
        fixture_init(&f);
        f.options.net.n_threads = 1;
        /* However long the loop stands still. */
        f.options.limits.linger_ns = f.options.limits.leave_ns = 60 * NS_PER_S;
        fixture_start(&f);
        strbuf_init(&all, 0);
        other = client_open(&f);
        fd = client_open(&f);
        client_say(fd, "GET /big HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" INFER);
        while (n_answered(&f) == 0) { /* not all of it is written */
                n = recv(fd, piece, sizeof(piece), 0);
                assert_true(n > 0);
                strbuf_put(&all, piece, (size_t)n);
        }
        client_say(other, "GET /hold_and_leave HTTP/1.1\r\nHost: a\r\n\r\n");
        fixture_wait_loop_held(&f);
        client_say_through(fd, INFER); /* the server has not read it when it leaves */
        fixture_let_loop_go(&f);
        client_expect_answer(other, 200, "");
        client_read_all(fd, &all); /* to its end, not to a reset */
        assert_true(all.len > (size_t)24 << 20);
        close(fd);
        close(other);
        fixture_done(&f);
}

/* A request that was read is answered, whatever the loop does before it looks at it; a connection
 * that is idle then is closed. */
static void expect_answer_behind(const char *what) {
        struct fixture f;
        int            asks, first, holder;
        int           *fds[] = { &asks, &first, &holder };

        fixture_init(&f);
        f.options.net.n_threads = 1;
        fixture_start(&f);
        for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
                *fds[i] = client_open(&f);
                client_say(*fds[i], INFER);
                client_expect_answer(*fds[i], 200, "m -1 ");
        }
        /* What is said while the loop stands still is read in one round, in this order. */
        client_say(holder, "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
        fixture_wait_loop_held(&f);
        client_say_through(first, what);
        client_say_through(asks, INFER);
        fixture_let_loop_go(&f);
        client_expect_answer(first, 200, "");
        client_expect_answer(asks, 200, "m -1 ");
        client_expect_answer(holder, 200, "");
        client_expect_end(holder);
        for (size_t i = 0; i < ARRAY_LEN(fds); i++)
                close(*fds[i]);
        fixture_done(&f);
}

static void test_drain_behind_a_read(void **state) {
        (void)state;
        expect_answer_behind("GET /drain HTTP/1.1\r\nHost: a\r\n\r\n");
}

static void test_tick_behind_a_read(void **state) {
        (void)state;
        expect_answer_behind("GET /tick HTTP/1.1\r\nHost: a\r\n\r\n");
}

/* How many lines of the access log are before the first that has the text. */
static size_t lines_before(struct fixture *f, const char *text) {
        MUTEX_GUARD(&f->seen.lock);
        const char *log = strbuf_cstr(&f->seen.access), *at = strstr(log, text);
        size_t      n = 0;

        assert_non_null(at);
        for (; log < at; log++)
                n += *log == '\n';
        return n;
}

#define PIPELINED 200

/* A pipeline and the lone request of a connection that was opened later are there at the same time: the
 * latter is answered after one share of the former. */
static void test_a_request_behind_a_pipeline(void **state) {
        struct fixture f;
        AUTO_STRBUF    many;
        int            holder, pipeline, lone;

        (void)state;
        fixture_init(&f);
        f.options.net.n_threads = 1;
        fixture_start(&f);
        strbuf_init(&many, 0);
        for (int i = 0; i < PIPELINED; i++)
                strbuf_puts(&many, "GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n");
        holder = client_open(&f);
        client_say(holder, "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
        fixture_wait_loop_held(&f);
        pipeline = client_open(&f);
        client_say_through(pipeline, many.ptr);
        lone = client_open(&f);
        client_say_through(lone, INFER);
        fixture_let_loop_go(&f);
        client_expect_answer(holder, 200, "");
        client_expect_answer(lone, 200, "m -1 ");
        for (int i = 0; i < PIPELINED; i++)
                client_expect_answer(pipeline, 404, "{\"error\":\"Not Found\"}");
        seen_wait(&f.seen, &f.seen.n_access, PIPELINED + 2);
        assert_true(lines_before(&f, "/infer") <= 1 + TURNS_MAX_REQUESTS);
        close(holder);
        close(pipeline);
        close(lone);
        fixture_done(&f);
}

/* The peer half-closes, or closes, while requests of it wait for their turn. */
static void test_end_while_a_pipeline_waits(void **state) {
        struct fixture f;
        AUTO_STRBUF    many;
        int            fd;

        (void)state;
        fixture_init(&f);
        f.options.net.n_threads = 1;
        fixture_start(&f);
        strbuf_init(&many, 0);
        for (int i = 0; i < PIPELINED; i++)
                strbuf_puts(&many, "GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n");
        fd = client_open(&f);
        client_send(fd, many.ptr, many.len);
        shutdown(fd, SHUT_WR);
        for (int i = 0; i < PIPELINED; i++)
                client_expect_answer(fd, 404, "{\"error\":\"Not Found\"}");
        client_expect_end(fd);
        close(fd);
        fd = client_open(&f);
        client_send(fd, many.ptr, many.len);
        close(fd);
        fixture_done(&f);
}

/* free() ends connections that never would, tells their handlers, and waits for the answers. */
static void *answer_when_aborted(void *arg) {
        struct fixture *f = arg;

        seen_wait(&f->seen, &f->seen.n_aborted, 1);
        fixture_answer_held(f);
        return NULL;
}

static void test_free_with_a_request_in_flight(void **state) {
        struct fixture f;
        pthread_t      core;
        int            fd;

        (void)state;
        fixture_init(&f);
        fixture_start(&f);
        fd = client_open(&f);
        client_say(fd, "GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
        fixture_wait_held(&f);
        pthread_create(&core, NULL, answer_when_aborted, &f);
        fixture_done(&f);
        pthread_join(core, NULL);
        assert_int_equal(f.seen.n_aborted, 1);
        close(fd);
}

/* Takes the framing off; false when it is not well-formed. */
static bool unchunk(struct str in, struct strbuf *out) {
        while (in.len > 0) {
                char  *end;
                size_t size = strtoul(in.ptr, &end, 16);
                size_t head = (size_t)(end - in.ptr) + 2;

                if (memcmp(end, "\r\n", 2) != 0 || in.len < head + size + 2)
                        return false;
                strbuf_put(out, in.ptr + head, size);
                in = str_range(in.ptr + head + size + 2, in.len - head - size - 2);
                if (size == 0)
                        return in.len == 0;
        }
        return false;
}

static void check_pieces(struct str body) {
        assert_int_equal(body.len, 5 + 3000 * 4096);
        assert_memory_equal(body.ptr, "first", 5);
        for (size_t i = 0; i < 3000; i++) {
                assert_int_equal(body.ptr[5 + i * 4096], 'a' + i % 26);
                assert_int_equal(body.ptr[5 + i * 4096 + 4095], 'a' + i % 26);
        }
}

static void test_answer_in_chunks(void **state) {
        static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                                   "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
        struct fixture    f;
        AUTO_STRBUF       all;
        AUTO_STRBUF       body;
        int               fd;

        (void)state;
        fixture_init(&f);
        fixture_start(&f);
        strbuf_init(&all, 0);
        strbuf_init(&body, 0);
        fd = client_open(&f);
        client_say(fd, "GET /chunks HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        client_read_all(fd, &all);
        assert_true(str_starts(strbuf_str(&all), str_of(head)));
        assert_true(unchunk(str_range(all.ptr + strlen(head), all.len - strlen(head)), &body));
        check_pieces(strbuf_str(&body));
        close(fd);
        fixture_done(&f);
}

static void test_answer_in_pieces_for_http10(void **state) {
        static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                                   "Connection: close\r\n\r\n";
        struct fixture    f;
        AUTO_STRBUF       all;
        int               fd;

        (void)state;
        fixture_init(&f);
        fixture_start(&f);
        strbuf_init(&all, 0);
        fd = client_open(&f);
        client_say(fd, "GET /chunks HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        client_read_all(fd, &all);
        assert_true(str_starts(strbuf_str(&all), str_of(head)));
        check_pieces(str_range(all.ptr + strlen(head), all.len - strlen(head)));
        close(fd);
        fixture_done(&f);
}

#define FINISHED                                                                                   \
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nConnection: close\r\n"    \
        "Transfer-Encoding: chunked\r\n\r\n3\r\nall\r\n0\r\n\r\n"

/* The client has the answer and its end while the handler still has the call. */
static void test_answer_before_the_handler_ends(void **state) {
        for (int closes = 0; closes < 2; closes++) {
                struct fixture f;
                int            fd;

                (void)state;
                fixture_init(&f);
                fixture_start(&f);
                fd = client_open(&f);
                client_say(fd, "GET /finished HTTP/1.1\r\nHost: a\r\n\r\n");
                client_expect(fd, FINISHED);
                client_expect_end(fd);
                fixture_wait_held(&f);
                if (closes) {
                        close(fd);
                        seen_wait(&f.seen, &f.seen.n_aborted, 1);
                }
                assert_int_equal(f.seen.n_sent, 0);
                fixture_answer_held(&f);
                seen_wait(&f.seen, &f.seen.n_access, 1);
                assert_int_equal(f.seen.n_sent, 1);
                if (!closes)
                        close(fd);
                net_server_stop(http_server_net(f.server));
                assert_int_equal(net_server_wait(http_server_net(f.server), SOON), 0);
                fixture_done(&f);
        }
}

/* A client that took its time, and has all, is not watched any more while the handler goes on. */
static void test_handler_that_outlives_a_long_answer(void **state) {
        struct fixture f;
        AUTO_STRBUF    all;
        int            fd, other;

        (void)state;
        fixture_init(&f);
        f.options.net.n_threads = 1;
        fixture_start(&f);
        strbuf_init(&all, 0);
        other = client_open(&f);
        fd = client_open(&f);
        client_say(fd, "GET /finished_much HTTP/1.1\r\nHost: a\r\n\r\n");
        client_read_all(fd, &all);
        assert_true(str_ends(strbuf_str(&all), STR_LIT("e\r\n0\r\n\r\n")));
        client_say(other, "GET /tick HTTP/1.1\r\nHost: a\r\n\r\n");
        client_expect_answer(other, 200, "");
        fixture_answer_held(&f);
        seen_wait(&f.seen, &f.seen.n_sent, 1);
        close(fd);
        close(other);
        assert_string_equal(strbuf_cstr(&f.seen.rejected), "");
        fixture_done(&f);
        assert_int_equal(f.seen.n_aborted, 0);
}

/* What a gone client has not taken counts as written: nothing waits for it. */
static void test_chunks_for_a_client_that_has_gone(void **state) {
        const struct linger reset = { .l_onoff = 1 };
        struct fixture      f;
        int                 fd;

        (void)state;
        fixture_init(&f);
        fixture_start(&f);
        fd = client_open(&f);
        client_say(fd, "GET /heedless HTTP/1.1\r\nHost: a\r\n\r\n");
        fixture_wait_held(&f);
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        close(fd);
        seen_wait(&f.seen, &f.seen.n_aborted, 1);
        f.n_unwritten = 1;
        fixture_answer_held(&f);
        seen_wait(&f.seen, &f.seen.n_access, 1);
        assert_int_equal(f.n_unwritten, 0);
        fixture_done(&f);
}

static void test_unsent_chunks_are_bounded(void **state) {
        struct fixture f;
        int            fd;

        (void)state;
        fixture_init(&f);
        f.options.limits.unsent_bytes = 100000;
        fixture_start(&f);
        fd = client_open(&f);
        client_say(fd, "GET /chunks HTTP/1.1\r\nHost: a\r\n\r\n");
        seen_wait(&f.seen, &f.seen.n_access, 1); /* nothing is read meanwhile */
        assert_string_equal(strbuf_cstr(&f.seen.rejected), "unsent_bytes ");
        assert_non_null(strstr(f.seen.access.ptr, " aborted\n"));
        close(fd);
        fixture_done(&f);
}

SUITE(http_conn) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_big_answer_to_a_slow_reader),
                cmocka_unit_test(test_many_requests_behind_a_late_answer),
                cmocka_unit_test(test_reader_goes_away),
                cmocka_unit_test(test_client_gone_before_the_answer),
                cmocka_unit_test(test_half_closed_client),
                cmocka_unit_test(test_half_close_behind_a_pipeline),
                cmocka_unit_test(test_idle),
                cmocka_unit_test(test_idle_after_a_long_answer),
                cmocka_unit_test(test_room_without_a_read),
                cmocka_unit_test(test_idle_without_a_buffer),
                cmocka_unit_test(test_too_slow),
                cmocka_unit_test(test_stalled_reader),
                cmocka_unit_test(test_slow_reader),
                cmocka_unit_test(test_stalled_reader_of_chunks),
                cmocka_unit_test(test_too_many_connections),
                cmocka_unit_test(test_drain),
                cmocka_unit_test(test_request_on_its_way),
                cmocka_unit_test(test_request_in_the_backlog),
                cmocka_unit_test(test_requests_behind_the_last_answer),
                cmocka_unit_test(test_last_answer_of_a_leaving_server),
                cmocka_unit_test(test_drain_behind_a_read),
                cmocka_unit_test(test_tick_behind_a_read),
                cmocka_unit_test(test_a_request_behind_a_pipeline),
                cmocka_unit_test(test_end_while_a_pipeline_waits),
                cmocka_unit_test(test_free_with_a_request_in_flight),
                cmocka_unit_test(test_answer_in_chunks),
                cmocka_unit_test(test_answer_in_pieces_for_http10),
                cmocka_unit_test(test_answer_before_the_handler_ends),
                cmocka_unit_test(test_handler_that_outlives_a_long_answer),
                cmocka_unit_test(test_chunks_for_a_client_that_has_gone),
                cmocka_unit_test(test_unsent_chunks_are_bounded),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
