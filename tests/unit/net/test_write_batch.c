/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes of answers that came to a loop together: conn_write_soon(). */
#include "net/conn.h"

#include "suite.h"

#include "base/compiler.h"
#include "base/lock.h"
#include "base/mem.h"
#include "net/loop.h"
#include "net/mailbox.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_PEERS 4
#define BIG ((size_t)8 << 20) /* more than a socket takes */
#define N_ROW ((size_t)64)    /* peers whose small writes are more than a loop has room for */

struct fixture;

struct peer {
        struct fixture  *fixture;
        struct conn     *conn;
        int              far; /* the test's end of the socket */
        int              near; /* the connection's */
        size_t           n_filled; /* by fill() */
        enum conn_write  rc;  /* of conn_write_soon() */
        _Atomic unsigned n_written, n_failed; /* the test looks while the loop goes on */
        unsigned         n_sent_before; /* peers whose bytes had arrived when this one was told */
        bool             is_closed;
        char             byte;
};

typedef void (*act_fn)(struct peer *p);

/* One thing to be done on the loop. */
struct act {
        struct mail  mail;
        struct peer *peer;
        act_fn       run;
};

struct fixture {
        struct loop_group *loops;
        struct mutex       lock;
        struct cond        changed;
        size_t             n_acts; /* that have run */
        size_t             n_ends; /* on_written() and on_closed() */
        size_t             n_peers;
        struct peer        peers[N_ROW];
        char              *big;
};

static void count(struct fixture *f, size_t *counter) {
        MUTEX_GUARD(&f->lock);

        ++*counter;
        cond_broadcast(&f->changed);
}

static void wait_for(struct fixture *f, const size_t *counter, size_t n) {
        MUTEX_GUARD(&f->lock);

        while (*counter < n)
                cond_wait(&f->changed, &f->lock);
}

