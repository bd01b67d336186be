/* SPDX-License-Identifier: BSD-3-Clause */
/* The path of every request into its model, whether from a client or from the server itself: check
 * against the model's configuration, count as in flight, submit to the scheduler.
 *
 * For requests of clients, server_infer() checks the server's state first. This function does not: a
 * step of a pipeline must continue while the server stops.
 *
 * Ownership.  Takes the request on success and leaves it with the caller on error.
 * Threads.  Any.
 */
#pragma once

#include "base/error.h"

#include <stdint.h>

struct request;

/* Submits to the load of the model that the request belongs to, see infer/model_generations.h. Errors:
 * those of request_prepare(), of the scheduler and of model_generations_route(); "the request is in use
 * ...". */
struct error *model_submit(struct request *req) NODISCARD;
/* As model_submit(), for a caller that has just read the clock. */
struct error *model_submit_at(struct request *req, uint64_t now_ns) NODISCARD;

/* Submits several requests for one model, which a batcher then sees together. ret_errors has one entry
 * for each request. */
void model_submit_all(struct request *const *requests, uint32_t n, struct error **ret_errors);

/* The error for a request that an earlier inference has not released yet. The text omits the request's
 * id, which the caller may not read. */
struct error *model_submit_in_use(void) COLD;
