/* SPDX-License-Identifier: BSD-3-Clause */
#include "onnxruntime/onnx_session.h"

#include "kit/beneath.h"
#include "kit/scratch.h"
#include "onnxruntime/external_data.h"
#include "onnxruntime/gpu_providers.h"
#include "onnxruntime/session_entries.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the file ------------------------------------------------------------------------------- */

#define DEFAULT_NAME "model.onnx"

/* Returns 'f' for a file, 'd' for a directory, 0 otherwise. */
static char kind_of(const char *path) {
        struct stat status;

        if (stat(path, &status) != 0)
                return 0;
        if (S_ISDIR(status.st_mode))
                return 'd';
        return S_ISREG(status.st_mode) ? 'f' : 0;
}

static TRITONSERVER_Error *no_file(const struct kit_model *model, const char *name,
                                   const char *in_it) {
        return kit_error(TRITONSERVER_ERROR_UNAVAILABLE,
                         "unable to find '%" PRIu64 "/%s%s' for model '%s'", model->version, name,
                         in_it, model->name);
}

TRITONSERVER_Error *session_find_file(const struct kit_model *model, const char *file, char **ret) {
        const struct kit_json_value *root = kit_json_root(model->config);
        const char *name = kit_json_string(kit_json_find(root, "default_model_filename"), "");
        char       *path, *inner;
        char        kind;

        if (file != NULL)
                name = file;
        if (name[0] == '\0')
                name = DEFAULT_NAME;
        if (!kit_path_stays_within(name))
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "%s '%s' of model '%s' must stay within the "
                                 "model directory",
                                 file != NULL ? "member file" : "default_model_filename", name,
                                 model->name);
        if (asprintf(&path, "%s/%s", model->version_path, name) < 0)
                return kit_error_no_memory(strlen(name), "a path");
        kind = kind_of(path);
        if (kind == 'f') {
                *ret = path;
                return NULL;
        }
        if (kind != 'd') {
                free(path);
                return no_file(model, name, "");
        }
        if (asprintf(&inner, "%s/" DEFAULT_NAME, path) < 0)
                inner = NULL;
        free(path);
        if (inner == NULL)
                return kit_error_no_memory(strlen(name), "a path");
        if (kind_of(inner) != 'f') {
                free(inner);
                return no_file(model, name, "/" DEFAULT_NAME);
        }
        *ret = inner;
        return NULL;
}

/* ---- options -------------------------------------------------------------------------------- */

static TRITONSERVER_Error *set_optimization(const struct ort *ort, const struct kit_model *model,
                                            OrtSessionOptions *options) {
        const struct kit_json_value *root = kit_json_root(model->config);
        GraphOptimizationLevel       level = ORT_ENABLE_ALL;
        int64_t given = kit_json_int(kit_json_find(root, "optimization/graph/level"), 0);

        if (given == -1)
                level = ORT_ENABLE_BASIC;
        else if (given == 1)
                level = ORT_ENABLE_EXTENDED;
        else if (given == 2)
                level = ORT_DISABLE_ALL;
        ORT_TRY(ort, SetSessionGraphOptimizationLevel(options, level));
        return NULL;
}

static TRITONSERVER_Error *read_threads(const struct kit_model *model, const char *key, int *ret) {
        int64_t n = 0;

        KIT_TRY(kit_model_parameter_int(model, key, &n));
        if (n < 0 || n > ORT_MAX_THREADS)
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "model '%s': parameter '%s' must be a number of threads from 0 to "
                                 "%d, got %" PRId64,
                                 model->name, key, ORT_MAX_THREADS, n);
        *ret = (int)n;
        return NULL;
}

/* Returns the number of cores that this thread may use. With 0 the runtime would start one thread
 * per core of the machine and bind each to its core, even where the process may not use all of them
 * (host policies, containers). */
static int default_threads(void) {
        cpu_set_t allowed;
        long      n_online = sysconf(_SC_NPROCESSORS_ONLN);

        if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
                return 0; /* the machine has more cores than the set can hold */
        return CPU_COUNT(&allowed) < n_online ? CPU_COUNT(&allowed) : 0;
}

