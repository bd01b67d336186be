/* SPDX-License-Identifier: BSD-3-Clause */
/* What the model configuration leaves open, taken from the model file.
 *
 * What the configuration says stays as it is. Completed are: inputs that it does not list, all
 * outputs when it lists none, types and dims of tensors that it names without them; and
 * max_batch_size where it is 0: when the first dimension of every tensor of the file is open, and
 * the dims that are given do not count it, the model batches, with the default size of the backend
 * (setting default-max-batch-size) and, unless another scheduler is configured, dynamically.
 *
 * Threads.  Nothing here has state.
 */
#pragma once

#include "kit/model.h"
#include "onnxruntime/session.h"

/* Gives the server the completed configuration, and re-reads `model`. */
TRITONSERVER_Error *config_complete(struct kit_model *model, const struct session *session);
