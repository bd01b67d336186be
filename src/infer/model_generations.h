/* SPDX-License-Identifier: BSD-3-Clause */
/* The loads of one model that a live sequence may belong to: those that serve, and those that were
 * replaced or unloaded while they had live sequences.
 *
 *     join (serves) -> retire (replaced, unloaded) --no live sequence--> leave
 *
 * A sequence ends on the load where it began: its next request goes there, whatever the name means
 * now. A request that begins a sequence goes to a load that serves, and what an earlier load had
 * under the same id ends there. model_submit() asks for this; the table of models, which knows names
 * alone, does not.
 *
 * Ownership.  Counted: by the repository's entry and by each model. A member that has retired is
 * kept by a reference of the line until its last sequence has ended; one that serves, by the
 * repository.
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
struct model_generations *model_generations_ref(struct model_generations *line);
void model_generations_unref(struct model_generations *line); /* NULL is fine */

/* Before a request can get to the model; it takes a reference to the line. */
void model_generations_join(struct model_generations *line, struct model *model);
/* It begins no more sequences. The caller has a reference to it. */
void model_generations_retire(struct model *model);
/* Its scheduler's call: it has retired, and its last sequence has ended. Holding no lock. */
void model_generations_leave(struct model *model);

/* The answer of a scheduler that has retired to a request that would begin a sequence, and of
 * model_generations_route() when no load serves any more. Static: to be compared with. */
struct error *model_generations_retired(void);

/* Binds the request to the load that it is for. Errors: model_generations_retired(), or that memory is
 * short. */
struct error *model_generations_route(struct request *req) NODISCARD;
/* True when the request is the next one of a live sequence. */
bool model_generations_continues(struct request *req);

/* A new reference to the member that joined last among those that have retired; version -1: of any
 * version. NULL: none. */
struct model *model_generations_find_retired(struct model_generations *line, int64_t version);
/* References to all members, the oldest first; the array is owned by the caller. */
size_t model_generations_list(struct model_generations *line, struct model ***ret);
