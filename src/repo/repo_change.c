/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/repo_change.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/work_pool.h"
#include "infer/model.h"
#include "infer/model_generations.h"
#include "repo/agent_list.h"
#include "repo/dir_fingerprint.h"
#include "repo/load_failure.h"
#include "repo/load_hold.h"
#include "repo/load_slots.h"
#include "repo/loaded_model.h"
#include "repo/model_files.h"
#include "repo/model_instances.h"
#include "repo/model_kind.h"
#include "repo/model_load.h"
#include "repo/model_needs.h"
#include "repo/repo_compose.h"
#include "repo/repo_forget.h"
#include "store/store_copy.h"

#include <string.h>

/* The load of one version. */
struct version_load {
        struct work               job;
        struct repo              *repo;
        const char               *name;  /* borrowed: the entry */
        const char               *label; /* borrowed: the entry */
        const struct model_files *files; /* borrowed: the change */
        int64_t                   version;
        struct model             *model; /* NULL after a failure */
        struct error             *error; /* owned */
};

/* A change of one model. */
struct change {
        struct repo          *repo;
        struct repo_entry    *entry;
        const char           *place; /* where the files belong: the directory, or its address */
        struct model_files    files;
        struct version_load  *loads; /* owned */
        size_t                n_loads;
        struct model_update **updates; /* owned; of versions that stay */
        size_t                n_updates;
        struct model        **kept; /* refs; models of the versions that stay */
        size_t                n_kept;
};

/* ---- one change at a time
 * --------------------------------------------------------------------- */

/* True while the change of the entry may not begin. */
static bool must_wait_locked(const struct repo *r, const struct repo_entry *e, uint64_t last_hold) {
        return (e->is_busy || load_hold_covers_locked(r, e->label, last_hold)) && !r->is_stopping;
}

/* Ends the transfer of files that are not wanted any more. */
static void end_fetch_locked(struct repo_entry *e) {
        if (e->fetching != NULL)
                store_copy_cancel(e->fetching);
}

/* Waits for the end of the running change, which ends early while this one makes it needless; an unload
 * also waits for the loads that need the model. */
static void await_turn_locked(struct repo *r, struct repo_entry *e, uint64_t last_hold,
                              const struct change_goal *goal) {
        bool supersedes = false;

        e->n_waiting++;
        if (load_hold_covers_locked(r, e->label, last_hold)) {
                mutex_unlock(&r->table.lock); /* the log may wait for its reader */
                log_verbose(1, "unload of '%s' waits for the end of a load that needs it",
                            e->label);
                mutex_lock(&r->table.lock);
        }
        while (must_wait_locked(r, e, last_hold)) {
                if ((e->is_busy && change_goal_supersedes(goal, &e->running)) != supersedes) {
                        supersedes = !supersedes;
                        atomic_fetch_add(&e->n_superseding, supersedes ? 1 : -1);
                        if (supersedes)
                                end_fetch_locked(e);
                }
                cond_wait(&r->table.changed, &r->table.lock);
        }
        if (supersedes)
                atomic_fetch_sub(&e->n_superseding, 1);
        e->n_waiting--;
}

static void set_running_locked(struct repo_entry *e, const struct change_goal *goal) {
        free(e->running_config);
        e->running_config = mem_strdup(goal->config_json);
        e->running = *goal;
        e->running.config_json = e->running_config;
}

void repo_change_outdate_locked(struct repo_entry *e, const struct change_goal *goal) {
        if (!e->is_busy || e->is_outdated || !change_goal_supersedes(goal, &e->running))
                return;
        e->is_outdated = true;
        atomic_fetch_add(&e->n_superseding, 1);
        end_fetch_locked(e);
}

static struct error *begin_locked(struct repo *r, struct repo_entry *e, uint64_t last_hold,
                                  const struct change_goal *goal) {
        struct error *err = load_wait_begin_locked(r, e, last_hold);

        if (err == NULL)
                await_turn_locked(r, e, last_hold, goal);
        if (err == NULL && r->is_stopping) {
                load_wait_end_locked(r, e);
                err = error_new_text(ERR_UNAVAILABLE, "Server exiting");
        }
        if (err != NULL)
                return err;
        e->is_busy = true;
        set_running_locked(e, goal);
        r->n_changing++;
        return NULL;
}

