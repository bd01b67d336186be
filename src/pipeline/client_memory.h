/* SPDX-License-Identifier: BSD-3-Clause */
/* The client's memory, into which the last step of a composed model writes its outputs.
 *
 * The response of an inner request gets its buffers from the allocator of the composed model, and
 * the client's response gets its buffers from the client's allocator. For the last step, the
 * composed model's allocator redirects to the client's (allocator_redirect_fn). So the model writes
 * to where the client will read, and no byte is copied. The client's response then takes the buffer.
 * If no response takes it, it returns to the client's allocator with the inner response, which may
 * outlive the run and the client's request.
 *
 * This is not possible for an allocator with a `start` function, which must get the client's
 * response before it provides memory: that response is created after the step has run.
 *
 * Threads.  Any, for different outputs.
 */
#pragma once

#include "base/error.h"
#include "infer/request.h"
#include "infer/response_allocator.h"

#include <stdbool.h>

struct response_output;

static inline bool client_memory_is_there(const struct request *outer) {
        return outer->allocator != NULL && outer->allocator->start == NULL;
}

/* The client's allocator, for the output that has this name there. */
static inline struct memory_origin client_memory_of(const struct request *outer, const char *name) {
        return (struct memory_origin){ outer->allocator, outer->allocator_userp, name };
}

/* `to` is the client's output. Returns false when `from` was not written for the client; then it
 * must be copied. */
bool client_memory_hand_over(struct response_output *to, struct response_output *from,
                             struct error **ret_error);
