/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes on their way to one writev: frames of many streams, gathered.
 *
 * Small pieces are copied, one after the other, into one staging buffer; large ones are referred
 * to where they are, and their buffers are held until the write has ended.
 *
 * A loop has one such collection at work; a connection whose write did not end at once keeps it
 * until it does, and the loop takes another.
 *
 * Ownership.  h2_out_new() is ended by h2_out_free(); h2_out_clear() drops what is held.
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
/* What a single frame may add: see h2_out_has_room(). */
#define H2_OUT_FRAME_REFS 32
#define H2_OUT_FRAME_COPIED_BYTES ((size_t)20 << 10)
/* One writev takes no more than this before the socket is asked. */
#define H2_OUT_MAX_BYTES ((size_t)1 << 20)

struct h2_out {
        struct list_node node;    /* whoever keeps it */
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

/* Room for one more frame: H2_OUT_FRAME_REFS references and H2_OUT_FRAME_COPIED_BYTES copied, in
 * any order. An empty one has room. False when memory is short, too. */
bool h2_out_has_room(struct h2_out *o);
/* Both within the room of a frame. */
void h2_out_copy(struct h2_out *o, const void *bytes, size_t len);
void h2_out_refer(struct h2_out *o, const void *bytes, size_t len, struct buf *owner); /* refs it */
