/* SPDX-License-Identifier: BSD-3-Clause */
#include "http_fixture.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "core_api/model_version.h"
#include "http/http_conn.h"
#include "net/conn_private.h"
#include "net/uv_types.h"

#include <linux/net_tstamp.h>
#include <linux/sockios.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static struct fixture *current; /* one test at a time */

static void echo(struct http_call *call) {
        const struct http_part  part = { call->body.ptr, call->body.len, call->body_buf };
        const struct http_reply reply = { .status = 200,
                                          .content_type = "application/octet-stream",
                                          .parts = &part,
                                          .n_parts = 1,
                                          .is_compressible = true };
        bool                    is_more;
        struct error           *err = http_call_decode_body(call, SIZE_MAX, &is_more);

        if (err != NULL) {
                http_call_reply_encoding_error(call, err, HTTP_JSON);
                return;
        }
        if (call->body_buf != part.buf) { /* decoded: the plain bytes go back */
                struct http_part  plain = { call->body.ptr, call->body.len, call->body_buf };
                struct http_reply other = reply;

                other.parts = &plain;
                buf_ref(call->body_buf);
                http_call_reply(call, &other);
                return;
        }
        if (call->body_buf != NULL)
                buf_ref(call->body_buf);
        http_call_reply(call, &reply);
}

static void tell(struct http_call *call) {
        int64_t       version;
        struct error *err = model_version_read(call->version, &version);

        if (err != NULL) {
                http_call_reply_error(call, err, HTTP_JSON);
                return;
        }
        http_call_reply_text(call, HTTP_JSON,
                             str_of(arena_printf(&call->arena, "%s %lld %.*s",
                                                 http_call_model(call), (long long)version,
                                                 STR_ARG(http_call_header(call, "x-tell")))));
}

static void on_abort(struct http_call *call) {
        (void)call;
        seen_count(&current->seen, &current->seen.n_aborted);
}

static void on_sent(struct http_call *call) {
        (void)call;
        seen_count(&current->seen, &current->seen.n_sent);
}

static void later(struct http_call *call) {
        MUTEX_GUARD(&current->seen.lock);

        call->on_abort = on_abort;
        call->on_sent = on_sent;
        current->held = call;
        current->seen.n_held++;
        cond_broadcast(&current->seen.changed);
}

/* The client has its whole answer before the handler has ended. */
static void finished(struct http_call *call) {
        const struct http_part  all = { "all", 3, NULL };
        const struct http_reply reply = {
                .status = 503, .parts = &all, .n_parts = 1, .close = true
        };

        http_call_begin_chunks(call, &reply);
        http_call_finish_chunks(call);
        later(call);
}

static void answer_late(struct http_call *call) {
        const struct http_part last = { "last", 4, NULL };

        if (call->conn->out.is_held) {
                http_call_end_chunks(call);
        } else if (call->conn->out.in_chunks) {
                http_call_send_chunk(call, &last);
                current->n_unwritten = http_call_chunks_sent(call) - http_call_chunks_written(call);
                http_call_end_chunks(call);
        } else {
                http_call_reply_text(call, NULL, STR_LIT("late"));
        }
}

#define BIG_BYTES ((size_t)24 << 20)

/* Twelve parts of 2 MiB each: more than a socket takes, and more than are held inline. */
static void big(struct http_call *call) {
        struct http_part  parts[12];
        struct http_reply reply = { .status = 200, .parts = parts, .n_parts = ARRAY_LEN(parts) };

        for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
                size_t      len = BIG_BYTES / ARRAY_LEN(parts);
                struct buf *b = buf_new(http_call_buf_pool(call), len);

                memset(b->bytes, 'a' + (int)i, len);
                parts[i] = (struct http_part){ b->bytes, len, b };
        }
        http_call_reply(call, &reply);
}

/* As if the answer had begun longer ago than a connection may be idle. */
static void begin_long_ago(struct http_call *call) {
        call->send_start_ns -= 80 * NS_PER_S;
}

static void slow_big(struct http_call *call) {
        big(call);
        assert_int_equal(call->conn->state, HTTP_CONN_WRITE);
        begin_long_ago(call);
}

static void slow_chunks(struct http_call *call) {
        const struct http_part  first = { "first", 5, NULL };
        const struct http_reply reply = { .status = 200, .parts = &first, .n_parts = 1 };

        http_call_begin_chunks(call, &reply);
        begin_long_ago(call);
        later(call);
}