static TRITONSERVER_Error *set_threads(const struct ort *ort, const struct kit_model *model,
                                       OrtSessionOptions *options) {
        bool is_parallel = false;
        int  n_intra, n_inter;

        KIT_TRY(kit_model_parameter_bool(model, "execution_mode", &is_parallel));
        ORT_TRY(ort, SetSessionExecutionMode(options, is_parallel ? ORT_PARALLEL : ORT_SEQUENTIAL));
        KIT_TRY(read_threads(model, "intra_op_thread_count", &n_intra));
        KIT_TRY(read_threads(model, "inter_op_thread_count", &n_inter));
        if (ort->has_global_threads) {
                ORT_TRY(ort, DisablePerSessionThreads(options));
                return NULL;
        }
        ORT_TRY(ort, SetIntraOpNumThreads(options, n_intra > 0 ? n_intra : default_threads()));
        ORT_TRY(ort, SetInterOpNumThreads(options, n_inter));
        return NULL;
}

static TRITONSERVER_Error *set_memory(const struct ort *ort, const struct kit_model *model,
                                      OrtSessionOptions *options) {
        bool has_arena = true, has_pattern = true;

        KIT_TRY(kit_model_parameter_bool(model, "enable_mem_arena", &has_arena));
        KIT_TRY(kit_model_parameter_bool(model, "enable_mem_pattern", &has_pattern));
        if (has_arena)
                ORT_TRY(ort, EnableCpuMemArena(options));
        else
                ORT_TRY(ort, DisableCpuMemArena(options));
        if (has_pattern)
                ORT_TRY(ort, EnableMemPattern(options));
        else
                ORT_TRY(ort, DisableMemPattern(options));
        return NULL;
}

static TRITONSERVER_Error *outside(const struct kit_model *model, const char *name) {
        return kit_error(
                TRITONSERVER_ERROR_INVALID_ARG,
                "model '%s': the library of operators '%s' is not in the model's directory; "
                "'--backend-config=onnxruntime,allow-file-options=true' permits others",
                model->name, name);
}

static TRITONSERVER_Error *add_op_library(const struct ort *ort, const struct kit_model *model,
                                          OrtSessionOptions *options, const char *name) {
        TRITONSERVER_Error *err;
        const char         *path = name;
        char               *in_model;
        int                 fd = kit_open_beneath(model->path, name, O_PATH);

        if (fd < 0 && !ort->allows_file_options)
                return outside(model, name);
        if (fd >= 0)
                (void)close(fd);
        if (asprintf(&in_model, "%s/%s", model->path, name) < 0)
                return kit_error_no_memory(strlen(name), "a path");
        if (name[0] != '/' && access(in_model, R_OK) == 0)
                path = in_model;
        err = ort_error(ort, ort->api->RegisterCustomOpsLibrary_V2(options, path));
        free(in_model);
        return err;
}

static TRITONSERVER_Error *add_op_libraries(const struct ort *ort, const struct kit_model *model,
                                            OrtSessionOptions *options) {
        const struct kit_json_value *list =
                kit_json_find(kit_json_root(model->config), "model_operations/op_library_filename");

        if (list == NULL)
                return NULL;
        for (const struct kit_json_value *at = list->first; at != NULL; at = at->next)
                KIT_TRY(add_op_library(ort, model, options, kit_json_string(at, "")));
        return NULL;
}

static TRITONSERVER_Error *check_accelerators(const struct kit_model *model) {
        const struct kit_json_value *cpu =
                kit_json_find(kit_json_root(model->config),
                              "optimization/execution_accelerators/cpu_execution_accelerator/0");

        if (cpu == NULL)
                return NULL;
        return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                         "unknown Execution Accelerator '%s' is requested",
                         kit_json_string(kit_json_find(cpu, "name"), ""));
}

static TRITONSERVER_Error *set_options(const struct ort *ort, const struct kit_model *model,
                                       int device, OrtSessionOptions *options) {
        KIT_TRY(check_accelerators(model));
        KIT_TRY(set_optimization(ort, model, options));
        KIT_TRY(set_threads(ort, model, options));
        KIT_TRY(set_memory(ort, model, options));
        KIT_TRY(session_entries_set(ort, model, options));
        KIT_TRY(add_op_libraries(ort, model, options));
        return gpu_providers_append(ort, model, device, options);
}

/* *ret is NULL when nothing differs from the defaults. */
static TRITONSERVER_Error *new_run_options(const struct ort *ort, const struct kit_model *model,
                                           OrtRunOptions **ret) {
        static const char key[] = "memory.enable_memory_arena_shrinkage";
        const char       *value = kit_model_parameter(model, key);

        *ret = NULL;
        if (value == NULL || value[0] == '\0')
                return NULL;
        ORT_TRY(ort, CreateRunOptions(ret));
        ORT_TRY(ort, AddRunConfigEntry(*ret, key, value));
        return NULL;
}

