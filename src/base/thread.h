/* SPDX-License-Identifier: BSD-3-Clause */
/* Named threads. */
#pragma once

#include "base/error.h"

#include <pthread.h>

struct thread {
        pthread_t native;
        bool      is_started;
};

typedef void (*thread_fn)(void *arg);

/* `name` is cut to 15 bytes (the kernel's limit). All signals are blocked in the new thread. */
struct error *thread_start(struct thread *t, const char *name, thread_fn run, void *arg) NODISCARD;
/* Waits for the thread's end; returns at once when it was never started. */
void thread_join(struct thread *t);
/* Joins the thread if it has ended, without waiting. False: it has not ended. */
bool thread_try_join(struct thread *t);
/* For a thread that computes for long while others serve: from now on whatever else wakes up runs at
 * once, before this thread's turn is over. Its share of the CPUs stays, only its turns come later
 * and are longer. Threads that it starts are ordinary ones, also after thread_leave_background(). Nothing
 * happens on kernels before Linux 6.12, nor in a process that runs with a policy of its own or with a
 * negative nice value, which its threads keep. */
void thread_enter_background(void);
/* Its turns are ordinary ones again. */
void thread_leave_background(void);
/* For a thread that computes for milliseconds, starts no others (they would inherit it) and ends with
 * its work: it takes a smaller share beside threads that serve. */
void thread_lower_priority(void);
/* For a thread that computes for one request, when the next one soon needs the same memory: its end does not return
 * the free end of its heap (base/heap_end.h). */
void     thread_keep_heap_end(void);
unsigned thread_cpu_count(void); /* that this process may use; at least 1 */
