/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/repo.h"

#include "base/file.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/work_pool.h"
#include "infer/model.h"
#include "repo/bare_model.h"
#include "repo/model_graph.h"
#include "repo/model_kind.h"
#include "repo/override.h"
#include "repo/repo_compose.h"
#include "repo/repo_forget.h"
#include "repo/repo_private.h"
#include "store/store.h"
#include "store/store_listing.h"

#include <string.h>

const char *version_state_name(enum version_state state) {
        switch (state) {
        case VERSION_UNKNOWN: return "UNKNOWN";
        case VERSION_LOADING: return "LOADING";
        case VERSION_READY: return "READY";
        case VERSION_UNLOADING: return "UNLOADING";
        case VERSION_UNAVAILABLE: return "UNAVAILABLE";
        }
        return "UNKNOWN";
}

/* Where a repository is, besides its path. */
struct place {
        struct store          *store; /* ref; NULL: a directory */
        struct override_files *view;  /* ref; of a bare model without version folders, else NULL */
};

static void place_done(struct place *p) {
        store_unref(p->store);
        override_files_unref(p->view);
}

/* Takes what is in the place. */
static void append_path_locked(struct repo *r, const char *path, struct place *place,
                               const struct repo_name *names, size_t n_names) {
        struct repo_path *p;

        r->paths = mem_realloc(r->paths, (r->n_paths + 1) * sizeof(*r->paths));
        p = &r->paths[r->n_paths++];
        *p = (struct repo_path){ .path = mem_strdup(path),
                                 .store = STEAL(place->store),
                                 .view = STEAL(place->view),
                                 .namespace = mem_strdup(r->has_namespaces ? path : ""),
                                 .n_names = n_names };
        p->names = mem_zalloc((n_names + 1) * sizeof(*p->names));
        for (size_t i = 0; i < n_names; i++)
                p->names[i] = (struct repo_name){ mem_strdup(names[i].directory),
                                                  mem_strdup(names[i].model) };
}

/* Opens a remote repository; *ret is NULL for a directory. *ret_path is its path in one form, owned by
 * the caller. */
static struct error *open_store(struct repo *r, const char *path, struct store **ret,
                                char **ret_path) {
        *ret = NULL;
        if (store_url_is_remote(path))
                TRY(store_open(r->stores, path, ret));
        *ret_path = mem_strdup(*ret != NULL ? store_text(*ret) : path);
        return NULL;
}

static struct error *no_repository(const char *path, const char *what) {
        return error_new(ERR_INVALID_ARG, "failed to %s '%s', repository not found", what, path);
}

/* A name means one directory. */
static struct error *check_names(const char *path, const struct repo_name *names, size_t n_names) {
        struct error *err = NULL;
        struct map    seen;

        map_init(&seen);
        for (size_t i = 0; i < n_names && err == NULL; i++)
                if (map_set(&seen, str_of(names[i].model), (void *)(uintptr_t)names[i].model) !=
                    NULL)
                        err = error_new(ERR_INVALID_ARG,
                                        "failed to register '%s', there is a conflicting mapping "
                                        "for '%s'",
                                        path, names[i].model);
        map_done(&seen);
        return err;
}

static bool is_mapped_locked(const struct repo *r, const char *name) {
        for (size_t i = 0; i < r->n_paths; i++)
                for (size_t k = 0; k < r->paths[i].n_names; k++)
                        if (strcmp(r->paths[i].names[k].model, name) == 0)
                                return true;
        return false;
}

/* The text names the model in both places, as in the reference server. */
static struct error *check_new_names_locked(const struct repo *r, const struct repo_name *names,
                                            size_t n_names) {
        for (size_t i = 0; i < n_names; i++)
                if (is_mapped_locked(r, names[i].model))
                        return error_new(ERR_ALREADY_EXISTS,
                                         "failed to register '%s', there is a conflicting mapping "
                                         "for '%s'",
                                         names[i].model, names[i].model);
        return NULL;
}

/* Makes the view of a bare model that needs one; *ret is NULL for other repositories. A folder that
 * cannot be read now is read by the scans, which report it. */
static struct error *open_view(struct repo *r, const char *path, struct override_files **ret) {
        enum bare_form form = BARE_NONE;
        AUTO_ERROR     unreadable = bare_model_find(r->config_name, path, &form);

        *ret = NULL;
        return form == BARE_FILES ? bare_model_make_view(r->overrides, path, ret) : NULL;
}

static bool names_itself(const struct repo_name *names, size_t n_names) {
        for (size_t i = 0; i < n_names; i++)
                if (strcmp(names[i].directory, REPO_ITSELF) == 0)
                        return true;
        return false;
}

