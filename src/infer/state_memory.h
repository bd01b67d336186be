/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory for one value of a sequence's state: of the host, pinned, or of a device.
 *
 * Memory of a device is bounded by the device. Memory of the host is charged to the budget, when there is
 * one. A device without room is replaced by pinned memory, and that by ordinary memory: the place of the
 * memory is always that which it has.
 *
 * Memory that grows keeps its address: it has the addresses of its largest size from the beginning
 * (gpu_growable_new()).
 *
 * Ownership.  The state's. What the memory was made from outlives it.
 * Threads.  One at a time.
 */
#pragma once

#include "base/error.h"
#include "infer/buffer_attributes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct byte_budget;
struct gpu_growable;
struct gpus;

/* What all memory of a model's states is made from. */
struct state_source {
        struct gpus        *gpus;   /* borrowed; NULL: there are no GPUs */
        struct byte_budget *budget; /* borrowed; NULL: no limit */
};

struct state_place {
        enum memory_type type;
        int              device; /* GPU_HOST unless the type is GPU */
};

struct state_memory {
        void                *bytes; /* owned; NULL: none */
        size_t               n_room;
        struct state_place   place;
        struct state_place   wanted;   /* differs from `place` when that has replaced it */
        struct gpu_growable *growable; /* owned, has the bytes; NULL: the memory does not grow */
};

/* The place that a backend asks for. Without GPUs every memory is ordinary memory. INVALID_ARG for a device
 * that the server does not use. */
struct error            *state_place_find(const struct gpus *g, enum memory_type type, int64_t id,
                                          struct state_place *ret) NODISCARD;
struct buffer_attributes state_place_attributes(struct state_place place, size_t n_bytes);
/* True when the memory is what was asked for, or has replaced it. */
bool state_memory_is_at(const struct state_memory *m, struct state_place place);

/* Makes room for n_bytes, aligned to 64, at the place. Memory that does not grow loses its contents, unless
 * it suffices. `grows`: the memory is on a device, and grows; then there is no replacement for a device
 * without room. On an error nothing has changed. UNAVAILABLE when memory is short. */
struct error *state_memory_reserve(const struct state_source *source, struct state_memory *m,
                                   struct state_place place, bool grows, size_t n_bytes) NODISCARD;
void          state_memory_free(const struct state_source *source, struct state_memory *m);

/* Copies the first n_bytes, from one place to another. */
struct error *state_memory_copy(const struct state_source *source, const struct state_memory *to,
                                const struct state_memory *from, size_t n_bytes) NODISCARD;
/* Writes the value; `bytes` is memory of the host, NULL: zeros. */
struct error *state_memory_write(const struct state_source *source, const struct state_memory *to,
                                 const void *bytes, size_t n_bytes) NODISCARD;
