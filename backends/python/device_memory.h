/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of GPUs as the python backend uses it, through the server's functions: neither CUDA nor its driver is
 * linked or opened here. On a server that lacks these functions there is no such memory.
 *
 * Ownership.  What is allocated is freed by the caller, what is opened is closed.
 * Threads.  Any.
 */
#pragma once

#include "kit/memory.h"
#include "kit/model.h"
#include "python/python_model.h"
#include "python/shm_layout.h"
#include "triton/core/neso.h"

#include <stdbool.h>
#include <stdint.h>

/* Tells the server that this model looks at the memory types of outputs, and of inputs unless they are wanted in
 * main memory. */
TRITONSERVER_Error *device_declare(TRITONBACKEND_Model *model, bool takes_inputs);

TRITONSERVER_Error *device_alloc(const struct backend *backend, int64_t device, uint64_t n_bytes,
                                 void **ret);
void                device_free(const struct backend *backend, int64_t device, void *memory);

/* Fills in the handle and the offset. `known_handle`: of memory that another process owns, else NULL. */
TRITONSERVER_Error *device_share(const struct backend *backend, int64_t device, const void *memory,
                                 const void *known_handle, struct shm_device *ret);
/* Opens the allocation of a handle, which has at least n_bytes. */
TRITONSERVER_Error *device_open(const struct backend *backend, int64_t device, const void *handle,
                                uint64_t n_bytes, void **ret);
void                device_close(const struct backend *backend, int64_t device, void *base);

/* Bytes, and where they are. */
struct device_bytes {
        struct kit_place place;
        const void      *bytes;
};

/* Copies between any two kinds of memory, and waits for the end. */
TRITONSERVER_Error *device_copy_all(const struct backend         *backend,
                                    const struct NESO_MemoryCopy *copies, uint32_t n);
