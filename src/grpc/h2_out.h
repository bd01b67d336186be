/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames of many streams, gathered for one write.
 *
 * Small pieces are copied, one after the other, into a staging buffer. Large pieces stay in place, and their
 * buffers are held until the write has ended.
 *
 * A loop uses one struct h2_out. A connection whose write is pending keeps it until the write has ended, and
 * the loop takes another.
 *
 * Ownership.  h2_out_new() / h2_out_free(); h2_out_clear() drops the references.
 */
#pragma once

#include "base/buf.h"
#include "base/compiler.h"
#include "base/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#define H2_OUT_STAGING_BYTES ((size_t)64 << 10)
#define H2_OUT_PARTS 160
/* Limits of what one frame may add; see h2_out_has_room(). */
#define H2_OUT_FRAME_REFS 32
#define H2_OUT_FRAME_COPIED_BYTES ((size_t)20 << 10)
/* One write gathers no further frame beyond this size. */
#define H2_OUT_MAX_BYTES ((size_t)1 << 20)

struct h2_out {
        struct list_node node;    /* for the owner */
        struct buf_pool *pool;    /* borrowed */
        struct buf      *staging; /* ref; NULL until needed */
        size_t           n_staged;
        size_t           n_bytes;
        struct iovec     parts[H2_OUT_PARTS];
        size_t           n_parts;
        struct buf      *held[H2_OUT_PARTS]; /* ref */
        size_t           n_held;
};

struct h2_out *h2_out_new(struct buf_pool *pool) NODISCARD; /* NULL when memory is short */
void           h2_out_free(struct h2_out *o);               /* NULL is fine */
void           h2_out_clear(struct h2_out *o);

/* True when there is room for one more frame: H2_OUT_FRAME_REFS references and H2_OUT_FRAME_COPIED_BYTES
 * copied bytes in any order. An empty one has room. Also false when memory is short. */
bool h2_out_has_room(struct h2_out *o);
/* Both must stay within the limits of a frame. */
void h2_out_copy(struct h2_out *o, const void *bytes, size_t len);
void h2_out_refer(struct h2_out *o, const void *bytes, size_t len,
                  struct buf *owner); /* takes a new reference */
