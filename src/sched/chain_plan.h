/* SPDX-License-Identifier: BSD-3-Clause */
/* What a chain's stages are for one set of models, worked out once: which output goes to which input,
 * which outputs nobody takes, and the largest batch that all stages take.
 *
 * Threads.  Immutable once made.
 */
#pragma once

#include "base/error.h"
#include "config/chain_line.h"

#include <stddef.h>
#include <stdint.h>

struct chain_metrics;
struct metric;
struct model;

/* One stage, and how its outputs reach the next. */
struct chain_stage_model {
        struct model            *model;
        const struct chain_pair *map; /* borrowed during the call; n_map 0: by name or position */
        size_t                   n_map;
};

struct planned_stage {
        struct model      *model;     /* borrowed, see chain_plan_stage() */
        struct chain_edge *edge;      /* owned; to the next stage; NULL for the last */
        const char       **outputs;   /* owned array; what to ask for */
        uint32_t           n_outputs; /* 0: all */
        struct metric     *failure;   /* borrowed: the chain's metrics */
        struct metric     *handoff;   /* likewise; to the next stage */
};

struct chain_plan {
        uint32_t             n;
        uint32_t             max_batch;
        uint32_t             narrowest; /* the stage that sets it */
        struct planned_stage stages[];
};

/* INVALID_ARG when two neighbours do not fit, or one that is not the last is decoupled. */
struct error *chain_plan_new(const char *chain, struct chain_metrics *metrics,
                             const struct chain_stage_model *stages, size_t n,
                             struct chain_plan **ret) NODISCARD;
void          chain_plan_free(void *plan);
/* The models are borrowed from the snapshot, but for the first of a chain by `next`. */
uint32_t      chain_plan_count(const struct chain_plan *p);
struct model *chain_plan_stage(const struct chain_plan *p, uint32_t at);
/* The largest batch that every stage takes; 0: the first stage has no batches. */
uint32_t chain_plan_max_batch(const struct chain_plan *p);
