/* SPDX-License-Identifier: BSD-3-Clause */
/* A hash map from text to pointers. Walks are in insertion order.
 *
 * Ownership.  Keys are copied; values belong to the caller.
 * Threads.  One owner at a time; concurrent map_find() is fine.
 */
#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map_entry {
        const char *key; /* owned by the map, NUL-terminated */
        size_t      key_len;
        uint64_t    hash;
        void       *value; /* borrowed */
};

struct map {
        struct map_entry *entries;   /* owned; insertion order, removed ones have key NULL */
        uint32_t         *slots;     /* owned; index + 1 into entries, 0 = free */
        size_t            n_entries; /* used elements of entries, removed ones included */
        size_t            n_live;
        size_t            n_slots;
};

void   map_init(struct map *m);
void   map_done(struct map *m);
void  *map_find(const struct map *m, struct str key);       /* NULL when absent */
void  *map_set(struct map *m, struct str key, void *value); /* returns the old value or NULL */
void  *map_remove(struct map *m, struct str key);           /* returns the value or NULL */
size_t map_size(const struct map *m);

/* The next entry of a walk, which begins with *at 0; NULL after the last one. During the walk the map must not
 * change, except by map_remove(). */
const struct map_entry *map_next(const struct map *m, size_t *at);

/* Walks over all entries with map_next(); declares `const struct map_entry *entry`. */
#define MAP_FOR_EACH(m, entry)                                                                     \
        for (size_t entry##_at_ = 0, entry##_once_ = 1; entry##_once_ != 0; entry##_once_ = 0)     \
                for (const struct map_entry *entry; (entry = map_next(m, &entry##_at_)) != NULL;)