struct error *repo_change_begin(struct repo *r, const struct model_source *source,
                                struct repo_entry **ret) {
        const struct change_goal goal = { .files = source->files,
                                          .config_json = source->config_json };
        struct repo_entry       *e;

        MUTEX_GUARD(&r->table.lock);
        e = repo_table_add_locked(&r->table, &source->key, source->directory, source->repository);
        TRY(begin_locked(r, e, 0, &goal));
        *ret = e;
        return NULL;
}

static void end_unload_locked(struct repo *r, struct repo_entry *e) {
        e->n_unloads--;
        r->n_unloads_pending--;
}

struct error *repo_change_begin_unload(struct repo *r, const struct model_key *key,
                                       struct repo_entry **ret) {
        const struct change_goal goal = { .is_unload = true };
        struct repo_entry       *e;
        struct error            *err;

        MUTEX_GUARD(&r->table.lock);
        e = repo_table_add_locked(&r->table, key, "", "");
        e->n_unloads++;
        r->n_unloads_pending++;
        err = begin_locked(r, e, r->last_hold, &goal);
        if (err != NULL) {
                end_unload_locked(r, e);
                repo_forget_locked(r, e);
                cond_broadcast(&r->table.changed);
                return err;
        }
        e->is_unloading = true;
        *ret = e;
        return NULL;
}

void repo_change_end(struct repo *r, struct repo_entry *e) {
        struct model *retired;

        mutex_lock(&r->table.lock);
        if (e->is_unloading) {
                e->is_unloading = false;
                end_unload_locked(r, e);
                r->n_unloads++;
        }
        e->is_busy = false;
        free(STEAL(e->running_config)); /* a client has sent it, and the entry may stay */
        e->running.config_json = NULL;
        if (e->is_outdated)
                atomic_fetch_sub(&e->n_superseding, 1);
        e->is_outdated = false;
        r->n_changing--;
        load_wait_end_locked(r, e);
        retired = repo_note_gone_locked(r, e);
        repo_forget_locked(r, e);
        cond_broadcast(&r->table.changed);
        mutex_unlock(&r->table.lock);
        model_unref(retired);
}

/* ---- loading versions ---------------------------------------------------------------------- */

static void run_load(struct work *job) {
        struct version_load *v = CONTAINER_OF(job, struct version_load, job);
        struct load_slot     slot = { .name = v->name, .version = v->version };
        unsigned             n_left = v->repo->n_load_retries;

        v->error = load_slot_acquire(v->repo, &slot);
        if (v->error != NULL)
                return;
        log_info("loading: %s:%lld", v->label, (long long)v->version);
        do {
                error_free(v->error);
                v->error = model_load(&v->repo->env, v->files, v->version, &v->model);
                if (v->error != NULL)
                        log_error("failed to load '%s' version %lld: %s: %s", v->label,
                                  (long long)v->version, error_code_string(v->error->code),
                                  v->error->message);
        } while (v->error != NULL && n_left-- > 0 && atomic_load(v->files->n_superseding) == 0);
        load_slot_release(v->repo, &slot);
}

static void run_loads(struct change *c) {
        struct work **jobs = mem_zalloc((c->n_loads + 1) * sizeof(struct work *));

        for (size_t i = 0; i < c->n_loads; i++)
                jobs[i] = &c->loads[i].job;
        if (c->n_loads == 1)
                run_load(jobs[0]);
        else
                work_run_all("neso-loader", jobs, c->n_loads, c->repo->n_load_threads);
        free(jobs);
}

static void add_load(struct change *c, int64_t version) {
        c->loads[c->n_loads++] = (struct version_load){ .job.run = run_load,
                                                        .repo = c->repo,
                                                        .name = c->entry->name,
                                                        .label = c->entry->label,
                                                        .files = &c->files,
                                                        .version = version };
}

/* ---- planning a change
 * ------------------------------------------------------------------------ */

/* True when the version can stay as it is: its files are the same, and so is its configuration
 * except for instance groups. The configuration is compared with the given one, and with the one
 * that the backend completed, because clients read that one, change the groups and send it back. A
 * model with agents never stays: what agents prepare or check is for one load. Neither does one that
 * does not fit the models that it needs any more. */
