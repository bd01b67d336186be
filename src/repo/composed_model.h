/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of a loaded model that needs other models: an ensemble, a chain, a model with a next
 * model.
 *
 *     composed_model_bind()   looks up the models of its steps; requests use these from now on, or
 *                             are refused with the reason
 *
 * The repository binds a model when it is loaded, and whenever one of the models that it needs is
 * published or removed. A model is bound after those that it needs. A binding without changes is
 * cheap.
 *
 * Ownership.  The loaded model owns it.
 * Threads.  Binding: one thread at a time for each model. Requests continue meanwhile.
 */
#pragma once

#include "config/chain_line.h"
#include "pipeline/step_models.h"
#include "repo/model_needs.h"

struct chain_metrics;
struct loaded_model;
struct scheduler;

struct composed_model {
        struct loaded_model      *model; /* borrowed: it holds this */
        struct model_needs        needs;
        struct chain_line         line;    /* for chains */
        struct chain_metrics     *metrics; /* owned; for chains */
        struct step_models_holder holder;
};

/* *ret is NULL when the model needs no other models. */
struct error *composed_model_new(struct loaded_model *l, struct composed_model **ret) NODISCARD;
void          composed_model_free(struct composed_model *c); /* NULL is fine */

/* Why the model cannot serve. */
struct composed_block {
        char *why;      /* owned; NULL: it can serve */
        bool  is_fault; /* a needed model does not fit; false: it is missing */
};

/* The scheduler of the chain that begins with the model; takes `own`, the model's own, which may be NULL. */
struct scheduler *composed_model_chain(struct composed_model *c, struct scheduler *own);

void composed_model_bind(struct composed_model *c, struct composed_block *ret);

/* Returns UNAVAILABLE or INVALID_ARG with the reason, for a load. Takes the reason. NULL when there
 * is none. */
struct error *composed_block_error(struct composed_block *b) NODISCARD;

/* Returns a new reference to the snapshot of the models: one for each step, in their order; with `next`,
 * stages 2..n: the first model owns the holder. NULL when the model is not bound. */
struct step_models *composed_model_get(struct composed_model *c);
