/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of the client, in which the last step of a composed model writes its outputs.
 *
 * The response of an inner request gets its buffers from the allocator of the composed model, and the
 * client's response gets its own from the client's allocator. For the last step the first asks the
 * second: what the model writes lies where the client will read it, and no byte is copied.
 *
 *     client_memory_get()        the client's allocator gives the buffer; the inner output's userp is a
 *                                marked record of what else the client's allocator said
 *     client_memory_hand_over()  the client's response takes the buffer, the record ends
 *     client_memory_release()    nobody took it: it goes back to the client's allocator
 *
 * An allocator that wants to hear of a response before it gives memory (`start`) hears of the client's
 * response, which is made after the step has run: it cannot be asked earlier.
 *
 * Ownership.  A record lies in memory of the caller (`room`), or on the heap.
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

/* What allocator_alloc_fn is asked for. */
struct wanted_output {
        const char      *name; /* as the client knows it */
        size_t           byte_size;
        enum memory_type type;
        int64_t          id;
};

/* What it gives. */
struct given_memory {
        void            **buffer;
        void            **buffer_userp;
        enum memory_type *actual_type;
        int64_t          *actual_id;
};

static inline bool client_memory_is_there(const struct request *outer) {
        return outer->allocator != NULL && outer->allocator->start == NULL;
}

/* `room` may be NULL. Errors of the client's allocator, and of memory for the record. */
struct error *client_memory_get(const struct request *outer, struct client_memory *room,
                                const struct wanted_output *wanted, const struct given_memory *ret)
        NODISCARD;

/* `to` is the client's. False when `from` was not written for the client and has to be copied. */
bool client_memory_hand_over(struct response_output *to, struct response_output *from,
                             struct error **ret_error);

/* The allocator_release_fn of a composed model. buffer_userp: a record, a counted buf, or NULL for
 * what the run keeps. */
struct error *client_memory_release(struct response_allocator *allocator, void *buffer,
                                    void *buffer_userp, size_t byte_size, enum memory_type type,
                                    int64_t id);
