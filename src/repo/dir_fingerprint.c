/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/dir_fingerprint.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "config/version_policy.h"
#include "store/store_copy.h"
#include "store/store_list.h"

#include <string.h>

/* Symbolic links may lead to the same directory many times, or to the root of the machine. */
#define MAX_DEPTH 16
#define MAX_ENTRIES ((size_t)DIR_FINGERPRINT_MAX_ENTRIES)

/* FNV-1a, 64 bits: the offset basis and the prime. An attacker gains nothing by a collision. */
#define HASH_START DIR_FINGERPRINT_NO_CONFIG
#define HASH_PRIME UINT64_C(0x100000001b3)

static uint64_t mix(uint64_t hash, const void *bytes, size_t n) {
        const unsigned char *at = bytes;

        for (size_t i = 0; i < n; i++)
                hash = (hash ^ at[i]) * HASH_PRIME;
        return hash;
}

static bool is_leftover(const char *name) {
        struct str s = str_of(name);

        return name[0] == '.' || name[0] == '#' || str_ends(s, STR_LIT("~")) ||
               str_ends(s, STR_LIT(".swp")) || str_is(s, "4913") /* a probe file of vim */ ||
               str_is(s, "__pycache__");
}

/* A directory on the way from the model's directory. */
struct place {
        const struct place *above; /* NULL: the model's directory */
        uint64_t            device, inode;
        unsigned            depth;
};

static bool is_above(const struct place *place, const struct file_stat *stat) {
        for (; place != NULL; place = place->above)
                if (place->inode == stat->inode && place->device == stat->device)
                        return true;
        return false;
}

/* *n_left: the entries that may still be looked at. */
static uint64_t mix_tree(size_t *n_left, uint64_t hash, const char *path,
                         const struct place *place);

/* Mixes in one entry of a directory, with everything below it. */
static uint64_t mix_entry(size_t *n_left, uint64_t hash, const char *path, const char *name,
                          const struct place *above) {
        struct file_stat stat;
        AUTO_ERROR       err = file_stat(path, &stat);

        if (err != NULL)
                return hash;
        hash = mix(hash, name, strlen(name) + 1);
        hash = mix(hash, &stat.inode, sizeof(stat.inode));
        if (stat.is_directory && is_above(above, &stat))
                return hash;
        if (stat.is_directory)
                return mix_tree(n_left, hash, path,
                                &(struct place){ .above = above,
                                                 .device = stat.device,
                                                 .inode = stat.inode,
                                                 .depth = above != NULL ? above->depth + 1 : 0 });
        if (!stat.is_regular)
                return hash; /* every use of a pipe or socket changes its time */
        hash = mix(hash, &stat.size_bytes, sizeof(stat.size_bytes));
        return mix(hash, &stat.mtime_ns, sizeof(stat.mtime_ns));
}

static uint64_t mix_tree(size_t *n_left, uint64_t hash, const char *path,
                         const struct place *place) {
        struct dir_list list = { 0 };
        AUTO_ERROR      err = place->depth < MAX_DEPTH ? dir_list_read(path, &list) : NULL;

        for (size_t i = 0; err == NULL && i < list.n_names; i++) {
                AUTO_CHARS entry = path_join(path, list.names[i]);

                if (*n_left == 0)
                        break;
                (*n_left)--;
                if (!is_leftover(list.names[i]))
                        hash = mix_entry(n_left, hash, entry, list.names[i], place);
        }
        dir_list_done(&list);
        return hash;
}

static void add_version(struct dir_fingerprint *m, int64_t number, uint64_t files) {
        size_t at = m->n_versions;

        m->versions = mem_realloc(m->versions, (m->n_versions + 1) * sizeof(*m->versions));
        while (at > 0 && m->versions[at - 1].number > number)
                at--;
        memmove(&m->versions[at + 1], &m->versions[at],
                (m->n_versions - at) * sizeof(*m->versions));
        m->versions[at] = (struct version_fingerprint){ .number = number, .files = files };
        m->n_versions++;
}

/* The configuration is looked at whatever the files of the versions leave of the limit. */
static void add_entry(struct dir_fingerprint *m, size_t *n_left, const char *path,
                      const char *name) {
        size_t  of_config = MAX_ENTRIES;
        int64_t number;

        if (is_leftover(name))
                return;
        if (version_from_name(str_of(name), &number) && file_is_directory(path))
                add_version(m, number, mix_entry(n_left, HASH_START, path, name, NULL));
        else if (strcmp(name, "config.pbtxt") == 0 || strcmp(name, "configs") == 0)
                m->config = mix_entry(&of_config, m->config, path, name, NULL);
        else
                m->rest = mix_entry(n_left, m->rest, path, name, NULL);
}

struct error *dir_fingerprint_read(const char *directory, struct dir_fingerprint **ret) {
        size_t                  n_left = MAX_ENTRIES;
        struct dir_list         list;
        struct dir_fingerprint *m;

