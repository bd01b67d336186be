/* SPDX-License-Identifier: BSD-3-Clause */
/* For src/net only: libuv's header, and the struct of a loop. */
#pragma once

#include "base/compiler.h"
#include "base/due_heap.h"
#include "base/list.h"
#include "base/thread.h"
#include "net/loop.h"
#include "net/mailbox.h"
#include "net/turns.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct discarded;
struct loop;
struct loop_tls;
struct opening;

/* Memory for the small writes of one batch: enough for a few hundred answers. */
#define WRITE_BATCH_BYTES ((size_t)32 << 10)

/* Functions of conn.c that a loop calls for its connections. */
struct loop_conn_ops {
        void (*tick)(struct loop *l, uint64_t now_ns); /* ticks each connection */
};

/* Writes that connections deferred to the write phase of the round, see conn_write_soon(). */
struct write_batch {
        struct list      conns;  /* struct conn, in the order of their writes */
        struct loop_task flush;  /* sends them */
        char            *memory; /* owned: WRITE_BATCH_BYTES; copies of small writes, in order */
        size_t           used;   /* bytes of `memory` */
};

struct mailbox {
        _Atomic(struct mail *) newest; /* linked by `next` towards the oldest */
        int wake_fd; /* owned: eventfd; a thread that posts into the empty mailbox writes to it */
        uv_poll_t poll; /* the loop's */
};

struct loop {
        uv_loop_t         uv;
        struct mailbox    mailbox;
        uv_timer_t        tick; /* runs while there are connections, and MAX_IDLE_TICKS longer */
        unsigned          n_idle_ticks; /* since the last connection was closed */
        unsigned          n_ticks;
        unsigned          n_rounds;      /* wake-ups since the last trim_memory() */
        bool              was_busy;      /* state at the last trim_memory() */
        unsigned          n_ended_conns; /* since the last mem_trim() */
        uv_prepare_t      prepare;       /* before each wait: run_round() */
        struct list       waiting;  /* struct work_thread: work for which there was no room yet */
        struct list       finished; /* struct work_thread: threads that have finished their work */
        unsigned          n_work_threads;
        struct work_pool *workers;              /* borrowed: the group's; for loop_compute() */
        struct work_pool *short_workers;        /* the same, for short work */
        struct list       tasks[N_LOOP_PHASES]; /* struct loop_task, in the order of loop_defer() */
        struct turns      turns;                /* shares of the round */
        uint64_t          openings_round;       /* round of n_openings */
        unsigned          n_openings;           /* of connections, see listener.c */
        uv_idle_t awake;     /* active while `turns` or `discarded` has more: it does not sleep */
        void (*waker)(void); /* NULL until loop_set_waker() */
        bool has_own_mail;   /* the loop's thread posted into the empty mailbox */
        /* The own mail of this round was delivered; more own mail waits for the next round. */
        bool            wakes_itself;
        uv_timer_t      alarm;     /* set to the first of `timers`, or earlier */
        uint64_t        alarm_ns;  /* CLOCK_NEVER = not set */
        uint64_t        firing_ns; /* 0 = not in the alarm's callback */
        struct due_heap timers;    /* struct loop_timer */
        struct list     conns;     /* struct conn */
        const struct loop_conn_ops
                *conn_ops; /* borrowed: static; NULL before the first connection */
        /* True while the loop delivers several mails: conn_write_soon() then defers writes. */
        bool               delivers_several;
        struct write_batch writes;    /* of conn.c; zero until the first connection */
        _Atomic size_t     n_conns;   /* length of `conns` */
        _Atomic size_t    n_arriving; /* accepted connections in mails that are not delivered yet */
        struct buf_pool  *pool;       /* ref */
        struct discarded *discarded;  /* owned: blocks that are freed piece by piece */
        size_t            discarded_bytes;    /* bytes of `discarded` that were not freed yet */
        struct loop_tls  *tls;                /* owned: see conn_tls.c; NULL until it is needed */
        void (*free_tls)(struct loop_tls *t); /* set with `tls` */
        size_t          index;
        char           *name; /* owned */
        struct thread   thread;
        struct opening *opening; /* borrowed until the thread has opened the loop */
        bool        is_open; /* set by the loop's thread; no other thread may post before that */
        struct mail stop;
};

/* To be called after a connection was added to or removed from `conns`; the first starts the tick timer
 * when necessary. */
void loop_conn_added(struct loop *l);
void loop_conn_removed(struct loop *l);
