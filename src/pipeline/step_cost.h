/* SPDX-License-Identifier: BSD-3-Clause */
/* What requests inside of ensembles and chains take from the memory budget beside the bytes of tensors:
 * estimates from above, that are charged at once instead of each small allocation.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct model;

/* A request to the model: its memory, its first response, and what a scheduler and a backend add. */
size_t step_cost_request(const struct model *model);
/* What a further response with its outputs takes. */
size_t step_cost_response(uint32_t n_outputs);
