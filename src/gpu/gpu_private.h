/* SPDX-License-Identifier: BSD-3-Clause */
/* The GPUs of gpu.h from the inside, for the files of this folder.
 *
 *     gpus.c          devices and their contexts
 *     gpus_open.c     opens and closes them, above all others
 *     gpu_memory.c    memory of devices         gpu_pinned.c    pinned memory
 *     gpu_copy.c      copies, on streams        gpu_growable.c  addresses with growing memory
 *     gpu_share.c     memory of other processes
 *
 * Threads.  A device is immutable after opening, except for what is atomic or has a lock. No function of
 * the driver is called under a lock, except for the memory of a pool.
 */
#pragma once

#include "gpu/cuda_driver.h"
#include "gpu/gpu.h"
#include "gpu/pool_memory.h"

#include <stdatomic.h>

#define MAX_GPUS 64         /* what one machine has is a quarter of this */
#define MAX_IDLE_STREAMS 16 /* of a device; further ones are destroyed after their copies */

enum peer_access { PEER_UNKNOWN, PEER_DIRECT, PEER_STAGED };

struct gpu_device {
        struct gpu_info     info;
        cu_device           handle;
        _Atomic(cu_context) context; /* owned: retained at first use; NULL: not yet */
        bool                can_grow;
        uint64_t            virtual_bytes;
        double              load_limit; /* a fraction of its memory; negative: none */
        struct pool_memory  pool;
        struct mutex        stream_lock; /* rank LOCK_GPU; guards the two that follow */
        cu_stream           idle_streams[MAX_IDLE_STREAMS];
        size_t              n_idle_streams;
};

struct gpus {
        struct cuda_driver driver;
        bool               enable_peer_access;
        struct gpu_device *devices; /* owned */
        size_t             n_devices;
        char              *list; /* owned */
        struct pool_memory pinned;
        atomic_uchar      *peers; /* owned; enum peer_access, by index from, then index to */
        _Atomic uint64_t   n_to_device, n_to_host, n_within_device, n_between_devices; /* bytes */
};

/* Opens the devices of a driver, which is copied; *ret is NULL when none may be used. */
struct error *gpus_open_driver(const struct cuda_driver *driver, const struct gpus_options *options,
                               struct gpus **ret) NODISCARD;

/* INVALID_ARG "GPU <n> is unknown: the GPUs are <list>", "...: no GPUs are available". */
struct error *gpu_unknown(const struct gpus *g, int device) NODISCARD;
/* The same error when there is no such device. */
struct error *gpu_get_device(struct gpus *g, int device, struct gpu_device **ret) NODISCARD;

/* Makes it at first use. */
struct error *gpu_get_context(struct gpus *g, struct gpu_device *d, cu_context *ret) NODISCARD;

/* Makes the context of a device current, and the former one again afterwards. */
struct gpu_visit {
        struct gpus *gpus;
        cu_context   former;
        bool         has_changed;
};
struct error *gpu_visit_begin(struct gpus *g, struct gpu_device *d, struct gpu_visit *ret)
        NODISCARD;
void gpu_visit_end(struct gpu_visit *v);
/* Another device within the same visit. */
struct error *gpu_visit_go(struct gpu_visit *v, struct gpu_device *d) NODISCARD;

/* Frees the memory of the pools; for gpus_close(), in the context of the device. */
void gpu_memory_close(struct gpus *g, struct gpu_device *d);
void gpu_pinned_close(struct gpus *g);
void gpu_copy_close(struct gpus *g, struct gpu_device *d);
