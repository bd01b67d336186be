/* SPDX-License-Identifier: BSD-3-Clause */
/* grpc.health.v1.Health/Watch: the server's state now, and again as soon as it has changed.
 *
 * The core calls when its state or a model's changes, and the watch asks what it is now. What a
 * backend says of its instances (TRITONBACKEND_ModelInstanceReady) nobody announces, so a watch
 * also asks now and then. It ends with UNAVAILABLE when the server exits.
 *
 * Ownership.  A watch lives in the arena of its call.
 * Threads.  The call's loop; the core's callback, on any thread, posts to it.
 */
#pragma once

#include "base/clock.h"
#include "grpc/grpc_call.h"

/* Orchestrators that poll ask every few seconds. */
#define RPC_HEALTH_LOOK_NS (5 * NS_PER_S)

void rpc_health_watch(struct grpc_call *call, struct str message, struct buf *owner);
void rpc_health_end_watch(struct grpc_call *call); /* on_abort */
