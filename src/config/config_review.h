/* SPDX-License-Identifier: BSD-3-Clause */
/* Mistakes that the checks of a load (config_check.h) let pass, as the reference server does: names
 * that are there twice, which then mean one of the two, and warm-up samples that do not fit the
 * inputs, which fail when they run. For who looks at configurations without loading them.
 *
 * Threads.  Pure functions.
 */
#pragma once

#include "config/model_config.h"

/* No two inputs and no two outputs have the same name. INVALID_ARG. */
struct error *model_config_review_names(const struct model_config *c) NODISCARD;

/* Each sample has the inputs that the configuration lists, of their type; nothing to say when it
 * lists none, since then the backend finds them out. INVALID_ARG. */
struct error *model_config_review_warmup(const struct model_config *c) NODISCARD;

/* Makes what a backend may still complete look complete, so that the rest can be checked: inputs
 * and outputs without a type or dims get some. */
struct error *model_config_assume_complete(struct model_config *c) NODISCARD;
