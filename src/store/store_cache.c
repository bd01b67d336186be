/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/store_cache.h"

#include "base/digest.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD_BYTES 96
#define BOOT_ID "/proc/sys/kernel/random/boot_id"
#define MAX_RENAMES 8

struct store_cache {
        char    *directory; /* owned */
        uint64_t max_bytes;
        bool     keeps_unused;
        char     boot[64]; /* of the running kernel; "" when it is not known */

        atomic_uint n_wanted; /* evictions; 0: no thread evicts */
};

/* ---- the directory --------------------------------------------------------------------------- */

/* After a crash of the machine, a record may have reached the disk before the bytes that it lists. So
 * it is valid until the next start of the kernel. */
static void read_boot(struct store_cache *c) {
        AUTO_STRBUF text = { .max = sizeof(c->boot) - 1 };
        AUTO_ERROR  err = NULL;

        err = file_read(BOOT_ID, sizeof(c->boot) - 1, &text);
        if (err == NULL)
                snprintf(c->boot, sizeof(c->boot), "%.*s", (int)strcspn(text.ptr, "\n"), text.ptr);
}

static struct error *make_directory(const char *path) {
        struct stat stat_;

        if (mkdir(path, 0700) != 0 && errno != EEXIST)
                return error_errno(errno, "unable to make the directory '%s'", path);
        if (stat(path, &stat_) != 0)
                return error_errno(errno, "unable to stat '%s'", path);
        if (!S_ISDIR(stat_.st_mode))
                return error_new(ERR_INVALID_ARG, "'%s' is no directory", path);
        if ((stat_.st_mode & S_IWOTH) != 0)
                log_warn("every user may write to '%s', and so replace the files of models", path);
        return access(path, R_OK | W_OK | X_OK) != 0
                       ? error_errno(errno, "unable to use the directory '%s'", path)
                       : NULL;
}

struct error *store_cache_open(const struct store_cache_options *o, struct store_cache **ret) {
        struct store_cache *c;

        TRY(error_wrap(make_directory(o->directory), "the cache of model repositories"));
        c = mem_zalloc(sizeof(*c));
        c->directory = mem_strdup(o->directory);
        c->max_bytes = o->max_bytes;
        c->keeps_unused = o->keeps_unused;
        read_boot(c);
        *ret = c;
        return NULL;
}

void store_cache_close(struct store_cache *c) {
        if (c == NULL)
                return;
        free(c->directory);
        free(c);
}

struct error *cache_key_of(const char *origin, const char *address, struct str etag, uint64_t size,
                           char ret[CACHE_KEY_CHARS + 1]) {
        AUTO_CHARS    text = mem_printf("%s\n%s\n%.*s\n%llu", origin, address, STR_ARG(etag),
                                        (unsigned long long)size);
        unsigned char digest[DIGEST_SHA256_BYTES];

        TRY(digest_of(DIGEST_SHA256, str_of(text), digest));
        digest_print_hex(digest, sizeof(digest), ret);
        return NULL;
}

/* ---- the record of pieces -------------------------------------------------------------------- */

static void print_head(const struct store_cache *c, const struct cache_file *f,
                       char head[HEAD_BYTES]) {
        struct stat stat = { 0 };

        (void)fstat(f->fd, &stat);
        memset(head, 0, HEAD_BYTES);
        snprintf(head, HEAD_BYTES, "neso 1 %s %llu %llu\n", c->boot,
                 (unsigned long long)stat.st_ino, (unsigned long long)f->size);
}

static bool is_valid_record(const struct store_cache *c, const struct cache_file *f) {
        char expected[HEAD_BYTES], found[HEAD_BYTES];

        print_head(c, f, expected);
        return c->boot[0] != '\0' &&
               pread(f->record_fd, found, HEAD_BYTES, 0) == (ssize_t)HEAD_BYTES &&
               memcmp(found, expected, HEAD_BYTES) == 0;
}

static struct error *begin_record(const struct store_cache *c, struct cache_file *f) {
        char head[HEAD_BYTES];

