/* SPDX-License-Identifier: BSD-3-Clause */
/* The resources that the rate limiter lends: how much there is of each, and who needs what.
 *
 * A pool is one resource of one device, or a global one. How much it holds is what the options
 * say; of a resource that they do not name, as much as the instance with the largest need asks
 * for. A resource that is given for some devices does not exist on the others. Pools come with the
 * first instance that needs them and go with the last.
 *
 * Ownership.  Needs borrow their pools and register with them: to be ended before the pools.
 * Threads.  The owner's lock.
 */
#pragma once

#include "base/error.h"
#include "base/list.h"
#include "config/model_config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RATE_EACH_DEVICE (-1)

/* What the options give. */
struct rate_supply {
        const char *name;
        uint64_t    count;
        int         device; /* or RATE_EACH_DEVICE; of no meaning for global resources */
};

struct rate_pools {
        struct rate_supply *supplies; /* owned, and their names */
        size_t              n_supplies;
        struct list         pools;    /* struct rate_pool */
        struct list         needs;    /* struct rate_needs: all that are registered */
};

struct rate_need;

/* What one instance holds during each execution. */
struct rate_needs {
        struct rate_need *items; /* owned; at most one for each pool */
        size_t            n_items;
        struct list_node  node;
};

/* Copies the supplies. */
void rate_pools_init(struct rate_pools *p, const struct rate_supply *supplies, size_t n);
void rate_pools_done(struct rate_pools *p);

/* Registers an instance on that device; `limits` may be NULL: it needs nothing. INVALID_ARG, and
 * nothing changed, when a resource is global for some and not for others, or has less than this
 * instance needs. */
struct error *rate_needs_init(struct rate_needs *needs, struct rate_pools *p,
                              const Inference__ModelRateLimiter *limits, int device) NODISCARD;
void          rate_needs_done(struct rate_needs *needs, struct rate_pools *p);

/* Whether all of it may be taken now, in a round that somebody before may have reserved in. */
bool rate_needs_are_free(const struct rate_needs *needs, uint64_t round);
/* Nobody else takes of these pools in this round. */
void rate_needs_reserve(const struct rate_needs *needs, uint64_t round);
void rate_needs_take(const struct rate_needs *needs);
void rate_needs_release(const struct rate_needs *needs);
