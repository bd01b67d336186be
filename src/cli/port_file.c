/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/port_file.h"

#include "base/mem.h"
#include "base/strbuf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* The lock says that the server of these ports lives. Where a file system has no locks, the file counts as left. */
static bool write_text(int fd, const struct strbuf *text) {
        ssize_t n;

        (void)flock(fd, LOCK_EX | LOCK_NB);
        n = write(fd, strbuf_cstr(text), text->len);
        if (n < 0)
                return false;
        errno = EIO; /* a part of so few bytes */
        return (size_t)n == text->len;
}

struct error *port_file_write(const char *path, const struct port_entry *entries, size_t n,
                              int *ret_fd) {
        AUTO_CHARS    beside = mem_printf("%s.%ld.new", path, (long)getpid());
        AUTO_STRBUF   text = { 0 };
        struct error *err;
        int           fd;

        for (size_t i = 0; i < n; i++)
                if (entries[i].port != 0)
                        strbuf_printf(&text, "%s=%u\n", entries[i].name, entries[i].port);
        TRY(strbuf_check(&text, "the ports"));
        fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
        if (fd >= 0 && write_text(fd, &text) && rename(beside, path) == 0) {
                *ret_fd = fd;
                return NULL;
        }
        err = error_new(ERR_UNAVAILABLE, "--port-file: cannot write %s: %s", path, strerror(errno));
        (void)unlink(beside);
        if (fd >= 0)
                close(fd);
        return err;
}

/* True while the file at the path is the open one. */
static bool is_still(const char *path, int fd) {
        struct stat there, own;

        return lstat(path, &there) == 0 && fstat(fd, &own) == 0 && there.st_dev == own.st_dev &&
               there.st_ino == own.st_ino;
}

void port_file_remove(const char *path, int fd) {
        if (is_still(path, fd))
                (void)unlink(path);
        close(fd);
}

void port_file_remove_left(const char *path) {
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

        if (fd < 0) { /* a link is of no server: it renames its file to the path */
                if (errno != ENOENT)
                        (void)unlink(path);
                return;
        }
        if (flock(fd, LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK)
                port_file_remove(path, fd);
        else
                close(fd);
}
