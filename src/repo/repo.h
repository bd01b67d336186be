/* SPDX-License-Identifier: BSD-3-Clause */
/* The models of a server, their states, look-ups and changes.
 *
 *     UNKNOWN -> LOADING -> READY -> UNLOADING -> UNAVAILABLE ("unloaded")
 *                   '-----> UNAVAILABLE ("<Code>: <text>")
 *
 * A change never removes what serves before its successor is ready. New versions are loaded and
 * warmed up beside the old ones, then swapped in under the table's lock. The old ones end with
 * their last request. When one version of a model fails, nothing of that model changes. One change
 * of a model runs at a time; changes of different models run in parallel.
 *
 * Ownership.  The repository holds one reference to each READY version.
 * Threads.  Any. A mutex of rank LOCK_MODEL guards the table; it is held for look-ups only. Loading
 * runs on the caller's thread and on a pool of loader threads, with no lock held.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "repo/load_permit.h"
#include "repo/model_key.h"
#include "repo/repo_environment.h"
#include "repo/repo_scan.h"
#include "store/store_hub.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct model;
struct repo;
struct strbuf;

enum version_state {
        VERSION_UNKNOWN,
        VERSION_LOADING,
        VERSION_READY,
        VERSION_UNLOADING,
        VERSION_UNAVAILABLE,
};

/* "UNKNOWN", "READY", "UNAVAILABLE", "LOADING", "UNLOADING". */
const char *version_state_name(enum version_state state);

struct repo_options {
        struct repo_environment env;
        const char *const      *paths; /* copied */
        size_t                  n_paths;
        unsigned                n_load_threads; /* limit of model versions that load at a time */
        unsigned                n_load_retries; /* further attempts for each version */
        bool                    is_followed;    /* models may come and go: the index reads the
                                              * directories */
        bool                    has_namespaces; /* each path is one; several may have a model of the
                                              * same name */
        bool        reports_reasons;            /* the error of a load request names the reason of a
                                              * failed poll */
        bool        is_strict_unload;           /* --chain-strict-unload */
        const char *model_name; /* --model-name: of a path that is one model; "" for none */
        struct store_hub_options stores; /* for remote repositories */
};

struct error *repo_new(const struct repo_options *options, struct repo **ret) NODISCARD;
/* All models must be unloaded and reaped. Waits for the loads and unloads that polls have
 * started. */
void repo_free(struct repo *r);

/* Checks that every path can be read. NOT_FOUND or a similar error "failed to read model repository
 * '<path>': ..." of the first one that cannot. */
struct error *repo_check_paths(struct repo *r) NODISCARD;
/* True when the last scan could read at least one path, or when there are no paths. */
bool repo_is_readable(struct repo *r);
/* Loads every model of every path. INTERNAL "failed to load all models" when one failed, or a path
 * could not be read; the others serve. */
struct error *repo_load_all(struct repo *r) NODISCARD;
/* The same for some models. "*" alone means all; INVALID_ARG when it is not alone. */
struct error *repo_load_named(struct repo *r, char *const *names, size_t n_names) NODISCARD;
/* Logs the names of the models that these two could not load, on one line. */
void repo_log_not_loaded(struct repo *r);

/* What a load request contains in place of what lies in the repository. */
struct load_parameter;
struct override_file;
struct repo_override {
        const char                  *config_json; /* NULL: the configuration of the file */
        const struct override_file  *files;       /* require config_json */
        size_t                       n_files;
        const struct load_parameter *parameters; /* see load_parameters.h; applied to config_json */
        size_t                       n_parameters;
        struct load_permit           permit; /* of the models that the above may name */
};

/* Loads a model, or makes what serves agree with its files; does nothing when it agrees already.
 * With namespaces it loads all models of that name; uploaded files are for the one model that the
 * name means. `o` may be NULL.
 * INTERNAL "failed to load '<m>', failed to poll from model repository" when there is nothing to
 * load. The log has the reason; with reports_reasons ": <reason>" follows.
 * INVALID_ARG "load failed for model '<m>': version <v> is at UNAVAILABLE state: <Code>: <text>;\n"
 * for each version that failed. */
struct error *repo_load(struct repo *r, const char *name, const struct repo_override *o) NODISCARD;
/* Unloads a model; returns when no new request can reach it. Does nothing when it is not loaded.
 * When it was unloaded earlier and still has live sequences, these end as soon as they have no
 * requests. Models that need it are not ready until it is loaded again. With namespaces it unloads
 * all models of that name. */
struct error *repo_unload(struct repo *r, const char *name) NODISCARD;
/* The same, also for the models that were loaded because this one needs them, unless other models
 * need them, or a request has loaded them since. Nothing is unloaded when the permit does not grant
 * one of the models that it needs, directly or indirectly: INVALID_ARG. */
struct error *repo_unload_with_needs(struct repo *r, const char *name,
                                     const struct load_permit *permit) NODISCARD;

/* Finds the file in the repository that the configuration of a READY version was read from. *ret_path is
 * owned by the caller; NULL when there is no such file or the configuration came with a load request.
 * *ret_is_changed: the file is another one than that of the load. Reads the directory. Errors as
 * repo_get(). */
struct error *repo_find_config_file(struct repo *r, const char *name, int64_t version,
                                    char **ret_path, bool *ret_is_changed) NODISCARD;

/* Scans the files once. Loads models that are new or changed and have not changed since the
 * previous scan. Unloads models that were absent in the previous scan too. Failures are logged.
 * Models of a repository that cannot be read now stay as they are. A later scan handles a change of
 * a model that is being loaded or unloaded now. */
