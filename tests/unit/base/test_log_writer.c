/* SPDX-License-Identifier: BSD-3-Clause */
/* A log that is not read: no caller waits for its reader, warnings are kept before access lines, and the
 * log reports how many lines were lost. */
#include "suite.h"

#include "base/clock.h"
#include "base/log_writer.h"
#include "base/mem.h"
#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define LINE_BYTES 100

static void put_lost(struct strbuf *out, uint64_t n, const char *why) {
        bool is_unread = strcmp(why, "they were not read in time") == 0;

        strbuf_printf(out, "lost %llu%s%s\n", (unsigned long long)n, is_unread ? "" : ": ",
                      is_unread ? "" : why);
}

/* The first attempt finds no memory after a half of the line. */
static void put_lost_later(struct strbuf *out, uint64_t n, const char *why) {
        static bool is_later;

        (void)why;
        strbuf_printf(out, "half");
        out->overflowed = out->no_memory = !is_later;
        if (is_later)
                strbuf_printf(out, " lost %llu\n", (unsigned long long)n);
        is_later = true;
}

struct place {
        int      reader;
        uint64_t n_lost; /* before */
        char    *text;   /* what a thread has read */
};

/* The writer writes to a pipe; the test reads it later. */
static void begin_with(struct place *p, log_lost_fn put_lost_line) {
        int ends[2];

        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        p->reader = ends[0];
        p->n_lost = log_writer_n_lost();
        log_writer_set_fd(ends[1]);
        assert_null(log_writer_start(put_lost_line));
}

static void begin(struct place *p) {
        begin_with(p, put_lost);
}

static void end(struct place *p) {
        log_writer_set_fd(STDERR_FILENO); /* closes the pipe */
        close(p->reader);
}

/* A line of LINE_BYTES that begins with the letter and a number. */
static void put(enum log_line_kind kind, char letter, unsigned number) {
        char line[LINE_BYTES];

        memset(line, '.', sizeof(line));
        line[snprintf(line, sizeof(line), "%c%u", letter, number)] = ' ';
        log_writer_put(kind, str_range(line, sizeof(line) - 1), STR_LIT("\n"));
}

/* All that is in the pipe until the writer has closed it; to be called after the last line. */
static char *read_rest(struct place *p) {
        struct strbuf text;
        char          piece[4096];
        ssize_t       n;

        strbuf_init(&text, 0);
        while ((n = read(p->reader, piece, sizeof(piece))) > 0)
                strbuf_put(&text, piece, (size_t)n);
        return strbuf_take(&text);
}

static unsigned count_lines(const char *text, char letter) {
        const char *end = text + strlen(text), *next;
        unsigned    n = 0;

        for (const char *at = text; at < end; at = next != NULL ? next + 1 : end) {
                n += *at == letter;
                next = memchr(at, '\n',
                              (size_t)(end - at)); /* strchr() of a sanitizer reads to the end */
        }
        return n;
}

/* Lines are there when the writer has stopped, in their order. */
static void test_in_order(void **state) {
        struct place p;
        char         expected[16];

        (void)state;
        begin(&p);
        for (unsigned i = 0; i < 100; i++)
                put(LOG_LINE_MESSAGE, 'm', i);
        log_writer_stop(10 * NS_PER_S);
        log_writer_set_fd(STDERR_FILENO);
        AUTO_CHARS  text = read_rest(&p);
        const char *at = text;

        for (unsigned i = 0; i < 100; i++) {
                snprintf(expected, sizeof(expected), "m%u ", i);
                assert_memory_equal(at, expected, strlen(expected));
                at += LINE_BYTES;
        }
        assert_int_equal(strlen(at), 0);
        assert_int_equal(log_writer_n_lost(), p.n_lost);
        close(p.reader);
}

