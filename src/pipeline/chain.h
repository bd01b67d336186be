/* SPDX-License-Identifier: BSD-3-Clause */
/* The scheduler of chains: runs models one after the other. The outputs of a model are the inputs
 * of the next one.
 *
 *     submit(A) --> stage 1: A --end--> hand-off --> stage 2: B --...--> stage n --> response of A
 *
 * There are two kinds of chains. The parameter `next` of a model makes this model the first stage;
 * the chain scheduler then stands in front of the model's own scheduler. A request to this model
 * runs the whole chain, unless it is an inner request, has the parameter "chain": false, or has
 * runs_alone and not that parameter (request_runs_chain()). Stage 1 is an inner request for the same
 * model, so this scheduler gets it as well, and passes it to the model's own. A model of platform
 * "chain" is a chain itself; its stages are all other models.
 *
 * Each stage is an inner request. Its outputs stay where they are and are the inputs of the next
 * stage. The last stage writes into the client's memory (pipeline/client_memory.h). The runs whose
 * stage ends in the same execution on a thread are handed to the next stage together, so that
 * dynamic batching can make one batch of them again.
 *
 * Ownership.  A run has memory of the runner, and holds the snapshot of models that its request was
 * admitted with. A plan belongs to its snapshot.
 * Threads.  Any. One thread at a time uses a run; the hand-off passes it to the next one. Only a
 * cancellation may come from another thread at the same time.
 */
#pragma once

#include <stdbool.h>

struct chain_metrics;
struct scheduler;
struct step_memory;
struct step_models_holder;

struct chain_options {
        struct scheduler          *own;           /* taken; NULL for platform "chain" */
        struct step_models_holder *holder;        /* borrowed: outlives the scheduler */
        struct chain_metrics      *metrics;       /* borrowed, likewise */
        struct step_memory        *memory;        /* borrowed, likewise */
        bool                       may_end;       /* chain_allow_end */
        bool                       keeps_batches; /* chain_batching: "keep" */
};

struct scheduler *chain_new(const struct chain_options *o);
