/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/repo.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "infer/model.h"
#include "repo/loader_pool.h"
#include "repo/model_files.h"
#include "repo/model_load.h"
#include "repo/repo_inside.h"

#include <string.h>

/* One version of one model to be loaded. */
struct load_job {
        struct loader_job   job;
        struct repo        *repo;
        struct model_files *files; /* borrowed: the plan */
        int64_t             version;
        struct model       *model; /* ref; NULL when it failed */
        struct error       *error; /* owned */
};

/* Everything that is loaded in one go. */
struct load_plan {
        struct model_files **files; /* owned, and each */
        size_t               n_files;
        struct load_job    **jobs; /* owned, and each */
        size_t               n_jobs;
        bool                 has_failed;
};

static void run_job(struct loader_job *base) {
        struct load_job *job = CONTAINER_OF(base, struct load_job, job);

        log_info("loading: %s:%lld", job->files->name, (long long)job->version);
        job->error = model_load(&job->repo->parts, job->files, job->version, &job->model);
        if (job->error != NULL)
                log_error("failed to load '%s' version %lld: %s: %s", job->files->name,
                          (long long)job->version, error_code_string(job->error->code),
                          job->error->message);
}

static void *append(void *array, size_t n, void *element) {
        void **grown = mem_realloc(array, (n + 1) * sizeof(void *));

        grown[n] = element;
        return grown;
}

static void plan_model(struct repo *r, struct load_plan *plan, struct repo_entry *e) {
        struct model_files *files = mem_zalloc(sizeof(*files));
        AUTO_ERROR          err = model_files_read(&r->parts, e->directory, e->name, files);

        if (err != NULL) {
                log_error("Poll failed for model directory '%s': %s", e->name, err->message);
                mutex_lock(&r->table.lock);
                e->problem = mem_strdup(err->message);
                mutex_unlock(&r->table.lock);
                plan->has_failed = true;
                free(files);
                return;
        }
        plan->files = append(plan->files, plan->n_files++, files);
        for (size_t i = 0; i < files->versions.n_versions; i++) {
                struct load_job *job = mem_zalloc(sizeof(*job));

                *job = (struct load_job){ .job.run = run_job,
                                          .repo = r,
                                          .files = files,
                                          .version = files->versions.versions[i] };
                plan->jobs = append(plan->jobs, plan->n_jobs++, job);
                mutex_lock(&r->table.lock);
                repo_version_set_locked(repo_entry_add_version_locked(e, job->version),
                                        VERSION_LOADING, NULL, NULL);
                mutex_unlock(&r->table.lock);
        }
        repo_tell_changed(r);
}

/* All versions of a model succeed or none is served. */
static bool model_has_failed(const struct load_plan *plan, const struct model_files *files) {
        for (size_t i = 0; i < plan->n_jobs; i++)
                if (plan->jobs[i]->files == files && plan->jobs[i]->error != NULL)
                        return true;
        return false;
}

static void settle(struct repo *r, struct load_plan *plan, struct load_job *job) {
        bool          is_ready = !model_has_failed(plan, job->files);
        AUTO_CHARS    reason = NULL;
        struct model *released = NULL;

        if (job->error != NULL)
                reason = mem_printf("%s: %s", error_code_string(job->error->code),
                                    job->error->message);
        else if (!is_ready)
                reason = mem_strdup("unloaded");
        mutex_lock(&r->table.lock);
        struct repo_entry *e = repo_table_find_locked(&r->table, job->files->name);

        repo_version_set_locked(repo_entry_find_version_locked(e, job->version),
                                is_ready ? VERSION_READY : VERSION_UNAVAILABLE, reason,
                                is_ready ? job->model : NULL);
        if (!is_ready)
                released = job->model;
        mutex_unlock(&r->table.lock);
        repo_tell_changed(r);
        if (!is_ready)
                plan->has_failed = true;
        if (released != NULL)
                model_stats_hide(released->stats);
        model_unref(released);
}

