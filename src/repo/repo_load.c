/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/repo.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "infer/model.h"
#include "repo/loader_pool.h"
#include "repo/model_files.h"
#include "repo/model_load.h"
#include "repo/model_mark.h"
#include "repo/override.h"
#include "repo/repo_change.h"
#include "repo/repo_scan.h"

#include <string.h>

/* ---- one model by request -------------------------------------------------------------------- */

/* The caller learns that it failed, the log why: as the reference server does. */
static struct error *not_polled(const char *name) {
        return error_new(ERR_INTERNAL, "failed to load '%s', failed to poll from model repository",
                         name);
}

static struct error *log_not_polled(const char *name, struct error *why) {
        log_error("failed to poll model '%s': %s", name, why->message);
        error_free(why);
        return not_polled(name);
}

static struct error *not_unique(void) {
        return error_new_text(ERR_INVALID_ARG, "not unique across all model repositories");
}

/* *ret is the model's directory, owned by the caller. */
static struct error *find_directory(struct repo *r, const char *name, char **ret) {
        struct repo_scan          scan;
        const struct found_model *found;
        struct error             *err = NULL;

        TRY(repo_scan_read_one(r, name, &scan));
        found = repo_scan_find(&scan, name);
        if (found == NULL)
                err = error_new_text(ERR_NOT_FOUND, "no repository has a directory of that name");
        else if (found->is_duplicate)
                err = not_unique();
        else
                *ret = mem_strdup(found->directory);
        repo_scan_done(&scan);
        return err;
}

/* Versions that failed have an error of their own form; anything else is a failure to poll. */
static struct error *tell(const char *name, struct error *err) {
        if (err == NULL || str_starts(str_of(err->message), STR_LIT("load failed for model ")))
                return err;
        log_error("Poll failed for model directory '%s': %s", name, err->message);
        error_free(err);
        return not_polled(name);
}

/* Takes *mark on success. */
static struct error *load_marked(struct repo *r, struct repo_entry *e,
                                 const struct model_source *source, struct model_mark **mark) {
        TRY(repo_change_load(r, e, source, *mark));
        *mark = NULL;
        return NULL;
}

static struct error *load_from_files(struct repo *r, const char *name, const char *directory) {
        struct model_source source = { .name = name, .directory = directory };
        struct model_mark  *mark = NULL;
        struct repo_entry  *e;
        struct error       *err;

        TRY(repo_change_begin(r, name, directory, &e));
        err = model_mark_read(directory, &mark);
        if (err == NULL && !repo_entry_is_current(r, e, mark))
                err = load_marked(r, e, &source, &mark);
        model_mark_free(mark);
        repo_change_end(r, e);
        return tell(name, err);
}

static struct error *load_source(struct repo *r, const struct model_source *source) {
        struct model_mark *mark = NULL;
        struct repo_entry *e;
        struct error      *err = NULL;

        TRY(repo_change_begin(r, source->name, source->directory, &e));
        if (source->override == NULL)
                err = model_mark_read(source->directory, &mark);
        if (err == NULL)
                err = load_marked(r, e, source, &mark);
        model_mark_free(mark);
        repo_change_end(r, e);
        return tell(source->name, err);
}

static struct error *load_sent_files(struct repo *r, const char *name,
                                     const struct repo_override *o) {
        struct override_files *files;
        struct error          *err;

        if (o->config_json == NULL)
                return log_not_polled(name,
                                      error_new_text(ERR_INVALID_ARG,
                                                     "Load parameter 'config' must be specified "
                                                     "for model file override"));
        TRY(override_files_write(r->overrides, o->files, o->n_files, &files));
        err = load_source(r, &(struct model_source){ .name = name,
                                                     .directory = override_files_directory(files),
                                                     .config_json = o->config_json,
                                                     .override = files });
        override_files_unref(files);
        return err;
}

struct error *repo_load(struct repo *r, const char *name, const struct repo_override *o) {
        AUTO_CHARS    directory = NULL;
        struct error *err;

        if (o != NULL && o->n_files > 0)
                return load_sent_files(r, name, o);
        err = find_directory(r, name, &directory);
        if (err != NULL)
                return log_not_polled(name, err);
        if (o != NULL && o->config_json != NULL)
                return load_source(r, &(struct model_source){ .name = name,
                                                              .directory = directory,
                                                              .config_json = o->config_json });
        return load_from_files(r, name, directory);
}

struct error *repo_unload(struct repo *r, const char *name) {
        struct repo_entry *e;

        mutex_lock(&r->table.lock);
        e = repo_table_find_locked(&r->table, name);
        mutex_unlock(&r->table.lock);
        if (e == NULL)
                return NULL;
        TRY(repo_change_begin(r, name, "", &e));
        repo_change_unload(r, e);
        repo_change_end(r, e);
        return NULL;
}

/* ---- many at the start ----------------------------------------------------------------------- */

