/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections that speak TLS, with OpenSSL's own client at the other end. */
#include "suite.h"

#include "base/clock.h"
#include "base/compiler.h"
#include "base/lock.h"
#include "base/mem.h"
#include "net/conn.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/seen.h"
#include "net/tls.h"
#include "net/turns.h"
#include "tls_files.h"

#include <openssl/ssl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BIG ((size_t)8 << 20)
#define MAX_ROOM 1000

static struct tls_files files;

/* A server that sends back what it gets, and for a 'b' sends BIG bytes. */
struct server {
        struct loop_group   *loops;
        struct listener     *listener;
        struct tls_context  *context;
        struct conn_security security;
        char                *big;
        size_t               room;          /* 0: none, once; the owner goes on when told */
        bool                 greets;        /* writes before it reads */
        bool                 reads_on;      /* while a write is pending, throwing away */
        bool                 says_good_bye; /* writes and shuts down at the peer's end */
        struct conn         *starved;
        struct mail          feed;
        struct conn         *newest;
        struct mail          block, be_late;
        struct turn          turn;
        struct loop_task     look;
        bool                 had_unread;

        struct mutex lock;
        struct cond  changed;
        size_t       n_closed, n_ended, n_reset, n_no_room;
        size_t       n_pending, n_pending_ok, n_pending_failed;
        size_t       n_read; /* bytes while a write was pending */
        size_t       n_rejected;
        size_t       n_opened, n_blocked, n_may_go, n_looked;
        char         limit[32];
};

struct peer {
        struct server *server;
        struct conn   *conn;
        char           bytes[MAX_ROOM];
};

static struct iovec on_room(struct conn *c) {
        struct peer *p = conn_owner(c);

        return (struct iovec){ p->bytes, p->server->room };
}

static void count(struct server *s, size_t *counter, size_t n) {
        MUTEX_GUARD(&s->lock);

        *counter += n;
        cond_broadcast(&s->changed);
}

static void on_no_room(struct conn *c) {
        struct peer *p = conn_owner(c);

        p->server->starved = c;
        count(p->server, &p->server->n_no_room, 1);
}

static void on_feed(struct mail *m) {
        struct server *s = CONTAINER_OF(m, struct server, feed);

        s->room = 100;
        conn_read_start(s->starved);
}

static void on_read(struct conn *c, size_t n) {
        struct peer *p = conn_owner(c);
        bool         is_big = p->bytes[0] == 'b';
        struct iovec parts[3] = { { p->bytes, n / 2 },
                                  { NULL, 0 },
                                  { p->bytes + n / 2, n - n / 2 } };
        struct iovec big[3] = { { p->server->big, 10 },
                                { NULL, 0 },
                                { p->server->big + 10, BIG - 10 } };

        if (conn_is_writing(c)) {
                count(p->server, &p->server->n_read, n);
                return;
        }
        switch (conn_write(c, is_big ? big : parts, 3)) {
        case CONN_WRITE_DONE: break;
        case CONN_WRITE_PENDING:
                assert_true(conn_is_writing(c));
                assert_true(conn_unwritten_bytes(c) > 0 && conn_unwritten_bytes(c) < BIG);
                if (!p->server->reads_on)
                        conn_read_stop(c);
                count(p->server, &p->server->n_pending, 1);
                break;
        case CONN_WRITE_FAILED: conn_close(c); break;
        }
}

static void on_written(struct conn *c, bool is_ok) {
        struct peer *p = conn_owner(c);

        assert_false(conn_is_writing(c));
        count(p->server, is_ok ? &p->server->n_pending_ok : &p->server->n_pending_failed, 1);
        conn_read_start(c);
}

static void on_end(struct conn *c, bool is_reset) {
        struct peer       *p = conn_owner(c);
        const struct iovec part = { (void *)"good-bye", 8 };

        count(p->server, is_reset ? &p->server->n_reset : &p->server->n_ended, 1);
        if (p->server->says_good_bye && conn_write(c, &part, 1) == CONN_WRITE_DONE)
                conn_shutdown(c);
        conn_close(c);
}

