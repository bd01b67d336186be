/* SPDX-License-Identifier: BSD-3-Clause */
/* The graph of models that need each other: steps of ensembles, stages of chains.
 *
 *     model_graph_set(g, "pipeline", {"decode", "classify"})
 *     model_graph_order()       the order of loading: a model comes after those that it needs
 *     model_graph_dependents()  models that cannot serve without a model: the order of unloading
 *
 * A model that was not set needs nothing. A model may need one that does not exist (yet).
 *
 * Ownership.  The graph copies the names that it gets. Names in results belong to the graph and are
 * borrowed until it changes. The arrays belong to the caller.
 * Threads.  One owner at a time.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct model_graph;

struct model_graph *model_graph_new(void);
void                model_graph_free(struct model_graph *g); /* NULL is fine */

/* Replaces the needs of the model. A name that is given twice counts once. */
void model_graph_set(struct model_graph *g, const char *model, const char *const *needs, size_t n);
/* Removes the needs of the model. Other models may still need it. */
void model_graph_remove(struct model_graph *g, const char *model);

/* Names in an order. */
struct model_order {
        const char **names; /* owned array of borrowed names */
        size_t       n;
};

void model_order_done(struct model_order *o);

/* Lists the given models and all that they need, directly or indirectly. Each model comes after
 * those that it needs, otherwise in the given order. False, and *ret is empty, when some of them form a
 * cycle (model_graph_find_cycle()). */
bool model_graph_order(const struct model_graph *g, const char *const *models, size_t n,
                       struct model_order *ret);
/* Lists the models of a cycle that this model needs or is part of, each once: each needs the next one,
 * and the last one needs the first. Empty when there is none. */
void model_graph_find_cycle(const struct model_graph *g, const char *model,
                            struct model_order *ret);
/* Prints the models of a cycle, the first one again at the end: "a -> b -> a". */
char *model_order_print_cycle(const struct model_order *cycle);
/* INVALID_ARG "chain of model '<m>' is circular: a -> b -> a". */
struct error *model_order_circular_chain(const char *model, const struct model_order *cycle)
        NODISCARD;
/* Lists the models that need this one, directly or indirectly, without the model itself. Each model
 * comes before those that it needs; models are unloaded in this order. Cycles are ignored. */
void model_graph_dependents(const struct model_graph *g, const char *model,
                            struct model_order *ret);
