/* SPDX-License-Identifier: BSD-3-Clause */
/* Polls the repositories: finds changes of the files, and loads or unloads what has changed
 * (repo.h). */
#include "base/heap_end.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/work_pool.h"
#include "repo/dir_fingerprint.h"
#include "repo/model_files.h"
#include "repo/repo.h"
#include "repo/repo_change.h"
#include "repo/repo_remote.h"
#include "repo/repo_scan.h"
#include "store/store_copy.h"

/* One model to be loaded or unloaded. run_step() frees it. */
struct step {
        struct work             job;
        struct repo            *repo;
        struct model_key        key;         /* its texts are owned */
        char                   *repository;  /* owned; NULL: the model was removed */
        char                   *directory;   /* owned; NULL: the model was removed */
        struct store_copy      *copy;        /* ref; of a remote directory; or NULL */
        struct dir_fingerprint *fingerprint; /* owned, until the load takes it */
};

struct steps {
        struct step **items; /* owned; run_step() frees each */
        size_t        n_items;
        bool          has_forgotten; /* a model that did not load is gone */
};

static void run_step(struct work *job);

static struct step *add_step(struct steps *steps, struct repo *r, struct repo_entry *e) {
        struct step *s = mem_zalloc(sizeof(*s));

        s->job.run = run_step;
        s->repo = r;
        s->key = (struct model_key){ mem_strdup(e->namespace), mem_strdup(e->name) };
        e->is_planned = true;
        steps->items = mem_realloc(steps->items, (steps->n_items + 1) * sizeof(struct step *));
        steps->items[steps->n_items++] = s;
        return s;
}

static struct dir_fingerprint *read_fingerprint(const struct found_model *found) {
        struct dir_fingerprint *fingerprint = NULL;

        /* It fails when the directory was removed at this moment. */
        error_free(found_model_fingerprint(found, &fingerprint));
        return fingerprint;
}

/* The store may answer at the next poll. */
static bool is_passing(const struct error *err) {
        return error_is(err, ERROR_KIND_FETCH) && err->code == ERR_UNAVAILABLE;
}

/* Loads the model. After a failure, a later poll tries again when the fingerprint differs from the
 * one of this attempt, or when a model that this one needs has changed; the next one does when the
 * files could not be fetched. */
static struct error *load_and_note_failure(struct step *s, const struct model_source *source,
                                           struct repo_entry *e) {
        struct error *err;

        mutex_lock(&s->repo->table.lock);
        label_list_done(&e->awaited);
        e->is_due = false;
        mutex_unlock(&s->repo->table.lock);
        err = repo_change_load(s->repo, e, source, s->fingerprint);
        mutex_lock(&s->repo->table.lock);
        dir_fingerprint_free(e->tried);
        e->tried = NULL;
        if (err != NULL && !is_passing(err) && !e->is_due)
                e->tried = STEAL(s->fingerprint);
        if (err == NULL) {
                s->fingerprint = NULL; /* the entry has it */
                label_list_done(&e->awaited);
        }
        mutex_unlock(&s->repo->table.lock);
        return err;
}

/* True when the files are those that the poll saw. The step may have waited for its turn; the next
 * poll handles later changes. Those of a remote directory are compared when they are fetched. */
static bool is_unchanged(const struct step *s) {
        const struct found_model here = { .directory = s->directory, .copy = s->copy };
        struct dir_fingerprint  *now = read_fingerprint(&here);
        bool                     is_same = dir_fingerprint_equal(s->fingerprint, now);

        dir_fingerprint_free(now);
        return is_same;
}

static void load_step(struct step *s) {
        const struct model_source source = { .key = s->key,
                                             .repository = s->repository,
                                             .directory = s->directory,
                                             .copy = s->copy,
                                             .must_be_unchanged = true,
                                             .files = dir_fingerprint_digest(s->fingerprint) };
        AUTO_CHARS                label = model_key_label(&s->key);
        struct repo_entry        *e;
        AUTO_ERROR                err = repo_change_begin(s->repo, &source, &e);

        if (err != NULL)
                return; /* the server is stopping */
        if (is_unchanged(s))
                err = load_and_note_failure(s, &source, e);
        repo_change_end(s->repo, e);
        if (err != NULL)
                log_error(error_is(err, ERROR_KIND_FETCH) ? "failed to load '%s': %s"
                                                          : "failed to poll model '%s': %s",
                          label, err->message);
}

/* The next poll may plan a step for the model again. */
static void end_plan(struct step *s) {
        struct repo_entry *e;

        MUTEX_GUARD(&s->repo->table.lock);
        e = repo_table_find_locked(&s->repo->table, &s->key);
        if (e == NULL)
                return;
        e->is_planned = false;
        repo_forget_locked(s->repo, e);
}

static void step_free(struct step *s) {
        dir_fingerprint_free(s->fingerprint);
        free((char *)(uintptr_t)s->key.namespace);
        free((char *)(uintptr_t)s->key.name);
        free(s->repository);
        free(s->directory);
        store_copy_unref(s->copy);
        free(s);
}

static void run_step(struct work *job) {
        struct step *s = CONTAINER_OF(job, struct step, job);

        if (s->directory != NULL)
                load_step(s);
        else
                error_free(
                        repo_unload_one(s->repo, &s->key)); /* fails when the server is stopping */
        end_plan(s);
        step_free(s);
}

