/* SPDX-License-Identifier: BSD-3-Clause */
/* The C API with which backends create and send responses: TRITONBACKEND_Response. */
#include "api/api_backend_types.h"

#include "infer/response.h"

#define RESPONSE(argument) ((struct response *)(argument))
#define OUTPUT(argument) ((struct response_output *)(argument))

TRITONSERVER_Error *TRITONBACKEND_ResponseNew(TRITONBACKEND_Response **response,
                                              TRITONBACKEND_Request *request) {
        struct response *r;

        API_NEEDS(response);
        API_NEEDS(request);
        API_TRY(response_new((struct request *)request, &r));
        *response = (TRITONBACKEND_Response *)r;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseDelete(TRITONBACKEND_Response *response) {
        response_free(RESPONSE(response));
        return NULL;
}

static TRITONSERVER_Error *add_parameter(TRITONBACKEND_Response *response,
                                         const struct parameter *p) {
        API_NEEDS(response);
        API_NEEDS(p->name);
        return error_to_api(response_add_parameter(RESPONSE(response), p));
}

TRITONSERVER_Error *TRITONBACKEND_ResponseSetStringParameter(TRITONBACKEND_Response *response,
                                                             const char *name, const char *value) {
        API_NEEDS(value);
        return add_parameter(response, &(struct parameter){ .name = name,
                                                            .type = PARAMETER_STRING,
                                                            .string = value });
}

TRITONSERVER_Error *TRITONBACKEND_ResponseSetIntParameter(TRITONBACKEND_Response *response,
                                                          const char *name, const int64_t value) {
        return add_parameter(response, &(struct parameter){ .name = name,
                                                            .type = PARAMETER_INT,
                                                            .integer = value });
}

TRITONSERVER_Error *TRITONBACKEND_ResponseSetBoolParameter(TRITONBACKEND_Response *response,
                                                           const char *name, const bool value) {
        return add_parameter(response, &(struct parameter){ .name = name,
                                                            .type = PARAMETER_BOOL,
                                                            .boolean = value });
}

TRITONSERVER_Error *TRITONBACKEND_ResponseSetDoubleParameter(TRITONBACKEND_Response *response,
                                                             const char *name,
                                                             const double value) {
        return add_parameter(response, &(struct parameter){ .name = name,
                                                            .type = PARAMETER_DOUBLE,
                                                            .real = value });
}

TRITONSERVER_Error *TRITONBACKEND_ResponseOutput(TRITONBACKEND_Response *response,
                                                 TRITONBACKEND_Output **output, const char *name,
                                                 const TRITONSERVER_DataType datatype,
                                                 const int64_t *shape, const uint32_t dims_count) {
        struct response_output *o;

        API_NEEDS(response);
        API_NEEDS(output);
        API_NEEDS(name);
        if (dims_count > 0)
                API_NEEDS(shape);
        API_TRY(response_add_output(RESPONSE(response), name, (enum data_type)datatype, shape,
                                    dims_count, &o));
        *output = (TRITONBACKEND_Output *)o;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_OutputBuffer(TRITONBACKEND_Output *output, void **buffer,
                                               const uint64_t buffer_byte_size,
                                               TRITONSERVER_MemoryType *memory_type,
                                               int64_t *memory_type_id) {
        enum memory_type type;

        API_NEEDS(output);
        API_NEEDS(buffer);
        API_NEEDS(memory_type);
        API_NEEDS(memory_type_id);
        type = (enum memory_type) * memory_type;
        API_TRY(response_output_buffer(OUTPUT(output), buffer_byte_size, &type, memory_type_id,
                                       buffer));
        *memory_type = (TRITONSERVER_MemoryType)type;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_OutputBufferAttributes(
        TRITONBACKEND_Output *output, TRITONSERVER_BufferAttributes **buffer_attributes) {
        API_NEEDS(output);
        API_NEEDS(buffer_attributes);
        *buffer_attributes = buffer_attributes_to_api(&OUTPUT(output)->attributes);
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseSend(TRITONBACKEND_Response *response,
                                               const uint32_t send_flags,
                                               TRITONSERVER_Error *error) {
        API_NEEDS(response);
        return error_to_api(
                response_send(RESPONSE(response), send_flags, error_from_api(error)));
}
