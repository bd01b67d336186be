/* SPDX-License-Identifier: BSD-3-Clause */
/* The other models that a model needs by its configuration: the steps of an ensemble, the stages of
 * a chain, the next model.
 *
 * Ownership.  model_needs_done() frees what model_needs_read() and model_needs_peek() make.
 * Threads.  One owner at a time.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct model_config;
struct repo_environment;

enum needs_kind {
        NEEDS_NOTHING,
        NEEDS_STEPS,  /* an ensemble */
        NEEDS_STAGES, /* platform "chain" */
        NEEDS_NEXT,   /* parameters.next */
};

struct model_need {
        char *name;      /* owned */
        char *namespace; /* owned; "" = that of the user, else any that has the model */
        int64_t version; /* -1: the highest that is ready */
};

struct model_needs {
        enum needs_kind    kind;
        bool               is_strict; /* chain_autoload: "false" */
        struct model_need *items;     /* owned; in the order of the steps, names may repeat */
        size_t             n;
};

/* Models that a request of a composed model may execute, with those of its steps. */
#define MAX_ALL_STEPS 8192

/* INVALID_ARG when a request of the model executes more. */
struct error *model_needs_check_size(const char *name, size_t n_all) NODISCARD;

/* Reads the needs. The error is that of chain_line_read(), or that of model_needs_check_size() for an ensemble
 * of too many steps. */
struct error *model_needs_read(const struct model_config *c, struct model_needs *ret) NODISCARD;
void          model_needs_done(struct model_needs *needs);

/* Reads the needs of a directory before anything is loaded. `config_json` replaces the file's
 * configuration; NULL: the file's. A configuration that cannot be read needs nothing: its load
 * reports why. */
struct error *model_needs_peek(const struct repo_environment *env, const char *name,
                               const char *directory, const char *config_json,
                               struct model_needs *ret) NODISCARD;
