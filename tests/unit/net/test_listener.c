/* SPDX-License-Identifier: BSD-3-Clause */
/* A listener: without descriptors, without places, with a backlog. */
#include "suite.h"

#include "base/compiler.h"
#include "base/lock.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/uv_types.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static struct {
        struct mutex           lock;
        struct cond            changed;
        unsigned               n_failed;    /* accepts, for want of a descriptor */
        unsigned               steal_after; /* so many of them the spare descriptor; 0: never */
        unsigned               n_stolen;
        int                    stolen;
        unsigned               n_accepted;
        const struct listener *closing; /* clients connect whenever its backlog is empty */
        int                    late[4];
        unsigned               n_late;
} seen;

/* A loop that stands still while `mail` waits. */
static struct {
        struct mail mail;
        bool        is_held, is_released;
        uint64_t    rounds[100]; /* of the loop, in which it opened each connection */
        unsigned    n_opened;
} busy;

static void connect_late(void);

int __real_accept4(int fd, struct sockaddr *address, socklen_t *len, int flags);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *len, int flags);

/* In the place of accept4(): somebody else is quicker when the spare descriptor is given up. */
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *len, int flags) {
        MUTEX_GUARD(&seen.lock);
        int accepted;

        if (seen.steal_after > 0 && seen.n_failed == seen.steal_after) {
                seen.steal_after = 0;
                seen.stolen = open("/dev/null", O_RDONLY | O_CLOEXEC);
                seen.n_stolen++;
                cond_broadcast(&seen.changed);
        }
        accepted = __real_accept4(fd, address, len, flags);
        if (accepted < 0 && errno == EMFILE) {
                seen.n_failed++;
                cond_broadcast(&seen.changed);
        }
        if (accepted < 0 && errno == EAGAIN && seen.closing != NULL &&
            seen.n_late < ARRAY_LEN(seen.late)) {
                connect_late();
                errno = EAGAIN;
        }
        return accepted;
}

static void on_accept(void *owner, struct loop *l, int fd) {
        MUTEX_GUARD(&seen.lock);

        (void)owner;
        (void)l;
        seen.n_accepted++;
        close(fd);
        cond_broadcast(&seen.changed);
}

static void wait_for(const unsigned *counter, unsigned n) {
        MUTEX_GUARD(&seen.lock);

        while (*counter < n)
                cond_wait(&seen.changed, &seen.lock);
}

static unsigned n_accepted(void) {
        MUTEX_GUARD(&seen.lock);

        return seen.n_accepted;
}

static int new_socket(void) {
        const struct timeval limit = { .tv_sec = 20 };
        int                  fd = socket(AF_INET, SOCK_STREAM, 0);

        assert_true(fd >= 0);
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
        return fd;
}

static void connect_to(const struct listener *ln, int fd) {
        const struct sockaddr_in address = { .sin_family = AF_INET,
                                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                             .sin_port = htons(listener_port(ln)) };

        assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
}

static void connect_late(void) {
        const struct sockaddr_in address = { .sin_family = AF_INET,
                                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                             .sin_port = htons(listener_port(seen.closing)) };
        int                      fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

        assert_true(fd >= 0);
        connect(fd, (const struct sockaddr *)&address, sizeof(address));
        seen.late[seen.n_late++] = fd;
}

static void expect_end(int fd) {
        char    c;
        ssize_t n = recv(fd, &c, 1, 0);

        assert_true(n == 0 || (n < 0 && errno == ECONNRESET));
}

/* The lowest descriptor that is free is one too many: there is none. None may be closed and opened
 * again while that holds: accept4() takes the lowest one for a moment, also when nobody connects. */
static void use_up_descriptors(struct rlimit *before) {
        struct rlimit now;
        int           lowest = dup(0);

        assert_true(lowest > 0);
        close(lowest);
        getrlimit(RLIMIT_NOFILE, before);
        now = *before;
        now.rlim_cur = (rlim_t)lowest;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
}

static void begin(struct loop_group **loops, struct listener **ln) {
        struct listener_options o = { .address = "127.0.0.1", .on_accept = on_accept };

        seen.n_failed = seen.n_accepted = seen.steal_after = seen.n_stolen = 0;
        mutex_init(&seen.lock, LOCK_SERVER);
        cond_init(&seen.changed);
        assert_null(loop_group_new("test", 1, loops));
        o.loops = *loops;
        assert_null(listener_open(&o, ln));
}

static void end(struct loop_group *loops, struct listener *ln) {
        listener_close(ln);
        loop_group_free(loops);
        cond_done(&seen.changed);
        mutex_done(&seen.lock);
}