/* ---- the session ---------------------------------------------------------------------------- */

static TRITONSERVER_Error *read_shape(const struct ort *ort, const OrtTensorTypeAndShapeInfo *info,
                                      struct ort_tensor *tensor) {
        ORT_TRY(ort, GetTensorElementType(info, &tensor->onnx_type));
        tensor->type = ort_type_to_triton(tensor->onnx_type);
        ORT_TRY(ort, GetDimensionsCount(info, &tensor->n_dims));
        tensor->dims = kit_alloc_array(tensor->n_dims, sizeof(*tensor->dims));
        if (tensor->dims == NULL)
                return kit_error_no_memory(tensor->n_dims * sizeof(*tensor->dims), tensor->name);
        ORT_TRY(ort, GetDimensions(info, tensor->dims, tensor->n_dims));
        return NULL;
}

/* The protocol has no sequences, maps or sparse tensors. */
static TRITONSERVER_Error *read_type(const struct ort *ort, const OrtTypeInfo *info,
                                     struct ort_tensor *tensor) {
        const OrtTensorTypeAndShapeInfo *shape;
        enum ONNXType                    kind;

        ORT_TRY(ort, GetOnnxTypeFromTypeInfo(info, &kind));
        if (kind != ONNX_TYPE_TENSOR)
                return kit_error(TRITONSERVER_ERROR_UNSUPPORTED,
                                 "tensor '%s' of the model file is a sequence, a map or another "
                                 "kind of value; only dense tensors are supported",
                                 tensor->name);
        ORT_TRY(ort, CastTypeInfoToTensorInfo(info, &shape));
        return read_shape(ort, shape, tensor);
}

/* Takes `name`, which the runtime allocated. */
static TRITONSERVER_Error *read_name(const struct ort *ort, char *name, struct ort_tensor *tensor) {
        tensor->name = strdup(name);
        ORT_TRY(ort, AllocatorFree(ort->allocator, name));
        return tensor->name != NULL ? NULL : kit_error_no_memory(0, "the name of a tensor");
}

static TRITONSERVER_Error *read_input(const struct session *session, size_t i) {
        const struct ort   *ort = session->ort;
        TRITONSERVER_Error *err;
        OrtTypeInfo        *info;
        char               *name;

        ORT_TRY(ort, SessionGetInputName(session->onnx, i, ort->allocator, &name));
        KIT_TRY(read_name(ort, name, &session->inputs[i]));
        ORT_TRY(ort, SessionGetInputTypeInfo(session->onnx, i, &info));
        err = read_type(ort, info, &session->inputs[i]);
        ort->api->ReleaseTypeInfo(info);
        return err;
}

static TRITONSERVER_Error *read_output(const struct session *session, size_t i) {
        const struct ort   *ort = session->ort;
        TRITONSERVER_Error *err;
        OrtTypeInfo        *info;
        char               *name;

        ORT_TRY(ort, SessionGetOutputName(session->onnx, i, ort->allocator, &name));
        KIT_TRY(read_name(ort, name, &session->outputs[i]));
        ORT_TRY(ort, SessionGetOutputTypeInfo(session->onnx, i, &info));
        err = read_type(ort, info, &session->outputs[i]);
        ort->api->ReleaseTypeInfo(info);
        return err;
}

/* Reads the i-th initializer that a run may replace: in the file it is also an input. */
static TRITONSERVER_Error *read_default(const struct session *session, size_t i) {
        const struct ort   *ort = session->ort;
        struct ort_tensor  *tensor = &session->inputs[session->n_required + i];
        TRITONSERVER_Error *err;
        OrtTypeInfo        *info;
        char               *name;

        ORT_TRY(ort, SessionGetOverridableInitializerName(session->onnx, i, ort->allocator, &name));
        KIT_TRY(read_name(ort, name, tensor));
        ORT_TRY(ort, SessionGetOverridableInitializerTypeInfo(session->onnx, i, &info));
        err = read_type(ort, info, tensor);
        ort->api->ReleaseTypeInfo(info);
        tensor->has_default = true;
        return err;
}

