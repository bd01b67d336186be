/* SPDX-License-Identifier: BSD-3-Clause */
/* An event loop and its thread; a group of them.
 *
 * Everything that belongs to a connection (parser, arena, timers, buffers) is touched by the
 * thread of its loop only, so nothing there is locked. Another thread reaches a loop through its
 * mailbox. One coarse timer per loop, running only while the loop has connections, drives the
 * time-outs of connections: a connection looks at the clock when it is ticked. What has to be on
 * time has a timer of its own (net/loop_timer.h).
 *
 * Ownership.  loop_group_new() starts the threads; loop_group_free() ends them: by then every
 * listener and every connection on them must be closed and no other thread may post any more.
 * Threads.  loop_group_*, loop_mailbox(), loop_n_conns() and loop_is_current(): any thread. The
 * rest: the loop's own.
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

/* What a loop computes for one request at a time, in bytes that are gone over one by one: parsed,
 * printed, sorted, compressed. It takes a few milliseconds, which all connections of the loop wait.
 * Beyond, it goes to loop_compute(). */
#define LOOP_MAX_WORK_BYTES ((size_t)256 << 10)

/* How often connections are ticked: time-outs are late by at most this. */
#define LOOP_TICK_NS UINT64_C(500000000)

/* Has libuv take from the reserve (base/reserve.h) when the allocator has nothing: it ends the process
 * where a list of its own cannot grow. Before any other use of a loop. */
void loop_use_reserve(void);

/* The threads are called "<name>-0", "<name>-1", ... */
struct error *loop_group_new(const char *name, size_t n_loops, struct loop_group **ret) NODISCARD;
void          loop_group_free(struct loop_group *g); /* NULL is fine */
/* Charges the buffers of all loops to it; before the first connection. Borrowed. */
void         loop_group_set_budget(struct loop_group *g, struct byte_budget *budget);
size_t       loop_group_size(const struct loop_group *g);
struct loop *loop_group_get(struct loop_group *g, size_t i);
struct loop *loop_group_least_busy(struct loop_group *g); /* fewest connections */

struct mailbox  *loop_mailbox(struct loop *l);
struct buf_pool *loop_buf_pool(struct loop *l);
size_t           loop_index(const struct loop *l);
size_t           loop_n_conns(const struct loop *l);
/* True on the thread of this loop. */
bool loop_is_current(const struct loop *l);

/* A round of the loop: it reads all sockets that are ready and empties its mailbox, runs the tasks that
 * were deferred, phase by phase, and waits for events. So requests that arrive together are parsed and
 * submitted before the first of them wakes an instance, and their answers are written one after the
 * other. */
enum loop_phase {
        LOOP_HANDLE, /* parse and submit what was read; then the waker runs */
        LOOP_WRITE,  /* write what was produced */
        N_LOOP_PHASES,
};

/* Embedded; its owner's again when `run` is called. */
struct loop_task;
typedef void (*loop_task_fn)(struct loop_task *t);

struct loop_task {
        struct list_node node; /* linked while it is deferred */
        loop_task_fn     run;
};

/* Runs the task in that phase of this round. Does nothing when it is deferred already. A task may defer
 * others and itself: a round repeats its phases until no task is left. */
void loop_defer(struct loop *l, enum loop_phase phase, struct loop_task *t);

/* `wake` runs in each round of the calling thread's loop between the two phases, to wake the threads
 * that the round has work for. One per loop: false when the calling thread runs no loop, or the loop
 * has another waker. */
bool loop_set_waker(void (*wake)(void));

/* Work that blocks (model load, directory scan) runs on a thread of its own, so that no loop ever
 * waits; then `done` runs on the loop. Embed it; it is the owner's again in `done`. */
struct loop_work;
typedef void (*loop_work_fn)(struct loop_work *w);

struct loop_work {
        loop_work_fn run;  /* on its thread */
        loop_work_fn done; /* on the loop */
        bool  gives_way;   /* to threads that serve: it computes for long (thread_give_way()) */
        bool  steps_back;  /* as well: it starts no threads (thread_step_back()) */
        void *native;      /* owned by the loop until `done` */

        /* Of loop_compute(): the loop's until `done`. */
        struct loop *loop;
        struct work  queued;
        struct mail  back;
        bool         is_cancelled; /* in `done`: it was never run */
};

void loop_start_work_thread(struct loop *l, struct loop_work *w);

/* Runs CPU-bound work that takes milliseconds or seconds (decompressing, decoding or printing large
 * bodies) on a worker thread. The loops of a group share a pool of at most one thread for each two
 * CPUs, at a lower priority than the loops; it runs work in the order of submission. When no worker
 * thread can be started, the work runs on the calling thread. `gives_way` and `steps_back` are
 * ignored. */
void loop_compute(struct loop *l, struct loop_work *w);
/* Cancels work whose result is not needed any more: it is not run if it has not begun. `done` follows
 * in either case, later. Call on the loop, between loop_compute() and `done`. */
void loop_compute_cancel(struct loop_work *w);
