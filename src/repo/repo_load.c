/* SPDX-License-Identifier: BSD-3-Clause */
/* Loads and unloads models on request and at the start (repo.h). */
#include "base/log.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "infer/model.h"
#include "repo/dir_fingerprint.h"
#include "repo/load_failure.h"
#include "repo/load_graph.h"
#include "repo/load_parameters.h"
#include "repo/model_files.h"
#include "repo/override.h"
#include "repo/repo.h"
#include "repo/repo_change.h"
#include "repo/repo_compose.h"
#include "repo/repo_remote.h"
#include "repo/repo_scan.h"
#include "repo/uploaded_code.h"

#include <string.h>

/* A failed start names at most so many of the models that were not loaded. */
#define MAX_NOT_LOADED_NAMES 16
/* The text in the log of the reference server. */
#define NOT_FOUND_TEXT "model not found in any model repository."

/* ---- one model by request -------------------------------------------------------------------- */

/* As in the reference server, the client gets no reason. The log has it. */
static struct error *poll_failure(const char *name) {
        return error_new(ERR_INTERNAL, "failed to load '%s', failed to poll from model repository",
                         name);
}

/* Takes `why`, which is in the log already. */
static struct error *poll_failure_because(const struct repo *r, const char *name,
                                          struct error *why) {
        if (r->reports_reasons)
                return error_wrap(error_recode(why, ERR_INTERNAL),
                                  "failed to load '%s', failed to poll from model repository",
                                  name);
        error_free(why);
        return poll_failure(name);
}

static struct error *log_poll_failure(const struct repo *r, const char *name, struct error *why) {
        log_error("failed to poll model '%s': %s", name, why->message);
        return poll_failure_because(r, name, why);
}

static struct error *not_unique(void) {
        return error_new_text(ERR_INVALID_ARG, "not unique across all model repositories");
}

/* A model that serves from a repository that cannot be read now is not replaced by one of the same
 * name in another repository: the first one may still exist. */
static const struct error *find_obstacle(struct repo *r, const struct repo_scan *scan,
                                         const struct found_model *found) {
        struct repo_entry *e;

        MUTEX_GUARD(&r->table.lock);
        e = repo_table_find_locked(&r->table, &found->key);
        return e != NULL && e->fingerprint != NULL ? repo_scan_find_failure(scan, e->repository)
                                                   : NULL;
}

static struct error *check_found(struct repo *r, const struct repo_scan *scan) {
        if (scan->n_models == 0)
                return scan->n_failures > 0 ? error_copy(scan->failures[0].error)
                                            : error_new_text(ERR_NOT_FOUND, NOT_FOUND_TEXT);
        for (size_t i = 0; i < scan->n_models; i++) {
                const struct error *obstacle = find_obstacle(r, scan, &scan->models[i]);

                if (scan->models[i].is_duplicate)
                        return not_unique();
                if (obstacle != NULL)
                        return error_copy(obstacle);
        }
        return NULL;
}

/* Models that failed to load have an error of that kind. Any other error is a failure of the poll; it is
 * logged. */
static struct error *poll_error(const struct repo *r, const struct model_key *key,
                                struct error *err) {
        AUTO_CHARS label = NULL;

        if (err == NULL || error_is(err, ERROR_KIND_LOAD))
                return err;
        label = model_key_label(key);
        if (error_is(err, ERROR_KIND_FETCH))
                log_error("failed to load '%s': %s", label, err->message);
        else
                log_error("Poll failed for model directory '%s': %s", label, err->message);
        return poll_failure_because(r, key->name, err);
}

/* Takes *fingerprint on success. */
static struct error *load_and_take(struct repo *r, struct repo_entry *e,
                                   const struct model_source *source,
                                   struct dir_fingerprint   **fingerprint) {
        TRY(repo_change_load(r, e, source, *fingerprint));
        *fingerprint = NULL;
        return NULL;
}

/* Loads with the configuration of an earlier load, as long as that one is valid. */
static struct error *load_changed(struct repo *r, struct repo_entry *e,
                                  const struct model_source *source,
                                  struct dir_fingerprint   **fingerprint) {
        AUTO_CHARS          kept = repo_entry_copy_kept_config(r, e, *fingerprint);
        struct model_source with = *source;

        with.config_json = kept;
        with.config_fingerprint = (*fingerprint)->config;
        return load_and_take(r, e, &with, fingerprint);
}

