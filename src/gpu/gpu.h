/* SPDX-License-Identifier: BSD-3-Clause */
/* The GPUs of the machine: their memory, pinned memory of the host, copies between all of these, and memory
 * that other processes share. Everything goes through CUDA's driver library, which is opened at run time;
 * where it is missing there are no GPUs, and nothing else changes.
 *
 * `struct gpus *` may be NULL everywhere: a machine without GPUs. Then pinned memory is ordinary memory, and
 * whatever names a device is refused with an error that names it.
 *
 * Devices are numbered as the driver numbers them (CUDA_VISIBLE_DEVICES has been applied). Each is used
 * through its primary context, which the runtime library of backends uses, too: pointers of both are
 * common. The context of a device is made when the device is first used, since each takes some hundred MiB.
 *
 * Ownership.  The server owns one; so does the front end, which opens regions of clients with it.
 * Threads.  All functions but open and close: any. None but gpu_enter() changes the context that is current
 * on the thread. Copies block the calling thread until their bytes have arrived, on streams of our own:
 * no device is synchronised, no default stream is used.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gpus;

#define GPU_HOST (-1)    /* in place of a device: memory of the host, pinned or not */
#define GPU_SEVERAL (-2) /* in place of the one device of a model: it has several */
#define GPU_POOL_BYTES ((uint64_t)64 << 20) /* of a device without a setting */
#define GPU_PINNED_POOL_BYTES ((uint64_t)256 << 20)
#define GPU_VIRTUAL_BYTES                                                                          \
        ((uint64_t)1 << 30) /* addresses of a growable buffer, without a setting */
#define GPU_SHARE_BYTES 64

struct gpu_bytes {
        int      device;
        uint64_t bytes;
};

struct gpu_fraction {
        int    device;
        double fraction; /* of the device's memory, 0 to 1 */
};

struct gpus_options {
        double                  min_compute_capability; /* devices below are not used; 0: all are */
        bool                    enable_peer_access;     /* copies between devices go directly */
        uint64_t                pinned_pool_bytes; /* 0: none; pinned memory is ordinary memory */
        const struct gpu_bytes *pools;             /* borrowed for the call; a pool of 0: none */
        size_t                  n_pools;
        const struct gpu_bytes *virtual_sizes; /* likewise, of growable buffers */
        size_t                  n_virtual_sizes;
        const struct gpu_fraction *load_limits; /* likewise: see gpu_check_load() */
        size_t                     n_load_limits;
        bool is_quiet; /* opening logs nothing, since another object of the process does */
};

/* One device. */
struct gpu_info {
        int      device;
        char     name[96];
        char     uuid[48]; /* "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", or "MIG-..." */
        char     pci_bus_id[20];
        int      major, minor; /* compute capability */
        uint64_t total_bytes;
};

/* *ret is NULL without an error when there is no driver, or no device that may be used; one line in the log
 * says which. A device below the least compute capability gets a line of its own. */
struct error *gpus_open(const struct gpus_options *options, struct gpus **ret) NODISCARD;
/* All memory has been freed. */
void gpus_close(struct gpus *g);

/* The devices that may be used, in their order. */
size_t                 gpus_count(const struct gpus *g);
const struct gpu_info *gpus_at(const struct gpus *g, size_t index);
const struct gpu_info *gpus_find(const struct gpus *g,
                                 int64_t            device); /* NULL: none of that number */
/* The ids of the devices, for messages: "0,1". Borrowed; "" when there is none. */
const char *gpus_list(const struct gpus *g);

/* Makes the primary context of the device current on the calling thread, where it stays. Cheap when it is
 * already. INVALID_ARG for an unknown device, UNAVAILABLE with the driver's text. */
struct error *gpu_enter(struct gpus *g, int device) NODISCARD;
/* Free and total bytes of the device. */
struct error *gpu_memory_left(struct gpus *g, int device, uint64_t *ret_free, uint64_t *ret_total)
        NODISCARD;
/* Whether a model may be loaded now: INTERNAL when more than the device's limit of its memory is in use, with
 * the use and the limit. Without a limit nothing is read. */
