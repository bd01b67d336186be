/* SPDX-License-Identifier: BSD-3-Clause */
/* A gRPC server: a listening socket, loops, a method table, and what may be asked of it.
 *
 *     grpc_server_new -> net_server_start -> ... -> net_server_stop, net_server_wait -> free
 *
 * stop() ends accepting and tells every client to go (GOAWAY); calls under way go on, calls that
 * cross with it are refused with UNAVAILABLE. wait() sleeps until the last connection is gone or
 * the deadline has passed. free() closes what is left and then waits for handlers that have not
 * finished: whoever works for them must still be alive, or be cancelled.
 *
 * Ownership.  Options are copied, except what is marked borrowed.
 * Threads.  new, start, stop, wait, free: one thread that is no loop. Callbacks: any loop.
 */
#pragma once

#include "base/error.h"
#include "control/service.h"
#include "grpc/grpc_call.h"
#include "grpc/grpc_compress.h"
#include "grpc/grpc_limits.h"
#include "net/net_server.h"

struct grpc_server;
struct h2_loop;
struct str;

struct grpc_server_options {
        struct net_server_options   net; /* the server sets its `owner` */
        struct grpc_limits          limits;
        enum grpc_compression_level compression; /* of answers of compressible methods */
        struct grpc_method_table    methods;     /* rows borrowed: static */
        struct service              service;
};

/* Limits at their defaults, everything else zero. */
void grpc_server_options_init(struct grpc_server_options *o);

/* Binds and listens, so that the port is known; accepts nothing yet. */
struct error *grpc_server_new(const struct grpc_server_options *o, struct grpc_server **ret)
        NODISCARD;
void grpc_server_free(struct grpc_server *s); /* NULL is fine; stops when needed */

/* Starts, stops and asks the server: borrowed. NULL for NULL. */
struct net_server *grpc_server_net(struct grpc_server *s);

/* What a loop has of the server; `paths` are those of o->methods, same order. For tests, too. */
void grpc_server_init_loop(struct h2_loop *home, const struct grpc_server_options *o,
                           const struct str *paths);
