/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/buf.h"

#include "base/lock.h"
#include "base/mem.h"

#define BUF_MIN_SHIFT 12 /* 4 KiB */
#define BUF_MAX_SHIFT 26 /* 64 MiB */
#define BUF_CLASSES (BUF_MAX_SHIFT - BUF_MIN_SHIFT + 1)
#define BUF_ALIGNMENT 64 /* a cache line, and the widest vector a backend reads with */

struct buf_pool {
        struct ref ref; /* one of the owner, one of each buffer that is out */
        size_t     max_kept_bytes;

        struct mutex lock;              /* rank LOCK_MAILBOX; guards everything below */
        struct buf  *kept[BUF_CLASSES]; /* owned; linked by next_free */
        size_t       kept_bytes;
        bool         is_closed; /* the owner is gone: nothing is kept any more */
};

static size_t class_bytes(uint32_t size_class) {
        return (size_t)1 << (BUF_MIN_SHIFT + size_class);
}

/* The smallest class that holds `cap` bytes; BUF_CLASSES when none does. */
static uint32_t class_of(size_t cap) {
        uint32_t size_class = 0;

        while (size_class < BUF_CLASSES && class_bytes(size_class) < cap)
                size_class++;
        return size_class;
}

static void free_chain(struct buf *b) {
        while (b) {
                struct buf *next = b->next_free;

                free(b);
                b = next;
        }
}

struct buf_pool *buf_pool_new(size_t max_kept_bytes) {
        struct buf_pool *pool = mem_zalloc(sizeof(*pool));

        ref_init(&pool->ref);
        pool->max_kept_bytes = max_kept_bytes;
        mutex_init(&pool->lock, LOCK_MAILBOX);
        return pool;
}

static void put_pool(struct buf_pool *pool) {
        if (!ref_put(&pool->ref))
                return;
        mutex_done(&pool->lock);
        free(pool);
}

/* Takes buffers out, largest first, until at most `target` bytes are kept; they come as a chain. */
static struct buf *shrink_locked(struct buf_pool *pool, size_t target) {
        struct buf *chain = NULL;

        for (uint32_t i = BUF_CLASSES; i-- > 0;) {
                while (pool->kept[i] && pool->kept_bytes > target) {
                        struct buf *b = pool->kept[i];

                        pool->kept[i] = b->next_free;
                        pool->kept_bytes -= b->cap;
                        b->next_free = chain;
                        chain = b;
                }
        }
        return chain;
}

void buf_pool_unref(struct buf_pool *pool) {
        struct buf *chain;

        if (!pool)
                return;
        mutex_lock(&pool->lock);
        pool->is_closed = true;
        chain = shrink_locked(pool, 0);
        mutex_unlock(&pool->lock);

        free_chain(chain);
        put_pool(pool);
}

void buf_pool_trim(struct buf_pool *pool) {
        struct buf *chain;

        mutex_lock(&pool->lock);
        chain = shrink_locked(pool, pool->kept_bytes / 2);
        mutex_unlock(&pool->lock);

        free_chain(chain);
}

static struct buf *take_kept(struct buf_pool *pool, uint32_t size_class) {
        struct buf *b;
        MUTEX_GUARD(&pool->lock);

        b = pool->kept[size_class];
        if (b) {
                pool->kept[size_class] = b->next_free;
                pool->kept_bytes -= b->cap;
        }
        return b;
}

static struct buf *allocate(size_t cap, uint32_t size_class) {
        struct buf *b;
        size_t      total;

        if (!size_add(sizeof(*b), cap, &total))
                return NULL;
        b = try_aligned_alloc(BUF_ALIGNMENT, total);
        if (b) {
                b->cap = cap;
                b->size_class = size_class;
        }
        return b;
}

struct buf *buf_new(struct buf_pool *pool, size_t cap) {
        uint32_t    size_class = class_of(cap);
        struct buf *b = NULL;

        if (size_class == BUF_CLASSES)
                pool = NULL;
        if (pool) {
                cap = class_bytes(size_class);
                b = take_kept(pool, size_class);
        }
        if (!b)
                b = allocate(cap, size_class);
        if (!b)
                return NULL;

        ref_init(&b->ref);
        b->pool = pool;
        b->next_free = NULL;
        b->len = 0;
        if (pool)
                ref_get(&pool->ref);
        return b;
}

void buf_ref(struct buf *b) {
        ref_get(&b->ref);
}

/* False when the pool has enough, or is closed: the caller frees the buffer. */
static bool keep(struct buf_pool *pool, struct buf *b) {
        MUTEX_GUARD(&pool->lock);

        if (pool->is_closed || b->cap > pool->max_kept_bytes ||
            pool->kept_bytes > pool->max_kept_bytes - b->cap)
                return false;
        b->next_free = pool->kept[b->size_class];
        pool->kept[b->size_class] = b;
        pool->kept_bytes += b->cap;
        return true;
}

void buf_unref(struct buf *b) {
        struct buf_pool *pool;

        if (!b || !ref_put(&b->ref))
                return;
        pool = STEAL(b->pool);
        if (!pool) {
                free(b);
                return;
        }
        if (!keep(pool, b))
                free(b);
        put_pool(pool);
}
