/* SPDX-License-Identifier: BSD-3-Clause */
/* What the stand-in of CUDA's driver library exports besides the driver's functions, for tests of one process
 * that look into it. Each is found by dlsym(); all take any thread, and no current context. README.md of this
 * folder describes the settings.
 *
 * Ownership.  Nothing is handed over. */
#pragma once

#include "gpu/cuda_driver_api.h"

#include <stddef.h>
#include <stdint.h>

/* What is live now. */
struct fake_cuda_counts {
        size_t n_allocations; /* of device memory: allocated, opened, and blocks of cuMemCreate() */
        size_t device_bytes;
        size_t n_pinned;
        size_t pinned_bytes;
        size_t n_streams;
        size_t n_events;
        size_t n_contexts; /* retains of primary contexts that were not released */
        uint64_t n_copies; /* since the start, all kinds */
        uint64_t n_launches;
};

/* One launch, for the C function that stands for a kernel. */
struct fake_cuda_launch {
        void *const *parameters; /* as the PTX text declares them; copies */
        size_t       n_parameters;
        size_t       n_threads; /* of all blocks */
        /* Where the bytes of device memory lie for the function. Anything that the device may not use ends the
         * process with a report. */
        void *(*memory)(const struct fake_cuda_launch *launch, cu_pointer address, size_t bytes);
        int device;
};

typedef void (*fake_cuda_kernel_fn)(const struct fake_cuda_launch *launch);

/* FUNCTION(result, name, parameters) */
#define FAKE_CUDA_FUNCTIONS(FUNCTION)                                                                           \
        /* Sets NESO_FAKE_GPU_<name>; NULL: unset. Counts of failing calls begin anew. Number and kind of the \
         * devices change by cuInit() alone. */ \
        FUNCTION(void, fake_cuda_set, (const char *name, const char *value))                                    \
        FUNCTION(void, fake_cuda_kernel, (const char *name, fake_cuda_kernel_fn function))                      \
        FUNCTION(void, fake_cuda_count, (struct fake_cuda_counts * ret))                                        \
        /* Bytes of device memory as they are now, whatever is queued. 0: done; else no such memory. */         \
        FUNCTION(int, fake_cuda_read, (void *to, cu_pointer from, size_t bytes))                                \
        FUNCTION(int, fake_cuda_write, (cu_pointer to, const void *from, size_t bytes))                         \
        /* Reports leaks now, as the end of the process does. */                                                \
        FUNCTION(void, fake_cuda_check_leaks, (void))
