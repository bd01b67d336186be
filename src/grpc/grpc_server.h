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
#include "base/str.h"
#include "control/service.h"
#include "grpc/grpc_call.h"
#include "grpc/grpc_compress.h"
#include "grpc/grpc_limits.h"
#include "net/net_server.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One finished call, for the access log. Ranges hold during the call. */
struct grpc_access {
        const char    *peer;
        struct str     path;
        struct str     key; /* the name of the API key; ptr NULL when there was none */
        enum grpc_code code;
        uint64_t       bytes_in;  /* of messages, as received */
        uint64_t       bytes_out; /* of messages, as sent */
        uint64_t       duration_ns;
        bool           is_aborted; /* the client had gone */
};

struct grpc_server_options {
        struct net_server_options net; /* but what follows from `limits`, and its owner */
        struct grpc_limits          limits;
        enum grpc_compression_level compression; /* of answers of compressible methods */
        struct grpc_method_table    methods;     /* rows borrowed: static */
        struct service         service;

        /* NULL = calls are not logged. Must not block. */
        void (*on_access)(void *owner, const struct grpc_access *access);
        void *owner; /* borrowed: of on_access() */
};

struct grpc_server;

/* Limits at their defaults, everything else zero. */
void grpc_server_options_init(struct grpc_server_options *o);

/* Binds and listens, so that the port is known; accepts nothing yet. */
struct error *grpc_server_new(const struct grpc_server_options *o,
                              struct grpc_server **ret) NODISCARD;
void          grpc_server_free(struct grpc_server *s); /* NULL is fine; stops when needed */

/* Starts, stops and asks the server: borrowed. NULL for NULL. */
struct net_server *grpc_server_net(struct grpc_server *s);
