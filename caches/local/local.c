/* SPDX-License-Identifier: BSD-3-Clause */
/* The local cache: keeps entries in this process's memory, up to a configured size, and evicts the least
 * recently used one (LRU). It uses the server through triton/core/tritoncache.h only.
 *
 * A look-up pins its item and lets the server copy from it with no lock held. So readers of one item do
 * not block each other or an insertion.
 */
#include "local/local.h"

#include "kit/errors.h"
#include "kit/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- the configuration ----------------------------------------------------------------------- */

/* Reads decimal digits, a number greater than 0. */
static bool read_bytes(const char *text, size_t len, size_t *ret) {
        size_t value = 0;

        for (size_t i = 0; i < len; i++)
                if (text[i] < '0' || text[i] > '9' || __builtin_mul_overflow(value, 10, &value) ||
                    __builtin_add_overflow(value, (size_t)(text[i] - '0'), &value))
                        return false;
        *ret = value;
        return value > 0;
}

static TRITONSERVER_Error *read_size(const struct kit_json_value *value, size_t *ret) {
        const char *text = "";
        size_t      len = 0;

        if (value->type == KIT_JSON_STRING) {
                text = value->text;
                len = strlen(text);
        } else if (value->type == KIT_JSON_NUMBER) {
                text = value->text; /* not terminated */
                len = value->end - value->begin;
        }
        if (read_bytes(text, len, ret))
                return NULL;
        return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                         "'size' of the local cache must be a number of bytes greater than 0, got "
                         "'%.*s'",
                         (int)(len < 100 ? len : 100), text);
}

static TRITONSERVER_Error *read_settings(const struct kit_json_value *root, size_t *ret_size) {
        bool has_size = false;

        if (root->type != KIT_JSON_OBJECT)
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "the configuration of the local cache is not a JSON object");
        for (const struct kit_json_value *v = root->first; v != NULL; v = v->next) {
                if (strcmp(v->key, "size") != 0)
                        return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                         "unknown setting '%s' of the local cache; there is only "
                                         "'size'",
                                         v->key);
                KIT_TRY(read_size(v, ret_size));
                has_size = true;
        }
        if (!has_size)
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "the local cache needs the setting 'size', in bytes");
        return NULL;
}

static TRITONSERVER_Error *read_config(const char *config, size_t *ret_size) {
        struct kit_json    *doc;
        TRITONSERVER_Error *err;

        KIT_TRY(kit_json_read(config, strlen(config), "the configuration of the local cache",
                              &doc));
        err = read_settings(kit_json_root(doc), ret_size);
        kit_json_free(doc);
        return err;
}

/* ---- entry points ---------------------------------------------------------------------------- */

static struct local_cache *self_of(TRITONCACHE_Cache *cache) {
        return (struct local_cache *)cache;
}

static struct store *store_of(TRITONCACHE_Cache *cache) {
        return self_of(cache)->store;
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
        struct local_cache *self;
        size_t              size;

        if (cache == NULL || config == NULL)
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "the local cache was given no configuration");
        KIT_TRY(check_version());
        KIT_TRY(read_config(config, &size));
        self = calloc(1, sizeof(*self));
        if (self != NULL)
                self->store = store_new(size);
        if (self == NULL || self->store == NULL) {
                free(self);
                return kit_error_no_memory(0, "the local cache");
        }
        cache_metrics_open(&self->metrics, self->store);
        *cache = (TRITONCACHE_Cache *)self;
        return NULL;
}

TRITONCACHE_ISPEC TRITONSERVER_Error *TRITONCACHE_CacheFinalize(TRITONCACHE_Cache *cache) {
        cache_metrics_close(&self_of(cache)->metrics);
        store_free(store_of(cache));
        free(self_of(cache));
        return NULL;
}

TRITONCACHE_ISPEC TRITONSERVER_Error *TRITONCACHE_CacheLookup(TRITONCACHE_Cache      *cache,
                                                              const char             *key,
                                                              TRITONCACHE_CacheEntry *entry,
                                                              TRITONCACHE_Allocator  *allocator) {
        struct item        *found = store_find(store_of(cache), key);
        TRITONSERVER_Error *err = NULL;

        if (found == NULL)
                return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_NOT_FOUND, "no entry of this key");
        for (uint32_t i = 0; i < found->n_buffers && err == NULL; i++)
                err = TRITONCACHE_CacheEntryAddBuffer(entry, found->buffers[i].base,
                                                      found->buffers[i].attributes);
        if (err == NULL)
                err = TRITONCACHE_Copy(allocator, entry);
        item_unref(found);
        return err;
}

static TRITONSERVER_Error *exists(const char *key) {
        return kit_error(TRITONSERVER_ERROR_ALREADY_EXISTS, "key '%s' already exists", key);
}

/* The caller has reserved the memory of the item. */
static TRITONSERVER_Error *make_and_add(struct store *store, struct item_plan *plan,
                                        TRITONCACHE_CacheEntry *entry,
                                        TRITONCACHE_Allocator  *allocator) {
        struct item *made;

        KIT_TRY(item_new(plan, entry, allocator, &made));
        if (store_add(store, made))
                return NULL;
        item_unref(made); /* another thread has added the key meanwhile */
        return exists(plan->key);
}

TRITONCACHE_ISPEC TRITONSERVER_Error *TRITONCACHE_CacheInsert(TRITONCACHE_Cache      *cache,
                                                              const char             *key,
                                                              TRITONCACHE_CacheEntry *entry,
                                                              TRITONCACHE_Allocator  *allocator) {
        struct store       *store = store_of(cache);
        struct item_plan    plan;
        TRITONSERVER_Error *err;

        if (store_has(store, key))
                return exists(key);
        KIT_TRY(item_plan_make(key, entry, &plan));
        err = store_reserve(store, plan.cost);
        if (err == NULL) {
                err = make_and_add(store, &plan, entry, allocator);
                if (err != NULL)
                        store_unreserve(store, plan.cost);
        }
        cache_metrics_update(&self_of(cache)->metrics, store);
        item_plan_done(&plan);
        return err;
}
