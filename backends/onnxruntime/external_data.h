/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the files that an ONNX file names for its tensors, before the runtime opens them.
 *
 * A tensor may leave its bytes in another file, its "external data", at a location that the runtime
 * would open anywhere. The walk covers every message of an ONNX file that may hold a tensor:
 *
 *     ModelProto ── graph ──────────────────► GraphProto ── node ──► NodeProto ── attribute ──┐
 *        ├── training_info ── init., algor. ──►  ├── initializer ─────► TensorProto           ▼
 *        └── functions ──► FunctionProto ──┐     └── sparse_initializer ► SparseTensorProto  AttributeProto
 *                              └── node, attribute_proto                                   (t, g, tensors, ...)
 *
 * It reads as the runtime's protobuf library does, and refuses what that library may read in another
 * way: groups, field number 0, tags and lengths of more than 32 bits, more than 100 messages within
 * each other. Bytes of tensors are skipped, not read. The memory is that of one window of the file.
 *
 * Threads.  Any.
 */
#pragma once

#include "kit/errors.h"

#include <stdbool.h>

#define EXTERNAL_DATA_MAX_NAME 256      /* of a tensor; a longer one is cut for the text */
#define EXTERNAL_DATA_MAX_LOCATION 4096 /* PATH_MAX; a longer location is refused */
#define EXTERNAL_DATA_MAX_DEPTH 100     /* protobuf's own limit */

/* Called with each location. An error ends the walk. */
typedef TRITONSERVER_Error *(*external_data_fn)(void *userp, const char *tensor,
                                                const char *location);

/* Walks the file behind `fd` from its start. A file that is not ONNX is INTERNAL
 * "Protobuf parsing failed.". INVALID_ARG, with the name of the tensor, for a location that is longer than
 * EXTERNAL_DATA_MAX_LOCATION or contains a NUL. */
TRITONSERVER_Error *external_data_walk(int fd, external_data_fn found, void *userp);

/* Called with the name of a tensor. An error ends the walk. */
typedef TRITONSERVER_Error *(*external_data_scalar_fn)(void *userp, const char *tensor);

/* Finds the inputs and outputs of the model's graph whose shape is in the file and has no dimensions.
 * The runtime describes those and tensors without a shape alike. A name is cut to
 * EXTERNAL_DATA_MAX_NAME - 1 bytes. For a file that external_data_walk() has accepted. */
TRITONSERVER_Error *external_data_find_scalars(int fd, external_data_scalar_fn found, void *userp);

/* Refuses each location that is not a regular file in `directory` (of the version). `fd` is the file
 * directory/model_file, and locations are relative to its folder. The error is INVALID_ARG with the
 * names of the tensor and the location. With `follows_links_out`, symbolic links may lead out of the
 * directory. */
TRITONSERVER_Error *external_data_check(int fd, const char *directory, const char *model_file,
                                        bool follows_links_out);
