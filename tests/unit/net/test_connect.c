/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections that this side begins, and exact alarms. Scripts run on the loop's thread; the test's thread
 * waits. */
#include "suite.h"

#include "base/clock.h"
#include "base/compiler.h"
#include "base/lock.h"
#include "net/alarm.h"
#include "net/conn.h"
#include "net/loop.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct script {
        struct loop_group *loops;
        struct loop       *loop;
        struct mail        mail;
        void (*begin)(struct script *s);
        struct sockaddr_in address;
        struct conn       *conn;
        struct alarm      *alarm;
        uint64_t           due_ns, fired_ns;
        int                n_fired;
        char               room[16], got[16];
        bool               was_connected, was_reset;

        struct mutex lock;
        struct cond  changed;
        bool         is_over;
};

static void end(struct script *s) {
        MUTEX_GUARD(&s->lock);

        s->is_over = true;
        cond_signal(&s->changed);
}

static void on_mail(struct mail *m) {
        struct script *s = CONTAINER_OF(m, struct script, mail);

        s->begin(s);
}

static void run(struct script *s, void (*begin)(struct script *s)) {
        s->begin = begin;
        s->mail.deliver = on_mail;
        mutex_init(&s->lock, LOCK_LEAF);
        cond_init(&s->changed);
        assert_null(loop_group_new("test", 1, &s->loops));
        s->loop = loop_group_get(s->loops, 0);
        mailbox_post(loop_mailbox(s->loop), &s->mail);
        mutex_lock(&s->lock);
        while (!s->is_over)
                cond_wait(&s->changed, &s->lock);
        mutex_unlock(&s->lock);
        loop_group_free(s->loops);
        cond_done(&s->changed);
        mutex_done(&s->lock);
}

/* ---- connections ---- */

static struct iovec on_room(struct conn *c) {
        struct script *s = conn_owner(c);

        return (struct iovec){ s->room, sizeof(s->room) };
}

static void on_read(struct conn *c, size_t n) {
        struct script *s = conn_owner(c);

        memcpy(s->got, s->room, n);
        conn_close(c);
}

static void on_end(struct conn *c, bool is_reset) {
        struct script *s = conn_owner(c);

        s->was_reset = is_reset;
        conn_close(c);
}

static void on_connected(struct conn *c) {
        struct script *s = conn_owner(c);

        s->was_connected = true;
        conn_read_start(c);
        assert_int_equal(conn_write(c, &(struct iovec){ (char[]){ "hello" }, 5 }, 1),
                         CONN_WRITE_DONE);
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
        end(conn_owner(c));
}

static const struct conn_ops ops = { .on_room = on_room,
                                     .on_read = on_read,
                                     .on_end = on_end,
                                     .on_written = on_written,
                                     .on_tick = on_tick,
                                     .on_connected = on_connected,
                                     .on_closed = on_closed };

static void begin_connect(struct script *s) {
        assert_null(conn_connect(s->loop, (struct sockaddr *)&s->address, &ops, s, &s->conn));
}

static int listen_on(struct sockaddr_in *address) {
        int       fd = socket(AF_INET, SOCK_STREAM, 0);
        socklen_t len = sizeof(*address);

        *address = (struct sockaddr_in){ .sin_family = AF_INET,
                                         .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        assert_int_equal(bind(fd, (struct sockaddr *)address, len), 0);
        assert_int_equal(getsockname(fd, (struct sockaddr *)address, &len), 0);
        return fd;
}

static void *echo(void *fd) {
        int     peer = accept(*(int *)fd, NULL, NULL);
        char    bytes[16];
        ssize_t n = read(peer, bytes, sizeof(bytes));

        if (n > 0)
                n = write(peer, bytes, (size_t)n);
        close(peer);
        return NULL;
}

static void test_connect(void **state) {
        struct script s = { 0 };
        int           fd = listen_on(&s.address);
        pthread_t     thread;

        (void)state;
        assert_int_equal(listen(fd, 1), 0);
        assert_int_equal(pthread_create(&thread, NULL, echo, &fd), 0);
        run(&s, begin_connect);
        pthread_join(thread, NULL);
        close(fd);
        assert_true(s.was_connected);
        assert_string_equal(s.got, "hello");
}

/* A port that is bound, but not listened on. */
static void test_refused(void **state) {
        struct script s = { 0 };
        int           fd = listen_on(&s.address);

        (void)state;
        run(&s, begin_connect);
        close(fd);
        assert_false(s.was_connected);
        assert_true(s.was_reset);
}

/* ---- alarms ---- */

static void on_alarm(void *owner) {
        struct script *s = owner;

        s->fired_ns = clock_now_ns();
        if (++s->n_fired == 1) {
                s->due_ns = 1; /* long past */
                alarm_arm(s->alarm, s->due_ns);
                return;
        }
        alarm_close(s->alarm);
        end(s);
}

static void begin_alarm(struct script *s) {
        assert_null(alarm_open(s->loop, on_alarm, s, &s->alarm));
        s->due_ns = clock_now_ns() + 300 * NS_PER_US;
        alarm_arm(s->alarm, CLOCK_NEVER);
        alarm_arm(s->alarm, s->due_ns);
}

/* Never early, and once for each time it is armed. */
static void test_alarm(void **state) {
        struct script s = { 0 };
        uint64_t      begin_ns = clock_now_ns();

        (void)state;
        run(&s, begin_alarm);
        assert_int_equal(s.n_fired, 2);
        assert_true(s.fired_ns >= begin_ns + 300 * NS_PER_US);
}

SUITE(connect) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_connect),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_alarm),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
