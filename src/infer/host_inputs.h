/* SPDX-License-Identifier: BSD-3-Clause */
/* Inputs of a request that lie on devices, copied to memory of the host for code that reads them there.
 *
 * Two kinds of code need that: a backend that does not look at the type of memory (!takes_device_memory,
 * infer/model.h), for which all inputs are copied before the execution; and the core itself, which reads
 * the elements of BYTES tensors and of shape tensors, and copies those when it checks the request.
 *
 * A copy takes the place of the device's bytes in the chunks of the request, so that all code sees memory
 * of the host there. The release of the request puts the chunks back as the front end gave them: it may
 * submit the request again.
 *
 * Ownership.  The request owns the copies from host_inputs_copy() until host_inputs_return(). The memory
 * is pinned, from the pool of the server's GPUs.
 * Threads.  The owner of the request.
 */
#pragma once

#include "base/error.h"
#include "infer/request.h"

/* Copies the chunks of all inputs that lie on a device, with one wait. `now_ns`: the time of the caller's
 * clock, see host_inputs_start(). UNAVAILABLE when memory is short or the driver refuses a copy: then the
 * request is as before. */
struct error *host_inputs_copy(struct request *req, uint64_t now_ns) NODISCARD;
/* The same for one input. */
struct error *host_inputs_copy_one(struct request *req, struct request_input *in) NODISCARD;
/* Frees the copies and restores the chunks. Not while the request is in use. */
void host_inputs_free(struct request *req) COLD;
/* When the copy of all inputs began; 0 when host_inputs_copy() has copied none for this run of the request. */
uint64_t host_inputs_start(const struct request *req);
void     host_inputs_forget_start(struct request *req) COLD;

/* To be called before the request is run once more: its copies stay, and are part of the first run's time. */
static inline void host_inputs_keep(struct request *req) {
        if (req->has_host_copies)
                host_inputs_forget_start(req);
}

/* To be called when the request leaves the core: by its release, and when it was not accepted. */
static inline void host_inputs_return(struct request *req) {
        if (req->has_host_copies)
                host_inputs_free(req);
}
