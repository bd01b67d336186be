/* SPDX-License-Identifier: BSD-3-Clause */
/* Our own declarations of the functions of CUDA's driver library (libcuda.so.1) and of NVML
 * (libnvidia-ml.so.1) that are used here, under the names that those libraries export. Neither a header nor
 * a library of CUDA is needed to build. The stand-in of the tests (tests/gpu) implements the same list.
 *
 * Source: the reference manuals of the CUDA driver API and of NVML. The values are part of their ABI. */
#pragma once

#include <stddef.h>

#define CUDA_LIBRARY "libcuda.so.1"
#define NVML_LIBRARY "libnvidia-ml.so.1"

typedef int                        cu_result; /* 0: success */
typedef int                        cu_device; /* the ordinal */
typedef unsigned long long         cu_pointer;
typedef unsigned long long         cu_block; /* physical memory, which cuMemMap() maps */
typedef struct cu_context_object  *cu_context;
typedef struct cu_stream_object   *cu_stream;
typedef struct cu_event_object    *cu_event;
typedef struct cu_module_object   *cu_module;
typedef struct cu_function_object *cu_function;
typedef void (*cu_host_function)(void *arg);

enum {
        CU_SUCCESS = 0,
        CU_INVALID_VALUE = 1,
        CU_OUT_OF_MEMORY = 2,
        CU_NOT_INITIALIZED = 3,
        CU_NO_DEVICE = 100,
        CU_INVALID_DEVICE = 101,
        CU_INVALID_IMAGE = 200,
        CU_INVALID_CONTEXT = 201, /* no context is current on this thread, or a wrong one */
        CU_PEER_ACCESS_UNSUPPORTED = 217,
        CU_INVALID_HANDLE = 400,
        CU_NOT_FOUND = 500,
        CU_NOT_READY = 600,
        CU_ILLEGAL_ADDRESS = 700,
        CU_PEER_ACCESS_ALREADY_ENABLED = 704,
        CU_NOT_SUPPORTED = 801,
};

enum {
        CU_DEVICE_UNIFIED_ADDRESSING = 41,
        CU_DEVICE_COMPUTE_CAPABILITY_MAJOR = 75,
        CU_DEVICE_COMPUTE_CAPABILITY_MINOR = 76,
        CU_DEVICE_VIRTUAL_MEMORY_SUPPORTED = 102,
        CU_POINTER_MEMORY_TYPE = 2, /* unsigned: one of the two that follow */
        CU_MEMORY_OF_HOST = 1,
        CU_MEMORY_OF_DEVICE = 2,
        CU_POINTER_DEVICE_ORDINAL = 9, /* int */
        CU_HOST_ALLOC_PORTABLE = 1,
        CU_STREAM_NON_BLOCKING = 1,
        CU_EVENT_DISABLE_TIMING = 2,
        CU_IPC_LAZY_PEER_ACCESS = 1,
        CU_ALLOCATION_PINNED = 1,
        CU_LOCATION_DEVICE = 1,
        CU_ACCESS_READ_WRITE = 3,
        CU_GRANULARITY_MINIMUM = 0,
};

struct cu_uuid {
        unsigned char bytes[16];
};

struct cu_ipc_handle {
        unsigned char bytes[64];
};

struct cu_location {
        int type; /* CU_LOCATION_DEVICE */
        int id;
};

/* CUmemAllocationProp. */
struct cu_allocation {
        int                type; /* CU_ALLOCATION_PINNED */
        int                handle_types;
        struct cu_location location;
        void              *windows_meta_data;
        struct {
                unsigned char  compression;
                unsigned char  gpu_direct;
                unsigned short usage;
                unsigned char  reserved[4];
        } flags;
};

/* CUmemAccessDesc. */
struct cu_access {
        struct cu_location location;
        int                flags; /* CU_ACCESS_READ_WRITE */
};

