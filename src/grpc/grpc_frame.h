/* SPDX-License-Identifier: BSD-3-Clause */
/* Splits a stream of bytes into messages. Each message is a flag, a length of four bytes, and as many bytes
 * ("PROTOCOL-HTTP2, Length-Prefixed-Message").
 *
 *     while (in.len > 0)
 *             switch (grpc_frame_read(f, &in, owner, &message)) ...
 *
 * A message that is complete in the given bytes is a range of them and shares their buffer. Any other
 * message is gathered in a buffer of its announced size, or beyond 64 MiB in one that grows with what has come
 * (buf_new_growing()). grpc_frame_room() returns the place of the next bytes in it, so that they can be read
 * there without a copy.
 *
 * Ownership.  grpc_frame_done() frees the gathered bytes. The message's owner is a reference that the
 * caller drops.
 */
#pragma once

#include "base/buf.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#define GRPC_PREFIX_BYTES 5

struct grpc_frame {
        char             prefix[GRPC_PREFIX_BYTES];
        unsigned         n_prefix;  /* bytes of the prefix received */
        size_t           len;       /* announced length, once the prefix is complete */
        size_t           got;       /* bytes in `gathered` */
        struct buf      *gathered;  /* ref; NULL until bytes must be kept */
        size_t           max_bytes; /* limit of a message as sent, maybe compressed */
        struct buf_pool *pool;      /* borrowed; may be NULL */
};

struct grpc_message {
        struct str  bytes;
        struct buf *owner; /* ref; NULL when the message is empty */
        bool        is_compressed;
};

enum grpc_frame_status {
        GRPC_FRAME_MORE,
        GRPC_FRAME_MESSAGE,
        GRPC_FRAME_TOO_LARGE, /* f->len is the announced length */
        GRPC_FRAME_BAD_FLAG,  /* neither 0 nor 1 */
        GRPC_FRAME_NO_MEMORY,
};

void grpc_frame_init(struct grpc_frame *f, size_t max_bytes, struct buf_pool *pool);
void grpc_frame_done(struct grpc_frame *f); /* grpc_frame_init() may follow */

/* Consumes bytes from the front of *in. `owner` is the buffer that contains *in; NULL when its bytes are
 * valid for the call only. Writes *ret on GRPC_FRAME_MESSAGE only. After a failure only grpc_frame_done()
 * may follow. */
enum grpc_frame_status grpc_frame_read(struct grpc_frame *f, struct str *in, struct buf *owner,
                                       struct grpc_message *ret);
/* True when a part of a message was received. */
bool grpc_frame_is_partial(const struct grpc_frame *f);
/* Returns the place of the message's next bytes; iov_len 0 when no message is being gathered, or its buffer is
 * full and has to grow. */
struct iovec grpc_frame_room(const struct grpc_frame *f);
