/* SPDX-License-Identifier: BSD-3-Clause */
/* What a gRPC server is made with: read by the server and by every call.
 *
 * Ownership.  Copied by the server, except what is marked borrowed.
 */
#pragma once

#include "control/service.h"
#include "grpc/grpc_call.h"
#include "grpc/grpc_compress.h"
#include "grpc/grpc_limits.h"
#include "net/net_server.h"

struct grpc_server_options {
        struct net_server_options   net; /* the server sets its `owner` */
        struct grpc_limits          limits;
        enum grpc_compression_level compression; /* of answers of compressible methods */
        struct grpc_method_table    methods;     /* rows borrowed: static */
        struct service              service;
};
