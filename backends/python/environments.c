/* SPDX-License-Identifier: BSD-3-Clause */
#include "python/environments.h"

#include "kit/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_DESCRIPTORS 16 /* descriptors that nftw() keeps open */

struct archive {
        struct archive *next;
        char           *path; /* owned; canonical */
        struct timespec changed;
        char           *directory; /* owned; the directory that it was unpacked to */
};

struct environments {
        pthread_mutex_t lock;      /* held while an archive is unpacked; other threads wait */
        char           *python;    /* owned; the interpreter that runs the script */
        char           *script;    /* owned */
        char           *directory; /* owned; NULL until the first archive */
        struct archive *archives;  /* owned */
        unsigned        n_archives;
};

static TRITONSERVER_Error *failed_extraction(const char *path, const char *what) {
        return kit_error(TRITONSERVER_ERROR_INTERNAL, "Failed to extract Python env '%s': %s", path,
                         what);
}

TRITONSERVER_Error *environments_new(const char *python, const char *backend_directory,
                                     struct environments **ret) {
        struct environments *e = kit_alloc_array(1, sizeof(*e));
        size_t               n = strlen(backend_directory) + sizeof("/unpack_environment.py");

        if (e == NULL)
                return kit_error_no_memory(sizeof(*e), "environments");
        (void)pthread_mutex_init(&e->lock, NULL);
        e->python = strdup(python);
        e->script = kit_alloc_array(n, 1);
        if (e->python == NULL || e->script == NULL) {
                environments_free(e);
                return kit_error_no_memory(n, "environments");
        }
        (void)snprintf(e->script, n, "%s/unpack_environment.py", backend_directory);
        *ret = e;
        return NULL;
}

/* Callback of nftw(), with the signature of POSIX. */
static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *position) {
        (void)st;
        (void)type;
        (void)position;
        return remove(path);
}

static void remove_tree(const char *path) {
        (void)nftw(path, remove_entry, MAX_DESCRIPTORS, FTW_DEPTH | FTW_PHYS);
}

void environments_free(struct environments *e) {
        if (e == NULL)
                return;
        while (e->archives != NULL) {
                struct archive *a = e->archives;

                e->archives = a->next;
                free(a->path);
                free(a->directory);
                free(a);
        }
        if (e->directory != NULL)
                remove_tree(e->directory);
        (void)pthread_mutex_destroy(&e->lock);
        free(e->directory);
        free(e->script);
        free(e->python);
        free(e);
}

/* ---- unpacking ------------------------------------------------------------------------------- */

static bool open_directory(struct environments *e) {
        const char *folder = getenv("TMPDIR");
        char        path[PATH_MAX];

        if (e->directory != NULL)
                return true;
        (void)snprintf(path, sizeof(path), "%s/python_env_XXXXXX",
                       folder != NULL && *folder != '\0' ? folder : "/tmp");
        if (mkdtemp(path) == NULL)
                return false;
        e->directory = strdup(path);
        return e->directory != NULL;
}

/* Reads the script's output, up to n_bytes, and returns its exit status. */
static int wait_for_script(pid_t pid, int from, char *text, size_t n_bytes) {
        size_t  len = 0;
        ssize_t n;
        int     status;

        while ((n = read(from, text + len, n_bytes - 1 - len)) > 0 || (n < 0 && errno == EINTR))
                len += n > 0 && len + (size_t)n < n_bytes - 1 ? (size_t)n : 0;
        text[len] = '\0';
        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return -1;
        return status;
}

static int spawn_script(const struct environments *e, const char *archive, const char *directory,
                        int to, pid_t *pid) {
        char                      *arguments[] = { e->python, e->script, (char *)(uintptr_t)archive,
                                                   (char *)(uintptr_t)directory, NULL };
        posix_spawn_file_actions_t files;
        int                        rc = posix_spawn_file_actions_init(&files);

        if (rc != 0)
                return rc;
        rc = posix_spawn_file_actions_adddup2(&files, to, STDOUT_FILENO);
        if (rc == 0)
                rc = posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
        if (rc == 0)
                rc = posix_spawnp(pid, e->python, &files, NULL, arguments, environ);
        (void)posix_spawn_file_actions_destroy(&files);
        return rc;
}

