/* SPDX-License-Identifier: BSD-3-Clause */
#include "kit/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ATTEMPTS 16 /* EAGAIN: a file was renamed meanwhile */

bool kit_path_stays_within(const char *path) {
        if (*path == '\0' || *path == '/')
                return false;
        for (const char *part = path; part != NULL; part = strchr(part, '/')) {
                part += *part == '/';
                if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0'))
                        return false;
        }
        return true;
}

static int close_keeping_errno(int fd, int result) {
        int errnum = errno;

        (void)close(fd);
        errno = errnum;
        return result;
}

/* O_NOFOLLOW with O_PATH opens a link itself. Returns -1 for it. */
static int refuse_link(int fd) {
        struct stat status;

        if (fd < 0 || (fstat(fd, &status) == 0 && !S_ISLNK(status.st_mode)))
                return fd;
        errno = ELOOP;
        return close_keeping_errno(fd, -1);
}

static int open_root(const char *directory, const char *relative) {
        if (!kit_path_stays_within(relative)) {
                errno = EXDEV;
                return -1;
        }
        return open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

int kit_open_beneath_walk(const char *directory, const char *relative, int flags) {
        int at = open_root(directory, relative);

        while (at >= 0) {
                char   name[NAME_MAX + 1];
                size_t len = strcspn(relative, "/");
                bool   is_last = relative[len] == '\0';
                int    next;

                if (len > NAME_MAX) {
                        errno = ENAMETOOLONG;
                        return close_keeping_errno(at, -1);
                }
                /* "a//b" is "a/b", and "a/" is "a/." */
                (void)memcpy(name, len > 0 ? relative : ".", len > 0 ? len : 1);
                name[len > 0 ? len : 1] = '\0';
                next = refuse_link(
                        openat(at, name, O_NOFOLLOW | O_CLOEXEC | (is_last ? flags : O_PATH)));
                at = close_keeping_errno(at, next);
                if (is_last)
                        break;
                relative += len + 1;
        }
        return at;
}

int kit_open_beneath(const char *directory, const char *relative, int flags) {
        struct open_how how = { .flags = (unsigned)(flags | O_CLOEXEC),
                                .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS };
        int             root = open_root(directory, relative);
        long            fd = -1;

        if (root < 0)
                return -1;
        for (int i = 0; i < ATTEMPTS; i++) {
                fd = syscall(SYS_openat2, root, relative, &how, sizeof(how));
                if (fd >= 0 || (errno != EAGAIN && errno != EINTR))
                        break;
        }
        fd = close_keeping_errno(root, (int)fd);
        if (fd < 0 && (errno == ENOSYS || errno == EPERM)) /* EPERM: a filter of system calls */
                return kit_open_beneath_walk(directory, relative, flags);
        return (int)fd;
}
