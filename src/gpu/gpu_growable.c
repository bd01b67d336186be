/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"
#include "base/mem.h"
#include "gpu/gpu_private.h"

/* Addresses, the first of which have memory behind them: pieces that follow each other. */
struct gpu_growable {
        struct gpus         *gpus;   /* borrowed */
        struct gpu_device   *device; /* borrowed */
        struct cu_allocation kind;
        cu_pointer           base;
        uint64_t             max_bytes;
        uint64_t             granule;
        uint64_t             mapped_bytes;
        uint64_t            *pieces; /* owned; their sizes: each is unmapped as it was mapped */
        size_t               n_pieces;
};

static bool round_up(uint64_t bytes, uint64_t granule, uint64_t *ret) {
        uint64_t n = bytes / granule + (bytes % granule != 0);

        return !__builtin_mul_overflow(n, granule, ret);
}

static struct error *reserve_addresses(struct gpu_growable *b, uint64_t max_bytes) {
        const struct cuda_driver *driver = &b->gpus->driver;
        const int                 device = b->device->info.device;
        size_t                    granule;

        TRY(error_wrap(cuda_error(driver,
                                  driver->cuMemGetAllocationGranularity(&granule, &b->kind,
                                                                        CU_GRANULARITY_MINIMUM)),
                       "GPU %d: unable to read the granularity of its memory", device));
        b->granule = granule;
        if (granule == 0 || !round_up(max_bytes, granule, &b->max_bytes))
                return error_new(ERR_UNAVAILABLE, "GPU %d has no %llu bytes of addresses", device,
                                 (unsigned long long)max_bytes);
        return error_wrap(cuda_error(driver,
                                     driver->cuMemAddressReserve(&b->base, b->max_bytes, 0, 0, 0)),
                          "GPU %d: unable to reserve %llu bytes of addresses", device,
                          (unsigned long long)b->max_bytes);
}

struct error *gpu_growable_new(struct gpus *g, int device, uint64_t max_bytes,
                               struct gpu_growable **ret) {
        struct gpu_device   *d;
        struct gpu_growable *b;
        struct gpu_visit     visit;
        struct error        *err;

        TRY(gpu_get_device(g, device, &d));
        if (!d->can_grow)
                return error_new(ERR_UNSUPPORTED,
                                 "GPU %d has no memory that grows: its driver does not support "
                                 "virtual memory management",
                                 device);
        TRY(gpu_visit_begin(g, d, &visit));
        b = mem_zalloc(sizeof(*b));
        b->gpus = g;
        b->device = d;
        b->kind.type = CU_ALLOCATION_PINNED;
        b->kind.location = (struct cu_location){ CU_LOCATION_DEVICE, d->handle };
        err = reserve_addresses(b, max_bytes > 0 ? max_bytes : d->virtual_bytes);
        gpu_visit_end(&visit);
        if (err != NULL) {
                free(b);
                return err;
        }
        *ret = b;
        return NULL;
}

/* In the context of the device. */
static void unmap_all(struct gpu_growable *b) {
        const struct cuda_driver *driver = &b->gpus->driver;
        cu_pointer                at = b->base;

        for (size_t i = 0; i < b->n_pieces; i++) {
                driver->cuMemUnmap(at, b->pieces[i]);
                at += b->pieces[i];
        }
        driver->cuMemAddressFree(b->base, b->max_bytes);
}

void gpu_growable_free(struct gpu_growable *b) {
        struct gpu_visit visit;
        AUTO_ERROR       err = NULL;

        if (b == NULL)
                return;
        err = gpu_visit_begin(b->gpus, b->device, &visit);
        if (err == NULL) {
                unmap_all(b);
                gpu_visit_end(&visit);
        } else {
                log_error("GPU %d: unable to free growing memory: %s", b->device->info.device,
                          err->message);
        }
        free(b->pieces);
        free(b);
}

static cu_result map(struct gpu_growable *b, uint64_t bytes) {
        const struct cuda_driver *driver = &b->gpus->driver;
        const struct cu_access    access = { .location = b->kind.location,
                                             .flags = CU_ACCESS_READ_WRITE };
        const cu_pointer          at = b->base + b->mapped_bytes;
        cu_block                  block;
        cu_result                 r = driver->cuMemCreate(&block, bytes, &b->kind, 0);

        if (r != CU_SUCCESS)
                return r;
        r = driver->cuMemMap(at, bytes, 0, block, 0);
        /* What is mapped stays until it is unmapped. */
        driver->cuMemRelease(block);
        if (r != CU_SUCCESS)
                return r;
        r = driver->cuMemSetAccess(at, bytes, &access, 1);
        if (r != CU_SUCCESS)
                driver->cuMemUnmap(at, bytes);
        return r;
}

static struct error *grow_blocks(struct gpu_growable *b, uint64_t bytes) {
        const int        device = b->device->info.device;
        uint64_t        *pieces = try_realloc(b->pieces, (b->n_pieces + 1) * sizeof(*pieces));
        struct gpu_visit visit;
        cu_result        r;

        if (pieces == NULL)
                return error_new(ERR_UNAVAILABLE, "out of memory");
        b->pieces = pieces;
        TRY(gpu_visit_begin(b->gpus, b->device, &visit));
        r = map(b, bytes);
        gpu_visit_end(&visit);
        if (r != CU_SUCCESS)
                return error_wrap(cuda_error(&b->gpus->driver, r),
                                  "GPU %d has no memory for %llu further bytes of a growing buffer",
                                  device, (unsigned long long)bytes);
        b->pieces[b->n_pieces++] = bytes;
        b->mapped_bytes += bytes;
        return NULL;
}

struct error *gpu_growable_reserve(struct gpu_growable *b, size_t bytes) {
        uint64_t wanted;

        if (bytes <= b->mapped_bytes)
                return NULL;
        if (!round_up(bytes, b->granule, &wanted) || wanted > b->max_bytes)
                return error_new(ERR_UNAVAILABLE,
                                 "GPU %d: a growing buffer has at most %llu bytes, %zu are needed",
                                 b->device->info.device, (unsigned long long)b->max_bytes, bytes);
        return grow_blocks(b, wanted - b->mapped_bytes);
}

void *gpu_growable_memory(const struct gpu_growable *b) {
        return (void *)(uintptr_t)b->base;
}
