/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes of a buffer: TRITONSERVER_BufferAttributes. A plain struct of values. */
#pragma once

#include "infer/memory.h"

#include <stddef.h>
#include <stdint.h>

struct buffer_attributes {
        enum memory_type memory_type;
        int64_t          memory_id;
        size_t           byte_size;
        void            *cuda_ipc_handle; /* borrowed from the code that set it */
};