static void on_tick(struct conn *c, uint64_t now_ns) {
        (void)c;
        (void)now_ns;
}

static void on_closed(struct conn *c) {
        struct peer   *p = conn_owner(c);
        struct server *s = p->server;

        free(p);
        count(s, &s->n_closed, 1);
}

static const struct conn_ops ops = { .on_room = on_room,
                                     .on_no_room = on_no_room,
                                     .on_read = on_read,
                                     .on_end = on_end,
                                     .on_written = on_written,
                                     .on_tick = on_tick,
                                     .on_closed = on_closed };

static void on_accept(void *owner, struct loop *l, int fd) {
        struct server     *s = owner;
        struct peer       *p = mem_zalloc(sizeof(*p));
        char               text[] = "hello"; /* a small write: it need not outlive the call */
        const struct iovec hello[2] = { { text, 3 }, { text + 3, 2 } };

        p->server = s;
        assert_null(conn_open(l, fd, &ops, p, &p->conn));
        s->newest = p->conn;
        assert_null(conn_secure(p->conn, &s->security));
        conn_read_start(p->conn);
        count(s, &s->n_opened, 1);
        if (!s->greets)
                return;
        assert_int_equal(conn_write(p->conn, hello, 2), CONN_WRITE_PENDING);
        assert_int_equal(conn_unwritten_bytes(p->conn), 5);
        memset(text, '-', sizeof(text));
}

static void on_rejected(void *owner, const char *limit) {
        struct server *s = owner;

        mutex_lock(&s->lock);
        strncpy(s->limit, limit, sizeof(s->limit) - 1);
        mutex_unlock(&s->lock);
        count(s, &s->n_rejected, 1);
}

static void server_init(struct server *s) {
        const struct tls_options o = { files.cert, files.key, NULL,
                                       STR_LIT("\x02"
                                               "h2") };

        *s = (struct server){ .room = MAX_ROOM };
        s->big = mem_alloc(BIG);
        for (size_t i = 0; i < BIG; i++)
                s->big[i] = (char)(i % 251);
        assert_null(tls_context_new(&o, &s->context));
        s->security = (struct conn_security){ s->context, 20 * NS_PER_S, on_rejected, s };
        s->feed.deliver = on_feed;
        mutex_init(&s->lock, LOCK_LEAF);
        cond_init(&s->changed);
}

static void server_start(struct server *s) {
        struct listener_options o = { .address = "127.0.0.1", .on_accept = on_accept, .owner = s };

        assert_null(loop_group_new("test", 1, &s->loops));
        o.loops = s->loops;
        assert_null(listener_open(&o, &s->listener));
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
        tls_context_free(s->context);
        cond_done(&s->changed);
        mutex_done(&s->lock);
        free(s->big);
}

/* ---- the client ---- */

struct client {
        int      fd;
        SSL_CTX *context;
        SSL     *ssl;
};

static int connect_plain(const struct server *s, int receive_bytes) {
        return seen_connect(listener_port(s->listener), receive_bytes);
}

static void client_open(struct client *c, const struct server *s, int version) {
        c->fd = connect_plain(s, 65536);
        c->context = SSL_CTX_new(TLS_client_method());
        SSL_CTX_set_max_proto_version(c->context, version);
        c->ssl = SSL_new(c->context);
        SSL_set_fd(c->ssl, c->fd);
        assert_int_equal(SSL_connect(c->ssl), 1);
}

static void client_close(struct client *c) {
        SSL_free(c->ssl);
        SSL_CTX_free(c->context);
        close(c->fd);
}

static void client_say(struct client *c, const char *bytes, size_t len) {
        assert_int_equal(SSL_write(c->ssl, bytes, (int)len), len);
}

static void client_expect(struct client *c, const char *want, size_t len) {
        char  *got = mem_alloc(len);
        size_t at = 0, n;

        while (at < len) {
                assert_int_equal(SSL_read_ex(c->ssl, got + at, len - at, &n), 1);
                at += n;
        }
        assert_memory_equal(got, want, len);
        free(got);
}

