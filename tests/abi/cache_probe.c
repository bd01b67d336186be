/* SPDX-License-Identifier: BSD-3-Clause */
#include "cache_probe.h"

#include "triton/core/tritoncache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TRITONCACHE_ISPEC struct cache_probe cache_probe = {
        .fail_lookup = -1, .fail_insert = -1, .copies = 1, .buffers = 1
};

/* Notes the text of an error and passes it on. */
static TRITONSERVER_Error *note(TRITONSERVER_Error *err) {
        if (err != NULL)
                snprintf(cache_probe.text, sizeof(cache_probe.text), "%s",
                         TRITONSERVER_ErrorMessage(err));
        return err;
}

static TRITONSERVER_Error *fail(int code) {
        return TRITONSERVER_ErrorNew((TRITONSERVER_Error_Code)code, "as the test wants it");
}

TRITONCACHE_ISPEC TRITONSERVER_Error *TRITONCACHE_CacheInitialize(TRITONCACHE_Cache **cache,
                                                                  const char         *config) {
        snprintf(cache_probe.config, sizeof(cache_probe.config), "%s", config);
        cache_probe.n_initialized++;
        *cache = (TRITONCACHE_Cache *)&cache_probe;
        return strstr(config, "refuse") != NULL ? fail(TRITONSERVER_ERROR_UNSUPPORTED) : NULL;
}

TRITONCACHE_ISPEC TRITONSERVER_Error *TRITONCACHE_CacheFinalize(TRITONCACHE_Cache *cache) {
        struct cache_probe *p = (struct cache_probe *)cache;

        for (size_t i = 0; i < p->n_entries; i++)
                free(p->entries[i].bytes);
        p->n_entries = 0;
        p->n_finalized++;
        return NULL;
}

static struct probe_entry *find(struct cache_probe *p, const char *key) {
        for (size_t i = 0; i < p->n_entries; i++)
                if (strcmp(p->entries[i].key, key) == 0)
                        return &p->entries[i];
        return NULL;
}

/* What was kept, damaged as the test wants it; the caller frees it. */
static char *damaged(const struct cache_probe *p, const struct probe_entry *e) {
        char *bytes = malloc(e->n_bytes + 1);

        if (bytes == NULL)
                abort();
        memcpy(bytes, e->bytes, e->n_bytes);
        if (p->flip > 0 && p->flip <= e->n_bytes)
                bytes[p->flip - 1] = (char)(bytes[p->flip - 1] ^ 0xff);
        return bytes;
}

TRITONCACHE_ISPEC TRITONSERVER_Error *TRITONCACHE_CacheLookup(TRITONCACHE_Cache      *cache,
                                                              const char             *key,
                                                              TRITONCACHE_CacheEntry *entry,
                                                              TRITONCACHE_Allocator  *allocator) {
        struct cache_probe            *p = (struct cache_probe *)cache;
        struct probe_entry            *e = find(p, key);
        TRITONSERVER_BufferAttributes *attributes;
        TRITONSERVER_Error            *err = NULL;
        char                          *bytes;

        p->n_lookups++;
        snprintf(p->looked_up, sizeof(p->looked_up), "%s", key);
        if (p->fail_lookup >= 0)
                return fail(p->fail_lookup);
        if (e == NULL)
                return fail(TRITONSERVER_ERROR_NOT_FOUND);
        p->n_found++;
        /* A copy of exactly its size: what reads beyond is seen by a sanitizer. */
        bytes = damaged(p, e);
        TRITONSERVER_BufferAttributesNew(&attributes);
        TRITONSERVER_BufferAttributesSetByteSize(attributes,
                                                 p->cut < e->n_bytes ? e->n_bytes - p->cut : 0);
        for (int i = 0; i < p->buffers && err == NULL; i++)
                err = note(TRITONCACHE_CacheEntryAddBuffer(entry, bytes, attributes));
        for (int i = 0; i < p->copies && err == NULL; i++)
                err = note(TRITONCACHE_Copy(allocator, entry));
        TRITONSERVER_BufferAttributesDelete(attributes);
        free(bytes);
        return err;
}

/* The one buffer that an entry has, with memory of ours. */
static TRITONSERVER_Error *take(struct cache_probe *p, struct probe_entry *e,
                                TRITONCACHE_CacheEntry *entry) {
        TRITONSERVER_BufferAttributes *attributes;
        TRITONSERVER_Error            *err;

        TRITONSERVER_BufferAttributesNew(&attributes);
        err = TRITONCACHE_CacheEntryGetBuffer(entry, 0, &p->base, attributes);
        if (err == NULL)
                err = TRITONSERVER_BufferAttributesByteSize(attributes, &e->n_bytes);
        TRITONSERVER_BufferAttributesDelete(attributes);
        if (err != NULL)
                return err;
        e->bytes = malloc(e->n_bytes);
        return TRITONCACHE_CacheEntrySetBuffer(entry, 0, e->bytes, NULL);
}

TRITONCACHE_ISPEC TRITONSERVER_Error *TRITONCACHE_CacheInsert(TRITONCACHE_Cache      *cache,
                                                              const char             *key,
                                                              TRITONCACHE_CacheEntry *entry,
                                                              TRITONCACHE_Allocator  *allocator) {
        struct cache_probe *p = (struct cache_probe *)cache;
        struct probe_entry *e = &p->entries[p->n_entries];
        TRITONSERVER_Error *err;

        p->n_inserts++;
        snprintf(p->inserted, sizeof(p->inserted), "%s", key);
        TRITONCACHE_CacheEntryBufferCount(entry, &p->n_buffers);
        if (p->fail_insert >= 0)
                return fail(p->fail_insert);
        if (find(p, key) != NULL)
                return fail(TRITONSERVER_ERROR_ALREADY_EXISTS);
        if (p->n_entries == PROBE_ENTRIES)
                return fail(TRITONSERVER_ERROR_UNAVAILABLE);
        *e = (struct probe_entry){ .bytes = NULL };
        snprintf(e->key, sizeof(e->key), "%s", key);
        err = note(take(p, e, entry));
        if (err == NULL)
                err = note(TRITONCACHE_Copy(allocator, entry));
        if (err != NULL)
                free(e->bytes);
        else
                p->n_entries++;
        return err;
}