/* Returns the digest of the files as they are now, before the change begins: with it a load that waits for
 * another one is compared with that one. */
static uint64_t read_digest(const struct model_source *source) {
        struct dir_fingerprint *fingerprint = NULL;
        AUTO_ERROR              err = model_source_fingerprint(source, &fingerprint);
        uint64_t                digest = dir_fingerprint_digest(fingerprint);

        dir_fingerprint_free(fingerprint);
        return digest;
}

static struct error *load_from_files(struct repo *r, const struct model_source *source) {
        struct model_source     with = *source;
        struct dir_fingerprint *fingerprint = NULL;
        struct repo_entry      *e;
        struct error           *err;

        with.files = read_digest(source);
        TRY(repo_change_begin(r, &with, &e));
        err = model_source_fingerprint(source, &fingerprint);
        if (err == NULL && !repo_entry_is_current(r, e, fingerprint))
                err = load_changed(r, e, source, &fingerprint);
        dir_fingerprint_free(fingerprint);
        repo_change_end(r, e);
        return poll_error(r, &source->key, err);
}

/* Loads a model with a configuration of the request. */
static struct error *load_source(struct repo *r, const struct model_source *source) {
        struct model_source     with = *source;
        struct dir_fingerprint *fingerprint = NULL;
        struct repo_entry      *e;
        struct error           *err = NULL;

        if (source->override == NULL)
                with.files = read_digest(source);
        TRY(repo_change_begin(r, &with, &e));
        if (source->override == NULL)
                err = model_source_fingerprint(source, &fingerprint);
        if (fingerprint != NULL)
                with.config_fingerprint = fingerprint->config;
        if (err == NULL)
                err = load_and_take(r, e, &with, &fingerprint);
        dir_fingerprint_free(fingerprint);
        repo_change_end(r, e);
        return poll_error(r, &source->key, err);
}

/* An unload of a model that needs this one leaves it. */
static void note_requested(struct repo *r, const struct model_key *key) {
        struct repo_entry *e;

        MUTEX_GUARD(&r->table.lock);
        e = repo_table_find_locked(&r->table, key);
        if (e != NULL)
                e->is_requested = true;
}

/* The models that the configuration of the request needs stay loaded meanwhile. */
static struct error *load_held(struct repo *r, const struct model_source *source) {
        struct load_hold   hold = { 0 };
        struct model_needs needs;
        struct error      *err;

        /* Fails with the configuration, whose load reports why. */
        error_free(model_needs_peek(&r->env, source->key.name, source->directory,
                                    source->config_json, &needs));
        mutex_lock(&r->table.lock);
        load_hold_add_locked(r, &hold, &source->key, &needs);
        if (!load_hold_take_locked(r, &hold, r->n_unloads))
                load_hold_force_locked(r, &hold);
        mutex_unlock(&r->table.lock);
        model_needs_done(&needs);
        err = load_source(r, source);
        if (err == NULL)
                note_requested(r, &source->key);
        load_hold_release(r, &hold);
        return err;
}

static struct error *load_found(struct repo *r, const struct found_model *found,
                                const char *config_json) {
        const struct model_source source = { .key = found->key,
                                             .repository = found->repository,
                                             .directory = found->directory,
                                             .copy = found->copy,
                                             .is_mapped = found->is_mapped,
                                             .config_json = config_json };

        return config_json != NULL ? load_source(r, &source) : load_from_files(r, &source);
}

/* Chooses the namespace of uploaded files. They replace the model that the name means. When there
 * is none, they are a model without a repository. The caller owns *ret. */
static struct error *choose_namespace(struct repo *r, const char *name, char **ret) {
        struct repo_scan scan;
        struct error    *err = NULL;

        if (!r->has_namespaces) {
                *ret = mem_strdup("");
                return NULL;
        }
        repo_scan_read_one(r, name, &scan);
        if (scan.n_models > 1)
                err = repo_ambiguous_name(scan.n_models, name);
        else if (scan.n_models == 1)
                *ret = mem_strdup(scan.models[0].key.namespace);
        else
                err = repo_find_namespace(r, name, ret);
        repo_scan_done(&scan);
        return err;
}

