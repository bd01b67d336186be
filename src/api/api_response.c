/* SPDX-License-Identifier: BSD-3-Clause */
/* The C API of TRITONSERVER_InferenceResponse. */
#include "api/api_types.h"
#include "infer/model.h"
#include "infer/response.h"
#include "triton/core/tritonbackend.h"

DEFINE_API_TYPE(TRITONSERVER_InferenceResponse, response)

#define RESPONSE(argument) response_from_api(argument)

struct TRITONSERVER_Error *TRITONSERVER_InferenceResponseDelete(
        struct TRITONSERVER_InferenceResponse *inference_response) {
        response_free(RESPONSE(inference_response));
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceResponseError(
        struct TRITONSERVER_InferenceResponse *inference_response) {
        API_NEEDS(inference_response);
        return error_to_api(error_copy(RESPONSE(inference_response)->error));
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceResponseModel(
        struct TRITONSERVER_InferenceResponse *inference_response, const char **model_name,
        int64_t *model_version) {
        API_NEEDS(inference_response, model_name, model_version);
        *model_name = RESPONSE(inference_response)->source.model->name;
        *model_version = RESPONSE(inference_response)->source.model->version;
        return NULL;
}

API_GETTER(TRITONSERVER_InferenceResponseId, struct TRITONSERVER_InferenceResponse,
           inference_response, const char *, request_id, RESPONSE(inference_response)->source.id)

API_GETTER(TRITONSERVER_InferenceResponseParameterCount, struct TRITONSERVER_InferenceResponse,
           inference_response, uint32_t, count, RESPONSE(inference_response)->parameters.n)

struct TRITONSERVER_Error *TRITONSERVER_InferenceResponseParameter(
        struct TRITONSERVER_InferenceResponse *inference_response, const uint32_t index,
        const char **name, TRITONSERVER_ParameterType *type, const void **vvalue) {
        const struct parameter *p;

        API_NEEDS(inference_response, name, type, vvalue);
        p = parameter_list_at(&RESPONSE(inference_response)->parameters, index);
        if (p == NULL)
                return error_to_api(error_new(ERR_INVALID_ARG,
                                              "out of bounds index %u: response has %u parameters",
                                              index, RESPONSE(inference_response)->parameters.n));
        *name = p->name;
        *type = (TRITONSERVER_ParameterType)p->type;
        *vvalue = parameter_value(p);
        return NULL;
}

API_GETTER(TRITONSERVER_InferenceResponseOutputCount, struct TRITONSERVER_InferenceResponse,
           inference_response, uint32_t, count, RESPONSE(inference_response)->n_outputs)

static struct error *find_output(const struct response *response, uint32_t index,
                                 struct response_output **ret) {
        *ret = response_output_at(response, index);
        if (*ret == NULL)
                return error_new(ERR_INVALID_ARG, "out of bounds index %u: response has %u outputs",
                                 index, response->n_outputs);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceResponseOutput(
        struct TRITONSERVER_InferenceResponse *inference_response, const uint32_t index,
        const char **name, TRITONSERVER_DataType *datatype, const int64_t **shape,
        uint64_t *dim_count, const void **base, size_t *byte_size,
        TRITONSERVER_MemoryType *memory_type, int64_t *memory_type_id, void **userp) {
        struct response_output *o;

        API_NEEDS(inference_response, name, datatype, shape, dim_count, base);
        API_NEEDS(byte_size, memory_type, memory_type_id, userp);
        API_TRY(find_output(RESPONSE(inference_response), index, &o));
        *name = o->name;
        *datatype = (TRITONSERVER_DataType)o->type;
        *shape = o->shape;
        *dim_count = o->n_dims;
        *base = o->base;
        *byte_size = o->byte_size;
        *memory_type = (TRITONSERVER_MemoryType)o->attributes.memory_type;
        *memory_type_id = o->attributes.memory_id;
        *userp = o->userp;
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceResponseOutputClassificationLabel(
        struct TRITONSERVER_InferenceResponse *inference_response, const uint32_t index,
        const size_t class_index, const char **label) {
        struct response_output *o;

        API_NEEDS(inference_response, label);
        API_TRY(find_output(RESPONSE(inference_response), index, &o));
        *label = response_find_label(o, class_index);
        return NULL;
}

static struct TRITONSERVER_Error *give_output(const struct response_output *o,
                                              TRITONSERVER_DataType        *datatype,
                                              const int64_t **shape, uint64_t *dim_count) {
        API_NEEDS(datatype, shape, dim_count);
        *datatype = (TRITONSERVER_DataType)o->type;
        *shape = o->shape;
        *dim_count = o->n_dims;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_InferenceResponseOutputByName(TRITONBACKEND_Response *response,
                                                                const char             *name,
                                                                TRITONSERVER_DataType  *datatype,
                                                                const int64_t         **shape,
                                                                uint64_t               *dim_count) {
        struct response_output *o;

        API_NEEDS(response, name);
        o = response_find_output((struct response *)response, name);
        if (o == NULL)
                return error_to_api(
                        error_new(ERR_NOT_FOUND, "response has no output named '%s'", name));
        return give_output(o, datatype, shape, dim_count);
}

TRITONSERVER_Error *TRITONBACKEND_InferenceResponseOutput(TRITONBACKEND_Response *response,
                                                          const uint32_t index, const char **name,
                                                          TRITONSERVER_DataType *datatype,
                                                          const int64_t        **shape,
                                                          uint64_t              *dim_count) {
        struct response_output *o;

        API_NEEDS(response, name);
        API_TRY(find_output((struct response *)response, index, &o));
        *name = o->name;
        return give_output(o, datatype, shape, dim_count);
}
