/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu/range_pool.h"

#include "base/mem.h"

#define MIN_SLOTS 64

struct block {
        uint64_t      address;
        uint64_t      bytes;
        bool          is_free;
        struct block *previous, *next; /* neighbours */
        /* Of a free block: its place in the treap. */
        struct block *left, *right;
        uint32_t      priority; /* no child has a higher one */
        /* Of a used block: the next one of its slot; of an unused record: the next unused one. */
        struct block *link;
};

struct range_pool {
        uint64_t       granule;
        uint64_t       used_bytes;
        struct block  *first;
        struct block  *free_root; /* treap */
        struct block **slots;     /* owned; hash table of the used blocks */
        size_t         n_slots;   /* a power of two */
        size_t         n_used;
        size_t         n_blocks;
        struct block  *unused; /* records without a block */
        uint32_t       random;
};

/* ---- free blocks ----------------------------------------------------------------------------- */

static bool is_before(const struct block *a, const struct block *b) {
        return a->bytes != b->bytes ? a->bytes < b->bytes : a->address < b->address;
}

/* Marsaglia, "Xorshift RNGs": priorities need no more than to look unlike the order of addresses. */
static uint32_t next_random(struct range_pool *p) {
        p->random ^= p->random << 13;
        p->random ^= p->random >> 17;
        p->random ^= p->random << 5;
        return p->random;
}

/* Divides a treap into the blocks before `at` and the others. */
static void split(struct block *root, const struct block *at, struct block **ret_before,
                  struct block **ret_after) {
        while (root != NULL) {
                if (is_before(root, at)) {
                        *ret_before = root;
                        ret_before = &root->right;
                        root = root->right;
                } else {
                        *ret_after = root;
                        ret_after = &root->left;
                        root = root->left;
                }
        }
        *ret_before = NULL;
        *ret_after = NULL;
}

static void insert_free(struct range_pool *p, struct block *b) {
        struct block **at = &p->free_root;

        b->is_free = true;
        b->priority = next_random(p);
        while (*at != NULL && (*at)->priority >= b->priority)
                at = is_before(b, *at) ? &(*at)->left : &(*at)->right;
        split(*at, b, &b->left, &b->right);
        *at = b;
}

/* Joins two treaps, all of whose blocks are before and after each other. */
static struct block *join_treaps(struct block *before, struct block *after) {
        struct block  *root = NULL;
        struct block **at = &root;

        while (before != NULL && after != NULL) {
                if (before->priority >= after->priority) {
                        *at = before;
                        at = &before->right;
                        before = before->right;
                } else {
                        *at = after;
                        at = &after->left;
                        after = after->left;
                }
        }
        *at = before != NULL ? before : after;
        return root;
}

static void remove_free(struct range_pool *p, struct block *b) {
        struct block **at = &p->free_root;

        while (*at != b)
                at = is_before(b, *at) ? &(*at)->left : &(*at)->right;
        *at = join_treaps(b->left, b->right);
        b->is_free = false;
}

static struct block *find_best(const struct range_pool *p, uint64_t bytes) {
        struct block *best = NULL;

        for (struct block *b = p->free_root; b != NULL;) {
                if (b->bytes >= bytes) {
                        best = b;
                        b = b->left;
                } else {
                        b = b->right;
                }
        }
        return best;
}

/* ---- used blocks ----------------------------------------------------------------------------- */

static struct block **slot_of(const struct range_pool *p, struct block **slots, size_t n_slots,
                              uint64_t address) {
        uint64_t hash = address / p->granule * 0x9e3779b97f4a7c15; /* 2^64 / the golden ratio */

        return &slots[(hash >> 32) & (n_slots - 1)];
}

/* Without memory for a larger table, the chains become longer. */
static void grow_slots(struct range_pool *p) {
        size_t         n = p->n_slots * 2;
        struct block **slots = try_zalloc(n * sizeof(struct block *));

        if (slots == NULL)
                return;
        for (size_t i = 0; i < p->n_slots; i++) {
                while (p->slots[i] != NULL) {
                        struct block  *b = p->slots[i];
                        struct block **to = slot_of(p, slots, n, b->address);

                        p->slots[i] = b->link;
                        b->link = *to;
                        *to = b;
                }
        }
        free(p->slots);
        p->slots = slots;
        p->n_slots = n;
}

static void insert_used(struct range_pool *p, struct block *b) {
        struct block **slot;

        if (p->n_used >= p->n_slots)
                grow_slots(p);
        slot = slot_of(p, p->slots, p->n_slots, b->address);
        b->link = *slot;
        *slot = b;
        p->n_used++;
        p->used_bytes += b->bytes;
}