/* Takes what is in the place on success. */
static struct error *add_path(struct repo *r, const char *path, struct place *place,
                              const struct repo_name *names, size_t n_names) {
        MUTEX_GUARD(&r->table.lock);
        if (repo_find_path_locked(r, path) != NULL)
                return error_new(ERR_ALREADY_EXISTS,
                                 "model repository '%s' has already been registered", path);
        TRY(check_new_names_locked(r, names, n_names));
        append_path_locked(r, path, place, names, n_names);
        return NULL;
}

static struct error *add_directory(struct repo *r, const char *path, const struct repo_name *names,
                                   size_t n_names) {
        struct place  place = { 0 };
        struct error *err;

        if (!file_is_directory(path))
                return no_repository(path, "register");
        if (names_itself(names, n_names))
                TRY(open_view(r, path, &place.view));
        err = add_path(r, path, &place, names, n_names);
        place_done(&place);
        return err;
}

/* The store must answer. */
static struct error *add_store(struct repo *r, const char *path, const struct repo_name *names,
                               size_t n_names) {
        struct store_listing *listing;
        struct place          place = { 0 };
        AUTO_CHARS            text = NULL;
        struct error         *err;

        if (names_itself(names, n_names))
                return error_new(
                        ERR_UNSUPPORTED,
                        "failed to register '%s': a remote repository cannot be one model, "
                        "name the directory of the model",
                        path);
        TRY(open_store(r, path, &place.store, &text));
        err = store_list_recent(place.store, 0, true, &listing);
        if (err == NULL) {
                store_listing_unref(listing);
                err = add_path(r, text, &place, names, n_names);
        }
        place_done(&place);
        return err;
}

struct error *repo_add_path(struct repo *r, const char *path, const struct repo_name *names,
                            size_t n_names) {
        TRY(check_names(path, names, n_names));
        TRY(store_url_is_remote(path) ? add_store(r, path, names, n_names)
                                      : add_directory(r, path, names, n_names));
        log_info("Model repository registered: %s", path);
        return NULL;
}

static bool remove_path(struct repo *r, const char *path, struct repo_path *ret) {
        struct repo_path *p;

        MUTEX_GUARD(&r->table.lock);
        p = repo_find_path_locked(r, path);
        if (p == NULL)
                return false;
        *ret = *p;
        memmove(p, p + 1, (size_t)(&r->paths[r->n_paths] - (p + 1)) * sizeof(*p));
        r->n_paths--;
        return true;
}

/* References to models, in no order. */
struct model_refs {
        struct model **models; /* owned, and the references */
        size_t         n_models;
        size_t         cap_models;
};

/* Forgets the models of a removed repository that do not serve: nothing can load them any more, and
 * failures of theirs would keep the server from being ready. */
static void forget_models_of(struct repo *r, const char *path) {
        struct model_refs   kept = { 0 };
        struct repo_entry **sorted;
        size_t              n;

        mutex_lock(&r->table.lock);
        sorted = repo_table_sorted_locked(&r->table, &n); /* a copy: entries may be removed */
        kept.models = mem_zalloc((n + 1) * sizeof(struct model *));
        for (size_t i = 0; i < n; i++) {
                struct model *retired = NULL;

                if (strcmp(sorted[i]->repository, path) == 0 && repo_is_over_locked(sorted[i]))
                        retired = repo_forget_model_locked(r, sorted[i]);
                if (retired != NULL)
                        kept.models[kept.n_models++] = retired;
        }
        mutex_unlock(&r->table.lock);
        free(sorted);
        for (size_t i = 0; i < kept.n_models; i++)
                model_unref(kept.models[i]);
        free(kept.models);
        repo_publish_change(r);
}

struct error *repo_remove_path(struct repo *r, const char *path) {
        struct store_url url = { 0 };
        struct repo_path removed;
        bool             is_known;

        if (store_url_is_remote(path))
                TRY(store_url_parse(path, &url));
        is_known = remove_path(r, url.text != NULL ? url.text : path, &removed);
        store_url_done(&url);
        if (!is_known)
                return no_repository(path, "unregister");
        forget_models_of(r, removed.path);
        repo_path_done(&removed); /* without the table's lock: it may be the end of the store, and
                                   * remove files */
        log_info("Model repository unregistered: %s", path);
        return NULL;
}

bool repo_is_readable(struct repo *r) {
        MUTEX_GUARD(&r->table.lock);
        for (size_t i = 0; i < r->n_paths; i++)
                if (!r->paths[i].is_unreadable)
                        return true;
        return r->n_paths == 0;
}

/* False for uploaded files, too, which are in no repository. */
static bool has_lost_repository_locked(struct repo *r, const struct repo_entry *e) {
        return *e->repository != '\0' && repo_find_path_locked(r, e->repository) == NULL;
}

