/* SPDX-License-Identifier: BSD-3-Clause */
/* Server reflection (grpc.reflection.v1 and v1alpha, which are the same on the wire): tools such as
 * grpcurl ask for services, files and symbols, and get the descriptors embedded at build time.
 *
 * Ownership.  The state of a stream is in the arena of its call.
 * Threads.  The call's loop.
 */
#pragma once

#include "grpc/grpc_call.h"

void rpc_reflection_open(struct grpc_call *call);
void rpc_reflection_read(struct grpc_call *call, struct str message, struct buf *owner);
void rpc_reflection_half_close(struct grpc_call *call);
void rpc_reflection_abort(struct grpc_call *call);
