/* SPDX-License-Identifier: BSD-3-Clause */
/* An event loop with its own thread, and a group of such loops.
 *
 * The data of a connection (parser, arena, timers, buffers) is used by the thread of its loop only, so
 * it needs no locks. Other threads reach a loop through its mailbox. Each loop has one coarse timer
 * that runs while the loop has connections: it calls each connection's tick function, which checks the
 * connection's time-outs. Exact deadlines have timers of their own (net/loop_timer.h).
 *
 * Ownership.  loop_group_new() starts the threads; loop_group_free() ends them. Before
 * loop_group_free(), all listeners and connections of the loops must be closed, and all other threads
 * must have stopped posting.
 * Threads.  loop_group_*, loop_mailbox(), loop_n_conns() and loop_is_current(): any thread. All
 * others: the loop's own thread.
 */
#pragma once

#include "base/error.h"
#include "base/list.h"
#include "base/work_pool.h"
#include "net/mailbox.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf_pool;
struct byte_budget;
struct loop;
struct loop_group;
struct turn;

/* Largest input that a loop parses, prints, sorts or compresses on its own thread for one request.
 * Work of this size takes a few milliseconds, and all connections of the loop wait meanwhile. Larger
 * work goes to loop_compute(). */
#define LOOP_MAX_WORK_BYTES ((size_t)256 << 10)
/* Work for loop_compute() of at most this size is short: it takes some ten milliseconds. */
#define LOOP_SHORT_WORK_BYTES ((size_t)2 << 20)

/* Interval of the ticks of connections; their time-outs are late by at most this. */
#define LOOP_TICK_NS UINT64_C(500000000)

/* Makes libuv allocate from the reserve (base/reserve.h) when the allocator fails, because libuv aborts
 * the process when it cannot grow an internal list. To be called before any other use of a loop. */
void loop_use_reserve(void);

/* The threads are named "<name>-0", "<name>-1", ... */
struct error *loop_group_new(const char *name, size_t n_loops, struct loop_group **ret) NODISCARD;
void          loop_group_free(struct loop_group *g); /* NULL is fine */
/* Charges the buffers of all loops to the budget, which is borrowed. To be called before the first
 * connection. */
void         loop_group_set_budget(struct loop_group *g, struct byte_budget *budget);
size_t       loop_group_size(const struct loop_group *g);
struct loop *loop_group_get(struct loop_group *g, size_t i);
struct loop *loop_group_least_busy(struct loop_group *g); /* with the fewest connections */

struct mailbox  *loop_mailbox(struct loop *l);
struct buf_pool *loop_buf_pool(struct loop *l);
size_t           loop_index(const struct loop *l);
size_t           loop_n_conns(const struct loop *l);
/* True on the thread of this loop. */
bool loop_is_current(const struct loop *l);

/* A loop works in rounds. In each round it reads all ready sockets and empties the mailbox, runs the
 * deferred tasks phase by phase, and then waits for events. So the loop parses and submits all requests
 * that arrived together before it wakes an instance for the first of them, and it writes their answers
 * one after the other. */
enum loop_phase {
        LOOP_HANDLE, /* parse and submit received requests; then the waker runs */
        LOOP_WRITE,  /* write the answers */
        N_LOOP_PHASES,
};

/* Embedded in its owner. The loop does not access the struct after it has called `run`. */
struct loop_task;
typedef void (*loop_task_fn)(struct loop_task *t);

struct loop_task {
        struct list_node node; /* linked while the task is deferred */
        loop_task_fn     run;
};

/* Runs the task in that phase of this round; does nothing when the task is deferred already. A task may
 * defer others and itself: a round repeats its phases until no task is left. */
void loop_defer(struct loop *l, enum loop_phase phase, struct loop_task *t);

/* What the loop's connections get of a round, see net/turns.h. loop_wait_turn() queues a connection whose
 * share is used up; the loop runs the turn in a later round, in the phase LOOP_HANDLE, and does not sleep
 * before that. turns_cancel() takes it back. */
bool loop_take_share(struct loop *l, struct turn *t, uint64_t now_ns);
/* For work that is no connection's: true when the calling thread's loop has used the time of its round, so
 * that the rest of the work has to wait for the next one. False when the thread runs no loop. */
bool loop_is_late(uint64_t now_ns);
void loop_wait_turn(struct loop *l, struct turn *t);

/* Registers `wake` with the calling thread's loop. The loop calls it in each round between the two
 * phases; it wakes the threads that the round has work for. Returns false when the calling thread runs
 * no loop, or its loop already has another waker. */
bool loop_set_waker(void (*wake)(void));

/* Blocking work (loading a model, scanning a directory). `run` is called on a separate thread, so that
 * the loop does not wait; `done` is called afterwards on the loop's thread. When the system starts no
 * thread, `refuse` is called on the loop's thread instead of `run`, and takes the error (UNAVAILABLE).
 * Embedded in its owner. The loop does not access the struct after it has called `done`. */
struct loop_work;
typedef void (*loop_work_fn)(struct loop_work *w);
typedef void (*loop_refuse_fn)(struct loop_work *w, struct error *err);

struct loop_work {
        loop_work_fn   run;    /* on the separate thread */
        loop_refuse_fn refuse; /* on the loop's thread; loop_compute() does not need it */
        loop_work_fn   done;   /* on the loop's thread */
        bool is_background;    /* long: other threads preempt it, see thread_enter_background() */
        /* It gets a smaller share of the CPUs, see thread_lower_priority(). Threads that `run` starts
         * would inherit that, so it must start none. */
        bool is_low_priority;
        /* For loop_compute(): it is known to be at most LOOP_SHORT_WORK_BYTES, and does not wait for longer work. */
        bool is_short;

        /* Fields of loop_compute(); used by the loop until `done`. */
        struct loop *loop;
        struct work  queued;
        struct mail  back;
        bool         is_cancelled; /* valid in `done`: `run` was not called */
};

/* At most 32 threads of a loop run at a time; further work waits for one of them to end. */
void loop_start_work_thread(struct loop *l, struct loop_work *w);

/* Runs CPU-bound work that takes milliseconds or seconds (decompressing, decoding or printing large
 * bodies) on a worker thread. The loops of a group share two pools, for short work and for other work, each of at most
 * one thread for each two CPUs, at a lower priority than the loops; each runs work in the order of submission. So
 * forty bodies of 60 KB, which decompress to 60 MiB, do not keep a body of 500 KB waiting. When no worker
 * thread can be started, the work runs on the calling thread. `is_background` and `is_low_priority` are
 * ignored. */
void loop_compute(struct loop *l, struct loop_work *w);
/* Cancels work whose result is not needed any more: `run` is skipped if it has not begun. `done` is
 * called later in either case. To be called on the loop, between loop_compute() and `done`. */
void loop_compute_cancel(struct loop_work *w);
