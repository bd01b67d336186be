/* SPDX-License-Identifier: BSD-3-Clause */
/* A gRPC server: a listening socket, loops, a method table, and limits.
 *
 *     grpc_server_new -> net_server_start -> ... -> net_server_stop, net_server_wait -> free
 *
 * stop() ends accepting and sends GOAWAY to every client. Calls in progress continue; calls that the client
 * sent before it received the GOAWAY are refused with UNAVAILABLE. wait() sleeps until the last connection
 * is gone or the deadline has passed. free() closes the remaining connections and then waits for handlers
 * that have not finished: the threads that work for them must still run, or their requests be cancelled.
 *
 * Ownership.  Options are copied, except what is marked borrowed.
 * Threads.  new, start, stop, wait, free: one thread, which runs no loop. Callbacks: any loop.
 */
#pragma once

#include "base/error.h"
#include "call/service.h"
#include "grpc/grpc_call.h"
#include "grpc/grpc_compress.h"
#include "grpc/grpc_limits.h"
#include "net/net_server.h"

struct grpc_server;
struct h2_shard;
struct str;

struct grpc_server_options {
        struct net_server_options   net; /* the server sets its `owner` */
        struct grpc_limits          limits;
        enum grpc_compression_level compression; /* for answers of compressible methods */
        struct grpc_method_table    methods;     /* rows borrowed: static */
        struct service              service;
};

/* Sets limits to their defaults and everything else to zero. */
void grpc_server_options_init(struct grpc_server_options *o);

/* Binds and listens, so the port is known; does not accept yet. */
struct error *grpc_server_new(const struct grpc_server_options *o, struct grpc_server **ret)
        NODISCARD;
void grpc_server_free(struct grpc_server *s); /* NULL is fine; stops first when necessary */

/* The server's lower part, which starts and stops it; borrowed. NULL for NULL. */
struct net_server *grpc_server_net(struct grpc_server *s);

/* Initializes the server's state on one loop. `paths` are those of o->methods, in the same order. Tests use
 * it as well. */
void grpc_server_init_shard(struct h2_shard *shard, const struct grpc_server_options *o,
                            const struct str *paths);
