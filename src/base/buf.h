/* SPDX-License-Identifier: BSD-3-Clause */
/* A reference-counted buffer: a request body or a response body. Tensors are ranges in it.
 *
 * Buffers come from a pool of size classes (powers of two from 256 bytes to 64 MiB; larger ones are
 * plain allocations, or grow: buf_new_growing()). The pool keeps freed buffers up to a bound, because giving large blocks back
 * to the kernel and faulting them in again costs half of the throughput at 64 KiB and more.
 * buf_pool_trim() halves the free buffers (loops call it from a slow timer).
 *
 * Ownership.  Counted: buf_ref(), buf_unref(). The last unref returns the buffer to its pool. The
 * pool counts its buffers, and so outlives them (buf_pool_unref() may be called while buffers are
 * in use). Buffers in use are charged to the pool's byte budget, if it has one. Free buffers are
 * not charged; they have a bound of their own (at most a sixteenth of the budget).
 *
 * Threads.  A buffer may be unref'ed on any thread: a mutex (rank LOCK_LEAF) guards the pool's
 * free lists. It is uncontended when a loop uses its own pool only.
 */
#pragma once

#include "base/compiler.h"
#include "base/ref.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf_pool;
struct byte_budget;

struct buf {
        struct ref          ref;
        uint32_t            size_class;
        struct buf_pool    *pool; /* ref; NULL = plain allocation */
        struct buf         *next_free;
        struct byte_budget *budget; /* borrowed; of a buffer without a pool that is charged */
        size_t              cap;
        size_t              len; /* bytes in use; set by the buffer's owner */
        char                bytes[] __attribute__((aligned(64)));
};

struct buf_pool *buf_pool_new(size_t max_kept_bytes);
/* Must be called before the first buffer is allocated; `budget` outlives the pool and its buffers. */
void                buf_pool_set_budget(struct buf_pool *pool, struct byte_budget *budget);
struct byte_budget *buf_pool_budget(const struct buf_pool *pool); /* NULL: none; pool may be NULL */
void                buf_pool_unref(struct buf_pool *pool);
void                buf_pool_trim(struct buf_pool *pool); /* halves the free buffers */

/* Returns a buffer of at least `cap` bytes, uninitialised, len 0; pool may be NULL. NULL when
 * memory is short, or the byte budget has no room for it. */
struct buf *buf_new(struct buf_pool *pool, size_t cap) NODISCARD;
/* A buffer outside of pools, of `cap` bytes, that is charged to the budget (borrowed; it outlives the
 * buffer). */
struct buf *buf_new_charged(struct byte_budget *budget, size_t cap) NODISCARD;
/* A reference count for memory of another kind: `release` is called with `object` by the last buf_unref(),
 * on its thread. `n_bytes` are charged to the budget, which may be NULL. NULL when memory is short or the
 * budget has no room; then the caller keeps the object. */
struct buf *buf_new_holding(struct byte_budget *budget, size_t   n_bytes,
                            void (*release)(void *object), void *object) NODISCARD;
/* As buf_new(), but beyond the budget, of at most BYTE_BUDGET_SMALL bytes: for what is answered however little
 * room there is. NULL only when memory is short. */
struct buf *buf_new_beyond(struct buf_pool *pool, size_t cap) NODISCARD;
/* Returns a buffer for a message of `bytes`, which come over time. Up to 64 MiB it has room for all of
 * them while less than half of the budget is used. A larger one has room for `first` bytes, at least 1 MiB,
 * and buf_grow() doubles that, up to `bytes`, without a copy: so it takes no more memory, and no more of the
 * budget, than twice what was put into it. Once half of the budget is used, so has each above 128 KiB, with room
 * for that at first: announcements of bytes that do not come can take no more than half. NULL also when the
 * budget has no room for all of them now. */
struct buf *buf_new_growing(struct buf_pool *pool, size_t bytes, size_t first) NODISCARD;
/* `*b` is full and has no other owner; it may move. False, with nothing changed, when memory is short
 * or the budget has no room. */
bool buf_grow(struct buf **b, size_t bytes) NODISCARD;
/* Largest message of which the pool's budget could ever have room. */
size_t buf_pool_largest(const struct buf_pool *pool);
/* True when the budget is tight (byte_budget_is_tight()) and the pool has drawn no more of it than it
 * uses. False without a budget. */
bool buf_pool_is_tight(struct buf_pool *pool);
/* Reason of a failed buf_new() for an error message: memory is short, or the budget has no room.
 * Static. */
const char *buf_pool_shortage(const struct buf_pool *pool, size_t cap);
void        buf_ref(struct buf *b);
void        buf_unref(struct buf *b); /* NULL is fine */
