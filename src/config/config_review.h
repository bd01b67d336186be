/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of mistakes that a load (config_check.h) accepts, as the reference server does: duplicate
 * names, of which only one tensor is used, and warm-up samples that do not fit the inputs, which
 * fail when they run. For tools that check configurations without loading them.
 *
 * Threads.  Pure functions.
 */
#pragma once

#include "config/model_config.h"

/* Checks that no two inputs and no two outputs have the same name. INVALID_ARG. */
struct error *model_config_review_names(const struct model_config *c) NODISCARD;

/* Checks that each sample has the inputs of the configuration, with their types. Accepts all
 * samples when the configuration lists no inputs, since then the backend detects them. INVALID_ARG. */
struct error *model_config_review_warmup(const struct model_config *c) NODISCARD;

/* Adds placeholders for fields that a backend may still complete, so that the others can be
 * checked: inputs and outputs without a type or dims get some. */
struct error *model_config_assume_complete(struct model_config *c) NODISCARD;
