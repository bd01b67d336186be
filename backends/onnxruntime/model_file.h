/* SPDX-License-Identifier: BSD-3-Clause */
/* Where in the model's directory the file is that ONNX Runtime opens.
 *
 * <version>/<default_model_filename>, by default model.onnx. Where that is a directory, the file
 * model.onnx in it: so models whose weights are in files of their own keep them together.
 *
 * Threads.  Nothing here has state.
 */
#pragma once

#include "kit/model.h"

/* `file` NULL: the one that the configuration names. UNAVAILABLE, naming the path below the
 * model's directory, when there is no such file. free() ends *ret. */
TRITONSERVER_Error *model_file_find(const struct kit_model *model, const char *file, char **ret);
