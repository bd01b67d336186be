/* SPDX-License-Identifier: BSD-3-Clause */
/* The types of tensor elements as NumPy and DLPack know them: a row for each TRITONSERVER_DataType.
 *
 * Threads.  Any.
 */
#pragma once

#include "triton/core/tritonserver.h"

#include <stdint.h>

/* DLDataTypeCode of DLPack; bits are 8 times the bytes. */
enum {
        CODE_NONE = -1,
        CODE_INT = 0,
        CODE_UINT = 1,
        CODE_FLOAT = 2,
        CODE_BFLOAT = 4,
        CODE_BOOL = 6
};

struct element_type {
        const char *name;
        uint8_t     n_bytes;      /* 0: BYTES */
        char        numpy_kind;   /* of the array interface; 0: NumPy has no such type */
        int8_t      numpy_number; /* of the type; -1: none */
        int8_t      dlpack_code;
};

static const struct element_type element_types[] = {
        [TRITONSERVER_TYPE_INVALID] = { "<invalid>", 0, 0, -1, CODE_NONE },
        [TRITONSERVER_TYPE_BOOL] = { "BOOL", 1, 'b', 0, CODE_BOOL },
        [TRITONSERVER_TYPE_UINT8] = { "UINT8", 1, 'u', 2, CODE_UINT },
        [TRITONSERVER_TYPE_UINT16] = { "UINT16", 2, 'u', 4, CODE_UINT },
        [TRITONSERVER_TYPE_UINT32] = { "UINT32", 4, 'u', 6, CODE_UINT },
        [TRITONSERVER_TYPE_UINT64] = { "UINT64", 8, 'u', 8, CODE_UINT },
        [TRITONSERVER_TYPE_INT8] = { "INT8", 1, 'i', 1, CODE_INT },
        [TRITONSERVER_TYPE_INT16] = { "INT16", 2, 'i', 3, CODE_INT },
        [TRITONSERVER_TYPE_INT32] = { "INT32", 4, 'i', 5, CODE_INT },
        [TRITONSERVER_TYPE_INT64] = { "INT64", 8, 'i', 7, CODE_INT },
        [TRITONSERVER_TYPE_FP16] = { "FP16", 2, 'f', 23, CODE_FLOAT },
        [TRITONSERVER_TYPE_FP32] = { "FP32", 4, 'f', 11, CODE_FLOAT },
        [TRITONSERVER_TYPE_FP64] = { "FP64", 8, 'f', 12, CODE_FLOAT },
        [TRITONSERVER_TYPE_BYTES] = { "BYTES", 0, 'O', 17, CODE_NONE },
        [TRITONSERVER_TYPE_BF16] = { "BF16", 2, 0, -1, CODE_BFLOAT },
};

enum { N_ELEMENT_TYPES = sizeof(element_types) / sizeof(*element_types) };

/* A type that is not in the table has the row of INVALID. */
static inline const struct element_type *element_type(uint32_t type) {
        return &element_types[type < N_ELEMENT_TYPES ? type : TRITONSERVER_TYPE_INVALID];
}
