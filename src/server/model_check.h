/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads one model's directory as a load does, up to where its backend would be opened, and collects
 * what is wrong instead of stopping at the first mistake.
 *
 * A text with mistakes is read to its end (pb_text_recover.h), and what could be read is checked. A
 * report that may only follow from a mistake in the text is left out: one about a field, or that
 * depends on one, whose value was not read.
 *
 * Ownership.  model_check_done() frees.
 * Threads.  One owner.
 */
#pragma once

#include "base/strbuf.h"
#include "codec/json_writer.h"
#include "codec/pb_text_recover.h"
#include "config/version_policy.h"
#include "server/problem_list.h"

#include <stdbool.h>

struct agent_registry;
struct backend_registry;
struct model_config;

/* Of one model. */
#define MODEL_CHECK_MAX_ERRORS PB_RECOVERY_MAX_ERRORS

struct model_check_options {
        const struct backend_registry *backends; /* where their libraries are; none is opened */
        const char                    *backend_directory;
        const struct agent_registry   *agents; /* the same of repository agents */
        const char                    *agent_directory;
        const char                    *scheduler_directory;
        const char                    *config_name; /* --model-config-name */
        bool                           auto_complete;
};

struct model_check {
        const struct model_check_options *options;     /* borrowed */
        const char                       *name;        /* borrowed */
        const char                       *directory;   /* borrowed */
        const char                       *repository;  /* borrowed; see server/check_names.h */
        const char                       *key;         /* borrowed; likewise */
        char                             *config_path; /* owned; NULL: there is no file */
        struct strbuf                     text;        /* the file's; empty when there is none */
        struct pb_recovery                recovery;    /* from the mistakes of the text */
        struct model_config              *config;      /* owned; NULL when it could not be read */
        struct version_pick               versions;
        struct problem_list               problems;
};

void model_check_run(struct model_check *c);
/* One more mistake, which others than the model itself show; takes the error. */
void model_check_refuse(struct model_check *c, struct error *err);
void model_check_done(struct model_check *c);

/* {"name", "directory", "file", "problems", "versions", "config"}; the last two, filled in and
 * normalised, only without errors. */
struct error *model_check_print(const struct model_check *c, struct json_writer *w) NODISCARD;
