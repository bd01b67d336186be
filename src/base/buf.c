/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/buf.h"

#include "base/byte_budget.h"
#include "base/lock.h"
#include "base/mem.h"

#include <assert.h>

#define BUF_MIN_SHIFT 8  /* 256 bytes */
#define BUF_MAX_SHIFT 26 /* 64 MiB */
#define BUF_CLASSES (BUF_MAX_SHIFT - BUF_MIN_SHIFT + 1)
#define BUF_MAPPED (BUF_CLASSES + 1) /* size class of a buffer that can grow */
#define FIRST_MAPPED_BYTES ((size_t)1 << 20)
/* The same once half of the budget is used. More than BYTE_BUDGET_SMALL, so no piece of the last eighth. */
#define FIRST_CAREFUL_BYTES ((size_t)128 << 10)
#define BUF_HOLDS (BUF_CLASSES + 2) /* size_class of buf_new_holding() */
#define SMALL_CAP ((size_t)4096)
#define BESIDE_BYTES (sizeof(struct buf) + BUF_ALIGNMENT)
#define BUF_ALIGNMENT 64 /* a cache line, and the widest vector a backend reads with */

/* A pool that has drawn this much more from the budget than it uses has room for a few heads. */
#define ROOM_BYTES ((size_t)16 << 10)
#define KEPT_SHARE 16 /* largest part of the byte budget that free buffers may take */

struct buf_pool {
        struct ref ref; /* one reference of the owner, one of each buffer in use */
        size_t     max_kept_bytes;

        struct mutex        lock;              /* rank LOCK_LEAF; guards everything below */
        struct byte_account account;           /* charged with the buffers in use */
        struct buf         *kept[BUF_CLASSES]; /* owned; linked by next_free */
        size_t              kept_bytes;
        bool is_closed; /* the owner has released the pool: freed buffers are not kept any
                                 * more */
};

/* What the budget is charged for a buffer of `cap` bytes. The head of a small one, and the room up to its
 * alignment, would add up to as much as its bytes. */
static size_t cost_of(size_t cap) {
        return cap <= SMALL_CAP ? cap + BESIDE_BYTES : cap;
}

static size_t class_bytes(uint32_t size_class) {
        return (size_t)1 << (BUF_MIN_SHIFT + size_class);
}

/* Returns the smallest class that holds `cap` bytes; BUF_CLASSES when none does. */
static uint32_t class_of(size_t cap) {
        uint32_t size_class = 0;

        while (size_class < BUF_CLASSES && class_bytes(size_class) < cap)
                size_class++;
        return size_class;
}

static size_t mapped_bytes(size_t cap) {
        return mem_round_to_pages(sizeof(struct buf) + cap);
}

static void free_buf(struct buf *b) {
        if (b->size_class == BUF_MAPPED)
                mem_unmap_large(b, mapped_bytes(b->cap));
        else
                mem_free_large(b, sizeof(*b) + b->cap);
}

static void free_chain(struct buf *b) {
        while (b != NULL) {
                struct buf *next = b->next_free;

                free_buf(b);
                b = next;
        }
}

struct buf_pool *buf_pool_new(size_t max_kept_bytes) {
        struct buf_pool *pool = mem_zalloc(sizeof(*pool));

        ref_init(&pool->ref);
        pool->max_kept_bytes = max_kept_bytes;
        mutex_init(&pool->lock, LOCK_LEAF);
        return pool;
}

void buf_pool_set_budget(struct buf_pool *pool, struct byte_budget *budget) {
        pool->account.budget = budget;
        pool->max_kept_bytes = MIN(pool->max_kept_bytes, budget->max / KEPT_SHARE);
}

struct byte_budget *buf_pool_budget(const struct buf_pool *pool) {
        return pool != NULL ? pool->account.budget : NULL;
}

static void put_pool(struct buf_pool *pool) {
        if (!ref_put(&pool->ref))
                return;
        byte_account_close(&pool->account);
        mutex_done(&pool->lock);
        free(pool);
}

/* Removes free buffers, largest first, until at most `target` bytes are kept; returns them as a
 * chain. */
static struct buf *shrink_locked(struct buf_pool *pool, size_t target) {
        struct buf *chain = NULL;

