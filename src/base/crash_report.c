/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/crash_report.h"

#include "base/plugin_call.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

_Thread_local TLS_EARLY struct plugin_call plugin_call_now;

struct fatal {
        int              number;
        const char      *name;
        struct sigaction before; /* action that was installed before ours */
};

static struct fatal fatals[] = {
        { .number = SIGSEGV, .name = "SIGSEGV" }, { .number = SIGABRT, .name = "SIGABRT" },
        { .number = SIGBUS, .name = "SIGBUS" },   { .number = SIGFPE, .name = "SIGFPE" },
        { .number = SIGILL, .name = "SIGILL" },
};

/* ---- in the handler: only system calls and the thread's own plug-in note --------------------- */

#define MAX_PARTS 16
#define CONSOLE_WAIT_MS 1000
#define NUMBER_BYTES 24

struct line {
        struct iovec parts[MAX_PARTS];
        int          n;
};

static void add_text(struct line *l, const char *text) {
        l->parts[l->n++] =
                (struct iovec){ .iov_base = (void *)(uintptr_t)text, .iov_len = strlen(text) };
}

/* Writes the digits from the end of the caller's memory. */
static void add_number(struct line *l, uint64_t value, unsigned base, char memory[NUMBER_BYTES]) {
        char *at = memory + NUMBER_BYTES - 1;

        *at = '\0';
        do {
                *--at = "0123456789abcdef"[value % base];
                value /= base;
        } while (value > 0);
        add_text(l, at);
}

static void report_crash(const struct fatal *f, const siginfo_t *why) {
        const struct plugin_call *call = &plugin_call_now;
        char        address[NUMBER_BYTES], version[NUMBER_BYTES], thread[NUMBER_BYTES];
        struct line l = { .n = 0 };

        add_text(&l, "neso: ");
        add_text(&l, f->name);
        if (why->si_code > 0) { /* sent by the kernel: a fault */
                add_text(&l, " at address 0x");
                add_number(&l, (uintptr_t)why->si_addr, 16, address);
        }
        if (call->place == NULL) {
                add_text(&l, ", in no call of a plug-in");
        } else {
                add_text(&l, " in ");
                add_text(&l, call->place->library);
                add_text(&l, ", ");
                add_text(&l, call->function);
        }
        if (call->place != NULL && call->place->model != NULL) {
                add_text(&l, ", model '");
                add_text(&l, call->place->model);
                add_text(&l, "'");
        }
        if (call->place != NULL && call->place->version != 0) {
                add_text(&l, " version ");
                add_number(&l, (uint64_t)call->place->version, 10, version);
        }
        add_text(&l, " (thread ");
        add_number(&l, (uint64_t)syscall(SYS_gettid), 10, thread);
        add_text(&l, ")\n");

        /* A reader that has stalled must not keep the process from ending. */
        struct pollfd console = { .fd = STDERR_FILENO, .events = POLLOUT };
        ssize_t       written =
                poll(&console, 1, CONSOLE_WAIT_MS) > 0 ? writev(STDERR_FILENO, l.parts, l.n) : -1;

        (void)written; /* a failed write cannot be reported */
}

static void on_fatal(int number, siginfo_t *why, void *where) {
        int kept = errno;

        (void)where;
        for (size_t i = 0; i < ARRAY_LEN(fatals); i++) {
                if (fatals[i].number != number)
                        continue;
                report_crash(&fatals[i], why);
                sigaction(number, &fatals[i].before, NULL);
        }
        /* The faulting instruction runs again and raises the signal for the earlier handler. */
        if (why->si_code <= 0)
                raise(number);
        errno = kept;
}

/* ---- outside the handler --------------------------------------------------------------------- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int            failure; /* errno; written once */

static void install(void) {
        struct sigaction action = { .sa_sigaction = on_fatal, .sa_flags = SA_SIGINFO | SA_ONSTACK };

        sigemptyset(&action.sa_mask);
        for (size_t i = 0; i < ARRAY_LEN(fatals) && failure == 0; i++)
                if (sigaction(fatals[i].number, NULL, &fatals[i].before) != 0 ||
                    sigaction(fatals[i].number, &action, NULL) != 0)
                        failure = errno;
}

struct error *crash_report_install(void) {
        pthread_once(&once, install);
        return failure != 0 ? error_errno(failure, "failed to handle the signals of faults") : NULL;
}

/* A sanitizer's stack stays: the sanitizer unmaps the stack that it finds when the thread ends. */
void crash_stack_set(void *memory) {
        stack_t now, mine = { .ss_sp = memory, .ss_size = CRASH_STACK_BYTES };

        if (sigaltstack(NULL, &now) == 0 && (now.ss_flags & SS_DISABLE) != 0)
                sigaltstack(&mine, NULL);
}

void crash_stack_remove(const void *memory) {
        stack_t now, none = { .ss_flags = SS_DISABLE };

        if (sigaltstack(NULL, &now) == 0 && now.ss_sp == memory)
                sigaltstack(&none, NULL);
}