/* True when the model serves from a repository that cannot be read now. A model of the same name in
 * another repository does not replace it then. */
static bool serves_from_unreadable(const struct repo_entry *e, const struct repo_scan *scan) {
        return e->fingerprint != NULL && repo_scan_find_failure(scan, e->repository) != NULL;
}

/* True when what serves is not what a load of these files would bring: the files are others, or the models that it
 * needs are, and it does not fit them. */
static bool is_outdated(const struct repo_entry *e, const struct dir_fingerprint *fingerprint) {
        for (size_t i = 0; i < e->n_versions; i++)
                if (e->versions[i].is_fault)
                        return true;
        return !dir_fingerprint_equal(e->fingerprint, fingerprint);
}

/* A model is loaded when its files did not change between two polls, so that a copy in progress is
 * not loaded. */
static void check_found(struct repo *r, const struct repo_scan *scan,
                        const struct found_model *found, struct steps *steps) {
        struct dir_fingerprint *fingerprint = read_fingerprint(found);
        struct repo_entry      *e;
        bool                    is_unchanged, is_due;

        if (fingerprint == NULL)
                return;
        MUTEX_GUARD(&r->table.lock);
        e = repo_table_add_locked(&r->table, &found->key, found->directory, found->repository);
        repo_entry_note_duplicate_locked(e, scan, found);
        is_unchanged = dir_fingerprint_equal(e->seen, fingerprint);
        is_due = !e->is_busy && !e->is_planned && !e->is_duplicate &&
                 !serves_from_unreadable(e, scan) && is_outdated(e, fingerprint) &&
                 !dir_fingerprint_equal(e->tried, fingerprint);
        if (is_unchanged && !e->is_duplicate)
                repo_change_outdate_locked(e,
                                           &(struct change_goal){
                                                   .files = dir_fingerprint_digest(fingerprint) });
        if (is_unchanged && is_due) {
                struct step *s = add_step(steps, r, e);

                s->repository = mem_strdup(found->repository);
                s->directory = mem_strdup(found->directory);
                s->copy = store_copy_ref(found->copy);
                s->fingerprint = fingerprint;
        } else {
                dir_fingerprint_free(e->seen);
                e->seen = fingerprint;
        }
}

/* Forgets an entry that has no directory and does not serve. */
static void forget_locked(struct repo *r, struct repo_entry *e) {
        repo_entry_excuse_failures_locked(e);
        repo_entry_clear_locked(e);
        repo_forget_locked(r, e);
}

static void note_removed_locked(struct repo *r, struct repo_entry *e, struct steps *steps) {
        bool is_changing = e->is_busy || e->is_planned;

        if (e->fingerprint == NULL && !is_changing) {
                forget_locked(r, e);
                steps->has_forgotten = true;
                return;
        }
        if (e->seen == NULL && e->fingerprint != NULL && !is_changing)
                add_step(steps, r, e);
        if (e->seen == NULL)
                repo_change_outdate_locked(e, &(struct change_goal){ .is_unload = true });
        dir_fingerprint_free(e->seen);
        e->seen = NULL;
}

/* Plans the unload of entries whose directory is absent, in repositories that could be read. Both
 * lists are sorted. */
static void check_removed(struct repo *r, const struct repo_scan *scan, struct steps *steps) {
        struct repo_entry **sorted;
        size_t              n, at = 0;

        MUTEX_GUARD(&r->table.lock);
        sorted = repo_table_sorted_locked(&r->table, &n); /* a copy: entries may be removed */
        for (size_t i = 0; i < n; i++) {
                const struct model_key key = repo_entry_key(sorted[i]);
                int                    order = 1;

                while (at < scan->n_models &&
                       (order = model_key_compare(&scan->models[at].key, &key)) < 0)
                        at++;
                if (order != 0 && repo_scan_find_failure(scan, sorted[i]->repository) == NULL)
                        note_removed_locked(r, sorted[i], steps);
        }
        free(sorted);
}

/* Scans the repositories and returns the steps to take. The caller owns them. */
static struct steps plan_steps(struct repo *r) {
        struct steps     steps = { 0 };
        struct repo_scan scan;

        repo_scan_read(r, &scan);
        for (size_t i = 0; i < scan.n_models; i++)
                check_found(r, &scan, &scan.models[i], &steps);
        check_removed(r, &scan, &steps);
        repo_scan_done(&scan);
        if (steps.has_forgotten)
                repo_publish_change(r);
        return steps;
}

void repo_poll(struct repo *r) {
        struct steps  steps = plan_steps(r);
        struct work **jobs = mem_zalloc((steps.n_items + 1) * sizeof(struct work *));

        for (size_t i = 0; i < steps.n_items; i++)
                jobs[i] = &steps.items[i]->job;
        if (steps.n_items > 0)
                work_run_all("neso-loader", jobs, steps.n_items, r->n_load_threads);
        free(jobs);
        free(steps.items);
        heap_end_trim();
}

void repo_start_poll(struct repo *r) {
        struct steps steps = plan_steps(r);

        for (size_t i = 0; i < steps.n_items; i++)
                work_pool_push(steps.items[i]->directory != NULL ? r->loads : r->unloads,
                               &steps.items[i]->job);
        free(steps.items);
        heap_end_trim(); /* of the thread that polls; what it read of all models is free */
}
