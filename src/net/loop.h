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
#include "net/mailbox.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf_pool;
struct loop;
struct loop_group;

/* How often connections are ticked: time-outs are late by at most this. */
#define LOOP_TICK_NS UINT64_C(500000000)

/* The threads are called "<name>-0", "<name>-1", ... */
struct error    *loop_group_new(const char *name, size_t n_loops,
                                struct loop_group **ret) NODISCARD;
void             loop_group_free(struct loop_group *g); /* NULL is fine */
size_t           loop_group_size(const struct loop_group *g);
struct loop     *loop_group_get(struct loop_group *g, size_t i);
struct loop     *loop_group_least_busy(struct loop_group *g); /* fewest connections */

struct mailbox  *loop_mailbox(struct loop *l);
struct buf_pool *loop_buf_pool(struct loop *l);
size_t           loop_index(const struct loop *l);
size_t           loop_n_conns(const struct loop *l);
/* True on the thread of this loop. */
bool             loop_is_current(const struct loop *l);

/* What a round of the loop puts off until it has seen everything that woke it: done once, before
 * the loop waits again. Embedded; belongs to its owner again when `run` is called. */
struct loop_chore;
typedef void (*loop_chore_fn)(struct loop_chore *c);

struct loop_chore {
        struct list_node node; /* linked while it is put off */
        loop_chore_fn    run;
};

/* Nothing when it is put off already. A chore may put off others, and itself: they are done in
 * the same round. */
void loop_put_off(struct loop *l, struct loop_chore *c);

/* `call` runs before each time that the calling thread's loop waits for events, behind the chores.
 * One per thread: false when this is no loop's thread, or another call is there. */
bool loop_before_wait(void (*call)(void));

/* Work that blocks (model load, directory scan) runs on a thread of its own, so that no loop ever
 * waits; then `done` runs on the loop. Embed it; it is the owner's again in `done`. */
struct loop_work;
typedef void (*loop_work_fn)(struct loop_work *w);

struct loop_work {
        loop_work_fn run;        /* on its thread */
        loop_work_fn done;       /* on the loop */
        bool         gives_way;  /* to threads that serve: it computes for long (thread_give_way()) */
        bool         steps_back; /* as well: it starts no threads (thread_step_back()) */
        void        *native;     /* owned by the loop until `done` */
};

void loop_offload(struct loop *l, struct loop_work *w);
