/* SPDX-License-Identifier: BSD-3-Clause */
/* Our own declarations of the functions of CUDA's runtime library that the code of Triton's identity backend and of
 * Triton's kit for backends (backend_common.cc) calls. With them that code is compiled without a toolkit; runtime.c
 * has the functions, on the driver library that the program finds (tests/gpu/README.md).
 *
 * Source: the reference manual of the CUDA runtime API. The values are part of its ABI. */
#pragma once

#include <stddef.h>

#define CUDART_CB

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cu_stream_object *cudaStream_t; /* NULL: the default stream */

/* Values of the driver that are not listed pass through. */
typedef enum cudaError {
        cudaSuccess = 0,
        cudaErrorInvalidValue = 1,
        cudaErrorMemoryAllocation = 2,
        cudaErrorInvalidMemcpyDirection = 21,
        cudaErrorInsufficientDriver = 35,
        cudaErrorNoDevice = 100,
        cudaErrorInvalidDevice = 101
} cudaError_t;

enum cudaMemcpyKind {
        cudaMemcpyHostToHost = 0,
        cudaMemcpyHostToDevice = 1,
        cudaMemcpyDeviceToHost = 2,
        cudaMemcpyDeviceToDevice = 3,
        cudaMemcpyDefault = 4
};

enum { cudaStreamDefault = 0, cudaStreamNonBlocking = 1 };

typedef void (*cudaHostFn_t)(void *arg);

const char *cudaGetErrorName(cudaError_t error);
const char *cudaGetErrorString(cudaError_t error);

cudaError_t cudaGetDeviceCount(int *n);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaSetDevice(int device);

cudaError_t cudaMalloc(void **ret, size_t n_bytes);
cudaError_t cudaFree(void *memory);
cudaError_t cudaMemGetInfo(size_t *n_free, size_t *n_total);

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n_bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
                                size_t n_bytes, cudaStream_t stream);

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *ret, unsigned flags, int priority);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *arg);

#ifdef __cplusplus
}
#endif
