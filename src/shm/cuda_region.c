/* SPDX-License-Identifier: BSD-3-Clause */
#include "shm/cuda_region.h"

#include "base/log.h"
#include "base/work_pool.h"

#include <inttypes.h>
#include <string.h>

void cuda_regions_init(struct cuda_regions *all, struct gpus *gpus) {
        all->gpus = gpus;
        all->closer = gpus != NULL ? work_pool_new("neso-regions", 1, WORK_BACKGROUND) : NULL;
        atomic_init(&all->n_open, 0);
}

void cuda_regions_done(struct cuda_regions *all) {
        work_pool_free(all->closer);
        all->closer = NULL;
}

static struct error *check_place(const struct cuda_regions *all, const struct cuda_place *p) {
        if (gpus_find(all->gpus, p->device) == NULL)
                return error_new(ERR_INVALID_ARG,
                                 "failed to register shared memory region '%s': unknown device_id "
                                 "%" PRId64 ", the server has these GPUs: %s",
                                 p->name, p->device, gpus_list(all->gpus));
        if (p->handle.len != GPU_SHARE_BYTES)
                return error_new(ERR_INVALID_ARG,
                                 "failed to register shared memory region '%s': raw_handle has "
                                 "%zu bytes, a handle has %d",
                                 p->name, p->handle.len, GPU_SHARE_BYTES);
        if (p->byte_size == 0)
                return error_new(ERR_INVALID_ARG,
                                 "failed to register shared memory region '%s': byte_size must be "
                                 "greater than 0",
                                 p->name);
        return NULL;
}

/* Counts a region before it is opened, so that threads that register at a time keep to the limit. */
static struct error *count_region(struct cuda_regions *all, const char *name) {
        if (atomic_fetch_add(&all->n_open, 1) < CUDA_REGION_MAX)
                return NULL;
        atomic_fetch_sub(&all->n_open, 1);
        return error_new(ERR_UNAVAILABLE,
                         "cannot register shared memory region '%s': there are %d already, "
                         "counting those that requests still use",
                         name, CUDA_REGION_MAX);
}

/* The client gets the reference server's text, which has no reason; the reason is for the operator.
 * Takes the error. */
static struct error *refuse_region(struct error *err, const struct cuda_place *p) {
        if (err->code != ERR_INVALID_ARG)
                return error_wrap(err, "failed to register shared memory region '%s'", p->name);
        log_warn_limited("shared memory region '%s' of %" PRIu64 " bytes on GPU %" PRId64
                         " cannot be opened: %s",
                         p->name, p->byte_size, p->device, err->message);
        error_free(err);
        return error_new_text(ERR_INVALID_ARG,
                              "failed to register shared memory region: invalid args");
}

struct error *cuda_region_open(struct cuda_regions *all, const struct cuda_place *p,
                               struct cuda_region *ret) {
        struct cuda_region r = { .of = all, .device = (int)p->device };
        struct error      *err;

        TRY(check_place(all, p));
        TRY(count_region(all, p->name));
        memcpy(r.handle, p->handle.ptr, GPU_SHARE_BYTES);
        err = gpu_open_shared(all->gpus, r.device, r.handle, p->byte_size, &r.memory);
        if (err != NULL) {
                atomic_fetch_sub(&all->n_open, 1);
                return refuse_region(err, p);
        }
        *ret = r;
        return NULL;
}

void cuda_region_close(struct cuda_region *r) {
        if (r->of == NULL)
                return;
        gpu_close_shared(r->of->gpus, r->device, r->memory);
        atomic_fetch_sub(&r->of->n_open, 1);
        r->of = NULL;
}

struct error *cuda_region_read(const struct cuda_region *r, const void *from, size_t bytes,
                               void *to) {
        const struct gpu_copy copy = { .to = to,
                                       .from = from,
                                       .to_device = GPU_HOST,
                                       .from_device = r->device,
                                       .bytes = bytes };

        return gpu_copy_all(r->of->gpus, &copy, 1);
}
