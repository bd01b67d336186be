/* SPDX-License-Identifier: BSD-3-Clause */
#include "onnxruntime/gpu_providers.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define MAX_OPTIONS 64

/* Options of a provider, as its Update function takes them. All texts are borrowed. */
struct options {
        const char *keys[MAX_OPTIONS];
        const char *values[MAX_OPTIONS];
        size_t      n;
        char        device[12];
};

/* A parameter of ours, the runtime's name of it, and the runtime's names of its values. */
struct option_name {
        const char *parameter;
        const char *key;
        const char *values[4]; /* of "0", "1", ...; empty: the value is passed on */
};

static const struct option_name of_cuda[] = {
        { "cudnn_conv_algo_search",
          "cudnn_conv_algo_search",
          { "EXHAUSTIVE", "HEURISTIC", "DEFAULT" } },
        { "gpu_mem_limit", "gpu_mem_limit", { NULL } },
        { "arena_extend_strategy",
          "arena_extend_strategy",
          { "kNextPowerOfTwo", "kSameAsRequested" } },
        { "do_copy_in_default_stream", "do_copy_in_default_stream", { "0", "1" } },
        { "cudnn_conv_use_max_workspace", "cudnn_conv_use_max_workspace", { "0", "1" } },
        { "enable_cuda_graph", "enable_cuda_graph", { "0", "1" } },
};

/* The runtime records the kernels of a run with the addresses of its tensors, and plays them again. */
static const char *const graph_parameters[] = { "enable_cuda_graph", "trt_cuda_graph_enable" };

static const struct option_name of_tensorrt[] = {
        { "max_workspace_size_bytes", "trt_max_workspace_size", { NULL } },
        { "int8_calibration_table_name", "trt_int8_calibration_table_name", { NULL } },
        { "int8_use_native_calibration_table", "trt_int8_use_native_calibration_table", { NULL } },
};

static TRITONSERVER_Error *put_option(struct options *o, const struct kit_model *model,
                                      const char *key, const char *value) {
        if (o->n == MAX_OPTIONS)
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "model '%s': more than %d parameters of an execution accelerator",
                                 model->name, MAX_OPTIONS);
        o->keys[o->n] = key;
        o->values[o->n++] = value;
        return NULL;
}

static TRITONSERVER_Error *start_options(struct options *o, const struct kit_model *model,
                                         int device) {
        o->n = 0;
        (void)snprintf(o->device, sizeof(o->device), "%d", device);
        return put_option(o, model, "device_id", o->device);
}

/* Puts the runtime's form of the value. */
static TRITONSERVER_Error *put_named(struct options *o, const struct kit_model *model,
                                     const struct option_name *name, const char *value) {
        size_t i = 0;

        if (name->values[0] == NULL)
                return put_option(o, model, name->key, value);
        for (; i < 4 && name->values[i] != NULL; i++)
                if ((value[0] == (char)('0' + i) && value[1] == '\0') ||
                    strcmp(value, name->values[i]) == 0)
                        return put_option(o, model, name->key, name->values[i]);
        return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                         "model '%s': parameter '%s' is '%s', expected 0 to %zu", model->name,
                         name->parameter, value, i - 1);
}

static const struct option_name *find_name(const struct option_name *names, size_t n,
                                           const char *parameter) {
        for (size_t i = 0; i < n; i++)
                if (strcmp(names[i].parameter, parameter) == 0)
                        return &names[i];
        return NULL;
}

/* A graph reads and writes the tensors of the run that it was recorded in, whatever is bound to a later run. */
static TRITONSERVER_Error *check_graph(const struct kit_model *model, const char *parameter,
                                       const char *value) {
        if (strcmp(value, "0") == 0 || strcasecmp(value, "false") == 0)
                return NULL;
        for (size_t i = 0; i < sizeof(graph_parameters) / sizeof(graph_parameters[0]); i++)
                if (strcmp(parameter, graph_parameters[i]) == 0)
                        return kit_error(
                                TRITONSERVER_ERROR_UNSUPPORTED,
                                "model '%s': parameter '%s' is not supported: a CUDA graph needs "
                                "inputs and outputs that have the same addresses in each run, and "
                                "those of requests differ; remove the parameter",
                                model->name, parameter);
        return NULL;
}

/* ---- the library ----------------------------------------------------------------------------- */

static TRITONSERVER_Error *find_provider(const struct ort *ort, const char *provider, bool *ret) {
        char **names;
        int    n;

        *ret = false;
        ORT_TRY(ort, GetAvailableProviders(&names, &n));
        for (int i = 0; i < n; i++)
                *ret = *ret || strcmp(names[i], provider) == 0;
        return ort_error(ort, ort->api->ReleaseAvailableProviders(names, n));
}

