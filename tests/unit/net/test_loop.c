/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "base/heap_end.h"
#include "net/loop.h"
#include "net/mailbox.h"
#include "net/uv_types.h"

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include <uv.h>

#define N_ROUNDS 20

int __real_uv_loop_init(uv_loop_t *loop);
int __wrap_uv_loop_init(uv_loop_t *loop);

static atomic_uint n_here, n_elsewhere; /* loops that the main thread opened, and that others did */

int __wrap_uv_loop_init(uv_loop_t *loop) {
        atomic_fetch_add(gettid() == getpid() ? &n_here : &n_elsewhere, 1);
        return __real_uv_loop_init(loop);
}

void __real_heap_end_trim(void);
void __wrap_heap_end_trim(void);

static _Thread_local sem_t
        *is_trimmed; /* borrowed: posted when this thread returns memory; or NULL */

void __wrap_heap_end_trim(void) {
        __real_heap_end_trim();
        if (is_trimmed != NULL)
                sem_post(is_trimmed);
}

/* Also the first loop of the process, which libuv opens with more descriptors. An end that interrupts
 * shows only with some versions of libuv. */
static void test_the_caller_opens_none(void **state) {
        struct loop_group *g;

        (void)state;
        assert_null(loop_group_new("test", 2, &g));
        loop_group_free(g);
        assert_int_equal(atomic_load(&n_here), 0);
        assert_int_equal(atomic_load(&n_elsewhere), 3);
}

/* A call with a limit of time is not started again by the kernel: it shows each interruption. What
 * is waited for is that nothing happens. */
static void test_its_end_interrupts_nobody(void **state) {
        const struct timeval limit = { .tv_usec = 20000 };
        int                  ends[2];

        (void)state;
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
        assert_int_equal(setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
        for (int i = 0; i < N_ROUNDS; i++) {
                struct loop_group *g;
                char               byte;

                assert_null(loop_group_new("test", 2, &g));
                loop_group_free(g);
                assert_int_equal(recv(ends[0], &byte, 1, 0), -1);
                assert_int_equal(errno, EAGAIN);
        }
        close(ends[0]);
        close(ends[1]);
}

static void test_size_and_indexes(void **state) {
        struct loop_group *g;

        (void)state;
        assert_null(loop_group_new("test", 3, &g));
        assert_int_equal(loop_group_size(g), 3);
        for (size_t i = 0; i < 3; i++) {
                assert_int_equal(loop_index(loop_group_get(g, i)), i);
                assert_int_equal(loop_n_conns(loop_group_get(g, i)), 0);
                assert_false(loop_is_current(loop_group_get(g, i)));
        }
        loop_group_free(g);
}

/* A connection on a loop, of which nothing more is needed than that it was there. */
struct visit {
        struct mail  mail;
        struct loop *loop; /* borrowed */
        sem_t        trimmed;
};

static void visit(struct mail *m) {
        struct visit *v = CONTAINER_OF(m, struct visit, mail);

        is_trimmed = &v->trimmed;
        loop_conn_added(v->loop);
        loop_conn_removed(v->loop);
}

/* After one connection, too, which makes no loop busy: its answer may have taken megabytes. */
static void test_a_quiet_loop_returns_its_heaps_end(void **state) {
        struct loop_group *g;
        struct visit       v;

        (void)state;
        assert_null(loop_group_new("test", 1, &g));
        v.loop = loop_group_get(g, 0);
        v.mail.deliver = visit;
        sem_init(&v.trimmed, 0, 0);
        mailbox_post(loop_mailbox(v.loop), &v.mail);
        while (sem_wait(&v.trimmed) != 0)
                continue;
        loop_group_free(g);
        sem_destroy(&v.trimmed);
}

SUITE(loop) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_the_caller_opens_none),
                cmocka_unit_test(test_its_end_interrupts_nobody),
                cmocka_unit_test(test_size_and_indexes),
                cmocka_unit_test(test_a_quiet_loop_returns_its_heaps_end),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
