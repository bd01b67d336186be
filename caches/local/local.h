/* SPDX-License-Identifier: BSD-3-Clause */
/* What the server's pointer to the local cache refers to.
 *
 * Ownership.  TRITONCACHE_CacheInitialize() makes it, TRITONCACHE_CacheFinalize() frees it.
 * Threads.  Those of its members.
 */
#pragma once

#include "local/item_store.h"
#include "local/metrics.h"

struct local_cache {
        struct store        *store; /* owned */
        struct cache_metrics metrics;
};
