/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/rate_limiter.h"

#include "base/list.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>

struct rate_limiter {
        atomic_size_t n_undelivered; /* length of `permits`; changed under the lock */

        struct mutex      lock;      /* rank LOCK_RATE_LIMITER; guards everything below */
        struct cond       delivered; /* signalled when an on_permit() has returned */
        struct rate_pools pools;
        struct list       groups;  /* struct rate_group */
        struct list       queue;   /* struct rate_claim, in the order of their permits */
        struct list       permits; /* struct rate_claim: their permit is not delivered yet */
        uint64_t          round;
};

struct rate_group {
        struct rate_limiter *limiter; /* borrowed */
        struct list          claims;  /* by their scaled priority, then by their number */
        uint64_t             n_made;
        bool                 is_asking;
        struct list_node     node;
};

struct rate_claim {
        struct rate_group *group; /* borrowed */
        struct rate_needs  needs;
        uint64_t           weight; /* scaled priority of one execution */
        uint64_t           scaled; /* executions so far x weight */
        uint64_t           number; /* in the group, in the order in which they were made */
        bool               has_permit;
        unsigned           n_callers; /* threads that are in its on_permit() */
        struct list_node   member;    /* in the group */
        struct list_node   node;      /* in the queue, or in `permits` */
        void (*on_permit)(void *instance);
        void *instance;
};

struct rate_limiter *rate_limiter_new(const struct rate_supply *supplies, size_t n_supplies) {
        struct rate_limiter *l = mem_zalloc(sizeof(*l));

        mutex_init(&l->lock, LOCK_RATE_LIMITER);
        cond_init(&l->delivered);
        rate_pools_init(&l->pools, supplies, n_supplies);
        list_init(&l->groups);
        list_init(&l->queue);
        list_init(&l->permits);
        return l;
}

void rate_limiter_free(struct rate_limiter *l) {
        if (l == NULL)
                return;
        rate_pools_done(&l->pools);
        cond_done(&l->delivered);
        mutex_done(&l->lock);
        free(l);
}

struct rate_group *rate_group_new(struct rate_limiter *l) {
        struct rate_group *g = mem_zalloc(sizeof(*g));

        g->limiter = l;
        list_init(&g->claims);
        MUTEX_GUARD(&l->lock);
        list_append(&l->groups, &g->node);
        return g;
}

void rate_group_free(struct rate_group *g) {
        if (g == NULL)
                return;
        mutex_lock(&g->limiter->lock);
        list_remove(&g->node);
        mutex_unlock(&g->limiter->lock);
        free(g);
}

/* ---- groups ---------------------------------------------------------------------------------- */

static bool is_behind(const struct rate_claim *c, const struct rate_claim *other) {
        if (c->scaled != other->scaled)
                return c->scaled > other->scaled;
        return c->number > other->number;
}

/* Most claims belong to the end: they are new, or have just executed. */
static void join_group_locked(struct rate_group *g, struct rate_claim *c) {
        struct list_node *before = &g->claims.head;

        while (before->prev != &g->claims.head &&
               !is_behind(c, LIST_ENTRY(before->prev, struct rate_claim, member)))
                before = before->prev;
        list_insert_before(before, &c->member);
}

/* ---- the queue ------------------------------------------------------------------------------- */

static void enqueue_locked(struct rate_limiter *l, struct rate_claim *c) {
        struct list_node *before = &l->queue.head;

        LIST_FOR_EACH(&l->queue, node) {
                if (LIST_ENTRY(node, struct rate_claim, node)->scaled <= c->scaled)
                        continue;
                before = node;
                break;
        }
        list_insert_before(before, &c->node);
}

/* One pass through the queue, since the group has the same order: a model may have thousands of instances, and all
 * models wait for the lock. */
static void enqueue_all_locked(struct rate_group *g) {
        struct list_node *end = &g->limiter->queue.head, *before = end->next;

        LIST_FOR_EACH(&g->claims, node) {
                struct rate_claim *c = LIST_ENTRY(node, struct rate_claim, member);

                if (c->has_permit || list_is_linked(&c->node))
                        continue;
                while (before != end &&
                       LIST_ENTRY(before, struct rate_claim, node)->scaled <= c->scaled)
                        before = before->next;
                list_insert_before(before, &c->node);
        }
}

static void dequeue_all_locked(struct rate_group *g) {
        g->is_asking = false;
        LIST_FOR_EACH(&g->claims, node) {
                struct rate_claim *c = LIST_ENTRY(node, struct rate_claim, member);

                if (!c->has_permit && list_is_linked(&c->node))
                        list_remove(&c->node);
        }
}

/* Gives the permit to the first claim in the queue that need not wait; NULL when all wait. */
static struct rate_claim *pick_locked(struct rate_limiter *l) {
        l->round++;
        LIST_FOR_EACH(&l->queue, node) {
                struct rate_claim *c = LIST_ENTRY(node, struct rate_claim, node);

                if (!rate_needs_are_free(&c->needs, l->round)) {
                        rate_needs_reserve(&c->needs, l->round);
                        continue;
                }
                dequeue_all_locked(c->group);
                rate_needs_take(&c->needs);
                c->has_permit = true;
                return c;
        }
        return NULL;
}