static bool may_stay_locked(const struct change *c, const struct repo_version *v,
                            const struct dir_fingerprint *fingerprint) {
        const struct repo_entry *e = c->entry;

        if (e->agents != NULL || c->files.agents != NULL || v->is_fault)
                return false;
        return v->state == VERSION_READY && fingerprint != NULL && e->fingerprint != NULL &&
               strcmp(e->directory, c->place) == 0 && e->fingerprint->rest == fingerprint->rest &&
               dir_fingerprint_version_equal(e->fingerprint, fingerprint, v->number) &&
               (strcmp(e->given_config, c->files.given_config) == 0 ||
                strcmp(loaded_model_of(v->model)->effective_config, c->files.effective_config) ==
                        0);
}

/* Sorts the picked versions into those that stay and those to be loaded. New ones become
 * LOADING. */
static void plan_loads(struct change *c, const struct dir_fingerprint *fingerprint) {
        const struct version_pick *pick = &c->files.versions;
        struct repo_entry         *e = c->entry;

        c->loads = mem_zalloc((pick->n_versions + 1) * sizeof(*c->loads));
        c->kept = mem_zalloc((pick->n_versions + 1) * sizeof(struct model *));
        MUTEX_GUARD(&c->repo->table.lock);
        for (size_t i = 0; i < pick->n_versions; i++) {
                int64_t              number = pick->versions[i];
                struct repo_version *v = repo_entry_add_version_locked(e, number);

                if (may_stay_locked(c, v, fingerprint)) {
                        model_ref(v->model);
                        c->kept[c->n_kept++] = v->model;
                        continue;
                }
                if (v->state != VERSION_READY)
                        repo_version_set_locked(v, VERSION_LOADING, NULL, NULL);
                add_load(c, number);
        }
}

/* Loads those versions anew that would move to other devices. */
static void load_moved(struct change *c) {
        size_t n_kept = 0;

        for (size_t i = 0; i < c->n_kept; i++) {
                struct model *model = c->kept[i];

                if (model_update_is_possible(loaded_model_of(model), c->files.config)) {
                        c->kept[n_kept++] = model;
                } else {
                        add_load(c, model->version);
                        model_unref(model);
                }
        }
        c->n_kept = n_kept;
}

/* Takes `why`. The text is the same as that of a version that failed to load. */
static struct error *not_updated(const struct change *c, const struct model *model,
                                 struct error *why) {
        struct error *err = load_failure(
                c->entry->label,
                error_new(ERR_INVALID_ARG, "version %lld is at UNAVAILABLE state: %s: %s;\n",
                          (long long)model->version, error_code_string(why->code), why->message));

        log_error("failed to update '%s' version %lld: %s: %s", c->entry->label,
                  (long long)model->version, error_code_string(why->code), why->message);
        error_free(why);
        return err;
}

static struct error *prepare_updates(struct change *c) {
        c->updates = mem_zalloc((c->n_kept + 1) * sizeof(struct model_update *));
        for (size_t i = 0; i < c->n_kept; i++) {
                struct model_update *u;
                struct error        *err = model_update(c->kept[i], &c->files, &u);

                if (err != NULL)
                        return not_updated(c, c->kept[i], err);
                if (u != NULL)
                        c->updates[c->n_updates++] = u;
        }
        return NULL;
}

/* ---- commit and roll-back
 * --------------------------------------------------------------------- */

/* Returns the reasons, one line each; NULL when every version was loaded. What the versions have
 * decides, not the reasons: when memory is short, their text may be cut or missing. */
static struct error *failure(const struct change *c) {
        AUTO_STRBUF reasons = { 0 };
        size_t      n_failed = 0;

        for (size_t i = 0; i < c->n_loads; i++) {
                if (c->loads[i].model != NULL)
                        continue;
                n_failed++;
                if (c->loads[i].error != NULL)
                        strbuf_printf(&reasons, "version %lld is at UNAVAILABLE state: %s: %s;\n",
                                      (long long)c->loads[i].version,
                                      error_code_string(c->loads[i].error->code),
                                      c->loads[i].error->message);
        }
        if (n_failed == 0)
                return NULL;
        if (reasons.overflowed)
                return load_failure(c->entry->label,
                                    error_new(ERR_UNAVAILABLE,
                                              "%zu versions are at UNAVAILABLE state: no memory "
                                              "for their reasons",
                                              n_failed));
        return load_failure(c->entry->label,
                            error_new_text(ERR_INVALID_ARG, strbuf_cstr(&reasons)));
}

