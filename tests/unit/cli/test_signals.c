/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "cli/signals.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Each test runs in a child, because the second signal ends the process. What the child writes to
 * its standard error goes to `text`. Returns its wait status. */
static int run_child(void (*run)(void), char *text, size_t size) {
        int     ends[2];
        int     status;
        size_t  n = 0;
        ssize_t got;
        pid_t   child;

        assert_int_equal(pipe(ends), 0);
        child = fork();
        assert_true(child >= 0);
        if (child == 0) {
                dup2(ends[1], STDERR_FILENO);
                close(ends[0]);
                close(ends[1]);
                run();
                _exit(99);
        }
        close(ends[1]);
        while (n < size - 1 && (got = read(ends[0], text + n, size - 1 - n)) != 0)
                if (got > 0)
                        n += (size_t)got;
                else
                        assert_int_equal(errno, EINTR);
        text[n] = '\0';
        close(ends[0]);
        while (waitpid(child, &status, 0) < 0)
                assert_int_equal(errno, EINTR);
        return status;
}

static unsigned n_hangups, n_drains, n_ticks;

static void on_hangup(void *owner) {
        (void)owner;
        n_hangups++;
}

static void on_drain(void *owner) {
        (void)owner;
        n_drains++;
}

/* The third tick asks for the end. */
static void on_tick(void *owner) {
        (void)owner;
        if (++n_ticks == 3)
                kill(getpid(), SIGTERM);
}

static const struct signal_actions actions = { .on_hangup = on_hangup, .on_drain = on_drain };

/* Each is told, and then the wait goes on. */
static void hangups(void) {
        sigset_t pending;

        signals_block();
        kill(getpid(), SIGHUP);
        kill(getpid(), SIGUSR1);
        kill(getpid(), SIGTERM); /* taken last: the wait gives the lower number first */
        if (signals_wait(&actions) != SIGTERM || n_hangups != 1 || n_drains != 1)
                _exit(2);
        kill(getpid(), SIGHUP); /* while stopping: not the end */
        sigpending(&pending);
        _exit(sigismember(&pending, SIGHUP) ? 0 : 3);
}

/* The first one is returned, whichever it is. */
static void wait_for_term(void) {
        signals_block();
        kill(getpid(), SIGTERM);
        _exit(signals_wait(&actions) == SIGTERM ? 0 : 2);
}

static void wait_for_int(void) {
        signals_block();
        kill(getpid(), SIGINT);
        _exit(signals_wait(&actions) == SIGINT ? 0 : 2);
}

/* The time between two of them passes whatever else is asked for meanwhile. */
static void ticks(void) {
        struct signal_actions ticking = actions;

        ticking.on_tick = on_tick;
        ticking.tick_ns = 1000000;
        signals_block();
        kill(getpid(), SIGHUP);
        _exit(signals_wait(&ticking) == SIGTERM && n_ticks == 3 && n_hangups == 1 ? 0 : 2);
}

static void two_signals(void) {
        signals_block();
        kill(getpid(), SIGTERM);
        if (signals_wait(&actions) != SIGTERM)
                _exit(2);
        for (;;) /* until it can be no echo any more */
                kill(getpid(), SIGINT);
}

/* What timeout(1) does: to the process, and to its group. */
static void echo(void) {
        signals_block();
        kill(getpid(), SIGTERM);
        if (signals_wait(&actions) != SIGTERM)
                _exit(2);
        kill(getpid(), SIGTERM);
        _exit(0);
}

static int stop_pipe[2];

static void on_stop(void *owner) {
        if (owner != &stop_pipe || write(stop_pipe[1], "s", 1) != 1)
                _exit(4);
}

static const struct start_actions start = { .on_stop = on_stop,
                                            .owner = &stop_pipe,
                                            .exit_ns = UINT64_C(60000000000) };

static void watch(const struct start_actions *a) {
        signals_block();
        if (pipe(stop_pipe) != 0 || signals_watch_start(a) != NULL)
                _exit(3);
}

/* A signal during the start calls on_stop() at once, and signals_wait() returns its number later. */
static void one_during_start(void) {
        char c;

        watch(&start);
        if (signals_first() != 0)
                _exit(5);
        kill(getpid(), SIGTERM);
        if (read(stop_pipe[0], &c, 1) != 1 || signals_first() != SIGTERM)
                _exit(6);
        signals_end_start();
        _exit(signals_wait(&actions) == SIGTERM ? 0 : 2);
}

/* The start does not end, whatever it was told. */
static void late_start(void) {
        struct start_actions short_start = start;

        short_start.exit_ns = 1000000;
        watch(&short_start);
        kill(getpid(), SIGTERM);
        for (;;)
                pause();
}

/* Without a signal the start may take as long as it likes. */
static void long_start(void) {
        struct start_actions short_start = start;

        short_start.exit_ns = 0;
        watch(&short_start);
        signals_end_start();
        _exit(signals_first() == 0 ? 0 : 2);
}

static void two_during_start(void) {
        watch(&start);
        for (;;) /* until it can be no echo any more */
                kill(getpid(), SIGINT);
}

/* A peer that has gone is an error of write(2), no end. */
static void broken_pipe(void) {
        int ends[2];

        signals_block();
        if (pipe(ends) != 0)
                _exit(2);
        close(ends[0]);
        _exit(write(ends[1], "x", 1) < 0 && errno == EPIPE ? 0 : 2);
}

static void test_first_signal(void **state) {
        char text[256];
        int  status;

        (void)state;
        status = run_child(wait_for_term, text, sizeof(text));
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
        status = run_child(wait_for_int, text, sizeof(text));
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
        assert_string_equal(text, "");
}

static void test_second_signal(void **state) {
        char text[256];
        int  status = run_child(two_signals, text, sizeof(text));

        (void)state;
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 1);
        assert_string_equal(text, "Second signal received. Exiting immediately.\n");
}

static void test_echo(void **state) {
        char text[256];
        int  status = run_child(echo, text, sizeof(text));

        (void)state;
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
        assert_string_equal(text, "");
}

static void test_start(void **state) {
        char text[1024];
        int  status = run_child(one_during_start, text, sizeof(text));

        (void)state;
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
        status = run_child(two_during_start, text, sizeof(text));
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 1);
        assert_non_null(strstr(text, "signal 2 during the start"));
        assert_non_null(strstr(text, "Second signal received. Exiting immediately.\n"));
}

static void test_late_start(void **state) {
        char text[1024];
        int  status = run_child(late_start, text, sizeof(text));

        (void)state;
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 1);
        assert_non_null(strstr(text, "signal 15 during the start"));
        assert_non_null(strstr(text, "Exit timeout expired. Exiting immediately.\n"));
        status = run_child(long_start, text, sizeof(text));
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
        assert_string_equal(text, "");
}

static void test_hangup(void **state) {
        char text[256];
        int  status = run_child(hangups, text, sizeof(text));

        (void)state;
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
        assert_string_equal(text, "");
}

static void test_ticks(void **state) {
        char text[256];
        int  status = run_child(ticks, text, sizeof(text));

        (void)state;
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_broken_pipe(void **state) {
        char text[256];
        int  status = run_child(broken_pipe, text, sizeof(text));

        (void)state;
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
}

SUITE(signals) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_first_signal), cmocka_unit_test(test_second_signal),
                cmocka_unit_test(test_echo),         cmocka_unit_test(test_start),
                cmocka_unit_test(test_hangup),       cmocka_unit_test(test_broken_pipe),
                cmocka_unit_test(test_ticks),        cmocka_unit_test(test_late_start),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