        for (uint32_t i = BUF_CLASSES; i-- > 0;) {
                while (pool->kept[i] != NULL && pool->kept_bytes > target) {
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

        if (pool == NULL)
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

/* Charges the account for one buffer of this class; false when it has no room. *ret is a free
 * buffer of the pool, or NULL. */
static bool take_kept(struct buf_pool *pool, uint32_t size_class, struct buf **ret) {
        struct buf *b;
        MUTEX_GUARD(&pool->lock);

        if (!byte_account_take(&pool->account, cost_of(class_bytes(size_class))))
                return false;
        b = pool->kept[size_class];
        if (b != NULL) {
                pool->kept[size_class] = b->next_free;
                pool->kept_bytes -= b->cap;
        }
        *ret = b;
        return true;
}

static void give_back(struct buf_pool *pool, size_t bytes) {
        MUTEX_GUARD(&pool->lock);

        byte_account_give(&pool->account, bytes);
}

static struct buf *allocate_buf(size_t cap, uint32_t size_class) {
        struct buf *b;
        size_t      total;

        if (!size_add(sizeof(*b), cap, &total))
                return NULL;
        b = try_aligned_alloc(BUF_ALIGNMENT, total);
        if (b != NULL) {
                b->cap = cap;
                b->size_class = size_class;
        }
        return b;
}

static void init_buf(struct buf *b, struct buf_pool *pool, struct byte_budget *budget) {
        ref_init(&b->ref);
        b->pool = pool;
        b->next_free = NULL;
        b->budget = budget;
        b->len = 0;
}

/* False, after a notice to the budget's owner, when it has no room. */
static bool take_or_count(struct byte_budget *budget, size_t bytes) {
        if (budget == NULL || byte_budget_take(budget, bytes))
                return true;
        byte_budget_refused(budget);
        return false;
}

static void give(struct byte_budget *budget, size_t bytes) {
        if (budget != NULL)
                byte_budget_give(budget, bytes);
}

/* Allocates a buffer outside of pools, which is charged to the budget all the same. */
static struct buf *new_alone(struct byte_budget *budget, size_t cap) {
        struct buf *b;

        if (!take_or_count(budget, cost_of(cap)))
                return NULL;
        b = allocate_buf(cap, BUF_CLASSES);
        if (b != NULL)
                init_buf(b, NULL, budget);
        else
                give(budget, cost_of(cap));
        return b;
}

struct buf *buf_new_charged(struct byte_budget *budget, size_t cap) {
        return new_alone(budget, cap);
}

/* The contents of a buffer that holds an object. Its `len` is what the budget was charged for. */
struct held {
        void (*release)(void *object);
        void *object;
};

struct buf *buf_new_holding(struct byte_budget *budget, size_t   n_bytes,
                            void (*release)(void *object), void *object) {
        struct buf *b;

        if (budget != NULL && !byte_budget_take(budget, n_bytes)) {
                byte_budget_refused(budget);
                return NULL;
        }
        b = allocate_buf(sizeof(struct held), BUF_HOLDS);
        if (b == NULL) {
                if (budget != NULL)
                        byte_budget_give(budget, n_bytes);
                return NULL;
        }
        init_buf(b, NULL, budget);
        b->len = n_bytes;
        *(struct held *)b->bytes = (struct held){ release, object };
        return b;
}

static struct buf *lend(struct buf_pool *pool, struct buf *b) {
        init_buf(b, pool, NULL);
        ref_get(&pool->ref);
        return b;
}

/* The pool's account has its bytes. */
static struct buf *lend_new(struct buf_pool *pool, uint32_t size_class) {
        size_t      cap = class_bytes(size_class);
        struct buf *b = allocate_buf(cap, size_class);

        if (b != NULL)
                return lend(pool, b);
        give_back(pool, cost_of(cap));
        return NULL;
}

struct buf *buf_new(struct buf_pool *pool, size_t cap) {
        uint32_t    size_class = class_of(cap);
        struct buf *b = NULL;

        if (pool == NULL || size_class == BUF_CLASSES)
                return new_alone(buf_pool_budget(pool), cap);
        if (!take_kept(pool, size_class, &b)) {
                byte_budget_refused(pool->account.budget);
                return NULL;
        }
        return b != NULL ? lend(pool, b) : lend_new(pool, size_class);
}

/* ---- buffers that grow ---- */

static struct buf *map_new(struct byte_budget *budget, size_t cap) {
        struct buf *b;

        if (!take_or_count(budget, cap))
                return NULL;
        b = try_map(mapped_bytes(cap));
        if (b == NULL) {
                give(budget, cap);
                return NULL;
        }
        b->cap = cap;
        b->size_class = BUF_MAPPED;
        init_buf(b, NULL, budget);
        return b;
}

struct buf *buf_new_growing(struct buf_pool *pool, size_t bytes, size_t first) {
        struct byte_budget *budget = buf_pool_budget(pool);
        bool                is_careful = byte_budget_is_half_used(budget);
        size_t              least = is_careful ? FIRST_CAREFUL_BYTES : FIRST_MAPPED_BYTES;

        if (class_of(bytes) < BUF_CLASSES && (!is_careful || bytes <= least))
                return buf_new(pool, bytes);
        if (bytes > SIZE_MAX / 4)
                return NULL;
        if (!byte_budget_fits(budget, bytes)) {
                byte_budget_refused(budget);
                return NULL;
        }
        return map_new(budget, MIN(MAX(first, least), bytes));
}

bool buf_grow(struct buf **ret, size_t bytes) {
        struct buf *b = *ret, *grown;
        size_t      cap = MIN(2 * b->cap, bytes), more = cap - b->cap;

        assert(b->size_class == BUF_MAPPED && cap > b->cap);
        if (!take_or_count(b->budget, more))
                return false;
        grown = try_remap(b, mapped_bytes(b->cap), mapped_bytes(cap));
        if (grown == NULL) {
                give(b->budget, more);
                return false;
        }
        grown->cap = cap;
        *ret = grown;
        return true;
}

size_t buf_pool_largest(const struct buf_pool *pool) {
        size_t   bytes = byte_budget_largest(buf_pool_budget(pool));
        uint32_t size_class = class_of(bytes);

        if (size_class == BUF_CLASSES || class_bytes(size_class) == bytes)
                return bytes;
        return size_class > 0 ? class_bytes(size_class - 1) : 0;
}

static void take_beyond(struct buf_pool *pool, size_t bytes) {
        MUTEX_GUARD(&pool->lock);

        if (byte_account_take(&pool->account, bytes))
                return;
        byte_budget_force(pool->account.budget, bytes);
}

struct buf *buf_new_beyond(struct buf_pool *pool, size_t cap) {
        uint32_t size_class = class_of(cap);

        take_beyond(pool, cost_of(class_bytes(size_class)));
        return lend_new(pool, size_class);
}

bool buf_pool_is_tight(struct buf_pool *pool) {
        MUTEX_GUARD(&pool->lock);

        return byte_budget_is_tight(pool->account.budget) && pool->account.spare < ROOM_BYTES;
}

const char *buf_pool_shortage(const struct buf_pool *pool, size_t cap) {
        return byte_budget_fits(buf_pool_budget(pool), cap) ? "out of memory" : BYTE_BUDGET_USED_UP;
}

void buf_ref(struct buf *b) {
        ref_get(&b->ref);
}

/* False when the pool keeps enough, or is closed: the caller frees the buffer. */
static bool keep(struct buf_pool *pool, struct buf *b) {
        MUTEX_GUARD(&pool->lock);

        byte_account_give(&pool->account, cost_of(b->cap));
        if (pool->is_closed || b->cap > pool->max_kept_bytes ||
            pool->kept_bytes > pool->max_kept_bytes - b->cap)
                return false;
        b->next_free = pool->kept[b->size_class];
        pool->kept[b->size_class] = b;
        pool->kept_bytes += b->cap;
        return true;
}

static void free_alone(struct buf *b) {
        const struct held *h = (const struct held *)b->bytes;
        bool               holds = b->size_class == BUF_HOLDS;

        if (b->budget != NULL)
                byte_budget_give(b->budget, holds ? b->len : cost_of(b->cap));
        if (holds)
                h->release(h->object);
        free_buf(b);
}

void buf_unref(struct buf *b) {
        struct buf_pool *pool;

        if (b == NULL || !ref_put(&b->ref))
                return;
        pool = STEAL(b->pool);
        if (pool == NULL) {
                free_alone(b);
                return;
        }
        if (!keep(pool, b))
                free_buf(b);
        put_pool(pool);
}
