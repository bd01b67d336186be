/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/repo_scan.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "repo/override.h"
#include "repo/repo_private.h"
#include "store/store.h"
#include "store/store_copy.h"
#include "store/store_listing.h"

#include <string.h>

/* How old the answer of a remote repository may be. */
enum scan_age {
        SCAN_NEW,    /* it is asked now */
        SCAN_RECENT, /* REPO_SCAN_RECENT_NS */
        SCAN_QUICK,  /* the same, and when it is asked, then once */
};

/* ---- paths of repositories ------------------------------------------------------------------- */

void repo_path_done(struct repo_path *p) {
        for (size_t i = 0; i < p->n_names; i++) {
                free((char *)(uintptr_t)p->names[i].directory);
                free((char *)(uintptr_t)p->names[i].model);
        }
        free(p->names);
        override_files_unref(p->view);
        store_unref(p->store);
        free(p->namespace);
        free(p->path);
}

struct repo_path *repo_find_path_locked(struct repo *r, const char *path) {
        for (size_t i = 0; i < r->n_paths; i++)
                if (strcmp(r->paths[i].path, path) == 0)
                        return &r->paths[i];
        return NULL;
}

/* Hidden directories are not models, and a name must not leave the repository. */
static bool may_be_model(const char *directory) {
        return directory[0] != '\0' && directory[0] != '.' && strchr(directory, '/') == NULL;
}

/* Returns the name of a repository that is one model; NULL for others. */
static const char *name_of_itself(const struct repo_path *p) {
        for (size_t i = 0; i < p->n_names; i++)
                if (strcmp(p->names[i].directory, REPO_ITSELF) == 0)
                        return p->names[i].model;
        return NULL;
}

static bool is_mapped_directory(const struct repo_path *p, const char *directory) {
        for (size_t i = 0; i < p->n_names; i++)
                if (strcmp(p->names[i].directory, directory) == 0)
                        return true;
        return false;
}

/* True when some repository gives this name to one of its directories. */
static bool is_mapped_name(const struct repo_scan *s, const char *name) {
        for (size_t i = 0; i < s->n_paths; i++)
                for (size_t k = 0; k < s->paths[i].n_names; k++)
                        if (strcmp(s->paths[i].names[k].model, name) == 0)
                                return true;
        return false;
}

static void found_done(struct found_model *m) {
        free((char *)(uintptr_t)m->key.name);
        store_copy_unref(m->copy);
        free(m->directory);
}

/* ---- one repository -------------------------------------------------------------------------- */

/* Where the scan of one repository puts its models. */
struct scan_target {
        struct repo_scan       *scan;
        const struct repo_path *path;
        struct store_listing   *listing; /* borrowed; NULL: a local repository */
};

static char *join_directory(const struct repo_path *p, const char *directory) {
        if (strcmp(directory, REPO_ITSELF) != 0)
                return path_join(p->path, directory);
        return mem_strdup(p->view != NULL ? override_files_directory(p->view) : p->path);
}

static void add_found(const struct scan_target *t, const char *name, bool is_mapped,
                      const char *directory) {
        struct repo_scan       *s = t->scan;
        const struct repo_path *p = t->path;

        s->models = mem_grow(s->models, s->n_models, sizeof(*s->models));
        s->models[s->n_models++] = (struct found_model){
                .key = { .namespace = p->namespace, .name = mem_strdup(name) },
                .repository = p->path,
                .directory = join_directory(p, directory),
                .copy = p->store != NULL ? store_copy_new(p->store, t->listing, directory) : NULL,
                .is_mapped = is_mapped,
        };
}

/* Checks that entries of the directory can be accessed. A directory may allow to list names but not
 * to access them; all models would then look as if they were removed. */
static struct error *check_search(const struct repo_path *p) {
        AUTO_CHARS       inside = path_join(p->path, ".");
        struct file_stat stat;

        return file_stat(inside, &stat);
}

