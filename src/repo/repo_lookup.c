/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds a model by name and version (repo.h). */
#include "base/mem.h"
#include "infer/model.h"
#include "infer/model_generations.h"
#include "repo/dir_fingerprint.h"
#include "repo/model_files.h"
#include "repo/model_kind.h"
#include "repo/repo.h"
#include "repo/repo_compose.h"
#include "repo/repo_private.h"

/* ---- resolving a name ------------------------------------------------------------------------ */

static COLD struct error *unknown_model(enum error_code code, const char *name) {
        return error_new(code, "Request for unknown model: '%s' is not found", name);
}

struct error *repo_ambiguous_name(size_t n, const char *name) {
        return error_new(ERR_INVALID_ARG,
                         "There are %zu identifiers of model '%s' in global map, model namespace "
                         "must be provided to resolve ambiguity.",
                         n, name);
}

/* Counts the models that a name can mean; *ret is the last of them. */
static size_t count_identified_locked(struct repo *r, const char *name, struct repo_entry **ret) {
        size_t n = 0;

        for (struct repo_entry *e = repo_table_first_locked(&r->table, name); e != NULL;
             e = e->next)
                if (repo_entry_is_identified_locked(e)) {
                        *ret = e;
                        n++;
                }
        return n;
}

static struct error *resolve_among_namespaces(struct repo *r, const char *name,
                                              struct repo_entry **ret) {
        size_t n = count_identified_locked(r, name, ret);

        if (n == 1)
                return NULL;
        return n == 0 ? unknown_model(ERR_INVALID_ARG, name) : repo_ambiguous_name(n, name);
}

static struct error *resolve_locked(struct repo *r, const char *name, struct repo_entry **ret) {
        if (r->has_namespaces)
                return resolve_among_namespaces(r, name, ret);
        *ret = repo_table_first_locked(&r->table, name);
        if (*ret == NULL || ((*ret)->n_versions == 0 && !(*ret)->is_versionless))
                return unknown_model(ERR_NOT_FOUND, name);
        return NULL;
}

struct error *repo_check_name(struct repo *r, const char *name) {
        struct repo_entry *e;
        size_t             n;

        MUTEX_GUARD(&r->table.lock);
        n = r->has_namespaces ? count_identified_locked(r, name, &e) : 1;
        return n > 1 ? repo_ambiguous_name(n, name) : NULL;
}

struct error *repo_find_namespace(struct repo *r, const char *name, char **ret) {
        struct repo_entry *e = NULL;
        size_t             n;

        MUTEX_GUARD(&r->table.lock);
        n = count_identified_locked(r, name, &e);
        if (n > 1)
                return repo_ambiguous_name(n, name);
        *ret = mem_strdup(n == 1 ? e->namespace : "");
        return NULL;
}

/* ---- versions -------------------------------------------------------------------------------- */

static COLD struct error *no_such_version(struct repo_entry *e, int64_t version) {
        if (version == -1)
                return error_new(ERR_NOT_FOUND,
                                 "Request for unknown model: '%s' has no available versions",
                                 e->name);
        if (repo_entry_find_version_locked(e, version) == NULL)
                return error_new(ERR_NOT_FOUND,
                                 "Request for unknown model: '%s' version %lld is not found",
                                 e->name, (long long)version);
        return error_new(ERR_UNAVAILABLE,
                         "Request for unknown model: '%s' version %lld is not at ready state",
                         e->name, (long long)version);
}

/* Returns the requested version when it is READY. */
static struct error *get_version_locked(struct repo_entry *e, int64_t version, struct model **ret) {
        struct repo_version *v = version == -1 ? repo_entry_latest_locked(e)
                                               : repo_entry_find_version_locked(e, version);

        if (v == NULL || !repo_version_is_found(v))
                return no_such_version(e, version);
        model_ref(v->model);
        *ret = v->model;
        return NULL;
}

