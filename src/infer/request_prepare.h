/* SPDX-License-Identifier: BSD-3-Clause */
/* The last step before a request is submitted: it is completed from its model's
 * configuration, and checked against it.
 *
 * Ownership.  The request stays the caller's.
 * Threads.  The owner's thread.
 */
#pragma once

#include "base/error.h"
#include "infer/request.h"

#include <stdbool.h>

/* Fills in what the configuration implies (raw inputs, reshape, batch size, output names) and checks
 * names, counts, types, shapes, byte sizes and string elements. INVALID_ARG with the reference server's
 * texts. May be called again after a release.
 *
 * Inputs on a device whose elements are read on the CPU are copied to the host (host_inputs.h). A caller that
 * does not submit the request, also after an error, calls host_inputs_return(). */
struct error *request_check(struct request *req) NODISCARD;

/* request_check(), unless the plan of a composed model has filled in the request (step_request.h). */
NODISCARD static inline struct error *request_prepare(struct request *req) {
        if (!req->is_checked)
                return request_check(req);
        req->is_checked = false; /* a second call may be for another load of the model */
        return NULL;
}

/* True when the request runs the chain that begins with its model. False without a next model,
 * for an inner request, and with the parameter "chain": false; without that parameter, also with
 * runs_alone. */
bool request_runs_chain(const struct request *req);
