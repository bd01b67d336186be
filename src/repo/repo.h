/* SPDX-License-Identifier: BSD-3-Clause */
/* The models of a server: which there are, in which state, how to get at one, how to change them.
 *
 *     UNKNOWN -> LOADING -> READY -> UNLOADING -> UNAVAILABLE ("unloaded")
 *                   '-----> UNAVAILABLE ("<Code>: <text>")
 *
 * A change never takes away what serves before its successor is ready: new versions are loaded
 * and warmed up beside the old ones, then swapped in under the table's lock; the old end with their
 * last request. When one version of a model fails, nothing of that model changes. There is one
 * change of a model at a time, different models change side by side.
 *
 * Ownership.  The repository holds one reference to each READY version.
 * Threads.  Any. The table is guarded by a mutex of rank LOCK_MODEL, held for look-ups only;
 * loading runs on the caller's thread and on a pool of loader threads with no lock held.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "repo/model_key.h"
#include "repo/repo_parts.h"
#include "repo/repo_scan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct model;
struct repo;

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
        struct repo_parts  parts;
        const char *const *paths; /* copied */
        size_t             n_paths;
        unsigned           n_load_threads; /* model versions that are loaded at a time */
        unsigned           n_load_retries; /* further attempts for each version */
        bool               is_followed; /* models may come and go: the index looks at the files */
        bool               has_namespaces;   /* each path is one, for names that several have */
        bool               reports_reasons;  /* of failed polls, to who asked for the load */
        bool               is_strict_unload; /* --chain-strict-unload */
};

struct error *repo_new(const struct repo_options *options, struct repo **ret) NODISCARD;
/* All models must be unloaded and reaped. Waits for what polls have begun. */
void repo_free(struct repo *r);

/* Can every path be read? NOT_FOUND and the like "failed to read model repository '<path>': ..." of
 * the first that cannot. */
struct error *repo_check_paths(struct repo *r) NODISCARD;
/* Could one of its paths, if it has any, be read when somebody looked last? */
bool repo_is_readable(struct repo *r);
/* Loads every model of every path; INTERNAL "failed to load all models" when one failed, or a path
 * could not be read: the others serve. */
struct error *repo_load_all(struct repo *r) NODISCARD;
/* The same for some; "*" alone means all. INVALID_ARG when it is not alone. */
struct error *repo_load_named(struct repo *r, char *const *names, size_t n_names) NODISCARD;

/* What a request brings along instead of what lies in the repository. */
struct load_parameter;
struct override_file;
struct repo_override {
        const char                  *config_json; /* NULL: the file's */
        const struct override_file  *files;       /* need config_json */
        size_t                       n_files;
        const struct load_parameter *parameters; /* see load_parameters.h; over config_json */
        size_t                       n_parameters;
};

/* Loads a model, or makes what serves agree with its files: nothing when it does already. With
 * namespaces all models of that name; files that are sent are for the one that the name means.
 * `o` may be NULL. INTERNAL "failed to load '<m>', failed to poll from model repository" when there
 * is nothing to load (the log has the reason; with reports_reasons ": <reason>" follows); INVALID_ARG
 * "load failed for model '<m>': version <v> is at UNAVAILABLE state: <Code>: <text>;\n" for each
 * version that failed. */
struct error *repo_load(struct repo *r, const char *name, const struct repo_override *o) NODISCARD;
/* Returns once no new request gets to it; models that need it are not ready until it is loaded again.
 * Nothing when it is not loaded; of one that was unloaded and has live sequences, these end as soon
 * as they have no requests. With namespaces all models of that name. */
struct error *repo_unload(struct repo *r, const char *name) NODISCARD;
/* And the models that were loaded because this one needs them, unless others need them, or somebody
 * has asked for them since. */
struct error *repo_unload_with_needs(struct repo *r, const char *name) NODISCARD;

/* Looks at the files once: loads what is new or changed and has been still since the look before,
 * unloads what has been gone since then. Failures are logged. Models of a repository that cannot be
 * read now stay as they are; of one that is being loaded or unloaded a later look sees to what has
 * changed. */
