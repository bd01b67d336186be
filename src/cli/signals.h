/* SPDX-License-Identifier: BSD-3-Clause */
/* SIGINT and SIGTERM: the first one stops the server in order, also while it starts, the second one ends the
 * process at once. SIGHUP: the server opens its log file again, and reads the files again that may change while it
 * runs. SIGUSR1: it drains.
 */
#pragma once

#include "base/error.h"

#include <stdint.h>

/* What the main thread does until the server stops. */
struct signal_actions {
        void (*on_hangup)(void *owner); /* SIGHUP */
        void (*on_drain)(void *owner);  /* SIGUSR1 */
        void (*on_tick)(void *owner);   /* each tick_ns, or later when the machine is busy */
        uint64_t tick_ns;               /* 0: never */
        void    *owner;                 /* borrowed */
};

/* Blocks the four signals in this and all later threads; ignores SIGPIPE. Called before any thread
 * starts. */
void signals_block(void);

/* What happens when a signal comes while the server starts. */
struct start_actions {
        void (*on_stop)(
                void *owner); /* the first SIGINT or SIGTERM; runs on the thread of the watch */
        void    *owner;       /* borrowed */
        uint64_t exit_ns;     /* a start that has not ended so long after it ends the process */
};

/* While the server starts, which may take long: the first SIGINT or SIGTERM is reported, and kept for
 * signals_wait(); the next one ends the process with status 1. */
struct error *signals_watch_start(const struct start_actions *actions) NODISCARD;
void          signals_end_start(void); /* Without a watch it does nothing. */
int           signals_first(void);     /* the one that came during the start; 0: none did */

/* Waits for SIGINT or SIGTERM, or for nothing when one came during the start, and returns its number.
 * Until then the actions are called on this thread. Afterwards the next SIGINT or SIGTERM ends the
 * process with status 1, unless it is a duplicate of the first, and the other signals have no effect. */
int signals_wait(const struct signal_actions *actions);
