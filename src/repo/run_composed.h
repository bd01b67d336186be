/* SPDX-License-Identifier: BSD-3-Clause */
/* Models that other models run: ensembles, and chains that are models of their own. See
 * model_runner.h, whose second implementation is in run_composed.c.
 *
 * Threads.  As composed_model.h.
 */
#pragma once

#include "base/error.h"

struct loaded_model;
struct step_models;

/* Checks an ensemble against the models of its steps, and makes the plan of the snapshot. */
struct error *composed_plan_ensemble(struct loaded_model *l, struct step_models *s) NODISCARD;
