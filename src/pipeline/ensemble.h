/* SPDX-License-Identifier: BSD-3-Clause */
/* The scheduler of ensembles: the steps are a graph of models. pipeline/runner.h runs it.
 *
 * The error of a request is "in ensemble '<e>', <text of the first step that failed>".
 *
 * Ownership.  The ensemble's model owns the scheduler. A request holds the snapshot of its steps'
 * models until it ends (pipeline/step_models.h).
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
