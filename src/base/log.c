/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/log_recent.h"
#include "base/log_writer.h"
#include "base/mem.h"
#include "base/strbuf.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* Longer messages are cut: a line is built in memory, and a peer's text may be part of it. */
#define LOG_MAX_MESSAGE_BYTES ((size_t)256 << 10)
/* Each byte of a message may become a \u00xx escape. */
#define LOG_MAX_LINE_BYTES (LOG_MAX_MESSAGE_BYTES * 6 + 4096)

/* When memory is short, a line is made on the stack: its text is cut, and the name of a file that is
 * longer is left out. All of it may become escapes. */
#define SHORT_MESSAGE_BYTES ((size_t)200)
#define SHORT_NAME_BYTES 64
#define SHORT_LINE_BYTES 2048

/* Every log_...() call reads this first; log_set_settings() writes it. */
static atomic_bool             level_enabled[3] = { true, true, true }; /* by enum log_level */
static _Atomic unsigned        verbose_level;
static _Atomic int             line_format = LOG_FORMAT_DEFAULT;
static _Atomic(log_sink_fn)    sink;
static _Atomic(log_enabled_fn) sink_enabled;

static struct mutex log_lock = { .rank = LOCK_LOG };
static char         log_path[sizeof(((struct log_settings *)0)->file)]; /* under log_lock */

/* ---- settings ------------------------------------------------------------------------------ */

void log_get_settings(struct log_settings *ret) {
        ret->info = atomic_load(&level_enabled[LOG_INFO]);
        ret->warning = atomic_load(&level_enabled[LOG_WARN]);
        ret->error = atomic_load(&level_enabled[LOG_ERROR]);
        ret->verbose_level = atomic_load(&verbose_level);
        ret->format = (enum log_format)atomic_load(&line_format);

        MUTEX_GUARD(&log_lock);
        memcpy(ret->file, log_path, sizeof(ret->file));
}

void log_set_settings(const struct log_settings *settings) {
        atomic_store(&level_enabled[LOG_INFO], settings->info);
        atomic_store(&level_enabled[LOG_WARN], settings->warning);
        atomic_store(&level_enabled[LOG_ERROR], settings->error);
        atomic_store(&verbose_level, settings->verbose_level);
        atomic_store(&line_format, (int)settings->format);
}

static void use_destination(int fd, const char *path) {
        mutex_lock(&log_lock);
        memset(log_path, 0, sizeof(log_path));
        memcpy(log_path, path, strlen(path));
        mutex_unlock(&log_lock);
        log_writer_set_fd(fd);
}

struct error *log_set_file(const char *path) {
        int fd;

        if (path[0] == '\0') {
                use_destination(STDERR_FILENO, "");
                return NULL;
        }
        if (strlen(path) >= sizeof(log_path))
                return error_new(ERR_INVALID_ARG, "path of the log file is longer than %zu bytes",
                                 sizeof(log_path) - 1);

        fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (fd < 0)
                return error_errno(errno, "unable to open log file '%s'", path);
        use_destination(fd, path);
        return NULL;
}

void log_set_sink(log_sink_fn new_sink, log_enabled_fn enabled) {
        atomic_store(&sink_enabled, enabled);
        atomic_store(&sink, new_sink);
}

bool log_is_enabled(enum log_level level) {
        log_enabled_fn enabled = atomic_load_explicit(&sink_enabled, memory_order_relaxed);

        if (enabled != NULL)
                return enabled(level);
        if (level == LOG_VERBOSE)
                return atomic_load_explicit(&verbose_level, memory_order_relaxed) > 0;
        return (unsigned)level < ARRAY_LEN(level_enabled) &&
               atomic_load_explicit(&level_enabled[level], memory_order_relaxed);
}

bool log_is_verbose(unsigned level) {
        /* A sink reports only whether level 1 is enabled; beyond it this unit's own setting counts. */
        if (level <= 1)
                return log_is_enabled(LOG_VERBOSE);
        return atomic_load_explicit(&verbose_level, memory_order_relaxed) >= level &&
               log_is_enabled(LOG_VERBOSE);
}

