/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue of byte ranges that a call has sent and that wait for flow control.
 *
 * Ranges in counted buffers are queued in place. Other bytes are copied: a few into the queue itself, more
 * into buffers of the pool.
 *
 * Ownership.  send_queue_done() drops the queued ranges. send_queue_put_buf() takes the reference, also when
 * it fails.
 */
#pragma once

#include "base/buf.h"
#include "base/compiler.h"

#include <stdbool.h>
#include <stddef.h>

struct h2_out;

/* Room for the prefix, the head and small outputs of an ordinary answer. */
#define SEND_QUEUE_SMALL_BYTES 1024
#define SEND_QUEUE_FEW 8
/* A range below this size costs less to copy than to refer to. */
#define SEND_QUEUE_REFER_BYTES 2048

struct send_range {
        const char *ptr;
        size_t      len;
        struct buf *owner; /* ref; NULL = the bytes are in `small` */
};

struct send_queue {
        struct buf_pool   *pool;   /* borrowed */
        size_t             bytes;  /* number of queued bytes */
        struct send_range *ranges; /* `few`, or owned */
        size_t             first, n_ranges, cap;
        struct buf        *tail; /* ref: buffer for the next copies */
        size_t             small_used;
        struct send_range  few[SEND_QUEUE_FEW];
        char               small[SEND_QUEUE_SMALL_BYTES];
};

void send_queue_init(struct send_queue *q, struct buf_pool *pool);
void send_queue_done(struct send_queue *q);

/* False when memory is short; then the queue must not be used any more. */
bool send_queue_put(struct send_queue *q, const void *bytes, size_t len) NODISCARD;
bool send_queue_put_buf(struct send_queue *q, const void *bytes, size_t len, struct buf *owner)
        NODISCARD;

/* Returns how many bytes, at most `max`, fit into one frame of a struct h2_out. */
size_t send_queue_fit(const struct send_queue *q, size_t max);
/* Moves the next n bytes, which send_queue_fit() has permitted, to `out`. */
void send_queue_take(struct send_queue *q, size_t n, struct h2_out *out);
