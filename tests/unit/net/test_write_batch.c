/* SPDX-License-Identifier: BSD-3-Clause */
/* What the far ends of connections read, and what the owners are notified of, when several answers are
 * written in one round of a loop: conn_write_soon(). Each row is a story.
 */
#include "suite.h"

#include "base/compiler.h"
#include "base/lock.h"
#include "base/mem.h"
#include "net/conn.h"
#include "net/loop.h"
#include "net/mailbox.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define N_PEERS ((size_t)64)  /* whose copied writes are more than a batch has room for */
#define N_ROLES ((size_t)4)   /* peers 0, 1 and 2; 3 are all others */
#define BIG ((size_t)8 << 20) /* more than a socket takes */
#define MAX_STEPS 6

/* A step is a list of a verb and a peer, where 3 means each of the other ones. Those of one step reach the
 * loop together:
 *
 *     w p c b  write (`writes`)              s  shuts the connection down
 *     f        fills the socket until it     x  closes it
 *              takes nothing more            o  opens it
 *
 * Capital letters are the far ends, one after the other:
 *
 *     H  hangs up     D  reads what filled the socket     N  asserts that the owner was notified of nothing
 *
 * "=2" waits until the owners were notified of two things: ends of writes or closed connections.
 *
 * The ends are, for each peer, what conn_write_soon() said of the last write: P pending, D done, F failed, - there
 * was none; the notification: w written, f failed, - none; and what the far end has to read: the verbs of writes,
 * and $ for the end. NULL is "--".
 */
struct row {
        const char *name;
        const char *steps[MAX_STEPS];
        const char *ends[N_ROLES];
        bool        is_together; /* all bytes have arrived when the first owner is notified */
};

static const struct row rows[] = {
        { "all are sent before one owner is notified",
          { "w0w1w2" },
          { "Pww", "Pww", "Pww" },
          true },
        { "more than a batch has room for", { "c0c1c2c3" }, { "Pwc", "Pwc", "Pwc", "Pwc" }, true },
        { "a lone answer is written at once", { "w0" }, { "D-w" }, false },
        { "many parts are written at once", { "p0w1" }, { "D-p", "Pww" }, false },
        { "what the socket does not take", { "b0w1", "=1", "N0" }, { "Pwb", "Pww" }, false },
        { "closed before it is sent", { "w0w1x0" }, { "Pf$", "Pww" }, false },
        /* The last one was sent, but its owner is not there to go on. */
        { "closed, and another one when the batch is full",
          { "c0x0c2c3x2" },
          { "Pf$", NULL, "Pfc$", "Pwc" },
          false },
        { "shut down after the bytes", { "w0s0" }, { "Pww$" }, false },
        { "nothing is written after the end", { "s0w0w1" }, { "F-$", "Pww" }, false },
        { "the far end has hung up", { "H0", "w0w1" }, { "Pf", "Pww" }, false },
        { "a small write waits for room, in a batch and alone, while another one is written",
          { "f0c0c1", "=1", "f2", "c2", "N0N2c1", "D0D2" },
          { "Pwc", "Dwcc", "Pwc" },
          false },
        { "closed while a small write waits", { "f0", "c0", "x0" }, { "Pf" }, false },
};

static const struct write {
        char   letter;
        size_t n_parts, bytes;
} writes[] = {
        { 'w', 2, 6 },
        { 'p', 8, 8 }, /* more parts than a batch takes */
        { 'c', 2, CONN_SMALL_WRITE },
        { 'b', 2, BIG }, /* the connection borrows it, and copies the others */
};

static const struct write *find_write(char letter) {
        for (size_t i = 0; i < ARRAY_LEN(writes); i++)
                if (writes[i].letter == letter)
                        return &writes[i];
        return NULL;
}

struct fixture;

struct peer {
        struct fixture  *fixture;
        struct conn     *conn;
        int              far;  /* the test's end of the socket; -1 after it hung up */
        int              near; /* the connection's */
        size_t           n_filled;
        enum conn_write  rc; /* of conn_write_soon() */
        bool             has_written, is_closed;
        _Atomic unsigned n_written, n_failed; /* the test looks while the loop goes on */
        unsigned         n_sent_before; /* peers whose bytes had arrived at the notification */
        char             byte;
};

