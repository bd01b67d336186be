/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a chain: models one after the other, each with the outputs of the one before.
 *
 *     submit(A) --> stage 1: A --on_end--> hand-off --> stage 2: B --...--> stage n --> response of A
 *
 * A chain is declared by `next` of its first model, which then has this scheduler in front of its
 * own: a request runs the whole chain, unless it says "chain": false or is a step of another model.
 * Or it is a model of its own (platform "chain"), whose stages are all other models.
 *
 * Each stage is an inner request. Its outputs stay where they are and are the next stage's inputs.
 * The last stage writes into the memory that whoever asked gives (sched/chain_memory.h). What one execution
 * ends on a thread is handed to the next stage together: with dynamic batching it can be one batch
 * again.
 *
 * Ownership.  A run lives in the arena of the request that it serves, and holds the snapshot of the
 * models that the request was admitted with. A plan belongs to its snapshot.
 * Threads.  Any. A run is passed on from stage to stage, so it has one thread at a time; only a
 * cancellation comes from others.
 */
#pragma once

#include "base/error.h"
#include "config/chain_line.h"

#include <stdbool.h>
#include <stdint.h>

struct chain_metrics;
struct json_writer;
struct model;
struct scheduler;
struct step_models;
struct step_models_holder;
struct timer_thread;

/* ---- what the stages are, for one set of models ---- */

/* One stage, and how its outputs reach the next. */
struct chain_stage_model {
        struct model            *model;
        const struct chain_pair *map; /* borrowed during the call; n_map 0: by name or position */
        size_t                   n_map;
};

struct chain_plan;

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

/* ---- the scheduler ---- */

struct chain_options {
        struct model              *model;
        struct scheduler          *own;     /* taken; of the first model; NULL: platform "chain" */
        struct step_models_holder *holder;  /* borrowed: outlives the scheduler */
        struct chain_metrics      *metrics; /* borrowed, likewise */
        struct timer_thread       *timers;  /* borrowed, likewise */
        bool                       may_end; /* chain_allow_end */
        bool                       keeps_batches; /* chain_batching: "keep" */
};

struct scheduler *chain_new(const struct chain_options *o);