struct first_load {
        struct loader_job         job;
        struct repo              *repo;
        const struct found_model *found; /* borrowed: the scan */
        bool                      has_failed;
};

static void run_first(struct loader_job *job) {
        struct first_load *l = CONTAINER_OF(job, struct first_load, job);
        AUTO_ERROR         err = NULL;

        if (l->found->is_duplicate)
                err = log_not_polled(l->found->name, not_unique());
        else
                err = load_from_files(l->repo, l->found->name, l->found->directory);
        l->has_failed = err != NULL;
}

/* They are known from now on, whether they can be loaded or not. */
static void add_entries(struct repo *r, const struct found_model *const *found, size_t n) {
        MUTEX_GUARD(&r->table.lock);
        for (size_t i = 0; i < n; i++) {
                struct repo_entry *e =
                        repo_table_add_locked(&r->table, found[i]->name, found[i]->directory);

                e->is_duplicate = found[i]->is_duplicate;
                e->is_wanted = true;
        }
}

static bool load_found(struct repo *r, const struct found_model *const *found, size_t n) {
        struct first_load  *loads = mem_zalloc((n + 1) * sizeof(*loads));
        struct loader_job **jobs = mem_zalloc((n + 1) * sizeof(struct loader_job *));
        bool                all = true;

        for (size_t i = 0; i < n; i++) {
                loads[i] = (struct first_load){ .job.run = run_first, .repo = r,
                                                .found = found[i] };
                jobs[i] = &loads[i].job;
        }
        add_entries(r, found, n);
        loader_pool_run_all(jobs, n, r->n_load_threads);
        for (size_t i = 0; i < n; i++)
                all = all && !loads[i].has_failed;
        free(jobs);
        free(loads);
        return all;
}

static struct error *all_or_error(bool all) {
        return all ? NULL : error_new_text(ERR_INTERNAL, "failed to load all models");
}

/* *ret has the models of the scan that are to be loaded; owned by the caller. False when one of
 * the names is unknown. */
static bool choose(const struct repo_scan *scan, char *const *names, size_t n_names,
                   const struct found_model ***ret, size_t *ret_n) {
        bool   all = true;
        size_t n = 0;

        *ret = mem_zalloc((n_names + 1) * sizeof(const struct found_model *));
        for (size_t i = 0; i < n_names; i++) {
                const struct found_model *found = repo_scan_find(scan, names[i]);

                if (found != NULL) {
                        (*ret)[n++] = found;
                        continue;
                }
                log_error("failed to poll model '%s': no repository has a directory of that name",
                          names[i]);
                all = false;
        }
        *ret_n = n;
        return all;
}

struct error *repo_load_all(struct repo *r) {
        struct repo_scan           scan;
        const struct found_model **found;
        bool                       all;

        TRY(repo_scan_read(r, &scan));
        found = mem_zalloc((scan.n_models + 1) * sizeof(const struct found_model *));
        for (size_t i = 0; i < scan.n_models; i++)
                found[i] = &scan.models[i];
        all = load_found(r, found, scan.n_models);
        free(found);
        repo_scan_done(&scan);
        return all_or_error(all);
}

struct error *repo_load_named(struct repo *r, char *const *names, size_t n_names) {
        struct repo_scan           scan;
        const struct found_model **found;
        size_t                     n;
        bool                       all;

        for (size_t i = 0; i < n_names; i++)
                if (strcmp(names[i], "*") == 0)
                        return n_names == 1
                                       ? repo_load_all(r)
                                       : error_new_text(ERR_INVALID_ARG,
                                                        "Wildcard model name '*' must be the ONLY "
                                                        "startup model if specified at all.");
        TRY(repo_scan_read(r, &scan));
        all = choose(&scan, names, n_names, &found, &n);
        if (!load_found(r, found, n))
                all = false;
        free(found);
        repo_scan_done(&scan);
        return all_or_error(all);
}

/* ---- the end --------------------------------------------------------------------------------- */

size_t repo_stop_changes(struct repo *r, uint64_t until_ns) {
        MUTEX_GUARD(&r->table.lock);
        r->is_stopping = true;
        cond_broadcast(&r->table.changed);
        while (r->n_changing > 0 && cond_wait_until(&r->table.changed, &r->table.lock, until_ns))
                ;
        return r->n_changing;
}

void repo_stop_all(struct repo *r) {
        struct model **models;
        size_t         n = repo_ready_models(r, &models);

        for (size_t i = 0; i < n; i++) {
                models[i]->scheduler->ops->stop(models[i]->scheduler);
                model_unref(models[i]);
        }
        free(models);
}

void repo_unload_all(struct repo *r) {
        struct repo_entry **entries;
        size_t              n;

        mutex_lock(&r->table.lock);
        entries = repo_table_sorted_locked(&r->table, &n);
        mutex_unlock(&r->table.lock);
        /* No change is at work any more, and entries are never removed. */
        for (size_t i = 0; i < n; i++)
                repo_change_unload(r, entries[i]);
        free(entries);
}
