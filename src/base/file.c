/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/file.h"

#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* O_NONBLOCK: opening a FIFO without a writer must not block the server. */
#define OPEN_FLAGS (O_RDONLY | O_CLOEXEC | O_NONBLOCK)

static void close_fd(int *fd) {
        if (*fd >= 0)
                close(*fd);
}

/* ---- names --------------------------------------------------------------------------------- */

char *path_join(const char *directory, const char *name) {
        struct str d = str_of(directory);
        size_t     name_bytes;
        char      *path;

        while (name[0] == '/')
                name++;
        if (d.len == 0)
                return mem_strdup(name);
        if (d.ptr[d.len - 1] == '/')
                d.len--;
        name_bytes = strlen(name) + 1;
        path = mem_alloc(d.len + 1 + name_bytes);
        memcpy(path, d.ptr, d.len);
        path[d.len] = '/';
        memcpy(path + d.len + 1, name, name_bytes);
        return path;
}

const char *path_basename(const char *path) {
        const char *slash = strrchr(path, '/');

        return slash != NULL ? slash + 1 : path;
}

char *path_dirname(const char *path) {
        const char *slash = strrchr(path, '/');

        if (slash == NULL)
                return mem_strdup(".");
        return slash == path ? mem_strdup("/") : mem_strndup(path, (size_t)(slash - path));
}

/* ---- questions ----------------------------------------------------------------------------- */

bool file_exists(const char *path) {
        struct stat native;

        return stat(path, &native) == 0;
}

bool file_is_directory(const char *path) {
        struct stat native;

        return stat(path, &native) == 0 && S_ISDIR(native.st_mode);
}

struct error *file_stat(const char *path, struct file_stat *ret) {
        struct stat native;

        if (stat(path, &native) != 0)
                return error_errno(errno, "unable to stat '%s'", path);
        *ret = (struct file_stat){
                .is_directory = S_ISDIR(native.st_mode),
                .is_regular = S_ISREG(native.st_mode),
                .size_bytes = native.st_size > 0 ? (uint64_t)native.st_size : 0,
                .mtime_ns = (int64_t)native.st_mtim.tv_sec * 1000000000 + native.st_mtim.tv_nsec,
                .inode = (uint64_t)native.st_ino,
                .device = (uint64_t)native.st_dev,
        };
        return NULL;
}

bool file_has_name(int fd, const char *path) {
        struct stat opened, named;

        return fstat(fd, &opened) == 0 && lstat(path, &named) == 0 &&
               opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

struct error *file_open_locked(const char *path, int flags, int *ret_fd) {
        int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);

        if (fd < 0)
                return error_errno(errno, "unable to open '%s'", path);
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
                *ret_fd = fd;
                return NULL;
        }
        if (errno != EWOULDBLOCK) {
                struct error *err = error_errno(errno, "unable to lock '%s'", path);

                close(fd);
                return err;
        }
        close(fd);
        *ret_fd = -1;
        return NULL;
}

/* ---- contents ------------------------------------------------------------------------------ */

/* Size of the first read: the file's size, if it is known; files of /proc have size 0. */
static size_t first_read_bytes(int fd, size_t max_bytes) {
        struct stat native;
        size_t      expected = 4096;

        if (fstat(fd, &native) == 0 && S_ISREG(native.st_mode) && native.st_size > 0)
                expected =
                        (size_t)native.st_size + 1; /* one more byte, to see the end of the file */
        return MIN(expected, max_bytes + 1);
}

/* Reads to the end; INVALID_ARG when the file is longer than max_bytes. */
static struct error *read_all(int fd, const char *name, size_t max_bytes, struct strbuf *out) {
        size_t want = first_read_bytes(fd, max_bytes);

        for (;;) {
                ssize_t got;

                if (!strbuf_reserve(out, want))
                        return error_new(ERR_UNAVAILABLE, "out of memory reading '%s'", name);
                got = read(fd, out->ptr + out->len, want);
                if (got < 0 && errno == EINTR)
                        continue;
                if (got < 0)
                        return error_errno(errno, "unable to read '%s'", name);
                if (got == 0)
                        return NULL;
                out->len += (size_t)got;
                out->ptr[out->len] = '\0';
                if (out->len > max_bytes)
                        return error_new(ERR_INVALID_ARG,
                                         "file '%s' is larger than the limit of %zu bytes", name,
                                         max_bytes);
                want = MIN(MAX(out->len, (size_t)4096), max_bytes + 1 - out->len);
        }
}

struct error *file_read_fd(int fd, const char *name, size_t max_bytes, struct strbuf *ret) {
        struct strbuf out;

        max_bytes = MIN(max_bytes, (size_t)SSIZE_MAX - 1);
        strbuf_init(&out, max_bytes + 1);
        TRY_OR(read_all(fd, name, max_bytes, &out), strbuf_done(&out));
        *ret = out;
        return NULL;
}

struct error *file_read(const char *path, size_t max_bytes, struct strbuf *ret) {
        CLEANUP(close_fd) int fd = open(path, OPEN_FLAGS);

        if (fd < 0)
                return error_errno(errno, "unable to open '%s'", path);
        return file_read_fd(fd, path, max_bytes, ret);
}

/* ---- beneath a directory ------------------------------------------------------------------- */

static struct error *leaves(const char *directory, const char *relative) {
        return error_new(ERR_INVALID_ARG, "path '%s' leaves directory '%s'", relative, directory);
}

static struct error *check_relative(const char *directory, const char *relative) {
        if (relative[0] == '\0')
                return error_new(ERR_INVALID_ARG, "empty path beneath directory '%s'", directory);
        if (relative[0] == '/')
                return leaves(directory, relative);
        STR_FOR_EACH(str_of(relative), '/', part)
                if (str_is(part, ".."))
                        return leaves(directory, relative);
        return NULL;
}