/* Access lines use half of the memory, messages three quarters, what is important all of it. */
static void test_what_is_kept(void **state) {
        static const struct {
                enum log_line_kind kind;
                char               letter;
                size_t             share; /* bytes that may wait when it is put */
        } kinds[] = { { LOG_LINE_ACCESS, 'a', LOG_WAITING_MAX_BYTES / 2 },
                      { LOG_LINE_MESSAGE, 'm', LOG_WAITING_MAX_BYTES / 4 * 3 },
                      { LOG_LINE_IMPORTANT, 'i', LOG_WAITING_MAX_BYTES } };
        const unsigned n_each = LOG_WAITING_MAX_BYTES / LINE_BYTES;
        unsigned       n_kept = 0;
        struct place   p;

        (void)state;
        begin(&p);
        for (size_t k = 0; k < ARRAY_LEN(kinds); k++)
                for (unsigned i = 0; i < n_each; i++)
                        put(kinds[k].kind, kinds[k].letter, i);
        uint64_t    n_lost = log_writer_n_lost() - p.n_lost;
        char        piece[1 << 16];
        AUTO_STRBUF text = { 0 };

        assert_true(n_lost > n_each);
        strbuf_init(&text, 0);
        while (count_lines(strbuf_cstr(&text), 'a') + count_lines(strbuf_cstr(&text), 'm') +
                       count_lines(strbuf_cstr(&text), 'i') + n_lost <
               ARRAY_LEN(kinds) * n_each) {
                ssize_t n = read(p.reader, piece, sizeof(piece));

                assert_true(n > 0);
                strbuf_put(&text, piece, (size_t)n);
        }
        for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
                unsigned n = count_lines(strbuf_cstr(&text), kinds[k].letter);

                n_kept += n;
                /* The pipe takes 64 KiB before its reader is missed. */
                assert_true(n > 0 && n_kept <= (kinds[k].share + (64 << 10)) / LINE_BYTES + 1);
                assert_true(n_kept >= kinds[k].share / LINE_BYTES - 1);
        }
        log_writer_stop(10 * NS_PER_S);
        log_writer_set_fd(STDERR_FILENO);
        AUTO_CHARS rest = read_rest(&p);

        strbuf_puts(&text, rest);
        assert_true(count_lines(strbuf_cstr(&text), 'l') > 0);
        close(p.reader);
}

static void read_to_end(void *arg) {
        struct place *p = arg;

        p->text = read_rest(p);
}

/* Without memory for the line about lost ones, the log says it with the next line. */
static void test_lost_lines_are_told_later(void **state) {
        const unsigned n_put = LOG_WAITING_MAX_BYTES / LINE_BYTES * 2;
        struct thread  reader;
        struct place   p;
        uint64_t       n_lost;

        (void)state;
        begin_with(&p, put_lost_later);
        for (unsigned i = 0; i < n_put; i++)
                put(LOG_LINE_IMPORTANT, 'i', i);
        n_lost = log_writer_n_lost() - p.n_lost;
        assert_true(n_lost > 0);
        assert_null(thread_start(&reader, "reader", read_to_end, &p));
        /* The thread takes two times: what waited, and what waited meanwhile. */
        log_writer_flush(10 * NS_PER_S);
        put(LOG_LINE_IMPORTANT, 'z', 0);
        log_writer_stop(10 * NS_PER_S);
        log_writer_set_fd(STDERR_FILENO); /* closes the pipe: the reader ends */
        thread_join(&reader);

        AUTO_CHARS  text = p.text;
        AUTO_CHARS  reported = mem_printf("half lost %llu\n", (unsigned long long)n_lost);
        const char *at = strstr(text, "half");

        assert_int_equal(count_lines(text, 'i') + n_lost, n_put);
        assert_non_null(at);
        assert_ptr_equal(strstr(at, reported), at); /* no other half before it */
        assert_true(at == text || at[-1] == '\n');
        close(p.reader);
}

