/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion of the model configuration from the model file.
 *
 * Given values are kept. Completed are: missing inputs; all outputs when none is listed; types and
 * dims of tensors that lack them; and max_batch_size where it is 0. When the first dimension of
 * every tensor of the file is variable, and the given dims do not count it, the model batches: with
 * the default size of the backend (setting default-max-batch-size) and, unless another scheduler is
 * configured, with dynamic batching.
 *
 * Threads.  The functions have no state.
 */
#pragma once

#include "kit/model.h"
#include "onnxruntime/onnx_session.h"

/* Passes the completed configuration to the server, and reads `model` again. */
TRITONSERVER_Error *onnx_config_complete(struct kit_model *model, const struct session *session);
