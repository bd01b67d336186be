/* SPDX-License-Identifier: BSD-3-Clause */
/* The plan of a chain for one set of models: which output is connected to which input, which
 * outputs each stage is asked for, and the largest batch that all stages accept.
 *
 * Ownership.  A plan belongs to the snapshot of models that it was made for (sched/step_models.h).
 * Threads.  Immutable after chain_plan_new().
 */
#pragma once

#include "base/error.h"
#include "config/chain_line.h"

#include <stddef.h>
#include <stdint.h>

struct chain_metrics;
struct metric;
struct model;

/* One stage, and the connection of its outputs to the next one: by the map, or by name or position
 * when n_map is 0. */
struct chain_stage_model {
        struct model            *model;
        const struct chain_pair *map; /* borrowed during chain_plan_new() */
        size_t                   n_map;
};

struct planned_stage {
        struct model      *model;     /* borrowed: see chain_plan_stage() */
        struct chain_edge *edge;      /* owned; to the next stage; NULL for the last stage */
        const char       **outputs;   /* owned array: the names that the next stage reads */
        uint32_t           n_outputs; /* 0: it reads all outputs */
        struct metric     *failure;   /* borrowed: in the chain's metrics */
        struct metric     *handoff;   /* likewise; to the next stage */
};

struct chain_plan {
        uint32_t             n;
        uint32_t             max_batch;
        uint32_t             narrowest; /* index of the stage that sets max_batch */
        size_t               run_bytes; /* what the requests to all stages take (step_cost.h) */
        struct planned_stage stages[];
};

/* Errors: INVALID_ARG when the outputs of a stage do not fit the inputs of the next one, or a stage
 * before the last one is decoupled. */
struct error *chain_plan_new(const char *chain, struct chain_metrics *metrics,
                             const struct chain_stage_model *stages, size_t n,
                             struct chain_plan **ret) NODISCARD;
void          chain_plan_free(void *plan);
uint32_t      chain_plan_count(const struct chain_plan *p);
/* The model is borrowed from the snapshot. The first model of a chain by `next` is not in the
 * snapshot: it owns the chain. */
struct model *chain_plan_stage(const struct chain_plan *p, uint32_t at);
/* Returns the largest batch that all stages with batching accept; 0 when the first stage has no
 * batching. */
uint32_t chain_plan_max_batch(const struct chain_plan *p);
