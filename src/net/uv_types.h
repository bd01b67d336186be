/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside src/net only: libuv, and the struct of a loop that is built on it.
 */
#pragma once

#include "base/compiler.h"
#include "base/due_heap.h"
#include "base/list.h"
#include "base/thread.h"
#include "net/loop.h"
#include "net/mailbox.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct discarded;
struct loop;
struct loop_tls;
struct opening;

/* Small writes of one batch: some hundred answers. */
#define WRITE_BATCH_BYTES ((size_t)32 << 10)

/* What a loop asks of its connections (conn.c). */
struct loop_conn_ops {
        void (*tick)(struct loop *l, uint64_t now_ns); /* gives each connection the time */
};

/* Writes that connections deferred to the write phase of the round: see conn_write_soon(). */
struct write_batch {
        struct list      conns;  /* struct conn, in the order of their writes */
        struct loop_task flush;  /* sends them */
        char            *memory; /* owned: WRITE_BATCH_BYTES; small writes, one behind the other */
        size_t           used;   /* bytes of `memory` */
};

struct mailbox {
        _Atomic(struct mail *) newest; /* linked by `next` towards the oldest */
        int       wake_fd; /* owned: an eventfd, written once by whoever fills the box */
        uv_poll_t poll;    /* the loop's */
};

struct loop {
        uv_loop_t         uv;
        struct mailbox    mailbox;
        uv_timer_t        tick;         /* runs while there are connections, and a little longer */
        unsigned          n_idle_ticks; /* since the last connection went */
        unsigned          n_ticks;
        unsigned          n_rounds; /* times that it woke, since memory was last looked after */
        bool              was_busy; /* when memory was last looked after */
        uv_prepare_t      prepare;  /* before each wait: runs the phases */
        struct list       leaving;  /* struct work_thread: threads whose work is done */
        struct work_pool *workers;  /* borrowed: the group's; for loop_compute() */
        struct list       tasks[N_LOOP_PHASES]; /* struct loop_task, in the order of loop_defer() */
        void (*waker)(void);                    /* NULL until loop_set_waker() */
        bool has_own_mail; /* this thread has filled the mailbox, without a wake-up */
        bool wakes_itself; /* its own mail was delivered in this round: more of it wakes the loop */
        uv_timer_t      alarm;     /* at the first of `timers`, or before it */
        uint64_t        alarm_ns;  /* CLOCK_NEVER = not set */
        uint64_t        firing_ns; /* 0 = not in the alarm's callback */
        struct due_heap timers;    /* struct loop_timer */
        struct list     conns;     /* struct conn */
        const struct loop_conn_ops
                *conn_ops;    /* borrowed: static; NULL before the first connection */
        bool     is_batching; /* several mails are being delivered: see conn_write_soon() */
        struct write_batch writes;
        _Atomic size_t     n_conns;           /* length of `conns` */
        _Atomic size_t     n_dealt;           /* on their way here as a mail */
        struct buf_pool   *pool;              /* ref */
        struct discarded  *discarded;         /* owned: blocks that are freed piece by piece */
        size_t             discarded_bytes;   /* of them, what is not given back */
        uv_idle_t          discarder;         /* runs while there are some */
        struct loop_tls   *tls;               /* owned: see conn_tls.c; NULL until needed */
        void (*free_tls)(struct loop_tls *t); /* set with `tls` */
        size_t          index;
        char           *name; /* owned */
        struct thread   thread;
        struct opening *opening; /* borrowed: until the thread has opened the loop */
        bool            is_open; /* set by the thread, before anybody may post */
        struct mail     stop;
};

/* A connection came or went: keeps the tick running as long as it is needed. */
void loop_conn_added(struct loop *l);
void loop_conn_removed(struct loop *l);

void write_batch_init(struct write_batch *b);
