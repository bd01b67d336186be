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
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MODE 0644 /* the mode of log files; the umask may restrict it */

/* The records of one source that are not written yet. */
struct pending {
        struct list_node     node;
        struct trace_source *source; /* ref */
        struct strbuf        text;
        uint64_t             n_pending;
        uint64_t             n_all; /* records so far, also the written ones */
};

struct trace_file {
        struct trace_sink sink;
        const char       *path;      /* borrowed */
        struct list       pending;   /* struct pending, owned */
        uint64_t          max_files; /* limit of <file>.<n> that exist at a time */
        uint64_t          next_index;
        off_t             end; /* position of the closing bracket of <file>; 0 = no <file> yet */
        bool              is_full; /* max_files were there at the last attempt to add one */
};

static struct trace_file *self(struct trace_sink *s) {
        return CONTAINER_OF(s, struct trace_file, sink);
}

/* O_NONBLOCK: the open of a pipe without a reader would hold the thread, and so the stop of the server. */
#define OPEN_FLAGS (O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK)

/* An array grows by a write at its closing bracket, which a pipe or a terminal refuses. */
struct error *trace_file_check(const char *path) {
        bool was_there = access(path, F_OK) == 0;
        int  fd = open(path, OPEN_FLAGS, FILE_MODE);
        bool has_places = fd >= 0 && lseek(fd, 0, SEEK_CUR) >= 0;
        int  why = errno;

        if (fd >= 0)
                close(fd);
        if (fd >= 0 && !was_there)
                unlink(path);
        if (has_places)
                return NULL;
        return error_new(ERR_INVALID_ARG, "trace file '%s' can not be written: %s", path,
                         strerror(why));
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

/* Removes a new file that could not be written. The name of a link or a device stays, since others use
 * it: /dev/stdout for example. */
static void remove_new(const char *path, int fd) {
        struct stat status;

        if (lstat(path, &status) == 0 && S_ISREG(status.st_mode))
                unlink(path);
        else if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && ftruncate(fd, 0) != 0)
                log_error("failed to clear trace file '%s': %s", path, strerror(errno));
}

/* Makes the file what it was before a write that failed: an array up to the bracket at `end`, or none.
 * No room is needed for a byte that was there before. */
static void restore(const char *path, int fd, off_t end) {
        if (end == 0)
                remove_new(path, fd);
        else if (!write_all(fd, "]", 1, end) || ftruncate(fd, end + 1) != 0)
                log_error("failed to restore trace file '%s': %s", path, strerror(errno));
}

/* Begins a new array in a file that does not hold the array up to `end` any more: a program that rotates logs has
 * renamed or emptied it since. */
static void begin_anew_if_lost(int fd, off_t *end) {
        struct stat status;

        if (*end > 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
            status.st_size <= *end && ftruncate(fd, 0) == 0)
                *end = 0;
}

/* Writes `text` as elements of the array in that file. *end is the position of its closing bracket,
 * 0 for a new file. False when the file stays as it was. */
static bool append_file(const char *path, off_t *end, struct strbuf *text) {
        int  fd = open(path, OPEN_FLAGS | (*end == 0 ? O_TRUNC : 0), FILE_MODE);
        bool is_new, is_written;

        strbuf_putc(text, ']');
        if (fd < 0) {
                log_error("failed to open trace file '%s': %s", path, strerror(errno));
                return false;
        }
        begin_anew_if_lost(fd, end);
        is_new = *end == 0;
        /* A comma replaces the closing bracket of the previous write. */
        is_written = write_all(fd, is_new ? "[" : ",", 1, *end) &&
                     write_all(fd, text->ptr, text->len, *end + 1);
        if (is_written) {
                *end += (off_t)text->len;
        } else {
                log_error("failed to write trace file '%s': %s", path, strerror(errno));
                restore(path, fd, *end);
        }
        if (close(fd) != 0)
                log_error("failed to close trace file '%s': %s", path, strerror(errno));
        return is_written;
}

static void clear(struct pending *p) {
        strbuf_done(&p->text);
        p->n_pending = 0;
}

static char *indexed_path(const struct trace_file *f, uint64_t index) {
        return mem_printf("%s.%" PRIu64, f->path, index);
}

/* False while <file>.<n - max_files> exists. Numbers rise by one, so at most max_files of this
 * process exist at a time. */
static bool may_add_file(const struct trace_file *f) {
        AUTO_CHARS  oldest = NULL;
        struct stat info;

        if (f->next_index < f->max_files)
                return true;
        oldest = indexed_path(f, f->next_index - f->max_files);
        return lstat(oldest, &info) != 0 && errno == ENOENT;
}

