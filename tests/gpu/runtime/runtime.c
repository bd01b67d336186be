/* SPDX-License-Identifier: BSD-3-Clause */
/* A part of CUDA's runtime library on its driver library: cuda_runtime_api.h. As the real one it works in the primary
 * contexts of the devices. A thread that has no context uses device 0 from its first call on.
 *
 * A copy between the host and a device that is not the current one is made in the context of that device, and has ended
 * when the function returns: the driver accepts such copies in any context, the stand-in does not.
 *
 * Ownership.  Contexts are retained until the process ends, as by the runtime: the stand-in counts them as no leak of
 * memory.
 * Threads.  Any. */
#include "cuda_runtime_api.h"
#include "driver_table.h"

#include <pthread.h>
#include <stdint.h>

#define MAX_DEVICES 16

static pthread_once_t      once = PTHREAD_ONCE_INIT;
static struct driver_table cuda;
static cudaError_t         start_error;                      /* of the driver's start; set once */
static pthread_mutex_t     lock = PTHREAD_MUTEX_INITIALIZER; /* guards contexts */
static cu_context          contexts[MAX_DEVICES];

#define TRY(call)                                                                                  \
        do {                                                                                       \
                cudaError_t try_error = (call);                                                    \
                                                                                                   \
                if (try_error != cudaSuccess)                                                      \
                        return try_error;                                                          \
        } while (0)

#define DRIVER_TRY(call) TRY((cudaError_t)cuda.call)

static void start(void) {
        start_error = driver_table_open(&cuda, CUDA_LIBRARY) ? (cudaError_t)cuda.cuInit(0)
                                                             : cudaErrorInsufficientDriver;
}

static cudaError_t context_of(int device, cu_context *ret) {
        cudaError_t result = cudaSuccess;

        if (device < 0 || device >= MAX_DEVICES)
                return cudaErrorInvalidDevice;
        pthread_mutex_lock(&lock);
        if (contexts[device] == NULL)
                result = (cudaError_t)cuda.cuDevicePrimaryCtxRetain(&contexts[device], device);
        *ret = contexts[device];
        pthread_mutex_unlock(&lock);
        return result;
}

static cudaError_t use_device(int device) {
        cu_context context;

        TRY(context_of(device, &context));
        return (cudaError_t)cuda.cuCtxSetCurrent(context);
}

/* Begins each function. */
static cudaError_t enter(void) {
        cu_context current;

        (void)pthread_once(&once, start);
        TRY(start_error);
        DRIVER_TRY(cuCtxGetCurrent(&current));
        return current != NULL ? cudaSuccess : use_device(0);
}

const char *cudaGetErrorName(cudaError_t error) {
        const char *name = NULL;

        if (error == cudaErrorInsufficientDriver || cuda.library == NULL ||
            cuda.cuGetErrorName((cu_result)error, &name) != CU_SUCCESS)
                return "an error without a name";
        return name;
}

const char *cudaGetErrorString(cudaError_t error) {
        const char *text = NULL;

        if (error == cudaErrorInsufficientDriver)
                return "there is no driver";
        if (cuda.library == NULL || cuda.cuGetErrorString((cu_result)error, &text) != CU_SUCCESS)
                return "an unknown error";
        return text;
}

/* ---- devices --------------------------------------------------------------------------------- */

cudaError_t cudaGetDeviceCount(int *n) {
        (void)pthread_once(&once, start);
        TRY(start_error);
        return (cudaError_t)cuda.cuDeviceGetCount(n);
}

cudaError_t cudaGetDevice(int *device) {
        TRY(enter());
        return (cudaError_t)cuda.cuCtxGetDevice(device);
}

