/* SPDX-License-Identifier: BSD-3-Clause */
/* SIGINT and SIGTERM: the first one stops the server in order, the second one ends the process at
 * once. SIGHUP: the server reads the files again that may change while it runs.
 */
#pragma once

/* Blocks the three signals in this and all later threads; ignores SIGPIPE. Called before any thread
 * starts. */
void signals_block(void);

/* Waits for SIGINT or SIGTERM and returns its number. Until then, each SIGHUP calls
 * on_hangup(owner) on this thread. Afterwards the next SIGINT or SIGTERM ends the process with
 * status 1, unless it is a duplicate of the first, and SIGHUP has no effect. */
int signals_wait(void (*on_hangup)(void *owner), void *owner);
