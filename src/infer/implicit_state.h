/* SPDX-License-Identifier: BSD-3-Clause */
/* Implicit states (model configuration: sequence_batching.state): what the server keeps for a
 * sequence from one request to the next. TRITONBACKEND_State is struct implicit_state.
 *
 *     attach --> the value is an input of the request
 *                backend: implicit_state_new() -> _buffer(), writes -> _update()
 *     detach --> a value that was updated is what the next request reads; any other is forgotten
 *
 * Each state has two buffers that take turns: the next value is written while the old one is still
 * read, and is read where it was written. So a value is never copied, and buffers are allocated
 * only when a value outgrows them. A state with is_in_place (use_same_buffer_for_input_output)
 * has one, until a value outgrows it.
 *
 * A null request has states of its own, shaped as those of a request of the same batch: zeros, and
 * updates go nowhere.
 *
 * Ownership.  A set of states is the sequence's, or the null request's; a request borrows it while
 * it is attached. The plan is borrowed: it outlives the states.
 * Threads.  Of the request's owner while attached; else of who executes the sequence's requests, one
 * at a time.
 */
#pragma once

#include "base/error.h"
#include "config/data_type.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buffer_attributes;
struct request;
struct implicit_state;
struct implicit_states;
struct state_plan;

enum implicit_states_kind {
        STATES_OF_SEQUENCE, /* begin with the initial values */
        STATES_OF_NULL,     /* zeros; an update changes nothing */
        STATES_OF_SAMPLE    /* of a warm-up: the initial values; an update changes nothing */
};

/* NULL when memory is short. */
struct implicit_states *implicit_states_new(const struct state_plan  *plan,
                                            enum implicit_states_kind kind) NODISCARD;
void                    implicit_states_free(struct implicit_states *s); /* NULL is fine */
/* To a list of those to be freed later; `s` NULL is fine. */
void implicit_states_put(struct implicit_states **list, struct implicit_states *s);
void implicit_states_free_list(struct implicit_states *list);

/* The initial values again, while not attached. False when memory is short: then it can only be reset
 * or freed. */
bool implicit_states_reset(struct implicit_states *s) NODISCARD;
/* Zeros in the types and shapes of `like`, also while attached: for null requests. False when
 * memory is short: then its request cannot be executed until this has succeeded. */
bool implicit_states_imitate(struct implicit_states *null, const struct implicit_states *like)
        NODISCARD;
/* Whether values have the same types and shapes, so that their requests may be in one batch. */
bool implicit_states_same_shape(const struct implicit_states *a, const struct implicit_states *b);

/* Adds the values to the request's inputs, behind the others; a sample may have some itself. */
void implicit_states_attach(struct implicit_states *s, struct request *req);
/* Takes them off; nothing when none are attached. No other input may have been added since. */
void implicit_states_detach(struct request *req);

/* ---- of an attached request: what backends do ------------------------------------------------- */

/* The next value of the state with that output name, of that type and shape; the same object each
 * time. INVALID_ARG: the request has no states, or none of that name. */
struct error *implicit_state_new(struct request *req, const char *name, enum data_type type,
                                 const int64_t *shape, uint32_t n_dims, struct implicit_state **ret)
        NODISCARD;
/* Memory for it, aligned to 64 bytes; contents undefined, but in place the old value. */
struct error *implicit_state_buffer(struct implicit_state *state, uint64_t n_bytes, void **ret)
        NODISCARD;
/* Of that memory; zero bytes before there is any. */
struct buffer_attributes *implicit_state_attributes(struct implicit_state *state);
/* Makes what was written the sequence's value. INVALID_ARG without implicit_state_buffer(). */
struct error *implicit_state_update(struct implicit_state *state) NODISCARD;
