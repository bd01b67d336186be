/* SPDX-License-Identifier: BSD-3-Clause */
/* A cache's library: the host's side of its ABI (triton/core/tritoncache.h).
 *
 *     open -> (lookup, insert) -> close
 *
 * Threads.  Opening and closing: one. Look-ups and insertions: any, at the same time.
 */
#pragma once

#include "base/error.h"

#include <stddef.h>

struct cache_entry;
struct cache_library;
struct cache_transfer;

struct cache_library_options {
        const char *directory; /* directory that contains all caches */
        const char *name;
        const char *config_json;
};

/* Opens the library and calls TRITONCACHE_CacheInitialize; errors name the path. */
struct error *cache_library_open(const struct cache_library_options *o, struct cache_library **ret)
        NODISCARD;
/* Calls TRITONCACHE_CacheFinalize. NULL is fine. */
void cache_library_close(struct cache_library *l);

/* Call the library's entry points. */
struct error *cache_library_lookup(struct cache_library *l, const char *key, struct cache_entry *e,
                                   struct cache_transfer *t) NODISCARD;
struct error *cache_library_insert(struct cache_library *l, const char *key, struct cache_entry *e,
                                   struct cache_transfer *t) NODISCARD;