static TRITONSERVER_Error *unpack(const struct environments *e, const char *path,
                                  const char *directory) {
        char  text[512];
        int   pipes[2], rc, status;
        pid_t pid;

        if (mkdir(directory, 0700) != 0)
                return failed_extraction(path, strerror(errno));
        if (pipe2(pipes, O_CLOEXEC) != 0)
                return failed_extraction(path, strerror(errno));
        rc = spawn_script(e, path, directory, pipes[1], &pid);
        (void)close(pipes[1]);
        status = rc == 0 ? wait_for_script(pid, pipes[0], text, sizeof(text)) : 0;
        (void)close(pipes[0]);
        if (rc != 0)
                return failed_extraction(path, strerror(rc));
        return status == 0
                       ? NULL
                       : failed_extraction(path, *text != '\0' ? text : "the interpreter failed");
}

static struct archive *find_archive(struct environments *e, const char *path,
                                    const struct stat *st) {
        for (struct archive *a = e->archives; a != NULL; a = a->next)
                if (strcmp(a->path, path) == 0 && a->changed.tv_sec == st->st_mtim.tv_sec &&
                    a->changed.tv_nsec == st->st_mtim.tv_nsec)
                        return a;
        return NULL;
}

static TRITONSERVER_Error *add_archive(struct environments *e, const char *path,
                                       const struct stat *st, struct archive **ret) {
        struct archive     *a = kit_alloc_array(1, sizeof(*a));
        char                directory[PATH_MAX];
        TRITONSERVER_Error *err;

        if (a == NULL)
                return kit_error_no_memory(sizeof(*a), path);
        if (!open_directory(e)) {
                free(a);
                return failed_extraction(path, strerror(errno));
        }
        (void)snprintf(directory, sizeof(directory), "%s/%u", e->directory, e->n_archives++);
        kit_log(TRITONSERVER_LOG_VERBOSE, __FILE__, __LINE__, "Extracting Python execution env %s",
                path);
        err = unpack(e, path, directory);
        a->path = strdup(path);
        a->directory = strdup(directory);
        if (err == NULL && (a->path == NULL || a->directory == NULL))
                err = kit_error_no_memory(strlen(path), path);
        if (err != NULL) {
                remove_tree(directory); /* a part of it may have filled the disk */
                free(a->path);
                free(a->directory);
                free(a);
                return err;
        }
        a->changed = st->st_mtim;
        a->next = e->archives;
        e->archives = a;
        *ret = a;
        return NULL;
}

TRITONSERVER_Error *environments_open(struct environments *e, const char *path,
                                      char **ret_directory) {
        TRITONSERVER_Error *err = NULL;
        struct archive     *a;
        struct stat         st;
        char               *canonical;

        if (stat(path, &st) != 0 || S_ISDIR(st.st_mode)) {
                *ret_directory =
                        strdup(path); /* a mistake in it is reported by the code that uses it */
                return *ret_directory != NULL ? NULL : kit_error_no_memory(strlen(path), path);
        }
        canonical = realpath(path, NULL);
        if (canonical == NULL)
                return failed_extraction(path, strerror(errno));
        (void)pthread_mutex_lock(&e->lock);
        a = find_archive(e, canonical, &st);
        if (a == NULL)
                err = add_archive(e, canonical, &st, &a);
        if (err == NULL)
                *ret_directory = strdup(a->directory);
        (void)pthread_mutex_unlock(&e->lock);
        free(canonical);
        if (err == NULL && *ret_directory == NULL)
                err = kit_error_no_memory(strlen(path), path);
        return err;
}