        TRY(dir_list_read(directory, &list));
        m = mem_zalloc(sizeof(*m));
        m->config = m->rest = HASH_START;
        for (size_t i = 0; i < list.n_names; i++) {
                AUTO_CHARS path = path_join(directory, list.names[i]);

                add_entry(m, &n_left, path, list.names[i]);
        }
        dir_list_done(&list);
        m->is_cut = n_left == 0;
        *ret = m;
        return NULL;
}

/* ---- remote directories ---------------------------------------------------------------------- */

static bool has_leftover(struct str name) {
        STR_FOR_EACH(name, '/', part) {
                AUTO_CHARS text = mem_strndup(part.ptr, part.len);

                if (is_leftover(text))
                        return true;
        }
        return false;
}

static uint64_t mix_listed(uint64_t hash, const struct store_entry *e, const char *name) {
        hash = mix(hash, name, strlen(name) + 1);
        hash = mix(hash, &e->size, sizeof(e->size));
        hash = mix(hash, e->etag != NULL ? e->etag : "", e->etag != NULL ? strlen(e->etag) : 0);
        if (e->has_md5)
                hash = mix(hash, e->md5, sizeof(e->md5));
        return e->has_sha256 ? mix(hash, e->sha256, sizeof(e->sha256)) : hash;
}

static uint64_t *find_files(struct dir_fingerprint *m, int64_t version) {
        for (size_t k = 0; k < 2; k++) {
                for (size_t i = 0; i < m->n_versions; i++)
                        if (m->versions[i].number == version)
                                return &m->versions[i].files;
                add_version(m, version, HASH_START);
        }
        return &m->rest; /* not reached: it was added */
}

/* `name` is that in the model's directory. */
static void add_listed(struct dir_fingerprint *m, const struct store_entry *e, const char *name) {
        struct str top, rest = str_split(str_of(name), '/', &top);
        uint64_t  *hash = &m->rest;
        int64_t    number;

        if (has_leftover(str_of(name)))
                return;
        if (version_from_name(top, &number) && (rest.ptr != NULL || e->is_directory))
                hash = find_files(m, number);
        else if (str_is(top, "config.pbtxt") || str_is(top, "configs"))
                hash = &m->config;
        *hash = mix_listed(*hash, e, name);
}

struct error *dir_fingerprint_of_copy(const struct store_copy *copy, struct dir_fingerprint **ret) {
        size_t                    n, n_skipped = strlen(copy->name) + 1;
        const struct store_entry *entries = store_copy_entries(copy, &n);
        struct dir_fingerprint   *m;

        if (n == 0)
                return error_new(ERR_NOT_FOUND, "%s: nothing is there", copy->address);
        m = mem_zalloc(sizeof(*m));
        m->config = m->rest = HASH_START;
        for (size_t i = 0; i < n; i++)
                add_listed(m, &entries[i], entries[i].name + n_skipped);
        *ret = m;
        return NULL;
}

void dir_fingerprint_replace(struct dir_fingerprint *m, struct dir_fingerprint *other) {
        struct dir_fingerprint old = *m;

        *m = *other;
        *other = old;
        dir_fingerprint_free(other);
}

/* ---- comparison ------------------------------------------------------------------------------ */

void dir_fingerprint_free(struct dir_fingerprint *m) {
        if (m == NULL)
                return;
        free(m->versions);
        free(m);
}

bool dir_fingerprint_equal(const struct dir_fingerprint *a, const struct dir_fingerprint *b) {
        if (a == NULL || b == NULL)
                return a == b;
        if (a->config != b->config || a->rest != b->rest || a->n_versions != b->n_versions)
                return false;
        for (size_t i = 0; i < a->n_versions; i++)
                if (a->versions[i].number != b->versions[i].number ||
                    a->versions[i].files != b->versions[i].files)
                        return false;
        return true;
}

uint64_t dir_fingerprint_digest(const struct dir_fingerprint *m) {
        uint64_t hash = HASH_START;

        if (m == NULL)
                return 0;
        hash = mix(hash, &m->config, sizeof(m->config));
        hash = mix(hash, &m->rest, sizeof(m->rest));
        for (size_t i = 0; i < m->n_versions; i++) {
                hash = mix(hash, &m->versions[i].number, sizeof(m->versions[i].number));
                hash = mix(hash, &m->versions[i].files, sizeof(m->versions[i].files));
        }
        return hash != 0 ? hash : 1;
}

static const struct version_fingerprint *find_version(const struct dir_fingerprint *m,
                                                      int64_t                       version) {
        for (size_t i = 0; m != NULL && i < m->n_versions; i++)
                if (m->versions[i].number == version)
                        return &m->versions[i];
        return NULL;
}

bool dir_fingerprint_version_equal(const struct dir_fingerprint *a, const struct dir_fingerprint *b,
                                   int64_t version) {
        const struct version_fingerprint *x = find_version(a, version),
                                         *y = find_version(b, version);

        return x != NULL && y != NULL && x->files == y->files;
}