        print_head(c, f, head);
        if (ftruncate(f->record_fd, 0) != 0 ||
            pwrite(f->record_fd, head, HEAD_BYTES, 0) != (ssize_t)HEAD_BYTES)
                return error_errno(errno, "unable to write '%s'", f->record);
        return NULL;
}

static void read_pieces(struct cache_file *f) {
        ssize_t n = pread(f->record_fd, f->has_piece, f->n_pieces, HEAD_BYTES);

        for (size_t i = n > 0 ? (size_t)n : 0; i < f->n_pieces; i++)
                f->has_piece[i] = 0;
        for (size_t i = 0; i < f->n_pieces; i++)
                f->has_piece[i] = f->has_piece[i] == 1;
}

static struct error *open_record(const struct store_cache *c, struct cache_file *f,
                                 bool is_reusable) {
        struct stat stat;

        f->record_fd = open(f->record, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (f->record_fd < 0)
                return error_errno(errno, "unable to open '%s'", f->record);
        if (fstat(f->fd, &stat) != 0)
                return error_errno(errno, "unable to stat '%s'", f->part);
        if (is_reusable && (uint64_t)stat.st_size == f->size && is_valid_record(c, f)) {
                read_pieces(f);
                return NULL;
        }
        TRY(begin_record(c, f));
        if (ftruncate(f->fd, 0) != 0 || ftruncate(f->fd, (off_t)f->size) != 0)
                return error_errno(errno, "unable to write '%s'", f->part);
        return NULL;
}

/* ---- one file -------------------------------------------------------------------------------- */

static bool is_whole(const struct cache_file *f) {
        struct stat stat;

        return lstat(f->path, &stat) == 0 && S_ISREG(stat.st_mode) &&
               (uint64_t)stat.st_size == f->size;
}

static struct error *lock_part(struct cache_file *f) {
        for (unsigned i = 0; i < MAX_RENAMES; i++) {
                TRY(file_open_locked(f->part, O_CREAT, &f->fd));
                if (f->fd < 0 || file_has_name(f->fd, f->part))
                        return NULL;
                close(f->fd); /* it became the whole file between open and lock */
                f->fd = -1;
        }
        return NULL;
}

static struct error *begin_part(const struct store_cache *c, struct cache_file *f, bool is_reusable,
                                enum cache_state *ret_state) {
        TRY(lock_part(f));
        *ret_state = f->fd < 0 ? CACHE_BUSY : CACHE_PART;
        if (f->fd < 0)
                return NULL;
        if (is_reusable && is_whole(f)) {
                (void)unlink(f->part);
                close(f->fd); /* an open one means that the bytes are in the .part */
                f->fd = -1;
                *ret_state = CACHE_WHOLE;
                return NULL;
        }
        f->has_piece = try_zalloc(f->n_pieces);
        if (f->has_piece == NULL)
                return error_new(ERR_UNAVAILABLE, "no memory for the pieces of '%s'", f->part);
        return open_record(c, f, is_reusable);
}

struct error *cache_file_open(struct store_cache *c, const char *key, uint64_t size,
                              bool is_reusable, struct cache_file *ret,
                              enum cache_state *ret_state) {
        struct cache_file f = {
                .fd = -1, .record_fd = -1, .size = size, .is_kept = c->keeps_unused
        };
        struct error *err = NULL;

        if (size > STORE_MAX_OBJECT_BYTES)
                return error_new(ERR_INVALID_ARG, "an object of %llu bytes is too large",
                                 (unsigned long long)size);
        f.n_pieces = size > 0 ? (size_t)((size - 1) / STORE_PIECE_BYTES) + 1 : 1;
        f.path = path_join(c->directory, key);
        f.part = mem_printf("%s.part", f.path);
        f.record = mem_printf("%s.pieces", f.path);
        *ret_state = CACHE_WHOLE;
        if (is_reusable && is_whole(&f))
                (void)utimensat(AT_FDCWD, f.path, NULL, AT_SYMLINK_NOFOLLOW);
        else
                err = begin_part(c, &f, is_reusable, ret_state);
        if (err != NULL) {
                cache_file_close(&f);
                return err;
        }
        *ret = f;
        return NULL;
}

struct error *cache_file_note_piece(struct cache_file *f, size_t piece) {
        static const unsigned char one = 1;

        if (pwrite(f->record_fd, &one, 1, (off_t)(HEAD_BYTES + piece)) != 1)
                return error_errno(errno, "unable to write '%s'", f->record);
        return NULL;
}

/* The record is removed first: beside a whole file it would describe another .part. */
struct error *cache_file_commit(struct cache_file *f) {
        if (fchmod(f->fd, 0400) != 0 || (f->is_kept && fdatasync(f->fd) != 0))
                return error_errno(errno, "unable to write '%s'", f->part);
        if (unlink(f->record) != 0 && errno != ENOENT)
                return error_errno(errno, "unable to remove '%s'", f->record);
        if (rename(f->part, f->path) != 0)
                return error_errno(errno, "unable to rename '%s'", f->part);
        return NULL;
}

void cache_file_discard(struct cache_file *f) {
        if (f->fd < 0)
                return;
        (void)unlink(f->record);
        (void)unlink(f->part);
}

void cache_file_close(struct cache_file *f) {
        if (f->fd >= 0)
                close(f->fd);
        if (f->record_fd >= 0)
                close(f->record_fd);
        free(f->has_piece);
        free(f->path);
        free(f->part);
        free(f->record);
        *f = (struct cache_file){ .fd = -1, .record_fd = -1 };
}

/* ---- a further name -------------------------------------------------------------------------- */

static struct error *copy_bytes(int from, int to, const char *path) {
        for (;;) {
                ssize_t n = copy_file_range(from, NULL, to, NULL, (size_t)1 << 30, 0);
                char    bytes[65536];

                if (n < 0 &&
                    (errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP)) {
                        n = read(from, bytes, sizeof(bytes));
                        for (ssize_t at = 0, done; n > 0 && at < n; at += done)
                                if ((done = write(to, bytes + at, (size_t)(n - at))) <= 0)
                                        return error_errno(errno, "unable to write '%s'", path);
                }
                if (n < 0 && errno != EINTR)
                        return error_errno(errno, "unable to copy to '%s'", path);
                if (n == 0)
                        return NULL;
        }
}

static struct error *copy_file(const char *from, const char *to) {
        struct error *err;
        int           out, in = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

        if (in < 0)
                return error_errno(errno, "unable to open '%s'", from);
        out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0400);
        if (out < 0) {
                err = error_errno(errno, "unable to write '%s'", to);
                close(in);
                return err;
        }
        err = copy_bytes(in, out, to);
        if (close(out) != 0 && err == NULL)
                err = error_errno(errno, "unable to write '%s'", to);
        if (err != NULL)
                (void)unlink(to); /* the next try would mistake it for the whole file */
        close(in);
        return err;
}

