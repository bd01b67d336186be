/* SPDX-License-Identifier: BSD-3-Clause */
#include "kit/model.h"

#include "kit/scratch.h"
#include "triton/core/neso.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Other servers do not have it. */
#pragma weak NESO_ModelParameterIsSent

/* NULL for a number without a type. */
static const char *const config_types[] = {
        [TRITONSERVER_TYPE_INVALID] = "TYPE_INVALID", [TRITONSERVER_TYPE_BOOL] = "TYPE_BOOL",
        [TRITONSERVER_TYPE_UINT8] = "TYPE_UINT8",     [TRITONSERVER_TYPE_UINT16] = "TYPE_UINT16",
        [TRITONSERVER_TYPE_UINT32] = "TYPE_UINT32",   [TRITONSERVER_TYPE_UINT64] = "TYPE_UINT64",
        [TRITONSERVER_TYPE_INT8] = "TYPE_INT8",       [TRITONSERVER_TYPE_INT16] = "TYPE_INT16",
        [TRITONSERVER_TYPE_INT32] = "TYPE_INT32",     [TRITONSERVER_TYPE_INT64] = "TYPE_INT64",
        [TRITONSERVER_TYPE_FP16] = "TYPE_FP16",       [TRITONSERVER_TYPE_FP32] = "TYPE_FP32",
        [TRITONSERVER_TYPE_FP64] = "TYPE_FP64",       [TRITONSERVER_TYPE_BYTES] = "TYPE_STRING",
        [TRITONSERVER_TYPE_BF16] = "TYPE_BF16",
};

#define N_TYPES (sizeof(config_types) / sizeof(config_types[0]))

TRITONSERVER_DataType kit_type_from_config(const char *name) {
        for (size_t i = 0; i < N_TYPES; i++)
                if (config_types[i] != NULL && strcmp(config_types[i], name) == 0)
                        return (TRITONSERVER_DataType)i;
        return TRITONSERVER_TYPE_INVALID;
}

const char *kit_type_to_config(TRITONSERVER_DataType type) {
        return (size_t)type < N_TYPES && config_types[type] != NULL ? config_types[type]
                                                                    : config_types[0];
}

static TRITONSERVER_Error *read_message(TRITONSERVER_Message *message, const char *what,
                                        struct kit_json **ret) {
        const char *text;
        size_t      len;

        KIT_TRY(TRITONSERVER_MessageSerializeToJson(message, &text, &len));
        return kit_json_read(text, len, what, ret);
}

static TRITONSERVER_Error *read_dims(const struct kit_json_value *tensor, struct kit_tensor *ret) {
        const struct kit_json_value *dims = kit_json_find(tensor, "reshape/shape");
        uint32_t                     i = 0;

        if (dims == NULL)
                dims = kit_json_find(tensor, "dims");
        ret->n_dims = kit_json_count(dims);
        ret->dims = kit_alloc_array(ret->n_dims, sizeof(*ret->dims));
        if (ret->dims == NULL)
                return kit_error_no_memory(ret->n_dims * sizeof(*ret->dims), ret->name);
        if (dims == NULL)
                return NULL;
        for (const struct kit_json_value *dim = dims->first; dim != NULL; dim = dim->next)
                ret->dims[i++] = kit_json_int(dim, 0);
        return NULL;
}

static void free_tensors(struct kit_tensor *tensors, uint32_t n) {
        for (uint32_t i = 0; tensors != NULL && i < n; i++)
                free(tensors[i].dims);
        free(tensors);
}

