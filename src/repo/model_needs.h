/* SPDX-License-Identifier: BSD-3-Clause */
/* Which other models a model needs, by its configuration: the steps of an ensemble, the stages of a
 * chain, the next model.
 *
 * Ownership.  model_needs_done() frees what model_needs_read() and _peek() made.
 * Threads.  One owner at a time.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct model_config;
struct repo_parts;
struct strbuf;

enum needs_kind {
        NEEDS_NOTHING,
        NEEDS_STEPS,  /* an ensemble */
        NEEDS_STAGES, /* platform "chain" */
        NEEDS_NEXT,   /* parameters.next */
};

struct model_need {
        char *name;      /* owned */
        char *namespace; /* owned; "" = the own one, else whichever has it */
        int64_t version; /* -1: the highest that is ready */
};

struct model_needs {
        enum needs_kind    kind;
        bool               is_strict; /* chain_autoload: "false" */
        struct model_need *items;     /* owned; in the order of the steps, names may repeat */
        size_t             n;
};

/* The error is that of chain_line_read(). */
struct error *model_needs_read(const struct model_config *c, struct model_needs *ret) NODISCARD;
void          model_needs_done(struct model_needs *needs);

/* The same of a directory that is to be loaded, before anything is. `config_json` instead of the
 * file's, NULL: the file's. A configuration that cannot be read needs nothing: its load says why. */
struct error *model_needs_peek(const struct repo_parts *parts, const char *name,
                               const char *directory, const char *config_json,
                               struct model_needs *ret) NODISCARD;