/* FUNCTION(name, parameters): each returns cu_result. */
#define CUDA_FUNCTIONS(FUNCTION)                                                                   \
        FUNCTION(cuInit, (unsigned flags))                                                         \
        FUNCTION(cuDriverGetVersion, (int *version))                                               \
        FUNCTION(cuGetErrorName, (cu_result error, const char **ret))                              \
        FUNCTION(cuGetErrorString, (cu_result error, const char **ret))                            \
        FUNCTION(cuDeviceGetCount, (int *n))                                                       \
        FUNCTION(cuDeviceGet, (cu_device * device, int ordinal))                                   \
        FUNCTION(cuDeviceGetAttribute, (int *ret, int attribute, cu_device device))                \
        FUNCTION(cuDeviceGetName, (char *name, int size, cu_device device))                        \
        FUNCTION(cuDeviceGetPCIBusId, (char *id, int size, cu_device device))                      \
        FUNCTION(cuDeviceGetUuid_v2, (struct cu_uuid * uuid, cu_device device))                    \
        FUNCTION(cuDeviceTotalMem_v2, (size_t * bytes, cu_device device))                          \
        FUNCTION(cuDeviceCanAccessPeer, (int *ret, cu_device device, cu_device peer))              \
        FUNCTION(cuDevicePrimaryCtxRetain, (cu_context * context, cu_device device))               \
        FUNCTION(cuDevicePrimaryCtxRelease_v2, (cu_device device))                                 \
        FUNCTION(cuCtxSetCurrent, (cu_context context))                                            \
        FUNCTION(cuCtxGetCurrent, (cu_context * context))                                          \
        FUNCTION(cuCtxGetDevice, (cu_device * device))                                             \
        FUNCTION(cuCtxEnablePeerAccess, (cu_context peer, unsigned flags))                         \
        FUNCTION(cuMemAlloc_v2, (cu_pointer * ret, size_t bytes))                                  \
        FUNCTION(cuMemFree_v2, (cu_pointer memory))                                                \
        FUNCTION(cuMemHostAlloc, (void **ret, size_t bytes, unsigned flags))                       \
        FUNCTION(cuMemFreeHost, (void *memory))                                                    \
        FUNCTION(cuMemGetInfo_v2, (size_t * n_free, size_t * n_total))                             \
        FUNCTION(cuMemGetAddressRange_v2, (cu_pointer * base, size_t * bytes, cu_pointer memory))  \
        FUNCTION(cuPointerGetAttribute, (void *ret, int attribute, cu_pointer memory))             \
        FUNCTION(cuMemcpyHtoDAsync_v2,                                                             \
                 (cu_pointer to, const void *from, size_t bytes, cu_stream stream))                \
        FUNCTION(cuMemcpyDtoHAsync_v2,                                                             \
                 (void *to, cu_pointer from, size_t bytes, cu_stream stream))                      \
        FUNCTION(cuMemcpyDtoDAsync_v2,                                                             \
                 (cu_pointer to, cu_pointer from, size_t bytes, cu_stream stream))                 \
        FUNCTION(cuMemcpyPeerAsync, (cu_pointer to, cu_context to_context, cu_pointer from,        \
                                     cu_context from_context, size_t bytes, cu_stream stream))     \
        FUNCTION(cuMemsetD8Async,                                                                  \
                 (cu_pointer to, unsigned char value, size_t bytes, cu_stream stream))             \
        FUNCTION(cuStreamCreate, (cu_stream * ret, unsigned flags))                                \
        FUNCTION(cuStreamDestroy_v2, (cu_stream stream))                                           \
        FUNCTION(cuStreamSynchronize, (cu_stream stream))                                          \
        FUNCTION(cuStreamWaitEvent, (cu_stream stream, cu_event event, unsigned flags))            \
        FUNCTION(cuEventCreate, (cu_event * ret, unsigned flags))                                  \
        FUNCTION(cuEventDestroy_v2, (cu_event event))                                              \
        FUNCTION(cuEventRecord, (cu_event event, cu_stream stream))                                \
        FUNCTION(cuEventQuery, (cu_event event))                                                   \
        FUNCTION(cuLaunchHostFunc, (cu_stream stream, cu_host_function function, void *arg))       \
        FUNCTION(cuIpcGetMemHandle, (struct cu_ipc_handle * ret, cu_pointer memory))               \
        FUNCTION(cuIpcOpenMemHandle_v2,                                                            \
                 (cu_pointer * ret, struct cu_ipc_handle handle, unsigned flags))                  \
        FUNCTION(cuIpcCloseMemHandle, (cu_pointer memory))                                         \
        FUNCTION(cuMemGetAllocationGranularity,                                                    \
                 (size_t * ret, const struct cu_allocation *allocation, int option))               \
        FUNCTION(cuMemAddressReserve, (cu_pointer * ret, size_t bytes, size_t alignment,           \
                                       cu_pointer wanted, unsigned long long flags))               \
        FUNCTION(cuMemAddressFree, (cu_pointer address, size_t bytes))                             \
        FUNCTION(cuMemCreate, (cu_block * ret, size_t bytes,                                       \
                               const struct cu_allocation *allocation, unsigned long long flags))  \
        FUNCTION(cuMemMap, (cu_pointer address, size_t bytes, size_t offset, cu_block block,       \
                            unsigned long long flags))                                             \
        FUNCTION(cuMemSetAccess,                                                                   \
                 (cu_pointer address, size_t bytes, const struct cu_access *access, size_t n))     \
        FUNCTION(cuMemUnmap, (cu_pointer address, size_t bytes))                                   \
        FUNCTION(cuMemRelease, (cu_block block))

