/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/thread.h"

#include "base/crash_report.h"
#include "base/mem.h"

#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define THREAD_NAME_BYTES 16 /* TASK_COMM_LEN, with the NUL */

struct thread_begin {
        thread_fn run;
        void     *arg; /* borrowed: the caller's business */
        char      name[THREAD_NAME_BYTES];
};

static void *begin_thread(void *arg) {
        struct thread_begin begin = *(struct thread_begin *)arg;
        char                crash_stack[CRASH_STACK_BYTES]; /* no page of it is touched till then */

        free(arg);
        pthread_setname_np(pthread_self(), begin.name);
        crash_stack_set(crash_stack);
        begin.run(begin.arg);
        crash_stack_remove(crash_stack);
        return NULL;
}

/* Signals that are sent are for the main thread. Those of a fault go to the thread that made it: if
 * it blocked them, it would end the process without asking the handler. */
static void signals_sent(sigset_t *set) {
        static const int faults[] = { SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT };

        sigfillset(set);
        for (size_t i = 0; i < ARRAY_LEN(faults); i++)
                sigdelset(set, faults[i]);
}

struct error *thread_start(struct thread *t, const char *name, thread_fn run, void *arg) {
        struct thread_begin *begin = mem_zalloc(sizeof(*begin));
        sigset_t             sent, before;
        int                  failure;

        begin->run = run;
        begin->arg = arg;
        memcpy(begin->name, name, strnlen(name, sizeof(begin->name) - 1));

        /* A thread inherits the mask. */
        signals_sent(&sent);
        pthread_sigmask(SIG_SETMASK, &sent, &before);
        failure = pthread_create(&t->native, NULL, begin_thread, begin);
        pthread_sigmask(SIG_SETMASK, &before, NULL);

        t->is_started = failure == 0;
        if (failure != 0) {
                free(begin);
                return error_errno(failure, "unable to start thread '%s'", name);
        }
        return NULL;
}

void thread_join(struct thread *t) {
        if (!t->is_started)
                return;
        pthread_join(t->native, NULL);
        t->is_started = false;
}

unsigned thread_cpu_count(void) {
        cpu_set_t set;
        long      online;

        if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0)
                return (unsigned)CPU_COUNT(&set);
        online = sysconf(_SC_NPROCESSORS_ONLN); /* more CPUs than a cpu_set_t has bits */
        return online > 0 ? (unsigned)online : 1;
}
