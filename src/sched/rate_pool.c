/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/rate_pool.h"

#include "base/mem.h"

#include <string.h>

struct rate_pool {
        char    *name; /* owned */
        bool     is_global;
        int      device;     /* unless it is global */
        bool     has_supply; /* the options give its capacity; else the largest need is it */
        uint64_t capacity;
        uint64_t largest;   /* need of its users */
        size_t   n_largest; /* number of users with that need */
        uint64_t used;      /* exceeds the capacity for a while after that has shrunk */
        uint64_t reserved;  /* the round in which a waiting claim has reserved it */
        size_t   n_users;   /* number of needs with this pool */
        struct list_node node;
};

struct rate_need {
        struct rate_pool *pool; /* borrowed */
        uint64_t          count;
};

void rate_pools_init(struct rate_pools *p, const struct rate_supply *supplies, size_t n) {
        p->supplies = mem_zalloc((n + 1) * sizeof(*p->supplies));
        p->n_supplies = n;
        for (size_t i = 0; i < n; i++) {
                p->supplies[i] = supplies[i];
                p->supplies[i].name = mem_strdup(supplies[i].name);
        }
        list_init(&p->pools);
        list_init(&p->needs);
}

void rate_pools_done(struct rate_pools *p) {
        for (size_t i = 0; i < p->n_supplies; i++)
                free((char *)(uintptr_t)p->supplies[i].name);
        free(p->supplies);
}

/* ---- pools ---------------------------------------------------------------------------------- */

/* Returns false when the options do not name the resource. */
static bool find_supply(const struct rate_pools *p, const struct rate_pool *pool, uint64_t *ret) {
        const struct rate_supply *of_each = NULL, *of_this = NULL, *any = NULL;

        for (size_t i = 0; i < p->n_supplies; i++) {
                const struct rate_supply *s = &p->supplies[i];

                if (strcmp(s->name, pool->name) != 0)
                        continue;
                any = any != NULL ? any : s;
                if (s->device == RATE_EACH_DEVICE)
                        of_each = s;
                else if (s->device == pool->device)
                        of_this = s;
        }
        if (pool->is_global) /* the device of a global resource is ignored */
                of_this = of_each != NULL ? of_each : any;
        else if (of_this == NULL)
                of_this = of_each;
        *ret = of_this != NULL ? of_this->count : 0;
        return any != NULL;
}

static void add_to_largest(struct rate_pool *pool, uint64_t count) {
        if (pool->n_largest == 0 || count > pool->largest) {
                pool->largest = count;
                pool->n_largest = 0;
        }
        pool->n_largest += count == pool->largest;
        if (!pool->has_supply)
                pool->capacity = pool->largest;
}

static void find_largest(const struct rate_pools *p, struct rate_pool *pool) {
        for (const struct list_node *n = p->needs.head.next; n != &p->needs.head; n = n->next) {
                const struct rate_needs *needs = LIST_ENTRY(n, const struct rate_needs, node);

                for (size_t i = 0; i < needs->n_items; i++)
                        if (needs->items[i].pool == pool)
                                add_to_largest(pool, needs->items[i].count);
        }
}

static struct rate_pool *get_pool(struct rate_pools *p, const char *name, bool is_global,
                                  int device) {
        struct rate_pool *pool;

        LIST_FOR_EACH(&p->pools, node) {
                pool = LIST_ENTRY(node, struct rate_pool, node);
                if (strcmp(pool->name, name) == 0 && pool->is_global == is_global &&
                    (is_global || pool->device == device))
                        return pool;
        }
        pool = mem_zalloc(sizeof(*pool));
        pool->name = mem_strdup(name);
        pool->is_global = is_global;
        pool->device = device;
        pool->has_supply = find_supply(p, pool, &pool->capacity);
        list_append(&p->pools, &pool->node);
        return pool;
}

/* The need is not registered any more. */
static void drop_need(const struct rate_pools *p, const struct rate_need *need) {
        struct rate_pool *pool = need->pool;

        if (--pool->n_users > 0) {
                /* A walk through all needs only after the last of the largest ones. */
                if (need->count == pool->largest && --pool->n_largest == 0)
                        find_largest(p, pool);
                return;
        }
        list_remove(&pool->node);
        free(pool->name);
        free(pool);
}

/* ---- needs ---------------------------------------------------------------------------------- */

static void add_need(struct rate_needs *needs, struct rate_pool *pool, uint64_t count) {
        for (size_t i = 0; i < needs->n_items; i++)
                if (needs->items[i].pool == pool) {
                        needs->items[i].count += count; /* 2^32 of less than 2^32: no overflow */
                        return;
                }
        pool->n_users++;
        needs->items[needs->n_items++] = (struct rate_need){ pool, count };
}

static struct error *check_kind(const struct rate_pools *p, const struct rate_pool *pool) {
        for (const struct list_node *n = p->pools.head.next; n != &p->pools.head; n = n->next) {
                const struct rate_pool *other = LIST_ENTRY(n, const struct rate_pool, node);

                if (other->is_global != pool->is_global && strcmp(other->name, pool->name) == 0)
                        return error_new(ERR_INVALID_ARG,
                                         "Resource \"%s\" is present as both global and "
                                         "device-specific resource in the model configuration.",
                                         pool->name);
        }
        return NULL;
}

