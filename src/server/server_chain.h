/* SPDX-License-Identifier: BSD-3-Clause */
/* Chains as clients see them: the outputs of a model with a `next`, and GET /v2/models/A/chain.
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

/* Returns the model whose outputs the clients of `model` receive: the last of its chain, or the model
 * itself. *ret_held keeps that model and must be released with step_models_unref(); NULL for the model
 * itself. */
const struct model *server_chain_last(const struct model *model, struct step_models **ret_held);

/* True when the model, or the last model of its chain, is decoupled. */
bool server_chain_is_decoupled(const struct model *model);

/* {"name":"A","stages":[{"name":"A","version":"1","ready":true},...],"max_batch_size":8}; NOT_FOUND
 * when no chain begins with the model. */
struct error *server_model_chain(struct server *s, const char *name, int64_t version,
                                 struct message **ret) NODISCARD;

/* Prints the member "chain" of the model's statistics when it begins a chain. */
void server_chain_print_statistics(struct json_writer *w, const struct model *model);