struct error *gpu_check_load(struct gpus *g, int device) NODISCARD;

/* ---- memory ---------------------------------------------------------------------------------- */

/* Memory of a device: of its pool, else of the driver. UNAVAILABLE names device, asked and free bytes.
 * Aligned to 256 bytes. Zero bytes are a valid size. */
struct error *gpu_alloc(struct gpus *g, int device, size_t bytes, void **ret) NODISCARD;
void          gpu_free(struct gpus *g, int device, void *memory); /* NULL is fine */

/* Pinned memory of the host, from the pool, else ordinary memory; *ret_is_pinned says which. Aligned to 64
 * bytes. UNAVAILABLE when memory is short. */
struct error *gpu_pinned_alloc(struct gpus *g, size_t bytes, void **ret, bool *ret_is_pinned)
        NODISCARD;
/* For either kind; NULL is fine. */
void gpu_pinned_free(struct gpus *g, void *memory);

struct gpu_pool_usage {
        uint64_t total_bytes; /* of the pool; 0 until its first use for a device */
        uint64_t used_bytes;
        uint64_t n_beyond; /* allocations that the pool had no room for */
};

/* The usage of the pool of a device, or with GPU_HOST of the pinned pool. */
struct gpu_pool_usage gpu_pool_usage(const struct gpus *g, int device);

/* A buffer of a device whose address stays the same while its memory grows. */
struct gpu_growable;

/* `max_bytes` 0: the device's setting. UNSUPPORTED when the device has no virtual memory management. */
struct error *gpu_growable_new(struct gpus *g, int device, uint64_t max_bytes,
                               struct gpu_growable **ret) NODISCARD;
void          gpu_growable_free(struct gpu_growable *b); /* NULL is fine */
/* Makes at least `bytes` usable; what was written stays. UNAVAILABLE beyond the maximum, or when the device
 * has no memory left. */
struct error *gpu_growable_reserve(struct gpu_growable *b, size_t bytes) NODISCARD;
void         *gpu_growable_memory(const struct gpu_growable *b);

/* ---- copies ---------------------------------------------------------------------------------- */

struct gpu_copy {
        void       *to;
        const void *from;
        int         to_device; /* or GPU_HOST */
        int         from_device;
        size_t      bytes;
};

/* Makes all copies, in any order, and returns when the last one has ended: one wait for each device that
 * takes part. Copies between two hosts are made by memcpy(). */
struct error *gpu_copy_all(struct gpus *g, const struct gpu_copy *copies, size_t n) NODISCARD;
struct error *gpu_zero(struct gpus *g, int device, void *memory, size_t bytes) NODISCARD;

/* Bytes copied since the start. A copy between devices that goes through memory of the host, without peer
 * access, counts as one to the host and one to a device. */
struct gpu_traffic {
        uint64_t to_device, to_host, within_device, between_devices;
};

struct gpu_traffic gpus_traffic(const struct gpus *g);

/* ---- memory of other processes ---------------------------------------------------------------- */

/* The handle of the allocation that `memory` lies in, for another process, and its place there: a pool is one
 * allocation. The other process opens the whole allocation, so it must be one that may see all of it. */
struct error *gpu_share(struct gpus *g, int device, const void *memory,
                        unsigned char ret[GPU_SHARE_BYTES], uint64_t *ret_offset) NODISCARD;
/* The place alone, of memory whose handle is known: it may be another process's, which has no handle here. */
struct error *gpu_find_place(struct gpus *g, int device, const void *memory, uint64_t *ret_offset)
        NODISCARD;
/* Opens an allocation of another process; *ret is its beginning. INVALID_ARG when the handle is none, or its allocation has fewer than
 * `bytes`; the text is the driver's. */
struct error *gpu_open_shared(struct gpus *g, int device,
                              const unsigned char handle[GPU_SHARE_BYTES], uint64_t bytes,
                              void **ret) NODISCARD;
/* The size of the whole allocation, of which the handle opens all. */
struct error *gpu_shared_bytes(struct gpus *g, int device, const void *memory, uint64_t *ret)
        NODISCARD;
void gpu_close_shared(struct gpus *g, int device, void *memory); /* NULL is fine */
