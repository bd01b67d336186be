/* SPDX-License-Identifier: BSD-3-Clause */
/* The way of every request into its model, whether a client sent it or the server made it itself:
 * checked against the model's configuration, counted as in flight, given to the scheduler.
 *
 * Whether a request from outside is welcome at all (the server's state) is asked before, in
 * server_infer(): a step of a pipeline must go on while the server stops.
 *
 * Ownership.  Takes the request on success and leaves it with the caller on error.
 * Threads.  Any.
 */
#pragma once

#include "base/error.h"

#include <stdint.h>

struct request;

/* To the load of the model that the request is for, see infer/model_generations.h. Errors of
 * request_prepare(), of the scheduler and of model_generations_route(); "the request is in use ...". */
struct error *model_submit(struct request *req) NODISCARD;
/* The same for a caller that has just read the clock. */
struct error *model_submit_at(struct request *req, uint64_t now_ns) NODISCARD;

/* Several for one model, which a batcher finds together. ret_errors has one for each. */
void model_submit_all(struct request *const *requests, uint32_t n, struct error **ret_errors);

/* The request is with an inference that has not released it: not even its id may be read. */
struct error *model_submit_in_use(void) COLD;
