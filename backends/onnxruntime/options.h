/* SPDX-License-Identifier: BSD-3-Clause */
/* The model configuration turned into options of ONNX Runtime; session.h lists them.
 *
 * Threads.  Nothing here has state.
 */
#pragma once

#include "kit/model.h"
#include "onnxruntime/ort.h"

TRITONSERVER_Error *options_set(const struct ort *ort, const struct kit_model *model,
                                OrtSessionOptions *options);

/* NULL in *ret when nothing differs from the defaults. */
TRITONSERVER_Error *options_new_run(const struct ort *ort, const struct kit_model *model,
                                    OrtRunOptions **ret);