/* Rolls the change back: what served goes on serving. Versions that did not serve become
 * UNAVAILABLE. */
static void roll_back_change(struct change *c) {
        agent_list_fail(c->files.agents);
        repo_compose_restore(c->repo, c->entry);
        for (size_t i = 0; i < c->n_updates; i++)
                model_update_cancel(c->updates[i]);
        for (size_t i = 0; i < c->n_loads; i++) {
                struct version_load *load = &c->loads[i];
                AUTO_CHARS           reason = NULL;

                if (load->error != NULL)
                        reason = mem_printf("%s: %s", error_code_string(load->error->code),
                                            load->error->message);
                mutex_lock(&c->repo->table.lock);
                struct repo_version *v = repo_entry_find_version_locked(c->entry, load->version);

                if (v->state == VERSION_LOADING && reason != NULL)
                        repo_version_set_locked(v, VERSION_UNAVAILABLE, reason, NULL);
                else if (v->state == VERSION_LOADING)
                        repo_version_set_unloaded_locked(v);
                mutex_unlock(&c->repo->table.lock);
                model_unref(load->model);
        }
        mutex_lock(&c->repo->table.lock);
        repo_forget_versions_locked(c->entry, &c->files.versions);
        mutex_unlock(&c->repo->table.lock);
}

/* Removes versions that failed in an earlier attempt and are not picked any more. */
static void forget_failed_locked(struct change *c) {
        struct repo_entry *e = c->entry;

        for (size_t i = e->n_versions; i > 0; i--) {
                const struct repo_version *v = &e->versions[i - 1];

                if (v->state == VERSION_UNAVAILABLE && !v->was_unloaded &&
                    !version_pick_has(&c->files.versions, v->number))
                        repo_entry_remove_version_locked(e, v->number);
        }
}

/* Puts the new models into the table and returns those that served before; the caller owns them. */
static struct model **swap_locked(struct change *c, size_t *ret_n) {
        struct repo_entry *e = c->entry;
        struct model     **old = mem_zalloc((e->n_versions + 1) * sizeof(struct model *));
        size_t             n = 0;

        for (size_t i = 0; i < c->n_loads; i++) {
                struct repo_version *v = repo_entry_find_version_locked(e, c->loads[i].version);
                struct model        *replaced =
                        repo_version_set_locked(v, VERSION_READY, NULL, c->loads[i].model);

                if (replaced != NULL)
                        old[n++] = replaced;
        }
        for (size_t i = 0; i < e->n_versions; i++) {
                struct repo_version *v = &e->versions[i];

                if (v->state == VERSION_READY && !version_pick_has(&c->files.versions, v->number))
                        old[n++] = repo_version_set_locked(v, VERSION_UNLOADING, NULL, NULL);
        }
        forget_failed_locked(c);
        repo_forget_versions_locked(e, &c->files.versions);
        repo_entry_set_versionless_locked(e, false);
        *ret_n = n;
        return old;
}

/* Commits the change: requests get the new models from now on. Takes the fingerprint. */
static void commit_change(struct change *c, const struct model_source *source,
                          struct dir_fingerprint *fingerprint) {
        struct repo_entry *e = c->entry;
        struct agent_list *old_agents;
        struct model     **old;
        size_t             n_old;

        for (size_t i = 0; i < c->n_loads; i++)
                model_generations_join(e->generations, c->loads[i].model);
        mutex_lock(&c->repo->table.lock);
        old = swap_locked(c, &n_old);
        old_agents = e->agents;
        e->agents = agent_list_ref(c->files.agents);
        free(e->given_config);
        e->given_config = STEAL(c->files.given_config);
        free(e->directory);
        e->directory = mem_strdup(c->place);
        free(e->repository);
        e->repository = mem_strdup(source->repository);
        dir_fingerprint_free(e->fingerprint);
        e->fingerprint = fingerprint;
        free(e->sent_config);
        e->sent_config = mem_strdup(source->config_json);
        e->replaced_config_fingerprint = source->config_fingerprint;
        mutex_unlock(&c->repo->table.lock);
        repo_compose_rebind(c->repo, e);
        for (size_t i = 0; i < n_old; i++) {
                model_generations_retire(old[i]);
                model_hide(old[i]);
        }
        for (size_t i = 0; i < c->n_loads; i++)
                model_publish(c->loads[i].model);
        agent_list_complete(c->files.agents);
        agent_list_unload(old_agents);
        for (size_t i = 0; i < n_old; i++)
                model_unref(old[i]);
        free(old);
        agent_list_unref(old_agents);
        for (size_t i = 0; i < c->n_updates; i++)
                model_update_commit(c->updates[i]);
        log_info("successfully loaded '%s'", e->label);
}