static void client_expect_end(struct client *c) {
        char   byte;
        size_t n;
        int    rc = SSL_read_ex(c->ssl, &byte, 1, &n);

        assert_int_equal(SSL_get_error(c->ssl, rc), SSL_ERROR_ZERO_RETURN);
}

/* ---- tests ---- */

static void echo(struct server *s, int version) {
        static const size_t sizes[] = { 1, 2, 500, 1500, 16384, 40000 };
        static char         said[40000];
        struct client       c;

        for (size_t i = 0; i < sizeof(said); i++)
                said[i] = (char)('c' + i % 23); /* never a 'b' */
        client_open(&c, s, version);
        for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
                client_say(&c, said, sizes[i]);
                client_expect(&c, said, sizes[i]);
        }
        SSL_shutdown(c.ssl);
        client_expect_end(&c);
        client_close(&c);
}

static void test_echo_into_rooms_of_all_sizes(void **state) {
        static const size_t rooms[] = { 1, 7, 100, MAX_ROOM };
        struct server       s;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rooms); i++) {
                server_init(&s);
                s.room = rooms[i];
                server_start(&s);
                echo(&s, TLS1_3_VERSION);
                echo(&s, TLS1_2_VERSION);
                server_stop(&s, 2);
                assert_int_equal(s.n_ended, 2);
                assert_int_equal(s.n_reset, 0);
                assert_int_equal(s.n_rejected, 0);
        }
}

static void test_write_larger_than_the_socket(void **state) {
        struct server s;
        struct client c;

        (void)state;
        server_init(&s);
        server_start(&s);
        client_open(&c, &s, TLS1_3_VERSION);
        for (int i = 0; i < 2; i++) {
                client_say(&c, "b", 1);
                wait_for(&s, &s.n_pending, (size_t)i + 1); /* a reader may be as fast */
                client_expect(&c, s.big, BIG);
                wait_for(&s, &s.n_pending_ok, (size_t)i + 1);
                client_say(&c, "again", 5);
                client_expect(&c, "again", 5);
        }
        client_close(&c);
        server_stop(&s, 1);
}

