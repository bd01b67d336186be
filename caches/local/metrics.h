/* SPDX-License-Identifier: BSD-3-Clause */
/* How full the local cache is, on the metrics page of the server.
 *
 * Ownership.  The cache owns it.
 * Threads.  cache_metrics_update(): any. Each value is that of one of the latest updates.
 */
#pragma once

#include "local/item_store.h"

#include <stdatomic.h>
#include <stdint.h>

enum cache_metric { CACHE_SIZE, CACHE_USED, CACHE_ENTRIES, CACHE_EVICTIONS, N_CACHE_METRICS };

struct cache_metrics {
        TRITONSERVER_MetricFamily *families[N_CACHE_METRICS]; /* owned; NULL: the server has none */
        TRITONSERVER_Metric       *metrics[N_CACHE_METRICS];  /* owned; likewise */
        _Atomic uint64_t           n_evicted;                 /* evictions that were counted */
};

/* Zeroed memory has no metrics. A server without metrics is no error. */
void cache_metrics_open(struct cache_metrics *m, const struct store *store);
void cache_metrics_close(struct cache_metrics *m);
/* Called after an insertion, which is what changes the values. */
void cache_metrics_update(struct cache_metrics *m, const struct store *store);
