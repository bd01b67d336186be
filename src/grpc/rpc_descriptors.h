/* SPDX-License-Identifier: BSD-3-Clause */
/* The descriptors of the server's .proto files, embedded by proto/embed_descriptors.py. Each is a serialized
 * google.protobuf.FileDescriptorProto and comes after those that it imports.
 *
 * Threads.  Constant.
 */
#pragma once

#include <stddef.h>

struct rpc_descriptor {
        const char          *file; /* "grpc_service.proto" */
        const unsigned char *bytes;
        size_t               len;
};

extern const struct rpc_descriptor rpc_descriptors[];
extern const size_t                rpc_n_descriptors;
