/* SPDX-License-Identifier: BSD-3-Clause */
/* The items of the local cache by key, with exact LRU eviction.
 *
 * The hash of the key selects a shard. Each shard has a lock, a table, and a list in the order of the
 * last use. One clock for all shards gives the time of each use. So the least recently used item is the
 * oldest one of some shard, and eviction finds it by comparing all shards. The order of eviction is
 * exact, while look-ups of different keys rarely contend for a lock.
 *
 * Memory is reserved before an item is made. So the items in the store and those that are being made
 * never exceed the size of the store together. An item that was evicted while it is being read uses
 * memory until the reader has finished; this memory is not counted.
 *
 * Ownership.  The store holds one reference to each of its items.
 * Threads.  Any, except store_new() and store_free(). No lock is held across a call out.
 */
#pragma once

#include "local/item.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store;

struct store *store_new(size_t size); /* NULL when memory is short */
void          store_free(struct store *s);

/* Returns the item with a reference for the caller, and marks it as used now; NULL when there is
 * none. */
struct item *store_find(struct store *s, const char *key);
/* Does not mark the item as used. */
bool store_has(struct store *s, const char *key);

/* Reserves memory, and evicts items as needed. INVALID_ARG when `cost` exceeds the size of the
 * store. UNAVAILABLE when all the memory is reserved for items that are being made. */
TRITONSERVER_Error *store_reserve(struct store *s, size_t cost);
void                store_unreserve(struct store *s, size_t cost);

/* Takes the item, whose memory was reserved. Returns false when the key exists; then the item and
 * the reservation stay with the caller. */
bool store_add(struct store *s, struct item *entry);

struct store_state {
        size_t   size;
        size_t   used;
        uint64_t n_entries;
        uint64_t n_evicted; /* since the store was created */
};
void store_get_state(const struct store *s, struct store_state *ret);
