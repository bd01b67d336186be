/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/repo.h"

#include "base/log.h"
#include "base/mem.h"
#include "repo/loader_pool.h"
#include "repo/model_files.h"
#include "repo/model_mark.h"
#include "repo/repo_change.h"
#include "repo/repo_scan.h"

/* One model that is to be loaded again, or unloaded. */
struct step {
        struct loader_job  job;
        struct repo       *repo;
        char              *name;      /* owned */
        char              *directory; /* owned; NULL: it is gone */
        struct model_mark *mark;      /* owned until it is loaded */
};

struct steps {
        struct step **items; /* owned, and each */
        size_t        n_items;
};

static void add_step(struct steps *steps, const struct step *step) {
        struct step *copy = mem_alloc(sizeof(*copy));

        *copy = *step;
        steps->items = mem_realloc(steps->items, (steps->n_items + 1) * sizeof(struct step *));
        steps->items[steps->n_items++] = copy;
}

static struct model_mark *mark_of(const char *directory) {
        struct model_mark *mark = NULL;

        error_free(model_mark_read(directory, &mark)); /* it goes away at this moment */
        return mark;
}

/* What failed is tried again when it looks different than it did when the attempt began. */
static struct error *load_marked(struct step *s, struct repo_entry *e) {
        struct model_source source = { .name = s->name,
                                       .directory = s->directory,
                                       .must_be_still = true };
        struct error       *err = repo_change_load(s->repo, e, &source, s->mark);

        mutex_lock(&s->repo->table.lock);
        model_mark_free(e->tried);
        e->tried = err != NULL ? s->mark : NULL;
        mutex_unlock(&s->repo->table.lock);
        s->mark = NULL; /* one of the two has it */
        return err;
}

static void load(struct step *s) {
        struct repo_entry *e;
        AUTO_ERROR         err = repo_change_begin(s->repo, s->name, s->directory, &e);

        if (err != NULL)
                return; /* stopping */
        if (!repo_entry_is_current(s->repo, e, s->mark)) /* by a poll at the same time */
                err = load_marked(s, e);
        repo_change_end(s->repo, e);
        if (err != NULL)
                log_error("failed to poll model '%s': %s", s->name, err->message);
}

static void run_step(struct loader_job *job) {
        struct step *s = CONTAINER_OF(job, struct step, job);

        if (s->directory != NULL)
                load(s);
        else
                error_free(repo_unload(s->repo, s->name)); /* stopping */
}

/* Whatever stands in the way of a load has to be still for one poll: a copy in progress is not
 * taken for the model. */
static void look_at(struct repo *r, const struct found_model *found, struct steps *steps) {
        struct model_mark *mark = mark_of(found->directory);
        struct repo_entry *e;
        bool               is_still, is_due;

        if (mark == NULL)
                return;
        mutex_lock(&r->table.lock);
        e = repo_table_add_locked(&r->table, found->name, found->directory);
        e->is_duplicate = found->is_duplicate;
        is_still = model_mark_equal(e->seen, mark);
        is_due = !e->is_busy && !e->is_duplicate && !model_mark_equal(e->mark, mark) &&
                 !model_mark_equal(e->tried, mark);
        if (is_still && is_due) {
                add_step(steps, &(struct step){ .job.run = run_step,
                                                .repo = r,
                                                .name = mem_strdup(found->name),
                                                .directory = mem_strdup(found->directory),
                                                .mark = mark });
        } else {
                model_mark_free(e->seen);
                e->seen = mark;
        }
        mutex_unlock(&r->table.lock);
}

/* One without a directory that does not serve. */
static void forget_locked(struct repo *r, struct repo_entry *e) {
        model_mark_free(e->seen);
        model_mark_free(e->tried);
        e->seen = e->tried = NULL;
        e->is_wanted = e->is_duplicate = false;
        repo_table_forget_locked(&r->table, e);
}

/* Models that serve and whose directory was missing twice. */
static void look_for_gone(struct repo *r, const struct repo_scan *scan, struct steps *steps) {
        struct repo_entry **entries;
        size_t              n;

        MUTEX_GUARD(&r->table.lock);
        entries = repo_table_sorted_locked(&r->table, &n);
        for (size_t i = 0; i < n; i++) {
                struct repo_entry *e = entries[i];

                if (repo_scan_find(scan, e->name) != NULL)
                        continue;
                if (e->mark == NULL && !e->is_busy) {
                        forget_locked(r, e);
                        continue;
                }
                if (e->seen == NULL && e->mark != NULL && !e->is_busy)
                        add_step(steps, &(struct step){ .job.run = run_step,
                                                        .repo = r,
                                                        .name = mem_strdup(e->name) });
                model_mark_free(e->seen);
                e->seen = NULL;
        }
        free(entries);
}

static void run_steps(struct repo *r, struct steps *steps) {
        struct loader_job **jobs = mem_zalloc((steps->n_items + 1) * sizeof(struct loader_job *));

        for (size_t i = 0; i < steps->n_items; i++)
                jobs[i] = &steps->items[i]->job;
        if (steps->n_items > 0)
                loader_pool_run_all(jobs, steps->n_items, r->n_load_threads);
        free(jobs);
        for (size_t i = 0; i < steps->n_items; i++) {
                struct step *s = steps->items[i];

                model_mark_free(s->mark);
                free(s->directory);
                free(s->name);
                free(s);
        }
        free(steps->items);
}

void repo_poll(struct repo *r) {
        struct steps     steps = { 0 };
        struct repo_scan scan;
        AUTO_ERROR       err = repo_scan_read(r, &scan);

        if (err != NULL) {
                /* A repository that cannot be read now is no reason to unload its models. */
                log_error("%s", err->message);
                return;
        }
        for (size_t i = 0; i < scan.n_models; i++)
                look_at(r, &scan.models[i], &steps);
        look_for_gone(r, &scan, &steps);
        repo_scan_done(&scan);
        run_steps(r, &steps);
}
