/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the log's lines go: a descriptor, and a thread that writes to it, so that no other thread
 * waits for the reader of the log.
 *
 * Between log_writer_start() and log_writer_stop() a caller writes its line when that does not block,
 * so a line is out before what follows it. When the reader of a pipe stalls, lines are copied into
 * memory, up to a bound, and the thread writes them; until it is done, later lines wait there, too.
 * Lines without room are lost and counted, the unimportant ones first, and the log says how many as
 * soon as it goes on. So are lines that the descriptor refuses, as a full disk does; a line that is cut
 * there ends before the next one begins. Without the thread (in commands, in tests, before the start) each line is
 * written by its caller, who waits.
 *
 * A pipe or terminal is opened a second time for writing without blocking: O_NONBLOCK of the first
 * descriptor would be that of other processes, too. Where that is forbidden, the thread writes all
 * lines. It writes whole lines, up to PIPE_BUF bytes at once, since processes that share a pipe (those
 * of Python models) do not mix smaller writes.
 *
 * Ownership.  The process has one writer per link unit.
 * Threads.  Any. The lock (rank LOCK_LOG) is not held while the thread writes.
 */
#pragma once

#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"

#include <stdbool.h>
#include <stdint.h>

/* How much of the memory for waiting lines each may use: what is important finds room when access
 * lines do not. */
enum log_line_kind {
        LOG_LINE_ACCESS,    /* half of it */
        LOG_LINE_MESSAGE,   /* three quarters: information */
        LOG_LINE_IMPORTANT, /* all of it: warnings and errors */
};

#define LOG_WAITING_MAX_BYTES ((size_t)1 << 20)

/* Puts the line that says that n lines were lost, and why, with its newline. */
typedef void (*log_lost_fn)(struct strbuf *out, uint64_t n, const char *why);

/* Starts the thread for its first user. */
struct error *log_writer_start(log_lost_fn put_lost) NODISCARD;
/* Ends the thread with its last user, when all that waits is written, or after the time-out: then the
 * reader has stalled, and later lines are lost. */
void log_writer_stop(uint64_t timeout_ns);

/* Waits until the lines that wait now are written, at most that long. */
void log_writer_flush(uint64_t timeout_ns);

/* Takes the descriptor and closes the one before, unless that is standard error. */
void log_writer_set_fd(int fd);
/* A line in two parts; the second has the newline. */
void     log_writer_put(enum log_line_kind kind, struct str line, struct str end);
uint64_t log_writer_n_lost(void); /* lines, since the start of the process */
