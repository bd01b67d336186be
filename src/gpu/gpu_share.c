/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"
#include "gpu/gpu_private.h"

#include <string.h>

_Static_assert(sizeof(struct cu_ipc_handle) == GPU_SHARE_BYTES, "a handle is copied as it is");

/* In the context of the device. */
static struct error *share(struct gpus *g, cu_pointer memory, struct cu_ipc_handle *ret,
                           uint64_t *ret_offset) {
        const struct cuda_driver *driver = &g->driver;
        cu_pointer                base;
        size_t                    bytes;

        TRY(cuda_error(driver, driver->cuMemGetAddressRange_v2(&base, &bytes, memory)));
        TRY(cuda_error(driver, driver->cuIpcGetMemHandle(ret, base)));
        *ret_offset = memory - base;
        return NULL;
}

struct error *gpu_share(struct gpus *g, int device, const void *memory,
                        unsigned char ret[GPU_SHARE_BYTES], uint64_t *ret_offset) {
        struct gpu_device   *d;
        struct gpu_visit     visit;
        struct cu_ipc_handle handle;
        struct error        *err;

        TRY(gpu_get_device(g, device, &d));
        TRY(gpu_visit_begin(g, d, &visit));
        err = share(g, (uintptr_t)memory, &handle, ret_offset);
        gpu_visit_end(&visit);
        if (err == NULL)
                memcpy(ret, handle.bytes, GPU_SHARE_BYTES);
        return error_wrap(err, "GPU %d: unable to share memory", device);
}

/* The allocation in which the memory lies: where it begins, and its size. */
static struct error *find_allocation(struct gpus *g, int device, const void *memory,
                                     cu_pointer *ret_base, size_t *ret_bytes) {
        struct gpu_device *d;
        struct gpu_visit   visit;
        struct error      *err;

        TRY(gpu_get_device(g, device, &d));
        TRY(gpu_visit_begin(g, d, &visit));
        err = cuda_error(&g->driver,
                         g->driver.cuMemGetAddressRange_v2(ret_base, ret_bytes, (uintptr_t)memory));
        gpu_visit_end(&visit);
        return err;
}

struct error *gpu_find_place(struct gpus *g, int device, const void *memory, uint64_t *ret_offset) {
        cu_pointer    base;
        size_t        bytes;
        struct error *err = find_allocation(g, device, memory, &base, &bytes);

        if (err == NULL)
                *ret_offset = (uintptr_t)memory - base;
        return error_wrap(err, "GPU %d: unable to share memory", device);
}

/* In the context of the device. The other process made the allocation, so that its size is not ours to
 * trust. */
static struct error *check_bytes(struct gpus *g, cu_pointer memory, uint64_t bytes) {
        const struct cuda_driver *driver = &g->driver;
        cu_pointer                base;
        size_t                    allocated;

        TRY(cuda_error(driver, driver->cuMemGetAddressRange_v2(&base, &allocated, memory)));
        if (bytes <= allocated - (memory - base))
                return NULL;
        return error_new(ERR_INVALID_ARG,
                         "the memory has %zu bytes, which are fewer than the %llu that are given",
                         (size_t)(allocated - (memory - base)), (unsigned long long)bytes);
}

/* In the context of the device. */
static struct error *open_handle(struct gpus *g, const struct cu_ipc_handle *handle, uint64_t bytes,
                                 cu_pointer *ret) {
        const struct cuda_driver *driver = &g->driver;
        struct error             *err;
        cu_pointer                memory;
        cu_result r = driver->cuIpcOpenMemHandle_v2(&memory, *handle, CU_IPC_LAZY_PEER_ACCESS);

        if (r != CU_SUCCESS)
                return error_recode(cuda_error(driver, r),
                                    r == CU_OUT_OF_MEMORY ? ERR_UNAVAILABLE : ERR_INVALID_ARG);
        err = check_bytes(g, memory, bytes);
        if (err != NULL) {
                driver->cuIpcCloseMemHandle(memory);
                return err;
        }
        *ret = memory;
        return NULL;
}

struct error *gpu_open_shared(struct gpus *g, int device,
                              const unsigned char handle[GPU_SHARE_BYTES], uint64_t bytes,
                              void **ret) {
        struct gpu_device   *d;
        struct gpu_visit     visit;
        struct cu_ipc_handle copy;
        cu_pointer           memory;
        struct error        *err;

        memcpy(copy.bytes, handle, GPU_SHARE_BYTES);
        TRY(gpu_get_device(g, device, &d));
        TRY(gpu_visit_begin(g, d, &visit));
        err = open_handle(g, &copy, bytes, &memory);
        gpu_visit_end(&visit);
        if (err == NULL)
                *ret = (void *)(uintptr_t)memory;
        return err;
}

struct error *gpu_shared_bytes(struct gpus *g, int device, const void *memory, uint64_t *ret) {
        cu_pointer    base;
        size_t        bytes;
        struct error *err = find_allocation(g, device, memory, &base, &bytes);

        if (err == NULL)
                *ret = bytes;
        return error_wrap(err, "GPU %d: the size of shared memory cannot be read", device);
}

void gpu_close_shared(struct gpus *g, int device, void *memory) {
        struct gpu_device *d = NULL;
        struct gpu_visit   visit;
        AUTO_ERROR         err = NULL;

        if (memory == NULL)
                return;
        err = gpu_get_device(g, device, &d);
        if (err == NULL)
                err = gpu_visit_begin(g, d, &visit);
        if (err == NULL) {
                err = cuda_error(&g->driver, g->driver.cuIpcCloseMemHandle((uintptr_t)memory));
                gpu_visit_end(&visit);
        }
        if (err != NULL)
                log_error("GPU %d: unable to close memory of another process: %s", device,
                          err->message);
}
