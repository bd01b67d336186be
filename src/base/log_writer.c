/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log_writer.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* A buffer that has grown beyond this is freed when it is empty. */
#define KEPT_BYTES ((size_t)64 << 10)

/* How a caller writes without waiting. */
enum direct {
        DIRECT_NEVER,  /* not at all: the thread does it */
        DIRECT_WRITE,  /* to `direct_fd`: a file, or opened without blocking */
        DIRECT_SOCKET, /* to `fd`, by send(2) */
};

/* Lines that the descriptor refused, since its disk is full for example, and that no line has reported
 * yet. They came before those that wait. */
struct refused {
        uint64_t n;
        int      error; /* errno of the last one */
};

static struct {
        struct mutex   lock;    /* rank LOCK_LOG; guards everything below */
        struct cond    arrived; /* lines wait, or the thread is to stop */
        struct cond    written; /* what was taken is written, or the thread has ended */
        struct thread  thread;
        log_lost_fn    put_lost;
        struct strbuf  waiting;  /* whole lines; the thread takes all of them at once */
        size_t         n_taken;  /* bytes that the thread is writing */
        uint64_t       n_untold; /* lines without room that no line has reported yet */
        struct refused refused;
        bool           is_within_line; /* the last byte that was written is not the end of a line */
        unsigned       n_users;
        int            fd;
        enum direct    direct;
        int            direct_fd;  /* owned when it is not `fd` */
        int            retired_fd; /* to be closed by the thread, which writes to it; or -1 */
        bool           is_running;
        bool           must_stop;
        bool           is_stuck; /* the reader had stalled at the last stop: lines are lost */
} writer = { .lock = { .rank = LOCK_LOG },
             .fd = STDERR_FILENO,
             .direct_fd = STDERR_FILENO,
             .retired_fd = -1 };

static _Atomic uint64_t n_lost;

static void lose_locked(void) {
        writer.n_untold++;
        atomic_fetch_add_explicit(&n_lost, 1, memory_order_relaxed);
}

