/* SPDX-License-Identifier: BSD-3-Clause */
/* A model's directory: its configuration file and its versions.
 */
#pragma once

#include "base/error.h"
#include "config/model_config.h"
#include "config/version_policy.h"
#include "repo/model_key.h"

#include <stdbool.h>
#include <stdint.h>

struct agent_list;
struct override_files;
struct repo_parts;

/* Where to look. */
struct model_source {
        struct model_key key;
        const char      *repository;         /* its path; "" when files were sent */
        const char      *directory;          /* of the model there, or where the override is */
        const char      *config_json;        /* instead of the file's; NULL: the file's */
        uint64_t         config_fingerprint; /* with it: of the file, see struct dir_fingerprint */
        struct override_files *override;     /* borrowed: what was sent; NULL when nothing was */
        bool                   must_be_unchanged; /* what serves is not replaced when files changed
                                                 while they were read: it may be half of them */
};

/* What a directory says before any backend is asked. */
struct model_files {
        char *name;                       /* owned */
        char *namespace;                  /* owned */
        char                  *directory; /* owned; the source's, or where an agent put the model */
        struct override_files *override;  /* ref; NULL unless files were sent */
        struct agent_list     *agents;    /* ref; NULL: the model has none */
        char *given_config;              /* owned; the configuration as given, as JSON, without what
                                       * can be changed while the model serves */
        char *effective_config;          /* owned; the same once it is filled and normalised */
        struct model_config *config;     /* owned; filled, normalised, checked */
        struct version_pick  versions;   /* owned; under the version policy */
        struct error        *no_version; /* owned; why there is none; NULL: there are */
};

/* Reads `<directory>/config.pbtxt` (or the named one), lets the agents that it names have their
 * turn, fills in what it leaves out, checks it and picks versions. Warnings about odd directories
 * go to the log. When it fails, the agents are told that the load has failed. */
struct error *model_files_read(const struct repo_parts *parts, const struct model_source *source,
                               struct model_files *ret) NODISCARD;
void          model_files_done(struct model_files *f);

/* `config` without its instance groups and its version policy, as JSON that the caller owns. What
 * is the same here need not be loaded again. */
struct error *model_files_print_given_config(const struct model_config *config, char **ret)
        NODISCARD;

/* The steps, for who wants to know of every mistake instead of the first. */

/* The configuration file's path, owned by the caller; NULL when there is none. `config_name` is
 * --model-config-name, "" for none. */
char *model_files_find_config(const char *config_name, const char *directory);
/* *ret_first is the path of the first sub-directory, owned by the caller; it stays as it is when
 * there is none. */
struct error *model_files_scan(const char *directory, struct version_scan *scan, char **ret_first)
        NODISCARD;
/* What the first sub-directory holds fills in what the configuration leaves out. */
struct error *model_files_fill(struct model_config *config, const char *name,
                               const char *first_path) NODISCARD;
