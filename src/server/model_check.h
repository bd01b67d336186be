/* SPDX-License-Identifier: BSD-3-Clause */
/* The check of one model's directory: reads it as a load does, up to the opening of its backend, and
 * collects all mistakes instead of stopping at the first.
 *
 * A text with mistakes is read to its end (pb_text_review.h), and the values that could be read are
 * checked. A problem that may only be a consequence of a mistake in the text is left out: a field whose
 * value was not read is called doubtful, and problems of doubtful fields, or of checks that depend on
 * them, are not reported.
 *
 * Ownership.  The caller sets the borrowed fields; model_check_done() frees the owned ones.
 * Threads.  One owner.
 */
#pragma once

#include "codec/json_writer.h"
#include "codec/pb_text_review.h"
#include "config/version_policy.h"
#include "server/problem_list.h"

#include <stdbool.h>

struct agent_registry;
struct backend_registry;
struct model_config;

/* Limit for one model. */
#define MODEL_CHECK_MAX_ERRORS 100

struct model_check_options {
        const struct backend_registry *backends; /* used to find libraries; none is opened */
        const char                    *backend_directory;
        const struct agent_registry   *agents; /* the same, for libraries of repository agents */
        const char                    *agent_directory;
        const char                    *scheduler_directory;
        const char                    *config_name; /* --model-config-name */
        const int32_t                 *gpus;        /* ids of this machine's usable GPUs */
        size_t                         n_gpus;
        double                         min_compute_capability; /* of these GPUs */
        bool                           auto_complete;
};

struct model_check {
        const struct model_check_options *options;     /* borrowed */
        const char                       *name;        /* borrowed */
        const char                       *directory;   /* borrowed */
        const char                       *repository;  /* borrowed; see model_check_key() */
        const char                       *key;         /* borrowed; likewise */
        char                             *config_path; /* owned; NULL: no file */
        struct pb_text_review             review; /* mistakes and places in the text of the file */
        struct model_config              *config; /* owned; NULL when it could not be read */
        struct version_pick               versions;
        struct problem_list               problems;
        struct problem_list               notes; /* see config_notes.h */
};

void model_check_run(struct model_check *c);
/* Adds a mistake that was found by a comparison with other models; takes the error. */
void model_check_refuse(struct model_check *c, struct error *err);
void model_check_done(struct model_check *c);

/* Prints {"name", "directory", "file", "problems", "notes", "versions", "config", "batch_plan"}. The
 * last three only without errors, the configuration completed and normalised, the plan only for composite models. */
struct error *model_check_print(const struct model_check *c, struct json_writer *w) NODISCARD;

/* How names of models are resolved. A configuration names a model of its own repository, or, with a
 * namespace (the path of a repository), a model of that one. A key identifies a model within one
 * check: the name for a model of the repository that is checked, "<repository>::<name>" for any other. */

/* The repository of a model that a model of `repository` names with `namespace` ("": none); borrowed. */
const char *model_check_repository(const char *repository, const char *namespace);
/* The key of a model; owned by the caller. `checked` is the repository that is checked. */
char *model_check_key(const char *checked, const char *repository, const char *name);
