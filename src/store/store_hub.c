/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/store_hub.h"

#include "base/mem.h"
#include "store/store_fetch.h"
#include "store/store_request.h"

struct store_hub *store_hub_new(const struct store_hub_options *o) {
        struct store_hub *h = mem_zalloc(sizeof(*h));

        h->cache_directory = mem_strdup(o->cache_directory != NULL ? o->cache_directory : "");
        h->cache_bytes = o->cache_bytes;
        h->n_transfers = o->n_transfers > 0 ? o->n_transfers : 1;
        h->retry_ns = o->retry_ns;
        h->transfers = work_pool_new("neso-transfer", h->n_transfers, WORK_BACKGROUND);
        mutex_init(&h->lock, LOCK_LEAF);
        cond_init(&h->changed);
        list_init(&h->fetches);
        return h;
}

void store_hub_free(struct store_hub *h) {
        if (h == NULL)
                return;
        work_pool_free(h->transfers);
        store_request_close_idle();
        cond_done(&h->changed);
        mutex_done(&h->lock);
        free(h->cache_directory);
        free(h);
}

void store_hub_end_fetch_locked(struct store_hub *h, struct store_fetch *f) {
        atomic_store(&f->is_cancelled, true);
        cond_broadcast(&h->changed);
}

void store_hub_stop(struct store_hub *h) {
        MUTEX_GUARD(&h->lock);
        atomic_store(&h->is_stopping, true);
        LIST_FOR_EACH(&h->fetches, node)
                store_hub_end_fetch_locked(h, LIST_ENTRY(node, struct store_fetch, node));
        cond_broadcast(&h->changed);
}

void store_hub_wait(struct store_hub *h, const atomic_bool *is_cancelled, uint64_t until_ns) {
        MUTEX_GUARD(&h->lock);
        while (!atomic_load(is_cancelled) && cond_wait_until(&h->changed, &h->lock, until_ns))
                ;
}
