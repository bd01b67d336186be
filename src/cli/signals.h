/* SPDX-License-Identifier: BSD-3-Clause */
/* SIGINT and SIGTERM: the first one stops the server in order, the second one ends it at once.
 * SIGHUP: files that may change while serving are read again.
 */
#pragma once

/* Blocks the three in this and all later threads; ignores SIGPIPE. Call before any thread
 * starts. */
void signals_block(void);

/* Sleeps until SIGINT or SIGTERM comes; returns its number. From then on the next one, if it is no
 * echo of the first, ends the process with status 1, and SIGHUP does nothing. Meanwhile each SIGHUP
 * calls on_hangup(owner), on this thread. */
int signals_wait(void (*on_hangup)(void *owner), void *owner);
