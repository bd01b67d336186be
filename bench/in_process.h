/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions that the benchmark programs with the server in them share: errors, the start of a server, and
 * an allocator of outputs. Every error ends the program.
 */
#pragma once

#include "triton/core/neso.h"

#include <stdio.h>
#include <stdlib.h>

static inline void must(struct TRITONSERVER_Error *err) {
        if (err == NULL)
                return;
        fprintf(stderr, "%s\n", TRITONSERVER_ErrorMessage(err));
        exit(1);
}

/* Starts a server with the models of a repository. `caches`: directory of the caches, of which "local" is
 * used with 64 MiB; NULL for a server without a cache. */
static inline struct TRITONSERVER_Server *start_server(const char *repository, const char *backends,
                                                       const char *caches) {
        struct TRITONSERVER_ServerOptions *options;
        struct TRITONSERVER_Server        *server;

        must(TRITONSERVER_ServerOptionsNew(&options));
        must(TRITONSERVER_ServerOptionsSetModelRepositoryPath(options, repository));
        must(TRITONSERVER_ServerOptionsSetBackendDirectory(options, backends));
        if (caches != NULL) {
                must(TRITONSERVER_ServerOptionsSetCacheDirectory(options, caches));
                must(TRITONSERVER_ServerOptionsSetCacheConfig(options, "local",
                                                              "{\"size\":\"67108864\"}"));
        }
        must(TRITONSERVER_ServerOptionsSetLogInfo(options, false));
        must(TRITONSERVER_ServerNew(&server, options));
        must(TRITONSERVER_ServerOptionsDelete(options));
        return server;
}

/* The place of all outputs; the `userp` of the allocator's requests. */
struct output_place {
        void  *bytes;
        size_t n_bytes;
};

static inline struct TRITONSERVER_Error *allocate_output(
        struct TRITONSERVER_ResponseAllocator *allocator, const char *name, size_t byte_size,
        TRITONSERVER_MemoryType type, int64_t id, void *userp, void **buffer, void **buffer_userp,
        TRITONSERVER_MemoryType *actual_type, int64_t *actual_id) {
        const struct output_place *place = userp;

        (void)allocator, (void)name, (void)type, (void)id;
        if (byte_size > place->n_bytes)
                return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE,
                                             "no memory for outputs");
        *buffer = place->bytes;
        *buffer_userp = NULL;
        *actual_type = TRITONSERVER_MEMORY_CPU;
        *actual_id = 0;
        return NULL;
}

static inline struct TRITONSERVER_Error *release_output(
        struct TRITONSERVER_ResponseAllocator *allocator, void *buffer, void *buffer_userp,
        size_t byte_size, TRITONSERVER_MemoryType type, int64_t id) {
        (void)allocator, (void)buffer, (void)buffer_userp, (void)byte_size, (void)type, (void)id;
        return NULL;
}

static inline struct TRITONSERVER_ResponseAllocator *new_allocator(void) {
        struct TRITONSERVER_ResponseAllocator *allocator;

        must(TRITONSERVER_ResponseAllocatorNew(&allocator, allocate_output, release_output, NULL));
        return allocator;
}
