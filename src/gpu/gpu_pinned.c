/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"
#include "base/mem.h"
#include "gpu/gpu_private.h"

#define ALIGNMENT 64 /* a cache line, and the widest vector a backend reads with */

/* Portable memory is pinned for all devices, whichever context is current. So no further one is made when
 * there is one already. */
static struct gpu_device *device_in_use(struct gpus *g) {
        for (size_t i = 0; i < g->n_devices; i++)
                if (atomic_load_explicit(&g->devices[i].context, memory_order_acquire) != NULL)
                        return &g->devices[i];
        return &g->devices[0];
}

static struct error *host_alloc(struct gpus *g, size_t bytes, void **ret) {
        struct gpu_visit visit;
        cu_result        result;

        TRY(gpu_visit_begin(g, device_in_use(g), &visit));
        result = g->driver.cuMemHostAlloc(ret, bytes, CU_HOST_ALLOC_PORTABLE);
        gpu_visit_end(&visit);
        return cuda_error(&g->driver, result);
}

static bool make_pool(void *owner, uint64_t bytes, uint64_t *ret) {
        void      *memory = NULL;
        AUTO_ERROR err = host_alloc(owner, bytes, &memory);

        if (err != NULL) {
                log_warn("there is no pinned memory for a pool of %llu bytes; ordinary memory is "
                         "used: %s",
                         (unsigned long long)bytes, err->message);
                return false;
        }
        *ret = (uintptr_t)memory;
        return true;
}

struct error *gpu_pinned_alloc(struct gpus *g, size_t bytes, void **ret, bool *ret_is_pinned) {
        uint64_t from_pool;
        void    *memory;

        if (g != NULL && pool_memory_take(&g->pinned, bytes, make_pool, g, &from_pool)) {
                *ret = (void *)(uintptr_t)from_pool;
                *ret_is_pinned = true;
                return NULL;
        }
        memory = try_aligned_alloc(ALIGNMENT, MAX(bytes, 1));
        if (memory == NULL)
                return error_new(ERR_UNAVAILABLE, "out of memory: %zu bytes", bytes);
        *ret = memory;
        *ret_is_pinned = false;
        return NULL;
}

void gpu_pinned_free(struct gpus *g, void *memory) {
        if (memory != NULL && (g == NULL || !pool_memory_give(&g->pinned, (uintptr_t)memory)))
                free(memory);
}

void gpu_pinned_close(struct gpus *g) {
        const uint64_t   base = pool_memory_base(&g->pinned);
        struct gpu_visit visit;
        AUTO_ERROR       err = NULL;

        if (base == 0)
                return;
        err = gpu_visit_begin(g, device_in_use(g), &visit);
        if (err != NULL) {
                log_error("unable to free pinned memory: %s", err->message);
                return;
        }
        g->driver.cuMemFreeHost((void *)(uintptr_t)base);
        gpu_visit_end(&visit);
}

struct gpu_pool_usage gpu_pool_usage(const struct gpus *g, int device) {
        if (g == NULL)
                return (struct gpu_pool_usage){ 0 };
        if (device == GPU_HOST)
                return pool_memory_usage(&g->pinned);
        for (size_t i = 0; i < g->n_devices; i++)
                if (g->devices[i].info.device == device)
                        return pool_memory_usage(&g->devices[i].pool);
        return (struct gpu_pool_usage){ 0 };
}
