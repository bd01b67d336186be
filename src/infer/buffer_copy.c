/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/buffer_copy.h"

#include <string.h>

struct error *buffer_read(struct gpus *gpus, const struct buffer_attributes *from, const void *base,
                          void *to, size_t n) {
        struct gpu_copy copy = { .to = to,
                                 .from = base,
                                 .to_device = GPU_HOST,
                                 .from_device = buffer_device(from),
                                 .bytes = n };

        if (n == 0)
                return NULL;
        if (buffer_is_on_device(from))
                return gpu_copy_all(gpus, &copy, 1);
        memcpy(to, base, n);
        return NULL;
}
