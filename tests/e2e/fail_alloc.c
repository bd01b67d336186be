/* SPDX-License-Identifier: BSD-3-Clause */
/* Preloaded into a server by test_no_memory.py: each n-th allocation of the libraries named in
 * FAIL_ALLOC_IN (parts of their names, with commas between them; "neso" is the program) fails.
 *
 * FAIL_ALLOC names a file that the test maps as well: how many there are between failures (0 = none
 * fails), the size from which on they count, and how many have failed.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_RANGES 64

struct control {
        _Atomic uint32_t n;
        _Atomic uint32_t min_bytes;
        _Atomic uint32_t n_failed;
};

struct range {
        uintptr_t begin, end;
};

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

static struct control *_Atomic control; /* NULL: nothing fails */
static struct range            ranges[MAX_RANGES];
static _Atomic size_t          n_ranges;
static _Atomic uint32_t        n_counted;

/* Whether one of the names is a part of the file's, without its folders. */
static int is_named(const char *path) {
        const char *names = getenv("FAIL_ALLOC_IN");
        const char *slash = strrchr(path, '/');
        char        name[64];

        if (slash != NULL)
                path = slash + 1;
        else if (path[0] == '\0')
                path = "neso";
        while (names != NULL && *names) {
                size_t len = strcspn(names, ",");

                if (len < sizeof(name)) {
                        memcpy(name, names, len);
                        name[len] = '\0';
                        if (strstr(path, name) != NULL)
                                return 1;
                }
                names += len + (names[len] == ',');
        }
        return 0;
}

static int add_ranges(struct dl_phdr_info *info, size_t size, void *arg) {
        (void)size, (void)arg;
        if (!is_named(info->dlpi_name))
                return 0;
        for (int i = 0; i < info->dlpi_phnum; i++) {
                const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
                size_t n = atomic_load(&n_ranges);

                if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X) || n == MAX_RANGES)
                        continue;
                ranges[n].begin = info->dlpi_addr + segment->p_vaddr;
                ranges[n].end = ranges[n].begin + segment->p_memsz;
                atomic_store(&n_ranges, n + 1);
        }
        return 0;
}

/* Libraries that are loaded at the start; plug-ins have allocators of their own in mind. */
__attribute__((constructor)) static void begin(void) {
        const char *path = getenv("FAIL_ALLOC");
        int         fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
        void       *shared;

        if (fd < 0)
                return;
        shared = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
        dl_iterate_phdr(add_ranges, NULL);
        if (shared != MAP_FAILED)
                atomic_store(&control, shared);
}

static int must_fail(const void *caller, size_t size) {
        struct control *c = atomic_load_explicit(&control, memory_order_relaxed);
        uintptr_t       at = (uintptr_t)caller;
        uint32_t        n = c != NULL ? atomic_load_explicit(&c->n, memory_order_relaxed) : 0;

        if (n == 0 || size < atomic_load_explicit(&c->min_bytes, memory_order_relaxed))
                return 0;
        for (size_t i = 0; i < atomic_load_explicit(&n_ranges, memory_order_relaxed); i++) {
                if (at < ranges[i].begin || at >= ranges[i].end)
                        continue;
                if (atomic_fetch_add(&n_counted, 1) % n != n - 1)
                        return 0;
                atomic_fetch_add(&c->n_failed, 1);
                errno = ENOMEM;
                return 1;
        }
        return 0;
}

#pragma GCC visibility push(default)

void *malloc(size_t size) {
        return must_fail(__builtin_return_address(0), size) ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size) {
        return must_fail(__builtin_return_address(0), n * size) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *old, size_t size) {
        return must_fail(__builtin_return_address(0), size) ? NULL : __libc_realloc(old, size);
}

int posix_memalign(void **ret, size_t alignment, size_t size) {
        void *memory = must_fail(__builtin_return_address(0), size)
                               ? NULL
                               : __libc_memalign(alignment, size);

        if (memory == NULL)
                return ENOMEM;
        *ret = memory;
        return 0;
}

#pragma GCC visibility pop
