/* SPDX-License-Identifier: BSD-3-Clause */
/* Implicit states (model configuration: sequence_batching.state): values that the server keeps for a
 * sequence from one request to the next. TRITONBACKEND_State is struct implicit_state.
 *
 *     attach  -->  the value is an input of the request
 *     backend:     implicit_state_new() -> _buffer(), writes -> _update()
 *     detach  -->  an updated value becomes the input of the next request; any other is dropped
 *
 * A state usually has two buffers: the backend writes the next value into one while it reads the old
 * value from the other, and the next request reads the new value where it was written. So values are
 * never copied, and memory is allocated only when a value outgrows its buffer. A third buffer is used
 * when the backend writes again after an update in the same request. A state with is_in_place
 * (use_same_buffer_for_input_output) has one buffer, until a value outgrows it.
 *
 * A backend asks for memory of the host, pinned memory, or memory of a device (state_memory.h). The value
 * stays where it was written, until an instance of another device executes the next request: then
 * implicit_states_move() copies it. A state with is_growable (use_growable_memory) has one buffer on the
 * device of the instance, whose address stays when the value grows.
 *
 * A null request has its own set of states: zeros in the shapes of another request of the batch. Its
 * updates are ignored.
 *
 * Ownership.  A set of states belongs to the sequence or the null request; a request borrows it while
 * attached. The specs are borrowed: they outlive the states.
 * Threads.  While attached: the owner of the request. Otherwise: the thread that executes the
 * sequence's requests, one at a time.
 */
#pragma once

#include "base/error.h"
#include "config/data_type.h"
#include "infer/buffer_attributes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct request;
struct implicit_state;
struct implicit_states;
struct model;
struct state_specs;

enum implicit_states_kind {
        STATES_OF_SEQUENCE, /* start with the initial values */
        STATES_OF_NULL,     /* zeros; an update is ignored */
        STATES_OF_SAMPLE    /* warm-up: the initial values; an update is ignored */
};

/* NULL when memory is short. */
struct implicit_states *implicit_states_new(const struct state_specs *specs,
                                            enum implicit_states_kind kind) NODISCARD;
void                    implicit_states_free(struct implicit_states *s); /* NULL is fine */
/* Pushes `s` onto a list of sets to be freed later; NULL is fine. */
void implicit_states_put(struct implicit_states **list, struct implicit_states *s);
void implicit_states_free_list(struct implicit_states *list);

/* Restores the initial values; not while attached. After an error the set can only be reset again or
 * freed. UNAVAILABLE: memory is short, or a device has failed. */
struct error *implicit_states_reset(struct implicit_states *s) NODISCARD;
/* For the instance that executes the next request; not while attached. `device` is its GPU, or GPU_HOST: it
 * reads no memory of devices. A value on another device is copied to this one; one that is in place is
 * copied from the host, too. UNAVAILABLE as above; then the values are where they were. */
struct error *implicit_states_move(struct implicit_states *s, int device) NODISCARD;
/* The same for an instance of the model. `gpu`: executor.gpu of the instance. When the backend looks at memory
 * types, an instance that is on no GPU, such as one of KIND_MODEL, reads the values wherever they are. */
struct error *implicit_states_bring(struct implicit_states *s, const struct model *model, int gpu)
        NODISCARD;
/* For null requests: sets zeros in the types, shapes and places of `like`, also while attached. False when
 * memory is short: then the request cannot be executed until a later call succeeds. */
bool implicit_states_imitate(struct implicit_states *null, const struct implicit_states *like)
        NODISCARD;
/* True when the values of both sets have the same types and shapes: then their requests may share a
 * batch. */
bool implicit_states_same_shape(const struct implicit_states *a, const struct implicit_states *b);

/* Appends the values to the request's inputs, except those that a warm-up sample has already. */
void implicit_states_attach(struct implicit_states *s, struct request *req);
/* Removes the values; does nothing when none are attached. No other input may have been added since. */
void implicit_states_detach(struct request *req);

/* ---- calls of a backend, for an attached request ---------------------------------------------- */

/* Returns the state with that output name, and begins its next value, which gets this type and shape.
 * Each call returns the same object. INVALID_ARG: the request has no states, or none of that name. */
struct error *implicit_state_new(struct request *req, const char *name, enum data_type type,
                                 const int64_t *shape, uint32_t n_dims, struct implicit_state **ret)
        NODISCARD;
/* Returns memory for the value, aligned to 64 bytes. *type and *id: on entry the kind of memory that the
 * backend prefers, on return the kind that it got. The contents are undefined. For a state that is in place
 * and has room for the value, they are the old value, which is copied when the kind changes.
 * INVALID_ARG: the server does not use that device. */
struct error *implicit_state_buffer(struct implicit_state *state, uint64_t n_bytes,
                                    enum memory_type *type, int64_t *id, void **ret) NODISCARD;
/* Attributes of that memory; zero bytes before implicit_state_buffer(). */
struct buffer_attributes *implicit_state_attributes(struct implicit_state *state);
/* Makes the written value the value of the sequence. INVALID_ARG without implicit_state_buffer(). */
struct error *implicit_state_update(struct implicit_state *state) NODISCARD;
