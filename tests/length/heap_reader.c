/* SPDX-License-Identifier: BSD-3-Clause */
/* Preloaded into a server whose memory is measured: it answers how much of the heap is in use, which tells a leak
 * from memory that the allocator keeps.
 *
 * HEAP_READER names two FIFOs, <path>.ask and <path>.answer. For each byte from the first, a line is written to the
 * second:
 *
 *     m   the bytes of allocated blocks, of free ones, and of the blocks that have a mapping of their own
 *     t   the same, after the free memory was returned to the system
 *     i   the same, after what malloc_info() tells of each arena was written to <path>.info
 *
 * Costs nothing between two questions.
 *
 * Threads.  One of its own, which blocks all signals. It allocates nothing, so it adds no arena.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int  ask = -1, answer = -1;
static char base[4000];

static int open_part(const char *path, const char *suffix, int flags) {
        char name[4096];
        int  length;

        length = snprintf(name, sizeof(name), "%s.%s", path, suffix);
        if (length < 0 || (size_t)length >= sizeof(name))
                return -1;
        return open(name, flags | O_CLOEXEC, 0600);
}

/* The stream's memory comes from an arena that exists, and goes back to it. */
static void write_info(void) {
        int   fd = open_part(base, "info", O_WRONLY | O_CREAT | O_TRUNC);
        FILE *file = fd < 0 ? NULL : fdopen(fd, "w");

        if (file == NULL)
                return;
        malloc_info(0, file);
        fclose(file);
}

static void *serve(void *unused) {
        struct mallinfo2 heap;
        char             question, line[128];
        int              length;
        ssize_t          n;

        (void)unused;
        for (;;) {
                n = read(ask, &question, 1);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return NULL;
                if (question == 't')
                        malloc_trim(0);
                if (question == 'i')
                        write_info();
                heap = mallinfo2();
                length = snprintf(line, sizeof(line), "%zu %zu %zu\n", heap.uordblks + heap.hblkhd,
                                  heap.fordblks, heap.hblkhd);
                if (write(answer, line, (size_t)length) != length)
                        return NULL;
        }
}

static void start(void) __attribute__((constructor));

static void start(void) {
        const char *path = getenv("HEAP_READER");
        sigset_t    all, before;
        pthread_t   thread;

        if (path == NULL)
                return;
        snprintf(base, sizeof(base), "%s", path); /* unsetenv() may reuse it */
        ask = open_part(path, "ask", O_RDWR);
        answer = open_part(path, "answer", O_RDWR);
        /* The server's processes are not measured this way. */
        unsetenv("HEAP_READER");
        unsetenv("LD_PRELOAD");
        if (ask < 0 || answer < 0)
                return;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        if (pthread_create(&thread, NULL, serve, NULL) == 0)
                pthread_detach(thread);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
}
