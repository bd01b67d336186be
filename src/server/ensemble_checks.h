/* SPDX-License-Identifier: BSD-3-Clause */
/* Ensembles of a repository against the models of their steps, once each model was checked by itself.
 *
 * A step's model must be there, with the version that the step names, and fit
 * (config/ensemble_models.h); a step with a namespace means a model of that repository, and is not
 * compared when no such directory can be seen from here. What is wrong becomes a problem of the
 * ensemble, at the place of the step or of the entry of its map. Models with mistakes of their own are
 * not compared, and what a backend may still complete is not missed.
 *
 * Threads.  One owner.
 */
#pragma once

#include "server/model_check.h"

#include <stddef.h>

/* The configurations of ensembles without mistakes get their decoupled flag. `repository` is the one that
 * is checked (server/check_names.h). */
void ensemble_checks_run(struct model_check *const *checks, size_t n, const char *repository);
