/* SPDX-License-Identifier: BSD-3-Clause */
/* The dependency graph of a load: the requested models, and the models that these need and that are not
 * loaded yet. Each model comes after those that it needs.
 *
 *     load_graph_init -> load_graph_add(), once for each requested model
 *                     -> load_graph_hold() no unload removes what the graph relies on
 *                     -> load_graph_run()  in parallel as far as the order allows
 *                     -> items[i].error of each
 *
 * Ownership.  load_graph_done() frees it. Found models and configurations are borrowed.
 * Threads.  One owner. Its items run on loader threads.
 */
#pragma once

#include "base/work_pool.h"
#include "repo/load_hold.h"
#include "repo/load_user.h"
#include "repo/model_needs.h"
#include "repo/repo_scan.h"

#include <stdbool.h>

/* How many models may lie between a requested one and the last that it needs. No usable line of models
 * is longer. */
#define LOAD_GRAPH_MAX_DEPTH 64

struct load_graph;
struct repo;

struct load_item {
        struct work               job;
        struct load_graph        *graph;
        const struct found_model *found;        /* borrowed */
        const char               *config_json;  /* borrowed; NULL: the file's */
        bool                      is_requested; /* false: only another model needs it */
        bool                      is_dropped;   /* it is not loaded */
        uint64_t                  n_looks; /* n_looks of the graph when it was looked at last */
        struct model_needs        needs;
        struct load_item        **waits_for; /* owned array; items before this one */
        size_t                    n_waits;
        struct error             *error;      /* owned; the error of its load */
        struct error             *refusal;    /* owned; the error of an invalid chain declaration */
        const struct error       *refused_by; /* borrowed: its refusal, or that of one it needs */
        char                     *cycle; /* owned; text of the cycle that it closes; NULL: none */
        const struct model_need
                *too_deep; /* the last need of it that was not added for that; or NULL */
        bool     is_done;  /* guarded by the table's lock */
};

struct load_graph {
        struct repo            *repo;
        const struct repo_scan *scan;  /* borrowed; all models; NULL: one model at a time */
        struct repo_scan      **scans; /* owned; one for each model that was scanned for */
        size_t                  n_scans;
        struct load_user        user; /* that of the thread that makes the graph */
        struct load_hold        hold;
        uint64_t                n_unloads; /* r->n_unloads when the graph was begun */
        struct load_item      **items;     /* owned; each after those that it needs */
        size_t                  n_items;
        uint64_t                n_looks; /* calls of load_graph_find_lacking() */
        /* Loads one item. */
        struct error *(*load)(struct repo *r, struct load_item *item);
};

void load_graph_init(struct load_graph *p, struct repo *r, const struct repo_scan *scan);
void load_graph_done(struct load_graph *p);

/* Adds a model, and the models that it needs by its configuration. A model that is in the graph
 * already becomes a requested one when `is_requested` is set. */
struct load_item *load_graph_add(struct load_graph *p, const struct found_model *found,
                                 const char *config_json, bool is_requested);
/* Returns a model that this item, or an item for which it waits (*ret_user), needs and that is
 * neither loaded nor in the graph; NULL when there is none. */
const struct model_need *load_graph_find_lacking(struct load_graph *p, struct load_item *item,
                                                 const struct load_item **ret_user);
/* True when `need` is such a model for this item. */
bool load_graph_lacks(const struct load_graph *p, const struct load_item *item,
                      const struct model_need *need);
/* Why this item cannot be loaded: its refusal, or that of an item that it needs and that is not loaded
 * now. Those have ended. NULL: nothing refuses it. */
const struct error *load_graph_find_refusal(const struct load_graph *p,
                                            const struct load_item  *item);
/* Returns a model of a chain that this item needs, whose load has failed and left no trace: its files
 * could not be read, for example. NULL: there is none. */
const struct model_need *load_graph_find_failed(const struct load_graph *p,
                                                const struct load_item  *item);
/* Drops all items that were not requested. */
void load_graph_drop_needs(struct load_graph *p);
/* Holds the models of the graph and all that they need, until load_graph_release(). False, after a
 * wait perhaps: a model was unloaded since load_graph_init(), so the graph may be wrong and must be made
 * again. `is_last`: holds them anyway. */
bool load_graph_hold(struct load_graph *p, bool is_last) NODISCARD;
void load_graph_release(struct load_graph *p);
/* Runs all items; returns when all have ended. */
void load_graph_run(struct load_graph *p);