void repo_poll(struct repo *r);
/* The same, and returns when it has looked: loads and unloads go on behind it. */
void repo_start_poll(struct repo *r);

/* One more repository, one fewer; its models are not touched. `names` gives directories of the
 * repository another name as a model. */
struct repo_name {
        const char *directory;
        const char *model;
};
struct error *repo_add_path(struct repo *r, const char *path, const struct repo_name *names,
                            size_t n_names) NODISCARD;
struct error *repo_remove_path(struct repo *r, const char *path) NODISCARD;

/* No change may begin any more; waits for those at work until the time has come. Returns how many
 * are left. */
size_t repo_stop_changes(struct repo *r, uint64_t until_ns);
/* Stops schedulers (no new requests) of all models. */
void repo_stop_all(struct repo *r);
/* Drops all models; they end when their last request does. */
void repo_unload_all(struct repo *r);

/* A new reference to the model; version -1 = the highest READY one. Errors: the look-up texts of
 * the HTTP surface, NOT_FOUND or UNAVAILABLE.
 *
 * With namespaces a name alone is enough as long as one namespace has a model of it that is, or
 * was to be, loaded and was not unloaded since. INVALID_ARG "Request for unknown model: '<m>' is
 * not found" when none has, "There are <n> identifiers of model '<m>' in global map, model
 * namespace must be provided to resolve ambiguity." when several have. */
struct error *repo_get(struct repo *r, const char *name, int64_t version, struct model **ret)
        NODISCARD;
/* The same for a request; without such a model, one that was replaced or unloaded and has live
 * sequences: the request may be the next one of such a sequence. */
struct error *repo_get_for_request(struct repo *r, const char *name, int64_t version,
                                   struct model **ret) NODISCARD;
/* The error of an ambiguous name; NULL for any other, known or not. */
struct error *repo_check_name(struct repo *r, const char *name) NODISCARD;
bool          repo_version_is_ready(struct repo *r, const char *name, int64_t version);
/* Strict readiness: every known version is READY, or UNAVAILABLE because it was unloaded; and every
 * model that was to be loaded at the start has versions, or was unloaded since. */
bool repo_all_ready(struct repo *r);

/* One line of the index. Texts live until repo_index_done(). */
struct repo_index_entry {
        const char *name;
        const char *namespace;
        int64_t            version; /* -1 = none: the model was never loaded */
        enum version_state state;
        const char        *reason; /* NULL = none */
};

struct strbuf;

struct repo_index {
        struct repo_index_entry *entries; /* owned; texts are in: */
        size_t                   n_entries;
        size_t                   cap_entries;
        struct arena             texts; /* of models in the table */
        struct repo_scan         scan;  /* empty when the directories do not matter */
};

/* Sorted by name, then namespace and version. */
void repo_index_read(struct repo *r, bool only_ready, struct repo_index *ret);
/* As a JSON array. */
void repo_index_print(const struct repo_index *index, struct strbuf *out);
void repo_index_done(struct repo_index *index);

/* READY versions of a model, ascending; *ret is owned by the caller. 0 when there is none. */
size_t repo_ready_versions(struct repo *r, const struct model_key *key, int64_t **ret);
/* References to the READY versions of the models of a name (NULL: of all), sorted by name, namespace
 * and version; owned by the caller. */
size_t repo_ready_models(struct repo *r, const char *name, struct model ***ret);

/* References to the loads of the models of a name (NULL: of all) that serve or have live sequences,
 * the oldest first; owned by the caller. */
size_t repo_loads(struct repo *r, const char *name, struct model ***ret);
/* From now on the sequences of these end as soon as they have no requests. */
void repo_hurry_sequences(struct repo *r, const char *name);
/* Models that have requests in flight or live sequences, and how many, for the log of a shutdown. */
uint64_t repo_count_in_flight(struct repo *r,
                              void (*each)(const struct model *m, uint64_t n, void *userp),
                              void *userp);