static void change_done(struct change *c) {
        for (size_t i = 0; i < c->n_loads; i++)
                error_free(c->loads[i].error);
        for (size_t i = 0; i < c->n_kept; i++)
                model_unref(c->kept[i]);
        free(c->loads);
        free(c->updates);
        free(c->kept);
        model_files_done(&c->files);
}

static bool is_serving(struct change *c) {
        MUTEX_GUARD(&c->repo->table.lock);
        return repo_entry_latest_locked(c->entry) != NULL;
}

static struct error *check_unchanged(const struct model_source    *source,
                                     const struct dir_fingerprint *fingerprint) {
        struct dir_fingerprint *now = NULL;
        AUTO_ERROR              err = dir_fingerprint_read(source->directory, &now);
        bool is_unchanged = err == NULL && dir_fingerprint_equal(fingerprint, now);

        dir_fingerprint_free(now);
        return is_unchanged ? NULL
                            : error_new_text(ERR_UNAVAILABLE,
                                             "the files changed while they were being loaded");
}

static struct error *check_needs(struct change *c, const struct model_source *source) {
        struct model_needs needs;
        struct error      *err = model_needs_read(c->files.config, &needs);

        if (err != NULL)
                return load_failure_logged(c->entry->label, err->code, err);
        if (source->must_be_unchanged) /* a poll's */
                repo_compose_await(c->repo, c->entry, &needs);
        err = repo_compose_register(c->repo, c->entry, &needs);
        model_needs_done(&needs);
        return err;
}

static struct error *run_change(struct change *c, const struct model_source *source,
                                const struct dir_fingerprint *fingerprint) {
        TRY(check_needs(c, source));
        plan_loads(c, fingerprint);
        load_moved(c);
        repo_publish_change(c->repo);
        run_loads(c);
        TRY(failure(c));
        /* What was fetched is what the listing has. */
        if (source->must_be_unchanged && source->copy == NULL && is_serving(c))
                TRY(check_unchanged(source, fingerprint));
        return prepare_updates(c);
}

/* The model is known from now on, but has nothing to serve. What served goes on serving. */
static struct error *refuse_without_version(struct change *c) {
        log_error("failed to load '%s': %s", c->entry->label, c->files.no_version->message);
        mutex_lock(&c->repo->table.lock);
        repo_entry_set_versionless_locked(c->entry, true);
        mutex_unlock(&c->repo->table.lock);
        return load_failure(c->entry->label,
                            error_new(ERR_INVALID_ARG, "%s\n", c->files.no_version->message));
}

/* ---- remote files ------------------------------------------------------------------------------ */

static void set_fetching(struct repo *r, struct repo_entry *e, struct store_copy *copy) {
        MUTEX_GUARD(&r->table.lock);
        e->fetching = copy;
        if (copy != NULL && atomic_load(&e->n_superseding) > 0)
                end_fetch_locked(e);
}

/* Takes `err`. A load that the server or another change ended has the same error as a warm-up. */
static struct error *fetch_error(struct repo *r, struct error *err) {
        bool is_stopping;

        if (err == NULL || err->code != ERR_CANCELLED)
                return error_mark(err, ERROR_KIND_FETCH);
        mutex_lock(&r->table.lock);
        is_stopping = r->is_stopping;
        mutex_unlock(&r->table.lock);
        error_free(err);
        return error_new_text(ERR_UNAVAILABLE, is_stopping ? "Server exiting"
                                                           : "another change of the model was "
                                                             "requested");
}

/* Files that changed since they were listed are fetched anew, except when the change must be that of the
 * fingerprint: the next poll finds the others. */