/* A library may list providers whose own libraries, which lie beside it, are not installed. */
bool gpu_providers_exist(const struct ort *ort) {
        const char         *name = strrchr(ort->library, '/');
        int                 n = name != NULL ? (int)(name - ort->library) : 0;
        bool                is_listed;
        TRITONSERVER_Error *err = find_provider(ort, "CUDAExecutionProvider", &is_listed);
        char                path[PATH_MAX];

        if (err != NULL) {
                TRITONSERVER_ErrorDelete(err);
                return false;
        }
        if (!is_listed || name == NULL ||
            snprintf(path, sizeof(path), "%.*s/libonnxruntime_providers_cuda.so", n,
                     ort->library) >= (int)sizeof(path))
                return false;
        return access(path, R_OK) == 0;
}

static TRITONSERVER_Error *check_provider(const struct ort *ort, const struct kit_model *model,
                                          const char *provider) {
        bool is_there;

        KIT_TRY(find_provider(ort, provider, &is_there));
        if (is_there)
                return NULL;
        return kit_error(
                TRITONSERVER_ERROR_UNAVAILABLE,
                "model '%s' has instances on GPUs: the library of ONNX Runtime '%s' has no "
                "%s. Name one that has it with "
                "--backend-config=onnxruntime,library=<path>",
                model->name, ort->library, provider);
}

/* Takes the runtime's error, which says why, but not of which library. */
static TRITONSERVER_Error *cannot_use(TRITONSERVER_Error *why, const struct ort *ort,
                                      const struct kit_model *model, const char *provider) {
        TRITONSERVER_Error *err;

        if (why == NULL)
                return NULL;
        err = kit_error(TRITONSERVER_ErrorCode(why),
                        "model '%s': the library of ONNX Runtime '%s' cannot use %s: %s",
                        model->name, ort->library, provider, TRITONSERVER_ErrorMessage(why));
        TRITONSERVER_ErrorDelete(why);
        return err;
}

static TRITONSERVER_Error *append_cuda(const struct ort *ort, const struct options *o,
                                       OrtSessionOptions *options) {
        OrtCUDAProviderOptionsV2 *cuda;
        TRITONSERVER_Error       *err;

        ORT_TRY(ort, CreateCUDAProviderOptions(&cuda));
        err = ort_error(ort, ort->api->UpdateCUDAProviderOptions(cuda, o->keys, o->values, o->n));
        if (err == NULL)
                err = ort_error(ort,
                                ort->api->SessionOptionsAppendExecutionProvider_CUDA_V2(options,
                                                                                        cuda));
        ort->api->ReleaseCUDAProviderOptions(cuda);
        return err;
}

static TRITONSERVER_Error *append_tensorrt(const struct ort *ort, const struct options *o,
                                           OrtSessionOptions *options) {
        OrtTensorRTProviderOptionsV2 *tensorrt;
        TRITONSERVER_Error           *err;

        ORT_TRY(ort, CreateTensorRTProviderOptions(&tensorrt));
        err = ort_error(ort, ort->api->UpdateTensorRTProviderOptions(tensorrt, o->keys, o->values,
                                                                     o->n));
        if (err == NULL)
                err = ort_error(ort, ort->api->SessionOptionsAppendExecutionProvider_TensorRT_V2(
                                             options, tensorrt));
        ort->api->ReleaseTensorRTProviderOptions(tensorrt);
        return err;
}

/* ---- CUDA ------------------------------------------------------------------------------------ */

/* `given`: the parameters of an accelerator; NULL: those of the model. */
static TRITONSERVER_Error *use_cuda(const struct ort *ort, const struct kit_model *model,
                                    int device, const struct kit_json_value *given,
                                    OrtSessionOptions *options) {
        struct options o;

        KIT_TRY(check_provider(ort, model, "CUDAExecutionProvider"));
        KIT_TRY(start_options(&o, model, device));
        for (size_t i = 0; i < sizeof(of_cuda) / sizeof(of_cuda[0]); i++) {
                const char *value = kit_model_parameter(model, of_cuda[i].parameter);

                value = kit_json_string(kit_json_find(given, of_cuda[i].parameter), value);
                if (value == NULL)
                        continue;
                KIT_TRY(check_graph(model, of_cuda[i].parameter, value));
                KIT_TRY(put_named(&o, model, &of_cuda[i], value));
        }
        for (const struct kit_json_value *p = given != NULL ? given->first : NULL; p != NULL;
             p = p->next)
                if (find_name(of_cuda, sizeof(of_cuda) / sizeof(of_cuda[0]), p->key) == NULL)
                        return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                         "unknown parameter '%s' is provided for CUDA Execution "
                                         "Accelerator",
                                         p->key);
        return cannot_use(append_cuda(ort, &o, options), ort, model, "CUDAExecutionProvider");
}

/* ---- TensorRT -------------------------------------------------------------------------------- */

static TRITONSERVER_Error *put_precision(struct options *o, const struct kit_model *model,
                                         const char *value) {
        if (strcmp(value, "FP16") == 0)
                return put_option(o, model, "trt_fp16_enable", "1");
        if (strcmp(value, "INT8") == 0)
                return put_option(o, model, "trt_int8_enable", "1");
        if (strcmp(value, "FP32") == 0)
                return NULL;
        return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                         "unsupported precision mode '%s' is requested", value);
}

