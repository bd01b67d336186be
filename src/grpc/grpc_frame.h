/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages out of a stream of bytes: each is a flag, four bytes of length, and so many bytes
 * ("PROTOCOL-HTTP2, Length-Prefixed-Message").
 *
 *     while (in.len > 0)
 *             switch (grpc_frame_read(f, &in, owner, &message)) ...
 *
 * A message that lies complete in the bytes given stays there, and shares their buffer. Any other
 * is gathered in a buffer of its announced size; grpc_frame_room() tells where, so that the bytes
 * can be read into their place and are not copied at all.
 *
 * Ownership.  grpc_frame_done() frees what is gathered. The message's owner is a reference that
 * the caller drops.
 */
#pragma once

#include "base/buf.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#define GRPC_PREFIX_BYTES 5

struct grpc_frame {
        char        prefix[GRPC_PREFIX_BYTES];
        unsigned    n_prefix;  /* bytes of it that are there */
        size_t      len;       /* announced, once the prefix is complete */
        size_t      got;       /* of these in `gathered` */
        struct buf *gathered;  /* ref; NULL until bytes have to be kept */
        size_t      max_bytes; /* of a message as it is sent */
        struct buf_pool *pool; /* borrowed; may be NULL */
};

struct grpc_message {
        struct str  bytes;
        struct buf *owner; /* ref; NULL when the message is empty */
        bool        is_compressed;
};

enum grpc_frame_status {
        GRPC_FRAME_MORE,
        GRPC_FRAME_MESSAGE,
        GRPC_FRAME_TOO_LARGE, /* f->len tells how much was announced */
        GRPC_FRAME_BAD_FLAG,  /* neither 0 nor 1 */
        GRPC_FRAME_NO_MEMORY,
};

void grpc_frame_init(struct grpc_frame *f, size_t max_bytes, struct buf_pool *pool);
void grpc_frame_done(struct grpc_frame *f); /* may be init'ed again */

/* Takes what it can use from the front of *in. `owner` is the buffer that *in lies in, NULL when
 * its bytes do not stay. *ret is written on GRPC_FRAME_MESSAGE only. After a failure: done. */
enum grpc_frame_status grpc_frame_read(struct grpc_frame *f, struct str *in, struct buf *owner,
                                       struct grpc_message *ret);
/* A part of a message is there. */
bool grpc_frame_is_partial(const struct grpc_frame *f);
/* Where the next bytes of the message are to be; iov_len 0 when none is being gathered. */
struct iovec grpc_frame_room(const struct grpc_frame *f);
