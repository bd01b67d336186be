/* SPDX-License-Identifier: BSD-3-Clause */
/* Reports of misuse. A report is one line in the file that NESO_FAKE_GPU_REPORT names and on standard error,
 * and it ends the process: what comes after a misuse proves nothing. */
#include "fake_private.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void write_whole(int file, const char *text) {
        size_t n = strlen(text);

        while (n > 0) {
                ssize_t written = write(file, text, n);

                if (written <= 0)
                        return;
                text += written;
                n -= (size_t)written;
        }
}

void fake_report(const char *kind, const char *format, ...) {
        char        line[512];
        int         n = snprintf(line, sizeof(line), "fake gpu: %s: ", kind);
        const char *path = getenv("NESO_FAKE_GPU_REPORT");
        va_list     args;

        va_start(args, format);
        (void)vsnprintf(line + n, sizeof(line) - (size_t)n - 1, format, args);
        va_end(args);
        strcat(line, "\n");
        if (path != NULL) {
                int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);

                write_whole(file, line);
                (void)close(file);
        }
        write_whole(STDERR_FILENO, line);
        abort();
}

static const char *kind_name(enum fake_kind kind) {
        switch (kind) {
        case FAKE_ALLOCATED: return "of cuMemAlloc";
        case FAKE_OPENED: return "of cuIpcOpenMemHandle";
        case FAKE_BLOCK: return "of cuMemCreate";
        case FAKE_RESERVED: return "of cuMemAddressReserve";
        case FAKE_MAPPED: return "of cuMemMap";
        default: return "of cuMemHostAlloc";
        }
}

static void check_ranges(const struct fake_table *t, int device) {
        size_t                   n = 0, bytes = 0;
        const struct fake_range *first = NULL;

        for (size_t i = 0; i < t->n; i++) {
                if (device >= 0 && t->rows[i]->device != device)
                        continue;
                first = first == NULL ? t->rows[i] : first;
                bytes += t->rows[i]->bytes;
                n++;
        }
        if (n > 0)
                fake_report(
                        "leak",
                        "%zu bytes in %zu pieces were not freed, the first one %s, %zu bytes at "
                        "%#lx of device %d",
                        bytes, n, kind_name(first->kind), first->bytes,
                        (unsigned long)first->address, first->device);
}

static void check_objects(int device, const char *what, size_t n) {
        if (n > 0)
                fake_report("leak", "%zu %s of device %d were not destroyed", n, what, device);
}

void fake_check_leaks_locked(int device) {
        bool is_last = true;

        check_ranges(&fake.places, device);
        for (int i = 0; i < fake.n_devices; i++) {
                is_last = is_last && (i == device || fake.devices[i].n_retained == 0);
                if (device >= 0 && i != device)
                        continue;
                check_objects(i, "streams", fake_count_streams(i));
                check_objects(i, "events", fake_count_events(i));
                check_objects(i, "modules", fake_count_modules(i));
        }
        if (is_last || device < 0)
                check_ranges(&fake.pinned, -1);
}

void fake_cuda_check_leaks(void) {
        pthread_mutex_lock(&fake.lock);
        fake_check_leaks_locked(-1);
        pthread_mutex_unlock(&fake.lock);
}

/* Not in a child of fork(), which has the parent's tables. */
__attribute__((destructor)) static void check_at_exit(void) {
        if (fake.is_initialised && fake.pid == getpid())
                fake_cuda_check_leaks();
}