static TRITONSERVER_Error *describe_tensors(struct session *session) {
        const struct ort *ort = session->ort;
        size_t            n_required, n_defaults, n_inputs, n_outputs;

        ORT_TRY(ort, SessionGetInputCount(session->onnx, &n_required));
        ORT_TRY(ort, SessionGetOverridableInitializerCount(session->onnx, &n_defaults));
        ORT_TRY(ort, SessionGetOutputCount(session->onnx, &n_outputs));
        n_inputs = n_required + n_defaults;
        session->inputs = kit_alloc_array(n_inputs, sizeof(*session->inputs));
        session->outputs = kit_alloc_array(n_outputs, sizeof(*session->outputs));
        if (session->inputs == NULL || session->outputs == NULL)
                return kit_error_no_memory(0, "the description of a model");
        session->n_inputs = n_inputs;
        session->n_required = n_required;
        session->n_outputs = n_outputs;
        for (size_t i = 0; i < n_required; i++)
                KIT_TRY(read_input(session, i));
        for (size_t i = 0; i < n_defaults; i++)
                KIT_TRY(read_default(session, i));
        for (size_t i = 0; i < n_outputs; i++)
                KIT_TRY(read_output(session, i));
        return NULL;
}

/* "failed to load model 'm' from '1/model.onnx': <the runtime's message>" */
static TRITONSERVER_Error *name_file(TRITONSERVER_Error *err, const struct kit_model *model,
                                     const char *path) {
        TRITONSERVER_Error *named;
        size_t              model_len = strlen(model->path);

        if (err == NULL)
                return NULL;
        if (strncmp(path, model->path, model_len) == 0 && path[model_len] == '/')
                path += model_len + 1;
        named = kit_error(TRITONSERVER_ErrorCode(err), "failed to load model '%s' from '%s': %s",
                          model->name, path, TRITONSERVER_ErrorMessage(err));
        TRITONSERVER_ErrorDelete(err);
        return named;
}

/* True when the model is in the runtime's own format, which has no external data. */
static bool is_ort_format(const struct kit_model *model, const char *path) {
        const char *format = kit_model_parameter(model, "session.load_model_format");
        size_t      len = strlen(path);

        if (format != NULL && format[0] != '\0')
                return strcmp(format, "ORT") == 0;
        return len > 4 && strcmp(path + len - 4, ".ort") == 0;
}

/* The format is set, so that the runtime reads the file as what was checked. */
static TRITONSERVER_Error *check_content(const struct ort *ort, const struct kit_model *model,
                                         const char *path, int fd, OrtSessionOptions *options) {
        bool is_ort = is_ort_format(model, path);

        ORT_TRY(ort, AddSessionConfigEntry(options, "session.load_model_format",
                                           is_ort ? "ORT" : "ONNX"));
        if (is_ort)
                return NULL;
        return external_data_check(fd, model->version_path, path + strlen(model->version_path) + 1,
                                   ort->allows_data_links);
}

