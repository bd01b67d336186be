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

#include <stdbool.h>

struct chain_metrics;
struct model;
struct scheduler;
struct step_models_holder;
struct timer_thread;

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
