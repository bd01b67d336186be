/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies of tensors between places, each of which may be on a device: those of one response end together,
 * after one wait. A copy between two places on the host is made at once.
 *
 * Ownership.  The caller's, on its stack; it borrows the memory that it copies.
 * Threads.  One.
 */
#pragma once

#include "base/error.h"
#include "gpu/gpu.h"
#include "infer/buffer_copy.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TENSOR_COPIES_TOGETHER                                                                     \
        16 /* enough for the outputs of most models; more wait several times */

struct tensor_copies {
        struct gpus    *gpus; /* borrowed; NULL: every place is on the host */
        unsigned        n;
        struct gpu_copy copies[TENSOR_COPIES_TOGETHER]; /* not cleared */
};

static inline void tensor_copies_init(struct tensor_copies *c, struct gpus *gpus) {
        c->gpus = gpus;
        c->n = 0;
}

/* What the client is asked for: memory of the device that the bytes are on, else ordinary memory. */
static inline void tensor_preferred(const struct buffer_attributes *from, enum memory_type *type,
                                    int64_t *id) {
        bool is_on_device = buffer_is_on_device(from);

        *type = is_on_device ? MEMORY_GPU : MEMORY_CPU;
        *id = is_on_device ? from->memory_id : 0;
}

/* Copies n bytes by tensor_copies_wait() at the latest. UNAVAILABLE with the driver's text. */
struct error *tensor_copies_add(struct tensor_copies *c, void *to, int to_device, const void *from,
                                int from_device, size_t n) NODISCARD;
/* Returns when all bytes have arrived. */
struct error *tensor_copies_wait(struct tensor_copies *c) NODISCARD;