/* Returns the fingerprint of the configuration in the repository, which the uploaded one
 * replaces. */
static uint64_t read_config_fingerprint(struct repo *r, const struct model_key *key) {
        struct repo_scan          scan;
        const struct found_model *found;
        struct dir_fingerprint   *fingerprint = NULL;
        uint64_t                  config = DIR_FINGERPRINT_NO_CONFIG;
        AUTO_ERROR                err = NULL;

        repo_scan_read_one(r, key->name, &scan);
        found = repo_scan_find(&scan, key);
        if (found != NULL)
                err = found_model_fingerprint(found, &fingerprint);
        if (fingerprint != NULL)
                config = fingerprint->config;
        dir_fingerprint_free(fingerprint);
        repo_scan_done(&scan);
        return config;
}

/* Before any model is loaded. `config_json` is what the request makes of the configuration. */
static struct error *check_permit(const struct repo *r, const char *name,
                                  const struct repo_override *o, const char *config_json) {
        return poll_error(r, &(struct model_key){ "", name },
                          load_permit_check_config(&o->permit, name, config_json));
}

static struct error *load_uploaded_files(struct repo *r, const char *name,
                                         const struct repo_override *o) {
        AUTO_CHARS namespace = NULL;
        struct model_source    source = { .repository = "", .config_json = o->config_json };
        struct override_files *files;
        struct error          *err;

        if (o->config_json == NULL)
                return log_poll_failure(r, name,
                                        error_new_text(ERR_INVALID_ARG,
                                                       "Load parameter 'config' must be specified "
                                                       "for model file override"));
        TRY(check_permit(r, name, o, o->config_json));
        if (!r->env.allows_uploaded_code)
                TRY(uploaded_code_check_files(name, o->files, o->n_files));
        TRY(choose_namespace(r, name, &namespace));
        TRY(override_files_write(r->overrides, o->files, o->n_files, &files));
        source.key = (struct model_key){ namespace, name };
        source.directory = override_files_directory(files);
        source.config_fingerprint = read_config_fingerprint(r, &source.key);
        source.override = files;
        err = load_held(r, &source);
        override_files_unref(files);
        return err;
}

/* ---- several at a time ----------------------------------------------------------------------- */

/* `name` is the requested model. */
static struct error *circular(const char *name, const struct load_item *item) {
        struct error *err = load_failure(name, error_new(ERR_INVALID_ARG, "%s\n", item->cycle));

        log_error("%.*s", (int)strlen(err->message) - 1, err->message);
        return err;
}

static struct error *refused(const struct load_item *item) {
        log_error("%s", item->refused_by->message);
        return load_failure(item->found->key.name,
                            error_new(item->refused_by->code, "%s\n", item->refused_by->message));
}

/* The text is that of repo_compose_register() for a model that is known. */
static struct error *need_failed(const struct load_item *item, const struct model_need *need) {
        AUTO_CHARS text = mem_printf("%s '%s' of model '%s' has no loaded version",
                                     item->needs.kind == NEEDS_NEXT ? "next model" : "stage",
                                     need->name, item->found->key.name);

        log_error("%s", text);
        return load_failure(item->found->key.name, error_new(ERR_INVALID_ARG, "%s\n", text));
}

static struct error *load_item(struct repo *r, struct load_item *item) {
        const struct model_need *failed;

        if (item->found->is_duplicate)
                return log_poll_failure(r, item->found->key.name, not_unique());
        item->refused_by = load_graph_find_refusal(item->graph, item);
        if (item->refused_by != NULL)
                return refused(item);
        failed = load_graph_find_failed(item->graph, item);
        if (failed != NULL)
                return need_failed(item, failed);
        if (item->cycle != NULL)
                return circular(item->found->key.name, item);
        return load_found(r, item->found, item->config_json);
}

/* A load that needs the model may have come first. */
static void unload_if_unused(struct repo *r, const struct model_key *key) {
        struct repo_entry *e;
        AUTO_ERROR         err = repo_change_begin_unload(r, key, &e);

        if (err != NULL)
                return; /* all is unloaded, or a load that waits for this one needs it */
        if (repo_compose_is_unused(r, e))
                repo_change_unload(r, e);
        repo_change_end(r, e);
}

