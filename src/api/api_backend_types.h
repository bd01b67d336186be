/* SPDX-License-Identifier: BSD-3-Clause */
/* The backend API's names of core types, for the shims in api_backend_*.c: a TRITONBACKEND_Request
 * is a struct request, a TRITONBACKEND_ModelInstance a struct backend_instance, and so on.
 */
#pragma once

#include "api/api_types.h"
#include "triton/core/tritonbackend.h"

struct backend_model;

/* TRITONBACKEND_Model[Instance]ReportMemoryUsage: replaces what `owner`, the model or an instance, has reported
 * (observe/memory_reports.h). */
TRITONSERVER_Error *api_report_memory(const char *function, struct backend_model *model,
                                      const void *owner, TRITONSERVER_BufferAttributes **usage,
                                      uint32_t n);
