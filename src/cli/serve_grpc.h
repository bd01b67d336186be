/* SPDX-License-Identifier: BSD-3-Clause */
/* The gRPC service of `neso serve`: its options, its server, its log lines.
 *
 *     init -> prepare (before the models are loaded) -> start -> stop -> done
 *
 * Ownership.  Embedded in the server's own struct; the options outlive it.
 * Threads.  The main thread.
 */
#pragma once

#include "auth/endpoint.h"
#include "base/compiler.h"
#include "base/error.h"
#include "grpc/grpc_compress.h"

#include <stdbool.h>
#include <stdint.h>

struct TRITONSERVER_Server;
struct admission;
struct byte_budget;
struct tracer;
struct cli_options;
struct grpc_infer;
struct grpc_server;
struct shared_memory;
struct tls_context;

struct serve_grpc {
        const struct cli_options   *options; /* borrowed */
        struct tls_context         *tls;     /* borrowed; NULL = plain */
        struct byte_budget         *budget;  /* borrowed */
        struct TRITONSERVER_Server *core;    /* borrowed */
        struct endpoint_policy      policy;
        enum grpc_compression_level compression;
        struct grpc_infer          *infer;
        struct grpc_server         *server;
        struct tracer    *tracer;    /* borrowed; set before start() */
        struct admission *admission; /* likewise; NULL = no limits */
};

void          serve_grpc_init(struct serve_grpc *g);
struct error *serve_grpc_prepare(struct serve_grpc *g, const struct cli_options *o,
                                 struct tls_context *tls) NODISCARD;
struct error *serve_grpc_start(struct serve_grpc *g, struct TRITONSERVER_Server *core,
                               struct shared_memory *shared_memory, bool logs_access) NODISCARD;
/* Closes the port and waits for the calls until the deadline. Nothing when it was not started. */
void          serve_grpc_stop(struct serve_grpc *g, uint64_t deadline_ns);
void          serve_grpc_done(struct serve_grpc *g);
