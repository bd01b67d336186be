/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks the ensembles of a repository against the models of their steps, after each model was checked
 * by itself.
 *
 * The model of a step must exist, with the version that the step names, and fit
 * (config/ensemble_models.h). A step with a namespace refers to a model of that repository, and is not
 * compared when that directory does not exist on this machine. Each mistake becomes a problem of the
 * ensemble, at the place of the step or of the entry of its map. Models with mistakes of their own are
 * not compared, and settings that a backend may still complete are not reported as missing.
 *
 * Threads.  One owner.
 */
#pragma once

#include "server/model_check.h"

#include <stddef.h>

/* Also sets the decoupled flag in the configurations of ensembles without mistakes. `repository` is the
 * one that is checked (server/model_check.h). */
void ensemble_checks_run(struct model_check *const *checks, size_t n, const char *repository);