static void add_names_of(const struct scan_target *t, const char *directory) {
        const struct repo_path *p = t->path;

        if (!is_mapped_directory(p, directory)) {
                if (!is_mapped_name(t->scan, directory))
                        add_found(t, directory, false, directory);
                return;
        }
        for (size_t i = 0; i < p->n_names; i++)
                if (strcmp(p->names[i].directory, directory) == 0)
                        add_found(t, p->names[i].model, true, directory);
}

static struct error *scan_all(const struct scan_target *t) {
        const struct repo_path *p = t->path;
        struct dir_list         list;

        TRY(dir_check(p->path));
        TRY(check_search(p));
        TRY(dir_list_read_directories(p->path, &list));
        for (size_t i = 0; i < list.n_names; i++)
                if (may_be_model(list.names[i]))
                        add_names_of(t, list.names[i]);
        dir_list_done(&list);
        return NULL;
}

static struct error *add_if_present(const struct scan_target *t, const char *name, bool is_mapped,
                                    const char *directory) {
        AUTO_CHARS       path = path_join(t->path->path, directory);
        struct file_stat stat;
        AUTO_ERROR       err = NULL;

        if (!may_be_model(directory))
                return NULL;
        err = file_stat(path, &stat);
        if (err == NULL && stat.is_directory)
                add_found(t, name, is_mapped, directory);
        return NULL;
}

/* Calls `look` for the directories in which a model of this name can be: the one to which a registration
 * gave the name, else the one of that name. */
static struct error *look_for(const struct scan_target *t, const char *name,
                              struct error *(*look)(const struct scan_target *t, const char *name,
                                                    bool is_mapped, const char *directory)) {
        const struct repo_path *p = t->path;

        if (!is_mapped_directory(p, name) && !is_mapped_name(t->scan, name))
                TRY(look(t, name, false, name));
        for (size_t i = 0; i < p->n_names; i++)
                if (strcmp(p->names[i].model, name) == 0)
                        TRY(look(t, name, true, p->names[i].directory));
        return NULL;
}

/* The repository is one model. */
static struct error *scan_itself(const struct scan_target *t, const char *name, const char *only) {
        TRY(dir_check(t->path->path));
        TRY(check_search(t->path));
        if (only == NULL || strcmp(only, name) == 0)
                add_found(t, name, true, REPO_ITSELF);
        return NULL;
}

static struct error *scan_directory(const struct scan_target *t, const char *only) {
        const char *itself = name_of_itself(t->path);

        if (itself != NULL)
                return scan_itself(t, itself, only);
        if (only == NULL)
                return scan_all(t);
        TRY(dir_check(t->path->path));
        TRY(check_search(t->path));
        return look_for(t, only, add_if_present);
}

/* ---- one remote repository ------------------------------------------------------------------- */

static void add_listed(const struct scan_target *t) {
        const struct store_list *list = &t->listing->list;
        struct str               last = { 0 };

        for (size_t i = 0; i < list->n_entries; i++) {
                struct str top = store_entry_top(&list->entries[i]);
                AUTO_CHARS directory = NULL;

                if (top.len == 0 || str_equal(top, last))
                        continue;
                last = top;
                directory = mem_strndup(top.ptr, top.len);
                if (may_be_model(directory))
                        add_names_of(t, directory);
        }
}

static struct error *add_if_listed(const struct scan_target *t, const char *name, bool is_mapped,
                                   const char *directory) {
        struct scan_target here = *t;
        size_t             n;

        if (!may_be_model(directory) || strcmp(directory, "..") == 0)
                return NULL;
        TRY(store_list_directory(t->path->store, directory, &here.listing));
        (void)store_listing_find(here.listing, directory, &n);
        if (n > 0)
                add_found(&here, name, is_mapped, directory);
        store_listing_unref(here.listing);
        return NULL;
}

