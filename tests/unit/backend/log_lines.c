/* SPDX-License-Identifier: BSD-3-Clause */
#include "backend/log_lines.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/strbuf.h"

#include <pthread.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t  arrived = PTHREAD_COND_INITIALIZER;
static struct strbuf   lines; /* under the lock; each ends with a newline */

static void keep_line(enum log_level level, const char *file, int line, const char *message) {
        (void)file;
        (void)line;
        pthread_mutex_lock(&lock);
        strbuf_putc(&lines, "IWEV"[level]);
        strbuf_putc(&lines, ' ');
        strbuf_puts(&lines, message);
        strbuf_putc(&lines, '\n');
        pthread_cond_broadcast(&arrived);
        pthread_mutex_unlock(&lock);
}

static bool keep_all(enum log_level level) {
        (void)level;
        return true;
}

void log_lines_begin(void) {
        pthread_mutex_lock(&lock);
        strbuf_init(&lines, 0);
        pthread_mutex_unlock(&lock);
        log_set_sink(keep_line, keep_all);
}

void log_lines_end(void) {
        log_set_sink(NULL, NULL);
        pthread_mutex_lock(&lock);
        strbuf_done(&lines);
        pthread_mutex_unlock(&lock);
}

static unsigned count_locked(struct str wanted, bool is_prefix) {
        unsigned   n = 0;
        struct str rest = strbuf_str(&lines);
        struct str line;

        while (rest.ptr != NULL && rest.len > 0) {
                rest = str_split(rest, '\n', &line);
                n += is_prefix ? str_starts(line, wanted) : str_equal(line, wanted);
        }
        return n;
}

static unsigned count(struct str wanted, bool is_prefix) {
        unsigned n;

        pthread_mutex_lock(&lock);
        n = count_locked(wanted, is_prefix);
        pthread_mutex_unlock(&lock);
        return n;
}

unsigned log_lines_count(const char *line) {
        return count(str_of(line), false);
}

unsigned log_lines_count_prefix(const char *prefix) {
        return count(str_of(prefix), true);
}

void log_lines_await(const char *prefix) {
        pthread_mutex_lock(&lock);
        while (count_locked(str_of(prefix), true) == 0)
                pthread_cond_wait(&arrived, &lock);
        pthread_mutex_unlock(&lock);
}

char *log_lines_text(void) {
        char *text;

        pthread_mutex_lock(&lock);
        text = mem_strdup(strbuf_cstr(&lines));
        pthread_mutex_unlock(&lock);
        return text;
}
