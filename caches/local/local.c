/* SPDX-License-Identifier: BSD-3-Clause */
/* The local cache: entries in this process's memory, up to a size, the one that was not used for
 * the longest time going first. It knows the server through triton/core/tritoncache.h alone.
 *
 * A look-up pins its entry and has the server copy from it with no lock held, so readers of one
 * entry go on side by side, and an insertion never waits for them.
 */
#include "kit/errors.h"
#include "local/settings.h"
#include "local/store.h"

static struct store *store_of(TRITONCACHE_Cache *cache) {
        return (struct store *)cache;
}

static TRITONSERVER_Error *check_version(void) {
        uint32_t major, minor;

        KIT_TRY(TRITONCACHE_ApiVersion(&major, &minor));
        if (major == TRITONCACHE_API_VERSION_MAJOR && minor >= TRITONCACHE_API_VERSION_MINOR)
                return NULL;
        return kit_error(TRITONSERVER_ERROR_UNSUPPORTED,
                         "the local cache was built for version %d.%d of the cache API, the server "
                         "has %u.%u",
                         TRITONCACHE_API_VERSION_MAJOR, TRITONCACHE_API_VERSION_MINOR, major,
                         minor);
}

TRITONCACHE_ISPEC TRITONSERVER_Error *TRITONCACHE_CacheInitialize(TRITONCACHE_Cache **cache,
                                                                  const char         *config) {
        struct settings settings;
        struct store   *store;

        if (cache == NULL || config == NULL)
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "the local cache was given no configuration");
        KIT_TRY(check_version());
        KIT_TRY(settings_read(config, &settings));
        store = store_new(settings.size);
        if (store == NULL)
                return kit_error_no_memory(0, "the local cache");
        *cache = (TRITONCACHE_Cache *)store;
        return NULL;
}

TRITONCACHE_ISPEC TRITONSERVER_Error *TRITONCACHE_CacheFinalize(TRITONCACHE_Cache *cache) {
        store_free(store_of(cache));
        return NULL;
}

TRITONCACHE_ISPEC TRITONSERVER_Error *TRITONCACHE_CacheLookup(TRITONCACHE_Cache      *cache,
                                                              const char             *key,
                                                              TRITONCACHE_CacheEntry *entry,
                                                              TRITONCACHE_Allocator  *allocator) {
        struct stored      *found = store_find(store_of(cache), key);
        TRITONSERVER_Error *err = NULL;

        if (found == NULL)
                return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_NOT_FOUND, "no entry of this key");
        for (uint32_t i = 0; i < found->n_buffers && err == NULL; i++)
                err = TRITONCACHE_CacheEntryAddBuffer(entry, found->buffers[i].base,
                                                      found->buffers[i].attributes);
        if (err == NULL)
                err = TRITONCACHE_Copy(allocator, entry);
        stored_unref(found);
        return err;
}

static TRITONSERVER_Error *exists(const char *key) {
        return kit_error(TRITONSERVER_ERROR_ALREADY_EXISTS, "key '%s' already exists", key);
}

/* With room for it. */
static TRITONSERVER_Error *make_and_add(struct store *store, struct stored_plan *plan,
                                        TRITONCACHE_CacheEntry *entry,
                                        TRITONCACHE_Allocator  *allocator) {
        struct stored *made;

        KIT_TRY(stored_new(plan, entry, allocator, &made));
        if (store_add(store, made))
                return NULL;
        stored_unref(made); /* another thread was faster */
        return exists(plan->key);
}

TRITONCACHE_ISPEC TRITONSERVER_Error *TRITONCACHE_CacheInsert(TRITONCACHE_Cache      *cache,
                                                              const char             *key,
                                                              TRITONCACHE_CacheEntry *entry,
                                                              TRITONCACHE_Allocator  *allocator) {
        struct store       *store = store_of(cache);
        struct stored_plan  plan;
        TRITONSERVER_Error *err;

        if (store_has(store, key))
                return exists(key);
        KIT_TRY(stored_plan_make(key, entry, &plan));
        err = store_take_room(store, plan.cost);
        if (err == NULL) {
                err = make_and_add(store, &plan, entry, allocator);
                if (err != NULL)
                        store_give_room(store, plan.cost);
        }
        stored_plan_done(&plan);
        return err;
}
