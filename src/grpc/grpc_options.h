/* SPDX-License-Identifier: BSD-3-Clause */
/* What a gRPC server is made with: read by the server and by every call.
 *
 * Ownership.  Copied by the server, except what is marked borrowed.
 */
#pragma once

#include "base/str.h"
#include "control/service.h"
#include "grpc/grpc_call.h"
#include "grpc/grpc_compress.h"
#include "grpc/grpc_limits.h"
#include "grpc/grpc_status.h"
#include "net/net_server.h"

#include <stdbool.h>
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
        struct net_server_options   net; /* but what follows from `limits`, and its owner */
        struct grpc_limits          limits;
        enum grpc_compression_level compression; /* of answers of compressible methods */
        struct grpc_method_table    methods;     /* rows borrowed: static */
        struct service              service;

        /* NULL = calls are not logged. Must not block. */
        void (*on_access)(void *owner, const struct grpc_access *access);
        void *owner; /* borrowed: of on_access() */
};
