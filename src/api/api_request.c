/* SPDX-License-Identifier: BSD-3-Clause */
/* The C API of TRITONSERVER_InferenceRequest. */
#include "api/api_types.h"
#include "gpu/gpu.h"
#include "infer/model.h"
#include "infer/request.h"
#include "server/server.h"
#include "triton/core/neso.h"

DEFINE_API_TYPE(TRITONSERVER_Server, server)
DEFINE_API_TYPE(TRITONSERVER_InferenceRequest, request)

#define REQUEST(argument) request_from_api(argument)

_Static_assert((int)REQUEST_RELEASE_RESCHEDULE == (int)TRITONSERVER_REQUEST_RELEASE_RESCHEDULE,
               "release flags differ");

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestNew(
        struct TRITONSERVER_InferenceRequest **inference_request,
        struct TRITONSERVER_Server *server, const char *model_name, const int64_t model_version) {
        struct request *req;
        struct model   *model;

        API_NEEDS(inference_request, server, model_name);
        API_TRY(server_get_model_for_request(server_from_api(server), model_name, model_version,
                                             &model));
        req = request_new(model);
        model_unref(model);
        if (req == NULL)
                return error_to_api(error_new(ERR_UNAVAILABLE, "out of memory for a request"));
        req->has_version = model_version != -1;
        *inference_request = request_to_api(req);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestDelete(
        struct TRITONSERVER_InferenceRequest *inference_request) {
        if (inference_request != NULL && request_is_in_use(REQUEST(inference_request)))
                return error_to_api(error_new(ERR_INVALID_ARG,
                                              "the request is in use by an inference that has not "
                                              "released it"));
        request_free(REQUEST(inference_request));
        return NULL;
}

API_GETTER(TRITONSERVER_InferenceRequestId, struct TRITONSERVER_InferenceRequest, inference_request,
           const char *, id, REQUEST(inference_request)->id)

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetId(
        struct TRITONSERVER_InferenceRequest *inference_request, const char *id) {
        API_NEEDS(inference_request);
        return error_to_api(request_set_id(REQUEST(inference_request), id));
}

/* Defines getter and setter of a plain field. */
#define REQUEST_FIELD(getter, setter, type, field)                                                 \
        API_GETTER(getter, struct TRITONSERVER_InferenceRequest, inference_request, type, value,   \
                   (type)REQUEST(inference_request)->field)                                        \
        API_SETTER(setter, struct TRITONSERVER_InferenceRequest, inference_request, type, value,   \
                   REQUEST(inference_request)->field)

REQUEST_FIELD(TRITONSERVER_InferenceRequestFlags, TRITONSERVER_InferenceRequestSetFlags, uint32_t,
              flags)
REQUEST_FIELD(TRITONSERVER_InferenceRequestPriority, TRITONSERVER_InferenceRequestSetPriority,
              uint32_t, priority)
REQUEST_FIELD(TRITONSERVER_InferenceRequestPriorityUInt64,
              TRITONSERVER_InferenceRequestSetPriorityUInt64, uint64_t, priority)
REQUEST_FIELD(TRITONSERVER_InferenceRequestTimeoutMicroseconds,
              TRITONSERVER_InferenceRequestSetTimeoutMicroseconds, uint64_t, timeout_us)

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestCorrelationId(
        struct TRITONSERVER_InferenceRequest *inference_request, uint64_t *correlation_id) {
        API_NEEDS(inference_request, correlation_id);
        if (REQUEST(inference_request)->correlation.text != NULL)
                return error_to_api(request_error(REQUEST(inference_request), ERR_INVALID_ARG,
                                                  "correlation ID in request is not an unsigned "
                                                  "int"));
        *correlation_id = REQUEST(inference_request)->correlation.number;
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestCorrelationIdString(
        struct TRITONSERVER_InferenceRequest *inference_request, const char **correlation_id) {
        API_NEEDS(inference_request, correlation_id);
        if (REQUEST(inference_request)->correlation.text == NULL)
                return error_to_api(request_error(REQUEST(inference_request), ERR_INVALID_ARG,
                                                  "correlation ID in request is not a string"));
        *correlation_id = REQUEST(inference_request)->correlation.text;
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetCorrelationId(
        struct TRITONSERVER_InferenceRequest *inference_request, uint64_t correlation_id) {
        API_NEEDS(inference_request);
        REQUEST(inference_request)->correlation =
                (struct correlation_id){ .number = correlation_id };
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetCorrelationIdString(
        struct TRITONSERVER_InferenceRequest *inference_request, const char *correlation_id) {
        API_NEEDS(inference_request, correlation_id);
        return error_to_api(
                request_set_correlation_text(REQUEST(inference_request), correlation_id));
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestCancel(
        struct TRITONSERVER_InferenceRequest *inference_request) {
        API_NEEDS(inference_request);
        request_cancel(REQUEST(inference_request));
        return NULL;
}

API_GETTER(TRITONSERVER_InferenceRequestIsCancelled, struct TRITONSERVER_InferenceRequest,
           inference_request, bool, is_cancelled, request_is_cancelled(REQUEST(inference_request)))

/* ---- inputs ---------------------------------------------------------------------------------- */

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestAddInput(
        struct TRITONSERVER_InferenceRequest *inference_request, const char *name,
        const TRITONSERVER_DataType datatype, const int64_t *shape, uint64_t dim_count) {
        API_NEEDS(inference_request, name);
        if (dim_count > 0)
                API_NEEDS(shape);
        return error_to_api(request_add_input(REQUEST(inference_request), name,
                                              (enum data_type)datatype, shape, dim_count));
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestAddRawInput(
        struct TRITONSERVER_InferenceRequest *inference_request, const char *name) {
        API_NEEDS(inference_request, name);
        return error_to_api(request_add_raw_input(REQUEST(inference_request), name));
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestRemoveInput(
        struct TRITONSERVER_InferenceRequest *inference_request, const char *name) {
        API_NEEDS(inference_request, name);
        return error_to_api(request_remove_input(REQUEST(inference_request), name));
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestRemoveAllInputs(
        struct TRITONSERVER_InferenceRequest *inference_request) {
        API_NEEDS(inference_request);
        request_remove_all_inputs(REQUEST(inference_request));
        return NULL;
}

/* The device must be one of the server's. */
static COLD struct error *append_on_device(struct request *req, const char *input, const void *base,
                                           const struct buffer_attributes *attributes,
                                           const char                     *host_policy) {
        const struct gpus *gpus = req->model->gpus;
        int64_t            device = attributes->memory_id;

        if (gpus == NULL)
                return error_new(ERR_UNSUPPORTED, "input '%s' is in GPU memory: GPUs not supported",
                                 input);
        if (gpus_find(gpus, device) == NULL)
                return request_error(req, ERR_INVALID_ARG,
                                     "input '%s' is in the memory of GPU %lld, which this server "
                                     "does not have; its GPUs are: %s",
                                     input, (long long)device, gpus_list(gpus));
        return request_append_bytes(req, input, base, attributes, host_policy);
}

static struct TRITONSERVER_Error *append_bytes(
        struct TRITONSERVER_InferenceRequest *inference_request, const char *name, const void *base,
        const struct buffer_attributes *attributes, const char *host_policy) {
        if (attributes->byte_size > 0)
                API_NEEDS(base);
        if ((unsigned)attributes->memory_type > MEMORY_GPU)
                return error_to_api(api_bad_value("TRITONSERVER_InferenceRequestAppendInputData",
                                                  "memory type", (int)attributes->memory_type));
        if (attributes->memory_type == MEMORY_GPU)
                return error_to_api(append_on_device(REQUEST(inference_request), name, base,
                                                     attributes, host_policy));
        return error_to_api(request_append_bytes(REQUEST(inference_request), name, base, attributes,
                                                 host_policy));
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestAppendInputData(
        struct TRITONSERVER_InferenceRequest *inference_request, const char *name, const void *base,
        size_t byte_size, TRITONSERVER_MemoryType memory_type, int64_t memory_type_id) {
        struct buffer_attributes attributes = { .memory_type = (enum memory_type)memory_type,
                                                .memory_id = memory_type_id,
                                                .byte_size = byte_size };

        API_NEEDS(inference_request, name);
        return append_bytes(inference_request, name, base, &attributes, NULL);
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestAppendInputDataWithHostPolicy(
        struct TRITONSERVER_InferenceRequest *inference_request, const char *name, const void *base,
        size_t byte_size, TRITONSERVER_MemoryType memory_type, int64_t memory_type_id,
        const char *host_policy_name) {
        struct buffer_attributes attributes = { .memory_type = (enum memory_type)memory_type,
                                                .memory_id = memory_type_id,
                                                .byte_size = byte_size };

        API_NEEDS(inference_request, name, host_policy_name);
        return append_bytes(inference_request, name, base, &attributes, host_policy_name);
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestAppendInputDataWithBufferAttributes(
        struct TRITONSERVER_InferenceRequest *inference_request, const char *name, const void *base,
        struct TRITONSERVER_BufferAttributes *buffer_attributes) {
        API_NEEDS(inference_request, name, buffer_attributes);
        return append_bytes(inference_request, name, base,
                            buffer_attributes_from_api(buffer_attributes), NULL);
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestRemoveAllInputData(
        struct TRITONSERVER_InferenceRequest *inference_request, const char *name) {
        API_NEEDS(inference_request, name);
        return error_to_api(request_remove_bytes(REQUEST(inference_request), name));
}

struct TRITONSERVER_Error *NESO_InferenceRequestModelInput(
        struct TRITONSERVER_InferenceRequest *inference_request, const char *name,
        TRITONSERVER_DataType *datatype, const int64_t **shape, uint64_t *dim_count,
        bool *is_batched) {
        const struct model_io_set *io;
        const struct model_io     *input;

        API_NEEDS(inference_request, name, datatype, shape, dim_count, is_batched);
        io = REQUEST(inference_request)->model->io;
        input = model_io_find_input(io, str_of(name), 0);
        *datatype = input != NULL ? (TRITONSERVER_DataType)input->type : TRITONSERVER_TYPE_INVALID;
        *shape = input != NULL ? input->dims : NULL;
        *dim_count = input != NULL ? input->n_dims : 0;
        *is_batched = io->max_batch_size > 0;
        return NULL;
}

struct TRITONSERVER_Error *NESO_InferenceRequestModelInputName(
        struct TRITONSERVER_InferenceRequest *inference_request, uint32_t index,
        const char **name) {
        const struct model_io_set *io;

        API_NEEDS(inference_request, name);
        io = REQUEST(inference_request)->model->io;
        *name = index < io->n_inputs ? io->inputs[index].name : NULL;
        return NULL;
}

struct TRITONSERVER_Error *NESO_InferenceRequestModelInputIsOptional(
        struct TRITONSERVER_InferenceRequest *inference_request, const char *name,
        bool *is_optional) {
        const struct model_io *input;

        API_NEEDS(inference_request, name, is_optional);
        input = model_io_find_input(REQUEST(inference_request)->model->io, str_of(name), 0);
        *is_optional = input == NULL || input->is_optional;
        return NULL;
}

struct TRITONSERVER_Error *NESO_InferenceRequestModelParameter(
        struct TRITONSERVER_InferenceRequest *inference_request, const char *key,
        const char **value) {
        API_NEEDS(inference_request, key, value);
        *value = model_config_find_parameter(REQUEST(inference_request)->model->config, key);
        return NULL;
}

struct TRITONSERVER_Error *NESO_InferenceRequestModelLoad(
        struct TRITONSERVER_InferenceRequest *inference_request, uint32_t *max_batch_size,
        uint64_t *loaded_at_s) {
        const struct model *model;

        API_NEEDS(inference_request, max_batch_size, loaded_at_s);
        model = REQUEST(inference_request)->model;
        *max_batch_size = model->io->max_batch_size;
        *loaded_at_s = model->loaded_at_s;
        return NULL;
}

/* ---- requested outputs ----------------------------------------------------------------------- */

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestAddRequestedOutput(
        struct TRITONSERVER_InferenceRequest *inference_request, const char *name) {
        API_NEEDS(inference_request, name);
        return error_to_api(request_add_output(REQUEST(inference_request), name));
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestRemoveRequestedOutput(
        struct TRITONSERVER_InferenceRequest *inference_request, const char *name) {
        API_NEEDS(inference_request, name);
        return error_to_api(request_remove_output(REQUEST(inference_request), name));
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestRemoveAllRequestedOutputs(
        struct TRITONSERVER_InferenceRequest *inference_request) {
        API_NEEDS(inference_request);
        request_remove_all_outputs(REQUEST(inference_request));
        return NULL;
}

/* ---- callbacks ------------------------------------------------------------------------------- */

/* The core's callback types pass the same pointers and integers with the core's own types. */
struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetReleaseCallback(
        struct TRITONSERVER_InferenceRequest    *inference_request,
        TRITONSERVER_InferenceRequestReleaseFn_t request_release_callback,
        void                                    *request_release_userp) {
        API_NEEDS(inference_request, request_release_callback);
        REQUEST(inference_request)->on_release =
                (request_release_fn)(any_fn)request_release_callback;
        REQUEST(inference_request)->on_release_userp = request_release_userp;
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetResponseCallback(
        struct TRITONSERVER_InferenceRequest  *inference_request,
        struct TRITONSERVER_ResponseAllocator *response_allocator, void *response_allocator_userp,
        TRITONSERVER_InferenceResponseCompleteFn_t response_fn, void *response_userp) {
        struct request *req = REQUEST(inference_request);

        API_NEEDS(inference_request, response_allocator, response_fn);
        req->allocator = response_allocator_from_api(response_allocator);
        req->allocator_userp = response_allocator_userp;
        req->on_response = (response_complete_fn)(any_fn)response_fn;
        req->on_response_userp = response_userp;
        /* A cancellation concerns one inference. A request that is reused gets its callbacks anew, and
         * begins a new inference with that. */
        return error_to_api(request_renew_stream(req));
}

/* ---- parameters ------------------------------------------------------------------------------ */

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetStringParameter(
        struct TRITONSERVER_InferenceRequest *request, const char *key, const char *value) {
        API_NEEDS(request, key, value);
        return error_to_api(request_add_parameter(
                REQUEST(request),
                &(struct parameter){ .name = key, .type = PARAMETER_STRING, .string = value }));
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetIntParameter(
        struct TRITONSERVER_InferenceRequest *request, const char *key, const int64_t value) {
        API_NEEDS(request, key);
        return error_to_api(
                request_add_parameter(REQUEST(request), &(struct parameter){ .name = key,
                                                                             .type = PARAMETER_INT,
                                                                             .integer = value }));
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetBoolParameter(
        struct TRITONSERVER_InferenceRequest *request, const char *key, const bool value) {
        API_NEEDS(request, key);
        return error_to_api(
                request_add_parameter(REQUEST(request), &(struct parameter){ .name = key,
                                                                             .type = PARAMETER_BOOL,
                                                                             .boolean = value }));
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetDoubleParameter(
        struct TRITONSERVER_InferenceRequest *request, const char *key, const double value) {
        API_NEEDS(request, key);
        return error_to_api(request_add_parameter(
                REQUEST(request),
                &(struct parameter){ .name = key, .type = PARAMETER_DOUBLE, .real = value }));
}