static void test_reset_while_writing(void **state) {
        const struct linger reset = { .l_onoff = 1 };
        struct server       s;
        struct client       c;

        (void)state;
        server_init(&s);
        server_start(&s);
        client_open(&c, &s, TLS1_3_VERSION);
        client_say(&c, "b", 1);
        client_expect(&c, s.big, 1000);
        wait_for(&s, &s.n_pending, 1);
        setsockopt(c.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        client_close(&c);
        wait_for(&s, &s.n_pending_failed, 1);
        server_stop(&s, 1);
}

/* What is written before the handshake is over comes first behind it. */
static void test_write_before_the_handshake(void **state) {
        struct server s;
        struct client c;

        (void)state;
        server_init(&s);
        s.greets = true;
        server_start(&s);
        client_open(&c, &s, TLS1_3_VERSION);
        client_expect(&c, "hello", 5);
        wait_for(&s, &s.n_pending_ok, 1);
        client_say(&c, "you", 3);
        client_expect(&c, "you", 3);
        client_close(&c);
        server_stop(&s, 1);
}

/* And when there is no handshake, the write has failed. */
static void test_no_handshake(void **state) {
        struct server s;

        (void)state;
        server_init(&s);
        s.greets = true;
        server_start(&s);
        close(connect_plain(&s, 0));
        wait_for(&s, &s.n_pending_failed, 1);
        server_stop(&s, 1);
        assert_int_equal(s.n_reset, 1);
        assert_int_equal(s.n_rejected, 0); /* nothing was said: no news */
}

static void test_half_close(void **state) {
        struct server s;
        struct client c;

        (void)state;
        server_init(&s);
        s.says_good_bye = true;
        server_start(&s);
        client_open(&c, &s, TLS1_3_VERSION);
        assert_int_equal(SSL_shutdown(c.ssl), 0);
        client_expect(&c, "good-bye", 8);
        client_expect_end(&c);
        client_close(&c);
        server_stop(&s, 1);
        assert_int_equal(s.n_ended, 1);
}

/* Records wait while the owner has no room, and nothing more is read. */
static void test_no_room(void **state) {
        struct server s;
        struct client c;
        char          said[30000];

        (void)state;
        memset(said, 'x', sizeof(said));
        server_init(&s);
        s.room = 0;
        server_start(&s);
        client_open(&c, &s, TLS1_3_VERSION);
        client_say(&c, said, sizeof(said));
        wait_for(&s, &s.n_no_room, 1);
        client_say(&c, said, sizeof(said));
        mailbox_post(loop_mailbox(loop_group_get(s.loops, 0)), &s.feed);
        client_expect(&c, said, sizeof(said));
        client_expect(&c, said, sizeof(said));
        client_close(&c);
        server_stop(&s, 1);
        assert_int_equal(s.n_no_room, 1);
}

/* A peer that wants new keys again and again and reads nothing: answers wait behind what it has
 * not taken, and so do its requests. */
static void test_key_updates_while_writing(void **state) {
        struct server s;
        struct client c;

        (void)state;
        server_init(&s);
        s.reads_on = true;
        server_start(&s);
        client_open(&c, &s, TLS1_3_VERSION);
        client_say(&c, "b", 1);
        for (int i = 0; i < 30; i++) {
                assert_int_equal(SSL_key_update(c.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
                client_say(&c, "x", 1);
        }
        wait_for(&s, &s.n_pending, 1);
        client_expect(&c, s.big, BIG);
        wait_for(&s, &s.n_pending_ok, 1);
        SSL_shutdown(c.ssl);
        client_close(&c);
        server_stop(&s, 1);
        assert_int_equal(s.n_rejected, 0);
}

/* The same without anything else to say: new keys cost much more than the record that asks for them. */
static void test_too_many_key_updates(void **state) {
        struct server s;
        struct client c;

        (void)state;
        server_init(&s);
        server_start(&s);
        client_open(&c, &s, TLS1_3_VERSION);
        for (int i = 0; i < 32; i++) {
                assert_int_equal(SSL_key_update(c.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
                assert_int_equal(SSL_do_handshake(c.ssl), 1);
        }
        client_say(&c, "x", 1);
        client_expect(&c, "x", 1);
        assert_int_equal(s.n_rejected, 0);
        assert_int_equal(SSL_key_update(c.ssl, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
        client_say(&c, "x", 1);
        wait_for(&s, &s.n_rejected, 1);
        assert_string_equal(s.limit, "tls_record");
        client_close(&c);
        server_stop(&s, 1);
}

static void on_block(struct mail *m) {
        struct server *s = CONTAINER_OF(m, struct server, block);

        count(s, &s->n_blocked, 1);
        wait_for(s, &s->n_may_go, 1);
}

/* Uses up the time of this round. */
static void on_be_late(struct mail *m) {
        struct server *s = CONTAINER_OF(m, struct server, be_late);
        struct loop   *l = loop_group_get(s->loops, 0);

        assert_true(loop_take_share(l, &s->turn, 1));
        loop_defer(l, LOOP_WRITE, &s->look);
}

static void on_look(struct loop_task *task) {
        struct server *s = CONTAINER_OF(task, struct server, look);

        s->had_unread = conn_has_unread(s->newest);
        count(s, &s->n_looked, 1);
}

/* A handshake takes a millisecond of the loop, and a thousand clients may begin one at a time. So a handshake does not
 * begin in a round whose time is used up: its bytes wait for a later one. */
static void test_handshake_in_a_late_round(void **state) {
        struct server   s;
        struct client   c = { 0 };
        struct mailbox *box;
        BIO            *hello = BIO_new(BIO_s_mem());
        char           *bytes;
        long            len;

        (void)state;
        server_init(&s);
        s.block.deliver = on_block;
        s.be_late.deliver = on_be_late;
        s.look.run = on_look;
        server_start(&s);
        box = loop_mailbox(loop_group_get(s.loops, 0));
        c.fd = connect_plain(&s, 0);
        c.context = SSL_CTX_new(TLS_client_method());
        c.ssl = SSL_new(c.context);
        SSL_set_connect_state(c.ssl);
        SSL_set_bio(c.ssl, BIO_new(BIO_s_mem()), hello);
        assert_int_equal(SSL_do_handshake(c.ssl), -1);
        len = BIO_get_mem_data(hello, &bytes);
        wait_for(&s, &s.n_opened, 1);

        /* Both are ready when the loop looks next, in this order. */
        mailbox_post(box, &s.block);
        wait_for(&s, &s.n_blocked, 1);
        mailbox_post(box, &s.be_late);
        assert_int_equal(send(c.fd, bytes, (size_t)len, 0), len);
        count(&s, &s.n_may_go, 1);
        wait_for(&s, &s.n_looked, 1);
        assert_true(s.had_unread);

        SSL_set_fd(c.ssl, c.fd);
        assert_int_equal(SSL_do_handshake(c.ssl), 1);
        client_say(&c, "x", 1);
        client_expect(&c, "x", 1);
        client_close(&c);
        server_stop(&s, 1);
}

static void test_slow_handshake(void **state) {
        struct server s;
        char          byte;
        int           fd;

        (void)state;
        server_init(&s);
        s.security.handshake_time_ns = 1;
        server_start(&s);
        fd = connect_plain(&s, 0);
        assert_int_equal(recv(fd, &byte, 1, 0), 0);
        close(fd);
        server_stop(&s, 1);
        assert_int_equal(s.n_reset, 1);
        assert_string_equal(s.limit, "tls_handshake_time");
}

static void test_no_tls(void **state) {
        static const char said[] = "GET / HTTP/1.1\r\n\r\n";
        struct server     s;
        char              byte;
        int               fd;

        (void)state;
        server_init(&s);
        s.greets = true;
        server_start(&s);
        fd = connect_plain(&s, 0);
        assert_int_equal(send(fd, said, sizeof(said) - 1, 0), sizeof(said) - 1);
        while (recv(fd, &byte, 1, 0) == 1)
                ;
        close(fd);
        server_stop(&s, 1);
        assert_int_equal(s.n_reset, 1);
        assert_int_equal(s.n_pending_failed, 1);
        assert_int_equal(s.n_rejected, 1);
        assert_string_equal(s.limit, "tls_handshake");
}

static void test_wrong_protocol(void **state) {
        static const unsigned char offered[] = "\x08"
                                               "http/1.1";
        struct server              s;
        struct client              c = { 0 };

        (void)state;
        server_init(&s);
        server_start(&s);
        c.fd = connect_plain(&s, 0);
        c.context = SSL_CTX_new(TLS_client_method());
        c.ssl = SSL_new(c.context);
        SSL_set_fd(c.ssl, c.fd);
        SSL_set_alpn_protos(c.ssl, offered, sizeof(offered) - 1);
        assert_int_equal(SSL_connect(c.ssl), -1);
        client_close(&c);
        server_stop(&s, 1);
        assert_string_equal(s.limit, "tls_handshake");
}

static int set_up(void **state) {
        (void)state;
        tls_files_make(&files);
        return 0;
}

static int tear_down(void **state) {
        (void)state;
        tls_files_remove(&files);
        return 0;
}

SUITE(conn_tls) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_echo_into_rooms_of_all_sizes),
                cmocka_unit_test(test_write_larger_than_the_socket),
                cmocka_unit_test(test_reset_while_writing),
                cmocka_unit_test(test_write_before_the_handshake),
                cmocka_unit_test(test_no_handshake),
                cmocka_unit_test(test_half_close),
                cmocka_unit_test(test_no_room),
                cmocka_unit_test(test_key_updates_while_writing),
                cmocka_unit_test(test_too_many_key_updates),
                cmocka_unit_test(test_handshake_in_a_late_round),
                cmocka_unit_test(test_slow_handshake),
                cmocka_unit_test(test_no_tls),
                cmocka_unit_test(test_wrong_protocol),
        };

        return cmocka_run_group_tests(tests, set_up, tear_down);
}
