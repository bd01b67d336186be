/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/lock.h"
#include "base/thread.h"

#include <sched.h>
#include <signal.h>
#include <string.h>

struct seen {
        char     name[32];
        sigset_t mask;
        int      n_runs;
};

static void look_around(void *arg) {
        struct seen *seen = arg;

        pthread_getname_np(pthread_self(), seen->name, sizeof(seen->name));
        pthread_sigmask(SIG_SETMASK, NULL, &seen->mask);
        seen->n_runs++;
}

static void test_name_and_signals(void **state) {
        (void)state;
        struct seen   seen = { .n_runs = 0 };
        struct thread t = { .is_started = false };
        sigset_t      before, after;

        pthread_sigmask(SIG_SETMASK, NULL, &before);
        assert_null(thread_start(&t, "instance model_0 of many", look_around, &seen));
        assert_true(t.is_started);
        thread_join(&t);
        assert_false(t.is_started);
        assert_int_equal(seen.n_runs, 1);
        assert_string_equal(seen.name, "instance model_");
        assert_int_equal(sigismember(&seen.mask, SIGTERM), 1);
        assert_int_equal(sigismember(&seen.mask, SIGUSR1), 1);
        assert_int_equal(sigismember(&seen.mask, SIGSEGV), 0);
        assert_int_equal(sigismember(&seen.mask, SIGBUS), 0);
        pthread_sigmask(SIG_SETMASK, NULL, &after);
        assert_int_equal(sigismember(&after, SIGTERM), sigismember(&before, SIGTERM));
}

static void test_join_without_start(void **state) {
        (void)state;
        struct thread t = { .is_started = false };

        thread_join(&t);
        assert_false(t.is_started);
}

static void test_cpu_count_is_of_this_process(void **state) {
        (void)state;
        cpu_set_t all, one;
        int       cpu = 0;

        assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
        assert_int_equal(thread_cpu_count(), CPU_COUNT(&all));
        while (!CPU_ISSET(cpu, &all))
                cpu++;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
        assert_int_equal(thread_cpu_count(), 1);
        sched_setaffinity(0, sizeof(all), &all);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_name_and_signals),
                cmocka_unit_test(test_join_without_start),
                cmocka_unit_test(test_cpu_count_is_of_this_process),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
