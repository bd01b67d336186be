/* SPDX-License-Identifier: BSD-3-Clause */
#include "onnxruntime/session.h"

#include "kit/scratch.h"
#include "onnxruntime/model_file.h"
#include "onnxruntime/options.h"

#include <stdlib.h>
#include <string.h>

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

/* Sequences, maps and sparse tensors have no place in the protocol. */
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

/* Takes `name`, which the runtime's allocator made. */
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

static TRITONSERVER_Error *describe(struct session *session) {
        const struct ort *ort = session->ort;
        size_t            n_inputs, n_outputs;

        ORT_TRY(ort, SessionGetInputCount(session->onnx, &n_inputs));
        ORT_TRY(ort, SessionGetOutputCount(session->onnx, &n_outputs));
        session->inputs = kit_alloc_array(n_inputs, sizeof(*session->inputs));
        session->outputs = kit_alloc_array(n_outputs, sizeof(*session->outputs));
        if (session->inputs == NULL || session->outputs == NULL)
                return kit_error_no_memory(0, "the description of a model");
        session->n_inputs = n_inputs;
        session->n_outputs = n_outputs;
        for (size_t i = 0; i < n_inputs; i++)
                KIT_TRY(read_input(session, i));
        for (size_t i = 0; i < n_outputs; i++)
                KIT_TRY(read_output(session, i));
        return NULL;
}

/* "failed to load model 'm' from '1/model.onnx': <the runtime's words>" */
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

static TRITONSERVER_Error *open_file(const struct kit_model *model, const char *path,
                                     struct session *session) {
        const struct ort   *ort = session->ort;
        OrtSessionOptions  *options;
        TRITONSERVER_Error *err;

        ORT_TRY(ort, CreateSessionOptions(&options));
        err = options_set(ort, model, options);
        if (err == NULL)
                err = name_file(ort_error(ort, ort->api->CreateSession(ort->env, path, options,
                                                                       &session->onnx)),
                                model, path);
        ort->api->ReleaseSessionOptions(options);
        return err;
}

/* `file` NULL: the model's own. */
static TRITONSERVER_Error *open_session(const struct kit_model *model, const char *file,
                                        struct session *session) {
        TRITONSERVER_Error *err;
        char               *path;

        KIT_TRY(model_file_find(model, file, &path));
        err = open_file(model, path, session);
        if (err == NULL)
                err = name_file(describe(session), model, path);
        free(path);
        return err != NULL ? err : options_new_run(session->ort, model, &session->run_options);
}

TRITONSERVER_Error *session_open(const struct ort *ort, const struct kit_model *model,
                                 struct session *ret) {
        TRITONSERVER_Error *err;

        *ret = (struct session){ .ort = ort };
        err = open_session(model, NULL, ret);
        if (err != NULL)
                session_close(ret);
        return err;
}

/* All inputs have the same first dimension where they have a fixed one. */
static TRITONSERVER_Error *find_rows(const struct kit_model *model, const char *file,
                                     struct session *session) {
        for (size_t i = 0; i < session->n_inputs; i++) {
                const struct ort_tensor *in = &session->inputs[i];

                if (in->n_dims == 0 || in->dims[0] < 0)
                        continue;
                if (session->n_rows == 0)
                        session->n_rows = in->dims[0];
                if (in->dims[0] != session->n_rows || session->n_rows == 0)
                        return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
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

        *ret = (struct session){ .ort = ort, .is_member = true };
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
