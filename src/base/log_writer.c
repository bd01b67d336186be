/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log_writer.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/thread.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* After a write the thread collects lines for this time, so that a server that logs every request does
 * not wake it for each. Warnings and errors do not wait. */
#define COLLECT_NS (2 * NS_PER_MS)

/* A buffer that has grown beyond this is freed when it is empty. */
#define KEPT_BYTES ((size_t)64 << 10)

static struct {
        struct mutex  lock;    /* rank LOCK_LOG; guards everything below */
        struct cond   arrived; /* lines wait, or the thread is to stop */
        struct cond   written; /* what was taken is written, or the thread has ended */
        struct thread thread;
        log_lost_fn   put_lost;
        struct strbuf waiting;  /* whole lines; the thread takes all of them at once */
        size_t        n_taken;  /* bytes that the thread is writing */
        uint64_t      n_untold; /* lost lines that no line has reported yet */
        unsigned      n_users;
        int           fd;
        int           retired_fd; /* to be closed by the thread, which writes to it; or -1 */
        bool          is_running;
        bool          is_sleeping; /* the thread waits for lines */
        bool          must_stop;
        bool          is_stuck; /* at the last stop nobody read */
} writer = { .lock = { .native = PTHREAD_MUTEX_INITIALIZER, .rank = LOCK_LOG },
             .fd = STDERR_FILENO,
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

        return end ? (size_t)(end - text.ptr) + 1 : max;
}

/* What a full disk or a closed pipe refuses is lost. */
static void write_all(int fd, struct str text) {
        struct stat status;
        bool        is_file = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);

        while (text.len > 0) {
                ssize_t n = write(fd, text.ptr, next_piece(text, is_file));

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return;
                text = str_range(text.ptr + n, text.len - (size_t)n);
        }
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
                writer.put_lost(&taken, writer.n_untold);
        writer.n_untold = 0;
        writer.n_taken = taken.len;
        *ret = taken;
}

static void close_retired_locked(void) {
        if (writer.retired_fd >= 0)
                close(writer.retired_fd);
        writer.retired_fd = -1;
}

/* Returns when lines wait, or the thread is to stop. */
static void wait_for_lines_locked(uint64_t written_ns) {
        if (written_ns != 0 && !writer.must_stop)
                (void)cond_wait_until(&writer.arrived, &writer.lock, written_ns + COLLECT_NS);
        while (writer.waiting.len == 0 && !writer.must_stop) {
                writer.is_sleeping = true;
                cond_wait(&writer.arrived, &writer.lock);
                writer.is_sleeping = false;
        }
}

static void write_waiting(void *arg UNUSED) {
        struct strbuf lines = { 0 };
        uint64_t      written_ns = 0;

        /* A line is no reason to interrupt the thread that logs it. */
        thread_enter_background();
        strbuf_init(&lines, 0);
        mutex_lock(&writer.lock);
        for (;;) {
                wait_for_lines_locked(written_ns);
                if (writer.waiting.len == 0)
                        break;

                int fd = writer.fd;

                take_locked(&lines);
                mutex_unlock(&writer.lock);
                write_all(fd, strbuf_str(&lines));
                written_ns = clock_now_ns();
                mutex_lock(&writer.lock);
                writer.n_taken = 0;
                close_retired_locked();
                cond_broadcast(&writer.written);
        }
        writer.is_running = false;
        cond_broadcast(&writer.written);
        mutex_unlock(&writer.lock);
        strbuf_done(&lines);
}

struct error *log_writer_start(log_lost_fn put_lost) {
        struct error *err = NULL;
        MUTEX_GUARD(&writer.lock);

        if (writer.n_users > 0 || writer.is_running) {
                writer.n_users++;
                return NULL;
        }
        cond_init(&writer.arrived);
        cond_init(&writer.written);
        strbuf_init(&writer.waiting, 0);
        writer.put_lost = put_lost;
        writer.must_stop = writer.is_stuck = false;
        writer.is_running = true;
        err = thread_start(&writer.thread, "neso-log", write_waiting, NULL);
        writer.is_running = err == NULL;
        writer.n_users = err == NULL;
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

        old = writer.fd;
        writer.fd = fd;
        if (old == STDERR_FILENO)
                return;
        if (writer.n_taken > 0 && writer.retired_fd < 0)
                writer.retired_fd = old;
        else
                close(old);
}

/* One writev(2) writes one line. */
static void write_now_locked(struct str line, struct str end) {
        struct iovec parts[2] = {
                { .iov_base = (void *)(uintptr_t)line.ptr, .iov_len = line.len },
                { .iov_base = (void *)(uintptr_t)end.ptr, .iov_len = end.len },
        };

        while (writev(writer.fd, parts, 2) < 0 && errno == EINTR)
                ;
}

static bool has_room_locked(enum log_line_kind kind, size_t bytes) {
        static const size_t shares[] = { [LOG_LINE_ACCESS] = LOG_WAITING_MAX_BYTES / 2,
                                         [LOG_LINE_MESSAGE] = LOG_WAITING_MAX_BYTES / 4 * 3,
                                         [LOG_LINE_IMPORTANT] = LOG_WAITING_MAX_BYTES };
        size_t              used = writer.waiting.len + writer.n_taken;

        /* A single line may be longer than that. */
        return used == 0 || (used <= shares[kind] && bytes <= shares[kind] - used);
}

static void put_locked(enum log_line_kind kind, struct str line, struct str end) {
        if (writer.is_stuck || !has_room_locked(kind, line.len + end.len) ||
            !strbuf_reserve(&writer.waiting, line.len + end.len)) {
                writer.waiting.overflowed = false; /* the next line may find memory */
                lose_locked();
                return;
        }
        strbuf_put(&writer.waiting, line.ptr, line.len);
        strbuf_put(&writer.waiting, end.ptr, end.len);
        if (writer.is_sleeping || kind == LOG_LINE_IMPORTANT)
                cond_signal(&writer.arrived);
}

void log_writer_put(enum log_line_kind kind, struct str line, struct str end) {
        int saved = errno; /* a log call between a failure and its report must not change it */
        MUTEX_GUARD(&writer.lock);

        if (writer.is_running || writer.is_stuck)
                put_locked(kind, line, end);
        else
                write_now_locked(line, end);
        errno = saved;
}