/* Without a reader the stop returns after its time-out, and later lines are dropped at once. */
static void test_stuck(void **state) {
        struct place p;
        uint64_t     before;

        (void)state;
        begin(&p);
        for (unsigned i = 0; i < 2000; i++) /* more than the pipe takes */
                put(LOG_LINE_IMPORTANT, 'i', i);
        log_writer_stop(NS_PER_MS);
        before = log_writer_n_lost();
        put(LOG_LINE_IMPORTANT, 'i', 0);
        assert_int_equal(log_writer_n_lost(), before + 1);
        close(p.reader); /* what waits is refused: the thread goes on */
        assert_null(log_writer_start(put_lost));
        log_writer_stop(10 * NS_PER_S);
        log_writer_set_fd(STDERR_FILENO);
}

static void limit_files(rlim_t max_bytes) {
        struct rlimit limit;

        assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
        limit.rlim_cur = max_bytes;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void write_to_full_file(void) {
        for (unsigned i = 0; i < 3; i++)
                put(LOG_LINE_MESSAGE, 'm', i); /* the last one is cut */
        log_writer_flush(10 * NS_PER_S);
        put(LOG_LINE_IMPORTANT, 'i', 0);
        put(LOG_LINE_MESSAGE, 'm', 3);
        log_writer_flush(10 * NS_PER_S);
}

/* What a file refuses is counted. When it takes lines again, a line reports how many were lost; it is not
 * the end of one that was cut. */
static void test_refused_lines(void **state) {
        char     path[] = "/tmp/neso-log-XXXXXX";
        int      fd = mkstemp(path);
        uint64_t n_lost = log_writer_n_lost();
        char     text[8 * LINE_BYTES];

        (void)state;
        assert_true(fd >= 0);
        signal(SIGXFSZ, SIG_IGN);
        log_writer_set_fd(dup(fd));
        assert_null(log_writer_start(put_lost));
        limit_files(2 * LINE_BYTES + LINE_BYTES / 2);
        write_to_full_file();
        assert_int_equal(log_writer_n_lost(), n_lost + 3);
        limit_files(RLIM_INFINITY);
        put(LOG_LINE_MESSAGE, 'z', 0);
        put(LOG_LINE_MESSAGE, 'z', 1);
        log_writer_stop(10 * NS_PER_S);
        log_writer_set_fd(STDERR_FILENO);
        assert_int_equal(log_writer_n_lost(), n_lost + 3);

        ssize_t     n = pread(fd, text, sizeof(text) - 1, 0);
        AUTO_CHARS  told = mem_printf("\nlost 3: %s\nz0 ", strerror(EFBIG));
        const char *cut = text + 2 * LINE_BYTES;

        assert_true(n > 2 * LINE_BYTES);
        text[n] = '\0';
        assert_memory_equal(cut, "m2 ", 3);
        assert_memory_equal(cut + LINE_BYTES / 2, told, strlen(told));
        assert_int_equal(count_lines(text, 'm'), 3);
        assert_int_equal(count_lines(text, 'i'), 0);
        assert_int_equal(count_lines(text, 'z'), 2);
        assert_int_equal(count_lines(text, 'l'), 1);
        close(fd);
        unlink(path);
}

/* A caller that looks at errno afterwards finds its own. */
static void test_errno_stays(void **state) {
        struct place p;

        (void)state;
        begin(&p);
        errno = ENOTTY;
        put(LOG_LINE_ACCESS, 'a', 0);
        assert_int_equal(errno, ENOTTY);
        log_writer_stop(10 * NS_PER_S);
        end(&p);
}

SUITE(log_writer) {
        const struct CMUnitTest tests[] = {
                /* First, because a line about those that another test loses may be written in these. */
                cmocka_unit_test(test_lost_lines_are_told_later),
                cmocka_unit_test(test_refused_lines),
                cmocka_unit_test(test_in_order),
                cmocka_unit_test(test_what_is_kept),
                cmocka_unit_test(test_errno_stays),
                cmocka_unit_test(test_stuck),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
