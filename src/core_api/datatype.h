/* SPDX-License-Identifier: BSD-3-Clause */
/* The tensor data types: names on the wire (KServe v2) and sizes in bytes, from codec/data_types.h.
 *
 * The front end does not ask the core, because decoders look a type up for each tensor and their tests
 * run without the core.
 * Threads.  Any.
 */
#pragma once

#include "base/str.h"
#include "codec/json_reader.h"
#include "triton/core/tritonserver.h"

/* Returns TRITONSERVER_TYPE_INVALID for an unknown name. */
TRITONSERVER_DataType datatype_from_name(struct str name);
/* Returns "<invalid>" for an unknown type. */
const char *datatype_name(TRITONSERVER_DataType type);
struct str  datatype_str(TRITONSERVER_DataType type);
/* Size of one element in bytes; 0 for BYTES and for unknown types. */
size_t datatype_bytes(TRITONSERVER_DataType type);
/* True for the types whose elements are JSON numbers or booleans. */
bool datatype_json_element(TRITONSERVER_DataType type, enum json_element *ret);
