/* SPDX-License-Identifier: BSD-3-Clause */
/* The C API with which backends create and send responses (TRITONBACKEND_Response), make any number of
 * responses to one request of a decoupled model (TRITONBACKEND_ResponseFactory), and report the
 * statistics of single responses (TRITONBACKEND_ModelInstanceResponseStatistics).
 */
#include "api/api_backend_types.h"
#include "backend/backend_instance.h"
#include "base/mem.h"
#include "infer/response.h"
#include "infer/response_factory.h"
#include "triton/core/neso.h"

#define RESPONSE(argument) ((struct response *)(argument))
#define OUTPUT(argument) ((struct response_output *)(argument))
#define FACTORY(argument) ((struct response_factory *)(argument))
#define RECORD(argument) ((struct response_record *)(argument))

TRITONSERVER_Error *TRITONBACKEND_ResponseNew(TRITONBACKEND_Response **response,
                                              TRITONBACKEND_Request   *request) {
        struct response_result made;

        API_NEEDS(response, request);
        made = response_make((struct request *)request);
        API_TRY(made.error);
        *response = (TRITONBACKEND_Response *)made.response;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseDelete(TRITONBACKEND_Response *response) {
        response_free(RESPONSE(response));
        return NULL;
}

static TRITONSERVER_Error *add_parameter(TRITONBACKEND_Response *response,
                                         const struct parameter *p) {
        API_NEEDS(response, p->name);
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
                                                             const char *name, const double value) {
        return add_parameter(response, &(struct parameter){ .name = name,
                                                            .type = PARAMETER_DOUBLE,
                                                            .real = value });
}

TRITONSERVER_Error *TRITONBACKEND_ResponseOutput(TRITONBACKEND_Response *response,
                                                 TRITONBACKEND_Output **output, const char *name,
                                                 const TRITONSERVER_DataType datatype,
                                                 const int64_t *shape, const uint32_t dims_count) {
        struct output_result made;

        API_NEEDS(response, output, name);
        if (dims_count > 0)
                API_NEEDS(shape);
        made = response_append_output(RESPONSE(response), name, (enum data_type)datatype, shape,
                                      dims_count);
        API_TRY(made.error);
        *output = (TRITONBACKEND_Output *)made.output;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_OutputBuffer(TRITONBACKEND_Output *output, void **buffer,
                                               const uint64_t           buffer_byte_size,
                                               TRITONSERVER_MemoryType *memory_type,
                                               int64_t                 *memory_type_id) {
        enum memory_type type;

        API_NEEDS(output, buffer, memory_type, memory_type_id);
        type = (enum memory_type) * memory_type;
        API_TRY(response_output_get(OUTPUT(output), WRITER_BACKEND, buffer_byte_size, &type,
                                    memory_type_id, buffer));
        *memory_type = (TRITONSERVER_MemoryType)type;
        return NULL;
}

API_GETTER(TRITONBACKEND_OutputBufferAttributes, TRITONBACKEND_Output, output,
           TRITONSERVER_BufferAttributes *, buffer_attributes,
           buffer_attributes_to_api(&OUTPUT(output)->attributes))

TRITONSERVER_Error *TRITONBACKEND_ResponseSend(TRITONBACKEND_Response *response,
                                               const uint32_t          send_flags,
                                               TRITONSERVER_Error     *error) {
        API_NEEDS(response);
        return error_to_api(response_send(RESPONSE(response), send_flags, error_from_api(error)));
}

/* ---- factories ------------------------------------------------------------------------------- */

TRITONSERVER_Error *TRITONBACKEND_ResponseFactoryNew(TRITONBACKEND_ResponseFactory **factory,
                                                     TRITONBACKEND_Request          *request) {
        struct response_factory *f;

        API_NEEDS(factory, request);
        API_TRY(response_factory_new((struct request *)request, &f));
        *factory = (TRITONBACKEND_ResponseFactory *)f;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseFactoryDelete(TRITONBACKEND_ResponseFactory *factory) {
        response_factory_free(FACTORY(factory));
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseFactorySendFlags(TRITONBACKEND_ResponseFactory *factory,
                                                           const uint32_t send_flags) {
        API_NEEDS(factory);
        return error_to_api(response_factory_send_flags(FACTORY(factory), send_flags));
}

API_GETTER(TRITONBACKEND_ResponseFactoryIsCancelled, TRITONBACKEND_ResponseFactory, factory, bool,
           is_cancelled, response_factory_is_cancelled(FACTORY(factory)))

TRITONSERVER_Error *TRITONBACKEND_ResponseNewFromFactory(TRITONBACKEND_Response       **response,
                                                         TRITONBACKEND_ResponseFactory *factory) {
        struct response *r;

        API_NEEDS(response, factory);
        API_TRY(response_factory_respond(FACTORY(factory), &r));
        *response = (TRITONBACKEND_Response *)r;
        return NULL;
}

API_GETTER(NESO_ResponseFactoryRoom, TRITONBACKEND_ResponseFactory, factory, uint32_t, room,
           response_factory_room(FACTORY(factory)))

TRITONSERVER_Error *NESO_ResponseFactoryWhenRoom(TRITONBACKEND_ResponseFactory *factory,
                                                 NESO_RoomFn_t call, void *userp,
                                                 bool *is_waiting) {
        API_NEEDS(factory, call, is_waiting);
        *is_waiting = response_factory_when_room(FACTORY(factory), call, userp);
        return NULL;
}

/* ---- statistics of single responses ---------------------------------------------------------- */

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceResponseStatisticsNew(
        TRITONBACKEND_ModelInstanceResponseStatistics **response_statistics) {
        API_NEEDS(response_statistics);
        *response_statistics = (TRITONBACKEND_ModelInstanceResponseStatistics *)mem_zalloc(
                sizeof(struct response_record));
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceResponseStatisticsDelete(
        TRITONBACKEND_ModelInstanceResponseStatistics *response_statistics) {
        free(response_statistics);
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceResponseStatisticsSetModelInstance(
        TRITONBACKEND_ModelInstanceResponseStatistics *response_statistics,
        TRITONBACKEND_ModelInstance                   *model_instance) {
        API_NEEDS(response_statistics, model_instance);
        RECORD(response_statistics)->instance = (struct backend_instance *)model_instance;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseFactory(
        TRITONBACKEND_ModelInstanceResponseStatistics *response_statistics,
        TRITONBACKEND_ResponseFactory                 *response_factory) {
        API_NEEDS(response_statistics, response_factory);
        RECORD(response_statistics)->factory = (struct response_factory *)response_factory;
        return NULL;
}

API_SETTER(TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseStart,
           TRITONBACKEND_ModelInstanceResponseStatistics, response_statistics, uint64_t,
           response_start, RECORD(response_statistics)->start_ns)

API_SETTER(TRITONBACKEND_ModelInstanceResponseStatisticsSetComputeOutputStart,
           TRITONBACKEND_ModelInstanceResponseStatistics, response_statistics, uint64_t,
           compute_output_start, RECORD(response_statistics)->output_start_ns)

API_SETTER(TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseEnd,
           TRITONBACKEND_ModelInstanceResponseStatistics, response_statistics, uint64_t,
           response_end, RECORD(response_statistics)->end_ns)

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceResponseStatisticsSetError(
        TRITONBACKEND_ModelInstanceResponseStatistics *response_statistics,
        TRITONSERVER_Error                            *error) {
        API_NEEDS(response_statistics);
        RECORD(response_statistics)->error = error_from_api(error);
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReportResponseStatistics(
        TRITONBACKEND_ModelInstanceResponseStatistics *response_statistics) {
        API_NEEDS(response_statistics);
        return error_to_api(backend_instance_report_response(RECORD(response_statistics)));
}
