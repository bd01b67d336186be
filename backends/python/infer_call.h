/* SPDX-License-Identifier: BSD-3-Clause */
/* An inference of another model that a stub asked for (BLS).
 *
 * The inner request reads its inputs in the region, where the stub holds them until the last reply;
 * its outputs are allocated in the region. The last reply goes out when the last response and the
 * release have both come.
 *
 *     SHM_CALL -> infer_call_start() -> [replies] -> the last reply
 *
 * Ownership.  A call is freed by its two ends; it holds its session. The instance waits for its calls
 * before it ends.
 * Threads.  Start and cancel: the reader's. Responses come from any thread.
 */
#pragma once

#include "python/instance.h"
#include "python/reply.h"

/* Request parameter with the nesting depth of calls from model to model, and its limit. Models in Python
 * are not shown it; clients cannot set it, since the server refuses their parameters that begin with
 * "triton_". */
#define BLS_DEPTH_PARAMETER "triton_neso_bls_depth"
#define BLS_MAX_DEPTH 16

/* Gives memory of the region of the call that is its userp. */
TRITONSERVER_Error *infer_call_allocator_new(TRITONSERVER_ResponseAllocator **ret);

/* `call` is a copy of the record in the block. */
void infer_call_start(struct instance *in, const struct shm_call *call, const struct reply_to *to);
/* Cancels the call whose block this is; nothing when it has ended. */
void infer_call_cancel(struct instance *in, uint32_t block);
void infer_call_cancel_all(struct instance *in);
/* Until no call of the instance is under way. */
void infer_call_wait_all(struct instance *in);
