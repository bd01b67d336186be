/* SPDX-License-Identifier: BSD-3-Clause */
/* What a loaded model has that needs other models: an ensemble, a chain, a model with a next one.
 *
 *     composed_model_bind()   looks its steps' models up; requests get these from now on, or are
 *                             refused with the reason
 *
 * The repository binds it when it is loaded and whenever one of those models is published or goes,
 * those that it needs first. Binding again is cheap when nothing has changed.
 *
 * Ownership.  Belongs to the loaded model.
 * Threads.  Binding: one thread at a time for each model. Requests go on meanwhile.
 */
#pragma once

#include "config/chain_line.h"
#include "repo/model_needs.h"
#include "sched/step_models.h"

struct chain_metrics;
struct loaded_model;

struct composed_model {
        struct loaded_model      *model; /* borrowed: it holds this */
        struct model_needs        needs;
        struct chain_line         line;    /* of chains */
        struct chain_metrics     *metrics; /* owned; of chains */
        struct step_models_holder holder;
};

/* *ret is NULL when the model needs no others. */
struct error *composed_model_new(struct loaded_model *l, struct composed_model **ret) NODISCARD;
void          composed_model_free(struct composed_model *c); /* NULL is fine */

/* Why it cannot serve. */
struct composed_block {
        char *why;      /* owned; NULL: it can */
        bool  is_fault; /* a model does not fit, as opposed to: it is not there */
};

void composed_model_bind(struct composed_model *c, struct composed_block *ret);

/* UNAVAILABLE or INVALID_ARG with the reason, for a load; takes it. NULL when there is none. */
struct error *composed_block_error(struct composed_block *b) NODISCARD;

/* The first step's model and the last one's, of a chain that is bound; a reference to the snapshot,
 * NULL when it is not. */
struct step_models *composed_model_get(struct composed_model *c);
