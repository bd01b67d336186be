/* SPDX-License-Identifier: BSD-3-Clause */
/* The tensor data types by their names on the wire (KServe v2), and what each is in bytes.
 *
 * A table of our own beside the core's, because decoders ask per tensor and are tested without
 * the core. Threads.  Any.
 */
#pragma once

#include "base/str.h"
#include "codec/json_reader.h"

#include "triton/core/tritonserver.h"

/* TRITONSERVER_TYPE_INVALID for any other text. */
TRITONSERVER_DataType datatype_from_name(struct str name);
/* "<invalid>" for what has no name. */
const char *datatype_name(TRITONSERVER_DataType type);
struct str  datatype_str(TRITONSERVER_DataType type);
/* Of one element; 0 for BYTES and for invalid types. */
size_t datatype_bytes(TRITONSERVER_DataType type);
/* True for the types whose elements are JSON numbers or booleans. */
bool datatype_json_element(TRITONSERVER_DataType type, enum json_element *ret);
