/* SPDX-License-Identifier: BSD-3-Clause */
/* A gRPC server: a listening socket, loops, a method table, and what may be asked of it.
 *
 *     grpc_server_new -> start -> ... -> stop -> wait (as often as wanted) -> free
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
#include "grpc/grpc_call.h"
#include "grpc/grpc_compress.h"
#include "grpc/grpc_limits.h"
#include "grpc/grpc_service.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct byte_budget;
struct tls_context;

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
        const char *name;       /* of the threads; static */
        const char *address;    /* NULL = 0.0.0.0; borrowed for the call */
        uint16_t    port;       /* 0 = any free one */
        bool        reuse_port;
        size_t      n_threads;  /* 0 = one per core */
        struct tls_context *tls; /* borrowed; NULL = plain */
        struct byte_budget *budget; /* borrowed; NULL = memory is not counted */
        struct grpc_limits          limits;
        enum grpc_compression_level compression; /* of answers of compressible methods */
        struct grpc_method_table    methods;     /* rows borrowed: static */
        struct grpc_service         service;

        /* NULL = nobody counts, nobody logs. Must not block. */
        void (*on_rejected)(void *owner, const char *limit);
        void (*on_access)(void *owner, const struct grpc_access *access);
        void  *owner; /* borrowed: the callbacks' */
};

struct grpc_server;

/* Limits at their defaults, everything else zero. */
void grpc_server_options_init(struct grpc_server_options *o);

/* Binds and listens, so that the port is known; accepts nothing yet. */
struct error *grpc_server_new(const struct grpc_server_options *o,
                              struct grpc_server **ret) NODISCARD;
void          grpc_server_start(struct grpc_server *s);
void          grpc_server_stop(struct grpc_server *s);
/* The number of connections left: 0 = all gone before the deadline (monotonic ns). */
size_t        grpc_server_wait(struct grpc_server *s, uint64_t deadline_ns);
void          grpc_server_free(struct grpc_server *s); /* NULL is fine; stops when needed */

uint16_t grpc_server_port(const struct grpc_server *s);
size_t   grpc_server_n_connections(struct grpc_server *s);
