/* SPDX-License-Identifier: BSD-3-Clause */
/* Creates any number of responses of one request, also after the request was released:
 * TRITONBACKEND_ResponseFactory.
 *
 * Ownership.  Belongs to the backend. It holds a reference to its model and counts as an inference in
 * flight: the model is not unloaded, and a server that stops waits for the factory. Freeing it sends
 * nothing: the client waits until FINAL is sent.
 * Threads.  Any, concurrently; no call may follow or overlap response_factory_free().
 */
#pragma once

#include "base/error.h"
#include "infer/response.h"

#include <stdbool.h>
#include <stdint.h>

struct response_factory {
        struct response_source source;
        struct response_stream
                *cancel; /* ref: what a cancellation reaches, see request_cancel_stream() */
        char     id[];   /* id of the request */
};

struct error *response_factory_new(struct request *req, struct response_factory **ret) NODISCARD;
void          response_factory_free(struct response_factory *factory); /* NULL is fine */

/* Waits for room when the front end has set a limit. */
struct error *response_factory_respond(struct response_factory *factory, struct response **ret)
        NODISCARD;
/* Sends flags without a response. Error after FINAL. */
/* As response_stream_room() and response_stream_when_room(), for the responses of this factory. */
uint32_t response_factory_room(struct response_factory *f);
bool     response_factory_when_room(struct response_factory *f, response_room_fn call, void *userp)
        NODISCARD;
struct error *response_factory_send_flags(struct response_factory *factory, uint32_t flags)
        NODISCARD;

static inline bool response_factory_is_cancelled(const struct response_factory *factory) {
        return response_stream_is_cancelled(factory->cancel);
}
