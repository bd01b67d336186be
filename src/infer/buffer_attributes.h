/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes of a buffer: TRITONSERVER_BufferAttributes. A plain struct of values.
 *
 * A buffer is in memory of the host, pinned (CPU_PINNED) or not, or of the GPU whose number is memory_id.
 * The attributes of an input pass from the front end to the backend unchanged, and those of an output
 * from the allocator to the front end, unless a backend that reads memory of the host alone comes between:
 * then it sees those of a copy (infer/host_inputs.h, infer/staged_output.h).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Values are those of TRITONSERVER_MemoryType. */
enum memory_type { MEMORY_CPU = 0, MEMORY_CPU_PINNED = 1, MEMORY_GPU = 2 };

static inline const char *memory_type_name(enum memory_type type) {
        switch (type) {
        case MEMORY_CPU: return "CPU";
        case MEMORY_CPU_PINNED: return "CPU_PINNED";
        case MEMORY_GPU: return "GPU";
        }
        return "<invalid>";
}

struct buffer_attributes {
        enum memory_type memory_type;
        int64_t          memory_id;
        size_t           byte_size;
        /* Borrowed from the code that set it: the handle (64 bytes) of the allocation that the buffer is in,
         * for another process; NULL: there is none, or it is not known. */
        void *cuda_ipc_handle;
};
