/* SPDX-License-Identifier: BSD-3-Clause */
/* grpc.health.v1.Health/Watch: the server's state now, and again whenever it has changed.
 *
 * The C API tells readiness when it is asked and never by itself, so a watch asks now and then: a
 * question without a lock above the model's. It ends with UNAVAILABLE when the server exits.
 *
 * Ownership.  A watch lives in the arena of its call.
 * Threads.  The call's loop; a timer's thread says when to look.
 */
#pragma once

#include "base/clock.h"
#include "grpc/grpc_call.h"

/* Orchestrators that poll ask every few seconds. */
#define RPC_HEALTH_WATCH_NS NS_PER_S

void rpc_health_watch(struct grpc_call *call, struct str message, struct buf *owner);
void rpc_health_end_watch(struct grpc_call *call); /* on_abort */
