/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/store_folder.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK_NAME "neso.lock"
#define PREFIX "folder"

struct store_folder {
        char       *path; /* owned */
        int         lock_fd;
        atomic_uint n_places;
};

char *store_folder_parent(enum store_kind kind, const char *cache_directory) {
        static const char *const names[] = {
                [STORE_S3] = "TRITON_AWS_MOUNT_DIRECTORY",
                [STORE_GS] = "TRITON_GCS_MOUNT_DIRECTORY",
                [STORE_AS] = "TRITON_AZURE_MOUNT_DIRECTORY",
        };
        const char *given = kind == STORE_WEB ? cache_directory : getenv(names[kind]);

        return mem_strdup(given != NULL && *given != '\0' ? given : "/tmp");
}

/* ---- folders of dead servers ----------------------------------------------------------------- */

static bool is_own_directory(const char *path) {
        struct stat stat;

        return lstat(path, &stat) == 0 && S_ISDIR(stat.st_mode) && stat.st_uid == geteuid();
}

/* A folder without the lock file is another program's, or is being made at this moment. */
static void remove_if_dead(const char *parent, const char *name) {
        AUTO_CHARS path = path_join(parent, name);
        AUTO_CHARS lock = path_join(path, LOCK_NAME);
        AUTO_ERROR err = NULL;
        int        fd = -1;

        if (!str_starts(str_of(name), STR_LIT(PREFIX)) || !is_own_directory(path))
                return;
        err = file_open_locked(lock, 0, &fd);
        if (err != NULL || fd < 0)
                return;
        err = dir_remove(path);
        if (err != NULL)
                log_warn("%s", err->message);
        else
                log_info("removed '%s', which a server left behind", path);
        close(fd);
}

static void remove_dead(const char *parent) {
        struct dir_list list = { 0 };
        AUTO_ERROR      err = dir_list_read(parent, &list);

        for (size_t i = 0; err == NULL && i < list.n_names; i++)
                remove_if_dead(parent, list.names[i]);
        dir_list_done(&list);
}

/* ---- the folder of this one ------------------------------------------------------------------ */

/* The lock file has another name until it is locked: else another server would remove the folder. */
static struct error *make_lock(struct store_folder *f) {
        AUTO_CHARS    first = path_join(f->path, LOCK_NAME ".new");
        AUTO_CHARS    path = path_join(f->path, LOCK_NAME);
        struct error *err = file_open_locked(first, O_CREAT | O_EXCL, &f->lock_fd);

        if (err == NULL && f->lock_fd < 0)
                err = error_new(ERR_INTERNAL, "'%s' is locked by another process", first);
        if (err == NULL && rename(first, path) != 0)
                err = error_errno(errno, "unable to rename '%s'", first);
        return err;
}

struct error *store_folder_open(const char *parent, struct store_folder **ret) {
        struct store_folder *f = mem_zalloc(sizeof(*f));
        AUTO_CHARS           path = path_join(parent, PREFIX "XXXXXX");
        struct error        *err = NULL;

        f->lock_fd = -1;
        remove_dead(parent);
        if (mkdtemp(path) == NULL)
                err = error_errno(errno, "unable to make a directory in '%s'", parent);
        else
                f->path = STEAL(path);
        if (err == NULL)
                err = make_lock(f);
        if (err != NULL) {
                store_folder_close(f);
                return err;
        }
        *ret = f;
        return NULL;
}

void store_folder_close(struct store_folder *f) {
        AUTO_ERROR err = NULL;

        if (f == NULL)
                return;
        if (f->path != NULL)
                err = dir_remove(f->path);
        if (err != NULL)
                log_warn("%s", err->message);
        if (f->lock_fd >= 0)
                close(f->lock_fd);
        free(f->path);
        free(f);
}

const char *store_folder_path(const struct store_folder *f) {
        return f->path;
}

struct error *store_folder_make_place(struct store_folder *f, char **ret) {
        AUTO_CHARS path = mem_printf("%s/%u", f->path, atomic_fetch_add(&f->n_places, 1));

        if (mkdir(path, 0700) != 0)
                return error_errno(errno, "unable to make the directory '%s'", path);
        *ret = STEAL(path);
        return NULL;
}