static struct error *list_all(struct store *s, enum scan_age age, struct store_listing **ret) {
        return age == SCAN_NEW ? store_list_directory(s, "", ret)
                               : store_list_recent(s, REPO_SCAN_RECENT_NS, age == SCAN_RECENT, ret);
}

static struct error *scan_store(const struct scan_target *t, const char *only, enum scan_age age) {
        struct scan_target all = *t;

        if (only != NULL)
                return look_for(t, only, add_if_listed);
        TRY(list_all(t->path->store, age, &all.listing));
        add_listed(&all);
        store_listing_unref(all.listing);
        return NULL;
}

/* `only` NULL: scans for all names. */
static struct error *scan_path(const struct repo_path *p, const char *only, enum scan_age age,
                               struct repo_scan *s) {
        const struct scan_target target = { .scan = s, .path = p };

        return error_wrap(p->store != NULL ? scan_store(&target, only, age)
                                           : scan_directory(&target, only),
                          "failed to read model repository '%s'", p->path);
}

/* Takes `error`. */
static void add_failure(struct repo_scan *s, const char *repository, struct error *error) {
        s->failures = mem_realloc(s->failures, (s->n_failures + 1) * sizeof(*s->failures));
        s->failures[s->n_failures++] =
                (struct scan_failure){ .repository = mem_strdup(repository), .error = error };
}

/* ---- all repositories ------------------------------------------------------------------------ */

static int by_name(const void *a, const void *b) {
        return strcmp(((const struct found_model *)a)->key.name,
                      ((const struct found_model *)b)->key.name);
}

static int by_key(const void *a, const void *b) {
        return model_key_compare(&((const struct found_model *)a)->key,
                                 &((const struct found_model *)b)->key);
}

/* The list of a single repository is nearly always sorted. */
static bool is_sorted(const struct repo_scan *s) {
        for (size_t i = 1; i < s->n_models; i++)
                if (by_key(&s->models[i - 1], &s->models[i]) > 0)
                        return false;
        return true;
}

/* Sorts the models, and keeps the first of several with the same key. */
static void merge(struct repo_scan *s) {
        size_t n = 0;

        if (!is_sorted(s))
                qsort(s->models, s->n_models, sizeof(*s->models), by_key);
        for (size_t i = 0; i < s->n_models; i++) {
                if (n > 0 && by_key(&s->models[n - 1], &s->models[i]) == 0) {
                        s->models[n - 1].is_duplicate = true;
                        found_done(&s->models[i]);
                        continue;
                }
                s->models[n++] = s->models[i];
        }
        s->n_models = n;
}

static void copy_path(struct repo_path *to, const struct repo_path *from) {
        *to = (struct repo_path){ .path = mem_strdup(from->path),
                                  .store = store_ref(from->store),
                                  .namespace = mem_strdup(from->namespace),
                                  .n_names = from->n_names,
                                  .view = override_files_ref(from->view) };
        to->names = mem_zalloc((from->n_names + 1) * sizeof(*to->names));
        for (size_t i = 0; i < from->n_names; i++)
                to->names[i] = (struct repo_name){ mem_strdup(from->names[i].directory),
                                                   mem_strdup(from->names[i].model) };
}

static void copy_paths(struct repo *r, struct repo_scan *s) {
        MUTEX_GUARD(&r->table.lock);
        s->paths = mem_zalloc((r->n_paths + 1) * sizeof(s->paths[0]));
        for (size_t i = 0; i < r->n_paths; i++)
                copy_path(&s->paths[i], &r->paths[i]);
        s->n_paths = r->n_paths;
}

/* Records whether the path can be read; returns true when that has changed. */
static bool note_readability(struct repo *r, const char *path, bool is_unreadable) {
        struct repo_path *p;
        bool              has_changed;

        MUTEX_GUARD(&r->table.lock);
        p = repo_find_path_locked(r, path);
        has_changed = p != NULL && p->is_unreadable != is_unreadable;
        if (p != NULL)
                p->is_unreadable = is_unreadable;
        return has_changed;
}