/* What backends and the processes of models use, and the server does not. */
#define CUDA_KERNEL_FUNCTIONS(FUNCTION)                                                            \
        FUNCTION(cuCtxSynchronize, (void))                                                         \
        FUNCTION(cuModuleLoadData, (cu_module * ret, const void *image))                           \
        FUNCTION(cuModuleGetFunction, (cu_function * ret, cu_module module, const char *name))     \
        FUNCTION(cuModuleUnload, (cu_module module))                                               \
        FUNCTION(cuLaunchKernel,                                                                   \
                 (cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,         \
                  unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,     \
                  cu_stream stream, void **parameters, void **extra))

/* ---- NVML ------------------------------------------------------------------------------------ */

typedef struct nvml_device_object *nvml_device;

struct nvml_utilization {
        unsigned gpu; /* percent */
        unsigned memory;
};

struct nvml_memory {
        unsigned long long total;
        unsigned long long free;
        unsigned long long used;
};

enum {
        NVML_SUCCESS = 0,
        NVML_UNINITIALIZED = 1,
        NVML_INVALID_ARGUMENT = 2,
        NVML_NOT_SUPPORTED = 3,
        NVML_NOT_FOUND = 6,
        NVML_GPU_IS_LOST = 15,
        NVML_UNKNOWN = 999,
};

/* FUNCTION(name, parameters): each returns int, one of the values above. */
#define NVML_FUNCTIONS(FUNCTION)                                                                   \
        FUNCTION(nvmlInit_v2, (void))                                                              \
        FUNCTION(nvmlShutdown, (void))                                                             \
        FUNCTION(nvmlDeviceGetHandleByPciBusId_v2, (const char *id, nvml_device *ret))             \
        FUNCTION(nvmlDeviceGetHandleByUUID, (const char *uuid, nvml_device *ret))                  \
        FUNCTION(nvmlDeviceGetUUID, (nvml_device device, char *uuid, unsigned size))               \
        FUNCTION(nvmlDeviceGetUtilizationRates,                                                    \
                 (nvml_device device, struct nvml_utilization * ret))                              \
        FUNCTION(nvmlDeviceGetMemoryInfo, (nvml_device device, struct nvml_memory * ret))          \
        FUNCTION(nvmlDeviceGetPowerUsage, (nvml_device device, unsigned *milliwatts))              \
        FUNCTION(nvmlDeviceGetEnforcedPowerLimit, (nvml_device device, unsigned *milliwatts))      \
        FUNCTION(nvmlDeviceGetTotalEnergyConsumption,                                              \
                 (nvml_device device, unsigned long long *millijoules))
