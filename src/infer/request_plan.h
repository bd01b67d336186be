/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions with which the plan of a composed model fills in the request of a step. They skip work
 * that the plan has done once: it holds a reference to the model and has looked up its inputs.
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
