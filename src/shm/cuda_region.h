/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of a GPU that a client shares with the server through a handle of CUDA's interprocess
 * communication.
 *
 * The client owns the allocation. The server opens it, passes it to backends by its address on the
 * device, and closes it. The CPU cannot read or write the memory, there is no descriptor, and the
 * client cannot shrink an allocation: the checks when the region is opened suffice. When the
 * client's process ends, the driver keeps the memory until the server has closed it.
 *
 * Ownership.  A region is embedded in a struct shm_region (shm_region.h), a struct cuda_regions in
 * the registry (shared_memory.h).
 * Threads.  Open and close: any that may block, since the driver may wait for the device, and makes
 * its context at first use. The other functions: any.
 */
#pragma once

#include "base/error.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/str.h"
#include "gpu/gpu.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct work_pool;

/* Limit of CUDA regions that are open at a time, counting those that requests still use. */
#define CUDA_REGION_MAX 1024

/* Limit of the memory of each GPU that open regions keep, as a part of its memory, unless it is set. */
#define CUDA_REGION_MEMORY 0.5

/* What the CUDA regions of a registry share. */
struct cuda_regions {
        struct gpus      *gpus;   /* borrowed; NULL: no region can be opened */
        struct work_pool *closer; /* owned: closes regions whose last user must not block */
        double            limit;  /* of the memory of a GPU, 0 to 1 */
        _Atomic uint32_t  n_open;
        struct mutex      lock;        /* rank LOCK_LEAF; guards what follows */
        struct list       allocations; /* struct cuda_allocation, owned: those that are open */
};

/* The memory that a client offers. Borrowed. */
struct cuda_place {
        const char *name;   /* of the region */
        struct str  handle; /* as many bytes as the client sent */
        int64_t     device;
        uint64_t    byte_size;
};

struct cuda_region {
        struct cuda_regions    *of;         /* borrowed; NULL: not open */
        struct cuda_allocation *allocation; /* one of its users is this region */
        void                   *memory;
        int                     device;
        unsigned char           handle[GPU_SHARE_BYTES]; /* the client's */
};

/* `limit` is CUDA_REGION_MEMORY until it is changed, before the first region. */
void cuda_regions_init(struct cuda_regions *all, struct gpus *gpus);
/* Waits until the regions are closed that have no user. */
void cuda_regions_done(struct cuda_regions *all);

/* INVALID_ARG for an unknown device, a handle of another length, an empty range, and a handle that
 * the driver refuses or whose allocation is smaller: "failed to register shared memory region:
 * invalid args", with the driver's text in the log. UNAVAILABLE when there are too many regions,
 * when the open allocations of the device would exceed the limit, and when the device cannot be used. */
struct error *cuda_region_open(struct cuda_regions *all, const struct cuda_place *place,
                               struct cuda_region *ret) NODISCARD;
void          cuda_region_close(struct cuda_region *r);

/* Copies bytes of the device to the host, and waits for them. The caller has checked the range. */
struct error *cuda_region_read(const struct cuda_region *r, const void *from, size_t bytes,
                               void *to) NODISCARD;
