/* SPDX-License-Identifier: BSD-3-Clause */
#include "local/item_store.h"

#include "kit/errors.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* a power of two; more threads than that rarely look up at the same time */
#define N_SHARDS 16
#define FIRST_BUCKETS 64 /* a power of two, like every number of buckets */

struct shard {
        pthread_mutex_t lock;    /* guards everything below */
        struct item   **buckets; /* owned array; chains by next_of_bucket */
        size_t          n_buckets;
        size_t          n_entries;
        struct item    *newest;
        struct item    *oldest;
} __attribute__((aligned(64))); /* a cache line: no two locks share one */

struct store {
        size_t           size;
        _Atomic size_t   used;
        _Atomic uint64_t clock;
        _Atomic uint64_t n_entries;
        _Atomic uint64_t n_evicted;
        pthread_mutex_t  room_lock; /* one thread at a time evicts; taken before a shard's lock */
        struct shard     shards[N_SHARDS];
};

static uint64_t mix(uint64_t hash, uint64_t word) {
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        return hash ^ hash >> 32;
}

/* Keys are digits of a hash already, so it is enough to combine them. */
static uint64_t hash_of(const char *key) {
        size_t   left = strlen(key);
        uint64_t hash = left, word;

        for (; left >= sizeof(word); key += sizeof(word), left -= sizeof(word)) {
                memcpy(&word, key, sizeof(word));
                hash = mix(hash, word);
        }
        for (word = 0; left > 0; left--)
                word = word << 8 | (unsigned char)key[left - 1];
        return word > 0 ? mix(hash, word) : hash;
}

static struct shard *shard_of(struct store *s, uint64_t hash) {
        return &s->shards[hash % N_SHARDS];
}

static struct item **bucket_of(struct shard *shard, uint64_t hash) {
        return &shard->buckets[hash / N_SHARDS & (shard->n_buckets - 1)];
}

struct store *store_new(size_t size) {
        struct store *s = aligned_alloc(_Alignof(struct store), sizeof(*s));
        bool          is_whole = true;

        if (s == NULL)
                return NULL;
        memset(s, 0, sizeof(*s));
        s->size = size;
        pthread_mutex_init(&s->room_lock, NULL);
        for (size_t i = 0; i < N_SHARDS; i++) {
                pthread_mutex_init(&s->shards[i].lock, NULL);
                s->shards[i].buckets = calloc(FIRST_BUCKETS, sizeof(struct item *));
                s->shards[i].n_buckets = FIRST_BUCKETS;
                is_whole = is_whole && s->shards[i].buckets != NULL;
        }
        if (is_whole)
                return s;
        store_free(s);
        return NULL;
}

void store_free(struct store *s) {
        if (s == NULL)
                return;
        for (size_t i = 0; i < N_SHARDS; i++) {
                struct shard *shard = &s->shards[i];

                for (struct item *e = shard->newest, *older; e != NULL; e = older) {
                        older = e->older;
                        item_unref(e);
                }
                free(shard->buckets);
                pthread_mutex_destroy(&shard->lock);
        }
        pthread_mutex_destroy(&s->room_lock);
        free(s);
}

/* ---- one shard, locked ----------------------------------------------------------------------- */

static struct item *find_locked(struct shard *shard, uint64_t hash, const char *key) {
        struct item *e = *bucket_of(shard, hash);

        while (e != NULL && (e->hash != hash || strcmp(e->key, key) != 0))
                e = e->next_of_bucket;
        return e;
}

static void link_newest_locked(struct shard *shard, struct item *e) {
        e->newer = NULL;
        e->older = shard->newest;
        if (shard->newest != NULL)
                shard->newest->newer = e;
        else
                shard->oldest = e;
        shard->newest = e;
}

static void unlink_locked(struct shard *shard, struct item *e) {
        if (e->newer != NULL)
                e->newer->older = e->older;
        else
                shard->newest = e->older;
        if (e->older != NULL)
                e->older->newer = e->newer;
        else
                shard->oldest = e->newer;
}

/* Called under the shard's lock, so that the shard's list is in the order of the clock. */
static void stamp_locked(struct store *s, struct item *e) {
        e->used_at = atomic_fetch_add_explicit(&s->clock, 1, memory_order_relaxed);
}

static void use_locked(struct store *s, struct shard *shard, struct item *e) {
        if (e != shard->newest) {
                unlink_locked(shard, e);
                link_newest_locked(shard, e);
        } else if (e->used_at + 1 == atomic_load_explicit(&s->clock, memory_order_relaxed)) {
                return; /* no other item was used since */
        }
        stamp_locked(s, e);
}

