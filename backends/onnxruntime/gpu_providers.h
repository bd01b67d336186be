/* SPDX-License-Identifier: BSD-3-Clause */
/* ONNX Runtime's execution providers for GPUs: CUDA, and TensorRT on request.
 *
 * Model configuration, for instance groups of KIND_GPU:
 *
 *     parameters (all optional), as the reference server's backend has them:
 *             cudnn_conv_algo_search          0 exhaustive (the default), 1 heuristic, 2 default
 *             gpu_mem_limit                   bytes of the device that a session may take
 *             arena_extend_strategy           0 next power of two (the default), 1 same as requested
 *             do_copy_in_default_stream       1 (the default), 0
 *             cudnn_conv_use_max_workspace    1 (the default), 0
 *             enable_cuda_graph               0 (the default); 1 is refused
 *     optimization { execution_accelerators { gpu_execution_accelerator { name: "tensorrt" } } }, with
 *             parameters precision_mode (FP32, FP16, INT8), max_workspace_size_bytes,
 *             int8_calibration_table_name, int8_use_native_calibration_table, trt_engine_cache_enable,
 *             trt_engine_cache_path, and the runtime's own, whose names begin with "trt_"; those about files
 *             need the backend configuration allow-file-options; or
 *             { name: "cuda" }, with the parameters above. They are used in their order; CUDA, which runs what
 *             the others cannot, comes last when it is not in the list. CUDA graphs (enable_cuda_graph,
 *             trt_cuda_graph_enable) are refused.
 *
 * Threads.  Pure but for the options.
 */
#pragma once

#include "kit/model.h"
#include "onnxruntime/ort.h"

#define ON_CPU (-1) /* in place of a device */

/* Whether the library can compute on GPUs with CUDA. */
bool gpu_providers_exist(const struct ort *ort);

/* Appends the providers for a session on the device, or ON_CPU: then none. UNAVAILABLE names the provider
 * that the library lacks; INVALID_ARG the accelerator, parameter or value that is wrong. */
TRITONSERVER_Error *gpu_providers_append(const struct ort *ort, const struct kit_model *model,
                                         int device, OrtSessionOptions *options);
