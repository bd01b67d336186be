/* SPDX-License-Identifier: BSD-3-Clause */
/* The entries of the local cache by key, and which of them goes when there is no room: the one that
 * was not used for the longest time.
 *
 * Entries are divided by the hash of their key among shards, each with a lock, a table, and a list
 * in the order of their last use. That use is a moment on one clock for all shards, so the entry
 * unused for longest is the oldest one of some shard, and is found by looking at all of them:
 * the order in which entries go is exact, not per shard, while look-ups of different keys hardly
 * ever meet at a lock.
 *
 * Room is taken before an entry is made, so that what is in the store and what is being made for
 * it never take more than the size of the store together. An entry that was thrown out while it
 * is being read takes its memory until that is done, and is not counted any more.
 *
 * Ownership.  The store has one reference to each entry in it.
 * Threads.  Any, but for new and free. No lock is held across a call out.
 */
#pragma once

#include "local/item.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store;

struct store *store_new(size_t size); /* NULL when memory is short */
void          store_free(struct store *s);

/* The entry, used now, with a reference for the caller; NULL when there is none. */
struct item *store_find(struct store *s, const char *key);
/* Without using it. */
bool store_has(struct store *s, const char *key);

/* Makes room, at the cost of other entries. INVALID_ARG when that much never fits, UNAVAILABLE when
 * all there is belongs to entries being made. */
TRITONSERVER_Error *store_reserve(struct store *s, size_t cost);
void                store_unreserve(struct store *s, size_t cost);

/* Takes the entry, for which room was taken. False: there is one of that key, and the entry and its
 * room are still the caller's. */
bool store_add(struct store *s, struct item *entry);

struct store_state {
        size_t   size;
        size_t   used;
        uint64_t n_entries;
        uint64_t n_evicted; /* ever */
};
void store_get_state(const struct store *s, struct store_state *ret);
