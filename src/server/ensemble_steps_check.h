/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks the ensembles of a repository against the models of their steps, after each model was checked
 * by itself.
 *
 * The model of a step must exist, in the version that the step names, and its inputs and outputs must
 * fit (config/ensemble_models.h). A step with a namespace (the path of a repository) names a model of
 * that repository; it is not checked when the directory does not exist on this machine. Each mistake
 * becomes a problem of the ensemble, located at the step or at the entry of its map. So do more steps
 * of steps than the server takes (model_needs_check_size()). Models that have mistakes are not compared
 * with their steps, and settings that a backend may still complete are not reported as missing.
 *
 * Threads.  One owner.
 */
#pragma once

#include "server/model_check.h"

#include <stddef.h>

/* Also sets the decoupled flag in the configurations of ensembles without mistakes. `repository`: the
 * path of the repository that is checked. */
void ensemble_steps_check(struct model_check *const *checks, size_t n, const char *repository);