/* Unloads the models that were not requested and that no loaded model needs. */
static void unload_unused(struct repo *r, const struct label_list *labels) {
        for (size_t i = 0; i < labels->n; i++) {
                struct model_key key;

                if (!repo_compose_find_unused(r, labels->items[i], &key))
                        continue;
                unload_if_unused(r, &key);
                free((char *)(uintptr_t)key.namespace);
                free((char *)(uintptr_t)key.name);
        }
}

/* Unloads the models that were loaded only for a load that has failed. */
static void unload_unneeded(struct repo *r, const struct load_graph *p) {
        struct label_list added = { .items = mem_alloc((p->n_items + 1) * sizeof(char *)) };

        for (size_t i = p->n_items; i > 0; i--)
                if (!p->items[i - 1]->is_requested)
                        added.items[added.n++] = model_key_label(&p->items[i - 1]->found->key);
        unload_unused(r, &added);
        label_list_done(&added);
}

/* Joins several errors: those of failed versions, one after the other. Without these, the error of
 * a model that could not be polled. */
static struct error *join_errors(const char *name, const struct load_graph *p) {
        AUTO_STRBUF texts = { 0 };
        bool        is_fine = true;

        for (size_t i = 0; i < p->n_items; i++) {
                const struct error *err = p->items[i]->error;

                if (!p->items[i]->is_requested)
                        continue;
                is_fine = is_fine && err == NULL;
                if (error_is(err, ERROR_KIND_LOAD))
                        strbuf_puts(&texts, err->message);
        }
        TRY(strbuf_check(&texts, "the text of an error"));
        if (texts.len > 0)
                return error_mark(error_new_text(ERR_INVALID_ARG, strbuf_cstr(&texts)),
                                  ERROR_KIND_LOAD);
        return is_fine ? NULL : poll_failure(name);
}

static struct error *unknown_steps(const struct load_graph *p, const struct load_item *item) {
        AUTO_STRBUF names = { 0 };

        for (size_t i = 0; i < item->needs.n; i++)
                if (load_graph_lacks(p, item, &item->needs.items[i]))
                        strbuf_printf(&names, "%s%s", names.len > 0 ? ", " : "",
                                      item->needs.items[i].name);
        TRY(strbuf_check(&names, "the text of an error"));
        log_error("ensemble %s contains models that are not available or ambiguous: %s",
                  item->found->key.name, strbuf_cstr(&names));
        return load_failure(item->found->key.name,
                            error_new(ERR_INVALID_ARG,
                                      "ensemble %s contains models that are not available or "
                                      "ambiguous: %s\n",
                                      item->found->key.name, strbuf_cstr(&names)));
}

static struct error *missing_stage(const struct load_item *user, const struct model_need *need) {
        const char *what = user->needs.kind == NEEDS_NEXT ? "next model" : "stage";

        if (user->too_deep == need)
                return error_new(ERR_INVALID_ARG,
                                 "%s '%s' of model '%s' is more than %d models deep\n", what,
                                 need->name, user->found->key.name, LOAD_GRAPH_MAX_DEPTH);
        return error_new(ERR_INVALID_ARG,
                         "%s '%s' of model '%s' is neither loaded nor in a model repository\n",
                         what, need->name, user->found->key.name);
}

/* Reports a missing model of a later stage before anything is loaded. */
static struct error *check_chain(struct load_graph *p, struct load_item *item) {
        const struct load_item  *user;
        const struct model_need *need;

        for (size_t i = 0; i < p->n_items; i++)
                if (p->items[i]->cycle != NULL)
                        return circular(item->found->key.name, p->items[i]);
        need = load_graph_find_lacking(p, item, &user);
        if (need != NULL && user == item && item->needs.kind == NEEDS_STEPS)
                return unknown_steps(p, item);
        if (need == NULL || user == item || item->needs.kind == NEEDS_STEPS)
                return NULL; /* its registration reports it */
        return load_failure(item->found->key.name, missing_stage(user, need));
}