/* Called when a model that was being unloaded has ended. */
static void on_ended(void *owner, const struct model *model) {
        const struct model_key key = { .namespace = model->namespace, .name = model->name };
        struct repo           *r = owner;
        struct repo_entry     *e;
        struct model          *retired = NULL;

        mutex_lock(&r->table.lock);
        e = repo_table_find_locked(&r->table, &key);
        for (size_t i = 0; e != NULL && i < e->n_versions; i++)
                if (e->versions[i].leaving == model)
                        repo_version_set_unloaded_locked(&e->versions[i]);
        if (e != NULL && has_lost_repository_locked(r, e) && repo_is_over_locked(e))
                retired = repo_forget_model_locked(r, e);
        else if (e != NULL)
                retired = repo_note_gone_locked(r, e);
        mutex_unlock(&r->table.lock);
        if (retired != NULL)
                model_unref(retired);
        repo_publish_change(r);
}

/* The name becomes a part of paths of requests, and must not look like a path itself. */
static struct error *check_model_name(const char *path, const char *name) {
        if (name == NULL || *name == '\0')
                return error_new(
                        ERR_INVALID_ARG,
                        "'%s' is one model and not a folder of models: name the model with "
                        "--model-name (or the variable MODEL_NAME), or give the folder "
                        "above it as the repository",
                        path);
        if (name[0] == '.' || strchr(name, '/') != NULL)
                return error_new(ERR_INVALID_ARG,
                                 "--model-name: '%s' is not the name of a model: it begins with a "
                                 "dot or contains a slash",
                                 name);
        return NULL;
}

/* Adds a directory of the command line, which is a folder of models or one model. */
static struct error *add_first_directory(struct repo *r, const char *path, const char *model_name) {
        const struct repo_name itself = { REPO_ITSELF, model_name };
        enum bare_form         form = BARE_NONE;
        AUTO_ERROR             unreadable = bare_model_find(r->config_name, path, &form);
        struct place           place = { 0 };
        struct error          *err;

        if (form != BARE_NONE)
                TRY(check_model_name(path, model_name));
        if (form == BARE_FILES)
                TRY(bare_model_make_view(r->overrides, path, &place.view));
        err = add_path(r, path, &place, &itself, form != BARE_NONE ? 1 : 0);
        place_done(&place);
        if (err == NULL && form != BARE_NONE)
                log_info("the repository '%s' is one model, which is served as '%s'", path,
                         model_name);
        return err;
}

static bool has_path(struct repo *r, const char *path) {
        MUTEX_GUARD(&r->table.lock);
        return repo_find_path_locked(r, path) != NULL;
}

/* A path that is given twice counts once. */
static struct error *add_first_path(struct repo *r, const char *given, const char *model_name) {
        struct place  place = { 0 };
        AUTO_CHARS    path = NULL;
        struct error *err = NULL;

        TRY(open_store(r, given, &place.store, &path));
        if (!has_path(r, path))
                err = place.store != NULL ? add_path(r, path, &place, NULL, 0)
                                          : add_first_directory(r, path, model_name);
        place_done(&place);
        return err;
}

static struct error *add_paths(struct repo *r, const struct repo_options *o) {
        for (size_t i = 0; i < o->n_paths; i++) {
                TRY(add_first_path(r, o->paths[i], o->model_name));
        }
        return NULL;
}

struct error *repo_new(const struct repo_options *o, struct repo **ret) {
        struct repo *r = mem_zalloc(sizeof(*r));

        r->env = o->env;
        r->config_name = mem_strdup(o->env.config_name);
        r->env.config_name = r->config_name;
        r->env.on_ended = on_ended;
        r->env.on_left = repo_compose_prune;
        r->env.owner = r;
        r->n_load_threads = o->n_load_threads > 0 ? o->n_load_threads : 1;
        r->n_load_retries = o->n_load_retries;
        r->is_followed = o->is_followed;
        r->has_namespaces = o->has_namespaces;
        r->reports_reasons = o->reports_reasons;
        r->is_strict_unload = o->is_strict_unload;
        r->env.find_step = repo_compose_find_step;
        r->env.ends_warmups = &r->ends_warmups;
        r->graph = model_graph_new();
        mutex_init(&r->binding, LOCK_REPO);
        repo_table_init(&r->table);
        r->overrides = override_store_new();
        r->stores = store_hub_new(&o->stores);
        r->env.places = r->overrides;
        r->loads = work_pool_new("neso-loader", r->n_load_threads, WORK_BACKGROUND);
        r->unloads = work_pool_new("neso-loader", r->n_load_threads, WORK_BACKGROUND);
        TRY_OR(add_paths(r, o), repo_free(r));
        *ret = r;
        return NULL;
}