/* A store may have an object with the name of a folder. */
static struct error *check_there(const char *path) {
        struct stat stat;

        if (lstat(path, &stat) != 0)
                return error_errno(errno, "unable to stat '%s'", path);
        return S_ISREG(stat.st_mode) ? NULL
                                     : error_new(ERR_INVALID_ARG,
                                                 "an object has the name of a folder: '%s'", path);
}

struct error *cache_file_link(const struct cache_file *f, const char *to) {
        const char *from = f->fd >= 0 ? f->part : f->path;

        if (link(from, to) == 0)
                return NULL;
        if (errno == EEXIST)
                return check_there(to);
        /* Another file system, one without hard links, or one with too many of them. */
        if (errno == EXDEV || errno == EPERM || errno == EOPNOTSUPP || errno == EMLINK)
                return copy_file(from, to);
        return error_errno(errno, "unable to link '%s' to '%s'", from, to);
}

/* ---- eviction -------------------------------------------------------------------------------- */

struct old_file {
        char    *path; /* owned */
        uint64_t bytes;
        int64_t  used_ns;
        bool     is_part;
};

struct old_files {
        struct old_file *items; /* owned */
        size_t           n;
        uint64_t         total_bytes; /* of these and of those in use */
};

static bool is_key(struct str name) {
        for (size_t i = 0; i < name.len; i++)
                if (strchr("0123456789abcdef", name.ptr[i]) == NULL)
                        return false;
        return name.len == CACHE_KEY_CHARS;
}

