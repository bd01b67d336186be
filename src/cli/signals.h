/* SPDX-License-Identifier: BSD-3-Clause */
/* SIGINT and SIGTERM: the first one stops the server in order, the second one ends it at once.
 */
#pragma once

/* Blocks both in this and all later threads; ignores SIGPIPE. Call before any thread starts. */
void signals_block(void);

/* Sleeps until one of them comes; returns its number. From then on the next one ends the process
 * with status 1. */
int signals_wait(void);
