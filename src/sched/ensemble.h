/* SPDX-License-Identifier: BSD-3-Clause */
/* The scheduler of ensembles: runs a graph of models. Each step is an inner request.
 *
 *     submit -> inputs -> steps that have all their inputs start, in parallel
 *                  step ends -> its outputs are available -> further steps start ...
 *                        last step ends -> response of the ensemble, release
 *
 * The outputs of a step stay where the step wrote them; the next step reads them there. The last
 * step writes the requested outputs into memory of the client's allocator, so the response only
 * points at them. Steps that no requested output needs do not run.
 *
 * Steps of fast models run one after the other on one thread (infer/submitter.h). A step that would
 * exceed max_inflight_requests waits in a queue and occupies no thread (sched/step_limit.h).
 *
 * A request has one deadline. The timeout of a step is the rest of the request's timeout, and no
 * step starts after the deadline. The error of the first step that fails is the error of the
 * request: "in ensemble '<e>', <text>". It is sent after all steps that were started have ended. A
 * cancellation is passed to the running steps.
 *
 * Ownership.  The ensemble's model owns the scheduler. A request holds the snapshot of its steps'
 * models until it ends (sched/step_models.h).
 * Threads.  See struct scheduler_ops.
 */
#pragma once

#include "base/error.h"
#include "config/model_config.h"

#include <stdbool.h>

struct model;
struct scheduler;
struct step_memory;
struct step_models;
struct step_models_holder;

/* Checks the ensemble against the models of a snapshot, and makes the plan of the snapshot. Must be
 * called before the holder gets the snapshot. *ret_is_decoupled: these models make the ensemble
 * decoupled; its configuration must have the same value while it serves. Error: INVALID_ARG with
 * the wrong field, "in ensemble <e>, ...". The configuration outlives the snapshot. */
struct error *ensemble_prepare(const struct model_config *ensemble, struct step_models *models,
                               bool *ret_is_decoupled) NODISCARD;

/* `steps` and `memory` outlive the scheduler. All snapshots of `steps` went through
 * ensemble_prepare(). */
struct error *ensemble_new(struct model *model, struct step_models_holder *steps,
                           struct step_memory *memory, struct scheduler **ret);
