/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies between buffers in any memory, whose attributes say where they are.
 *
 * Code of the core that reads or writes the bytes of a tensor on the CPU goes through these functions,
 * unless a check before has made sure that the bytes are in memory of the host.
 *
 * Threads.  Any. A copy from or to a device blocks the calling thread until the bytes have arrived.
 */
#pragma once

#include "base/error.h"
#include "gpu/gpu.h"
#include "infer/buffer_attributes.h"

#include <limits.h>
#include <stddef.h>

static inline bool buffer_is_on_device(const struct buffer_attributes *a) {
        return a->memory_type == MEMORY_GPU;
}

/* The number of the device, or GPU_HOST. The attributes may be a client's: an id that is no number of a device
 * must not become that of the host, whose memory the CPU reads, or of another device. No device has INT_MAX. */
static inline int buffer_device(const struct buffer_attributes *a) {
        if (!buffer_is_on_device(a))
                return GPU_HOST;
        return a->memory_id >= 0 && a->memory_id < INT_MAX ? (int)a->memory_id : INT_MAX;
}

/* Memory of the host, as gpu_pinned_alloc() gives it. */
static inline struct buffer_attributes buffer_of_host(size_t n_bytes, bool is_pinned) {
        return (struct buffer_attributes){ .memory_type =
                                                   is_pinned ? MEMORY_CPU_PINNED : MEMORY_CPU,
                                           .byte_size = n_bytes };
}

/* Copies n bytes to memory of the host. */
struct error *buffer_read(struct gpus *gpus, const struct buffer_attributes *from, const void *base,
                          void *to, size_t n) NODISCARD;