struct error *repo_get(struct repo *r, const char *name, int64_t version, struct model **ret) {
        struct repo_entry *e;

        MUTEX_GUARD(&r->table.lock);
        TRY(resolve_locked(r, name, &e));
        return get_version_locked(e, version, ret);
}

/* A model whose configuration is a file's. */
struct config_place {
        char    *directory;   /* owned; NULL: the configuration is not of a file */
        uint64_t fingerprint; /* of the file that was loaded */
        bool     is_known;    /* the fingerprint is */
};

static struct error *find_config_place(struct repo *r, const char *name, int64_t version,
                                       struct config_place *ret) {
        struct repo_entry *e;
        struct model      *model;

        MUTEX_GUARD(&r->table.lock);
        TRY(resolve_locked(r, name, &e));
        TRY(get_version_locked(e, version, &model));
        *ret = (struct config_place){ .is_known = e->fingerprint != NULL };
        if (e->sent_config == NULL && e->repository[0] != '\0')
                ret->directory = mem_strdup(e->directory);
        if (e->fingerprint != NULL)
                ret->fingerprint = e->fingerprint->config;
        model_unref(model);
        return NULL;
}

static bool is_config_changed(const struct config_place *p) {
        struct dir_fingerprint *now = NULL;
        AUTO_ERROR              err = dir_fingerprint_read(p->directory, &now);
        bool is_changed = p->is_known && (err != NULL || now->config != p->fingerprint);

        dir_fingerprint_free(now);
        return is_changed;
}

struct error *repo_find_config_file(struct repo *r, const char *name, int64_t version,
                                    char **ret_path, bool *ret_is_changed) {
        struct config_place place;

        *ret_path = NULL;
        *ret_is_changed = false;
        TRY(find_config_place(r, name, version, &place));
        if (place.directory == NULL)
                return NULL;
        *ret_path = model_files_find_config(r->env.config_name, place.directory);
        *ret_is_changed = is_config_changed(&place);
        free(place.directory);
        return NULL;
}

struct error *repo_get_for_request(struct repo *r, const char *name, int64_t version,
                                   struct model **ret) {
        struct error *err = repo_get(r, name, version, ret);
        struct model *retired = NULL;

        if (err == NULL)
                return NULL;
        mutex_lock(&r->table.lock);
        for (struct repo_entry *e = repo_table_first_locked(&r->table, name);
             e != NULL && retired == NULL; e = e->next)
                retired = model_generations_find_retired(e->generations, version);
        mutex_unlock(&r->table.lock);
        if (retired == NULL)
                retired = repo_compose_find_kept(r, name, version);
        if (retired == NULL)
                return err;
        error_free(err);
        *ret = retired;
        return NULL;
}

bool repo_version_is_ready(struct repo *r, const char *name, int64_t version) {
        struct model *model;
        AUTO_ERROR    err = repo_get(r, name, version, &model);

        if (err != NULL)
                return false;

        bool is_ready = model_is_ready(model);

        model_unref(model);
        return is_ready;
}

struct readiness repo_version_readiness(struct repo *r, const char *name, int64_t version) {
        struct model    *model;
        struct readiness found;
        AUTO_ERROR       err = repo_get(r, name, version, &model);

        if (err != NULL)
                return (struct readiness){ 0 };
        found = model_readiness(model);
        model_unref(model);
        return found;
}

size_t repo_ready_versions(struct repo *r, const struct model_key *key, int64_t **ret) {
        struct repo_entry *e;
        size_t             n = 0;

        MUTEX_GUARD(&r->table.lock);
        e = repo_table_find_locked(&r->table, key);
        *ret = mem_zalloc(((e != NULL ? e->n_versions : 0) + 1) * sizeof(**ret));
        for (size_t i = 0; e != NULL && i < e->n_versions; i++)
                if (repo_version_is_found(&e->versions[i]))
                        (*ret)[n++] = e->versions[i].number;
        return n;
}