/* 1 + 3000 pieces. */
static void chunks(struct http_call *call) {
        const struct http_part  first = { "first", 5, NULL };
        const struct http_reply reply = {
                .status = 200, .content_type = "text/event-stream", .parts = &first, .n_parts = 1
        };

        http_call_begin_chunks(call, &reply);
        for (int i = 0; i < 3000; i++) {
                struct buf      *b = buf_new(http_call_buf_pool(call), 4096);
                struct http_part part = { b->bytes, 4096, b };

                memset(b->bytes, 'a' + i % 26, 4096);
                http_call_send_chunk(call, &part);
        }
        http_call_end_chunks(call);
}

/* One piece, which is copied. */
static void piece(struct http_call *call) {
        const struct http_part  first = { "first", 5, NULL };
        const struct http_reply reply = { .status = 200, .parts = &first, .n_parts = 1 };

        http_call_begin_chunks(call, &reply);
        http_call_end_chunks(call);
}

/* More than a socket takes. */
static void begin_much(struct http_call *call) {
        const struct http_reply reply = { .status = 200 };

        http_call_begin_chunks(call, &reply);
        for (int i = 0; i < 3000; i++) {
                struct buf      *b = buf_new(http_call_buf_pool(call), 4096);
                struct http_part part = { b->bytes, 4096, b };

                memset(b->bytes, 'e', 4096);
                http_call_send_chunk(call, &part);
        }
}

/* Begins an answer, and goes on until the client has gone. */
static void endless(struct http_call *call) {
        begin_much(call);
        call->on_abort = http_call_end_chunks;
}

/* The same, and the handler goes on when the client has gone. */
static void heedless(struct http_call *call) {
        begin_much(call);
        later(call);
}

/* As "/finished", with an answer that is more than a socket takes. */
static void finished_much(struct http_call *call) {
        begin_much(call);
        http_call_finish_chunks(call);
        later(call);
}

static void fields(struct http_call *call) {
        struct http_header extra[40];
        struct http_reply  reply = { .status = 200, .headers = extra, .n_headers = 40 };

        for (size_t i = 0; i < ARRAY_LEN(extra); i++)
                extra[i] = (struct http_header){ STR_LIT("X-Field"),
                                                 STR_LIT("a\r\nEvil: yes\r\n\r\n0123456789") };
        http_call_reply(call, &reply);
}

/* From now on the loop gets no memory. */
static void starve(struct http_call *call) {
        http_call_reply_empty(call, 200);
        mem_fail_after(1);
}

static void wait_for_the_test(void) {
        struct fixture *f = current;

        mutex_lock(&f->seen.lock);
        f->is_loop_held = true;
        cond_broadcast(&f->seen.changed);
        while (f->is_loop_held)
                cond_wait(&f->seen.changed, &f->seen.lock);
        mutex_unlock(&f->seen.lock);
}

/* The loop stands still, and what comes meanwhile is found in one round. */
static void hold(struct http_call *call) {
        wait_for_the_test();
        http_call_reply_empty(call, 200);
}

/* The same, and then the server ends all connections that are idle or have left. */
static void hold_and_leave(struct http_call *call) {
        struct http_shard *shard = call->conn->shard;

        wait_for_the_test();
        shard->is_leaving = true; /* as if clients had had time to close their connections */
        shard->leave.fire(&shard->leave);
        http_call_reply_empty(call, 200);
}

/* Every time that a limit knows is over, for each connection of the loop. */
static void tick(struct http_call *call) {
        struct loop *l = call->conn->shard->net.loop;

        l->conn_ops->tick(l, clock_now_ns() + 3600 * NS_PER_S);
        http_call_reply_empty(call, 200);
}

static void tick_now(struct http_call *call) {
        struct loop *l = call->conn->shard->net.loop;

        l->conn_ops->tick(l, clock_now_ns());
        http_call_reply_empty(call, 200);
}

/* All others are asked for room, and then nothing comes: as when a part of a TLS record was received. */
static void ask_for_room(struct http_call *call) {
        LIST_FOR_EACH(&call->conn->shard->net.conns, node) {
                struct http_conn *c = LIST_ENTRY(node, struct http_conn, place.node);

                if (c != call->conn)
                        assert_true(c->net->ops->on_room(c->net).iov_len > 0);
        }
        http_call_reply_empty(call, 200);
}

/* How many other connections have a read buffer. */
static void count_buffers(struct http_call *call) {
        unsigned n = 0;

        LIST_FOR_EACH(&call->conn->shard->net.conns, node) {
                struct http_conn *c = LIST_ENTRY(node, struct http_conn, place.node);

                n += c != call->conn && c->in != NULL;
        }
        http_call_reply_text(call, NULL, str_of(arena_printf(&call->arena, "%u", n)));
}

/* As the server has it when it is told to stop. */
static void drain(struct http_call *call) {
        LIST_FOR_EACH(&call->conn->shard->net.conns, node)
                http_conn_leave(LIST_ENTRY(node, struct http_conn, place.node));
        http_call_reply_empty(call, 200);
}