/* Clients are refused at once while there is none, also after the spare one was lost. */
static void test_spare_descriptor(void **state) {
        struct loop_group *loops;
        struct listener   *ln;
        struct rlimit      before;
        int                clients[4];

        (void)state;
        begin(&loops, &ln);
        listener_start(ln);
        for (size_t i = 0; i < ARRAY_LEN(clients); i++)
                clients[i] = new_socket();
        use_up_descriptors(&before);
        connect_to(ln, clients[0]);
        expect_end(clients[0]);

        mutex_lock(&seen.lock);
        seen.steal_after = seen.n_failed + 1;
        mutex_unlock(&seen.lock);
        connect_to(ln, clients[1]);
        wait_for(&seen.n_stolen, 1);
        close(seen.stolen);
        expect_end(clients[1]);
        connect_to(ln, clients[2]);
        expect_end(clients[2]);
        assert_int_equal(n_accepted(), 0);

        setrlimit(RLIMIT_NOFILE, &before);
        connect_to(ln, clients[3]);
        wait_for(&seen.n_accepted, 1);
        expect_end(clients[3]);
        for (size_t i = 0; i < ARRAY_LEN(clients); i++)
                close(clients[i]);
        end(loops, ln);
}

/* Who has connected before the end is taken, also when nobody has looked at the backlog yet. */
static void test_close_with_a_backlog(void **state) {
        struct loop_group *loops;
        struct listener   *ln;
        int                clients[10];

        (void)state;
        begin(&loops, &ln);
        for (size_t i = 0; i < ARRAY_LEN(clients); i++) {
                clients[i] = new_socket();
                connect_to(ln, clients[i]);
        }
        listener_start(ln);
        end(loops, ln);
        assert_int_equal(seen.n_accepted, ARRAY_LEN(clients));
        for (size_t i = 0; i < ARRAY_LEN(clients); i++) {
                expect_end(clients[i]);
                close(clients[i]);
        }
}

/* A client that connects while the listener closes is either served or never connected: no connection
 * that the kernel accepted is reset. */
static void test_close_while_clients_connect(void **state) {
        struct loop_group *loops;
        struct listener   *ln;
        char               c;

        (void)state;
        begin(&loops, &ln);
        listener_start(ln);
        mutex_lock(&seen.lock);
        seen.n_late = 0;
        seen.closing = ln;
        mutex_unlock(&seen.lock);
        end(loops, ln);
        seen.closing = NULL;
        assert_true(seen.n_late > 0);
        for (size_t i = 0; i < seen.n_late; i++) {
                ssize_t n = recv(seen.late[i], &c, 1, 0);

                assert_true(n == 0 || (n < 0 && errno != ECONNRESET));
                close(seen.late[i]);
        }
}

static void hold_loop(struct mail *m) {
        MUTEX_GUARD(&seen.lock);

        (void)m;
        busy.is_held = true;
        cond_broadcast(&seen.changed);
        while (!busy.is_released)
                cond_wait(&seen.changed, &seen.lock);
}

static void on_opened(void *owner, struct loop *l, int fd) {
        MUTEX_GUARD(&seen.lock);

        (void)owner;
        assert_int_equal(loop_index(l), 1);
        busy.rounds[busy.n_opened++] = l->turns.round;
        close(fd);
        cond_broadcast(&seen.changed);
}

static bool note_accepted(void *owner) {
        MUTEX_GUARD(&seen.lock);

        (void)owner;
        seen.n_accepted++;
        cond_broadcast(&seen.changed);
        return true;
}

/* A loop that finds many connections opens a few of them in each round, all in the end. */
static void test_a_few_in_each_round(void **state) {
        struct listener_options o = { .address = "127.0.0.1",
                                      .on_accept = on_opened,
                                      .can_accept = note_accepted };
        struct loop_group      *loops;
        struct listener        *ln;
        int                     fds[ARRAY_LEN(busy.rounds)];
        unsigned                n_same = 0;

        (void)state;
        seen.n_accepted = 0;
        mutex_init(&seen.lock, LOCK_SERVER);
        cond_init(&seen.changed);
        assert_null(loop_group_new("test", 2, &loops));
        atomic_store(&loop_group_get(loops, 0)->n_conns, 1000); /* the other one is less busy */
        o.loops = loops;
        assert_null(listener_open(&o, &ln));
        busy.mail.deliver = hold_loop;
        mailbox_post(loop_mailbox(loop_group_get(loops, 1)), &busy.mail);
        listener_start(ln);
        for (size_t i = 0; i < ARRAY_LEN(fds); i++)
                connect_to(ln, fds[i] = new_socket());
        wait_for(&seen.n_accepted, ARRAY_LEN(fds));
        mutex_lock(&seen.lock);
        while (!busy.is_held)
                cond_wait(&seen.changed, &seen.lock);
        busy.is_released = true;
        cond_broadcast(&seen.changed);
        mutex_unlock(&seen.lock);
        wait_for(&busy.n_opened, ARRAY_LEN(fds));
        for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
                n_same = i > 0 && busy.rounds[i] == busy.rounds[i - 1] ? n_same + 1 : 1;
                assert_true(n_same <= 16);
                expect_end(fds[i]);
                close(fds[i]);
        }
        atomic_store(&loop_group_get(loops, 0)->n_conns, 0);
        end(loops, ln);
}