/* Logs each change once, whatever function scans. */
static void read_path(struct repo *r, const struct repo_path *p, const char *only,
                      enum scan_age age, struct repo_scan *s) {
        struct error *err = scan_path(p, only, age, s);
        bool          has_changed = note_readability(r, p->path, err != NULL);

        if (has_changed && err != NULL)
                log_error("%s", err->message);
        else if (has_changed)
                log_info("model repository '%s' can be read again", p->path);
        if (err != NULL)
                add_failure(s, p->path, err);
}

static void read_paths(struct repo *r, const char *only, enum scan_age age, struct repo_scan *ret) {
        *ret = (struct repo_scan){ 0 };
        copy_paths(r, ret);
        for (size_t i = 0; i < ret->n_paths; i++)
                read_path(r, &ret->paths[i], only, age, ret);
        merge(ret);
}

void repo_scan_read(struct repo *r, struct repo_scan *ret) {
        read_paths(r, NULL, SCAN_NEW, ret);
}

void repo_scan_read_recent(struct repo *r, bool is_quick, struct repo_scan *ret) {
        read_paths(r, NULL, is_quick ? SCAN_QUICK : SCAN_RECENT, ret);
}

void repo_scan_read_one(struct repo *r, const char *only, struct repo_scan *ret) {
        read_paths(r, only, SCAN_NEW, ret);
}

struct error *repo_check_paths(struct repo *r) {
        struct repo_scan scan = { 0 };
        struct error    *err = NULL;

        copy_paths(r, &scan);
        for (size_t i = 0; i < scan.n_paths && err == NULL; i++)
                err = scan_path(&scan.paths[i], NULL, SCAN_NEW, &scan);
        repo_scan_done(&scan);
        return err;
}

void repo_scan_done(struct repo_scan *s) {
        for (size_t i = 0; i < s->n_models; i++)
                found_done(&s->models[i]);
        for (size_t i = 0; i < s->n_failures; i++) {
                free(s->failures[i].repository);
                error_free(s->failures[i].error);
        }
        for (size_t i = 0; i < s->n_paths; i++)
                repo_path_done(&s->paths[i]);
        free(s->paths);
        free(s->models);
        free(s->failures);
        *s = (struct repo_scan){ 0 };
}

/* ---- look-ups -------------------------------------------------------------------------------- */

const struct found_model *repo_scan_find(const struct repo_scan *s, const struct model_key *key) {
        const struct found_model wanted = { .key = *key };

        if (s->n_models == 0)
                return NULL;
        return bsearch(&wanted, s->models, s->n_models, sizeof(wanted), by_key);
}

const struct found_model *repo_scan_find_name(const struct repo_scan *s, const char *name,
                                              size_t *ret_n) {
        const struct found_model  wanted = { .key = { .name = name } };
        const struct found_model *first, *end, *last;

        *ret_n = 0;
        if (s->n_models == 0)
                return NULL;
        last = s->models + s->n_models;
        first = bsearch(&wanted, s->models, s->n_models, sizeof(wanted), by_name);
        if (first == NULL)
                return NULL;
        while (first > s->models && by_name(first - 1, &wanted) == 0)
                first--;
        for (end = first; end < last && by_name(end, &wanted) == 0; end++)
                ;
        *ret_n = (size_t)(end - first);
        return first;
}

const struct error *repo_scan_find_failure(const struct repo_scan *s, const char *repository) {
        for (size_t i = 0; i < s->n_failures; i++)
                if (strcmp(s->failures[i].repository, repository) == 0)
                        return s->failures[i].error;
        return NULL;
}

void repo_entry_note_duplicate_locked(struct repo_entry *e, const struct repo_scan *s,
                                      const struct found_model *found) {
        if (s->n_failures == 0 || !e->is_duplicate)
                repo_entry_set_duplicate_locked(e, found != NULL && found->is_duplicate);
}
