/* SPDX-License-Identifier: BSD-3-Clause */
#include "trace/trace_file.h"

#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "trace/trace_json.h"
#include "trace/trace_record.h"
#include "trace/trace_settings.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#define FILE_MODE 0644 /* as the log; the umask may allow less */

/* The records of one source that are not written yet. */
struct waiting {
        struct list_node     node;
        struct trace_source *source; /* ref */
        struct strbuf        text;
        uint64_t             n_waiting;
        uint64_t             n_come; /* all records so far */
};

struct trace_file {
        struct trace_sink sink;
        const char       *path;    /* borrowed */
        struct list       waiting; /* struct waiting, owned */
        uint64_t          next_index;
        off_t             end; /* position of the closing bracket of <file>; 0 = no <file> yet */
};

static struct trace_file *self(struct trace_sink *s) {
        return CONTAINER_OF(s, struct trace_file, sink);
}

struct error *trace_file_check(const char *path) {
        bool was_there = access(path, F_OK) == 0;
        int  fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, FILE_MODE);

        if (fd < 0)
                return error_new(ERR_INVALID_ARG, "trace file '%s' can not be written: %s", path,
                                 strerror(errno));
        close(fd);
        if (!was_there)
                unlink(path);
        return NULL;
}

/* ---- writing --------------------------------------------------------------------------------- */

static bool write_all(int fd, const char *bytes, size_t n, off_t at) {
        while (n > 0) {
                ssize_t done = pwrite(fd, bytes, n, at);

                if (done < 0 && errno == EINTR)
                        continue;
                if (done <= 0)
                        return false;
                bytes += done;
                n -= (size_t)done;
                at += done;
        }
        return true;
}

/* Writes `text` as elements of the array in that file. *end is the position of its closing bracket,
 * 0 for a new file. */
static void append(const char *path, off_t *end, struct strbuf *text) {
        bool is_new = *end == 0;
        int  fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | (is_new ? O_TRUNC : 0), FILE_MODE);
        bool is_written;

        strbuf_putc(text, ']');
        if (fd < 0) {
                log_error("failed to open trace file '%s': %s", path, strerror(errno));
                return;
        }
        /* A comma replaces the closing bracket of the previous write. */
        is_written = write_all(fd, is_new ? "[" : ",", 1, *end) &&
                     write_all(fd, text->ptr, text->len, *end + 1);
        if (is_written)
                *end += (off_t)text->len;
        else
                log_error("failed to write trace file '%s': %s", path, strerror(errno));
        if (close(fd) != 0)
                log_error("failed to close trace file '%s': %s", path, strerror(errno));
}

static void clear(struct waiting *w) {
        strbuf_done(&w->text);
        strbuf_init(&w->text, 0);
        w->n_waiting = 0;
}

static void write_indexed(struct trace_file *f, struct waiting *w) {
        off_t      start = 0;
        AUTO_CHARS path = NULL;

        if (w->n_waiting == 0)
                return;
        path = mem_printf("%s.%" PRIu64, f->path, f->next_index++);
        append(path, &start, &w->text);
        clear(w);
}

/* Writes what the source holds before a file is full: to <file>, or with a log_frequency to
 * <file>.<n>. */
static void write_rest(struct trace_file *f, struct waiting *w) {
        if (w->n_waiting == 0)
                return;
        if (w->source->values.log_frequency > 0) {
                write_indexed(f, w);
                return;
        }
        append(f->path, &f->end, &w->text);
        clear(w);
}

/* ---- sources --------------------------------------------------------------------------------- */

static void waiting_free(struct waiting *w) {
        list_remove(&w->node);
        trace_source_unref(w->source);
        strbuf_done(&w->text);
        free(w);
}

static struct waiting *find_or_add(struct trace_file *f, struct trace_source *source) {
        struct waiting *w;

        LIST_FOR_EACH(&f->waiting, node) {
                w = LIST_ENTRY(node, struct waiting, node);
                if (w->source == source)
                        return w;
        }
        w = mem_zalloc(sizeof(*w));
        trace_source_ref(source);
        w->source = source;
        strbuf_init(&w->text, 0);
        list_append(&f->waiting, &w->node);
        return w;
}

/* True when all sampled records of the source have come or were dropped. */
static bool has_all_records(const struct waiting *w) {
        return w->n_come + atomic_load(&w->source->n_dropped) >= atomic_load(&w->source->n_sampled);
}

static void write_if_due(struct trace_file *f, struct waiting *w) {
        const struct trace_source *s = w->source;

        if (s->values.log_frequency > 0 && w->n_waiting >= s->values.log_frequency)
                write_indexed(f, w);
        else if (w->text.len > TRACE_FILE_MAX_WAITING)
                write_rest(f, w);
        /* The flags first: after either flag is set the source samples no more records. */
        if (atomic_load(&s->is_used_up) && has_all_records(w)) {
                write_indexed(f, w);
                waiting_free(w);
        } else if (atomic_load(&s->is_retired) && has_all_records(w)) {
                write_rest(f, w);
                waiting_free(w);
        }
}

static void add_record(struct trace_file *f, struct trace_record *r) {
        struct waiting *w = find_or_add(f, r->source);
        size_t          len = w->text.len;

        if (len > 0)
                strbuf_putc(&w->text, ',');
        size_t before = w->text.len;

        trace_json_print(r, &w->text);
        if (w->text.len == before && len > 0)
                w->text.ptr[w->text.len = len] = '\0'; /* an empty record */
        w->n_come++;
        if (w->text.len > len)
                w->n_waiting++;
        if (w->text.overflowed) {
                trace_writer_count_dropped(f->sink.writer, w->n_waiting);
                clear(w);
        }
        write_if_due(f, w);
}

static void take(struct trace_sink *sink, struct trace_record *first) {
        for (struct trace_record *r = first, *next; r; r = next) {
                next = r->next;
                add_record(self(sink), r);
                trace_record_free(r);
        }
}

static void on_change(struct trace_sink *sink) {
        struct trace_file *f = self(sink);

        LIST_FOR_EACH(&f->waiting, node) {
                write_if_due(f, LIST_ENTRY(node, struct waiting, node));
        }
}

static void finish(struct trace_sink *sink) {
        struct trace_file *f = self(sink);

        while (!list_is_empty(&f->waiting)) {
                struct waiting *w = LIST_ENTRY(list_first(&f->waiting), struct waiting, node);

                write_rest(f, w);
                waiting_free(w);
        }
}

static void free_file(struct trace_sink *sink) {
        finish(sink); /* writes only when the thread never ran */
        free(self(sink));
}

struct trace_sink *trace_file_new(const char *path) {
        static const struct trace_sink_ops ops = {
                .take = take,
                .on_change = on_change,
                .finish = finish,
                .free = free_file,
        };
        struct trace_file *f = mem_zalloc(sizeof(*f));

        f->sink.ops = &ops;
        f->path = path;
        list_init(&f->waiting);
        return &f->sink;
}