void repo_free(struct repo *r) {
        if (r == NULL)
                return;
        work_pool_free(r->loads);
        work_pool_free(r->unloads);
        label_list_done(&r->not_loaded);
        repo_table_done(&r->table);
        model_graph_free(r->graph);
        mutex_done(&r->binding);
        for (size_t i = 0; i < r->n_paths; i++)
                repo_path_done(&r->paths[i]);
        free(r->paths);
        store_hub_free(r->stores);
        override_store_free(r->overrides);
        free(r->config_name);
        free(r);
}

/* Adds READY models, or only those whose backend may report that they cannot serve. */
static void add_ready_locked(struct model_refs *to, const struct repo_entry *e,
                             bool may_be_unready_only) {
        for (size_t i = 0; i < e->n_versions; i++) {
                const struct repo_version *v = &e->versions[i];

                if (v->state != VERSION_READY || (may_be_unready_only && !v->model->may_be_unready))
                        continue;
                if (to->n_models == to->cap_models) {
                        to->cap_models = to->cap_models > 0 ? to->cap_models * 2 : 16;
                        to->models =
                                mem_realloc(to->models, to->cap_models * sizeof(struct model *));
                }
                model_ref(v->model);
                to->models[to->n_models++] = v->model;
        }
}

static void add_all_ready_locked(struct model_refs *to, const struct repo *r) {
        MAP_FOR_EACH(&r->table.by_name, m)
                for (const struct repo_entry *e = m->value; e != NULL; e = e->next)
                        add_ready_locked(to, e, false);
}

struct readiness repo_readiness(struct repo *r) {
        MUTEX_GUARD(&r->table.lock);

        return (struct readiness){ .is_ready = r->table.n_unready == 0,
                                   .asks_backends = !list_is_empty(&r->table.queried) };
}

/* Backends are queried with no lock held. */
bool repo_all_ready(struct repo *r) {
        struct model_refs asked = { 0 };
        bool              all;

        mutex_lock(&r->table.lock);
        all = r->table.n_unready == 0;
        if (all)
                LIST_FOR_EACH(&r->table.queried, node)
                        add_ready_locked(&asked, LIST_ENTRY(node, struct repo_entry, queried),
                                         true);
        mutex_unlock(&r->table.lock);
        for (size_t i = 0; i < asked.n_models; i++) {
                all = all && model_is_ready_itself(asked.models[i]);
                model_unref(asked.models[i]);
        }
        free(asked.models);
        return all;
}

static int by_place(const void *a, const void *b) {
        const struct model *x = *(struct model *const *)a, *y = *(struct model *const *)b;
        int                 order = strcmp(x->name, y->name);

        order = order != 0 ? order : strcmp(x->namespace, y->namespace);
        return order != 0 ? order : (x->version > y->version) - (x->version < y->version);
}

size_t repo_ready_models(struct repo *r, const char *name, struct model ***ret) {
        struct model_refs        found = { 0 };
        const struct repo_entry *e;

        mutex_lock(&r->table.lock);
        if (name == NULL)
                add_all_ready_locked(&found, r);
        else
                for (e = repo_table_first_locked(&r->table, name); e != NULL; e = e->next)
                        add_ready_locked(&found, e, false);
        mutex_unlock(&r->table.lock);
        if (found.n_models > 1)
                qsort(found.models, found.n_models, sizeof(struct model *), by_place);
        *ret = found.models;
        return found.n_models;
}

void repo_end_idle_sequences(struct repo *r, const char *name) {
        struct model **loads;
        size_t         n = repo_loads(r, name, &loads);

        for (size_t i = 0; i < n; i++) {
                struct scheduler *s = loads[i]->scheduler;

                if (model_has_sequences(loads[i]))
                        s->sequences->end_idle(s);
                model_unref(loads[i]);
        }
        free(loads);
}

/* Requests of live sequences are not counted. Those of a chain may be in a later stage when their
 * sequence has ended. */
static uint64_t count_in_flight(const struct model *model) {
        uint64_t              n = atomic_load(&model->n_in_flight);
        struct sequence_count count;

        if (!model_has_sequences(model))
                return n;
        count = model->scheduler->sequences->count(model->scheduler);
        return MAX(count.n_active + count.n_backlog, model->has_next ? n : 0);
}

uint64_t repo_count_in_flight(struct repo *r,
                              void (*each)(const struct model *m, uint64_t n, void *userp),
                              void *userp) {
        struct model **models;
        size_t         n = repo_ready_models(r, NULL, &models);
        uint64_t       n_busy = 0;

        for (size_t i = 0; i < n; i++) {
                uint64_t in_flight = count_in_flight(models[i]);

                if (in_flight > 0) {
                        n_busy++;
                        each(models[i], in_flight, userp);
                }
                model_unref(models[i]);
        }
        free(models);
        return n_busy;
}
