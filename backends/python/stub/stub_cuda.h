/* SPDX-License-Identifier: BSD-3-Clause */
/* CUDA's driver in the stub's process: what tensors on GPUs need. The library is opened, and the context of a
 * GPU is made, with the first call that needs it. The primary context is used, as libraries for Python do.
 *
 * The context that is current on the calling thread is the same after each function.
 *
 * Ownership.  What is opened is closed by the caller. Contexts stay until cuda_end().
 * Threads.  With the interpreter lock, which is released meanwhile; cuda_end() without it. Each function that returns
 * false has set TritonModelException.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define CUDA_HANDLE_BYTES 64

/* Opens an allocation of another process. Allocations that are open already are counted. */
bool cuda_open(int device, const unsigned char handle[CUDA_HANDLE_BYTES], void **ret_base);
void cuda_close(int device, void *base);
/* The handle of the allocation that the memory lies in, and its place there. Returns false without an exception
 * when the memory has none, as memory that is mapped piece by piece. */
bool cuda_share(int device, const void *memory, unsigned char handle[CUDA_HANDLE_BYTES],
                uint64_t *ret_offset);
/* Waits until all work of this process on the GPU has ended; does nothing when it has not used the GPU through
 * these functions. */
bool cuda_finish(int device);
/* Copies to main memory, and waits. */
bool cuda_read(int device, const void *from, void *to, uint64_t n_bytes);
/* Closes what is open, and releases the contexts. */
void cuda_end(void);
