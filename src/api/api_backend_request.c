/* SPDX-License-Identifier: BSD-3-Clause */
/* The C API with which backends read requests and inputs: TRITONBACKEND_Request. */
#include "api/api_backend_types.h"
#include "infer/cancel_watch.h"
#include "infer/model.h"
#include "infer/request.h"
#include "triton/core/neso.h"

#include <string.h>

#define REQUEST(argument) ((struct request *)(argument))

API_GETTER(TRITONBACKEND_RequestId, TRITONBACKEND_Request, request, const char *, id,
           REQUEST(request)->id)

API_GETTER(TRITONBACKEND_RequestIsCancelled, TRITONBACKEND_Request, request, bool, is_cancelled,
           request_is_cancelled(REQUEST(request)))

TRITONSERVER_Error *NESO_CancelWatchNew(struct NESO_CancelWatch **watch,
                                        TRITONBACKEND_Request    *request,
                                        NESO_CancelledFn_t cancelled, void *userp) {
        struct cancel_watch *made;

        API_NEEDS(watch, request, cancelled);
        made = cancel_watch_new(request_cancel_stream(REQUEST(request)), cancelled, userp);
        if (made == NULL)
                return error_to_api(error_new(ERR_UNAVAILABLE, "out of memory"));
        *watch = (struct NESO_CancelWatch *)made;
        return NULL;
}

