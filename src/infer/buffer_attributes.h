/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes of a buffer: TRITONSERVER_BufferAttributes. A plain struct of values.
 *
 * This build has CPU memory only; plug-ins may ask for the other kinds and receive CPU memory.
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
        void            *cuda_ipc_handle; /* borrowed from the code that set it */
};