/* Without memory for a larger table the chains become longer. */
static void grow_locked(struct shard *shard) {
        size_t        n = shard->n_buckets * 2;
        struct item **old = shard->buckets;
        struct item **buckets;

        if (shard->n_entries < shard->n_buckets)
                return;
        buckets = calloc(n, sizeof(struct item *));
        if (buckets == NULL)
                return;
        shard->buckets = buckets;
        shard->n_buckets = n;
        for (size_t i = 0; i < n / 2; i++)
                for (struct item *e = old[i], *next; e != NULL; e = next) {
                        struct item **bucket = bucket_of(shard, e->hash);

                        next = e->next_of_bucket;
                        e->next_of_bucket = *bucket;
                        *bucket = e;
                }
        free(old);
}

static void remove_locked(struct shard *shard, struct item *e) {
        struct item **at = bucket_of(shard, e->hash);

        while (*at != e)
                at = &(*at)->next_of_bucket;
        *at = e->next_of_bucket;
        unlink_locked(shard, e);
        shard->n_entries--;
}

/* ---- the store ------------------------------------------------------------------------------- */

struct item *store_find(struct store *s, const char *key) {
        uint64_t      hash = hash_of(key);
        struct shard *shard = shard_of(s, hash);
        struct item  *e;

        pthread_mutex_lock(&shard->lock);
        e = find_locked(shard, hash, key);
        if (e != NULL) {
                use_locked(s, shard, e);
                item_ref(e);
        }
        pthread_mutex_unlock(&shard->lock);
        return e;
}

bool store_has(struct store *s, const char *key) {
        uint64_t      hash = hash_of(key);
        struct shard *shard = shard_of(s, hash);
        bool          has_one;

        pthread_mutex_lock(&shard->lock);
        has_one = find_locked(shard, hash, key) != NULL;
        pthread_mutex_unlock(&shard->lock);
        return has_one;
}

bool store_add(struct store *s, struct item *e) {
        struct shard *shard;
        bool          is_new;

        e->hash = hash_of(e->key);
        shard = shard_of(s, e->hash);
        pthread_mutex_lock(&shard->lock);
        is_new = find_locked(shard, e->hash, e->key) == NULL;
        if (is_new) {
                struct item **bucket;

                grow_locked(shard);
                bucket = bucket_of(shard, e->hash);
                e->next_of_bucket = *bucket;
                *bucket = e;
                link_newest_locked(shard, e);
                shard->n_entries++;
                stamp_locked(s, e);
        }
        pthread_mutex_unlock(&shard->lock);
        if (is_new)
                atomic_fetch_add_explicit(&s->n_entries, 1, memory_order_relaxed);
        return is_new;
}

/* Returns the shard whose oldest item is the oldest of all; NULL when all are empty. */
static struct shard *find_oldest(struct store *s) {
        struct shard *found = NULL;
        uint64_t      used_at = 0;

        for (size_t i = 0; i < N_SHARDS; i++) {
                struct shard *shard = &s->shards[i];

                pthread_mutex_lock(&shard->lock);
                if (shard->oldest != NULL && (found == NULL || shard->oldest->used_at < used_at)) {
                        found = shard;
                        used_at = shard->oldest->used_at;
                }
                pthread_mutex_unlock(&shard->lock);
        }
        return found;
}

/* The caller holds room_lock, so no other thread removes items. */
static bool evict_one(struct store *s) {
        struct shard *shard = find_oldest(s);
        struct item  *e;

        if (shard == NULL)
                return false;
        pthread_mutex_lock(&shard->lock);
        e = shard->oldest; /* not the item that was found, if that was used meanwhile */
        remove_locked(shard, e);
        pthread_mutex_unlock(&shard->lock);
        atomic_fetch_sub(&s->used, e->cost);
        atomic_fetch_sub_explicit(&s->n_entries, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&s->n_evicted, 1, memory_order_relaxed);
        item_unref(e);
        return true;
}

TRITONSERVER_Error *store_reserve(struct store *s, size_t cost) {
        bool has_room = true;

        if (cost > s->size)
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "the entry takes %zu bytes, the cache has a size of %zu bytes",
                                 cost, s->size);
        pthread_mutex_lock(&s->room_lock);
        while (has_room && atomic_load(&s->used) > s->size - cost)
                has_room = evict_one(s);
        if (has_room)
                atomic_fetch_add(&s->used, cost);
        pthread_mutex_unlock(&s->room_lock);
        if (!has_room)
                return kit_error(TRITONSERVER_ERROR_UNAVAILABLE,
                                 "no room in the cache: others are filling it at this moment");
        return NULL;
}

void store_unreserve(struct store *s, size_t cost) {
        atomic_fetch_sub(&s->used, cost);
}

void store_get_state(const struct store *s, struct store_state *ret) {
        *ret = (struct store_state){
                .size = s->size,
                .used = atomic_load(&s->used),
                .n_entries = atomic_load(&s->n_entries),
                .n_evicted = atomic_load(&s->n_evicted),
        };
}
