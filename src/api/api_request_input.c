/* SPDX-License-Identifier: BSD-3-Clause */
/* The C API for the inputs of a TRITONSERVER_InferenceRequest. */
#include "api/api_types.h"

#include "infer/model.h"
#include "infer/request.h"

#include "triton/core/neso.h"

DEFINE_API_TYPE(TRITONSERVER_InferenceRequest, request)

#define REQUEST(argument) request_from_api(argument)

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestAddInput(
        struct TRITONSERVER_InferenceRequest *inference_request, const char *name,
        const TRITONSERVER_DataType datatype, const int64_t *shape, uint64_t dim_count) {
        API_NEEDS(inference_request);
        API_NEEDS(name);
        if (dim_count > 0)
                API_NEEDS(shape);
        return error_to_api(request_add_input(REQUEST(inference_request), name,
                                              (enum data_type)datatype, shape, dim_count));
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestAddRawInput(
        struct TRITONSERVER_InferenceRequest *inference_request, const char *name) {
        API_NEEDS(inference_request);
        API_NEEDS(name);
        return error_to_api(request_add_raw_input(REQUEST(inference_request), name));
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestRemoveInput(
        struct TRITONSERVER_InferenceRequest *inference_request, const char *name) {
        API_NEEDS(inference_request);
        API_NEEDS(name);
        return error_to_api(request_remove_input(REQUEST(inference_request), name));
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestRemoveAllInputs(
        struct TRITONSERVER_InferenceRequest *inference_request) {
        API_NEEDS(inference_request);
        request_remove_all_inputs(REQUEST(inference_request));
        return NULL;
}

static struct TRITONSERVER_Error *append(struct TRITONSERVER_InferenceRequest *face,
                                         const char *name, const void *base,
                                         const struct buffer_attributes *attributes,
                                         const char *host_policy) {
        if (attributes->byte_size > 0)
                API_NEEDS(base);
        if ((unsigned)attributes->memory_type > MEMORY_GPU)
                return error_to_api(api_bad_value("TRITONSERVER_InferenceRequestAppendInputData",
                                                  "memory type", (int)attributes->memory_type));
        if (attributes->memory_type == MEMORY_GPU)
                return error_to_api(error_new(ERR_UNSUPPORTED,
                                              "input '%s' is in GPU memory: GPUs not supported",
                                              name));
        return error_to_api(
                request_append_bytes(REQUEST(face), name, base, attributes, host_policy));
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestAppendInputData(
        struct TRITONSERVER_InferenceRequest *inference_request, const char *name,
        const void *base, size_t byte_size, TRITONSERVER_MemoryType memory_type,
        int64_t memory_type_id) {
        struct buffer_attributes attributes = { .memory_type = (enum memory_type)memory_type,
                                                .memory_id = memory_type_id,
                                                .byte_size = byte_size };

        API_NEEDS(inference_request);
        API_NEEDS(name);
        return append(inference_request, name, base, &attributes, NULL);
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestAppendInputDataWithHostPolicy(
        struct TRITONSERVER_InferenceRequest *inference_request, const char *name,
        const void *base, size_t byte_size, TRITONSERVER_MemoryType memory_type,
        int64_t memory_type_id, const char *host_policy_name) {
        struct buffer_attributes attributes = { .memory_type = (enum memory_type)memory_type,
                                                .memory_id = memory_type_id,
                                                .byte_size = byte_size };

        API_NEEDS(inference_request);
        API_NEEDS(name);
        API_NEEDS(host_policy_name);
        return append(inference_request, name, base, &attributes, host_policy_name);
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestAppendInputDataWithBufferAttributes(
        struct TRITONSERVER_InferenceRequest *inference_request, const char *name,
        const void *base, struct TRITONSERVER_BufferAttributes *buffer_attributes) {
        API_NEEDS(inference_request);
        API_NEEDS(name);
        API_NEEDS(buffer_attributes);
        return append(inference_request, name, base,
                      buffer_attributes_from_api(buffer_attributes), NULL);
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestRemoveAllInputData(
        struct TRITONSERVER_InferenceRequest *inference_request, const char *name) {
        API_NEEDS(inference_request);
        API_NEEDS(name);
        return error_to_api(request_remove_bytes(REQUEST(inference_request), name));
}

struct TRITONSERVER_Error *NESO_InferenceRequestModelInput(
        struct TRITONSERVER_InferenceRequest *inference_request, const char *name,
        TRITONSERVER_DataType *datatype, const int64_t **shape, uint64_t *dim_count,
        bool *is_batched) {
        const struct model_io_set *io;
        const struct model_io     *input;

        API_NEEDS(inference_request);
        API_NEEDS(name);
        API_NEEDS(datatype);
        API_NEEDS(shape);
        API_NEEDS(dim_count);
        API_NEEDS(is_batched);
        io = REQUEST(inference_request)->model->io;
        input = model_io_find_input(io, str_of(name), 0);
        *datatype = input != NULL ? (TRITONSERVER_DataType)input->type : TRITONSERVER_TYPE_INVALID;
        *shape = input != NULL ? input->dims : NULL;
        *dim_count = input != NULL ? input->n_dims : 0;
        *is_batched = io->max_batch_size > 0;
        return NULL;
}
