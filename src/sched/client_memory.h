/* SPDX-License-Identifier: BSD-3-Clause */
/* The client's memory, into which the last step of a composed model writes its outputs.
 *
 * The response of an inner request gets its buffers from the allocator of the composed model, and
 * the client's response gets its buffers from the client's allocator. For the last step, the
 * composed model's allocator asks the client's. So the model writes to where the client will read,
 * and no byte is copied.
 *
 *     client_memory_get()        The client's allocator provides the buffer. The inner output's
 *                                userp is a marked record of the client's other results.
 *     client_memory_hand_over()  The client's response takes the buffer; the record ends.
 *     client_memory_release()    No response took the buffer: it returns to the client's allocator.
 *
 * This is not possible for an allocator with a `start` function, which must get the client's
 * response before it provides memory: that response is created after the step has run.
 *
 * Ownership.  A record is in memory of the caller (`room`), or on the heap.
 * Threads.  Any, for different outputs.
 */
#pragma once

#include "base/error.h"
#include "infer/request.h"
#include "infer/response_allocator.h"

#include <stdbool.h>
#include <stddef.h>

struct response_output;

struct client_memory {
        const struct response_allocator *allocator; /* borrowed: the client's */
        void                            *userp;     /* the client's, for the buffer */
        bool                             is_on_heap;
};

/* Arguments of allocator_alloc_fn. */
struct wanted_output {
        const char      *name; /* the client's name for the output */
        size_t           byte_size;
        enum memory_type type;
        int64_t          id;
};

/* Results of allocator_alloc_fn. */
struct given_memory {
        void            **buffer;
        void            **buffer_userp;
        enum memory_type *actual_type;
        int64_t          *actual_id;
};

static inline bool client_memory_is_there(const struct request *outer) {
        return outer->allocator != NULL && outer->allocator->start == NULL;
}

/* `room` may be NULL. Returns errors of the client's allocator, or that there is no memory for the
 * record. */
struct error *client_memory_get(const struct request *outer, struct client_memory *room,
                                const struct wanted_output *wanted, const struct given_memory *ret)
        NODISCARD;

/* `to` is the client's output. Returns false when `from` was not written for the client; then it
 * must be copied. */
bool client_memory_hand_over(struct response_output *to, struct response_output *from,
                             struct error **ret_error);

/* The allocator_release_fn of a composed model. buffer_userp: a record, a reference-counted buf, or
 * NULL for memory of the run. */
struct error *client_memory_release(struct response_allocator *allocator, void *buffer,
                                    void *buffer_userp, size_t byte_size, enum memory_type type,
                                    int64_t id);
