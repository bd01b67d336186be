/* SPDX-License-Identifier: BSD-3-Clause */
/* What the handlers of a server know about the program around them: the core, what all calls share,
 * and the switches of the command line. HTTP, gRPC and the metrics page have one each.
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
struct infer_core;
struct memory_metrics;
struct shared_memory;
struct tracer;

struct service {
        struct TRITONSERVER_Server   *core;            /* borrowed */
        const struct endpoint_policy *policy;          /* borrowed; NULL = nothing restricted */
        const struct infer_core      *infer;           /* borrowed; NULL = no inference */
        struct shared_memory         *shared_memory;   /* borrowed; NULL = none, and no changes */
        struct tracer                *tracer;          /* borrowed; NULL = nothing is traced */
        struct memory_metrics        *memory_metrics;  /* borrowed; NULL = not on this page */
        size_t                        max_input_bytes; /* HTTP: --http-max-input-size */
        uint32_t max_responses; /* gRPC: --grpc-max-response-pool-size; 0 = any number */
};
