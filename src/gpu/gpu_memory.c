/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"
#include "gpu/gpu_private.h"

struct making {
        struct gpus       *gpus;
        struct gpu_device *device;
};

static struct error *driver_alloc(struct gpus *g, struct gpu_device *d, size_t bytes,
                                  cu_pointer *ret, cu_result *ret_result) {
        struct gpu_visit visit;

        TRY(gpu_visit_begin(g, d, &visit));
        *ret_result = g->driver.cuMemAlloc_v2(ret, bytes);
        gpu_visit_end(&visit);
        return cuda_error(&g->driver, *ret_result);
}

static bool make_pool(void *owner, uint64_t bytes, uint64_t *ret) {
        struct making *m = owner;
        cu_pointer     memory;
        cu_result      result;
        AUTO_ERROR     err = driver_alloc(m->gpus, m->device, bytes, &memory, &result);

        if (err == NULL) {
                *ret = memory;
                return true;
        }
        log_warn("GPU %d has no memory for a pool of %llu bytes; each tensor is allocated by the "
                 "driver: %s",
                 m->device->info.device, (unsigned long long)bytes, err->message);
        return false;
}

static struct error *out_of_memory(struct gpus *g, const struct gpu_device *d, size_t bytes) {
        uint64_t   n_free = 0, n_total = 0;
        AUTO_ERROR err = gpu_memory_left(g, d->info.device, &n_free, &n_total);

        if (err != NULL)
                return error_new(ERR_UNAVAILABLE, "GPU %d has no memory for %zu bytes",
                                 d->info.device, bytes);
        return error_new(ERR_UNAVAILABLE,
                         "GPU %d has no memory for %zu bytes: %llu of %llu bytes are free",
                         d->info.device, bytes, (unsigned long long)n_free,
                         (unsigned long long)n_total);
}

struct error *gpu_alloc(struct gpus *g, int device, size_t bytes, void **ret) {
        struct gpu_device *d;
        struct making      making;
        struct error      *err;
        cu_context         context;
        uint64_t           from_pool;
        cu_pointer         memory;
        cu_result          result = CU_SUCCESS;

        TRY(gpu_get_device(g, device, &d));
        TRY(gpu_get_context(g, d, &context));
        making = (struct making){ g, d };
        if (pool_memory_take(&d->pool, bytes, make_pool, &making, &from_pool)) {
                *ret = (void *)(uintptr_t)from_pool;
                return NULL;
        }
        /* The driver refuses 0 bytes. */
        err = driver_alloc(g, d, MAX(bytes, 1), &memory, &result);
        if (err == NULL) {
                *ret = (void *)(uintptr_t)memory;
                return NULL;
        }
        if (result != CU_OUT_OF_MEMORY)
                return error_wrap(err, "GPU %d: unable to allocate %zu bytes", device, bytes);
        error_free(err);
        return out_of_memory(g, d, bytes);
}

void gpu_free(struct gpus *g, int device, void *memory) {
        const cu_pointer   address = (uintptr_t)memory;
        struct gpu_device *d = NULL;
        struct gpu_visit   visit;
        AUTO_ERROR         err = NULL;

        if (memory == NULL)
                return;
        err = gpu_get_device(g, device, &d);
        if (err == NULL && pool_memory_give(&d->pool, address))
                return;
        if (err == NULL)
                err = gpu_visit_begin(g, d, &visit);
        if (err == NULL) {
                err = cuda_error(&g->driver, g->driver.cuMemFree_v2(address));
                gpu_visit_end(&visit);
        }
        if (err != NULL)
                log_error("GPU %d: unable to free memory: %s", device, err->message);
}

void gpu_memory_close(struct gpus *g, struct gpu_device *d) {
        const cu_pointer base = pool_memory_base(&d->pool);

        if (base != 0)
                g->driver.cuMemFree_v2(base);
}
