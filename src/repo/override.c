/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/override.h"

#include "base/file.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/ref.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_PATH_BYTES 1024
#define MAX_NAME_BYTES 255 /* the limit of file systems */
#define MAX_COMPONENTS 16
#define MAX_ALL_COMPONENTS 4096 /* of all files of a load: each may be a directory of its own */

struct override_store {
        char        *root;      /* owned; "$TMPDIR/neso-<uid>" */
        struct mutex lock;      /* rank LOCK_REPO; guards everything below */
        char        *directory; /* owned; the directory of this server; NULL until it is needed */
        int          lock_fd;   /* locked; -1 until it is needed */
        unsigned     n_written;
};

struct override_files {
        struct ref ref;
        char      *directory; /* owned */
};

static void remove_tree(const char *path) {
        AUTO_ERROR err = dir_remove(path);

        if (err != NULL)
                log_warn("%s", err->message);
}

/* Returns the descriptor; -1 when another process has the lock, or there is no such file. */
static int lock_file(const char *path, int flags) {
        int        fd = -1;
        AUTO_ERROR err = file_open_locked(path, flags, &fd);

        return err == NULL ? fd : -1;
}

/* ---- the root and its directories
 * ------------------------------------------------------------- */

/* All servers of a user share one root. Other users must not be able to write there. */
static struct error *check_root(const char *root) {
        struct stat stat;

        if (lstat(root, &stat) != 0)
                return errno == ENOENT ? NULL /* removed at this moment */
                                       : error_errno(errno, "unable to stat '%s'", root);
        if (!S_ISDIR(stat.st_mode) || stat.st_uid != geteuid() || (stat.st_mode & 077) != 0)
                return error_new(ERR_INTERNAL,
                                 "'%s' must be a directory that only this user may use", root);
        return NULL;
}

/* While the lock is held, no server directory is made or removed. Returns -1 on failure. */
static int lock_root(const char *root) {
        int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

        if (fd >= 0 && flock(fd, LOCK_EX) != 0) {
                close(fd);
                return -1;
        }
        return fd;
}

static void remove_if_dead(const char *root, const char *name) {
        AUTO_CHARS directory = path_join(root, name);
        AUTO_CHARS path = path_join(directory, "lock");
        int        fd = lock_file(path, 0);

        if (fd < 0 && file_exists(path))
                return; /* its server runs */
        remove_tree(directory);
        if (fd >= 0)
                close(fd);
}

static void remove_dead(const char *root) {
        struct dir_list list;
        AUTO_ERROR      err = file_exists(root) ? check_root(root) : NULL;
        int             fd;

        if (err != NULL || !file_exists(root))
                return; /* reported when the root is needed */
        fd = lock_root(root);
        if (fd < 0)
                return;
        err = dir_list_read(root, &list);
        for (size_t i = 0; err == NULL && i < list.n_names; i++)
                remove_if_dead(root, list.names[i]);
        if (err == NULL)
                dir_list_done(&list);
        rmdir(root);
        close(fd);
}

struct override_store *override_store_new(void) {
        struct override_store *s = mem_zalloc(sizeof(*s));
        const char            *tmp = getenv("TMPDIR");

        s->root = mem_printf("%s/neso-%u", tmp != NULL && *tmp == '/' ? tmp : "/tmp",
                             (unsigned)geteuid());
        s->lock_fd = -1;
        mutex_init(&s->lock, LOCK_REPO);
        remove_dead(s->root);
        return s;
}

/* The last server removes the root. While others use it, rmdir() fails. */
static void close_store(struct override_store *s) {
        int fd = lock_root(s->root);

        remove_tree(s->directory);
        close(s->lock_fd);
        rmdir(s->root);
        if (fd >= 0)
                close(fd);
}

void override_store_free(struct override_store *s) {
        if (s == NULL)
                return;
        if (s->directory != NULL)
                close_store(s);
        mutex_done(&s->lock);
        free(s->directory);
        free(s->root);
        free(s);
}

static struct error *make_directory_locked(struct override_store *s) {
        AUTO_CHARS path = mem_printf("%s/XXXXXX", s->root);
        AUTO_CHARS lock = NULL;

        if (mkdtemp(path) == NULL)
                return error_errno(errno, "unable to make a directory in '%s'", s->root);
        lock = path_join(path, "lock");
        s->lock_fd = lock_file(lock, O_CREAT | O_EXCL);
        if (s->lock_fd < 0) {
                struct error *err = error_errno(errno, "unable to lock '%s'", lock);

                remove_tree(path);
                return err;
        }
        s->directory = STEAL(path);
        return NULL;
}

/* True when another server removed the directory before this one had the lock. */
static bool is_removed(int fd) {
        struct stat stat;

        return fstat(fd, &stat) == 0 && stat.st_nlink == 0;
}

/* Opens and locks the root, and makes it when it is missing. */
static struct error *open_root(const char *root, int *ret_fd) {
        int fd = -1;