/* Loads the models of the graph and frees it. It has one requested model, or one in each namespace. */
static struct error *run_load_graph(struct repo *r, const char *name, struct load_graph *graph,
                                    struct load_item *only) {
        const struct load_item *user;
        struct error           *err = NULL;

        if (only != NULL) {
                err = check_chain(graph, only);
                if (load_graph_find_lacking(graph, only, &user) != NULL && user == only)
                        load_graph_drop_needs(graph); /* the load fails, so the others are not
                                                     * needed */
        }
        if (err == NULL) {
                load_graph_run(graph);
                err = only != NULL ? STEAL(only->error) : join_errors(name, graph);
        }
        load_graph_release(graph);
        if (err != NULL && only != NULL && only->needs.kind != NEEDS_STEPS)
                unload_unneeded(r, graph);
        load_graph_done(graph);
        return err;
}

/* A graph is made again when models were unloaded meanwhile. Clients that unload all the time do not
 * delay a load for ever. */
#define MAX_GRAPHS 8

/* Loads one model in each namespace that has the name. */
static struct error *load_all_of(struct repo *r, const char *name, const struct repo_scan *scan,
                                 const char *config_json) {
        struct load_graph graph;
        struct load_item *item = NULL;

        for (unsigned n_graphs = 1;; n_graphs++) {
                load_graph_init(&graph, r, NULL);
                graph.load = load_item;
                for (size_t i = 0; i < scan->n_models; i++)
                        item = load_graph_add(&graph, &scan->models[i], config_json, true);
                if (load_graph_hold(&graph, n_graphs == MAX_GRAPHS))
                        break;
                load_graph_done(&graph);
        }
        return run_load_graph(r, name, &graph, scan->n_models == 1 ? item : NULL);
}

/* Loads the model with parameters that change its configuration. */
static struct error *load_with_parameters(struct repo *r, const char *name,
                                          const struct repo_scan     *scan,
                                          const struct repo_override *o) {
        AUTO_CHARS  config_json = NULL;
        const char *directory;

        if (scan->n_models > 1)
                return repo_ambiguous_name(scan->n_models, name);
        TRY(found_model_config_directory(&scan->models[0], &directory));
        TRY(load_parameters_apply(&r->env, directory, o->config_json, o->parameters,
                                  o->n_parameters, &config_json));
        TRY(check_permit(r, name, o, config_json));
        return load_all_of(r, name, scan, config_json);
}

static struct error *load_with_config(struct repo *r, const char *name,
                                      const struct repo_scan *scan, const struct repo_override *o) {
        TRY(check_permit(r, name, o, o->config_json));
        return load_all_of(r, name, scan, o->config_json);
}

struct error *repo_load(struct repo *r, const char *name, const struct repo_override *o) {
        struct repo_scan scan;
        struct error    *err;

        if (o != NULL && o->n_files > 0)
                return load_uploaded_files(r, name, o);
        repo_scan_read_one(r, name, &scan);
        err = check_found(r, &scan);
        if (err != NULL)
                err = log_poll_failure(r, name, err);
        else if (o != NULL && o->n_parameters > 0)
                err = load_with_parameters(r, name, &scan, o);
        else if (o != NULL && o->config_json != NULL)
                err = load_with_config(r, name, &scan, o);
        else
                err = load_all_of(r, name, &scan, NULL);
        repo_scan_done(&scan);
        return err;
}

/* Lists the namespaces that have a model of that name. The caller owns *ret and its texts. */
static size_t list_namespaces(struct repo *r, const char *name, char ***ret) {
        size_t n = 0;

        *ret = NULL;
        MUTEX_GUARD(&r->table.lock);
        for (const struct repo_entry *e = repo_table_first_locked(&r->table, name); e != NULL;
             e = e->next) {
                *ret = mem_realloc(*ret, (n + 1) * sizeof(char *));
                (*ret)[n++] = mem_strdup(e->namespace);
        }
        return n;
}

struct error *repo_unload_one(struct repo *r, const struct model_key *key) {
        struct repo_entry *e;

        TRY(repo_change_begin_unload(r, key, &e));
        repo_change_unload(r, e);
        repo_change_end(r, e);
        return NULL;
}

/* A second unload ends the live sequences of a model that is unloaded already. */
static void end_idle_when_unloaded(struct repo *r, const char *name) {
        struct model **ready;
        size_t         n = repo_ready_models(r, name, &ready);

        for (size_t i = 0; i < n; i++)
                model_unref(ready[i]);
        free(ready);
        if (n == 0)
                repo_end_idle_sequences(r, name);
}