/* Records that no file takes are lost, and counted. */
static void write_to(struct trace_file *f, const char *path, off_t *end, struct pending *p) {
        if (!append_file(path, end, &p->text))
                trace_writer_count_dropped(f->sink.writer, p->n_pending);
        clear(p);
}

static void write_plain(struct trace_file *f, struct pending *p) {
        write_to(f, f->path, &f->end, p);
}

static void write_indexed(struct trace_file *f, struct pending *p) {
        off_t      start = 0;
        bool       was_full = f->is_full;
        AUTO_CHARS path = NULL;

        if (p->n_pending == 0)
                return;
        f->is_full = !may_add_file(f);
        if (f->is_full) {
                if (!was_full)
                        log_warn("there are %" PRIu64
                                 " trace files '%s.<n>': further traces are written "
                                 "to '%s' until the oldest one is removed",
                                 f->max_files, f->path, f->path);
                write_plain(f, p);
                return;
        }
        path = indexed_path(f, f->next_index++);
        write_to(f, path, &start, p);
}

/* Writes what the source holds before a file is full: to <file>, or with a log_frequency to
 * <file>.<n>. */
static void write_rest(struct trace_file *f, struct pending *p) {
        if (p->n_pending == 0)
                return;
        if (p->source->values.log_frequency > 0)
                write_indexed(f, p);
        else
                write_plain(f, p);
}

/* ---- sources --------------------------------------------------------------------------------- */

static void pending_free(struct pending *p) {
        list_remove(&p->node);
        trace_source_unref(p->source);
        strbuf_done(&p->text);
        free(p);
}

static struct pending *find_or_add(struct trace_file *f, struct trace_source *source) {
        struct pending *p;

        LIST_FOR_EACH(&f->pending, node) {
                p = LIST_ENTRY(node, struct pending, node);
                if (p->source == source)
                        return p;
        }
        p = mem_zalloc(sizeof(*p));
        trace_source_ref(source);
        p->source = source;
        list_append(&f->pending, &p->node);
        return p;
}

/* True when all sampled records of the source have come or were dropped. */
static bool has_all_records(const struct pending *p) {
        return p->n_all + atomic_load(&p->source->n_dropped) >= atomic_load(&p->source->n_sampled);
}

static void write_if_due(struct trace_file *f, struct pending *p) {
        const struct trace_source *s = p->source;

        if (s->values.log_frequency > 0 && p->n_pending >= s->values.log_frequency)
                write_indexed(f, p);
        else if (p->text.len > TRACE_FILE_MAX_WAITING)
                write_rest(f, p);
        /* The flags first: after either flag is set the source samples no more records. */
        if (atomic_load(&s->is_used_up) && has_all_records(p)) {
                write_indexed(f, p);
                pending_free(p);
        } else if (atomic_load(&s->is_retired) && has_all_records(p)) {
                write_rest(f, p);
                pending_free(p);
        }
}

static void add_record(struct trace_file *f, struct trace_record *r) {
        struct pending *p = find_or_add(f, r->source);
        size_t          len = p->text.len;

        if (len > 0)
                strbuf_putc(&p->text, ',');
        size_t before = p->text.len;

        trace_json_print(r, &p->text);
        if (p->text.len == before && len > 0)
                p->text.ptr[p->text.len = len] = '\0'; /* an empty record: removes the comma */
        p->n_all++;
        if (p->text.len > len)
                p->n_pending++;
        if (p->text.overflowed) {
                trace_writer_count_dropped(f->sink.writer, p->n_pending);
                clear(p);
        }
        write_if_due(f, p);
}

static void write_records(struct trace_sink *sink, struct trace_record *first) {
        for (struct trace_record *r = first, *next; r != NULL; r = next) {
                next = r->next;
                add_record(self(sink), r);
                trace_record_free(r);
        }
}

static void on_change(struct trace_sink *sink) {
        struct trace_file *f = self(sink);

        LIST_FOR_EACH(&f->pending, node) {
                write_if_due(f, LIST_ENTRY(node, struct pending, node));
        }
}

static void finish_files(struct trace_sink *sink) {
        struct trace_file *f = self(sink);

        while (!list_is_empty(&f->pending)) {
                struct pending *p = LIST_ENTRY(list_first(&f->pending), struct pending, node);

                write_rest(f, p);
                pending_free(p);
        }
}

static void free_file(struct trace_sink *sink) {
        finish_files(sink); /* writes only when the thread never ran */
        free(self(sink));
}

struct trace_sink *trace_file_new(const char *path, uint64_t max_files) {
        static const struct trace_sink_ops ops = {
                .take = write_records,
                .on_change = on_change,
                .finish = finish_files,
                .free = free_file,
        };
        struct trace_file *f = mem_zalloc(sizeof(*f));

        f->sink.ops = &ops;
        f->path = path;
        f->max_files = max_files;
        list_init(&f->pending);
        return &f->sink;
}
