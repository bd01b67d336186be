/* SPDX-License-Identifier: BSD-3-Clause */
/* Preloaded into a server by disk.py: a disk that is broken. While an error is set, each call for a file below a
 * folder fails with it, whoever makes the call. FAIL_PATH names a file that disk.py maps as well.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

struct control {
        _Atomic int64_t error; /* errno; 0: the disk is well */
        char            folder[1024];
};

static struct control *control;

__attribute__((constructor)) static void map_control(void) {
        const char *path = getenv("FAIL_PATH");
        int         fd = path != NULL ? openat(AT_FDCWD, path, O_RDWR | O_CLOEXEC) : -1;
        void       *at;

        if (fd < 0)
                return;
        at = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
        if (at != MAP_FAILED)
                control = at;
}

static int is_below(const char *path) {
        size_t len = strlen(control->folder);

        return strncmp(path, control->folder, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

static int is_on_disk(int fd) {
        char    link[64], path[PATH_MAX];
        ssize_t n;

        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        n = readlink(link, path, sizeof(path) - 1);
        if (n < 0)
                return 0;
        path[n] = '\0';
        return is_below(path);
}

static int must_fail(int fd, const char *path) {
        int64_t error = control != NULL ? atomic_load(&control->error) : 0;

        if (error == 0)
                return 0;
        if (path != NULL && path[0] == '/' ? !is_below(path) : fd < 0 || !is_on_disk(fd))
                return 0;
        errno = (int)error;
        return 1;
}

#define FAILING(type, failure, name, parameters, arguments, fd, path)                              \
        type name parameters {                                                                     \
                static type(*_Atomic next) parameters;                                             \
                                                                                                   \
                if (must_fail(fd, path))                                                           \
                        return failure;                                                            \
                if (atomic_load(&next) == NULL)                                                    \
                        atomic_store(&next,                                                        \
                                     (type(*) parameters)(uintptr_t)dlsym(RTLD_NEXT, #name));      \
                return atomic_load(&next) arguments;                                               \
        }

#pragma GCC visibility push(default)

static int open_next(int directory, const char *path, int flags, va_list arguments) {
        int (*next)(int, const char *, int, ...) =
                (int (*)(int, const char *, int, ...))(uintptr_t)dlsym(RTLD_NEXT, "openat");
        mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;

        return must_fail(directory, path) ? -1 : next(directory, path, flags, mode);
}

int open(const char *path, int flags, ...) {
        va_list arguments;
        int     fd;

        va_start(arguments, flags);
        fd = open_next(AT_FDCWD, path, flags, arguments);
        va_end(arguments);
        return fd;
}

int openat(int directory, const char *path, int flags, ...) {
        va_list arguments;
        int     fd;

        va_start(arguments, flags);
        fd = open_next(directory, path, flags, arguments);
        va_end(arguments);
        return fd;
}

FAILING(ssize_t, -1, read, (int fd, void *at, size_t size), (fd, at, size), fd, NULL)
FAILING(ssize_t, -1, pread, (int fd, void *at, size_t size, off_t offset), (fd, at, size, offset),
        fd, NULL)
FAILING(ssize_t, -1, write, (int fd, const void *at, size_t size), (fd, at, size), fd, NULL)
FAILING(ssize_t, -1, pwrite, (int fd, const void *at, size_t size, off_t offset),
        (fd, at, size, offset), fd, NULL)
FAILING(ssize_t, -1, writev, (int fd, const struct iovec *parts, int n), (fd, parts, n), fd, NULL)
FAILING(int, -1, ftruncate, (int fd, off_t size), (fd, size), fd, NULL)
FAILING(int, -1, rename, (const char *from, const char *to), (from, to), -1, to)
FAILING(int, -1, stat, (const char *path, struct stat *ret), (path, ret), -1, path)
FAILING(int, -1, lstat, (const char *path, struct stat *ret), (path, ret), -1, path)
FAILING(int, -1, fstatat, (int fd, const char *path, struct stat *ret, int flags),
        (fd, path, ret, flags), fd, path)
FAILING(DIR *, NULL, opendir, (const char *path), (path), -1, path)
FAILING(int, -1, mkdir, (const char *path, mode_t mode), (path, mode), -1, path)

#pragma GCC visibility pop
