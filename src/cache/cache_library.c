/* SPDX-License-Identifier: BSD-3-Clause */
#include "cache/cache_library.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/plugin.h"
#include "triton/core/tritoncache.h"

typedef TRITONSERVER_Error *(*initialize_fn)(TRITONCACHE_Cache **cache, const char *config);
typedef TRITONSERVER_Error *(*finalize_fn)(TRITONCACHE_Cache *cache);
typedef TRITONSERVER_Error *(*entry_fn)(TRITONCACHE_Cache *cache, const char *key,
                                        TRITONCACHE_CacheEntry *entry,
                                        TRITONCACHE_Allocator  *allocator);

/* In the order of `kind.symbols`. */
enum { INITIALIZE, FINALIZE, LOOKUP, INSERT, N_SYMBOLS };

static const char *const symbols[N_SYMBOLS] = {
        [INITIALIZE] = "TRITONCACHE_CacheInitialize",
        [FINALIZE] = "TRITONCACHE_CacheFinalize",
        [LOOKUP] = "TRITONCACHE_CacheLookup",
        [INSERT] = "TRITONCACHE_CacheInsert",
};

static const struct plugin_kind kind = {
        .what = "cache",
        .prefix = "tritoncache",
        .symbols = symbols,
        .n_symbols = N_SYMBOLS,
};

struct cache_library {
        char              *name;    /* owned */
        struct dl         *library; /* owned */
        finalize_fn        finalize;
        entry_fn           lookup;
        entry_fn           insert;
        TRITONCACHE_Cache *cache; /* the library's own */
};

struct error *cache_library_open(const struct cache_library_options *o,
                                 struct cache_library **ret) {
        struct cache_library *l;
        dl_symbol_fn          found[N_SYMBOLS];
        struct dl            *library;
        TRITONCACHE_Cache    *cache = NULL;
        struct error         *err;

        TRY(plugin_open(&kind, o->directory, o->name, &library, found));
        err = (struct error *)((initialize_fn)found[INITIALIZE])(&cache, o->config_json);
        if (err != NULL) {
                err = error_wrap(err, "failed to initialize cache '%s' of '%s'", o->name,
                                 dl_path(library));
                dl_close(library);
                return err;
        }
        l = mem_alloc(sizeof(*l));
        *l = (struct cache_library){ .name = mem_strdup(o->name),
                                     .library = library,
                                     .finalize = (finalize_fn)found[FINALIZE],
                                     .lookup = (entry_fn)found[LOOKUP],
                                     .insert = (entry_fn)found[INSERT],
                                     .cache = cache };
        *ret = l;
        return NULL;
}

void cache_library_close(struct cache_library *l) {
        AUTO_ERROR err = NULL;

        if (l == NULL)
                return;
        err = (struct error *)l->finalize(l->cache);
        if (err != NULL)
                log_error("cache '%s' failed to finalize: %s", l->name, err->message);
        dl_close(l->library);
        free(l->name);
        free(l);
}

struct error *cache_library_lookup(struct cache_library *l, const char *key, struct cache_entry *e,
                                   struct cache_transfer *t) {
        return (struct error *)l->lookup(l->cache, key, (TRITONCACHE_CacheEntry *)e,
                                         (TRITONCACHE_Allocator *)t);
}

struct error *cache_library_insert(struct cache_library *l, const char *key, struct cache_entry *e,
                                   struct cache_transfer *t) {
        return (struct error *)l->insert(l->cache, key, (TRITONCACHE_CacheEntry *)e,
                                         (TRITONCACHE_Allocator *)t);
}
