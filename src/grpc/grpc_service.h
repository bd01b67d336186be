/* SPDX-License-Identifier: BSD-3-Clause */
/* What the methods of a gRPC server know about the server: the core, the switches of the command
 * line, and the state of those handlers that have some.
 *
 * Ownership.  Filled before the server starts, borrowed by it, constant while it runs; each
 * pointer's object outlives the server.
 * Threads.  Read by every loop.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct TRITONSERVER_Server;
struct endpoint_policy;
struct grpc_infer;
struct shared_memory;
struct tracer;

struct grpc_service {
        struct TRITONSERVER_Server   *core;   /* borrowed */
        const struct endpoint_policy *policy; /* borrowed; NULL = nothing restricted */
        struct grpc_infer            *infer;  /* borrowed; state of the infer methods */
        struct shared_memory         *shared_memory; /* borrowed; NULL = none, and no changes */
        size_t                        max_message_bytes; /* of one request message, plain */
        uint32_t                      max_responses;     /* --grpc-max-response-pool-size; 0 = any */
        struct tracer                *tracer;            /* borrowed; NULL = nothing is traced */
};
