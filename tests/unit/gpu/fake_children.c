/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "fake_children.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define WRONG_EXIT 3

void fake_child_check(int is_true, const char *text, int line) {
        if (is_true)
                return;
        (void)fprintf(stderr, "line %d: not so: %s\n", line, text);
        _exit(WRONG_EXIT);
}

static void open_child(struct fake_child *c) {
        if (!driver_table_open(&c->cuda, FAKE_CUDA)) {
                (void)fprintf(stderr, "%s\n", dlerror());
                _exit(WRONG_EXIT);
        }
#define FAKE_LOOK_UP(result, name, parameters)                                                     \
        CHECK(driver_symbol(c->cuda.library, #name, &c->name));
        FAKE_CUDA_FUNCTIONS(FAKE_LOOK_UP)
#undef FAKE_LOOK_UP
        CHECK_OK(c->cuda.cuInit(0));
        CHECK_OK(c->cuda.cuDevicePrimaryCtxRetain(&c->context, 0));
        CHECK_OK(c->cuda.cuCtxSetCurrent(c->context));
        CHECK_OK(c->cuda.cuStreamCreate(&c->stream, CU_STREAM_NON_BLOCKING));
}

static void close_child(struct fake_child *c) {
        CHECK_OK(c->cuda.cuStreamDestroy_v2(c->stream));
        CHECK_OK(c->cuda.cuDevicePrimaryCtxRelease_v2(0));
}

/* Never returns. */
static void be_child(fake_child_fn run, const char *report) {
        static struct fake_child c;

        setenv("NESO_FAKE_GPU_REPORT", report, 1);
        open_child(&c);
        run(&c);
        close_child(&c);
        exit(0);
}

struct fake_running fake_child_start(fake_child_fn run) {
        struct fake_running child = { .report = "/tmp/fake_gpu_report.XXXXXX" };
        int                 file = mkstemp(child.report);

        assert_true(file >= 0);
        (void)close(file);
        (void)fflush(NULL);
        child.pid = fork();
        assert_true(child.pid >= 0);
        if (child.pid == 0)
                be_child(run, child.report);
        return child;
}

/* The status that it ended with; its report is "" when there is none. */
static int end_child(const struct fake_running *child, char text[FAKE_REPORT_BYTES]) {
        int    status;
        size_t n;
        FILE  *report;

        assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
        report = fopen(child->report, "r");
        assert_non_null(report);
        n = fread(text, 1, FAKE_REPORT_BYTES - 1, report);
        text[n] = '\0';
        (void)fclose(report);
        (void)unlink(child->report);
        return status;
}

void fake_child_check_end(const struct fake_running *child) {
        char text[FAKE_REPORT_BYTES];
        int  status = end_child(child, text);

        assert_string_equal(text, "");
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
}

void fake_child_passes(fake_child_fn run) {
        struct fake_running child = fake_child_start(run);

        fake_child_check_end(&child);
}

void fake_child_reports(fake_child_fn run, const char *kind) {
        struct fake_running child = fake_child_start(run);
        char                text[FAKE_REPORT_BYTES], expected[64];
        int                 status = end_child(&child, text);

        (void)snprintf(expected, sizeof(expected), "fake gpu: %s: ", kind);
        if (strncmp(text, expected, strlen(expected)) != 0)
                fail_msg("reported '%s', not '%s...'", text, expected);
        /* One line. */
        assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGABRT);
}
