/* SPDX-License-Identifier: BSD-3-Clause */
/* The types of tensor elements, with their names on the wire and in the model configuration.
 *
 * Values are those of the C API, the backend API and the model configuration's DataType.
 * Sources: KServe v2, tensor data types; model configuration: DataType.
 */
#pragma once

#include "base/str.h"

#include <stddef.h>

enum data_type {
        DATA_TYPE_INVALID = 0,
        DATA_TYPE_BOOL = 1,
        DATA_TYPE_UINT8 = 2,
        DATA_TYPE_UINT16 = 3,
        DATA_TYPE_UINT32 = 4,
        DATA_TYPE_UINT64 = 5,
        DATA_TYPE_INT8 = 6,
        DATA_TYPE_INT16 = 7,
        DATA_TYPE_INT32 = 8,
        DATA_TYPE_INT64 = 9,
        DATA_TYPE_FP16 = 10,
        DATA_TYPE_FP32 = 11,
        DATA_TYPE_FP64 = 12,
        DATA_TYPE_BYTES = 13,
        DATA_TYPE_BF16 = 14,
};

/* Size of one element in bytes; 0 for BYTES (each element has its own length) and INVALID. */
size_t data_type_size(enum data_type type);

/* The wire name: "FP32", "BYTES"; "<invalid>" for INVALID and for values out of range. */
const char *data_type_name(enum data_type type);

/* Finds the type of a wire name, upper case as in KServe v2; INVALID when unknown. */
enum data_type data_type_from_name(struct str name);

/* The model configuration's name: "TYPE_FP32", "TYPE_STRING"; "TYPE_INVALID" as above. */
const char *data_type_config_name(enum data_type type);
