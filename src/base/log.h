/* SPDX-License-Identifier: BSD-3-Clause */
/* The log: four levels, three formats, one destination.
 *
 * Formats (the reference server's, and one of ours):
 *   default  I1120 13:17:04.123456 1234 file.c:123] "message"
 *   ISO8601  2026-11-20T13:17:04Z I 1234 file.c:123] "message"
 *   json     {"ts":"…","level":"info","pid":1234,"at":"file.c:123","msg":"message"}
 * The message is quoted and escaped as JSON text, so that no peer can forge a line;
 * TRITON_SERVER_ESCAPE_LOG_MESSAGES=false turns the quoting (not the escaping of control
 * characters) off.
 *
 * After log_start() a thread writes the lines (base/log_writer.h): no caller waits for the reader of
 * the log. Lines that a client can cause at any rate are limited per place and second.
 *
 * This state is per link unit. The executable's unit sends its lines to the core's with
 * log_set_sink(), so that there is one log.
 *
 * Threads.  Any. Library code does not log a failure that it also returns.
 */
#pragma once

#include "base/compiler.h"
#include "base/error.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

/* Values are those of TRITONSERVER_LogLevel. */
enum log_level { LOG_INFO = 0, LOG_WARN = 1, LOG_ERROR = 2, LOG_VERBOSE = 3 };
enum log_format { LOG_FORMAT_DEFAULT = 0, LOG_FORMAT_ISO8601 = 1, LOG_FORMAT_JSON = 2 };

struct log_settings {
        bool            info, warning, error; /* all true by default */
        unsigned        verbose_level;        /* 0 by default */
        enum log_format format;
        char            file[4096]; /* "" = standard error */
};

void log_get_settings(struct log_settings *ret);
/* Changes all settings except the file. */
void log_set_settings(const struct log_settings *settings);
/* Appends to the file; "" selects standard error. The error names the path. */
struct error *log_set_file(const char *path);

bool log_is_enabled(enum log_level level); /* LOG_VERBOSE: verbose_level > 0 */
bool log_is_verbose(unsigned level);
void log_write(enum log_level level, const char *file, int line, const char *message);
void log_printf(enum log_level level, const char *file, int line, const char *format, ...)
        PRINTF_LIKE(4, 5);
/* Has a thread write the lines from now on, until log_stop() was called as often. log_stop() waits until
 * the last lines are written, at most a second. */
struct error *log_start(void) NODISCARD;
void          log_stop(void);
void          log_flush(void); /* waits until all lines are written, at most a second */
/* Writes a text to standard error before the process ends: waits at most a second for its reader. */
void     log_last_words(const char *text);
uint64_t log_n_lost(void); /* lines that were not read in time */
/* Writes a complete line (without newline) as it is: for the access log. */
void log_raw(struct str line);

typedef void (*log_sink_fn)(enum log_level level, const char *file, int line, const char *message);
typedef bool (*log_enabled_fn)(enum log_level level);
/* Sends all messages of this link unit to `sink`; NULL, NULL restores the destination. */
void log_set_sink(log_sink_fn sink, log_enabled_fn enabled);

#define LOG_AT_(level, ...)                                                                        \
        do {                                                                                       \
                if (log_is_enabled(level))                                                         \
                        log_printf(level, __FILE__, __LINE__, __VA_ARGS__);                        \
        } while (0)
/* For lines that a client can cause: some per second of one place in the code; the first one of a later
 * second says how many there were more. */
#define LOG_LINES_PER_S 10
struct log_limit {
        _Atomic uint64_t second;
        _Atomic unsigned n_lines, n_suppressed;
};
bool log_limit_pass(struct log_limit *limit, unsigned *ret_n_more);

#define LOG_LIMITED_(level, ...)                                                                   \
        do {                                                                                       \
                static struct log_limit log_limit_;                                                \
                unsigned                log_n_more_;                                               \
                if (!log_is_enabled(level) || !log_limit_pass(&log_limit_, &log_n_more_))          \
                        break;                                                                     \
                if (log_n_more_ > 0)                                                               \
                        log_printf(level, __FILE__, __LINE__,                                      \
                                   "%u lines like the next one were left out", log_n_more_);       \
                log_printf(level, __FILE__, __LINE__, __VA_ARGS__);                                \
        } while (0)
#define log_warn_limited(...) LOG_LIMITED_(LOG_WARN, __VA_ARGS__)

#define log_info(...) LOG_AT_(LOG_INFO, __VA_ARGS__)
#define log_warn(...) LOG_AT_(LOG_WARN, __VA_ARGS__)
#define log_error(...) LOG_AT_(LOG_ERROR, __VA_ARGS__)
#define log_verbose(level_number, ...)                                                             \
        do {                                                                                       \
                if (log_is_verbose(level_number))                                                  \
                        log_printf(LOG_VERBOSE, __FILE__, __LINE__, __VA_ARGS__);                  \
        } while (0)