static bool is_same_content(const struct stat *a, const struct stat *b) {
        return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
               a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
               a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static void mark_scalar(struct ort_tensor *tensors, size_t n, const char *name) {
        for (size_t i = 0; i < n; i++)
                if (strcmp(tensors[i].name, name) == 0)
                        tensors[i].is_scalar = tensors[i].n_dims == 0;
}

static TRITONSERVER_Error *on_scalar(void *userp, const char *name) {
        const struct session *session = userp;

        mark_scalar(session->inputs, session->n_inputs, name);
        mark_scalar(session->outputs, session->n_outputs, name);
        return NULL;
}

/* The runtime's API does not tell a scalar from a tensor of unknown shape. */
static TRITONSERVER_Error *describe_file(const struct kit_model *model, const char *path, int fd,
                                         struct session *session) {
        KIT_TRY(describe_tensors(session));
        return is_ort_format(model, path) ? NULL
                                          : external_data_find_scalars(fd, on_scalar, session);
}

/* The runtime opens the path again. */
static TRITONSERVER_Error *create_session(const struct ort *ort, const struct kit_model *model,
                                          const char *path, int fd, struct session *session) {
        OrtSessionOptions  *options;
        TRITONSERVER_Error *err;
        struct stat         checked, used;

        if (fstat(fd, &checked) != 0)
                return kit_error(TRITONSERVER_ERROR_UNAVAILABLE, "unable to read the file: %s",
                                 strerror(errno));
        ORT_TRY(ort, CreateSessionOptions(&options));
        err = set_options(ort, model, session->device, options);
        if (err == NULL)
                err = name_file(check_content(ort, model, path, fd, options), model, path);
        if (err == NULL)
                err = name_file(ort_error(ort, ort->api->CreateSession(ort->env, path, options,
                                                                       &session->onnx)),
                                model, path);
        if (err == NULL && (stat(path, &used) != 0 || !is_same_content(&checked, &used)))
                err = name_file(kit_error(TRITONSERVER_ERROR_UNAVAILABLE,
                                          "the file was changed while it was read"),
                                model, path);
        ort->api->ReleaseSessionOptions(options);
        return err;
}

static TRITONSERVER_Error *open_file(const struct ort *ort, const struct kit_model *model,
                                     const char *path, struct session *session) {
        int                 fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        TRITONSERVER_Error *err;

        if (fd < 0)
                return name_file(kit_error(TRITONSERVER_ERROR_UNAVAILABLE,
                                           "unable to open the file: %s", strerror(errno)),
                                 model, path);
        err = create_session(ort, model, path, fd, session);
        if (err == NULL)
                err = name_file(describe_file(model, path, fd, session), model, path);
        (void)close(fd);
        return err;
}

/* `file` NULL: the file of the model itself. */
static TRITONSERVER_Error *open_session(const struct kit_model *model, const char *file,
                                        struct session *session) {
        TRITONSERVER_Error *err;
        char               *path;

        KIT_TRY(session_find_file(model, file, &path));
        err = open_file(session->ort, model, path, session);
        free(path);
        return err != NULL ? err : new_run_options(session->ort, model, &session->run_options);
}

TRITONSERVER_Error *session_open(const struct ort *ort, const struct kit_model *model, int device,
                                 struct session *ret) {
        TRITONSERVER_Error *err;

        *ret = (struct session){ .ort = ort, .device = device };
        err = open_session(model, NULL, ret);
        if (err != NULL)
                session_close(ret);
        return err;
}

/* Finds the first dimension of the inputs where it is fixed, which must be the same for all. */
static TRITONSERVER_Error *find_rows(const struct kit_model *model, const char *file,
                                     struct session *session) {
        for (size_t i = 0; i < session->n_required; i++) {
                const struct ort_tensor *in = &session->inputs[i];

                if (in->n_dims == 0 || in->dims[0] < 0)
                        continue;
                if (session->n_rows == 0)
                        session->n_rows = in->dims[0];
                if (in->dims[0] != session->n_rows || session->n_rows == 0)
                        return kit_error(
                                TRITONSERVER_ERROR_INVALID_ARG,
                                "member file '%s' of model '%s': input '%s' has %lld rows, "
                                "another one has %lld",
                                file, model->name, in->name, (long long)in->dims[0],
                                (long long)session->n_rows);
        }
        return NULL;
}

TRITONSERVER_Error *session_open_member(const struct ort *ort, const struct kit_model *model,
                                        const char *file, struct session *ret) {
        TRITONSERVER_Error *err;

        *ret = (struct session){ .ort = ort, .device = ON_CPU, .is_member = true };
        err = open_session(model, file, ret);
        if (err == NULL && model->max_batch_size > 0)
                err = find_rows(model, file, ret);
        if (err != NULL)
                session_close(ret);
        return err;
}

static void free_tensors(struct ort_tensor *tensors, size_t n) {
        for (size_t i = 0; tensors != NULL && i < n; i++) {
                free(tensors[i].name);
                free(tensors[i].dims);
        }
        free(tensors);
}

void session_close(struct session *session) {
        if (session->run_options != NULL)
                session->ort->api->ReleaseRunOptions(session->run_options);
        if (session->onnx != NULL)
                session->ort->api->ReleaseSession(session->onnx);
        free_tensors(session->inputs, session->n_inputs);
        free_tensors(session->outputs, session->n_outputs);
        *session = (struct session){ 0 };
}

static const struct ort_tensor *find(const struct ort_tensor *tensors, size_t n, const char *name) {
        for (size_t i = 0; i < n; i++)
                if (strcmp(tensors[i].name, name) == 0)
                        return &tensors[i];
        return NULL;
}

const struct ort_tensor *session_find_input(const struct session *session, const char *name) {
        return find(session->inputs, session->n_inputs, name);
}

const struct ort_tensor *session_find_output(const struct session *session, const char *name) {
        return find(session->outputs, session->n_outputs, name);
}