/* NULL: there is none. */
static struct block *remove_used(struct range_pool *p, uint64_t address) {
        struct block **at = slot_of(p, p->slots, p->n_slots, address);
        struct block  *b;

        while (*at != NULL && (*at)->address != address)
                at = &(*at)->link;
        b = *at;
        if (b == NULL)
                return NULL;
        *at = b->link;
        p->n_used--;
        p->used_bytes -= b->bytes;
        return b;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static struct block *new_block(struct range_pool *p) {
        struct block *b = p->unused;

        if (b != NULL && !mem_may_fail())
                p->unused = b->link;
        else
                b = try_alloc(sizeof(*b));
        if (b == NULL)
                return NULL;
        *b = (struct block){ 0 };
        p->n_blocks++;
        return b;
}

static void keep_record(struct range_pool *p, struct block *b) {
        b->link = p->unused;
        p->unused = b;
        p->n_blocks--;
}

/* Cuts the end off a block, which becomes free. False without memory for its record. */
static bool cut(struct range_pool *p, struct block *b, uint64_t bytes) {
        struct block *rest;

        if (b->bytes == bytes)
                return true;
        rest = new_block(p);
        if (rest == NULL)
                return false;
        rest->address = b->address + bytes;
        rest->bytes = b->bytes - bytes;
        rest->previous = b;
        rest->next = b->next;
        if (rest->next != NULL)
                rest->next->previous = rest;
        b->next = rest;
        b->bytes = bytes;
        insert_free(p, rest);
        return true;
}

/* Makes one block of a block and its neighbour behind it. */
static void absorb_next(struct range_pool *p, struct block *b) {
        struct block *next = b->next;

        b->bytes += next->bytes;
        b->next = next->next;
        if (b->next != NULL)
                b->next->previous = b;
        keep_record(p, next);
}

bool range_pool_take(struct range_pool *p, uint64_t bytes, uint64_t *ret) {
        uint64_t      n_granules = MAX(bytes / p->granule + (bytes % p->granule != 0), 1);
        uint64_t      rounded;
        struct block *b;

        if (__builtin_mul_overflow(n_granules, p->granule, &rounded))
                return false;
        b = find_best(p, rounded);
        if (b == NULL)
                return false;
        remove_free(p, b);
        if (!cut(p, b, rounded)) {
                insert_free(p, b);
                return false;
        }
        insert_used(p, b);
        *ret = b->address;
        return true;
}

bool range_pool_give(struct range_pool *p, uint64_t address) {
        struct block *b = remove_used(p, address);

        if (b == NULL)
                return false;
        if (b->next != NULL && b->next->is_free) {
                remove_free(p, b->next);
                absorb_next(p, b);
        }
        if (b->previous != NULL && b->previous->is_free) {
                b = b->previous;
                remove_free(p, b);
                absorb_next(p, b);
        }
        insert_free(p, b);
        return true;
}

uint64_t range_pool_used_bytes(const struct range_pool *p) {
        return p->used_bytes;
}

uint64_t range_pool_largest_free(const struct range_pool *p) {
        const struct block *b = p->free_root;

        while (b != NULL && b->right != NULL)
                b = b->right;
        return b != NULL ? b->bytes : 0;
}

size_t range_pool_n_blocks(const struct range_pool *p) {
        return p->n_blocks;
}

struct range_pool *range_pool_new(uint64_t base, uint64_t bytes, uint64_t granule) {
        struct range_pool *p = try_zalloc(sizeof(*p));

        if (p == NULL)
                return NULL;
        p->granule = granule;
        p->random = 0x2545f491; /* any number but 0 */
        p->n_slots = MIN_SLOTS;
        p->slots = try_zalloc(MIN_SLOTS * sizeof(struct block *));
        p->first = p->slots != NULL ? new_block(p) : NULL;
        if (p->first == NULL) {
                free(p->slots);
                free(p);
                return NULL;
        }
        p->first->address = base;
        p->first->bytes = bytes;
        insert_free(p, p->first);
        return p;
}

static void free_chain(struct block *b, struct block *(*next_of)(const struct block *b)) {
        while (b != NULL) {
                struct block *next = next_of(b);

                free(b);
                b = next;
        }
}

static struct block *neighbour(const struct block *b) {
        return b->next;
}

static struct block *link_of(const struct block *b) {
        return b->link;
}

void range_pool_free(struct range_pool *p) {
        if (p == NULL)
                return;
        free_chain(p->first, neighbour);
        free_chain(p->unused, link_of);
        free(p->slots);
        free(p);
}