static bool has_arrived(const struct peer *p) {
        char byte;

        return recv(p->far, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
}

/* ---- the owner of the connections ---- */

static struct iovec on_room(struct conn *c) {
        struct peer *p = conn_owner(c);

        return (struct iovec){ &p->byte, 1 };
}

static void on_read(struct conn *c UNUSED, size_t n UNUSED) {
}

static void on_end(struct conn *c UNUSED, bool is_reset UNUSED) {
}

static void on_tick(struct conn *c UNUSED, uint64_t now_ns UNUSED) {
}

static void on_written(struct conn *c, bool is_ok) {
        struct peer    *p = conn_owner(c);
        struct fixture *f = p->fixture;

        assert_false(conn_is_writing(c));
        if (is_ok)
                p->n_written++;
        else
                p->n_failed++;
        for (size_t i = 0; i < f->n_peers; i++)
                if (f->peers[i].far >= 0 && has_arrived(&f->peers[i]))
                        p->n_sent_before++;
        count(f, &f->n_ends);
}

static void on_closed(struct conn *c) {
        struct peer *p = conn_owner(c);

        p->is_closed = true;
        count(p->fixture, &p->fixture->n_ends);
}

static const struct conn_ops ops = { .on_room = on_room,
                                     .on_read = on_read,
                                     .on_end = on_end,
                                     .on_written = on_written,
                                     .on_tick = on_tick,
                                     .on_closed = on_closed };

/* ---- what is done on the loop ---- */

static void on_act(struct mail *m) {
        struct act     *a = CONTAINER_OF(m, struct act, mail);
        struct fixture *f = a->peer->fixture;

        a->run(a->peer);
        count(f, &f->n_acts); /* the act may be gone now */
}

static void open_peer(struct peer *p) {
        struct fixture *f = p->fixture;
        int             fds[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
        p->far = fds[1];
        p->near = fds[0];
        assert_null(conn_open(loop_group_get(f->loops, 0), fds[0], &ops, p, &p->conn));
}

static void write_parts(struct peer *p, size_t n_parts, char *bytes, size_t len) {
        struct iovec parts[8];

        for (size_t i = 0; i < n_parts; i++)
                parts[i] = (struct iovec){ bytes + i * (len / n_parts), len / n_parts };
        p->rc = conn_write_soon(p->conn, parts, n_parts);
        assert_int_equal(conn_is_writing(p->conn), p->rc == CONN_WRITE_PENDING);
}

static void write_small(struct peer *p) {
        static char text[] = "answer";

        write_parts(p, 2, text, 6);
        if (p->rc == CONN_WRITE_PENDING) {
                assert_int_equal(conn_unwritten_bytes(p->conn), 6);
                assert_false(has_arrived(p));
        }
}

static void write_big(struct peer *p) {
        write_parts(p, 2, p->fixture->big, BIG);
}

static void write_many_parts(struct peer *p) {
        static char text[] = "answers!";

        write_parts(p, 8, text, 8);
}

/* As much as a small write may have; gone from its memory when the call is over. */
static void write_copied(struct peer *p) {
        char bytes[CONN_SMALL_WRITE];

        memset(bytes, 'a' + (int)(p - p->fixture->peers) % 26, sizeof(bytes));
        write_parts(p, 2, bytes, sizeof(bytes));
        if (p->rc == CONN_WRITE_PENDING)
                assert_int_equal(conn_unwritten_bytes(p->conn), sizeof(bytes));
        memset(bytes, '-', sizeof(bytes));
}

/* Until the socket takes nothing more. */
static void fill(struct peer *p) {
        ssize_t n;

        while ((n = send(p->near, p->fixture->big, BIG, MSG_DONTWAIT)) > 0)
                p->n_filled += (size_t)n;
        assert_int_equal(errno, EAGAIN);
}

static void close_peer(struct peer *p) {
        if (!p->is_closed) /* else there is none */
                conn_close(p->conn);
}

static void shut_down(struct peer *p) {
        conn_shutdown(p->conn);
}

static void do_nothing(struct peer *p UNUSED) {
}

/* All in one delivery; returns when each has run. */
static void run_together(struct fixture *f, struct act *acts, size_t n) {
        struct mailbox *box = loop_mailbox(loop_group_get(f->loops, 0));
        size_t          before = f->n_acts;
        bool            must_wake = false;

        for (size_t i = 0; i < n; i++) {
                acts[i].mail = (struct mail){ .deliver = on_act };
                must_wake = mailbox_post_without_wake(box, &acts[i].mail) || must_wake;
        }
        assert_true(must_wake);
        mailbox_wake(box);
        wait_for(f, &f->n_acts, before + n);
}

static void run_alone(struct fixture *f, struct peer *p, act_fn run) {
        struct act act = { .peer = p, .run = run };

        run_together(f, &act, 1);
}

static void set_up_peers(void **state, size_t n) {
        struct fixture *f = mem_zalloc(sizeof(*f));

        mutex_init(&f->lock, LOCK_MAILBOX);
        cond_init(&f->changed);
        f->big = mem_zalloc(BIG);
        f->n_peers = n;
        assert_null(loop_group_new("test", 1, &f->loops));
        for (size_t i = 0; i < n; i++) {
                f->peers[i].fixture = f;
                run_alone(f, &f->peers[i], open_peer);
        }
        *state = f;
}

static int set_up(void **state) {
        set_up_peers(state, MAX_PEERS);
        return 0;
}

static int set_up_row(void **state) {
        set_up_peers(state, N_ROW);
        return 0;
}

static int tear_down(void **state) {
        struct fixture *f = *state;

        for (size_t i = 0; i < f->n_peers; i++) {
                run_alone(f, &f->peers[i], close_peer);
                if (f->peers[i].far >= 0)
                        close(f->peers[i].far);
        }
        loop_group_free(f->loops);
        for (size_t i = 0; i < f->n_peers; i++)
                assert_true(f->peers[i].is_closed);
        free(f->big);
        cond_done(&f->changed);
        mutex_done(&f->lock);
        free(f);
        return 0;
}

static void assert_received(struct peer *p, const char *want) {
        char   got[16];
        size_t len = strlen(want);

        assert_int_equal(recv(p->far, got, len, MSG_WAITALL), len);
        assert_memory_equal(got, want, len);
}

/* What write_copied() wrote, whole. */
static void assert_received_copy(struct peer *p) {
        char got[CONN_SMALL_WRITE], want[CONN_SMALL_WRITE];

        memset(want, 'a' + (int)(p - p->fixture->peers) % 26, sizeof(want));
        assert_int_equal(recv(p->far, got, sizeof(got), MSG_WAITALL), sizeof(got));
        assert_memory_equal(got, want, sizeof(got));
}

/* ---- tests ---- */

static void test_all_are_sent_before_one_is_told(void **state) {
        struct fixture *f = *state;
        struct act      acts[MAX_PEERS];

        for (size_t i = 0; i < MAX_PEERS; i++)
                acts[i] = (struct act){ .peer = &f->peers[i], .run = write_small };
        run_together(f, acts, MAX_PEERS);
        wait_for(f, &f->n_ends, MAX_PEERS);
        for (size_t i = 0; i < MAX_PEERS; i++) {
                struct peer *p = &f->peers[i];

                assert_int_equal(p->rc, CONN_WRITE_PENDING);
                assert_int_equal(p->n_written, 1);
                assert_int_equal(p->n_failed, 0);
                assert_int_equal(p->n_sent_before, MAX_PEERS);
        }
        for (size_t i = 0; i < MAX_PEERS; i++)
                assert_received(&f->peers[i], "answer");
}

static void test_a_lone_answer_is_written_at_once(void **state) {
        struct fixture *f = *state;

        run_alone(f, &f->peers[0], write_small);
        assert_int_equal(f->peers[0].rc, CONN_WRITE_DONE);
        assert_received(&f->peers[0], "answer");
        assert_int_equal(f->n_ends, 0);
}

static void test_many_parts_are_written_at_once(void **state) {
        struct fixture *f = *state;
        struct act      acts[] = { { .peer = &f->peers[0], .run = write_many_parts },
                                   { .peer = &f->peers[1], .run = write_small } };

        run_together(f, acts, ARRAY_LEN(acts));
        wait_for(f, &f->n_ends, 1);
        assert_int_equal(f->peers[0].rc, CONN_WRITE_DONE);
        assert_received(&f->peers[0], "answers!");
        assert_received(&f->peers[1], "answer");
}

static void test_what_the_socket_does_not_take(void **state) {
        struct fixture *f = *state;
        struct act      acts[] = { { .peer = &f->peers[0], .run = write_big },
                                   { .peer = &f->peers[1], .run = write_small } };
        char           *got = mem_alloc(BIG);

        run_together(f, acts, ARRAY_LEN(acts));
        wait_for(f, &f->n_ends, 1);
        assert_int_equal(f->peers[0].n_written, 0);
        assert_int_equal(f->peers[1].n_written, 1);
        assert_int_equal(recv(f->peers[0].far, got, BIG, MSG_WAITALL), BIG);
        wait_for(f, &f->n_ends, 2);
        assert_int_equal(f->peers[0].n_written, 1);
        free(got);
}

static void test_closed_before_it_is_sent(void **state) {
        struct fixture *f = *state;
        struct act      acts[] = { { .peer = &f->peers[0], .run = write_small },
                                   { .peer = &f->peers[1], .run = write_small },
                                   { .peer = &f->peers[0], .run = close_peer } };
        char            byte;

        run_together(f, acts, ARRAY_LEN(acts));
        wait_for(f, &f->n_ends, 3);
        assert_int_equal(f->peers[0].n_written, 0);
        assert_int_equal(f->peers[0].n_failed, 1);
        assert_true(f->peers[0].is_closed);
        assert_int_equal(recv(f->peers[0].far, &byte, 1, 0), 0);
        assert_received(&f->peers[1], "answer");
}

static void test_shut_down_behind_the_bytes(void **state) {
        struct fixture *f = *state;
        struct act      acts[] = { { .peer = &f->peers[0], .run = write_small },
                                   { .peer = &f->peers[0], .run = shut_down } };
        char            byte;

        run_together(f, acts, ARRAY_LEN(acts));
        wait_for(f, &f->n_ends, 1);
        assert_int_equal(f->peers[0].n_written, 1);
        assert_received(&f->peers[0], "answer");
        assert_int_equal(recv(f->peers[0].far, &byte, 1, 0), 0);
}

static void test_nothing_behind_the_end(void **state) {
        struct fixture *f = *state;
        struct act      acts[] = { { .peer = &f->peers[0], .run = shut_down },
                                   { .peer = &f->peers[0], .run = write_small },
                                   { .peer = &f->peers[1], .run = write_small } };
        char            byte;

        run_together(f, acts, ARRAY_LEN(acts));
        wait_for(f, &f->n_ends, 1);
        assert_int_equal(f->peers[0].rc, CONN_WRITE_FAILED);
        assert_int_equal(recv(f->peers[0].far, &byte, 1, 0), 0);
        assert_received(&f->peers[1], "answer");
}

/* Nobody is at the other end any more; the others get theirs. */
static void test_a_failure_is_told(void **state) {
        struct fixture *f = *state;
        struct act      acts[] = { { .peer = &f->peers[0], .run = write_small },
                                   { .peer = &f->peers[1], .run = write_small },
                                   { .peer = &f->peers[2], .run = do_nothing } };

        close(f->peers[0].far);
        f->peers[0].far = -1;
        run_together(f, acts, ARRAY_LEN(acts));
        wait_for(f, &f->n_ends, 2);
        assert_int_equal(f->peers[0].n_failed, 1);
        assert_int_equal(f->peers[1].n_written, 1);
        assert_received(&f->peers[1], "answer");
}

static void test_a_row_longer_than_the_room(void **state) {
        struct fixture *f = *state;
        struct act      acts[N_ROW];

        for (size_t i = 0; i < N_ROW; i++)
                acts[i] = (struct act){ .peer = &f->peers[i], .run = write_copied };
        run_together(f, acts, N_ROW);
        wait_for(f, &f->n_ends, N_ROW);
        for (size_t i = 0; i < N_ROW; i++) {
                assert_int_equal(f->peers[i].rc, CONN_WRITE_PENDING);
                assert_int_equal(f->peers[i].n_written, 1);
                assert_int_equal(f->peers[i].n_sent_before, N_ROW);
        }
        for (size_t i = 0; i < N_ROW; i++)
                assert_received_copy(&f->peers[i]);
}

/* Several parts of a row that is sent in two goes, of which the first is closed before. */
static void test_closed_when_the_room_is_full(void **state) {
        struct fixture *f = *state;
        struct act      acts[N_ROW];
        char            byte;

        for (size_t i = 0; i < N_ROW; i++)
                acts[i] = (struct act){ .peer = &f->peers[i], .run = write_copied };
        acts[1] = (struct act){ .peer = &f->peers[0], .run = close_peer };
        acts[N_ROW - 1] = (struct act){ .peer = &f->peers[2], .run = close_peer };
        run_together(f, acts, N_ROW);
        wait_for(f, &f->n_ends, N_ROW); /* two writes less, and two ends of connections */
        assert_int_equal(f->peers[0].n_failed, 1);
        assert_int_equal(recv(f->peers[0].far, &byte, 1, 0), 0);
        assert_int_equal(f->peers[2].n_failed, 1); /* it was sent: but nobody is there to go on */
        assert_received_copy(&f->peers[2]);
        for (size_t i = 3; i < N_ROW - 1; i++)
                assert_received_copy(&f->peers[i]);
}

static void drain(struct peer *p) {
        char  *got = mem_alloc(p->n_filled);

        assert_int_equal(recv(p->far, got, p->n_filled, MSG_WAITALL), p->n_filled);
        free(got);
}

/* In a row and alone: the bytes are copied before the call that wrote them returns. */
static void test_a_small_write_that_has_to_wait(void **state) {
        struct fixture *f = *state;
        struct act      acts[] = { { .peer = &f->peers[0], .run = fill },
                                   { .peer = &f->peers[0], .run = write_copied },
                                   { .peer = &f->peers[1], .run = write_copied } };

        run_together(f, acts, ARRAY_LEN(acts));
        wait_for(f, &f->n_ends, 1);
        run_alone(f, &f->peers[2], fill);
        run_alone(f, &f->peers[2], write_copied);
        assert_int_equal(f->peers[0].n_written, 0);
        assert_int_equal(f->peers[2].rc, CONN_WRITE_PENDING);
        run_together(f, &acts[2], 1); /* another copy into the same room */
        drain(&f->peers[0]);
        drain(&f->peers[2]);
        assert_received_copy(&f->peers[0]);
        assert_received_copy(&f->peers[2]);
        wait_for(f, &f->n_ends, 3);
        assert_int_equal(f->peers[0].n_written, 1);
        assert_int_equal(f->peers[2].n_written, 1);
}

static void test_closed_while_a_small_write_waits(void **state) {
        struct fixture *f = *state;

        run_alone(f, &f->peers[0], fill);
        run_alone(f, &f->peers[0], write_copied);
        assert_int_equal(f->peers[0].rc, CONN_WRITE_PENDING);
        run_alone(f, &f->peers[0], close_peer);
        wait_for(f, &f->n_ends, 2);
        assert_int_equal(f->peers[0].n_failed, 1);
        assert_true(f->peers[0].is_closed);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

SUITE(write_batch) {
        const struct CMUnitTest tests[] = {
                TEST(test_all_are_sent_before_one_is_told),
                TEST(test_a_lone_answer_is_written_at_once),
                TEST(test_many_parts_are_written_at_once),
                TEST(test_what_the_socket_does_not_take),
                TEST(test_closed_before_it_is_sent),
                TEST(test_shut_down_behind_the_bytes),
                TEST(test_nothing_behind_the_end),
                TEST(test_a_failure_is_told),
                cmocka_unit_test_setup_teardown(test_a_row_longer_than_the_room, set_up_row,
                                                tear_down),
                cmocka_unit_test_setup_teardown(test_closed_when_the_room_is_full, set_up_row,
                                                tear_down),
                TEST(test_a_small_write_that_has_to_wait),
                TEST(test_closed_while_a_small_write_waits),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
