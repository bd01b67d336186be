/* SPDX-License-Identifier: BSD-3-Clause */
/* What clients see of chains: the outputs of a model with a next one, and GET /v2/models/A/chain.
 *
 * Threads.  Any.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct json_writer;
struct message;
struct model;
struct server;
struct step_models;

/* The model whose outputs clients of `model` get: the last of its chain, or itself. *ret_held is to be
 * released with step_models_unref() once it is not used any more; NULL for itself. */
const struct model *server_chain_last(const struct model *model, struct step_models **ret_held);

/* Does it, or the last model of its chain, answer as often as it likes? */
bool server_chain_is_decoupled(const struct model *model);

/* {"name":"A","stages":[{"name":"A","version":"1","ready":true},...],"max_batch_size":8}; NOT_FOUND
 * when no chain begins with the model. */
struct error *server_model_chain(struct server *s, const char *name, int64_t version,
                                 struct message **ret) NODISCARD;

/* The member "chain" of its statistics, if a chain begins with it. */
void server_chain_print_statistics(struct json_writer *w, const struct model *model);
