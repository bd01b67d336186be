/* SPDX-License-Identifier: BSD-3-Clause */
/* The gRPC service of `neso serve`: its options, its server, its log lines.
 *
 *     init -> prepare (before the models are loaded) -> start -> done
 *
 * Ownership.  Embedded in struct serve; the options outlive it.
 * Threads.  The main thread.
 */
#pragma once

#include "auth/endpoint.h"
#include "base/compiler.h"
#include "base/error.h"
#include "call/infer_call.h"
#include "grpc/grpc_compress.h"

#include <stdbool.h>
#include <stdint.h>

struct admission;
struct cli_options;
struct grpc_server;
struct net_server_options;
struct service;
struct tls_context;

struct serve_grpc {
        const struct cli_options   *options; /* borrowed */
        struct tls_context         *tls;     /* borrowed; NULL = plain */
        struct endpoint_policy      policy;
        enum grpc_compression_level compression;
        struct infer_core           infer;
        struct grpc_server         *server; /* owned */
};

void          serve_grpc_init(struct serve_grpc *g);
struct error *serve_grpc_prepare(struct serve_grpc *g, const struct cli_options *o,
                                 struct tls_context *tls) NODISCARD;
/* `service` and `net` have the options common to all servers of the program; `admission` may be
 * NULL. */
struct error *serve_grpc_start(struct serve_grpc *g, const struct service *service,
                               const struct net_server_options *net, struct admission *admission)
        NODISCARD;
void serve_grpc_done(struct serve_grpc *g); /* closes the port if it is open */