/* ---- one line ------------------------------------------------------------------------------ */

/* Appends the JSON text of `message`: control characters and malformed UTF-8 are escaped always,
 * quotes and backslashes when the text stands in quotes. */
static void put_escaped(struct strbuf *line, struct str message, bool is_quoted) {
        while (message.len > 0) {
                size_t        step = str_utf8_first(message);
                unsigned char c = (unsigned char)message.ptr[0];

                if (step == 0) {
                        strbuf_puts(line, "\\ufffd");
                        step = 1;
                } else if (is_quoted && (c == '"' || c == '\\')) {
                        strbuf_putc(line, '\\');
                        strbuf_putc(line, (char)c);
                } else if (c == '\n') {
                        strbuf_puts(line, "\\n");
                } else if (c == '\r') {
                        strbuf_puts(line, "\\r");
                } else if (c == '\t') {
                        strbuf_puts(line, "\\t");
                } else if (c < 0x20 || c == 0x7f) {
                        strbuf_printf(line, "\\u%04x", c);
                } else if (c == 0xc2 && (unsigned char)message.ptr[1] < 0xa0) {
                        /* C1 controls: some terminals execute them. */
                        strbuf_printf(line, "\\u%04x", (unsigned char)message.ptr[1]);
                } else {
                        strbuf_put(line, message.ptr, step);
                }
                message = str_skip(message, step);
        }
}

/* Read once: the environment does not change under a running server. */
static bool           must_quote = true;
static pthread_once_t must_quote_once = PTHREAD_ONCE_INIT;

static void read_must_quote(void) {
        const char *value = getenv("TRITON_SERVER_ESCAPE_LOG_MESSAGES");

        must_quote = value == NULL || (strcasecmp(value, "false") != 0 && strcmp(value, "0") != 0);
}

static void put_head(struct strbuf *line, enum log_format format, enum log_level level) {
        static const char        letters[] = { 'I', 'W', 'E', 'I' }; /* verbose lines have I, too */
        static const char *const names[] = { "info", "warning", "error", "verbose" };
        struct timespec          now;
        struct tm                utc;

        clock_gettime(CLOCK_REALTIME, &now);
        gmtime_r(&now.tv_sec, &utc);
        if (format == LOG_FORMAT_DEFAULT) {
                strbuf_printf(line, "%c%02d%02d %02d:%02d:%02d.%06ld %d ", letters[level],
                              utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                              now.tv_nsec / 1000, (int)getpid());
                return;
        }
        strbuf_printf(line, "%s%04d-%02d-%02dT%02d:%02d:%02d",
                      format == LOG_FORMAT_JSON ? "{\"ts\":\"" : "", utc.tm_year + 1900,
                      utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec);
        if (format == LOG_FORMAT_JSON)
                strbuf_printf(line, ".%06ldZ\",\"level\":\"%s\",\"pid\":%d,\"at\":\"",
                              now.tv_nsec / 1000, names[level], (int)getpid());
        else
                strbuf_printf(line, "Z %c %d ", letters[level], (int)getpid());
}

static void put_tail(struct strbuf *line, enum log_format format, struct str message) {
        if (format == LOG_FORMAT_JSON) {
                strbuf_puts(line, "\",\"msg\":\"");
                put_escaped(line, message, true);
                strbuf_puts(line, "\"}\n");
                return;
        }
        pthread_once(&must_quote_once, read_must_quote);
        strbuf_puts(line, must_quote ? "] \"" : "] ");
        put_escaped(line, message, must_quote);
        strbuf_puts(line, must_quote ? "\"\n" : "\n");
}

/* Puts a whole line. */
static void put_line(struct strbuf *out, enum log_level level, const char *file, int line,
                     struct str message) {
        enum log_format format = (enum log_format)atomic_load(&line_format);
        const char     *slash = strrchr(file, '/');

        put_head(out, format, level);
        put_escaped(out, str_of(slash != NULL ? slash + 1 : file), format == LOG_FORMAT_JSON);
        strbuf_printf(out, ":%d", line);
        put_tail(out, format, message);
}

