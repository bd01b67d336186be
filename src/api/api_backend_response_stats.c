/* SPDX-License-Identifier: BSD-3-Clause */
/* TRITONBACKEND_ModelInstanceResponseStatistics: a record that a backend fills in and reports. */
#include "api/api_backend_types.h"

#include "backend/backend_instance.h"
#include "base/mem.h"

#define RECORD(argument) ((struct response_record *)(argument))

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
        TRITONBACKEND_ModelInstance *model_instance) {
        API_NEEDS(response_statistics);
        API_NEEDS(model_instance);
        RECORD(response_statistics)->instance = (struct backend_instance *)model_instance;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseFactory(
        TRITONBACKEND_ModelInstanceResponseStatistics *response_statistics,
        TRITONBACKEND_ResponseFactory *response_factory) {
        API_NEEDS(response_statistics);
        API_NEEDS(response_factory);
        RECORD(response_statistics)->factory = (struct response_factory *)response_factory;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseStart(
        TRITONBACKEND_ModelInstanceResponseStatistics *response_statistics,
        uint64_t response_start) {
        API_NEEDS(response_statistics);
        RECORD(response_statistics)->start_ns = response_start;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceResponseStatisticsSetComputeOutputStart(
        TRITONBACKEND_ModelInstanceResponseStatistics *response_statistics,
        uint64_t compute_output_start) {
        API_NEEDS(response_statistics);
        RECORD(response_statistics)->output_start_ns = compute_output_start;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseEnd(
        TRITONBACKEND_ModelInstanceResponseStatistics *response_statistics,
        uint64_t response_end) {
        API_NEEDS(response_statistics);
        RECORD(response_statistics)->end_ns = response_end;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceResponseStatisticsSetError(
        TRITONBACKEND_ModelInstanceResponseStatistics *response_statistics,
        TRITONSERVER_Error *error) {
        API_NEEDS(response_statistics);
        RECORD(response_statistics)->error = error_from_api(error);
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReportResponseStatistics(
        TRITONBACKEND_ModelInstanceResponseStatistics *response_statistics) {
        API_NEEDS(response_statistics);
        return error_to_api(backend_instance_report_response(RECORD(response_statistics)));
}