/* Places for connections: one becomes free when a connection arrives at its loop. */
static struct {
        unsigned n_free;
        unsigned n_asked, n_arrived, n_refused;
        struct loop *
                late; /* connections arrive there before an answer in vain is used; NULL: when they may */
        struct mail last; /* the loop delivers it after them */
        bool        is_last_delivered;
} places;

static void on_last(struct mail *m) {
        MUTEX_GUARD(&seen.lock);

        (void)m;
        places.is_last_delivered = true;
        cond_broadcast(&seen.changed);
}

static void let_arrive_locked(void) {
        busy.is_released = true;
        cond_broadcast(&seen.changed);
        places.last.deliver = on_last;
        mailbox_post(loop_mailbox(STEAL(places.late)), &places.last);
        while (!places.is_last_delivered)
                cond_wait(&seen.changed, &seen.lock);
}

static bool take_place(void *owner) {
        bool is_free;
        MUTEX_GUARD(&seen.lock);

        (void)owner;
        is_free = places.n_free > 0;
        places.n_free -= is_free ? 1 : 0;
        places.n_asked++;
        cond_broadcast(&seen.changed);
        if (!is_free && places.late != NULL)
                let_arrive_locked();
        return is_free;
}

static void on_arrived(void *owner, struct loop *l, int fd) {
        MUTEX_GUARD(&seen.lock);

        (void)owner;
        (void)l;
        close(fd);
        places.n_free++;
        places.n_arrived++;
        cond_broadcast(&seen.changed);
}

/* Also lets the loop go on that a test holds. */
static void on_refused(void *owner) {
        MUTEX_GUARD(&seen.lock);

        (void)owner;
        places.n_refused++;
        busy.is_released = true;
        cond_broadcast(&seen.changed);
}

/* A listener with that many places, whose connections go to the second loop. That is held. */
static void begin_with_places(unsigned n, struct loop_group **ret_loops, struct listener **ret) {
        struct listener_options o = { .address = "127.0.0.1",
                                      .on_accept = on_arrived,
                                      .can_accept = take_place,
                                      .on_refused = on_refused };

        memset(&places, 0, sizeof(places));
        places.n_free = n;
        busy.is_held = busy.is_released = false;
        mutex_init(&seen.lock, LOCK_SERVER);
        cond_init(&seen.changed);
        assert_null(loop_group_new("test", 2, ret_loops));
        atomic_store(&loop_group_get(*ret_loops, 0)->n_conns, 1000);
        o.loops = *ret_loops;
        assert_null(listener_open(&o, ret));
        busy.mail.deliver = hold_loop;
        mailbox_post(loop_mailbox(loop_group_get(*ret_loops, 1)), &busy.mail);
        listener_start(*ret);
}

static void end_with_places(struct loop_group *loops, struct listener *ln) {
        atomic_store(&loop_group_get(loops, 0)->n_conns, 0);
        end(loops, ln);
}

/* A connection without a place is not refused while an earlier one, which may free a place, is on its way. */
static void test_wait_for_a_place(void **state) {
        struct loop_group *loops;
        struct listener   *ln;
        int                fds[5];

        (void)state;
        begin_with_places(1, &loops, &ln);
        for (size_t i = 0; i < ARRAY_LEN(fds); i++)
                connect_to(ln, fds[i] = new_socket());
        wait_for(&places.n_asked, 2); /* for the first one, and in vain for the second */
        mutex_lock(&seen.lock);
        busy.is_released = true;
        cond_broadcast(&seen.changed);
        mutex_unlock(&seen.lock);
        wait_for(&places.n_arrived, ARRAY_LEN(fds));
        assert_int_equal(places.n_refused, 0);
        for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
                expect_end(fds[i]);
                close(fds[i]);
        }
        end_with_places(loops, ln);
}