/* Parameters by which TensorRT opens no file, writes none and loads no library. Configurations come from
 * clients, too. */
static const char *const harmless[] = {
        "precision_mode",
        "max_workspace_size_bytes",
        "int8_use_native_calibration_table",
        "trt_auxiliary_streams",
        "trt_build_heuristics_enable",
        "trt_builder_optimization_level",
        "trt_context_memory_sharing_enable",
        "trt_cuda_graph_enable",
        "trt_detailed_build_log",
        "trt_dla_core",
        "trt_dla_enable",
        "trt_force_sequential_engine_build",
        "trt_fp16_enable",
        "trt_int8_enable",
        "trt_int8_use_native_calibration_table",
        "trt_layer_norm_fp32_fallback",
        "trt_max_partition_iterations",
        "trt_max_workspace_size",
        "trt_min_subgraph_size",
        "trt_profile_max_shapes",
        "trt_profile_min_shapes",
        "trt_profile_opt_shapes",
        "trt_sparsity_enable",
};

static TRITONSERVER_Error *check_files(const struct ort *ort, const struct kit_model *model,
                                       const char *parameter) {
        if (ort->allows_file_options)
                return NULL;
        for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++)
                if (strcmp(harmless[i], parameter) == 0)
                        return NULL;
        return kit_error(
                TRITONSERVER_ERROR_INVALID_ARG,
                "model '%s': parameter '%s' of the TensorRT Execution Accelerator is about "
                "files; start the server with "
                "--backend-config=onnxruntime,allow-file-options=true to allow it",
                model->name, parameter);
}

static TRITONSERVER_Error *put_tensorrt(struct options *o, const struct kit_model *model,
                                        const char *parameter, const char *value) {
        const struct option_name *name =
                find_name(of_tensorrt, sizeof(of_tensorrt) / sizeof(of_tensorrt[0]), parameter);

        if (strcmp(parameter, "precision_mode") == 0)
                return put_precision(o, model, value);
        if (name != NULL)
                return put_option(o, model, name->key, value);
        if (strncmp(parameter, "trt_", 4) == 0)
                return put_option(o, model, parameter, value);
        return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                         "unknown parameter '%s' is provided for TensorRT Execution Accelerator",
                         parameter);
}

static TRITONSERVER_Error *use_tensorrt(const struct ort *ort, const struct kit_model *model,
                                        int device, const struct kit_json_value *given,
                                        OrtSessionOptions *options) {
        struct options o;

        KIT_TRY(check_provider(ort, model, "TensorrtExecutionProvider"));
        KIT_TRY(start_options(&o, model, device));
        for (const struct kit_json_value *p = given != NULL ? given->first : NULL; p != NULL;
             p = p->next) {
                KIT_TRY(check_graph(model, p->key, kit_json_string(p, "")));
                KIT_TRY(put_tensorrt(&o, model, p->key, kit_json_string(p, "")));
                KIT_TRY(check_files(ort, model, p->key));
        }
        return cannot_use(append_tensorrt(ort, &o, options), ort, model,
                          "TensorrtExecutionProvider");
}

/* ---- accelerators ---------------------------------------------------------------------------- */

static TRITONSERVER_Error *use_listed(const struct ort *ort, const struct kit_model *model,
                                      int device, const struct kit_json_value *accelerator,
                                      OrtSessionOptions *options, bool *has_cuda) {
        const char                  *name = kit_json_string(kit_json_find(accelerator, "name"), "");
        const struct kit_json_value *given = kit_json_find(accelerator, "parameters");

        if (strcmp(name, "tensorrt") == 0)
                return use_tensorrt(ort, model, device, given, options);
        if (strcmp(name, "cuda") != 0)
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "unknown Execution Accelerator '%s' is requested", name);
        *has_cuda = true;
        return use_cuda(ort, model, device, given, options);
}

TRITONSERVER_Error *gpu_providers_append(const struct ort *ort, const struct kit_model *model,
                                         int device, OrtSessionOptions *options) {
        const struct kit_json_value *all =
                kit_json_find(kit_json_root(model->config),
                              "optimization/execution_accelerators/gpu_execution_accelerator");
        const struct kit_json_value *at = all != NULL ? all->first : NULL;
        bool                         has_cuda = false;

        if (device == ON_CPU) {
                if (at != NULL)
                        KIT_LOG(TRITONSERVER_LOG_WARN,
                                "model '%s': gpu_execution_accelerator is for instances on GPUs, "
                                "which the model does not have; it is ignored",
                                model->name);
                return NULL;
        }
        for (; at != NULL; at = at->next)
                KIT_TRY(use_listed(ort, model, device, at, options, &has_cuda));
        return has_cuda ? NULL : use_cuda(ort, model, device, NULL, options);
}
