/* SPDX-License-Identifier: BSD-3-Clause */
/* The last warnings and errors of the log, in memory: a ring of LOG_RECENT_LINES lines, which the
 * dashboard shows.
 *
 * Nothing is kept before log_recent_keep(true). Lines have numbers, 1, 2, ... in order, so that a
 * reader asks only for what it has not seen. A line holds the first LOG_RECENT_BYTES bytes of its
 * message; adding one allocates nothing, so a shortage of memory loses no line.
 *
 * Ownership.  The process has one ring per link unit, of about LOG_RECENT_LINES * 600 bytes; it stays
 * once it was needed.
 * Threads.  Any. The ring's lock has the rank LOCK_LOG.
 */
#pragma once

#include "base/log.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOG_RECENT_LINES 200
#define LOG_RECENT_BYTES 512
#define LOG_RECENT_FILE_BYTES 48 /* longer names of source files are cut */

struct log_recent_line {
        uint64_t       number;
        uint64_t       wall_ms; /* since the epoch */
        enum log_level level;   /* LOG_WARN or LOG_ERROR */
        int            line;
        char           file[LOG_RECENT_FILE_BYTES]; /* without its directory */
        char           text[LOG_RECENT_BYTES + 1];
};

void log_recent_keep(bool keep); /* false: later lines are not kept */
/* Ignores levels other than LOG_WARN and LOG_ERROR. */
void log_recent_add(enum log_level level, const char *file, int line, struct str message);
/* Copies the oldest line whose number is greater than `after`; false when there is none. */
bool log_recent_next(uint64_t after, struct log_recent_line *ret);
