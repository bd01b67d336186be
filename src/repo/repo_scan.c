/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/repo_scan.h"

#include "base/file.h"
#include "base/mem.h"
#include "repo/repo_inside.h"

#include <string.h>

/* Hidden directories are nobody's models. */
static bool is_model_directory(const char *path, const char *name) {
        struct file_stat stat;
        AUTO_ERROR       err = file_stat(path, &stat);

        return name[0] != '.' && err == NULL && stat.is_directory;
}

static const char *model_name(const struct repo_path *p, const char *directory) {
        for (size_t i = 0; i < p->n_names; i++)
                if (strcmp(p->names[i].directory, directory) == 0)
                        return p->names[i].model;
        return directory;
}

static void add(struct repo_scan *s, const char *name, char *directory) {
        if (s->n_models == s->cap_models) {
                s->cap_models = s->cap_models > 0 ? s->cap_models * 2 : 64;
                s->models = mem_realloc(s->models, s->cap_models * sizeof(*s->models));
        }
        s->models[s->n_models++] = (struct found_model){ .name = mem_strdup(name),
                                                         .directory = directory };
}

/* `only` NULL: all. */
static struct error *scan_path(const struct repo_path *p, const char *only, struct repo_scan *s) {
        struct dir_list list;

        TRY(error_wrap(dir_list_read(p->path, &list), "failed to read model repository '%s'",
                       p->path));
        for (size_t i = 0; i < list.n_names; i++) {
                AUTO_CHARS directory = NULL;

                if (only != NULL && strcmp(model_name(p, list.names[i]), only) != 0)
                        continue;
                directory = path_join(p->path, list.names[i]);
                if (is_model_directory(directory, list.names[i]))
                        add(s, model_name(p, list.names[i]), STEAL(directory));
        }
        dir_list_done(&list);
        return NULL;
}

static int by_name(const void *a, const void *b) {
        return strcmp(((const struct found_model *)a)->name, ((const struct found_model *)b)->name);
}

/* Sorted by name; of those with the same name the first stays. */
static void merge(struct repo_scan *s) {
        size_t n = 0;

        if (s->n_models > 0)
                qsort(s->models, s->n_models, sizeof(*s->models), by_name);
        for (size_t i = 0; i < s->n_models; i++) {
                struct found_model *m = &s->models[i];

                if (n > 0 && strcmp(s->models[n - 1].name, m->name) == 0) {
                        s->models[n - 1].is_duplicate = true;
                        free(m->name);
                        free(m->directory);
                        continue;
                }
                s->models[n++] = *m;
        }
        s->n_models = n;
}

static void copy_path(struct repo_path *to, const struct repo_path *from) {
        *to = (struct repo_path){ .path = mem_strdup(from->path), .n_names = from->n_names };
        to->names = mem_zalloc((from->n_names + 1) * sizeof(*to->names));
        for (size_t i = 0; i < from->n_names; i++)
                to->names[i] = (struct repo_name){ mem_strdup(from->names[i].directory),
                                                   mem_strdup(from->names[i].model) };
}

static struct repo_path *copy_paths(struct repo *r, size_t *ret_n) {
        struct repo_path *paths;

        MUTEX_GUARD(&r->table.lock);
        paths = mem_zalloc((r->n_paths + 1) * sizeof(*paths));
        for (size_t i = 0; i < r->n_paths; i++)
                copy_path(&paths[i], &r->paths[i]);
        *ret_n = r->n_paths;
        return paths;
}

struct error *repo_scan_read(struct repo *r, struct repo_scan *ret) {
        return repo_scan_read_one(r, NULL, ret);
}

struct error *repo_scan_read_one(struct repo *r, const char *only, struct repo_scan *ret) {
        size_t            n;
        struct repo_path *paths = copy_paths(r, &n);
        struct error     *err = NULL;

        *ret = (struct repo_scan){ 0 };
        for (size_t i = 0; i < n; i++) {
                if (err == NULL)
                        err = scan_path(&paths[i], only, ret);
                repo_path_done(&paths[i]);
        }
        free(paths);
        if (err != NULL)
                repo_scan_done(ret);
        else
                merge(ret);
        return err;
}

void repo_scan_done(struct repo_scan *s) {
        for (size_t i = 0; i < s->n_models; i++) {
                free(s->models[i].name);
                free(s->models[i].directory);
        }
        free(s->models);
        *s = (struct repo_scan){ 0 };
}

const struct found_model *repo_scan_find(const struct repo_scan *s, const char *name) {
        const struct found_model wanted = { .name = (char *)(uintptr_t)name };

        if (s->n_models == 0)
                return NULL;
        return bsearch(&wanted, s->models, s->n_models, sizeof(wanted), by_name);
}
