/* SPDX-License-Identifier: BSD-3-Clause */
#include "shm/cuda_region.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/work_pool.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

/* Memory of a GPU that regions have open: as a whole, however small they are. Regions with the same handle
 * share it. */
struct cuda_allocation {
        struct list_node node;
        unsigned char    handle[GPU_SHARE_BYTES];
        int              device;
        uint64_t         bytes;
        uint32_t         n_regions;
};

void cuda_regions_init(struct cuda_regions *all, struct gpus *gpus) {
        all->gpus = gpus;
        all->limit = CUDA_REGION_MEMORY;
        mutex_init(&all->lock, LOCK_LEAF);
        list_init(&all->allocations);
        all->closer = gpus != NULL ? work_pool_new("neso-regions", 1, WORK_BACKGROUND) : NULL;
        atomic_init(&all->n_open, 0);
}

void cuda_regions_done(struct cuda_regions *all) {
        work_pool_free(all->closer);
        all->closer = NULL;
        assert(list_is_empty(&all->allocations));
        mutex_done(&all->lock);
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

/* ---- memory that is open ------------------------------------------------------------------------- */

/* Returns the open allocation of the handle, or NULL, and the bytes of all that are open on its device. */
static struct cuda_allocation *find_locked(struct cuda_regions *all, const struct cuda_region *r,
                                           uint64_t *ret_bytes) {
        struct cuda_allocation *found = NULL;

        *ret_bytes = 0;
        LIST_FOR_EACH(&all->allocations, node) {
                struct cuda_allocation *a = LIST_ENTRY(node, struct cuda_allocation, node);

                if (a->device != r->device)
                        continue;
                *ret_bytes += a->bytes; /* each is at most the device's memory */
                if (memcmp(a->handle, r->handle, sizeof(a->handle)) == 0)
                        found = a;
        }
        return found;
}

/* Counts a region that is open: the first of an allocation adds its bytes. */
static struct error *join_allocation(struct cuda_regions *all, struct cuda_region *r,
                                     uint64_t bytes) {
        const uint64_t total = gpus_find(all->gpus, r->device)->total_bytes;
        const uint64_t limit = (uint64_t)(all->limit * (double)total);
        uint64_t       used;

        MUTEX_GUARD(&all->lock);
        r->allocation = find_locked(all, r, &used);
        if (r->allocation == NULL) {
                if (used > limit || bytes > limit - used)
                        return error_new(ERR_UNAVAILABLE,
                                         "regions of clients keep %" PRIu64
                                         " bytes of GPU %d open, with its allocation of %" PRIu64
                                         " bytes they would exceed the limit of %" PRIu64
                                         " (--client-shm-gpu-limit)",
                                         used, r->device, bytes, limit);
                r->allocation = mem_zalloc(sizeof(*r->allocation));
                memcpy(r->allocation->handle, r->handle, sizeof(r->handle));
                r->allocation->device = r->device;
                r->allocation->bytes = bytes;
                list_append(&all->allocations, &r->allocation->node);
        }
        r->allocation->n_regions++;
        return NULL;
}

static void leave_allocation(struct cuda_regions *all, struct cuda_allocation *a) {
        MUTEX_GUARD(&all->lock);

        if (--a->n_regions > 0)
                return;
        list_remove(&a->node);
        free(a);
}

/* ---- opening ------------------------------------------------------------------------------------- */

/* The driver knows the size of the allocation; what the client says does not count. */
static struct error *open_memory(struct cuda_regions *all, uint64_t byte_size,
                                 struct cuda_region *r) {
        struct error *err;
        uint64_t      bytes;

        TRY(gpu_open_shared(all->gpus, r->device, r->handle, byte_size, &r->memory));
        err = gpu_shared_bytes(all->gpus, r->device, r->memory, &bytes);
        if (err == NULL)
                err = join_allocation(all, r, bytes);
        if (err != NULL)
                gpu_close_shared(all->gpus, r->device, r->memory);
        return err;
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
        err = open_memory(all, p->byte_size, &r);
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
        leave_allocation(r->of, r->allocation);
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
