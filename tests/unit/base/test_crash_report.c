/* SPDX-License-Identifier: BSD-3-Clause */
/* Each crash is a child's, with its stderr in a pipe. */
#include "suite.h"

#include "base/crash_report.h"
#include "base/mem.h"
#include "base/plugin_call.h"
#include "base/thread.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct plugin_place with_model = { "/b/libtriton_x.so", "m", 3 };
static const struct plugin_place all_versions = { "/a/libtritonrepoagent_z.so", "m", 0 };
static const struct plugin_place without_model = { "/b/libtriton_y.so", NULL, 0 };

struct ending {
        char text[4096]; /* what it wrote to stderr */
        int  status;     /* of waitpid() */
};

/* `crash` runs in a child that has the report installed and ends with 0 if it returns. */
static void see(void (*crash)(void), struct ending *ret) {
        char   *foreign;
        size_t  len = 0;
        ssize_t got;
        int     pipe_ends[2];
        pid_t   child;

        assert_int_equal(pipe(pipe_ends), 0);
        child = fork();
        assert_true(child >= 0);
        if (child == 0) {
                struct rlimit no_core = { 0, 0 };

                setrlimit(RLIMIT_CORE, &no_core);
                dup2(pipe_ends[1], STDERR_FILENO);
                /* What a sanitizer has put there would speak of the faults, too. */
                for (int number = 1; number < 32; number++)
                        signal(number, SIG_DFL);
                if (crash_report_install() != NULL || crash_report_install() != NULL)
                        _exit(1);
                crash();
                _exit(0);
        }
        close(pipe_ends[1]);
        while ((got = read(pipe_ends[0], ret->text + len, sizeof(ret->text) - 1 - len)) > 0)
                len += (size_t)got;
        ret->text[len] = '\0';
        /* qemu-user adds a line of its own about a program that a signal ends. */
        foreign = strstr(ret->text, "qemu: uncaught target signal");
        if (foreign != NULL)
                *foreign = '\0';
        close(pipe_ends[0]);
        assert_int_equal(waitpid(child, &ret->status, 0), child);
}

static void assert_reported(void (*crash)(void), int number, const char *text) {
        struct ending e;

        see(crash, &e);
        assert_true(WIFSIGNALED(e.status));
        assert_int_equal(WTERMSIG(e.status), number);
        if (strncmp(e.text, text, strlen(text)) != 0)
                fail_msg("got %s", e.text);
        assert_ptr_equal(strchr(e.text, '\n'), e.text + strlen(e.text) - 1); /* one line */
        assert_non_null(strstr(e.text, " (thread "));
}

static void fault_in_model(void) {
        PLUGIN_CALL(&with_model, "Execute");

        raise(SIGFPE);
}

static void fault_in_all_versions(void) {
        PLUGIN_CALL(&all_versions, "Action");

        raise(SIGFPE);
}

static void fault_without_model(void) {
        PLUGIN_CALL(&without_model, "Initialize");

        raise(SIGILL);
}

static void call_nested(void) {
        PLUGIN_CALL(&without_model, "Inner");
}

static void fault_after_nested(void) {
        PLUGIN_CALL(&with_model, "Outer");

        call_nested();
        raise(SIGBUS);
}

static void fault_afterwards(void) {
        call_nested();
        raise(SIGSEGV);
}

static void fault_by_abort(void) {
        PLUGIN_CALL(&with_model, "Abort");

        abort();
}

static void fault_by_address(void) {
        PLUGIN_CALL(&with_model, "Touch");
        volatile char *volatile nowhere = (char *)16;

        *nowhere = 1;
}

static void on_thread(void *arg) {
        (void)arg;
        fault_in_model();
}

static void fault_on_thread(void) {
        struct thread t = { 0 };
        AUTO_ERROR    err = thread_start(&t, "crasher", on_thread, NULL);

        thread_join(&t);
}

/* No compiler knows that it never ends. */
static int overflow(volatile int *depth) {
        volatile char frame[4096];

        frame[0] = (char)*depth;
        return ++*depth > 0 ? overflow(depth) + frame[0] : frame[0];
}

static void overflow_on_thread(void *arg) {
        volatile int depth = 0;

        PLUGIN_CALL(&with_model, "Deep");

        (void)arg;
        overflow(&depth);
}

static void fault_of_full_stack(void) {
        struct thread t = { 0 };
        AUTO_ERROR    err = thread_start(&t, "deep", overflow_on_thread, NULL);

        thread_join(&t);
}

static void test_what_is_told(void **state) {
        (void)state;
        assert_reported(fault_in_model, SIGFPE,
                        "neso: SIGFPE in /b/libtriton_x.so, Execute, model 'm' version 3 (thread ");
        assert_reported(fault_in_all_versions, SIGFPE,
                        "neso: SIGFPE in /a/libtritonrepoagent_z.so, Action, model 'm' (thread ");
        assert_reported(fault_without_model, SIGILL,
                        "neso: SIGILL in /b/libtriton_y.so, Initialize (thread ");
        assert_reported(fault_after_nested, SIGBUS,
                        "neso: SIGBUS in /b/libtriton_x.so, Outer, model 'm' version 3 (thread ");
        assert_reported(fault_afterwards, SIGSEGV,
                        "neso: SIGSEGV, in no call of a plug-in (thread ");
        assert_reported(fault_by_abort, SIGABRT,
                        "neso: SIGABRT in /b/libtriton_x.so, Abort, model 'm' version 3 (thread ");
        assert_reported(fault_by_address, SIGSEGV,
                        "neso: SIGSEGV at address 0x10 in /b/libtriton_x.so, Touch, model 'm' "
                        "version 3 (thread ");
        assert_reported(fault_on_thread, SIGFPE,
                        "neso: SIGFPE in /b/libtriton_x.so, Execute, model 'm' version 3 (thread ");
}

static void test_full_stack(void **state) {
        struct ending e;

        (void)state;
        see(fault_of_full_stack, &e);
        assert_true(WIFSIGNALED(e.status));
        assert_int_equal(WTERMSIG(e.status), SIGSEGV);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
        /* Theirs is another stack, which ends with what they have for it. */
        assert_non_null(strstr(e.text, "/b/libtriton_x.so, Deep, model 'm' version 3"));
#endif
}

SUITE(crash_report) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_what_is_told),
                cmocka_unit_test(test_full_stack),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