static struct error *check_needs(const struct rate_pools *p, const struct rate_needs *needs) {
        for (size_t i = 0; i < needs->n_items; i++)
                TRY(check_kind(p, needs->items[i].pool));
        for (size_t i = 0; i < needs->n_items; i++) {
                const struct rate_need *need = &needs->items[i];

                if (need->count > need->pool->capacity)
                        return error_new(ERR_INVALID_ARG,
                                         "Resource count for \"%s\" is limited to %llu which will "
                                         "prevent scheduling of one or more model instances, the "
                                         "minimum required count is %llu",
                                         need->pool->name, (unsigned long long)need->pool->capacity,
                                         (unsigned long long)need->count);
        }
        return NULL;
}

struct error *rate_needs_init(struct rate_needs *needs, struct rate_pools *p,
                              const Inference__ModelRateLimiter *limits, int device) {
        size_t        n = limits != NULL ? limits->n_resources : 0;
        struct error *err;

        *needs = (struct rate_needs){ .items = mem_zalloc((n + 1) * sizeof(struct rate_need)) };
        list_append(&p->needs, &needs->node);
        for (size_t i = 0; i < n; i++) {
                const Inference__ModelRateLimiter__Resource *r = limits->resources[i];

                add_need(needs, get_pool(p, r->name, r->global, device), r->count);
        }
        for (size_t i = 0; i < needs->n_items; i++)
                add_to_largest(needs->items[i].pool, needs->items[i].count);
        err = check_needs(p, needs);
        if (err != NULL)
                rate_needs_done(needs, p);
        return err;
}

void rate_needs_done(struct rate_needs *needs, struct rate_pools *p) {
        list_remove(&needs->node);
        for (size_t i = 0; i < needs->n_items; i++)
                drop_need(p, &needs->items[i]);
        free(needs->items);
        *needs = (struct rate_needs){ 0 };
}

/* ---- for the log ---------------------------------------------------------------------------- */

static int compare_pools(const void *left, const void *right) {
        const struct rate_pool *a = *(const struct rate_pool *const *)left;
        const struct rate_pool *b = *(const struct rate_pool *const *)right;

        if (a->is_global != b->is_global)
                return a->is_global ? -1 : 1;
        if (!a->is_global && a->device != b->device)
                return a->device < b->device ? -1 : 1;
        return strcmp(a->name, b->name);
}

/* The pools in the order of the log: an array that the caller owns, of borrowed pools. */
static const struct rate_pool **sort_pools(const struct rate_pools *p, size_t *ret_n) {
        const struct rate_pool **sorted;
        size_t                   n = 0;

        for (const struct list_node *i = p->pools.head.next; i != &p->pools.head; i = i->next)
                n++;
        sorted = mem_alloc((n + 1) * sizeof(*sorted));
        n = 0;
        for (const struct list_node *i = p->pools.head.next; i != &p->pools.head; i = i->next)
                sorted[n++] = LIST_ENTRY(i, const struct rate_pool, node);
        qsort(sorted, n, sizeof(*sorted), compare_pools);
        *ret_n = n;
        return sorted;
}

static bool is_same_device(const struct rate_pool *a, const struct rate_pool *b) {
        return a->is_global == b->is_global && (a->is_global || a->device == b->device);
}

void rate_pools_print(const struct rate_pools *p, struct strbuf *out) {
        size_t                   n;
        const struct rate_pool **sorted = sort_pools(p, &n);

        strbuf_puts(out, "\nMax Resource Map===>\n");
        for (size_t i = 0; i < n; i++) {
                if (i == 0 || !is_same_device(sorted[i - 1], sorted[i])) {
                        if (sorted[i]->is_global)
                                strbuf_puts(out, "\tDevice: GLOBAL\n");
                        else
                                strbuf_printf(out, "\tDevice: %d\n", sorted[i]->device);
                }
                strbuf_printf(out, "\t\tResource: %s\t Count: %llu\n", sorted[i]->name,
                              (unsigned long long)sorted[i]->capacity);
        }
        free(sorted);
}

bool rate_needs_are_free(const struct rate_needs *needs, uint64_t round) {
        for (size_t i = 0; i < needs->n_items; i++) {
                const struct rate_need *need = &needs->items[i];

                if (need->pool->reserved == round ||
                    need->pool->used + need->count > need->pool->capacity)
                        return false;
        }
        return true;
}

void rate_needs_reserve(const struct rate_needs *needs, uint64_t round) {
        for (size_t i = 0; i < needs->n_items; i++)
                needs->items[i].pool->reserved = round;
}

void rate_needs_take(const struct rate_needs *needs) {
        for (size_t i = 0; i < needs->n_items; i++)
                needs->items[i].pool->used += needs->items[i].count;
}

void rate_needs_release(const struct rate_needs *needs) {
        for (size_t i = 0; i < needs->n_items; i++)
                needs->items[i].pool->used -= needs->items[i].count;
}