static const struct http_route rows[] = {
        { "/v2/models/{m}/infer", HTTP_METHOD_POST, ENDPOINT_INFERENCE, NULL, tell },
        { "/v2/models/{m}/versions/{v}/infer", HTTP_METHOD_POST, ENDPOINT_INFERENCE, NULL, tell },
        { "/echo", HTTP_METHOD_POST, ENDPOINT_HEALTH, HTTP_JSON, echo },
        { "/later", HTTP_METHOD_GET, ENDPOINT_HEALTH, NULL, later },
        { "/finished", HTTP_METHOD_GET, ENDPOINT_HEALTH, NULL, finished },
        { "/big", HTTP_METHOD_GET, ENDPOINT_HEALTH, NULL, big },
        { "/slow_big", HTTP_METHOD_GET, ENDPOINT_HEALTH, NULL, slow_big },
        { "/slow_chunks", HTTP_METHOD_GET, ENDPOINT_HEALTH, NULL, slow_chunks },
        { "/chunks", HTTP_METHOD_GET, ENDPOINT_HEALTH, NULL, chunks },
        { "/piece", HTTP_METHOD_GET, ENDPOINT_HEALTH, NULL, piece },
        { "/endless", HTTP_METHOD_GET, ENDPOINT_HEALTH, NULL, endless },
        { "/finished_much", HTTP_METHOD_GET, ENDPOINT_HEALTH, NULL, finished_much },
        { "/heedless", HTTP_METHOD_GET, ENDPOINT_HEALTH, NULL, heedless },
        { "/fields", HTTP_METHOD_GET, ENDPOINT_HEALTH, NULL, fields },
        { "/hold", HTTP_METHOD_GET, ENDPOINT_HEALTH, NULL, hold },
        { "/hold_and_leave", HTTP_METHOD_GET, ENDPOINT_HEALTH, NULL, hold_and_leave },
        { "/drain", HTTP_METHOD_GET, ENDPOINT_HEALTH, NULL, drain },
        { "/tick", HTTP_METHOD_GET, ENDPOINT_HEALTH, NULL, tick },
        { "/tick_now", HTTP_METHOD_GET, ENDPOINT_HEALTH, NULL, tick_now },
        { "/ask_for_room", HTTP_METHOD_GET, ENDPOINT_HEALTH, NULL, ask_for_room },
        { "/count_buffers", HTTP_METHOD_GET, ENDPOINT_HEALTH, NULL, count_buffers },
        { "/starve", HTTP_METHOD_GET, ENDPOINT_HEALTH, NULL, starve },
        { "/both", HTTP_METHOD_GET, ENDPOINT_TRACE, HTTP_JSON, later },
        { "/both", HTTP_METHOD_POST, ENDPOINT_TRACE, HTTP_JSON, echo },
};

static void on_access(void *owner, const struct access_entry *a) {
        seen_access(owner, "%.*s %.*s %.*s %u in %llu out %llu%s\n", STR_ARG(a->method),
                    STR_ARG(a->path), STR_ARG(a->model), a->status, (unsigned long long)a->bytes_in,
                    (unsigned long long)a->bytes_out, a->is_aborted ? " aborted" : "");
}

void fixture_init(struct fixture *f) {
        *f = (struct fixture){ 0 };
        seen_init(&f->seen);
        endpoint_policy_init(&f->policy);
        http_server_options_init(&f->options);
        f->options.net.address = "127.0.0.1";
        f->options.net.n_threads = 2;
        f->options.routes = (struct http_route_table){ .rows = rows, .n_rows = ARRAY_LEN(rows) };
        f->options.service.policy = &f->policy;
        f->options.service.max_input_bytes = f->options.limits.input_bytes;
        f->options.net.on_rejected = seen_rejected;
        f->options.net.rejected_owner = &f->seen;
        f->options.service.on_access = on_access;
        f->options.service.access_owner = &f->seen;
        current = f;
}

void fixture_start(struct fixture *f) {
        assert_null(http_server_new(&f->options, &f->server));
        net_server_start(http_server_net(f->server));
}

void fixture_done(struct fixture *f) {
        http_server_free(f->server);
        endpoint_policy_done(&f->policy);
        seen_done(&f->seen);
}

void fixture_wait_held(struct fixture *f) {
        MUTEX_GUARD(&f->seen.lock);

        while (f->held == NULL)
                cond_wait(&f->seen.changed, &f->seen.lock);
}

static void on_answer(struct mail *m) {
        answer_late(CONTAINER_OF(m, struct fixture, mail)->answered);
}