static struct error *unload_all_of(struct repo *r, const char *name) {
        struct error *err = NULL;
        char        **namespaces;
        size_t        n = list_namespaces(r, name, &namespaces);

        end_idle_when_unloaded(r, name);
        for (size_t i = 0; i < n; i++) {
                if (err == NULL)
                        err = repo_unload_one(r, &(struct model_key){ namespaces[i], name });
                free(namespaces[i]);
        }
        free(namespaces);
        return err;
}

struct error *repo_unload(struct repo *r, const char *name) {
        TRY(repo_compose_check_unload(r, name));
        return unload_all_of(r, name);
}

/* All models that models of that name need, in every namespace. */
static struct error *check_unload_permit(struct repo *r, const char *name,
                                         const struct load_permit *permit) {
        struct label_list names;
        struct error     *err;

        if (permit->grants == NULL)
                return NULL;
        repo_compose_list_needed_names(r, name, &names);
        err = load_permit_check_unload(permit, name, &names);
        label_list_done(&names);
        return err;
}

struct error *repo_unload_with_needs(struct repo *r, const char *name,
                                     const struct load_permit *permit) {
        struct label_list needs = { 0 };
        AUTO_CHARS namespace = NULL;
        struct error *err;

        TRY(check_unload_permit(r, name, permit));
        err = repo_find_namespace(r, name, &namespace);
        if (err == NULL)
                repo_compose_list_needs(r, &(struct model_key){ namespace, name }, &needs);
        else
                error_free(STEAL(err)); /* several models of that name: what they need stays
                                         * loaded */
        err = repo_unload(r, name);
        if (err == NULL)
                unload_unused(r, &needs);
        label_list_done(&needs);
        return err;
}

/* ---- many at the start ----------------------------------------------------------------------- */

/* Adds the models to the table, whether they can be loaded or not. */
static void add_entries(struct repo *r, const struct found_model *const *found, size_t n) {
        MUTEX_GUARD(&r->table.lock);
        for (size_t i = 0; i < n; i++) {
                struct repo_entry *e =
                        repo_table_add_locked(&r->table, &found[i]->key, found[i]->directory,
                                              found[i]->repository);

                repo_entry_set_duplicate_locked(e, found[i]->is_duplicate);
                repo_entry_set_wanted_locked(e, true);
        }
}

static void add_not_loaded(struct repo *r, const struct found_model *found) {
        AUTO_CHARS label = model_key_label(&found->key);

        label_list_add(&r->not_loaded, label);
}

static bool load_at_start(struct repo *r, const struct repo_scan *scan,
                          const struct found_model *const *found, size_t n) {
        struct load_graph graph;
        bool              all = true;

        add_entries(r, found, n);
        found_models_fetch_configs(r, found, n);
        load_graph_init(&graph, r, scan);
        graph.load = load_item;
        for (size_t i = 0; i < n; i++)
                load_graph_add(&graph, found[i], NULL, true);
        load_graph_run(&graph);
        for (size_t i = 0; i < graph.n_items; i++)
                if (graph.items[i]->error != NULL && graph.items[i]->is_requested) {
                        add_not_loaded(r, graph.items[i]->found);
                        all = false;
                }
        load_graph_done(&graph);
        return all;
}

static struct error *all_or_error(bool all) {
        return all ? NULL : error_new_text(ERR_INTERNAL, "failed to load all models");
}

static bool is_repeated(char *const *names, size_t at) {
        for (size_t i = 0; i < at; i++)
                if (strcmp(names[i], names[at]) == 0)
                        return true;
        return false;
}

/* Lists the models of the scan that are to be loaded; the caller owns *ret. False when one of the
 * names is unknown. */
static bool choose_named(struct repo *r, const struct repo_scan *scan, char *const *names,
                         size_t n_names, const struct found_model ***ret, size_t *ret_n) {
        bool   all = true;
        size_t n = 0;

        *ret = mem_zalloc((scan->n_models + 1) * sizeof(const struct found_model *));
        for (size_t i = 0; i < n_names; i++) {
                size_t                    n_found;
                const struct found_model *found = repo_scan_find_name(scan, names[i], &n_found);

                if (is_repeated(names, i))
                        continue;
                for (size_t k = 0; k < n_found; k++)
                        (*ret)[n++] = &found[k];
                if (found == NULL) {
                        log_error("failed to poll model '%s': " NOT_FOUND_TEXT, names[i]);
                        label_list_add(&r->not_loaded, names[i]);
                        all = false;
                }
        }
        *ret_n = n;
        return all;
}

