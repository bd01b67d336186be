/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads a model's directory: its configuration file and its versions.
 *
 * Ownership.  model_files_done() frees what model_files_read() makes.
 * Threads.  One owner at a time.
 */
#pragma once

#include "base/error.h"
#include "config/model_config.h"
#include "config/version_policy.h"
#include "repo/config_origin.h"
#include "repo/model_key.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct agent_list;
struct override_files;
struct dir_fingerprint;
struct repo_environment;
struct store_copy;

/* Where a load finds a model. */
struct model_source {
        struct model_key       key;
        const char            *repository;         /* its path; "" for uploaded files */
        const char            *directory;          /* of the model, or of the uploaded files; an
                                                    * address in a remote repository */
        struct store_copy     *copy;               /* borrowed: of the remote directory; NULL: the
                                                    * directory is local */
        bool                   is_mapped;          /* the name was given at the registration of the
                                                    * repository: that in the configuration does
                                                    * not count */
        const char            *config_json;        /* replaces the file's; NULL: the file's */
        uint64_t               config_fingerprint; /* of the file that config_json replaces */
        struct override_files *override;           /* borrowed: uploaded files; NULL: none */
        uint64_t               files; /* digest of their fingerprint; 0: unknown (change_goal.h) */
        /* A replacement of what serves is dropped when the files changed while they were read: it
         * may be made of half-written files. */
        bool must_be_unchanged;
};

/* The content of a directory, before any backend is involved. */
struct model_files {
        char *name;                          /* owned */
        char *namespace;                     /* owned */
        char                  *directory;    /* owned; an agent may set another one */
        struct override_files *override;     /* ref; NULL: no uploaded files */
        struct store_copy     *copy;         /* ref; holds the directory; NULL: it is not remote */
        struct agent_list     *agents;       /* ref; NULL: the model has no agents */
        char                  *given_config; /* owned; JSON of the given configuration, without what
                                              * can change while the model serves */
        char                *effective_config; /* owned; the same after filling and normalisation */
        struct model_config *config;           /* owned; filled, normalised, checked */
        struct config_origin origin;           /* owned; empty when uploaded code is allowed */
        struct version_pick  versions;         /* owned; picked by the version policy */
        struct error        *no_version;       /* owned; why there is none; or NULL */
        const atomic_uint   *n_superseding;    /* borrowed: that of the entry; NULL: none */
};

/* The fingerprint of the source's directory. */
struct error *model_source_fingerprint(const struct model_source *source,
                                       struct dir_fingerprint   **ret) NODISCARD;

/* Reads `<directory>/config.pbtxt` (or the named file), runs the agents that it names, fills in
 * what it leaves out, checks it and picks versions. Warnings about odd directories go to the log.
 * On an error the agents get LOAD_FAIL. A remote directory is read in its local copy, which must be
 * complete. */
struct error *model_files_read(const struct repo_environment *env,
                               const struct model_source *source, struct model_files *ret)
        NODISCARD;
void model_files_done(struct model_files *f);

/* Prints `config` without its instance groups and its version policy, as JSON that the caller owns.
 * A model whose text stays the same need not be loaded again. */
struct error *model_files_print_given_config(const struct model_config *config, char **ret)
        NODISCARD;

/* The single steps, for tools that report every mistake and not only the first. */

/* Returns the path of the configuration file, owned by the caller; NULL when there is none.
 * `config_name` is --model-config-name, "" for none. */
char *model_files_find_config(const char *config_name, const char *directory);
/* Adds the versions of the directory to `scan`. *ret_first is the path of the first sub-directory,
 * owned by the caller; it is not written when there is none. */
struct error *model_files_scan(const char *directory, struct version_scan *scan, char **ret_first)
        NODISCARD;
/* Fills in what the configuration leaves out, from the files of the first sub-directory. */
struct error *model_files_fill(struct model_config *config, const char *name,
                               const char *first_path) NODISCARD;
