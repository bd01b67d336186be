/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "cli/supervisor.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const char *const variables[] = { "LISTEN_PID",    "LISTEN_FDS",   "LISTEN_FDNAMES",
                                         "NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC" };

static void set_number(const char *name, long number) {
        char text[32];

        snprintf(text, sizeof(text), "%ld", number);
        assert_int_equal(setenv(name, text, 1), 0);
}

static void expect_clean_environment(void) {
        for (size_t i = 0; i < ARRAY_LEN(variables); i++)
                assert_null(getenv(variables[i]));
}

/* An abstract socket whose name only this test has; `name` is for NOTIFY_SOCKET. */
static int open_notify(char *name, size_t size) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int                fd = socket(AF_UNIX, SOCK_DGRAM, 0);
        int                len = snprintf(name, size, "@neso-test-%d", (int)getpid());

        memcpy(address.sun_path + 1, name + 1, (size_t)len - 1);
        assert_int_equal(bind(fd, (const struct sockaddr *)&address,
                              (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)len)),
                         0);
        return fd;
}

static void expect_message(int fd, const char *text) {
        char    got[256];
        ssize_t n = recv(fd, got, sizeof(got) - 1, MSG_DONTWAIT);

        assert_true(n >= 0);
        got[n] = '\0';
        assert_string_equal(got, text);
}

static void test_without_a_supervisor(void **state) {
        struct supervisor s;

        (void)state;
        supervisor_init(&s);
        assert_null(supervisor_open(&s));
        assert_int_equal(s.fd, -1);
        assert_int_equal(s.watchdog_ns, 0);
        assert_int_equal(supervisor_take_listener(&s, SUPERVISOR_HTTP), 0);
        supervisor_tell_ready(&s);
        supervisor_close(&s);
}

static void test_messages(void **state) {
        struct supervisor s;
        char              name[64], text[256];
        int               fd = open_notify(name, sizeof(name));
        ssize_t           n;

        (void)state;
        setenv("NOTIFY_SOCKET", name, 1);
        setenv("WATCHDOG_USEC", "30000000", 1);
        set_number("WATCHDOG_PID", getpid());
        supervisor_init(&s);
        assert_null(supervisor_open(&s));
        expect_clean_environment();
        assert_int_equal(s.watchdog_ns, UINT64_C(30000000000));
        supervisor_tell_ready(&s);
        expect_message(fd, "READY=1\nSTATUS=serving");
        supervisor_tell_alive(&s);
        expect_message(fd, "WATCHDOG=1");
        supervisor_tell_reloading(&s);
        n = recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT);
        assert_true(n > 0);
        text[n] = '\0';
        assert_memory_equal(text, "RELOADING=1\nMONOTONIC_USEC=", 27);
        assert_true(strtoull(text + 27, NULL, 10) > 0);
        supervisor_tell_stopping(&s);
        expect_message(fd, "STOPPING=1\nSTATUS=stopping");
        supervisor_close(&s);
        close(fd);
}

/* A supervisor that does not read: the server goes on. */
static void test_full_socket(void **state) {
        struct supervisor s;
        char              name[64];
        int               fd = open_notify(name, sizeof(name));

        (void)state;
        setenv("NOTIFY_SOCKET", name, 1);
        supervisor_init(&s);
        assert_null(supervisor_open(&s));
        for (int i = 0; i < 10000; i++)
                supervisor_tell_alive(&s);
        supervisor_close(&s);
        close(fd);
}

/* Variables for another process, such as the shell that started this one. */
static void test_of_another_process(void **state) {
        struct supervisor s;

        (void)state;
        set_number("LISTEN_PID", (long)getppid());
        setenv("LISTEN_FDS", "1", 1);
        setenv("LISTEN_FDNAMES", "http", 1);
        supervisor_init(&s);
        assert_null(supervisor_open(&s));
        assert_int_equal(s.listeners[SUPERVISOR_HTTP], 0);
        expect_clean_environment();
        supervisor_close(&s);
}

static void test_listeners(void **state) {
        struct supervisor s;

        (void)state;
        set_number("LISTEN_PID", getpid());
        setenv("LISTEN_FDS", "2", 1);
        setenv("LISTEN_FDNAMES", "grpc:http", 1);
        supervisor_init(&s);
        assert_null(supervisor_open(&s));
        assert_int_equal(supervisor_take_listener(&s, SUPERVISOR_HTTP), 4);
        assert_int_equal(supervisor_take_listener(&s, SUPERVISOR_HTTP), 0);
        assert_int_equal(supervisor_take_listener(&s, SUPERVISOR_GRPC), 3);
        assert_int_equal(supervisor_take_listener(&s, SUPERVISOR_METRICS), 0);
        expect_clean_environment();
        supervisor_close(&s);
}

static void expect_refusal(const char *name, const char *value, const char *fds, const char *text) {
        struct supervisor s;
        struct error     *err;

        if (fds != NULL)
                setenv("LISTEN_FDS", fds, 1);
        setenv(name, value, 1);
        supervisor_init(&s);
        err = supervisor_open(&s);
        assert_non_null(err);
        assert_non_null(strstr(err->message, text));
        assert_non_null(strstr(err->message, name));
        error_free(err);
        memset(s.listeners, 0, sizeof(s.listeners)); /* descriptors of cmocka's */
        supervisor_close(&s);
        expect_clean_environment();
}

static void test_mistakes(void **state) {
        char longest[256];

        (void)state;
        memset(longest, 'a', sizeof(longest) - 1);
        longest[0] = '/';
        longest[sizeof(longest) - 1] = '\0';
        expect_refusal("LISTEN_FDNAMES", "http:http", "2", "each at most once");
        expect_refusal("LISTEN_FDNAMES", "http", "2", "as many as LISTEN_FDS says");
        expect_refusal("LISTEN_FDNAMES", "https", "1", "got: https");
        expect_refusal("LISTEN_FDNAMES", "", "1", "expected http");
        expect_refusal("LISTEN_FDS", "x", NULL, "got: x");
        expect_refusal("LISTEN_FDS", "-1", NULL, "got: -1");
        expect_refusal("LISTEN_FDS", "100000", NULL, "got: 100000");
        expect_refusal("LISTEN_PID", "1x", NULL, "got: 1x");
        expect_refusal("WATCHDOG_USEC", "18446744073709551615", NULL, "expected a number");
        expect_refusal("WATCHDOG_PID", "", NULL, "expected a number");
        expect_refusal("NOTIFY_SOCKET", "relative", NULL, "expected a path");
        expect_refusal("NOTIFY_SOCKET", "/", NULL, "expected a path");
        expect_refusal("NOTIFY_SOCKET", longest, NULL, "expected a path");
        expect_refusal("NOTIFY_SOCKET", "/nonexistent/socket", NULL, "No such file");
}

SUITE(supervisor) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_without_a_supervisor),
                cmocka_unit_test(test_messages),
                cmocka_unit_test(test_full_socket),
                cmocka_unit_test(test_of_another_process),
                cmocka_unit_test(test_listeners),
                cmocka_unit_test(test_mistakes),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
