/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

/* The order check of locks is compiled in here whatever the build says: the file itself is
 * included, and its definitions come before those of the library. */
#ifndef LOCK_CHECK
#define LOCK_CHECK
#endif
#include "base/compiler.h"
#include "base/lock.c"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static struct mutex queue, metric, second_queue;

static int set_up(void **state) {
        (void)state;
        mutex_init(&queue, LOCK_QUEUE);
        mutex_init(&second_queue, LOCK_QUEUE);
        mutex_init(&metric, LOCK_METRIC);
        return 0;
}

static int tear_down(void **state) {
        (void)state;
        mutex_done(&queue);
        mutex_done(&second_queue);
        mutex_done(&metric);
        return 0;
}

/* Runs `crime` in a child: it has to end by abort() after writing `expected`. */
static void assert_aborts(void (*crime)(void), const char *expected) {
        char    text[512] = "";
        size_t  len = 0;
        ssize_t got;
        int     ends[2], status;
        pid_t   child;

        assert_int_equal(pipe(ends), 0);
        child = fork();
        assert_true(child >= 0);
        if (child == 0) {
                struct rlimit no_core = { 0, 0 };

                setrlimit(RLIMIT_CORE, &no_core);
                signal(SIGABRT, SIG_DFL); /* cmocka turns it into a failed test */
                dup2(ends[1], STDERR_FILENO);
                crime();
                _exit(0);
        }
        close(ends[1]);
        while (len < sizeof(text) - 1 &&
               (got = read(ends[0], text + len, sizeof(text) - 1 - len)) > 0)
                len += (size_t)got;
        close(ends[0]);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGABRT);
        assert_non_null(strstr(text, expected));
}

static void lock_downwards(void) {
        mutex_lock(&metric);
        mutex_lock(&queue);
}

static void lock_equal_rank(void) {
        mutex_lock(&queue);
        mutex_lock(&second_queue);
}

static void lock_twice(void) {
        mutex_lock(&queue);
        mutex_lock(&queue);
}

static void unlock_unheld(void) {
        mutex_unlock(&queue);
}

static void wait_unheld(void) {
        struct cond c;

        cond_init(&c);
        cond_wait(&c, &queue);
}

static void test_violations_end_the_process(void **state) {
        (void)state;
        assert_aborts(lock_downwards,
                      "lock check: wrong order: lock of 'queue' (rank 60) while holding 'metric'");
        assert_aborts(lock_equal_rank,
                      "lock check: wrong order: lock of 'queue' (rank 60) while holding 'queue'");
        assert_aborts(lock_twice, "lock check: second lock of 'queue'");
        assert_aborts(unlock_unheld, "lock check: unlock of a mutex that is not held: 'queue'");
        assert_aborts(wait_unheld, "lock check: wait without 'queue'");
}

static void test_upwards_is_fine(void **state) {
        (void)state;
        mutex_lock(&queue);
        assert_true(mutex_is_held(&queue));
        assert_false(mutex_is_held(&metric));
        mutex_lock(&metric);
        mutex_unlock(&queue); /* in any order */
        assert_false(mutex_is_held(&queue));
        assert_true(mutex_is_held(&metric));
        mutex_unlock(&metric);
        mutex_lock(&second_queue);
        mutex_unlock(&second_queue);
        assert_false(mutex_is_held(&second_queue));
}

SUITE(lock_check) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_violations_end_the_process),
                cmocka_unit_test(test_upwards_is_fine),
        };
        return cmocka_run_group_tests(tests, set_up, tear_down);
}