/* A repository that cannot be read is an error like that of a model. The other models are
 * loaded. */
struct error *repo_load_all(struct repo *r) {
        struct repo_scan           scan;
        const struct found_model **found;
        bool                       all;

        repo_scan_read_recent(r, false, &scan);
        found = mem_zalloc((scan.n_models + 1) * sizeof(const struct found_model *));
        for (size_t i = 0; i < scan.n_models; i++)
                found[i] = &scan.models[i];
        all = load_at_start(r, &scan, found, scan.n_models) && scan.n_failures == 0;
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
        repo_scan_read_recent(r, false, &scan);
        all = choose_named(r, &scan, names, n_names, &found, &n) && scan.n_failures == 0;
        if (!load_at_start(r, &scan, found, n))
                all = false;
        free(found);
        repo_scan_done(&scan);
        return all_or_error(all);
}

void repo_log_not_loaded(struct repo *r) {
        const struct label_list *l = &r->not_loaded;
        AUTO_STRBUF              text = { 0 };
        size_t                   n_named = MIN(l->n, MAX_NOT_LOADED_NAMES);

        for (size_t i = 0; i < n_named; i++)
                strbuf_printf(&text, "%s'%s'", i > 0 ? ", " : "", l->items[i]);
        if (l->n > n_named)
                strbuf_printf(&text, " and %zu more", l->n - n_named);
        if (l->n > 0)
                log_error("not loaded: %s; for each an error above has the reason",
                          strbuf_cstr(&text));
}

/* ---- the end --------------------------------------------------------------------------------- */

void repo_end_changes(struct repo *r) {
        mutex_lock(&r->table.lock);
        r->is_stopping = true;
        atomic_store(&r->ends_warmups, true);
        cond_broadcast(&r->table.changed);
        mutex_unlock(&r->table.lock);
        store_hub_stop(r->stores);
}

size_t repo_stop_changes(struct repo *r, uint64_t until_ns) {
        repo_end_changes(r);
        MUTEX_GUARD(&r->table.lock);
        while (r->n_changing > 0 && cond_wait_until(&r->table.changed, &r->table.lock, until_ns))
                ;
        return r->n_changing;
}

void repo_stop_all(struct repo *r) {
        struct model **models;
        size_t         n = repo_ready_models(r, NULL, &models);

        for (size_t i = 0; i < n; i++) {
                models[i]->scheduler->ops->drain(models[i]->scheduler);
                model_unref(models[i]);
        }
        free(models);
}

/* Returns a text for the log, owned; NULL: it has ended. */
static char *describe_leaving_locked(const struct repo_entry *e, const struct repo_version *v) {
        if (v->state != VERSION_UNLOADING)
                return NULL;
        return mem_printf("model '%s' (version %lld) has not ended", e->label,
                          (long long)v->number);
}

void repo_log_leaving(struct repo *r) {
        struct label_list texts = { 0 };

        mutex_lock(&r->table.lock);
        for (size_t i = 0; i < r->table.n_entries; i++) {
                const struct repo_entry *e = r->table.sorted[i];

                texts.items =
                        mem_realloc(texts.items, (texts.n + e->n_versions + 1) * sizeof(char *));
                for (size_t k = 0; k < e->n_versions; k++) {
                        char *text = describe_leaving_locked(e, &e->versions[k]);

                        if (text != NULL)
                                texts.items[texts.n++] = text;
                }
        }
        mutex_unlock(&r->table.lock);
        for (size_t i = 0; i < texts.n; i++)
                log_error("%s", texts.items[i]);
        label_list_done(&texts);
}

void repo_unload_all(struct repo *r) {
        size_t n;
        /* A model that is unloaded before those that it needs keeps them for its live sequences. */
        struct repo_entry **entries = repo_compose_list_top_down(r, &n);

        /* No change runs any more, so the entries stay. */
        for (size_t i = 0; i < n; i++)
                repo_change_unload(r, entries[i]);
        free(entries);
}
