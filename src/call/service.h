/* SPDX-License-Identifier: BSD-3-Clause */
/* What the handlers of a server use from the rest of the program: the core, the state that all
 * calls share, and the switches of the command line. HTTP, gRPC and the metrics page have one each.
 *
 * Ownership.  Filled before the server starts, borrowed by the server, constant while it runs. The
 * object behind each pointer outlives the server.
 * Threads.  Read by every loop.
 */
#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct TRITONSERVER_Server;
struct cloud_front;
struct drain;
struct dashboard;
struct endpoint_policy;
struct infer_core;
struct memory_metrics;
struct openai_settings;
struct shared_memory;
struct tracer;

/* One finished request or call, for the access log. Ranges and texts hold during the callback. */
struct access_entry {
        const char *peer;
        struct str  method; /* gRPC: "GRPC", since each call is a POST */
        struct str  path;
        struct str  model;     /* from the path; empty when it names none */
        struct str  key;       /* name of the API key; ptr NULL when there was none */
        unsigned    status;    /* gRPC: status code of the call */
        uint64_t    bytes_in;  /* HTTP: head and body; gRPC: messages; as received */
        uint64_t    bytes_out; /* the same, as sent */
        uint64_t    duration_ns;
        bool        is_aborted; /* the client was gone */
};

struct service {
        struct TRITONSERVER_Server   *core;            /* borrowed */
        const struct endpoint_policy *policy;          /* borrowed; NULL = nothing restricted */
        const struct infer_core      *infer;           /* borrowed; NULL = no inference */
        struct shared_memory         *shared_memory;   /* NULL = no regions, and clients cannot
                                                        * register any */
        struct tracer                *tracer;          /* borrowed; NULL = nothing is traced, and no
                                                        * route leads to trace settings */
        struct memory_metrics        *memory_metrics;  /* borrowed; NULL = not on this page */
        struct drain                 *drain;           /* borrowed; NULL = never drains */
        struct dashboard             *dashboard;       /* borrowed; NULL = no route leads to it */
        const struct cloud_front     *cloud;           /* HTTP, borrowed; NULL = not the front of a
                                                        * cloud platform */
        struct openai_settings       *openai;          /* borrowed; NULL = no route leads to it */
        size_t                        max_input_bytes; /* HTTP: --http-max-input-size */
        uint32_t max_responses; /* gRPC: --grpc-max-response-pool-size; 0 = any number */

        /* Called on any loop; must not block. NULL = requests are not logged. */
        void (*on_access)(void *owner, const struct access_entry *entry);
        void *access_owner; /* borrowed: argument of on_access() */
};