/* Puts a line that SHORT_LINE_BYTES hold. */
static void put_short_line(struct strbuf *out, enum log_level level, const char *file, int line,
                           struct str message) {
        const char *slash = strrchr(file, '/');
        size_t      name_bytes = strlen(slash != NULL ? slash + 1 : file);

        message.len = MIN(message.len, SHORT_MESSAGE_BYTES);
        put_line(out, level, name_bytes <= SHORT_NAME_BYTES ? file : "", line, message);
}

static void put_lost(struct strbuf *out, uint64_t n, const char *why) {
        AUTO_CHARS text =
                mem_printf("%llu lines of the log were lost: %s", (unsigned long long)n, why);

        put_line(out, LOG_WARN, __FILE__, __LINE__, str_of(text));
}

struct error *log_start(void) {
        return log_writer_start(put_lost);
}

void log_stop(void) {
        log_writer_stop(NS_PER_S);
}

void log_flush(void) {
        log_writer_flush(NS_PER_S);
}

void log_last_words(const char *text) {
        struct pollfd console = { .fd = STDERR_FILENO, .events = POLLOUT };

        if (poll(&console, 1, (int)(NS_PER_S / NS_PER_MS)) > 0 &&
            write(STDERR_FILENO, text, MIN(strlen(text), (size_t)PIPE_BUF)) < 0)
                return; /* cannot be reported */
}

uint64_t log_n_lost(void) {
        return log_writer_n_lost();
}

void log_write(enum log_level level, const char *file, int line, const char *message) {
        log_sink_fn   to_sink = atomic_load_explicit(&sink, memory_order_acquire);
        struct str    text = str_of(message);
        AUTO_STRBUF   out = { .max = LOG_MAX_LINE_BYTES };
        char          memory[SHORT_LINE_BYTES]; /* for a line without other memory */
        struct strbuf small = { .ptr = memory, .cap = sizeof(memory), .max = sizeof(memory) - 1 };

        if (to_sink != NULL) {
                to_sink(level, file, line, message);
                return;
        }
        if ((unsigned)level > LOG_VERBOSE)
                level = LOG_INFO;
        text.len = MIN(text.len, LOG_MAX_MESSAGE_BYTES);

        log_recent_add(level, file, line, text);
        put_line(&out, level, file, line, text);
        if (out.overflowed)
                put_short_line(&small, level, file, line, text);
        log_writer_put(level == LOG_WARN || level == LOG_ERROR ? LOG_LINE_IMPORTANT
                                                               : LOG_LINE_MESSAGE,
                       strbuf_str(out.overflowed ? &small : &out), STR_LIT(""));
}

void log_printf(enum log_level level, const char *file, int line, const char *format, ...) {
        va_list args;
        char   *message = NULL;
        int     printed;

        va_start(args, format);
        printed = vasprintf(&message, format, args);
        va_end(args);
        log_write(level, file, line, printed < 0 ? format : message);
        if (printed >= 0)
                free(message);
}

void log_raw(struct str line) {
        log_writer_put(LOG_LINE_ACCESS, line, STR_LIT("\n"));
}

bool log_limit_pass(struct log_limit *limit, unsigned *ret_n_more) {
        uint64_t second = clock_now_ns() / NS_PER_S + 1; /* 0: never passed */

        *ret_n_more = 0;
        if (atomic_exchange_explicit(&limit->second, second, memory_order_relaxed) != second) {
                *ret_n_more =
                        atomic_exchange_explicit(&limit->n_suppressed, 0, memory_order_relaxed);
                atomic_store_explicit(&limit->n_lines, 0, memory_order_relaxed);
        }
        if (atomic_fetch_add_explicit(&limit->n_lines, 1, memory_order_relaxed) < LOG_LINES_PER_S)
                return true;
        atomic_fetch_add_explicit(&limit->n_suppressed, 1, memory_order_relaxed);
        return false;
}
