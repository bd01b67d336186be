/* SPDX-License-Identifier: BSD-3-Clause */
/* The check of the parameters of a model that the OpenAI API reads (docs/language_models.md):
 *
 *     openai              "embeddings" or "off"
 *     openai_format       "vllm", "trtllm", "llmapi", "openai" or "embed"
 *     openai_max_tokens   a positive integer
 *     openai_dimensions   "truncate"
 *
 * A model whose parameter names a format must have the inputs of that format. `neso check` reports what
 * this finds; a server loads such a model, and refuses its requests of the OpenAI API.
 *
 * Threads.  Pure functions.
 */
#pragma once

#include "config/model_config.h"

/* INVALID_ARG at the parameter. Inputs are not checked when the configuration lists none, because a backend
 * may complete them. */
struct error *openai_parameters_check(const struct model_config *c) NODISCARD;
