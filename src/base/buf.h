/* SPDX-License-Identifier: BSD-3-Clause */
/* A counted run of bytes: a request body, a response body. Tensors are ranges in it.
 *
 * Buffers come from a pool of size classes (powers of two from 4 KiB to 64 MiB; beyond, plain
 * allocations) that keeps what was freed up to a bound, because giving large blocks back to the
 * kernel and faulting them in again costs half of the throughput at 64 KiB and more. What the
 * pool keeps decays when buf_pool_trim() is called (loops do it from a slow timer).
 *
 * Ownership.  Counted: buf_ref(), buf_unref(). The last unref returns it to its pool; a pool
 * outlives its buffers by counting them (buf_pool_unref() may be called while buffers are out).
 * What is out of a pool is charged to its byte budget, if it has one; what it keeps is bounded on its
 * own (a sixteenth of the budget at most), and not charged.
 *
 * Threads.  A buffer may be unref'ed on any thread: the pool's free lists are behind a mutex
 * (rank LOCK_MAILBOX) that is uncontended when a loop stays on its own pool.
 */
#pragma once

#include "base/compiler.h"
#include "base/ref.h"

#include <stddef.h>
#include <stdint.h>

struct buf_pool;
struct byte_budget;

struct buf {
        struct ref       ref;
        uint32_t         size_class;
        struct buf_pool *pool; /* ref; NULL = plain allocation */
        struct buf      *next_free;
        struct byte_budget *budget; /* borrowed; of one without a pool that is charged */
        size_t           cap;
        size_t           len;  /* bytes in use; the owner's business */
        char             bytes[] __attribute__((aligned(64)));
};

struct buf_pool *buf_pool_new(size_t max_kept_bytes);
/* Before the first buffer; `budget` outlives the pool and its buffers. */
void             buf_pool_set_budget(struct buf_pool *pool, struct byte_budget *budget);
struct byte_budget *buf_pool_budget(const struct buf_pool *pool); /* NULL: none; pool may be NULL */
void             buf_pool_unref(struct buf_pool *pool);
void             buf_pool_trim(struct buf_pool *pool); /* halves what is kept */

/* At least `cap` bytes, uninitialised, len 0; pool may be NULL. NULL when memory is short, or the
 * byte budget has no room for it. */
struct buf *buf_new(struct buf_pool *pool, size_t cap) NODISCARD;
/* Why there was none, for the text of an error: memory is short, or the budget has no room. Static. */
const char *buf_pool_shortage(const struct buf_pool *pool, size_t cap);
void        buf_ref(struct buf *b);
void        buf_unref(struct buf *b); /* NULL is fine */
