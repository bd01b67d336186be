/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu/gpu_private.h"

/* ---- devices --------------------------------------------------------------------------------- */

size_t gpus_count(const struct gpus *g) {
        return g != NULL ? g->n_devices : 0;
}

const struct gpu_info *gpus_at(const struct gpus *g, size_t index) {
        return g != NULL && index < g->n_devices ? &g->devices[index].info : NULL;
}

static struct gpu_device *find_device(const struct gpus *g, int64_t device) {
        for (size_t i = 0; i < gpus_count(g); i++)
                if (g->devices[i].info.device == device)
                        return &g->devices[i];
        return NULL;
}

const struct gpu_info *gpus_find(const struct gpus *g, int64_t device) {
        const struct gpu_device *d = find_device(g, device);

        return d != NULL ? &d->info : NULL;
}

const char *gpus_list(const struct gpus *g) {
        return g != NULL ? g->list : "";
}

struct error *gpu_unknown(const struct gpus *g, int device) {
        if (g == NULL)
                return error_new(ERR_INVALID_ARG, "GPU %d is unknown: no GPUs are available",
                                 device);
        return error_new(ERR_INVALID_ARG, "GPU %d is unknown: the GPUs are %s", device, g->list);
}

struct error *gpu_get_device(struct gpus *g, int device, struct gpu_device **ret) {
        *ret = find_device(g, device);
        return *ret != NULL ? NULL : gpu_unknown(g, device);
}

/* ---- contexts -------------------------------------------------------------------------------- */

/* Two threads may retain it at once: the driver counts, and one of them gives its own back. So none waits
 * for another one under a lock. */
struct error *gpu_get_context(struct gpus *g, struct gpu_device *d, cu_context *ret) {
        cu_context context = atomic_load_explicit(&d->context, memory_order_acquire);
        cu_context none = NULL;

        if (context == NULL) {
                TRY(error_wrap(cuda_error(&g->driver,
                                          g->driver.cuDevicePrimaryCtxRetain(&context, d->handle)),
                               "GPU %d: unable to make its context", d->info.device));
                if (!atomic_compare_exchange_strong(&d->context, &none, context))
                        g->driver.cuDevicePrimaryCtxRelease_v2(d->handle);
        }
        *ret = context;
        return NULL;
}

static struct error *set_context(struct gpus *g, struct gpu_device *d, cu_context context) {
        return error_wrap(cuda_error(&g->driver, g->driver.cuCtxSetCurrent(context)),
                          "GPU %d: unable to make its context current", d->info.device);
}

struct error *gpu_enter(struct gpus *g, int device) {
        struct gpu_device *d;
        cu_context         context, current = NULL;

        TRY(gpu_get_device(g, device, &d));
        TRY(gpu_get_context(g, d, &context));
        if (g->driver.cuCtxGetCurrent(&current) == CU_SUCCESS && current == context)
                return NULL;
        return set_context(g, d, context);
}

struct error *gpu_visit_begin(struct gpus *g, struct gpu_device *d, struct gpu_visit *ret) {
        struct gpu_visit v = { .gpus = g };

        TRY(error_wrap(cuda_error(&g->driver, g->driver.cuCtxGetCurrent(&v.former)),
                       "GPU %d: unable to read the current context", d->info.device));
        TRY(gpu_visit_go(&v, d));
        *ret = v;
        return NULL;
}

struct error *gpu_visit_go(struct gpu_visit *v, struct gpu_device *d) {
        cu_context context, current = v->former;

        TRY(gpu_get_context(v->gpus, d, &context));
        if (!v->has_changed && current == context)
                return NULL;
        TRY(set_context(v->gpus, d, context));
        v->has_changed = true;
        return NULL;
}

/* The former context was current before, so that this fails only when its device was lost. The next call on
 * that device reports it. */
void gpu_visit_end(struct gpu_visit *v) {
        if (v->has_changed)
                v->gpus->driver.cuCtxSetCurrent(v->former);
}

struct error *gpu_memory_left(struct gpus *g, int device, uint64_t *ret_free, uint64_t *ret_total) {
        struct gpu_device *d;
        struct gpu_visit   visit;
        size_t             n_free, n_total;
        struct error      *err;

        TRY(gpu_get_device(g, device, &d));
        TRY(gpu_visit_begin(g, d, &visit));
        err = cuda_error(&g->driver, g->driver.cuMemGetInfo_v2(&n_free, &n_total));
        gpu_visit_end(&visit);
        if (err != NULL)
                return error_wrap(err, "GPU %d: unable to read its free memory", device);
        *ret_free = n_free;
        *ret_total = n_total;
        return NULL;
}

struct error *gpu_check_load(struct gpus *g, int device) {
        struct gpu_device *d;
        uint64_t           n_free, n_total;
        double             used;

        TRY(gpu_get_device(g, device, &d));
        if (d->load_limit < 0)
                return NULL;
        TRY(gpu_memory_left(g, device, &n_free, &n_total));
        used = n_total > 0 ? (double)(n_total - n_free) / (double)n_total : 0;
        if (used <= d->load_limit)
                return NULL;
        return error_new(ERR_INTERNAL,
                         "memory limit of GPU %d has been exceeded: %.3f of its memory is in use, "
                         "--model-load-gpu-limit is %.3f",
                         device, used, d->load_limit);
}