void repo_poll(struct repo *r);
/* The same, but returns after the scan. Loads and unloads run in the background. */
void repo_start_poll(struct repo *r);

/* The directory of a name that means the repository itself: it is one model (bare_model.h). */
#define REPO_ITSELF "."

/* Adds or removes a repository: a directory, or the address of a store (store_url.h). Models that serve
 * do not change; after the removal the others are unknown. `names` gives the models of some directories
 * other names: one directory may have several, and each name means one directory of one repository,
 * whatever other directories are called. With the directory REPO_ITSELF the repository, which is not
 * remote, has no other model. INVALID_ARG "failed to register '<path>',
 * repository not found" (or unregister), "failed to register '<path>', there is a conflicting mapping
 * for '<name>'"; ALREADY_EXISTS "model repository '<path>' has already been registered", "failed to
 * register '<name>', there is a conflicting mapping for '<name>'". */
struct repo_name {
        const char *directory;
        const char *model;
};
struct error *repo_add_path(struct repo *r, const char *path, const struct repo_name *names,
                            size_t n_names) NODISCARD;
struct error *repo_remove_path(struct repo *r, const char *path) NODISCARD;

/* Prevents new changes, and ends downloads and warm-ups of the running ones. */
void repo_end_changes(struct repo *r);
/* The same, and waits for the running ones until that time. Returns how many still
 * run. */
size_t repo_stop_changes(struct repo *r, uint64_t until_ns);
/* Stops the schedulers of all models: they take no new requests. */
void repo_stop_all(struct repo *r);
/* Drops all models. Each ends with its last request. */
void repo_unload_all(struct repo *r);

/* Logs the model versions that were unloaded and have not ended. */
void repo_log_leaving(struct repo *r);

/* Returns a new reference to the model; version -1 = the highest READY one. Errors: the look-up
 * texts of the HTTP surface, NOT_FOUND or UNAVAILABLE.
 *
 * With namespaces a name alone is enough as long as one namespace has a model of that name that is
 * loaded, or was to be loaded, and was not unloaded since. INVALID_ARG "Request for unknown model:
 * '<m>' is not found" when none has, "There are <n> identifiers of model '<m>' in global map, model
 * namespace must be provided to resolve ambiguity." when several have.
 */
struct error *repo_get(struct repo *r, const char *name, int64_t version, struct model **ret)
        NODISCARD;
/* The same for a request. Without such a model it returns one that was replaced or unloaded and has
 * live sequences, because the request may continue one of these. */
struct error *repo_get_for_request(struct repo *r, const char *name, int64_t version,
                                   struct model **ret) NODISCARD;
/* Returns an error when the name is ambiguous; NULL for any other, known or not. */
struct error *repo_check_name(struct repo *r, const char *name) NODISCARD;
bool          repo_version_is_ready(struct repo *r, const char *name, int64_t version);
/* What the core knows of a readiness without a call of a backend. */
struct readiness {
        bool is_ready;      /* unless a backend reports something else */
        bool asks_backends; /* there are backends that may do so (TRITONBACKEND_ModelInstanceReady) */
};
struct readiness repo_version_readiness(struct repo *r, const char *name, int64_t version);
/* Strict readiness. True when every known version is READY, or UNAVAILABLE because it was unloaded,
 * and every model that was to be loaded at the start has versions, or was unloaded since. */
bool repo_all_ready(struct repo *r);
/* The same without the backends, in constant time. */
struct readiness repo_readiness(struct repo *r);

/* Prints the metric family neso_model_ready: 1 for each version that serves; 0 for one that loads, that
 * could not be loaded, or that another model's fault blocks, and for a model of the start that has no
 * version. Versions that were unloaded on purpose have no line. Backends are not called. */
void repo_print_ready(struct repo *r, struct strbuf *out);

/* One row of the index. Texts live until repo_index_done(). */
struct repo_index_entry {
        const char *name;
        const char *namespace;
        int64_t            version; /* -1 = none: the model was never loaded */
        enum version_state state;
        const char        *reason; /* NULL = none */
};

struct repo_index {
        struct repo_index_entry *entries; /* owned; texts are in `texts` and `scan` */
        size_t                   n_entries;
        struct arena             texts; /* of models in the table */
        struct repo_scan         scan;  /* empty when the directories were not read */
};

/* Reads the index, sorted by name, then namespace and version. */
void repo_index_read(struct repo *r, bool only_ready, struct repo_index *ret);
/* Prints the index as a JSON array. */
void repo_index_print(const struct repo_index *index, struct strbuf *out);
void repo_index_done(struct repo_index *index);

/* Lists the READY versions of a model, ascending. The caller owns *ret. Returns 0 when there is
 * none. */
size_t repo_ready_versions(struct repo *r, const struct model_key *key, int64_t **ret);
/* Lists references to the READY versions of the models of a name (NULL: of all), sorted by name,
 * namespace and version. The caller owns them. */
size_t repo_ready_models(struct repo *r, const char *name, struct model ***ret);

/* Lists references to the loads of the models of a name (NULL: of all) that serve or have live
 * sequences, the oldest first. The caller owns them. */
size_t repo_loads(struct repo *r, const char *name, struct model ***ret);
/* From now on the live sequences of these models end as soon as they have no requests. */
void repo_end_idle_sequences(struct repo *r, const char *name);
/* Calls `each` for the models that have requests in flight or live sequences, with their number,
 * for the log of a shutdown. Returns the number of such models. */
uint64_t repo_count_in_flight(struct repo *r,
                              void (*each)(const struct model *m, uint64_t n, void *userp),
                              void *userp);
