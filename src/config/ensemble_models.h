/* SPDX-License-Identifier: BSD-3-Clause */
/* An ensemble against the models of its steps: the inputs and outputs that it maps exist, their data
 * types and shapes agree wherever a tensor is named, and no step mixes the responses of different
 * decoupled models.
 *
 * Shapes agree without their batch dimension, or with it: a tensor may pass between a model with
 * batching and one without, whose dims begin with what is the batch for the other.
 *
 * Threads.  Pure functions.
 */
#pragma once

#include "config/ensemble_graph.h"

/* The model of one step. */
struct ensemble_step_model {
        const Inference__ModelConfig *pb; /* NULL: not known, nothing is checked */
        bool may_be_completed;            /* by its backend: what it leaves out is not missed */
        bool is_decoupled;                /* of a nested ensemble: as computed here */
};

/* `models`: one for each step. Errors, with the field of the ensemble's configuration that is wrong:
 * "ensemble <e> allows maximum batch size <n>, but ...", "in ensemble <e>, ...". */
struct error *ensemble_models_check(const struct ensemble_graph      *g,
                                    const struct ensemble_step_model *models) NODISCARD;

/* Streams.  What comes once for each request is stream 0. Each decoupled step, in order, begins a
 * stream: as many tensors as it sends responses. A step reads tensors of one stream.
 *
 * ret_streams[tensor]; *ret_n counts the decoupled steps: the ensemble is decoupled when it is not 0.
 * Both may be NULL. Error: "in ensemble <e>, step of model '<m>' receives inputs originated from
 * different decoupled models". */
struct error *ensemble_models_streams(const struct ensemble_graph      *g,
                                      const struct ensemble_step_model *models,
                                      uint32_t *ret_streams, uint32_t *ret_n) NODISCARD;
