/* SPDX-License-Identifier: BSD-3-Clause */
/* What a load is made of: the models that were asked for, and those that they need and that are not
 * loaded yet, each after those that it needs.
 *
 *     load_plan_init -> load_plan_add(), once for each model that was asked for
 *                    -> load_plan_run()  side by side as far as the order allows
 *                    -> items[i].error of each
 *
 * Ownership.  load_plan_done() frees it. Found models and configurations are borrowed.
 * Threads.  One owner; its items run on loader threads.
 */
#pragma once

#include "base/work_pool.h"
#include "repo/model_needs.h"
#include "repo/repo_scan.h"

#include <stdbool.h>

struct load_plan;
struct repo;

struct load_item {
        struct work               job;
        struct load_plan         *plan;
        const struct found_model *found;        /* borrowed */
        const char               *config_json;  /* borrowed; NULL: the file's */
        bool                      is_requested; /* as opposed to: another one needs it */
        bool                      is_dropped;   /* it is not loaded after all */
        struct model_needs        needs;
        struct load_item        **waits_for; /* owned array; items before this one */
        size_t                    n_waits;
        struct error             *error;   /* owned; of its load */
        struct error             *refusal; /* owned; of a chain that is declared wrongly */
        char                     *cycle;   /* owned; "A -> B -> A"; NULL: it closes none */
        bool                      is_done; /* guarded by the table's lock */
};

struct load_plan {
        struct repo *repo;
        const struct repo_scan
                          *scan;  /* borrowed; of all models; NULL: one is looked for at a time */
        struct repo_scan **scans; /* owned; of those that were looked for */
        size_t             n_scans;
        struct load_item **items; /* owned; each after those that it needs */
        size_t             n_items;
        /* The load itself. */
        struct error *(*load)(struct repo *r, struct load_item *item);
};

void load_plan_init(struct load_plan *p, struct repo *r, const struct repo_scan *scan);
void load_plan_done(struct load_plan *p);

/* What the model needs is read from its configuration. A model that is in the plan already is asked
 * for from now on, if this says so. */
struct load_item *load_plan_add(struct load_plan *p, const struct found_model *found,
                                const char *config_json, bool is_requested);
/* What this model, or one that it waits for (*ret_user), needs and is neither loaded nor in the plan;
 * NULL when there is no such thing. */
const struct model_need *load_plan_find_lacking(const struct load_plan  *p,
                                                const struct load_item  *item,
                                                const struct load_item **ret_user);
/* Is this one of those? */
bool load_plan_lacks(const struct load_plan *p, const struct load_item *item,
                     const struct model_need *need);
/* Leaves what was not asked for alone. */
void load_plan_drop_needs(struct load_plan *p);
/* Returns when all have ended. */
void load_plan_run(struct load_plan *p);
