/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/tensor_copies.h"

#include <string.h>

struct error *tensor_copies_add(struct tensor_copies *c, void *to, int to_device, const void *from,
                                int from_device, size_t n) {
        if (n == 0)
                return NULL;
        if (to_device == GPU_HOST && from_device == GPU_HOST) {
                memcpy(to, from, n);
                return NULL;
        }
        if (c->n == TENSOR_COPIES_TOGETHER)
                TRY(tensor_copies_wait(c));
        c->copies[c->n++] = (struct gpu_copy){ .to = to,
                                               .from = from,
                                               .to_device = to_device,
                                               .from_device = from_device,
                                               .bytes = n };
        return NULL;
}

struct error *tensor_copies_wait(struct tensor_copies *c) {
        unsigned n = c->n;

        c->n = 0;
        return n > 0 ? gpu_copy_all(c->gpus, c->copies, n) : NULL;
}
