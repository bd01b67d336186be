/* SPDX-License-Identifier: BSD-3-Clause */
/* Telling whoever wants to know that something has changed; what, they ask for themselves.
 *
 * Ownership.  A watch is its maker's and must be freed before the notice is done.
 * Threads.  Any. Callbacks run on the thread that announces, with no lock held; those of one watch
 * may run at the same time as each other. When notice_watch_free() returns, none of that watch is
 * running or will; so a callback must not free its own watch, and who frees one holds no lock that
 * the callback takes.
 */
#pragma once

#include "base/list.h"
#include "base/lock.h"

#include <stdint.h>

typedef void (*notice_fn)(void *userp);

struct notice_watch;

struct notice {
        struct mutex lock;  /* rank LOCK_MAILBOX; guards what follows and the watches */
        struct cond  ended; /* callbacks of a watch */
        struct list  watches; /* struct notice_watch: those told the longest ago first */
        uint64_t     n_changes;
};

void notice_init(struct notice *n);
void notice_done(struct notice *n);

/* After the change, and with no lock held: each callback that this calls sees it. */
void notice_announce(struct notice *n);

/* `on_change` may be called before this returns. */
struct notice_watch *notice_watch_new(struct notice *n, notice_fn on_change, void *userp);
void                 notice_watch_free(struct notice_watch *w); /* NULL is fine */
