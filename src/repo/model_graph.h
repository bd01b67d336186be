/* SPDX-License-Identifier: BSD-3-Clause */
/* Which models need which: the steps of ensembles, the stages of chains.
 *
 *     model_graph_set(g, "pipeline", {"decode", "classify"})
 *     model_graph_order()       the order of loading: what a model needs comes before it
 *     model_graph_dependents()  who cannot serve without a model: the order of unloading
 *
 * Names that nobody has set need nothing. A model may need one that does not exist (yet).
 *
 * Ownership.  Copies the names that it is given. Names in answers are the graph's: borrowed until it
 * changes; the arrays are the caller's.
 * Threads.  One owner at a time.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct model_graph;

struct model_graph *model_graph_new(void);
void                model_graph_free(struct model_graph *g); /* NULL is fine */

/* Replaces what was known of the model. A name that is given twice counts once. */
void model_graph_set(struct model_graph *g, const char *model, const char *const *needs, size_t n);
/* It needs nothing any more; others may go on needing it. */
void model_graph_remove(struct model_graph *g, const char *model);

/* Names, in an order. */
struct model_order {
        const char **names; /* owned array of borrowed names */
        size_t       n;
};

void model_order_done(struct model_order *o);

/* The given models and all that they need, directly or not: each after those that it needs, else in
 * the order given. INVALID_ARG "circular dependency between ensembles: a -> b -> a" (the texts of
 * the models' names, the cycle once). */
struct error *model_graph_order(const struct model_graph *g, const char *const *models, size_t n,
                                struct model_order *ret) NODISCARD;
/* Models that need this one, directly or not, each before those that it needs: in this order they
 * are unloaded. Without the model itself. A cycle does no harm. */
void model_graph_dependents(const struct model_graph *g, const char *model,
                            struct model_order *ret);