/* The last one arrives between the question for a place and the look for others on their way. */
static void test_place_that_becomes_free_meanwhile(void **state) {
        struct loop_group *loops;
        struct listener   *ln;
        int                fds[2];

        (void)state;
        begin_with_places(1, &loops, &ln);
        mutex_lock(&seen.lock);
        places.late = loop_group_get(loops, 1);
        mutex_unlock(&seen.lock);
        for (size_t i = 0; i < ARRAY_LEN(fds); i++)
                connect_to(ln, fds[i] = new_socket());
        for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
                expect_end(fds[i]);
                close(fds[i]);
        }
        end_with_places(loops, ln);
        assert_int_equal(places.n_refused, 0);
        assert_int_equal(places.n_arrived, ARRAY_LEN(fds));
        assert_int_equal(places.n_asked, 3);
}

static void test_refused_when_none_is_on_its_way(void **state) {
        struct loop_group *loops;
        struct listener   *ln;
        int                fd = new_socket();

        (void)state;
        begin_with_places(0, &loops, &ln);
        connect_to(ln, fd);
        wait_for(&places.n_refused, 1);
        expect_end(fd);
        close(fd);
        assert_int_equal(places.n_asked, 1);
        end_with_places(loops, ln);
}

/* A listener that closes does not wait for a place. */
static void test_close_while_one_waits(void **state) {
        struct loop_group *loops;
        struct listener   *ln;
        int                fds[2];

        (void)state;
        begin_with_places(1, &loops, &ln);
        for (size_t i = 0; i < ARRAY_LEN(fds); i++)
                connect_to(ln, fds[i] = new_socket());
        wait_for(&places.n_asked, 2);
        end_with_places(loops, ln); /* on_refused() lets the second loop go on */
        assert_int_equal(places.n_refused, 1);
        assert_int_equal(places.n_arrived, 1);
        for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
                expect_end(fds[i]);
                close(fds[i]);
        }
}

/* A socket that a supervisor has opened: it is still open, and takes connections, after the listener has gone. */
static void test_inherited_socket(void **state) {
        struct sockaddr_in      address = { .sin_family = AF_INET,
                                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        struct listener_options o = { .on_accept = on_accept };
        struct loop_group      *loops;
        struct listener        *ln;
        int                     fd = socket(AF_INET, SOCK_STREAM, 0), kept, client;

        (void)state;
        memset(&seen, 0, sizeof(seen));
        mutex_init(&seen.lock, LOCK_LEAF);
        cond_init(&seen.changed);
        assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
        assert_int_equal(listen(fd, 8), 0);
        kept = dup(fd);
        assert_null(loop_group_new("test", 1, &loops));
        o.loops = loops;
        o.inherited_fd = fd;
        assert_null(listener_open(&o, &ln));
        assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
        listener_start(ln);
        connect_to(ln, client = new_socket());
        wait_for(&seen.n_accepted, 1);
        close(client);
        address.sin_port = htons(listener_port(ln));
        end(loops, ln);

        client = new_socket();
        assert_int_equal(connect(client, (const struct sockaddr *)&address, sizeof(address)), 0);
        fd = accept(kept, NULL, NULL);
        assert_true(fd >= 0);
        close(fd);
        close(client);
        close(kept);
}

static void test_inherited_descriptor_that_does_not_listen(void **state) {
        struct listener_options o = { .on_accept = on_accept };
        struct loop_group      *loops;
        struct listener        *ln = NULL;
        struct error           *err;
        int  fds[2] = { socket(AF_INET, SOCK_STREAM, 0), open("/dev/null", O_RDONLY) };
        char text[64];

        (void)state;
        assert_null(loop_group_new("test", 1, &loops));
        o.loops = loops;
        for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
                o.inherited_fd = fds[i];
                err = listener_open(&o, &ln);
                snprintf(text, sizeof(text), "descriptor %d is not a listening TCP socket", fds[i]);
                assert_non_null(err);
                assert_string_equal(err->message, text);
                error_free(err);
                assert_int_equal(fcntl(fds[i], F_GETFD), -1); /* closed */
        }
        loop_group_free(loops);
}

SUITE(listener) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_spare_descriptor),
                cmocka_unit_test(test_close_with_a_backlog),
                cmocka_unit_test(test_close_while_clients_connect),
                cmocka_unit_test(test_a_few_in_each_round),
                cmocka_unit_test(test_wait_for_a_place),
                cmocka_unit_test(test_place_that_becomes_free_meanwhile),
                cmocka_unit_test(test_refused_when_none_is_on_its_way),
                cmocka_unit_test(test_close_while_one_waits),
                cmocka_unit_test(test_inherited_socket),
                cmocka_unit_test(test_inherited_descriptor_that_does_not_listen),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
