/* SPDX-License-Identifier: BSD-3-Clause */
#include "onnxruntime/ort.h"

#include "kit/json.h"
#include "kit/model.h"
#include "kit/scratch.h"
#include "kit/text.h"
#include "onnxruntime/division_guard.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *const default_libraries[] = { ONNXRUNTIME_LIBRARIES, NULL }; /* defined in
                                                                                 * meson.build */

typedef const OrtApiBase *(*get_api_base_fn)(void);

static const struct {
        TRITONSERVER_DataType     triton;
        ONNXTensorElementDataType onnx;
} types[] = {
        { TRITONSERVER_TYPE_BOOL, ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL },
        { TRITONSERVER_TYPE_UINT8, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8 },
        { TRITONSERVER_TYPE_UINT16, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16 },
        { TRITONSERVER_TYPE_UINT32, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32 },
        { TRITONSERVER_TYPE_UINT64, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64 },
        { TRITONSERVER_TYPE_INT8, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8 },
        { TRITONSERVER_TYPE_INT16, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16 },
        { TRITONSERVER_TYPE_INT32, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32 },
        { TRITONSERVER_TYPE_INT64, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64 },
        { TRITONSERVER_TYPE_FP16, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16 },
        { TRITONSERVER_TYPE_FP32, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT },
        { TRITONSERVER_TYPE_FP64, ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE },
        { TRITONSERVER_TYPE_BYTES, ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING },
        { TRITONSERVER_TYPE_BF16, ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16 },
};

#define N_TYPES (sizeof(types) / sizeof(types[0]))

TRITONSERVER_DataType ort_type_to_triton(ONNXTensorElementDataType type) {
        for (size_t i = 0; i < N_TYPES; i++)
                if (types[i].onnx == type)
                        return types[i].triton;
        return TRITONSERVER_TYPE_INVALID;
}

ONNXTensorElementDataType ort_type_from_triton(TRITONSERVER_DataType type) {
        for (size_t i = 0; i < N_TYPES; i++)
                if (types[i].triton == type)
                        return types[i].onnx;
        return ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
}

TRITONSERVER_Error *ort_error(const struct ort *ort, OrtStatus *status) {
        TRITONSERVER_Error *err;
        OrtErrorCode        code;

        if (status == NULL)
                return NULL;
        code = ort->api->GetErrorCode(status);
        err = kit_error(code == ORT_INVALID_ARGUMENT ? TRITONSERVER_ERROR_INVALID_ARG
                                                     : TRITONSERVER_ERROR_INTERNAL,
                        "onnx runtime error %d: %s", (int)code, ort->api->GetErrorMessage(status));
        ort->api->ReleaseStatus(status);
        return err;
}

/* The runtime's log goes to the server's log. Its errors have the verbose level: the runtime also
 * returns each as a status, which becomes the client's error, and a client with a bad index must
 * not fill the log. */
static void ORT_API_CALL on_log(void *opaque, OrtLoggingLevel severity, const char *category,
                                const char *log_id, const char *location, const char *message) {
        TRITONSERVER_LogLevel level = TRITONSERVER_LOG_VERBOSE;

        (void)opaque;
        (void)log_id;
        if (severity == ORT_LOGGING_LEVEL_FATAL)
                level = TRITONSERVER_LOG_ERROR;
        else if (severity == ORT_LOGGING_LEVEL_WARNING)
                level = TRITONSERVER_LOG_WARN;
        KIT_LOG(level, "ONNX Runtime [%s %s] %s", category, location, message);
}

TRITONSERVER_Error *ort_load(const char *const *names, void **ret, const char **ret_name) {
        struct kit_text     reasons = { 0 };
        TRITONSERVER_Error *err;
        void               *loaded = NULL;
        char               *all;

        for (; *names != NULL; names++) {
                loaded = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
                if (loaded != NULL)
                        break;
                kit_text_print(&reasons, "%s%s", reasons.len > 0 ? "; " : "", dlerror());
        }
        if (loaded != NULL) {
                kit_text_done(&reasons);
                *ret = loaded;
                *ret_name = *names;
                return NULL;
        }
        all = kit_text_take(&reasons);
        err = kit_error(TRITONSERVER_ERROR_UNAVAILABLE,
                        "the onnxruntime backend cannot load ONNX Runtime: %s",
                        all != NULL ? all : "out of memory");
        free(all);
        return err;
}

static TRITONSERVER_Error *open_library(const char *library, struct ort *ort) {
        const char *const given[] = { library, NULL };
        const OrtApiBase *base;
        get_api_base_fn   get_base;
        Dl_info           where;
        void             *loaded;

        KIT_TRY(ort_load(library != NULL ? given : default_libraries, &loaded, &library));
        /* dlsym() returns functions as void *. */
        *(void **)&get_base = dlsym(loaded, "OrtGetApiBase");
        if (get_base == NULL)
                return kit_error(TRITONSERVER_ERROR_UNAVAILABLE, "'%s' is not ONNX Runtime: %s",
                                 library, dlerror());
        base = get_base();
        ort->api = base->GetApi(ORT_API_VERSION);
        if (ort->api == NULL)
                return kit_error(TRITONSERVER_ERROR_UNAVAILABLE,
                                 "'%s' is ONNX Runtime %s, which lacks version %d of its API that "
                                 "the onnxruntime backend was built for",
                                 library, base->GetVersionString(), ORT_API_VERSION);
        /* The loader's name of it has the folder. */
        ort->library = strdup(dladdr(*(void **)&get_base, &where) != 0 ? where.dli_fname : library);
        if (ort->library == NULL)
                return kit_error_no_memory(strlen(library), "the name of a library");
        division_guard_start(*(void **)&get_base);
        ort->has_guard = true;
        KIT_LOG(TRITONSERVER_LOG_VERBOSE, "ONNX Runtime %s from '%s', API version %d",
                base->GetVersionString(), library, ORT_API_VERSION);
        return NULL;
}