/* Called after resources were returned, or when a claim does not wait for them any more. */
static void pick_all_locked(struct rate_limiter *l) {
        struct rate_claim *c;

        while ((c = pick_locked(l)) != NULL) {
                list_append(&l->permits, &c->node);
                atomic_fetch_add(&l->n_undelivered, 1);
        }
}

void *rate_group_ask(struct rate_group *g) {
        struct rate_claim *c;

        MUTEX_GUARD(&g->limiter->lock);
        g->is_asking = true;
        enqueue_all_locked(g);
        c = pick_locked(g->limiter);
        assert(c == NULL || c->group == g); /* all other claims in the queue had to wait before */
        return c != NULL ? c->instance : NULL;
}

void rate_group_withdraw(struct rate_group *g) {
        MUTEX_GUARD(&g->limiter->lock);
        if (!g->is_asking)
                return;
        dequeue_all_locked(g);
        pick_all_locked(g->limiter);
}

void rate_claim_end(struct rate_claim *c, enum rate_permit_use use) {
        struct rate_limiter *l = c->group->limiter;

        MUTEX_GUARD(&l->lock);
        rate_needs_release(&c->needs);
        c->has_permit = false;
        if (use == RATE_PERMIT_EXECUTED) {
                c->scaled += c->weight;
                list_remove(&c->member);
                join_group_locked(c->group, c);
        }
        if (c->group->is_asking)
                enqueue_locked(l, c);
        pick_all_locked(l);
}

bool rate_limiter_has_permits(const struct rate_limiter *l) {
        return atomic_load(&l->n_undelivered) > 0;
}

void rate_limiter_deliver(struct rate_limiter *l) {
        struct list_node *node;

        if (!rate_limiter_has_permits(l))
                return;
        mutex_lock(&l->lock);
        while ((node = list_first(&l->permits)) != NULL) {
                struct rate_claim *c = LIST_ENTRY(node, struct rate_claim, node);

                list_remove(node);
                atomic_fetch_sub(&l->n_undelivered, 1);
                c->n_callers++;
                mutex_unlock(&l->lock);
                c->on_permit(c->instance);
                mutex_lock(&l->lock);
                c->n_callers--;
                cond_broadcast(&l->delivered);
        }
        mutex_unlock(&l->lock);
}

/* ---- claims --------------------------------------------------------------------------------- */

static uint64_t lowest_locked(const struct rate_limiter *l) {
        uint64_t lowest = UINT64_MAX;

        for (const struct list_node *n = l->groups.head.next; n != &l->groups.head; n = n->next) {
                const struct rate_group *g = LIST_ENTRY(n, const struct rate_group, node);

                for (const struct list_node *m = g->claims.head.next; m != &g->claims.head;
                     m = m->next)
                        lowest =
                                MIN(lowest, LIST_ENTRY(m, const struct rate_claim, member)->scaled);
        }
        return lowest == UINT64_MAX ? 0 : lowest;
}

static void log_resources(struct rate_limiter *l) {
        AUTO_STRBUF text = { 0 };

        if (!log_is_verbose(1))
                return;
        mutex_lock(&l->lock);
        rate_pools_print(&l->pools, &text);
        mutex_unlock(&l->lock);
        log_verbose(1, "%s", strbuf_cstr(&text));
}

static struct error *add_claim(struct rate_group *g, const struct rate_claim_options *options,
                               struct rate_claim **ret) {
        struct rate_limiter *l = g->limiter;
        struct rate_claim   *c = mem_zalloc(sizeof(*c));

        *c = (struct rate_claim){ .group = g,
                                  .weight = options->limits != NULL
                                                    ? MAX(options->limits->priority, 1)
                                                    : 1,
                                  .on_permit = options->on_permit,
                                  .instance = options->instance };
        MUTEX_GUARD(&l->lock);
        TRY_OR(rate_needs_init(&c->needs, &l->pools, options->limits, options->device), free(c));
        c->scaled = lowest_locked(l);
        c->number = g->n_made++;
        join_group_locked(g, c);
        pick_all_locked(l); /* a resource may have grown */
        *ret = c;
        return NULL;
}

struct error *rate_claim_new(struct rate_group *g, const struct rate_claim_options *options,
                             struct rate_claim **ret) {
        TRY(add_claim(g, options, ret));
        log_resources(g->limiter);
        return NULL;
}

void rate_claim_free(struct rate_claim *c) {
        struct rate_limiter *l;

        if (c == NULL)
                return;
        l = c->group->limiter;
        mutex_lock(&l->lock);
        while (c->n_callers > 0)
                cond_wait(&l->delivered, &l->lock);
        if (list_is_linked(&c->node)) {
                list_remove(&c->node);
                if (c->has_permit)
                        atomic_fetch_sub(&l->n_undelivered, 1);
        }
        if (c->has_permit)
                rate_needs_release(&c->needs);
        list_remove(&c->member);
        rate_needs_done(&c->needs, &l->pools);
        pick_all_locked(l);
        mutex_unlock(&l->lock);
        free(c);
        log_resources(l);
}
