/* SPDX-License-Identifier: BSD-3-Clause */
/* What the handlers of an HTTP server know about the server: the core, the switches of the command
 * line, and the state of those handlers that have some.
 *
 * Ownership.  Filled before the server starts, borrowed by it, constant while it runs; each
 * pointer's object outlives the server.
 * Threads.  Read by every loop.
 */
#pragma once

#include <stddef.h>

struct TRITONSERVER_Server;
struct endpoint_policy;
struct http_infer;
struct memory_metrics;
struct shared_memory;
struct tracer;

struct http_service {
        struct TRITONSERVER_Server   *core;             /* borrowed */
        const struct endpoint_policy *policy;           /* borrowed; NULL = nothing restricted */
        struct http_infer            *infer;            /* borrowed; state of the infer handlers */
        struct shared_memory         *shared_memory;   /* borrowed; NULL = none, and no changes */
        size_t                        max_input_bytes; /* --http-max-input-size */
        struct memory_metrics        *memory_metrics;  /* borrowed; NULL = not on this page */
        struct tracer                *tracer;          /* borrowed; NULL = nothing is traced */
};
