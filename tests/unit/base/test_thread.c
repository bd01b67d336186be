/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/thread.h"

#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

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

/* What sched_getattr(2) says of the calling thread. */
struct schedule {
        uint32_t size, policy;
        uint64_t flags;
        int32_t  nice;
        uint32_t priority;
        uint64_t runtime_ns, deadline_ns, period_ns;
};

static void read_schedule(void *arg) {
        assert_int_equal(syscall(SYS_sched_getattr, 0, arg, sizeof(struct schedule), 0), 0);
}

struct schedules {
        struct schedule before, after, of_child;
};

static void give_way(void *arg) {
        struct schedules *seen = arg;
        struct thread     child = { .is_started = false };

        read_schedule(&seen->before);
        thread_enter_background();
        read_schedule(&seen->after);
        assert_null(thread_start(&child, "child", read_schedule, &seen->of_child));
        thread_join(&child);
}

static void assert_same_schedule(const struct schedule *a, const struct schedule *b) {
        assert_int_equal(a->policy, b->policy);
        assert_int_equal(a->nice, b->nice);
        assert_int_equal(a->runtime_ns, b->runtime_ns);
}

static void test_giving_way(void **state) {
        (void)state;
        struct schedules seen;
        struct schedule  main_before, main_after;
        struct thread    t = { .is_started = false };

        read_schedule(&main_before);
        assert_null(thread_start(&t, "loader", give_way, &seen));
        thread_join(&t);
        read_schedule(&main_after);
        assert_same_schedule(&main_before, &main_after);
        assert_same_schedule(&main_before, &seen.before);
        assert_int_equal(seen.of_child.policy, main_before.policy);
        assert_int_equal(seen.of_child.runtime_ns, main_before.runtime_ns);
        assert_int_equal(seen.of_child.nice, main_before.nice);
        assert_int_equal(seen.after.policy, seen.before.policy);
        assert_int_equal(seen.after.nice, seen.before.nice);
        assert_true(seen.after.runtime_ns >= seen.before.runtime_ns);
        /* A kernel that tells turns can change them. */
        if (seen.before.policy == SCHED_OTHER && seen.before.nice >= 0 &&
            seen.before.runtime_ns > 0)
                assert_int_equal(seen.after.runtime_ns, 100 * NS_PER_MS);
}

static void give_way_with_priority(void *arg) {
        if (setpriority(PRIO_PROCESS, 0, -5) == 0) /* on Linux, of this thread alone */
                give_way(arg);
}

/* Threads of models are started by such a thread, in a server that was given a higher priority. */
static void test_a_priority_is_kept(void **state) {
        (void)state;
        struct schedules seen = { .before.size = 0 };
        struct thread    t = { .is_started = false };

        assert_null(thread_start(&t, "loader", give_way_with_priority, &seen));
        thread_join(&t);
        if (seen.before.size == 0)
                skip(); /* it takes a privilege */
        assert_int_equal(seen.before.nice, -5);
        assert_int_equal(seen.after.nice, -5);
        assert_int_equal(seen.of_child.nice, -5);
}

static void step_back(void *arg) {
        struct schedules *seen = arg;

        read_schedule(&seen->before);
        thread_lower_priority();
        read_schedule(&seen->after);
        thread_lower_priority();
        thread_lower_priority();
        thread_lower_priority();
        read_schedule(&seen->of_child);
}

static void test_stepping_back(void **state) {
        (void)state;
        struct schedules seen;
        struct schedule  main_before, main_after;
        struct thread    t = { .is_started = false };

        read_schedule(&main_before);
        assert_null(thread_start(&t, "survey", step_back, &seen));
        thread_join(&t);
        read_schedule(&main_after);
        assert_same_schedule(&main_before, &main_after);
        assert_same_schedule(&main_before, &seen.before);
        assert_int_equal(seen.after.nice, MIN(seen.before.nice + 6, 19));
        assert_int_equal(seen.of_child.nice, MIN(seen.before.nice + 24, 19)); /* and no further */
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

SUITE(thread) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_name_and_signals),
                cmocka_unit_test(test_giving_way),
                cmocka_unit_test(test_a_priority_is_kept),
                cmocka_unit_test(test_stepping_back),
                cmocka_unit_test(test_join_without_start),
                cmocka_unit_test(test_cpu_count_is_of_this_process),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
