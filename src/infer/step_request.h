/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of the steps of composed models, which are made and used again without the checks that the plan
 * of the model has done once: it holds a reference to the step's model and has looked up its inputs.
 *
 * The request of a step may be used again for the same step of another run:
 *
 *     request_may_stay() -> ... request_renew() -> request_replace_input() for each input -> submitted
 *
 * Ownership.  As in request.h, except that the model is borrowed.
 * Threads.  The owner's thread.
 */
#pragma once

#include "infer/request.h"

/* The caller holds the model until the request and its responses have ended. NULL when memory is
 * short. */
struct request *request_new_borrowing(struct model *model) NODISCARD;

/* Adds an input of the request's model that the request does not have yet; the model owns the name. */
struct error *request_add_known_input(struct request *req, const struct model_io *io,
                                      enum data_type type, const int64_t *dims, uint32_t n_dims,
                                      struct request_input **ret) NODISCARD;
/* As request_append_bytes(). */
struct error *request_input_append(struct request *req, struct request_input *in, const void *base,
                                   const struct buffer_attributes *attributes,
                                   const char                     *host_policy) NODISCARD;

/* Whether a request that has ended may be kept longer than its model: it holds nothing of it. Routing to
 * another load of the model takes a reference to that, and a cache may wait for an answer that did not
 * come. */
static inline bool request_may_stay(const struct request *req) {
        const struct response_stream *stream = &req->own_stream;

        return req->stream == stream && stream->borrows_model &&
               atomic_load_explicit(&stream->tap, memory_order_relaxed) == NULL;
}

/* Makes a request that has ended ready for another inference, with the same outputs. False: it cannot
 * be used again, since responses of the former inference still exist, or it belongs to another load of
 * the model. */
bool request_renew(struct request *req, const struct model *model) NODISCARD;
/* Replaces the shape and the bytes of an input, which has one chunk for all host policies, and checks
 * them against the model; the first call for a request determines its batch size. The dims are borrowed
 * until the request has ended. False: request_prepare() must decide; the request cannot be used again. */
bool request_replace_input(struct request *req, struct request_input *in, enum data_type type,
                           const int64_t *dims, uint32_t n_dims, const void *base,
                           const struct buffer_attributes *attributes) NODISCARD;
