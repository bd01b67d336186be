/* SPDX-License-Identifier: BSD-3-Clause */
/* The resources that the rate limiter lends: how much there is of each, and what each instance needs.
 *
 * A pool is a resource of one device, or a global one. The options give its capacity. A resource that
 * the options do not name has the capacity that the largest need of an instance asks for. A resource
 * that the options give for some devices does not exist on the others. A pool is created with the first
 * instance that needs it and freed with the last.
 *
 * Ownership.  Needs borrow their pools and are registered with them. They must end before the pools.
 * Threads.  The caller holds the owner's lock.
 */
#pragma once

#include "base/error.h"
#include "base/list.h"
#include "base/strbuf.h"
#include "config/model_config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RATE_EACH_DEVICE (-1)

/* Capacity of a resource, as given by the options. */
struct rate_supply {
        const char *name;
        uint64_t    count;
        int         device; /* or RATE_EACH_DEVICE; ignored for global resources */
};

struct rate_pools {
        struct rate_supply *supplies; /* owned, and their names */
        size_t              n_supplies;
        struct list         pools; /* struct rate_pool */
        struct list         needs; /* struct rate_needs: all registered ones */
};

struct rate_need;

/* The resources that one instance holds during each execution. */
struct rate_needs {
        struct rate_need *items; /* owned; at most one for each pool */
        size_t            n_items;
        struct list_node  node;
};

/* Copies the supplies. */
void rate_pools_init(struct rate_pools *p, const struct rate_supply *supplies, size_t n);
void rate_pools_done(struct rate_pools *p);

/* Registers an instance on that device. `limits` may be NULL: the instance needs nothing.
 * INVALID_ARG, without a change, when a resource is global for some instances and not for others,
 * or has less than this instance needs. */
struct error *rate_needs_init(struct rate_needs *needs, struct rate_pools *p,
                              const Inference__ModelRateLimiter *limits, int device) NODISCARD;
void          rate_needs_done(struct rate_needs *needs, struct rate_pools *p);

/* Prints the capacities, for the log, as the reference server does: global resources first, then those
 * of each device, by name. */
void rate_pools_print(const struct rate_pools *p, struct strbuf *out);

/* True when all needs can be met now. In one round, claims that wait may have reserved pools
 * before. */
bool rate_needs_are_free(const struct rate_needs *needs, uint64_t round);
/* Reserves the pools for a claim that waits: no later claim takes from them in this round. */
void rate_needs_reserve(const struct rate_needs *needs, uint64_t round);
void rate_needs_take(const struct rate_needs *needs);
void rate_needs_release(const struct rate_needs *needs);