static struct error *fetch_files(struct repo *r, struct repo_entry *e,
                                 const struct model_source *source,
                                 struct dir_fingerprint    *fingerprint) {
        struct dir_fingerprint *other;
        struct error           *err;
        bool                    is_changed = false;

        set_fetching(r, e, source->copy);
        err = store_copy_fetch_all(source->copy, !source->must_be_unchanged, &is_changed);
        set_fetching(r, e, NULL);
        if (err == NULL && is_changed && fingerprint != NULL) {
                TRY(dir_fingerprint_of_copy(source->copy, &other));
                dir_fingerprint_replace(fingerprint, other);
        }
        if (err == NULL)
                store_copy_drop_listing(source->copy);
        return fetch_error(r, err);
}

/* ---- the whole --------------------------------------------------------------------------------- */

struct error *repo_change_load(struct repo *r, struct repo_entry *e,
                               const struct model_source *source,
                               struct dir_fingerprint    *fingerprint) {
        struct change c = { .repo = r, .entry = e };
        struct error *err = NULL;

        if (source->copy != NULL)
                TRY(fetch_files(r, e, source, fingerprint));
        err = model_files_read(&r->env, source, &c.files);
        if (err != NULL)
                return err;
        c.place = source->copy != NULL && c.files.agents == NULL ? source->directory
                                                                 : c.files.directory;
        if (fingerprint != NULL && fingerprint->is_cut)
                log_warn("model '%s': its directory has %d files and folders or more; changes of "
                         "those beyond the first %d are not noticed",
                         e->label, DIR_FINGERPRINT_MAX_ENTRIES, DIR_FINGERPRINT_MAX_ENTRIES);
        c.files.n_superseding = &e->n_superseding;
        err = c.files.no_version != NULL ? refuse_without_version(&c)
                                         : run_change(&c, source, fingerprint);
        if (err != NULL)
                roll_back_change(&c);
        else
                commit_change(&c, source, fingerprint);
        repo_publish_change(r);
        change_done(&c);
        return err;
}

void repo_change_unload(struct repo *r, struct repo_entry *e) {
        struct agent_list *agents;
        struct model     **old;
        size_t             n = 0;

        mutex_lock(&r->table.lock);
        agents = STEAL(e->agents);
        old = mem_zalloc((e->n_versions + 1) * sizeof(struct model *));
        for (size_t i = 0; i < e->n_versions; i++)
                if (e->versions[i].state == VERSION_READY)
                        old[n++] = repo_version_set_locked(&e->versions[i], VERSION_UNLOADING, NULL,
                                                           NULL);
        free(e->given_config);
        e->given_config = NULL;
        dir_fingerprint_free(e->fingerprint);
        e->fingerprint = NULL;
        free(e->sent_config);
        e->sent_config = NULL;
        e->is_requested = false;
        repo_entry_excuse_failures_locked(e);
        repo_entry_set_wanted_locked(e, false);
        repo_entry_set_versionless_locked(e, false);
        repo_compose_forget_locked(r, e);
        mutex_unlock(&r->table.lock);
        repo_compose_rebind(r, e);
        repo_publish_change(r);
        agent_list_unload(agents);
        for (size_t i = 0; i < n; i++) {
                log_info("unloading: %s:%lld", e->label, (long long)old[i]->version);
                model_generations_retire(old[i]);
                model_hide(old[i]);
                model_unref(old[i]);
        }
        free(old);
        agent_list_unref(agents);
}

static bool all_ready_locked(const struct repo_entry *e) {
        for (size_t i = 0; i < e->n_versions; i++)
                if (e->versions[i].state == VERSION_LOADING || e->versions[i].is_fault ||
                    (e->versions[i].state == VERSION_UNAVAILABLE && !e->versions[i].was_unloaded))
                        return false;
        return e->n_versions > 0;
}

bool repo_entry_is_current(struct repo *r, struct repo_entry *e,
                           const struct dir_fingerprint *fingerprint) {
        MUTEX_GUARD(&r->table.lock);
        return e->fingerprint != NULL && dir_fingerprint_equal(e->fingerprint, fingerprint) &&
               all_ready_locked(e);
}

char *repo_entry_copy_kept_config(struct repo *r, struct repo_entry *e,
                                  const struct dir_fingerprint *fingerprint) {
        MUTEX_GUARD(&r->table.lock);
        return e->replaced_config_fingerprint == fingerprint->config ? mem_strdup(e->sent_config)
                                                                     : NULL;
}
