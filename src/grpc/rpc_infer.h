/* SPDX-License-Identifier: BSD-3-Clause */
/* ModelInfer: one request, one response; and what the methods of a server share.
 *
 *     rpc_infer                message -> struct infer_request, checked in the reference's order
 *       infer_call_*           through the C API; the loop is free meanwhile
 *     on_done                  struct infer_response -> parts; grpc_call_reply
 *
 * Ownership.  Everything of one request lives in the arena of its call.
 * Threads.  Handlers run on the call's loop; struct grpc_infer is constant.
 */
#pragma once

#include "base/error.h"
#include "grpc/grpc_call.h"

struct admission;
struct grpc_infer;
struct header_forward;
struct infer_core;
struct shared_memory;
struct TRITONSERVER_Server;

struct rpc_infer_options {
        struct TRITONSERVER_Server *core;                   /* borrowed */
        struct shared_memory       *shared_memory;          /* borrowed; NULL = no regions */
        struct admission           *admission;              /* borrowed; NULL = no limits */
        const char                 *header_forward_pattern; /* NULL or "" = forward none */
};

struct error *rpc_infer_new(const struct rpc_infer_options *o, struct grpc_infer **ret) NODISCARD;
void          rpc_infer_free(struct grpc_infer *s); /* NULL is fine; no call in flight */

const struct infer_core     *rpc_infer_core(const struct grpc_infer *s);
const struct header_forward *rpc_infer_header_forward(const struct grpc_infer *s);

/* The method. */
void rpc_infer(struct grpc_call *call, struct str message, struct buf *owner);
void rpc_infer_cancel(struct grpc_call *call); /* on_abort */
