/* SPDX-License-Identifier: BSD-3-Clause */
#include "cache/cache_library.h"

#include "base/dl.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/plugin_call.h"
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
        char               *name;    /* owned */
        struct dl          *library; /* owned */
        struct plugin_place place;
        finalize_fn         finalize;
        entry_fn            lookup;
        entry_fn            insert;
        TRITONCACHE_Cache  *cache; /* created by the library */
};

static struct error *initialize(struct dl *library, initialize_fn call, const char *config,
                                TRITONCACHE_Cache **ret) {
        struct plugin_place place = { .library = dl_path(library) };
        PLUGIN_CALL(&place, symbols[INITIALIZE]);

        return (struct error *)call(ret, config);
}

struct error *cache_library_open(const struct cache_library_options *o,
                                 struct cache_library              **ret) {
        struct cache_library *l;
        dl_symbol_fn          found[N_SYMBOLS];
        struct dl            *library;
        TRITONCACHE_Cache    *cache = NULL;
        struct error         *err;

        TRY(plugin_open(&kind, o->directory, o->name, &library, found));
        err = initialize(library, (initialize_fn)found[INITIALIZE], o->config_json, &cache);
        if (err != NULL) {
                err = error_wrap(err, "failed to initialize cache '%s' of '%s' (cache API %d.%d)",
                                 o->name, dl_path(library), TRITONCACHE_API_VERSION_MAJOR,
                                 TRITONCACHE_API_VERSION_MINOR);
                dl_close(library);
                return err;
        }
        l = mem_alloc(sizeof(*l));
        *l = (struct cache_library){ .name = mem_strdup(o->name),
                                     .library = library,
                                     .finalize = (finalize_fn)found[FINALIZE],
                                     .lookup = (entry_fn)found[LOOKUP],
                                     .insert = (entry_fn)found[INSERT],
                                     .cache = cache,
                                     .place = { .library = dl_path(library) } };
        *ret = l;
        return NULL;
}

static struct error *finalize(struct cache_library *l) {
        PLUGIN_CALL(&l->place, symbols[FINALIZE]);

        return (struct error *)l->finalize(l->cache);
}

void cache_library_close(struct cache_library *l) {
        AUTO_ERROR err = NULL;

        if (l == NULL)
                return;
        err = finalize(l);
        if (err != NULL)
                log_error("cache '%s' failed to finalize: %s", l->name, err->message);
        dl_close(l->library);
        free(l->name);
        free(l);
}

struct error *cache_library_lookup(struct cache_library *l, const char *key, struct cache_entry *e,
                                   struct cache_transfer *t) {
        PLUGIN_CALL(&l->place, symbols[LOOKUP]);

        return (struct error *)l->lookup(l->cache, key, (TRITONCACHE_CacheEntry *)e,
                                         (TRITONCACHE_Allocator *)t);
}

struct error *cache_library_insert(struct cache_library *l, const char *key, struct cache_entry *e,
                                   struct cache_transfer *t) {
        PLUGIN_CALL(&l->place, symbols[INSERT]);

        return (struct error *)l->insert(l->cache, key, (TRITONCACHE_CacheEntry *)e,
                                         (TRITONCACHE_Allocator *)t);
}