static const char *setting(const struct kit_json *config, const char *name) {
        const struct kit_json_value *cmdline = kit_json_find(kit_json_root(config), "cmdline");

        return kit_json_string(kit_json_find(cmdline, name), NULL);
}

static TRITONSERVER_Error *read_count(const struct kit_json *config, const char *name,
                                      int64_t *value) {
        const char *text = setting(config, name);
        char       *end;
        long        number;

        if (text == NULL)
                return NULL;
        number = strtol(text, &end, 10);
        if (end == text || *end != '\0' || number < 0 || number > INT32_MAX)
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "backend configuration 'onnxruntime,%s' must be a number that is "
                                 "not negative, got '%s'",
                                 name, text);
        *value = number;
        return NULL;
}

static TRITONSERVER_Error *read_bool(const struct kit_json *config, const char *name, bool *value) {
        const char *text = setting(config, name);

        if (text == NULL)
                return NULL;
        if (strcasecmp(text, "true") != 0 && strcasecmp(text, "false") != 0)
                return kit_error(
                        TRITONSERVER_ERROR_INVALID_ARG,
                        "backend configuration 'onnxruntime,%s' must be true or false, got "
                        "'%s'",
                        name, text);
        *value = strcasecmp(text, "true") == 0;
        return NULL;
}

static TRITONSERVER_Error *read_threads(const struct kit_json *config, const char *name, int *ret) {
        int64_t n = 0;

        KIT_TRY(read_count(config, name, &n));
        if (n > ORT_MAX_THREADS)
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "backend configuration 'onnxruntime,%s' must be a number of "
                                 "threads from 0 to %d, got %" PRId64,
                                 name, ORT_MAX_THREADS, n);
        *ret = (int)n;
        return NULL;
}

static TRITONSERVER_Error *set_global_threads(const struct ort *ort, const struct kit_json *config,
                                              OrtThreadingOptions *options) {
        int n_intra, n_inter;

        KIT_TRY(read_threads(config, "intra_op_thread_count", &n_intra));
        KIT_TRY(read_threads(config, "inter_op_thread_count", &n_inter));
        ORT_TRY(ort, SetGlobalIntraOpNumThreads(options, n_intra));
        ORT_TRY(ort, SetGlobalInterOpNumThreads(options, n_inter));
        ORT_TRY(ort, SetGlobalSpinControl(options, 0));
        return NULL;
}

static TRITONSERVER_Error *new_shared_env(struct ort *ort, const struct kit_json *config,
                                          OrtLoggingLevel level) {
        OrtThreadingOptions *options;
        TRITONSERVER_Error  *err;

        ORT_TRY(ort, CreateThreadingOptions(&options));
        err = set_global_threads(ort, config, options);
        if (err == NULL)
                err = ort_error(ort, ort->api->CreateEnvWithCustomLoggerAndGlobalThreadPools(
                                             on_log, NULL, level, "neso", options, &ort->env));
        ort->api->ReleaseThreadingOptions(options);
        return err;
}

static TRITONSERVER_Error *open_env(struct ort *ort, const struct kit_json *config) {
        OrtLoggingLevel level = ORT_LOGGING_LEVEL_WARNING;
        int64_t         is_global = 0;

        if (TRITONSERVER_LogIsEnabled(TRITONSERVER_LOG_VERBOSE))
                level = ORT_LOGGING_LEVEL_INFO;
        KIT_TRY(read_count(config, "default-max-batch-size", &ort->default_max_batch_size));
        KIT_TRY(read_count(config, "enable-global-threadpool", &is_global));
        KIT_TRY(read_bool(config, "allow-file-options", &ort->allows_file_options));
        KIT_TRY(read_bool(config, "allow-data-links", &ort->allows_data_links));
        ort->has_global_threads = is_global != 0;
        if (ort->has_global_threads)
                KIT_TRY(new_shared_env(ort, config, level));
        else
                ORT_TRY(ort, CreateEnvWithCustomLogger(on_log, NULL, level, "neso", &ort->env));
        ORT_TRY(ort, CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &ort->cpu));
        ORT_TRY(ort, GetAllocatorWithDefaultOptions(&ort->allocator));
        return NULL;
}

static TRITONSERVER_Error *open_all(TRITONBACKEND_Backend *backend, struct ort *ort) {
        struct kit_json    *config;
        TRITONSERVER_Error *err;
        const char         *library;

        KIT_TRY(kit_backend_config(backend, &config));
        library = setting(config, "library");
        err = open_library(library, ort);
        if (err == NULL)
                err = open_env(ort, config);
        kit_json_free(config);
        return err;
}

TRITONSERVER_Error *ort_open(TRITONBACKEND_Backend *backend, struct ort **ret) {
        struct ort         *ort = kit_alloc_array(1, sizeof(*ort));
        TRITONSERVER_Error *err;

        if (ort == NULL)
                return kit_error_no_memory(sizeof(*ort), "the onnxruntime backend");
        ort->default_max_batch_size = 4;
        err = open_all(backend, ort);
        if (err != NULL) {
                ort_close(ort);
                return err;
        }
        *ret = ort;
        return NULL;
}

void ort_close(struct ort *ort) {
        if (ort->has_guard)
                division_guard_stop();
        if (ort->cpu != NULL)
                ort->api->ReleaseMemoryInfo(ort->cpu);
        if (ort->env != NULL)
                ort->api->ReleaseEnv(ort->env);
        free(ort->library);
        free(ort);
}
