/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of an ensemble against the models of its steps: the inputs and outputs that it maps exist,
 * their data types and shapes agree wherever a tensor is named, and no step mixes the responses of
 * different decoupled models.
 *
 * Shapes agree without their batch dimension, or with it: a tensor may pass between a model with
 * batching and one without, whose first dim is the other's batch dimension.
 *
 * Threads.  Pure functions.
 */
#pragma once

#include "config/ensemble_graph.h"

/* The model of one step. */
struct ensemble_step_model {
        const Inference__ModelConfig *pb; /* NULL: not known; the step is not checked */
        bool may_be_completed;            /* by its backend: missing fields are accepted */
        bool is_decoupled;                /* for a nested ensemble: as computed by
                                           * ensemble_models_streams() */
};

/* `models`: one for each step. Errors, with the wrong field of the ensemble's configuration:
 * "ensemble <e> allows maximum batch size <n>, but ...", "in ensemble <e>, ...". */
struct error *ensemble_models_check(const struct ensemble_graph      *g,
                                    const struct ensemble_step_model *models) NODISCARD;

/* Streams.  Tensors that exist once for each request are stream 0. Each decoupled step, in order,
 * begins a stream, with one element for each response that it sends. A step reads tensors of one
 * stream.
 *
 * ret_streams[tensor]; *ret_n counts the decoupled steps: the ensemble is decoupled when it is not
 * 0. Both may be NULL. Error: "in ensemble <e>, step of model '<m>' receives inputs originated from
 * different decoupled models". */
struct error *ensemble_models_streams(const struct ensemble_graph      *g,
                                      const struct ensemble_step_model *models,
                                      uint32_t *ret_streams, uint32_t *ret_n) NODISCARD;
