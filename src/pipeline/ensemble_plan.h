/* SPDX-License-Identifier: BSD-3-Clause */
/* The plan of an ensemble: its graph with one set of models for the steps.
 *
 * Ownership.  As of the plan, see pipeline/pipeline_plan.h.
 * Threads.  Immutable after ensemble_plan_new().
 */
#pragma once

#include "config/ensemble_graph.h"
#include "pipeline/pipeline_plan.h"

struct step_models;

/* Returns the errors of ensemble_models_check() when the models do not fit the ensemble. */
struct error *ensemble_plan_new(const Inference__ModelConfig *ensemble,
                                const struct step_models *models, struct pipeline_plan **ret)
        NODISCARD;
void ensemble_plan_free(void *plan); /* NULL is fine; see struct step_models, free_plan */