static struct error *open_failure(int errnum, const char *directory, const char *relative) {
        struct error *err;

        if (errnum == EXDEV)
                return leaves(directory, relative);
        if (errnum == ELOOP)
                return error_new(
                        ERR_INVALID_ARG,
                        "path '%s' in directory '%s' passes a symbolic link that is not followed",
                        relative, directory);
        err = error_errno(errnum, "unable to open '%s/%s'", directory, relative);
        return errnum == ENOTDIR ? error_recode(err, ERR_NOT_FOUND) : err;
}

static struct error *open_root(const char *directory, int *ret_fd) {
        int fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0)
                return error_errno(errno, "unable to open directory '%s'", directory);
        *ret_fd = fd;
        return NULL;
}

struct error *file_open_beneath_walk(const char *directory, const char *relative, int *ret_fd) {
        CLEANUP(close_fd) int at = -1;
        struct str            rest = str_of(relative), part;

        TRY(check_relative(directory, relative));
        TRY(open_root(directory, &at));
        while (str_next(&rest, '/', &part)) {
                bool is_last = rest.ptr == NULL;
                /* "a//b" is "a/b", and "a/" is "a/." */
                AUTO_CHARS name = part.len > 0 ? mem_strndup(part.ptr, part.len) : mem_strdup(".");
                int        next = openat(at, name,
                                         O_NOFOLLOW | (is_last ? OPEN_FLAGS
                                                               : O_PATH | O_DIRECTORY | O_CLOEXEC));

                if (next < 0)
                        return open_failure(errno, directory, relative);
                close(at);
                at = next;
        }
        *ret_fd = at;
        at = -1;
        return NULL;
}

static int openat2_beneath(int root, const char *relative) {
        struct open_how how = {
                .flags = OPEN_FLAGS,
                .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
        };
        long fd;

        /* EAGAIN: a file was renamed meanwhile, and the kernel could not verify the path. */
        for (int i = 0; i < 16; i++) {
                fd = syscall(SYS_openat2, root, relative, &how, sizeof(how));
                if (fd >= 0 || (errno != EAGAIN && errno != EINTR))
                        break;
        }
        return (int)fd;
}

struct error *file_open_beneath(const char *directory, const char *relative, int *ret_fd) {
        CLEANUP(close_fd) int root = -1;
        int                   fd;

        TRY(check_relative(directory, relative));
        TRY(open_root(directory, &root));
        fd = openat2_beneath(root, relative);
        if (fd < 0 &&
            (errno == ENOSYS || errno == EPERM)) /* EPERM: a container's system call filter */
                return file_open_beneath_walk(directory, relative, ret_fd);
        if (fd < 0)
                return open_failure(errno, directory, relative);
        *ret_fd = fd;
        return NULL;
}

/* ---- directories --------------------------------------------------------------------------- */

static int compare_names(const void *a, const void *b) {
        return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_dot(const char *name) {
        return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static struct error *not_opened(const char *path) {
        return error_errno(errno, "unable to open directory '%s'", path);
}

/* Most file systems report the type of an entry; links and unknown types need stat(2). */
static bool is_directory(DIR *stream, const struct dirent *entry) {
        struct stat st;

        if (entry->d_type != DT_UNKNOWN && entry->d_type != DT_LNK)
                return entry->d_type == DT_DIR;
        return fstatat(dirfd(stream), entry->d_name, &st, 0) == 0 && S_ISDIR(st.st_mode);
}

static struct error *read_names(DIR *stream, const char *path, bool directories_only,
                                struct dir_list *l) {
        for (;;) {
                struct dirent *entry;

                errno = 0;
                entry = readdir(stream);
                if (entry == NULL)
                        break;
                if (is_dot(entry->d_name) || (directories_only && !is_directory(stream, entry)))
                        continue;
                l->names = mem_grow(l->names, l->n_names, sizeof(*l->names));
                l->names[l->n_names++] = mem_strdup(entry->d_name);
        }
        return errno ? error_errno(errno, "unable to read directory '%s'", path) : NULL;
}

static struct error *read_list(const char *path, bool directories_only, struct dir_list *ret) {
        struct dir_list l = { .names = NULL };
        DIR            *stream = opendir(path);
        struct error   *err;

        if (stream == NULL)
                return not_opened(path);
        err = read_names(stream, path, directories_only, &l);
        closedir(stream);
        if (err != NULL) {
                dir_list_done(&l);
                return err;
        }
        if (l.n_names > 1)
                qsort(l.names, l.n_names, sizeof(*l.names), compare_names);
        *ret = l;
        return NULL;
}

struct error *dir_list_read(const char *path, struct dir_list *ret) {
        return read_list(path, false, ret);
}

struct error *dir_list_read_directories(const char *path, struct dir_list *ret) {
        return read_list(path, true, ret);
}

struct error *dir_check(const char *path) {
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);

        if (fd < 0)
                return not_opened(path);
        close(fd);
        return NULL;
}

void dir_list_done(struct dir_list *l) {
        for (size_t i = 0; i < l->n_names; i++)
                free(l->names[i]);
        free(l->names);
        *l = (struct dir_list){ .names = NULL };
}

/* ---- removal --------------------------------------------------------------------------------- */

/* Limit of open directories while a tree is removed. */
#define MAX_OPEN 16

static int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *place) {
        (void)stat;
        (void)kind;
        (void)place;
        return remove(path);
}

struct error *dir_remove(const char *path) {
        if (nftw(path, remove_one, MAX_OPEN, FTW_DEPTH | FTW_PHYS) != 0 && errno != ENOENT)
                return error_errno(errno, "unable to remove '%s'", path);
        return NULL;
}
