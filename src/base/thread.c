/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/thread.h"

#include "base/clock.h"
#include "base/crash_report.h"
#include "base/heap_end.h"
#include "base/mem.h"

#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define THREAD_NAME_BYTES 16 /* TASK_COMM_LEN, with the NUL */

/* Longest time slice that the kernel grants; the default is 1 to 3 ms. */
#define LONG_TURN_NS (100 * NS_PER_MS)

/* Niceness steps that reduce the thread's CPU share to a fourth; the largest niceness is 19. */
#define STEP_BACK 6
#define MAX_NICE 19

/* Argument of sched_setattr(2), in its first form of 48 bytes. <linux/sched/types.h> declares it as
 * well, but newer C libraries do too, and the two exclude each other. */
struct sched_attributes {
        uint32_t size;
        uint32_t policy;
        uint64_t flags;
        int32_t  nice;
        uint32_t priority;
        uint64_t runtime_ns; /* under SCHED_OTHER: the time slice */
        uint64_t deadline_ns;
        uint64_t period_ns;
};

#define RESET_ON_FORK 1 /* SCHED_FLAG_RESET_ON_FORK */

struct thread_begin {
        thread_fn run;
        void     *arg; /* borrowed: the caller's */
        char      name[THREAD_NAME_BYTES];
};

static _Thread_local bool keeps_heap_end;

static void *begin_thread(void *arg) {
        struct thread_begin begin = *(struct thread_begin *)arg;
        char                crash_stack[CRASH_STACK_BYTES]; /* its pages are not touched until a
                                                             * handler runs */

        free(arg);
        pthread_setname_np(pthread_self(), begin.name);
        crash_stack_set(crash_stack);
        begin.run(begin.arg);
        /* Its heap is the next thread's, which may be another one each time. */
        if (!keeps_heap_end)
                heap_end_trim();
        crash_stack_remove(crash_stack);
        return NULL;
}

/* Signals that other processes send are for the main thread. Those of a fault go to the thread that
 * caused it: if it blocked them, the fault would end the process without running the handler. */
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

bool thread_try_join(struct thread *t) {
        if (t->is_started && pthread_tryjoin_np(t->native, NULL) != 0)
                return false;
        t->is_started = false;
        return true;
}

/* A kernel that refuses leaves the thread as it is, which is no failure. 0: the kernel's choice. */
static void set_turn(uint64_t ns) {
        struct sched_attributes a = { .size = sizeof(a) };

        if (syscall(SYS_sched_getattr, 0, &a, sizeof(a), 0) != 0 || a.policy != SCHED_OTHER)
                return;
        /* The reset on fork would take a higher priority from all threads that this one starts, for good. */
        if (a.nice < 0)
                return;
        a.size = sizeof(a);
        a.flags |= RESET_ON_FORK; /* which cannot be taken back */
        a.runtime_ns = ns;
        syscall(SYS_sched_setattr, 0, &a, 0);
}

void thread_enter_background(void) {
        sched_yield(); /* at ordinary priority: the thread that started this one runs first */
        set_turn(LONG_TURN_NS);
}

void thread_leave_background(void) {
        set_turn(0);
}

void thread_keep_heap_end(void) {
        keeps_heap_end = true;
}

void thread_lower_priority(void) {
        /* On Linux, for this thread alone. */
        setpriority(PRIO_PROCESS, 0, MIN(getpriority(PRIO_PROCESS, 0) + STEP_BACK, MAX_NICE));
}

unsigned thread_cpu_count(void) {
        cpu_set_t set;
        long      online;

        if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0)
                return (unsigned)CPU_COUNT(&set);
        online = sysconf(_SC_NPROCESSORS_ONLN); /* more CPUs than a cpu_set_t has bits */
        return online > 0 ? (unsigned)online : 1;
}