static void load_plan_done(struct load_plan *plan) {
        for (size_t i = 0; i < plan->n_jobs; i++) {
                error_free(plan->jobs[i]->error);
                free(plan->jobs[i]);
        }
        for (size_t i = 0; i < plan->n_files; i++) {
                model_files_done(plan->files[i]);
                free(plan->files[i]);
        }
        free(plan->jobs);
        free(plan->files);
}

static bool is_model_directory(const char *path, const char *name) {
        struct file_stat stat;
        AUTO_ERROR       err = file_stat(path, &stat);

        return name[0] != '.' && err == NULL && stat.is_directory;
}

static void add_entry(struct repo *r, const char *name, const char *directory) {
        struct repo_entry *e;

        MUTEX_GUARD(&r->table.lock);
        e = repo_table_find_locked(&r->table, name);
        if (e != NULL)
                e->is_duplicate = true;
        else
                repo_table_add_locked(&r->table, name, directory);
}

/* Adds an entry for each model directory of one path. */
static struct error *scan_path(struct repo *r, const char *path) {
        struct dir_list list;

        TRY(error_wrap(dir_list_read(path, &list), "failed to read model repository '%s'", path));
        for (size_t i = 0; i < list.n_names; i++) {
                AUTO_CHARS directory = path_join(path, list.names[i]);

                if (is_model_directory(directory, list.names[i]))
                        add_entry(r, list.names[i], directory);
        }
        dir_list_done(&list);
        return NULL;
}

static void plan_all(struct repo *r, struct load_plan *plan) {
        struct repo_entry **entries;
        size_t              n;

        mutex_lock(&r->table.lock);
        entries = repo_table_sorted_locked(&r->table, &n);
        mutex_unlock(&r->table.lock);
        /* Entries are only ever added or removed by the caller's thread. */
        for (size_t i = 0; i < n; i++) {
                if (entries[i]->is_duplicate) {
                        log_error("failed to poll model '%s': not unique across all model "
                                  "repositories",
                                  entries[i]->name);
                        plan->has_failed = true;
                        continue;
                }
                plan_model(r, plan, entries[i]);
        }
        free(entries);
}

static void run_jobs(struct repo *r, struct load_plan *plan) {
        struct loader_job **jobs = mem_zalloc((plan->n_jobs + 1) * sizeof(*jobs));

        for (size_t i = 0; i < plan->n_jobs; i++)
                jobs[i] = &plan->jobs[i]->job;
        loader_pool_run_all(jobs, plan->n_jobs, r->n_load_threads);
        free(jobs);
}

struct error *repo_load_all(struct repo *r) {
        struct load_plan plan = { 0 };
        bool             has_failed;

        for (size_t i = 0; i < r->n_paths; i++)
                TRY(scan_path(r, r->paths[i]));
        plan_all(r, &plan);
        run_jobs(r, &plan);
        for (size_t i = 0; i < plan.n_jobs; i++)
                settle(r, &plan, plan.jobs[i]);
        for (size_t i = 0; i < plan.n_files; i++)
                if (!model_has_failed(&plan, plan.files[i]))
                        log_info("successfully loaded '%s'", plan.files[i]->name);
        has_failed = plan.has_failed;
        load_plan_done(&plan);
        return has_failed ? error_new(ERR_INTERNAL, "failed to load all models") : NULL;
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
        struct model **models;
        size_t         n = repo_ready_models(r, &models);

        for (size_t i = 0; i < n; i++) {
                struct model *held;

                mutex_lock(&r->table.lock);
                struct repo_entry *e = repo_table_find_locked(&r->table, models[i]->name);

                held = repo_version_set_locked(
                        repo_entry_find_version_locked(e, models[i]->version), VERSION_UNAVAILABLE,
                        "unloaded", NULL);
                mutex_unlock(&r->table.lock);
                repo_tell_changed(r);
                model_stats_hide(models[i]->stats);
                model_unref(held);
                model_unref(models[i]);
        }
        free(models);
}