static TRITONSERVER_Error *read_tensors(const struct kit_json_value *list, struct kit_tensor **ret,
                                        uint32_t *ret_n) {
        uint32_t           n = kit_json_count(list), i = 0;
        struct kit_tensor *tensors = kit_alloc_array(n, sizeof(*tensors));

        if (tensors == NULL)
                return kit_error_no_memory(n * sizeof(*tensors), "the model's description");
        *ret = tensors;
        *ret_n = n;
        if (list == NULL)
                return NULL;
        for (const struct kit_json_value *at = list->first; at != NULL; at = at->next, i++) {
                tensors[i].name = kit_json_string(kit_json_find(at, "name"), "");
                tensors[i].type =
                        kit_type_from_config(kit_json_string(kit_json_find(at, "data_type"), ""));
                tensors[i].is_optional = kit_json_bool(kit_json_find(at, "optional"), false);
                tensors[i].is_ragged =
                        kit_json_bool(kit_json_find(at, "allow_ragged_batch"), false);
                KIT_TRY(read_dims(at, &tensors[i]));
        }
        return NULL;
}

static void drop_config(struct kit_model *model) {
        free_tensors(model->inputs, model->n_inputs);
        free_tensors(model->outputs, model->n_outputs);
        kit_json_free(model->config);
        model->inputs = model->outputs = NULL;
        model->n_inputs = model->n_outputs = 0;
        model->config = NULL;
}

static TRITONSERVER_Error *read_config(struct kit_model *model) {
        const struct kit_json_value *root;
        TRITONSERVER_Message        *message;
        TRITONSERVER_Error          *err;

        drop_config(model);
        KIT_TRY(TRITONBACKEND_ModelConfig(model->triton, 1, &message));
        err = read_message(message, "the model configuration", &model->config);
        kit_error_log(TRITONSERVER_MessageDelete(message), "the model configuration");
        KIT_TRY(err);
        root = kit_json_root(model->config);
        model->max_batch_size = kit_json_int(kit_json_find(root, "max_batch_size"), 0);
        KIT_TRY(read_tensors(kit_json_find(root, "input"), &model->inputs, &model->n_inputs));
        return read_tensors(kit_json_find(root, "output"), &model->outputs, &model->n_outputs);
}

static TRITONSERVER_Error *open_model(TRITONBACKEND_Model *triton, struct kit_model *model) {
        TRITONBACKEND_ArtifactType type;

        model->triton = triton;
        KIT_TRY(TRITONBACKEND_ModelName(triton, &model->name));
        KIT_TRY(TRITONBACKEND_ModelVersion(triton, &model->version));
        KIT_TRY(TRITONBACKEND_ModelRepository(triton, &type, &model->path));
        if (type != TRITONBACKEND_ARTIFACT_FILESYSTEM)
                return kit_error(TRITONSERVER_ERROR_UNSUPPORTED,
                                 "unsupported repository artifact type for model '%s'",
                                 model->name);
        if (asprintf(&model->version_path, "%s/%" PRIu64, model->path, model->version) < 0) {
                model->version_path = NULL;
                return kit_error_no_memory(strlen(model->path), model->name);
        }
        return read_config(model);
}

TRITONSERVER_Error *kit_model_open(TRITONBACKEND_Model *triton, struct kit_model *ret) {
        TRITONSERVER_Error *err;

        *ret = (struct kit_model){ 0 };
        err = open_model(triton, ret);
        if (err != NULL)
                kit_model_close(ret);
        return err;
}

void kit_model_close(struct kit_model *model) {
        drop_config(model);
        free(model->version_path);
        *model = (struct kit_model){ 0 };
}

TRITONSERVER_Error *kit_model_set_config(struct kit_model *model, const char *json) {
        TRITONSERVER_Message *message;
        TRITONSERVER_Error   *err;

        KIT_TRY(TRITONSERVER_MessageNewFromSerializedJson(&message, json, strlen(json)));
        err = TRITONBACKEND_ModelSetConfig(model->triton, 1, message);
        kit_error_log(TRITONSERVER_MessageDelete(message), model->name);
        return err != NULL ? err : read_config(model);
}

static const struct kit_tensor *find_tensor(const struct kit_tensor *tensors, uint32_t n,
                                            const char *name) {
        for (uint32_t i = 0; i < n; i++)
                if (strcmp(tensors[i].name, name) == 0)
                        return &tensors[i];
        return NULL;
}

