/* SPDX-License-Identifier: BSD-3-Clause */
/* The plan of a chain for one set of models: which output is connected to which input, and the
 * largest batch that all stages accept.
 *
 * Ownership.  As of the plan, see pipeline/pipeline_plan.h.
 * Threads.  Immutable after chain_plan_new().
 */
#pragma once

#include "base/error.h"
#include "config/chain_line.h"
#include "pipeline/pipeline_plan.h"

#include <stddef.h>
#include <stdint.h>

struct chain_metrics;
struct model;
struct step_models;

/* One stage, and the connection of its outputs to the next one: by the map, or by name or position
 * when n_map is 0. */
struct chain_stage_model {
        struct model            *model;
        struct step_models      *nested; /* of the model's own steps; may be NULL */
        const struct chain_pair *map;    /* borrowed during chain_plan_new() */
        size_t                   n_map;
};

struct chain_plan {
        struct pipeline_plan base; /* each stage is a step */
        uint32_t             max_batch;
        uint32_t             narrowest; /* index of the stage that sets max_batch */
};

/* Errors: INVALID_ARG when the outputs of a stage do not fit the inputs of the next one, or a stage
 * before the last one is decoupled. */
struct error *chain_plan_new(const char *chain, struct chain_metrics *metrics,
                             const struct chain_stage_model *stages, size_t n,
                             struct chain_plan **ret) NODISCARD;
void          chain_plan_free(void *plan);
uint32_t      chain_plan_count(const struct chain_plan *p);
/* The model is borrowed from the snapshot; the first one of a chain by `next` owns the holder. */
struct model *chain_plan_stage(const struct chain_plan *p, uint32_t at);
/* Returns the largest batch that all stages with batching accept; 0 when the first stage has no
 * batching. */
uint32_t chain_plan_max_batch(const struct chain_plan *p);
