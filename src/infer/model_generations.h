/* SPDX-License-Identifier: BSD-3-Clause */
/* The loads of one model that a live sequence may belong to: the loads that serve, and those that were
 * replaced or unloaded while they had live sequences.
 *
 * join (serves) -> retire (replaced, unloaded) --no live sequence--> leave
 *
 * A sequence stays on the load where it began: its next request goes there, whichever load the model's
 * name refers to now. A request that begins a sequence goes to a load that serves, and a live sequence
 * with the same id on an earlier load ends. model_submit() applies these rules; the table of models
 * only maps names to loads.
 *
 * Ownership.  Reference counted: held by the repository's entry and by each model. The list holds a
 * reference to a retired member until its last sequence has ended; the repository holds a member that
 * serves.
 * Threads.  Any. Lock rank LOCK_GENERATIONS, never held across a call out.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct model;
struct model_generations;
struct request;

struct model_generations *model_generations_new(void);
void model_generations_unref(struct model_generations *generations); /* NULL is fine */

/* To be called before requests can reach the model, which takes a reference to the generations. */
void model_generations_join(struct model_generations *generations, struct model *model);
/* The model begins no more sequences. The caller holds a reference to it. */
void model_generations_retire(struct model *model);
/* Called by the scheduler of a retired model after its last sequence has ended, with no lock held. */
void model_generations_leave(struct model *model);

/* The error that a retired scheduler returns for a request that would begin a sequence, and that
 * model_generations_route() returns when no load serves. Static, so that callers can compare the
 * pointer. */
struct error *model_generations_retired(void);

/* Binds the request to its load. Errors: model_generations_retired(), or out of memory. */
struct error *model_generations_route(struct request *req) NODISCARD;
/* True when the request continues a live sequence. */
bool model_generations_continues(struct request *req);

/* Returns a new reference to the retired member that joined last; version -1: of any version. NULL:
 * none. */
struct model *model_generations_find_retired(struct model_generations *generations,
                                             int64_t                   version);
/* Returns references to all members, oldest first; the caller owns the array. */
size_t model_generations_list(struct model_generations *generations, struct model ***ret);
