/* SPDX-License-Identifier: BSD-3-Clause */
/* Conversion of the protocol's tensors to values of ONNX Runtime and back.
 *
 * Ownership.  A value of a tensor borrows the tensor's bytes, except for BYTES, whose strings the
 * runtime copies. The caller releases values.
 * Threads.  As the instance.
 */
#pragma once

#include "kit/input.h"
#include "kit/output.h"
#include "onnxruntime/ort.h"

TRITONSERVER_Error *value_new(const struct ort *ort, const struct kit_gathered *tensor,
                              const char *name, OrtValue **ret);

/* The same for a tensor in the memory that `where` names; not for BYTES. */
TRITONSERVER_Error *value_new_in(const struct ort *ort, const struct kit_gathered *tensor,
                                 const OrtMemoryInfo *where, OrtValue **ret);

/* Creates a value over memory that the run writes into, of the host or where `where` says. */
TRITONSERVER_Error *value_new_over(const struct ort *ort, const struct kit_output *output,
                                   const OrtMemoryInfo *where, void *bytes, size_t n_bytes,
                                   OrtValue **ret);

/* Where the bytes of a computed value are. */
TRITONSERVER_Error *value_read_place(const struct ort *ort, const OrtValue *value,
                                     struct kit_place *ret);

/* Reads type and shape of a computed value; `shape` has room for KIT_MAX_DIMS. */
TRITONSERVER_Error *value_read_shape(const struct ort *ort, const OrtValue *value,
                                     struct kit_output *ret, int64_t *shape);

/* Cuts a computed value into the responses (or states) of a batch. `chars` is scratch memory for
 * strings. In a batch with a kit_memory the value must live until kit_memory_finish(). */
TRITONSERVER_Error *value_scatter(const struct ort *ort, OrtValue *value,
                                  const struct kit_output *output, struct kit_batch *batch,
                                  struct kit_scratch *chars);