void fixture_answer_held(struct fixture *f) {
        struct http_call *call;

        fixture_wait_held(f);
        mutex_lock(&f->seen.lock);
        call = STEAL(f->held);
        mutex_unlock(&f->seen.lock);
        f->answered = call;
        f->mail.deliver = on_answer;
        mailbox_post(http_call_mailbox(call), &f->mail);
}

void fixture_wait_loop_held(struct fixture *f) {
        MUTEX_GUARD(&f->seen.lock);

        while (!f->is_loop_held)
                cond_wait(&f->seen.changed, &f->seen.lock);
}

void fixture_let_loop_go(struct fixture *f) {
        MUTEX_GUARD(&f->seen.lock);

        f->is_loop_held = false;
        cond_broadcast(&f->seen.changed);
}

int client_open(const struct fixture *f) {
        return seen_connect(net_server_port(http_server_net(f->server)), 0);
}

void client_send(int fd, const char *bytes, size_t len) {
        while (len > 0) {
                ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);

                assert_true(n > 0);
                bytes += n;
                len -= (size_t)n;
        }
}

void client_say(int fd, const char *text) {
        client_send(fd, text, strlen(text));
}

/* The system puts a report into the error queue of the socket for each acknowledgement of what is sent from now on. */
static void report_acknowledgements(int fd, bool on) {
        int flags = on ? SOF_TIMESTAMPING_TX_ACK | SOF_TIMESTAMPING_SOFTWARE |
                                    SOF_TIMESTAMPING_OPT_TSONLY
                       : 0;

        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof(flags)), 0);
}

static void drop_reports(int fd) {
        char          control[512];
        struct msghdr report = { .msg_control = control };

        do
                report.msg_controllen = sizeof(control);
        while (recvmsg(fd, &report, MSG_ERRQUEUE | MSG_DONTWAIT) >= 0);
}

static bool is_acknowledged(int fd) {
        int n_bytes;

        assert_int_equal(ioctl(fd, SIOCOUTQ, &n_bytes), 0);
        return n_bytes == 0;
}

void client_say_through(int fd, const char *text) {
        struct pollfd reported = { .fd = fd }; /* POLLERR needs no asking */

        report_acknowledgements(fd, true);
        client_say(fd, text);
        while (!is_acknowledged(fd)) {
                assert_true(poll(&reported, 1, -1) == 1);
                drop_reports(fd);
        }
        report_acknowledgements(fd, false);
        drop_reports(fd);
}

void client_expect(int fd, const char *text) {
        size_t len = strlen(text), n = 0;
        char  *got = mem_zalloc(len + 1);

        while (n < len) {
                ssize_t rc = recv(fd, got + n, len - n, 0);

                if (rc <= 0 || memcmp(got, text, n + (size_t)rc) != 0)
                        fail_msg("after \"%.*s\" came \"%s\"", (int)n, text, got + n);
                n += (size_t)rc;
        }
        free(got);
}

/* Up to and with the blank line; a byte at a time, so that nothing of the next answer is taken. */
static void read_head(int fd, struct strbuf *head) {
        char c;

        while (head->len < 4 || memcmp(head->ptr + head->len - 4, "\r\n\r\n", 4) != 0) {
                if (recv(fd, &c, 1, 0) != 1)
                        fail_msg("the connection ended within a head: \"%s\"", strbuf_cstr(head));
                strbuf_putc(head, c);
        }
}

static size_t content_length(const struct strbuf *head) {
        const char *length = strstr(head->ptr, "\r\nContent-Length: ");

        assert_non_null(length);
        return strtoul(length + 18, NULL, 10);
}

void client_expect_answer(int fd, unsigned status, const char *body) {
        AUTO_STRBUF head;
        unsigned    got = 0;

        strbuf_init(&head, 0);
        read_head(fd, &head);
        assert_int_equal(sscanf(head.ptr, "HTTP/1.1 %u ", &got), 1);
        if (got != status)
                fail_msg("want %u, got: %s", status, head.ptr);
        assert_int_equal(content_length(&head), strlen(body));
        client_expect(fd, body);
}

void client_skip_answer(int fd) {
        AUTO_STRBUF head;
        char        piece[65536];
        size_t      left;

        strbuf_init(&head, 0);
        read_head(fd, &head);
        left = content_length(&head);
        while (left > 0) {
                ssize_t n = recv(fd, piece, MIN(left, sizeof(piece)), 0);

                assert_true(n > 0);
                left -= (size_t)n;
        }
}

void client_read_all(int fd, struct strbuf *ret) {
        char    piece[65536];
        ssize_t n;

        while ((n = recv(fd, piece, sizeof(piece), 0)) > 0)
                strbuf_put(ret, piece, (size_t)n);
        assert_int_equal(n, 0);
}

void client_expect_end(int fd) {
        char c;

        assert_int_equal(recv(fd, &c, 1, 0), 0);
}