const struct kit_tensor *kit_model_find_input(const struct kit_model *model, const char *name) {
        return find_tensor(model->inputs, model->n_inputs, name);
}

const struct kit_tensor *kit_model_find_output(const struct kit_model *model, const char *name) {
        return find_tensor(model->outputs, model->n_outputs, name);
}

const char *kit_model_parameter(const struct kit_model *model, const char *key) {
        const struct kit_json_value *all =
                kit_json_find(kit_json_root(model->config), "parameters");

        /* A path would not do: the key may contain a '/'. */
        if (all == NULL)
                return NULL;
        for (const struct kit_json_value *at = all->first; at != NULL; at = at->next)
                if (at->key != NULL && strcmp(at->key, key) == 0)
                        return kit_json_string(kit_json_find(at, "string_value"), NULL);
        return NULL;
}

TRITONSERVER_Error *kit_model_parameter_int(const struct kit_model *model, const char *key,
                                            int64_t *value) {
        const char *text = kit_model_parameter(model, key);
        char       *end;
        long long   number;

        if (text == NULL)
                return NULL;
        errno = 0;
        number = strtoll(text, &end, 10);
        if (errno != 0 || end == text || *end != '\0')
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "model '%s': parameter '%s' must be an integer, got '%s'",
                                 model->name, key, text);
        *value = number;
        return NULL;
}

TRITONSERVER_Error *kit_model_parameter_bool(const struct kit_model *model, const char *key,
                                             bool *value) {
        const char *text = kit_model_parameter(model, key);

        if (text == NULL)
                return NULL;
        if (strcasecmp(text, "true") == 0 || strcmp(text, "1") == 0)
                *value = true;
        else if (strcasecmp(text, "false") == 0 || strcmp(text, "0") == 0)
                *value = false;
        else
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "model '%s': parameter '%s' must be true or false, got '%s'",
                                 model->name, key, text);
        return NULL;
}

TRITONSERVER_Error *kit_model_parameter_is_sent(const struct kit_model *model, const char *key,
                                                bool *ret) {
        *ret = false;
        return NESO_ModelParameterIsSent != NULL
                       ? NESO_ModelParameterIsSent(model->triton, key, ret)
                       : NULL;
}

TRITONSERVER_Error *kit_model_refuse_sent(const struct kit_model *model, const char *key) {
        bool is_sent;

        KIT_TRY(kit_model_parameter_is_sent(model, key, &is_sent));
        if (!is_sent)
                return NULL;
        return kit_error(
                TRITONSERVER_ERROR_UNSUPPORTED,
                "Uploaded code is disabled: the configuration sent for model '%s' sets the "
                "parameter '%s', which names a file or a program and has no such value in "
                "the model's config.pbtxt. Start the server with "
                "'--allow-uploaded-backends=true' to enable.",
                model->name, key);
}

TRITONSERVER_Error *kit_backend_config(TRITONBACKEND_Backend *backend, struct kit_json **ret) {
        TRITONSERVER_Message *message; /* borrowed: unlike a model's configuration, the server keeps
                                        * it */

        KIT_TRY(TRITONBACKEND_BackendConfig(backend, &message));
        return read_message(message, "the backend configuration", ret);
}

TRITONSERVER_Error *kit_check_api_version(const char *backend_name) {
        uint32_t major, minor;

        KIT_TRY(TRITONBACKEND_ApiVersion(&major, &minor));
        if (major == TRITONBACKEND_API_VERSION_MAJOR && minor >= TRITONBACKEND_API_VERSION_MINOR)
                return NULL;
        return kit_error(TRITONSERVER_ERROR_UNSUPPORTED,
                         "the server's backend API version %u.%u does not support backend '%s', "
                         "which needs %d.%d or a later minor version",
                         major, minor, backend_name, TRITONBACKEND_API_VERSION_MAJOR,
                         TRITONBACKEND_API_VERSION_MINOR);
}
