/* SPDX-License-Identifier: BSD-3-Clause */
/* What was logged, as lines "<I, W, E or V> <message>".
 *
 * Threads.  Any may log; one thread begins, asks and ends.
 */
#pragma once

#include <stdbool.h>

void log_lines_begin(void); /* from now on lines are kept here and not written */
void log_lines_end(void);

/* How many of the lines are exactly this one, or begin with it. */
unsigned log_lines_count(const char *line);
unsigned log_lines_count_prefix(const char *prefix);

/* Waits until a line begins with it. */
void log_lines_await(const char *prefix);

/* All lines; owned by the caller. */
char *log_lines_text(void);
