/* SPDX-License-Identifier: BSD-3-Clause */
/* An inference of another model that a stub requested (business logic scripting, BLS).
 *
 * The inner request reads its inputs in the region, where the stub keeps them until the last reply;
 * its outputs are allocated in the region. The last reply is sent after both the last response and
 * the release.
 *
 *     SHM_CALL -> bls_call_start() -> [replies] ----------------> the last reply
 *                                         '---> the early answer -----^
 *
 * A call that is made on behalf of requests which are all cancelled gets an early answer: its caller goes on,
 * and the called model, which may not look at the cancellation, keeps the inputs until it ends.
 *
 * Ownership.  A call is freed after its last response and its release; it holds its session. The
 * instance waits for its calls before it ends.
 * Threads.  Start, wait and cancel: the reader's. Responses and cancellations come from any thread.
 */
#pragma once

#include "python/python_instance.h"
#include "python/reply.h"

/* Request parameter with the nesting depth of calls from model to model, and its limit. Models in
 * Python do not see the parameter. Clients cannot set it, since the server refuses their parameters
 * that begin with "triton_". */
#define BLS_DEPTH_PARAMETER "triton_neso_bls_depth"
#define BLS_MAX_DEPTH 16

/* Creates the allocator of outputs; its userp is the call, in whose region it allocates. */
TRITONSERVER_Error *bls_call_allocator_new(TRITONSERVER_ResponseAllocator **ret);

/* `call` is a copy of the record in the block. */
void bls_call_start(struct instance *in, const struct shm_call *call, const struct reply_to *to);
/* The process says who waits for the call in that block, which it was asked. */
void bls_call_wait(struct instance *in, uint32_t block, uint64_t kind);
/* Cancels the call in that block; does nothing when it has ended. */
void bls_call_cancel(struct instance *in, uint32_t block);
void bls_call_cancel_all(struct instance *in);
/* Waits until no call of the instance is under way. */
void bls_call_wait_all(struct instance *in);