TRITONSERVER_Error *NESO_CancelWatchDelete(struct NESO_CancelWatch *watch) {
        cancel_watch_free((struct cancel_watch *)watch);
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestCorrelationId(TRITONBACKEND_Request *request,
                                                       uint64_t              *id) {
        API_NEEDS(request, id);
        if (REQUEST(request)->correlation.text != NULL)
                return error_to_api(request_error(REQUEST(request), ERR_INVALID_ARG,
                                                  "correlation ID in request is not an unsigned "
                                                  "int"));
        *id = REQUEST(request)->correlation.number;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestCorrelationIdString(TRITONBACKEND_Request *request,
                                                             const char           **id) {
        API_NEEDS(request, id);
        if (REQUEST(request)->correlation.text == NULL)
                return error_to_api(request_error(REQUEST(request), ERR_INVALID_ARG,
                                                  "correlation ID in request is not a string"));
        *id = REQUEST(request)->correlation.text;
        return NULL;
}

API_GETTER(TRITONBACKEND_RequestFlags, TRITONBACKEND_Request, request, uint32_t, flags,
           REQUEST(request)->flags)

API_GETTER(TRITONBACKEND_InferenceRequestTimeoutMicroseconds, TRITONBACKEND_Request, request,
           uint64_t, timeout, REQUEST(request)->timeout_us)

API_GETTER(TRITONBACKEND_RequestParameterCount, TRITONBACKEND_Request, request, uint32_t, count,
           REQUEST(request)->parameters.n)

TRITONSERVER_Error *TRITONBACKEND_RequestParameter(TRITONBACKEND_Request *request,
                                                   const uint32_t index, const char **key,
                                                   TRITONSERVER_ParameterType *type,
                                                   const void                **vvalue) {
        const struct parameter *p;

        API_NEEDS(request, key, type, vvalue);
        p = parameter_list_at(&REQUEST(request)->parameters, index);
        if (p == NULL)
                return error_to_api(error_new(ERR_INVALID_ARG,
                                              "out of bounds index %u: request has %u parameters",
                                              index, REQUEST(request)->parameters.n));
        *key = p->name;
        *type = (TRITONSERVER_ParameterType)p->type;
        *vvalue = parameter_value(p);
        return NULL;
}

API_GETTER(TRITONBACKEND_RequestInputCount, TRITONBACKEND_Request, request, uint32_t, count,
           REQUEST(request)->n_inputs)

static struct error *find_input(const struct request *req, uint32_t index,
                                struct request_input **ret) {
        *ret = request_input_at(req, index);
        if (*ret == NULL)
                return request_error(req, ERR_INVALID_ARG,
                                     "out of bounds index %u: request has %u inputs", index,
                                     req->n_inputs);
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestInputName(TRITONBACKEND_Request *request,
                                                   const uint32_t index, const char **input_name) {
        struct request_input *in;

        API_NEEDS(request, input_name);
        *input_name = NULL;
        API_TRY(find_input(REQUEST(request), index, &in));
        *input_name = in->name;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestInput(TRITONBACKEND_Request *request, const char *name,
                                               TRITONBACKEND_Input **input) {
        struct request_input *in;

        API_NEEDS(request, name, input);
        in = request_find_input(REQUEST(request), name);
        *input = (TRITONBACKEND_Input *)in;
        if (in == NULL)
                return error_to_api(request_error(REQUEST(request), ERR_INVALID_ARG,
                                                  "unknown request input name %s", name));
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestInputByIndex(TRITONBACKEND_Request *request,
                                                      const uint32_t         index,
                                                      TRITONBACKEND_Input  **input) {
        struct request_input *in;

        API_NEEDS(request, input);
        *input = NULL;
        API_TRY(find_input(REQUEST(request), index, &in));
        *input = (TRITONBACKEND_Input *)in;
        return NULL;
}

API_GETTER(TRITONBACKEND_RequestOutputCount, TRITONBACKEND_Request, request, uint32_t, count,
           REQUEST(request)->n_output_names)

TRITONSERVER_Error *TRITONBACKEND_RequestOutputName(TRITONBACKEND_Request *request,
                                                    const uint32_t         index,
                                                    const char           **output_name) {
        const struct request *req = REQUEST(request);

        API_NEEDS(request, output_name);
        *output_name = NULL;
        if (index >= req->n_output_names)
                return error_to_api(request_error(req, ERR_INVALID_ARG,
                                                  "out of bounds index %u: request has %u "
                                                  "requested outputs",
                                                  index, req->n_output_names));
        *output_name = req->output_names[index];
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestOutputBufferProperties(
        TRITONBACKEND_Request *request, const char *name, size_t *byte_size,
        TRITONSERVER_MemoryType *memory_type, int64_t *memory_type_id) {
        const struct request            *req = REQUEST(request);
        const struct response_allocator *a;
        enum memory_type                 type;

        API_NEEDS(request, memory_type, memory_type_id);
        a = req->allocator;
        if (a == NULL || a->query == NULL)
                return error_to_api(
                        request_error(req, ERR_UNAVAILABLE, "Output properties are not available"));
        type = (enum memory_type) * memory_type;
        API_TRY(a->query((struct response_allocator *)a, req->allocator_userp, name, byte_size,
                         &type, memory_type_id));
        response_stream_set_queried(req->stream);
        *memory_type = (TRITONSERVER_MemoryType)type;
        return NULL;
}

static bool may_reschedule(const struct request *req) {
        const struct scheduler *s = req->model->scheduler; /* NULL while a model is warmed up */

        return s != NULL && s->may_reschedule;
}

TRITONSERVER_Error *TRITONBACKEND_RequestRelease(TRITONBACKEND_Request *request,
                                                 uint32_t               release_flags) {
        API_NEEDS(request);
        if (release_flags == REQUEST_RELEASE_RESCHEDULE && !may_reschedule(REQUEST(request)))
                return error_to_api(request_error(
                        REQUEST(request), ERR_INVALID_ARG,
                        "Request is released with TRITONSERVER_REQUEST_RELEASE_RESCHEDULE, while "
                        "the model is not configured to handle such a flag."));
        if (release_flags != REQUEST_RELEASE_ALL && release_flags != REQUEST_RELEASE_RESCHEDULE)
                return error_to_api(api_bad_value(__func__, "release flag", release_flags));
        request_release(REQUEST(request), release_flags);
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestTrace(TRITONBACKEND_Request        *request,
                                               TRITONSERVER_InferenceTrace **trace) {
        API_NEEDS(request, trace);
        *trace = (TRITONSERVER_InferenceTrace *)REQUEST(request)->trace; /* NULL: not traced */
        return NULL;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

#define INPUT(argument) ((struct request_input *)(argument))

/* The host policy whose chunks are used: `policy` when the front end gave bytes for it, else NULL. */
static const char *policy_in_force(const struct request_input *in, const char *policy) {
        for (const struct input_chunk *c = in->first_chunk; policy != NULL && c != NULL;
             c = c->next)
                if (c->host_policy != NULL && strcmp(c->host_policy, policy) == 0)
                        return policy;
        return NULL;
}

static bool counts(const struct input_chunk *c, const char *policy) {
        if (policy == NULL || c->host_policy == NULL)
                return policy == c->host_policy;
        return strcmp(policy, c->host_policy) == 0;
}

static inline const struct input_chunk *find_chunk(const struct request_input *in,
                                                   const char *policy, uint32_t index) {
        for (const struct input_chunk *c = in->first_chunk; c != NULL; c = c->next)
                if (counts(c, policy) && index-- == 0)
                        return c;
        return NULL;
}

static void count_chunks(const struct request_input *in, const char *policy, uint64_t *ret_bytes,
                         uint32_t *ret_n) {
        *ret_bytes = 0;
        *ret_n = 0;
        for (const struct input_chunk *c = in->first_chunk; c != NULL; c = c->next)
                if (counts(c, policy)) {
                        *ret_bytes += c->attributes.byte_size;
                        (*ret_n)++;
                }
}

static void give_properties(const struct request_input *in, const char **name,
                            TRITONSERVER_DataType *datatype, const int64_t **shape,
                            uint32_t *dims_count) {
        if (name != NULL)
                *name = in->name;
        if (datatype != NULL)
                *datatype = (TRITONSERVER_DataType)in->type;
        if (shape != NULL)
                *shape = in->shape;
        if (dims_count != NULL)
                *dims_count = in->n_dims;
}

TRITONSERVER_Error *TRITONBACKEND_InputPropertiesForHostPolicy(
        TRITONBACKEND_Input *input, const char *host_policy_name, const char **name,
        TRITONSERVER_DataType *datatype, const int64_t **shape, uint32_t *dims_count,
        uint64_t *byte_size, uint32_t *buffer_count) {
        const char *policy;
        uint64_t    bytes;
        uint32_t    n;

        API_NEEDS(input);
        policy = policy_in_force(INPUT(input), host_policy_name);
        count_chunks(INPUT(input), policy, &bytes, &n);
        give_properties(INPUT(input), name, datatype, shape, dims_count);
        if (byte_size != NULL)
                *byte_size = bytes;
        if (buffer_count != NULL)
                *buffer_count = n;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_InputProperties(TRITONBACKEND_Input *input, const char **name,
                                                  TRITONSERVER_DataType *datatype,
                                                  const int64_t **shape, uint32_t *dims_count,
                                                  uint64_t *byte_size, uint32_t *buffer_count) {
        const struct request_input *in = INPUT(input);

        API_NEEDS(input);
        give_properties(in, name, datatype, shape, dims_count);
        if (byte_size != NULL)
                *byte_size = in->byte_size;
        if (buffer_count != NULL)
                *buffer_count = in->n_plain;
        return NULL;
}

static COLD TRITONSERVER_Error *no_such_buffer(const struct request_input *in, uint32_t index) {
        return error_to_api(error_new(ERR_INVALID_ARG,
                                      "unable to get input buffer '%u', input has %u buffers",
                                      index, in->n_chunks));
}

/* Returns the bytes of a chunk; none when `c` is NULL. */
static void give_chunk(const struct input_chunk *c, const void **buffer, uint64_t *byte_size,
                       TRITONSERVER_MemoryType *memory_type, int64_t *memory_type_id) {
        *buffer = NULL;
        *byte_size = 0;
        if (c == NULL)
                return;
        *buffer = c->base;
        *byte_size = c->attributes.byte_size;
        *memory_type = (TRITONSERVER_MemoryType)c->attributes.memory_type;
        *memory_type_id = c->attributes.memory_id;
}

TRITONSERVER_Error *TRITONBACKEND_InputBufferForHostPolicy(
        TRITONBACKEND_Input *input, const char *host_policy_name, const uint32_t index,
        const void **buffer, uint64_t *buffer_byte_size, TRITONSERVER_MemoryType *memory_type,
        int64_t *memory_type_id) {
        const struct input_chunk *c;

        API_NEEDS(input, buffer, buffer_byte_size, memory_type, memory_type_id);
        c = find_chunk(INPUT(input), policy_in_force(INPUT(input), host_policy_name), index);
        give_chunk(c, buffer, buffer_byte_size, memory_type, memory_type_id);
        return c != NULL ? NULL : no_such_buffer(INPUT(input), index);
}

TRITONSERVER_Error *TRITONBACKEND_InputBuffer(TRITONBACKEND_Input *input, const uint32_t index,
                                              const void **buffer, uint64_t *buffer_byte_size,
                                              TRITONSERVER_MemoryType *memory_type,
                                              int64_t                 *memory_type_id) {
        const struct input_chunk *c;

        API_NEEDS(input, buffer, buffer_byte_size, memory_type, memory_type_id);
        c = find_chunk(INPUT(input), NULL, index);
        give_chunk(c, buffer, buffer_byte_size, memory_type, memory_type_id);
        return c != NULL ? NULL : no_such_buffer(INPUT(input), index);
}

TRITONSERVER_Error *TRITONBACKEND_InputBufferAttributes(
        TRITONBACKEND_Input *input, const uint32_t index, const void **buffer,
        TRITONSERVER_BufferAttributes **buffer_attributes) {
        const struct input_chunk *c;

        API_NEEDS(input, buffer, buffer_attributes);
        c = find_chunk(INPUT(input), NULL, index);
        *buffer = NULL;
        *buffer_attributes = NULL;
        if (c == NULL)
                return no_such_buffer(INPUT(input), index);
        *buffer = c->base;
        *buffer_attributes = buffer_attributes_to_api((struct buffer_attributes *)&c->attributes);
        return NULL;
}
