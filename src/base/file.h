/* SPDX-License-Identifier: BSD-3-Clause */
/* Files and directories: read, list, join, and stay beneath a directory.
 *
 * Names from peers and from model repositories are opened with file_open_beneath(), which follows
 * no link out of the directory (openat2 RESOLVE_BENEATH, else a walk with O_NOFOLLOW).
 */
#pragma once

#include "base/error.h"
#include "base/strbuf.h"

#include <stdbool.h>
#include <stdint.h>

struct file_stat {
        bool     is_directory;
        bool     is_regular;
        uint64_t size_bytes;
        int64_t  mtime_ns;
        uint64_t inode; /* distinguishes a file from one that replaced it */
        uint64_t device;
};

char       *path_join(const char *directory, const char *name); /* owned by the caller */
const char *path_basename(const char *path);                    /* borrowed: in path */
char       *path_dirname(const char *path);                     /* owned by the caller */

bool          file_exists(const char *path);
bool          file_is_directory(const char *path); /* or a link to one */
struct error *file_stat(const char *path, struct file_stat *ret);
/* Reads the whole file, at most max_bytes; the error names the path. *ret is overwritten on success
 * (its old text is not freed) and untouched on failure. */
struct error *file_read(const char *path, size_t max_bytes, struct strbuf *ret);
/* Read-only and close-on-exec; never blocks on a FIFO. INVALID_ARG for an empty or absolute name,
 * for any ".." component and for a link out of the directory. */
struct error *file_open_beneath(const char *directory, const char *relative, int *ret_fd);
/* file_open_beneath() for kernels without openat2(2): follows no symbolic link at all. */
struct error *file_open_beneath_walk(const char *directory, const char *relative, int *ret_fd);
struct error *file_read_fd(int fd, const char *name_for_errors, size_t max_bytes,
                           struct strbuf *ret);

/* Opens a file and locks it exclusively (flock), without waiting; the lock ends with the descriptor, and
 * so with the process. Follows no link. `flags` are added to O_RDWR. *ret_fd is -1 when another one has
 * the lock. */
struct error *file_open_locked(const char *path, int flags, int *ret_fd);
/* True when the file that is open there has the name `path` now: it was not renamed or removed. */
bool file_has_name(int fd, const char *path);

struct dir_list {
        char **names; /* owned; sorted by byte value; without "." and ".." */
        size_t n_names;
};

struct error *dir_list_read(const char *path, struct dir_list *ret);
/* The same, with directories and links to directories only. */
struct error *dir_list_read_directories(const char *path, struct dir_list *ret);
/* NULL when the directory can be listed, else the error of the functions above. */
struct error *dir_check(const char *path);
void          dir_list_done(struct dir_list *l);
/* Removes a file, or a directory with everything in it, without following links. NULL when it is
 * gone. */
struct error *dir_remove(const char *path);