uint64_t log_writer_n_lost(void) {
        return atomic_load_explicit(&n_lost, memory_order_relaxed);
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Bytes of the next write: whole lines, or the beginning of a long one. */
static size_t next_piece(struct str text, bool is_file) {
        size_t      max = is_file ? text.len : MIN(text.len, (size_t)PIPE_BUF);
        const char *end = memrchr(text.ptr, '\n', max);

        return end != NULL ? (size_t)(end - text.ptr) + 1 : max;
}

/* Returns how many bytes are out. A full disk or a closed pipe refuses the others; errno says why. */
static size_t write_all(int fd, struct str text) {
        struct stat status;
        bool        is_file = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
        size_t      n_out = 0;

        while (n_out < text.len) {
                struct str rest = str_skip(text, n_out);
                ssize_t    n = write(fd, rest.ptr, next_piece(rest, is_file));

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        break;
                n_out += (size_t)n;
        }
        return n_out;
}

static uint64_t count_ends(struct str text) {
        uint64_t n = 0;

        for (size_t i = 0; i < text.len; i++)
                n += text.ptr[i] == '\n';
        return n;
}

/* What a batch of the thread changes. */
struct batch_end {
        struct refused refused;
        uint64_t       n_more;   /* of them: those of this batch */
        log_lost_fn    put_lost; /* as it was when the batch was taken */
        bool           is_within_line;
};

/* Writes the text, and counts the lines of it that are refused when they are `counted`. */
static bool write_counted(int fd, struct str text, bool counted, struct batch_end *end) {
        size_t n_out = write_all(fd, text);

        if (n_out > 0)
                end->is_within_line = text.ptr[n_out - 1] != '\n';
        if (n_out == text.len)
                return true;
        end->refused.error = errno;
        if (counted)
                end->n_more += count_ends(str_skip(text, n_out));
        return false;
}

/* The line about the refused ones, on a line of its own. Without memory for it, it waits for the next
 * occasion. */
static bool write_refused(int fd, struct batch_end *end) {
        AUTO_STRBUF text = { 0 };
        bool        has_memory;

        if (end->is_within_line && !write_counted(fd, STR_LIT("\n"), false, end))
                return false;
        end->put_lost(&text, end->refused.n, strerror(end->refused.error));
        has_memory = !text.overflowed;
        if (has_memory && !write_counted(fd, strbuf_str(&text), false, end))
                return false;
        if (has_memory)
                end->refused.n = 0;
        return true;
}

static void write_batch(int fd, struct str lines, struct batch_end *end) {
        if (end->refused.n > 0 && !write_refused(fd, end))
                end->n_more += count_ends(lines);
        else
                (void)write_counted(fd, lines, true, end);
        end->refused.n += end->n_more;
}

/* Adds the line about the lost ones. Without memory for it, it waits for the next occasion. */
static void tell_lost_locked(struct strbuf *lines) {
        size_t len = lines->len;

        writer.put_lost(lines, writer.n_untold, "they were not read in time");
        if (!lines->overflowed) {
                writer.n_untold = 0;
                return;
        }
        lines->overflowed = lines->no_memory = false;
        lines->len = len;
        if (lines->cap > 0)
                lines->ptr[len] = '\0';
}

/* Moves the waiting lines to *ret, after a line about those that were lost before them. */
static void take_locked(struct strbuf *ret) {
        struct strbuf taken = writer.waiting;

        strbuf_init(&writer.waiting, 0);
        if (ret->cap <= KEPT_BYTES) {
                strbuf_clear(ret);
                writer.waiting = *ret;
        } else {
                strbuf_done(ret);
        }
        if (writer.n_untold > 0)
                tell_lost_locked(&taken);
        writer.n_taken = taken.len;
        *ret = taken;
}

static void close_retired_locked(void) {
        if (writer.retired_fd >= 0)
                close(writer.retired_fd);
        writer.retired_fd = -1;
}

/* Callers do not write while a batch is out, so only log_writer_set_fd() may have come in between. */
static void end_batch_locked(int fd, const struct batch_end *end) {
        writer.n_taken = 0;
        writer.refused = end->refused;
        writer.is_within_line = fd == writer.fd && end->is_within_line;
        atomic_fetch_add_explicit(&n_lost, end->n_more, memory_order_relaxed);
}

static void write_waiting(void *arg) {
        struct strbuf lines = { 0 };

        (void)arg;
        mutex_lock(&writer.lock);
        for (;;) {
                while (writer.waiting.len == 0 && !writer.must_stop)
                        cond_wait(&writer.arrived, &writer.lock);
                if (writer.waiting.len == 0)
                        break;

                int              fd = writer.fd;
                struct batch_end end = { .refused = writer.refused,
                                         .put_lost = writer.put_lost,
                                         .is_within_line = writer.is_within_line };

                take_locked(&lines);
                mutex_unlock(&writer.lock);
                write_batch(fd, strbuf_str(&lines), &end);
                mutex_lock(&writer.lock);
                end_batch_locked(fd, &end);
                close_retired_locked();
                cond_broadcast(&writer.written);
        }
        writer.is_running = false;
        cond_broadcast(&writer.written);
        mutex_unlock(&writer.lock);
        strbuf_done(&lines);
}

/* Opens the descriptor once more, with flags of its own; -1 when the system does not permit it. */
static int open_again(int fd) {
        char path[sizeof("/proc/self/fd/") + 3 * sizeof(fd)];

        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        return open(path, O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

static void choose_direct_locked(void) {
        struct stat status;

        writer.direct = DIRECT_NEVER;
        writer.direct_fd = writer.fd;
        if (fstat(writer.fd, &status) != 0)
                return;
        if (S_ISSOCK(status.st_mode)) {
                writer.direct = DIRECT_SOCKET;
        } else if (S_ISREG(status.st_mode)) {
                writer.direct = DIRECT_WRITE;
        } else {
                int again = open_again(writer.fd);

                if (again >= 0) {
                        writer.direct = DIRECT_WRITE;
                        writer.direct_fd = again;
                }
        }
}

static void drop_direct_locked(void) {
        if (writer.direct_fd != writer.fd)
                close(writer.direct_fd);
        writer.direct = DIRECT_NEVER;
        writer.direct_fd = writer.fd;
}

struct error *log_writer_start(log_lost_fn put_lost) {
        struct error *err = NULL;
        MUTEX_GUARD(&writer.lock);

        if (writer.n_users > 0) {
                writer.n_users++;
                return NULL;
        }
        writer.put_lost = put_lost;
        writer.must_stop = writer.is_stuck = false;
        if (writer.is_running) { /* it was stuck at the last stop, and goes on */
                writer.n_users = 1;
                choose_direct_locked();
                return NULL;
        }
        if (writer.thread.is_started) { /* it was stuck then, and has ended since */
                thread_join(&writer.thread);
        } else {
                cond_init(&writer.arrived);
                cond_init(&writer.written);
        }
        strbuf_done(&writer.waiting);
        writer.is_running = true;
        err = thread_start(&writer.thread, "neso-log", write_waiting, NULL);
        writer.is_running = err == NULL;
        writer.n_users = err == NULL;
        if (err == NULL)
                choose_direct_locked();
        return err;
}

/* True when the thread has ended. */
static bool end_thread(uint64_t deadline_ns) {
        MUTEX_GUARD(&writer.lock);

        if (writer.n_users == 0 || --writer.n_users > 0)
                return false;
        writer.must_stop = true;
        cond_signal(&writer.arrived);
        while (writer.is_running && cond_wait_until(&writer.written, &writer.lock, deadline_ns))
                ;
        writer.is_stuck = writer.is_running;
        drop_direct_locked();
        return !writer.is_running;
}

void log_writer_stop(uint64_t timeout_ns) {
        if (!end_thread(clock_now_ns() + timeout_ns))
                return;
        thread_join(&writer.thread);
        cond_done(&writer.arrived);
        cond_done(&writer.written);
        strbuf_done(&writer.waiting);
}

void log_writer_flush(uint64_t timeout_ns) {
        uint64_t deadline_ns = clock_now_ns() + timeout_ns;
        MUTEX_GUARD(&writer.lock);

        if (!writer.is_running)
                return;
        cond_signal(&writer.arrived);
        while (writer.is_running && writer.waiting.len + writer.n_taken > 0 &&
               cond_wait_until(&writer.written, &writer.lock, deadline_ns))
                ;
}

/* ---- lines ----------------------------------------------------------------------------------- */

void log_writer_set_fd(int fd) {
        int old;
        MUTEX_GUARD(&writer.lock);

        drop_direct_locked();
        old = writer.fd;
        writer.fd = writer.direct_fd = fd;
        writer.is_within_line = false;
        if (writer.is_running)
                choose_direct_locked();
        if (old == STDERR_FILENO)
                return;
        if (writer.n_taken > 0 && writer.retired_fd < 0)
                writer.retired_fd = old;
        else
                close(old);
}

/* Writes both parts at once; as writev(2). */
static ssize_t write_both(int fd, bool is_socket, struct str line, struct str end) {
        struct iovec parts[2] = {
                { .iov_base = (void *)(uintptr_t)line.ptr, .iov_len = line.len },
                { .iov_base = (void *)(uintptr_t)end.ptr, .iov_len = end.len },
        };
        struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
        ssize_t       n;

        do {
                n = is_socket ? sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL)
                              : writev(fd, parts, 2);
        } while (n < 0 && errno == EINTR);
        return n;
}

/* Counts a line that the descriptor refuses for good. The thread reports it with the next line. */
static void refuse_locked(int error) {
        writer.refused.n++;
        writer.refused.error = error;
        atomic_fetch_add_explicit(&n_lost, 1, memory_order_relaxed);
}

/* Returns how many bytes need not be kept: those that were written, or all of them when the descriptor
 * refuses them for good. */
static size_t write_directly_locked(struct str line, struct str end) {
        ssize_t n;

        /* The thread tells about lost lines first. */
        if (writer.direct == DIRECT_NEVER || writer.n_untold + writer.refused.n > 0 ||
            writer.waiting.len + writer.n_taken > 0)
                return 0;
        n = write_both(writer.direct_fd, writer.direct == DIRECT_SOCKET, line, end);
        if (n < 0 && errno == EAGAIN)
                return 0;
        if (n < 0) {
                refuse_locked(errno);
                return line.len + end.len;
        }
        writer.is_within_line = (size_t)n < line.len + end.len;
        return (size_t)n;
}

static bool has_room_locked(enum log_line_kind kind, size_t bytes) {
        static const size_t shares[] = { [LOG_LINE_ACCESS] = LOG_WAITING_MAX_BYTES / 2,
                                         [LOG_LINE_MESSAGE] = LOG_WAITING_MAX_BYTES / 4 * 3,
                                         [LOG_LINE_IMPORTANT] = LOG_WAITING_MAX_BYTES };
        size_t              used = writer.waiting.len + writer.n_taken;

        /* A single line may be longer than that. */
        return used == 0 || (used <= shares[kind] && bytes <= shares[kind] - used);
}

/* The beginning of a long line may be out already: then its rest has to follow. */
static void keep_locked(enum log_line_kind kind, struct str line, struct str end, size_t n_out) {
        size_t n_of_line = MIN(n_out, line.len);

        line = str_skip(line, n_of_line);
        end = str_skip(end, n_out - n_of_line);
        if (line.len + end.len == 0)
                return;
        if (writer.is_stuck || (n_out == 0 && !has_room_locked(kind, line.len + end.len)) ||
            !strbuf_reserve(&writer.waiting, line.len + end.len)) {
                writer.waiting.overflowed = false; /* the next line may find memory */
                lose_locked();
                return;
        }
        strbuf_put(&writer.waiting, line.ptr, line.len);
        strbuf_put(&writer.waiting, end.ptr, end.len);
        cond_signal(&writer.arrived);
}

void log_writer_put(enum log_line_kind kind, struct str line, struct str end) {
        int saved = errno; /* a log call between a failure and its report must not change it */
        MUTEX_GUARD(&writer.lock);

        if (writer.is_running || writer.is_stuck)
                keep_locked(kind, line, end, write_directly_locked(line, end));
        else
                (void)write_both(writer.fd, false, line, end);
        errno = saved;
}