cudaError_t cudaSetDevice(int device) {
        (void)pthread_once(&once, start);
        TRY(start_error);
        return use_device(device);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static cu_pointer address(const void *memory) {
        return (cu_pointer)(uintptr_t)memory;
}

cudaError_t cudaMalloc(void **ret, size_t n_bytes) {
        cu_pointer memory;

        TRY(enter());
        DRIVER_TRY(cuMemAlloc_v2(&memory, n_bytes));
        *ret = (void *)(uintptr_t)memory;
        return cudaSuccess;
}

cudaError_t cudaFree(void *memory) {
        TRY(enter());
        return memory == NULL ? cudaSuccess : (cudaError_t)cuda.cuMemFree_v2(address(memory));
}

cudaError_t cudaMemGetInfo(size_t *n_free, size_t *n_total) {
        TRY(enter());
        return (cudaError_t)cuda.cuMemGetInfo_v2(n_free, n_total);
}

static cudaError_t copy(void *to, const void *from, size_t n_bytes, enum cudaMemcpyKind kind,
                        cudaStream_t stream) {
        switch (kind) {
        case cudaMemcpyHostToDevice:
                return (cudaError_t)cuda.cuMemcpyHtoDAsync_v2(address(to), from, n_bytes, stream);
        case cudaMemcpyDeviceToHost:
                return (cudaError_t)cuda.cuMemcpyDtoHAsync_v2(to, address(from), n_bytes, stream);
        case cudaMemcpyDeviceToDevice:
                return (cudaError_t)cuda.cuMemcpyDtoDAsync_v2(address(to), address(from), n_bytes,
                                                              stream);
        default: return cudaErrorInvalidMemcpyDirection;
        }
}

/* In the current context, with a stream of its own. */
static cudaError_t copy_and_wait(void *to, const void *from, size_t n_bytes,
                                 enum cudaMemcpyKind kind) {
        cudaError_t  result, late;
        cudaStream_t stream;

        DRIVER_TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        result = copy(to, from, n_bytes, kind, stream);
        if (result == cudaSuccess)
                result = (cudaError_t)cuda.cuStreamSynchronize(stream);
        late = (cudaError_t)cuda.cuStreamDestroy_v2(stream);
        return result != cudaSuccess ? result : late;
}

static cudaError_t copy_elsewhere(int device, int current, cudaStream_t stream, void *to,
                                  const void *from, size_t n_bytes, enum cudaMemcpyKind kind) {
        cudaError_t result;

        DRIVER_TRY(cuStreamSynchronize(stream)); /* what comes before in its order */
        TRY(use_device(device));
        result = copy_and_wait(to, from, n_bytes, kind);
        TRY(use_device(current));
        return result;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n_bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
        int current, device;

        TRY(enter());
        if (n_bytes == 0)
                return cudaSuccess;
        DRIVER_TRY(cuCtxGetDevice(&current));
        DRIVER_TRY(cuPointerGetAttribute(&device, CU_POINTER_DEVICE_ORDINAL,
                                         address(kind == cudaMemcpyHostToDevice ? to : from)));
        if (device != current && kind != cudaMemcpyDeviceToDevice)
                return copy_elsewhere(device, current, stream, to, from, n_bytes, kind);
        return copy(to, from, n_bytes, kind, stream);
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
                                size_t n_bytes, cudaStream_t stream) {
        cu_context to_context, from_context;

        TRY(enter());
        TRY(context_of(to_device, &to_context));
        TRY(context_of(from_device, &from_context));
        return (cudaError_t)cuda.cuMemcpyPeerAsync(address(to), to_context, address(from),
                                                   from_context, n_bytes, stream);
}

/* ---- streams --------------------------------------------------------------------------------- */

/* The driver is asked for no priority: the order of streams is not what tests look at. */
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *ret, unsigned flags, int priority) {
        (void)priority;
        TRY(enter());
        return (cudaError_t)cuda.cuStreamCreate(ret, flags);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
        TRY(enter());
        return (cudaError_t)cuda.cuStreamDestroy_v2(stream);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
        TRY(enter());
        return (cudaError_t)cuda.cuStreamSynchronize(stream);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *arg) {
        TRY(enter());
        return (cudaError_t)cuda.cuLaunchHostFunc(stream, function, arg);
}
