/* SPDX-License-Identifier: BSD-3-Clause */
/* A backend whose executions are somebody else's function: test_every_call.py sets it. */
#include "triton/core/tritonbackend.h"

typedef TRITONSERVER_Error *(*execute_fn)(TRITONBACKEND_ModelInstance *instance,
                                          TRITONBACKEND_Request **requests, uint32_t request_count);

extern execute_fn                                 probe_execute;
__attribute__((visibility("default"))) execute_fn probe_execute;

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance *instance,
                                                       TRITONBACKEND_Request      **requests,
                                                       const uint32_t               request_count) {
        return probe_execute(instance, requests, request_count);
}
