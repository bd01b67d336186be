/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes the responses of one request, however many, also when the request is released and gone:
 * TRITONBACKEND_ResponseFactory is this.
 *
 * Ownership.  The backend's, from response_factory_new() to response_factory_free(). It holds its
 * model, and counts as an inference in flight: the model is not unloaded, and a server that stops
 * waits. Freeing it says nothing to the client; FINAL is what ends a request.
 * Threads.  Any, at the same time; only freeing comes last.
 */
#pragma once

#include "base/error.h"
#include "infer/response.h"

#include <stdbool.h>
#include <stdint.h>

struct response_factory {
        struct response_source source;
        char                   id[]; /* of the request */
};

struct error *response_factory_new(struct request *req, struct response_factory **ret) NODISCARD;
void          response_factory_free(struct response_factory *factory); /* NULL is fine */

/* Waits for room where the front end asked for a bound. */
struct error *response_factory_respond(struct response_factory *factory, struct response **ret)
        NODISCARD;
/* Flags without a response. An error after FINAL. */
struct error *response_factory_send_flags(struct response_factory *factory, uint32_t flags)
        NODISCARD;

static inline bool response_factory_is_cancelled(const struct response_factory *factory) {
        return response_stream_is_cancelled(factory->source.flow);
}
