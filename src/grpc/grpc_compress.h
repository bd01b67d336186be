/* SPDX-License-Identifier: BSD-3-Clause */
/* Compression of messages: which algorithm, by name, by level, by what the client accepts.
 */
#pragma once

#include "base/buf.h"
#include "base/str.h"
#include "codec/gzip.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

enum grpc_encoding {
        GRPC_ENCODING_IDENTITY,
        GRPC_ENCODING_DEFLATE, /* zlib format */
        GRPC_ENCODING_GZIP,
        N_GRPC_ENCODINGS,
};

/* --grpc-infer-response-compression-level */
enum grpc_compression_level {
        GRPC_COMPRESSION_NONE,
        GRPC_COMPRESSION_LOW,
        GRPC_COMPRESSION_MEDIUM,
        GRPC_COMPRESSION_HIGH,
};

/* What grpc-accept-encoding says of us. */
#define GRPC_ACCEPTED_ENCODINGS "identity,deflate,gzip"

struct str grpc_encoding_name(enum grpc_encoding encoding);
/* "gzip", "deflate", "identity", ""; false for anything else. */
bool grpc_encoding_find(struct str name, enum grpc_encoding *ret);
/* "none", "low", "medium", "high". */
bool grpc_compression_level_find(struct str name, enum grpc_compression_level *ret);

/* The algorithm that a level stands for among those of the client's list: low is gzip, medium and
 * high are deflate, and where the client accepts one of them only, every level is that one. */
enum grpc_encoding grpc_encoding_choose(enum grpc_compression_level level, struct str accepted);

/* One message, plain, of at most max_bytes. */
enum gzip_status grpc_decompress(struct str message, size_t max_bytes, struct buf_pool *pool,
                                 struct buf **ret);
/* The parts as one compressed message; false, and nothing is made, when that would not be smaller
 * or memory is short: the parts are sent as they are then. */
bool grpc_compress(enum grpc_encoding encoding, const struct iovec *parts, size_t n_parts,
                   struct buf_pool *pool, struct buf **ret);