        do {
                if (fd >= 0)
                        close(fd);
                if (mkdir(root, 0700) != 0 && errno != EEXIST)
                        return error_errno(errno, "unable to make the directory '%s'", root);
                TRY(check_root(
                        root)); /* before locking: another user could hold the lock forever */
                fd = lock_root(root);
                if (fd < 0 && errno != ENOENT)
                        return error_errno(errno, "unable to lock '%s'", root);
        } while (fd < 0 || is_removed(fd));
        *ret_fd = fd;
        return NULL;
}

static struct error *open_store_locked(struct override_store *s) {
        struct error *err;
        int           fd;

        if (s->directory != NULL)
                return NULL;
        TRY(open_root(s->root, &fd));
        err = make_directory_locked(s);
        close(fd);
        return err;
}

/* Makes a new directory for one model. The caller owns the path. */
static struct error *make_place(struct override_store *s, char **ret) {
        AUTO_CHARS path = NULL;

        MUTEX_GUARD(&s->lock);
        TRY(open_store_locked(s));
        path = mem_printf("%s/%u", s->directory, s->n_written++);
        if (mkdir(path, 0700) != 0)
                return error_errno(errno, "unable to make the directory '%s'", path);
        *ret = STEAL(path);
        return NULL;
}

/* ---- files ----------------------------------------------------------------------------------- */

static bool is_plain_name(struct str name) {
        if (name.len == 0 || name.len > MAX_NAME_BYTES || str_is(name, ".") || str_is(name, ".."))
                return false;
        for (size_t i = 0; i < name.len; i++)
                if ((unsigned char)name.ptr[i] < ' ' || name.ptr[i] == '\\' || name.ptr[i] == 0x7f)
                        return false;
        return true;
}

/* Adds the number of its names to *n_all. */
static struct error *check_path(const char *path, size_t *n_all) {
        struct str rest = str_of(path), name;
        size_t     n = 0;
        bool       is_plain = rest.len <= MAX_PATH_BYTES;

        do {
                rest = str_split(rest, '/', &name);
                is_plain = is_plain && is_plain_name(name) && ++n <= MAX_COMPONENTS;
        } while (is_plain && rest.ptr != NULL);
        *n_all += n;
        if (is_plain)
                return NULL;
        return error_new(ERR_INVALID_ARG,
                         "Invalid file parameter 'file:%.64s', the path must stay within model "
                         "directory.",
                         path);
}

/* Makes the directories above the file. */
static struct error *make_parents(const char *directory, const char *path) {
        for (const char *slash = strchr(path, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
                AUTO_CHARS parent = mem_printf("%s/%.*s", directory, (int)(slash - path), path);

                if (mkdir(parent, 0700) != 0 && errno != EEXIST)
                        return error_errno(errno, "unable to make the directory of 'file:%s'",
                                           path);
        }
        return NULL;
}

static struct error *write_bytes(int fd, const struct override_file *f) {
        const char *at = f->bytes;
        size_t      left = f->n_bytes;

        while (left > 0) {
                ssize_t n = write(fd, at, left);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return error_errno(errno, "unable to write 'file:%s'", f->path);
                at += n;
                left -= (size_t)n;
        }
        return NULL;
}

static struct error *write_file(const char *directory, const struct override_file *f) {
        AUTO_CHARS    path = path_join(directory, f->path);
        struct error *err;
        int           fd;

        TRY(make_parents(directory, f->path));
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0 && errno == EEXIST)
                return error_new(ERR_INVALID_ARG, "'file:%s' is given twice", f->path);
        if (fd < 0)
                return error_errno(errno, "unable to write 'file:%s'", f->path);
        err = write_bytes(fd, f);
        if (close(fd) != 0 && err == NULL)
                err = error_errno(errno, "unable to write 'file:%s'", f->path);
        return err;
}

static struct error *write_all(const struct override_files *to, const struct override_file *files,
                               size_t n_files) {
        for (size_t i = 0; i < n_files; i++)
                TRY(write_file(to->directory, &files[i]));
        return NULL;
}

struct error *override_files_new(struct override_store *s, struct override_files **ret) {
        struct override_files *f;
        char                  *directory;

        TRY(make_place(s, &directory));
        f = mem_zalloc(sizeof(*f));
        ref_init(&f->ref);
        f->directory = directory;
        *ret = f;
        return NULL;
}

struct error *override_files_write(struct override_store *s, const struct override_file *files,
                                   size_t n_files, struct override_files **ret) {
        struct override_files *f;
        size_t                 n_names = 0;

        for (size_t i = 0; i < n_files; i++)
                TRY(check_path(files[i].path, &n_names));
        if (n_names > MAX_ALL_COMPONENTS)
                return error_new(ERR_INVALID_ARG,
                                 "the paths of the files have %zu names, at most %d are supported",
                                 n_names, MAX_ALL_COMPONENTS);
        TRY(override_files_new(s, &f));
        TRY_OR(write_all(f, files, n_files), override_files_unref(f));
        *ret = f;
        return NULL;
}

struct override_files *override_files_ref(struct override_files *f) {
        if (f != NULL)
                ref_get(&f->ref);
        return f;
}

void override_files_unref(struct override_files *f) {
        if (f == NULL || !ref_put(&f->ref))
                return;
        remove_tree(f->directory);
        free(f->directory);
        free(f);
}

const char *override_files_directory(const struct override_files *f) {
        return f->directory;
}
