/* SPDX-License-Identifier: BSD-3-Clause */
/* Compression of messages, and the choice of the algorithm by name, by level, and by what the client
 * accepts.
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

/* Value of grpc-accept-encoding in answers. */
#define GRPC_ACCEPTED_ENCODINGS "identity,deflate,gzip"

struct str grpc_encoding_name(enum grpc_encoding encoding);
/* Finds "gzip", "deflate", "identity" and ""; false for anything else. */
bool grpc_encoding_find(struct str name, enum grpc_encoding *ret);
/* Finds "none", "low", "medium" and "high" in any case; false for anything else. */
bool grpc_compression_level_find(struct str name, enum grpc_compression_level *ret);

/* Chooses an algorithm from the client's list: gzip for level low, deflate for medium and high. If the
 * client accepts only one of the two, every level but none is that one. */
enum grpc_encoding grpc_encoding_choose(enum grpc_compression_level level, struct str accepted);

/* Decompresses a message to at most max_bytes. */
enum gzip_status grpc_decompress(struct str message, size_t max_bytes, struct buf_pool *pool,
                                 struct buf **ret);
/* Compresses the parts into one message. Returns false when the result would not be smaller or memory is
 * short; the caller then sends the parts as they are. */
bool grpc_compress(enum grpc_encoding encoding, const struct iovec *parts, size_t n_parts,
                   struct buf_pool *pool, struct buf **ret);
