/* SPDX-License-Identifier: BSD-3-Clause */
#include "python/device_memory.h"

#include <stddef.h>

/* Other servers do not have these functions. */
#pragma weak NESO_ModelUseDeviceMemory
#pragma weak NESO_DeviceMemoryShare
#pragma weak NESO_DeviceMemoryOpen
#pragma weak NESO_DeviceMemoryClose
#pragma weak NESO_MemoryManagerCopy

_Static_assert(sizeof(((struct shm_device *)0)->handle) == NESO_DEVICE_HANDLE_BYTES,
               "a handle has its size");

static TRITONSERVER_Error *unsupported(void) {
        return kit_error(TRITONSERVER_ERROR_UNSUPPORTED,
                         "this server cannot share the memory of GPUs with Python processes");
}

TRITONSERVER_Error *device_declare(TRITONBACKEND_Model *model, bool takes_inputs) {
        return NESO_ModelUseDeviceMemory != NULL
                       ? NESO_ModelUseDeviceMemory(model, takes_inputs, true)
                       : NULL;
}

TRITONSERVER_Error *device_alloc(const struct backend *backend, int64_t device, uint64_t n_bytes,
                                 void **ret) {
        return TRITONBACKEND_MemoryManagerAllocate(backend->memory, ret, TRITONSERVER_MEMORY_GPU,
                                                   device, n_bytes);
}

void device_free(const struct backend *backend, int64_t device, void *memory) {
        kit_error_log(TRITONBACKEND_MemoryManagerFree(backend->memory, memory,
                                                      TRITONSERVER_MEMORY_GPU, device),
                      "failed to free memory of a GPU");
}

TRITONSERVER_Error *device_share(const struct backend *backend, int64_t device, const void *memory,
                                 const void *known_handle, struct shm_device *ret) {
        return NESO_DeviceMemoryShare != NULL
                       ? NESO_DeviceMemoryShare(backend->memory, device, memory, known_handle,
                                                ret->handle, &ret->offset)
                       : unsupported();
}

TRITONSERVER_Error *device_open(const struct backend *backend, int64_t device, const void *handle,
                                uint64_t n_bytes, void **ret) {
        return NESO_DeviceMemoryOpen != NULL
                       ? NESO_DeviceMemoryOpen(backend->memory, device, handle, n_bytes, ret)
                       : unsupported();
}

void device_close(const struct backend *backend, int64_t device, void *base) {
        kit_error_log(NESO_DeviceMemoryClose(backend->memory, device, base),
                      "failed to close the memory of a Python process");
}

TRITONSERVER_Error *device_copy_all(const struct backend         *backend,
                                    const struct NESO_MemoryCopy *copies, uint32_t n) {
        return NESO_MemoryManagerCopy != NULL ? NESO_MemoryManagerCopy(backend->memory, copies, n)
                                              : unsupported();
}
