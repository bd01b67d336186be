/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a small program of several threads in every order of its steps, over the code that serves.
 *
 * explorer.c defines the functions of base/lock.h, base/thread.h and base/clock.h, so that the program and
 * what it calls are linked with it instead. The threads are contexts within one thread of the system, with
 * stacks and thread-local variables of their own; at each *point* the explorer chooses which one goes on. Points are where
 * a mutex is locked or unlocked, a condition or a thread's end is waited for, a thread ends, and the atomic
 * operations of sources that are compiled with explorer_atomics.h.
 * A schedule is the list of choices; the explorer goes through them depth first.
 *
 * In the plain schedule a thread goes on until it cannot, and then the next one does. A *deviation* is a point
 * where another thread is chosen, or one whose time-out passes although others could go on. All schedules with
 * at most so many deviations are tried.
 *
 * Time is simulated: it stands still but for a few nanoseconds with each look at the clock, and moves to the
 * deadline of a wait that ends by it.
 *
 * The process ends with the schedule when no thread can go on, when a check fails, and when the same choices
 * lead to another place (then the program depends on something that is not simulated).
 *
 * Threads.  One of the system. pthread_self() is the same in all of the program's.
 */
#pragma once

#include <stdbool.h>

struct exploration {
        void (*run)(void *arg); /* the program's first thread; it has to end all others */
        void    *arg;           /* borrowed */
        unsigned max_deviations;
        unsigned max_schedules;      /* 0: no limit */
        void (*at_thread_end)(void); /* frees what a thread keeps for itself; NULL: nothing */
};

/* Returns the number of schedules; *ret_is_complete is true when there are no others. */
unsigned explore(const struct exploration *e, bool *ret_is_complete);

/* Threads that the calling thread has woken while it held the lock that they take next: a queue's, or that of the
 * timers. */
unsigned explorer_n_held_wakes(void);

/* A point of the program itself. */
void explorer_point(void);
/* Ends the process with the schedule unless it holds. */
void explorer_check(bool holds, const char *what);