/* One verb, on the loop. */
struct act {
        struct mail  mail;
        struct peer *peer;
        char         verb;
};

struct fixture {
        struct loop_group *loops;
        struct mutex       lock;
        struct cond        changed;
        size_t             n_acts; /* that have run */
        size_t             n_ends; /* on_written() and on_closed() */
        struct peer        peers[N_PEERS];
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

static void on_read(struct conn *c, size_t n) {
        (void)c;
        (void)n;
}

static void on_end(struct conn *c, bool is_reset) {
        (void)c;
        (void)is_reset;
}

static void on_tick(struct conn *c, uint64_t now_ns) {
        (void)c;
        (void)now_ns;
}

static void on_written(struct conn *c, bool is_ok) {
        struct peer    *p = conn_owner(c);
        struct fixture *f = p->fixture;

        assert_false(conn_is_writing(c));
        if (is_ok)
                p->n_written++;
        else
                p->n_failed++;
        for (size_t i = 0; i < N_PEERS; i++)
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

static void open_peer(struct peer *p) {
        struct fixture *f = p->fixture;
        int             fds[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
        p->far = fds[1];
        p->near = fds[0];
        assert_null(conn_open(loop_group_get(f->loops, 0), fds[0], &ops, p, &p->conn));
}

static char letter_of(const struct peer *p) {
        return (char)('a' + (p - p->fixture->peers) % 26);
}

/* A small write is gone from the memory when the call returns. */
static void write_soon(struct peer *p, const struct write *w) {
        struct iovec parts[8];
        char         small[CONN_SMALL_WRITE];
        char        *bytes = w->bytes <= sizeof(small) ? small : p->fixture->big;

        memset(bytes, letter_of(p), w->bytes);
        for (size_t i = 0; i < w->n_parts; i++)
                parts[i] = (struct iovec){ bytes + i * (w->bytes / w->n_parts),
                                           w->bytes / w->n_parts };
        p->has_written = true;
        p->rc = conn_write_soon(p->conn, parts, w->n_parts);
        memset(small, '-', sizeof(small));
        assert_int_equal(conn_is_writing(p->conn), p->rc == CONN_WRITE_PENDING);
        if (p->rc != CONN_WRITE_PENDING)
                return;
        assert_int_equal(conn_unwritten_bytes(p->conn), w->bytes);
        assert_int_equal(has_arrived(p), p->n_filled > 0);
}

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

static void on_act(struct mail *m) {
        struct act     *a = CONTAINER_OF(m, struct act, mail);
        struct fixture *f = a->peer->fixture;

        switch (a->verb) {
        case 'o': open_peer(a->peer); break;
        case 'f': fill(a->peer); break;
        case 's': conn_shutdown(a->peer->conn); break;
        case 'x': close_peer(a->peer); break;
        default: write_soon(a->peer, find_write(a->verb)); break;
        }
        count(f, &f->n_acts); /* the act may be gone now */
}

/* All in one delivery; returns when each has run. */
static void run_together(struct fixture *f, struct act *acts, size_t n) {
        struct mailbox *box = loop_mailbox(loop_group_get(f->loops, 0));
        size_t          before = f->n_acts;
        bool            must_wake = false;

        for (size_t i = 0; i < n; i++)
                must_wake = mailbox_post_without_wake(box, &acts[i].mail) || must_wake;
        assert_true(must_wake);
        mailbox_wake(box);
        wait_for(f, &f->n_acts, before + n);
}

/* ---- the far ends ---- */

static void assert_reads(struct peer *p, size_t n, char letter) {
        char *got = mem_alloc(n);

        assert_int_equal(recv(p->far, got, n, MSG_WAITALL), n);
        for (size_t i = 0; i < n; i++)
                if (got[i] != letter)
                        fail_msg("byte %zu is '%c' instead of '%c'", i, got[i], letter);
        free(got);
}

static void assert_reads_end(struct peer *p) {
        char byte;

        assert_int_equal(recv(p->far, &byte, 1, 0), 0);
}

static void run_far(struct peer *p, char verb) {
        switch (verb) {
        case 'H':
                close(p->far);
                p->far = -1;
                break;
        case 'D': assert_reads(p, p->n_filled, '\0'); break;
        default: assert_int_equal(p->n_written + p->n_failed, 0); break;
        }
}

/* ---- stories ---- */

static size_t first_of(char role) {
        return (size_t)(role - '0');
}

static size_t after(char role) {
        return role == '3' ? N_PEERS : first_of(role) + 1;
}

static void run_step(struct fixture *f, const char *step) {
        struct act acts[N_PEERS + MAX_STEPS];
        size_t     n = 0;

        for (; *step != '\0'; step += 2)
                for (size_t i = first_of(step[1]); i < after(step[1]); i++)
                        if (isupper((unsigned char)*step)) {
                                run_far(&f->peers[i], *step);
                        } else {
                                assert_true(n < ARRAY_LEN(acts));
                                acts[n++] = (struct act){ .mail.deliver = on_act,
                                                          .peer = &f->peers[i],
                                                          .verb = *step };
                        }
        if (n > 0)
                run_together(f, acts, n);
}

static struct fixture *open_fixture(void) {
        struct fixture *f = mem_zalloc(sizeof(*f));

        mutex_init(&f->lock, LOCK_LEAF);
        cond_init(&f->changed);
        f->big = mem_zalloc(BIG);
        assert_null(loop_group_new("test", 1, &f->loops));
        for (size_t i = 0; i < N_PEERS; i++)
                f->peers[i].fixture = f;
        run_step(f, "o0o1o2o3");
        return f;
}

static void close_fixture(struct fixture *f) {
        run_step(f, "x0x1x2x3");
        loop_group_free(f->loops);
        for (size_t i = 0; i < N_PEERS; i++) {
                assert_true(f->peers[i].is_closed);
                if (f->peers[i].far >= 0)
                        close(f->peers[i].far);
        }
        free(f->big);
        cond_done(&f->changed);
        mutex_done(&f->lock);
        free(f);
}

static void assert_written(const struct peer *p, char rc, char reported) {
        static const char letters[] = {
                [CONN_WRITE_DONE] = 'D', [CONN_WRITE_PENDING] = 'P', [CONN_WRITE_FAILED] = 'F'
        };

        assert_int_equal(p->has_written ? letters[p->rc] : '-', rc);
        assert_int_equal(p->n_written, reported == 'w');
        assert_int_equal(p->n_failed, reported == 'f');
}

static const char *end_of(const struct row *row, size_t peer) {
        const char *end = row->ends[peer < N_ROLES ? peer : N_ROLES - 1];

        return end != NULL ? end : "--";
}

static size_t count_notifications(const struct row *row) {
        size_t n = 0;

        for (size_t i = 0; i < N_PEERS; i++)
                n += end_of(row, i)[1] != '-';
        for (size_t i = 0; i < MAX_STEPS && row->steps[i] != NULL; i++)
                for (const char *at = row->steps[i]; *at != '\0'; at++)
                        n += *at == 'x';
        return n;
}

static void assert_end(struct fixture *f, const struct row *row) {
        size_t n = count_notifications(row);

        if (row->is_together) /* before anything is read, since the notifications look at it */
                wait_for(f, &f->n_ends, n);
        for (size_t i = 0; i < N_PEERS; i++)
                for (const char *what = end_of(row, i) + 2; *what != '\0'; what++)
                        if (*what == '$')
                                assert_reads_end(&f->peers[i]);
                        else
                                assert_reads(&f->peers[i], find_write(*what)->bytes,
                                             letter_of(&f->peers[i]));
        wait_for(f, &f->n_ends, n);
        assert_int_equal(f->n_ends, n);
        for (size_t i = 0; i < N_PEERS; i++) {
                const char *end = end_of(row, i);

                assert_written(&f->peers[i], end[0], end[1]);
                if (row->is_together && end[1] == 'w')
                        assert_int_equal(f->peers[i].n_sent_before, n);
        }
}

static void test_stories(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct fixture *f = open_fixture();

                print_message("%s\n", rows[i].name);
                for (size_t k = 0; k < MAX_STEPS && rows[i].steps[k] != NULL; k++)
                        if (rows[i].steps[k][0] == '=')
                                wait_for(f, &f->n_ends, strtoul(rows[i].steps[k] + 1, NULL, 10));
                        else
                                run_step(f, rows[i].steps[k]);
                assert_end(f, &rows[i]);
                close_fixture(f);
        }
}

SUITE(write_batch) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_stories),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
