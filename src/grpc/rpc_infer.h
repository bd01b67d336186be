/* SPDX-License-Identifier: BSD-3-Clause */
/* ModelInfer: one request, one response.
 *
 *     rpc_infer                message -> struct infer_request, checked in the reference's order
 *       infer_call_*           through the C API; the loop is free meanwhile
 *     on_done                  struct infer_response -> parts; grpc_call_reply
 *
 * Ownership.  Everything of one request lives in the arena of its call.
 * Threads.  Handlers run on the call's loop.
 */
#pragma once

#include "grpc/grpc_call.h"

/* The method. */
void rpc_infer(struct grpc_call *call, struct str message, struct buf *owner);
void rpc_infer_cancel(struct grpc_call *call); /* on_abort */
