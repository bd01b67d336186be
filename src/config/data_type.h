/* SPDX-License-Identifier: BSD-3-Clause */
/* The types of tensor elements, with their names on the wire and in the model configuration. The table
 * is codec/data_types.h. The front end has its own: core_api/datatype.h.
 *
 * Values are those of the C API, the backend API and the model configuration's DataType.
 */
#pragma once

#include "base/str.h"
#include "codec/data_types.h"

#include <stdbool.h>
#include <stddef.h>

/* clang-format off */
#define DATA_TYPE_ENUMERATOR(name, value, ...) DATA_TYPE_##name = (value),
enum data_type {
        DATA_TYPE_INVALID = 0,
        DATA_TYPES(DATA_TYPE_ENUMERATOR)
};
/* clang-format on */

/* False for INVALID and for values out of range, which a file or a plug-in may have. */
bool data_type_is_valid(enum data_type type);

/* Size of one element in bytes; 0 for BYTES (each element has its own length) and INVALID. */
size_t data_type_size(enum data_type type);

/* The wire name: "FP32", "BYTES"; "<invalid>" for INVALID and for values out of range. */
const char *data_type_name(enum data_type type);

/* Finds the type of a wire name, upper case as in KServe v2; INVALID when unknown. */
enum data_type data_type_from_name(struct str name);

/* The model configuration's name: "TYPE_FP32", "TYPE_STRING"; "TYPE_INVALID" as above. */
const char *data_type_config_name(enum data_type type);
