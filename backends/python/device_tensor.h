/* SPDX-License-Identifier: BSD-3-Clause */
/* A tensor of the stub on a GPU, as the server reads it: memory of the process, which is opened by its handle, or
 * an input of a request, which the server has.
 *
 * Ownership.  What was opened is closed with device_tensor_close().
 * Threads.  Any.
 */
#pragma once

#include "python/answer.h"
#include "python/device_memory.h"

struct device_tensor {
        struct device_bytes found;
        void               *base; /* of an opened allocation; NULL: none is */
        struct hold        *hold; /* whose input it is; NULL: of none */
        unsigned char       handle[sizeof(((struct shm_device *)0)->handle)]; /* with `base` */
};

/* An error names the tensor. A place that the stub cannot have marks the region as broken. */
TRITONSERVER_Error *device_tensor_open(const struct answer_source *source,
                                       const struct shm_tensor *tensor, const char *name,
                                       struct device_tensor *ret);
void                device_tensor_close(struct instance *in, struct device_tensor *opened);