static void add_old(struct old_files *all, const char *directory, const char *name) {
        AUTO_CHARS  path = path_join(directory, name);
        struct str  key = str_of(name);
        bool        is_part = str_ends(key, STR_LIT(".part"));
        struct stat stat;

        if (is_part)
                key.len -= strlen(".part");
        if (!is_key(key) || lstat(path, &stat) != 0 || !S_ISREG(stat.st_mode))
                return;
        all->total_bytes += (uint64_t)stat.st_blocks * 512;
        if (stat.st_nlink > 1)
                return;
        all->items = mem_realloc(all->items, (all->n + 1) * sizeof(*all->items));
        all->items[all->n++] = (struct old_file){
                .path = STEAL(path),
                .bytes = (uint64_t)stat.st_blocks * 512,
                .used_ns = (int64_t)stat.st_mtim.tv_sec * 1000000000 + stat.st_mtim.tv_nsec,
                .is_part = is_part,
        };
}

static int by_use(const void *a, const void *b) {
        const struct old_file *x = a, *y = b;

        return (x->used_ns > y->used_ns) - (x->used_ns < y->used_ns);
}

/* A .part that another one fetches stays. */
static bool remove_part(const char *path) {
        AUTO_CHARS record = mem_printf("%.*s.pieces", (int)(strlen(path) - strlen(".part")), path);
        int        fd = -1;
        AUTO_ERROR err = file_open_locked(path, 0, &fd);

        if (err != NULL || fd < 0)
                return false;
        (void)unlink(record);
        (void)unlink(path);
        close(fd);
        return true;
}

static void remove_old(struct store_cache *c, struct old_files *all) {
        qsort(all->items, all->n, sizeof(*all->items), by_use);
        for (size_t i = 0; i < all->n; i++) {
                const struct old_file *f = &all->items[i];

                if (c->keeps_unused && all->total_bytes <= c->max_bytes)
                        return;
                if (f->is_part ? remove_part(f->path) : unlink(f->path) == 0)
                        all->total_bytes -= f->bytes;
        }
}

static void evict_locked(struct store_cache *c) {
        struct old_files all = { 0 };
        struct dir_list  list = { 0 };
        AUTO_ERROR       err = dir_list_read(c->directory, &list);

        for (size_t i = 0; err == NULL && i < list.n_names; i++)
                add_old(&all, c->directory, list.names[i]);
        dir_list_done(&list);
        if (all.n > 0)
                remove_old(c, &all);
        for (size_t i = 0; i < all.n; i++)
                free(all.items[i].path);
        free(all.items);
        if (err != NULL)
                log_warn("%s", err->message);
}

/* Only the process that has the lock evicts, so that two do not both remove what one of them must. A process that
 * does not get the lock evicts nothing, and does not wait, since the other process may be stopped. */
static void evict_once(struct store_cache *c) {
        AUTO_CHARS path = path_join(c->directory, "lock");
        int        fd = -1;
        AUTO_ERROR err = file_open_locked(path, O_CREAT, &fd);

        if (err != NULL)
                log_warn("%s", err->message);
        if (fd < 0)
                return;
        evict_locked(c);
        close(fd);
}

/* A thread that comes while another one evicts leaves the work to that one, which begins again. */
static void evict(struct store_cache *c) {
        unsigned n_wanted = atomic_fetch_add(&c->n_wanted, 1) + 1;

        if (n_wanted > 1)
                return;
        do {
                n_wanted = atomic_load(&c->n_wanted);
                evict_once(c);
        } while (!atomic_compare_exchange_strong(&c->n_wanted, &n_wanted, 0));
}

void store_cache_evict(struct store_cache *c) {
        if (c->keeps_unused && c->max_bytes > 0)
                evict(c);
}

void store_cache_drop_unused(struct store_cache *c) {
        if (!c->keeps_unused)
                evict(c);
}
