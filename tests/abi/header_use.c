/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes the types the ways that sources in the field write them, C and C++, with and without
 * `struct`. Compiled by test_headers.py; it never runs.
 */
#include "triton/core/tritonbackend.h"
#include "triton/core/tritoncache.h"
#include "triton/core/tritonrepoagent.h"

struct TRITONSERVER_Error;
struct TRITONSERVER_Server;

struct TRITONSERVER_Error *with_struct(TRITONSERVER_Error *error);
TRITONSERVER_Error        *with_struct(struct TRITONSERVER_Error *error) {
               return error;
}

/* An entry point, as a backend defines it. */
#ifdef __cplusplus
extern "C" {
#endif

TRITONBACKEND_ISPEC TRITONSERVER_Error *TRITONBACKEND_ModelInstanceExecute(
        TRITONBACKEND_ModelInstance *instance, TRITONBACKEND_Request **requests,
        const uint32_t request_count) {
        TRITONBACKEND_Model       *model;
        TRITONSERVER_DataType      type = TRITONSERVER_TYPE_INVALID;
        TRITONSERVER_LogLevel      level = TRITONSERVER_LOG_INFO;
        struct TRITONSERVER_Error *error = TRITONBACKEND_ModelInstanceModel(instance, &model);

        (void)type;
        if (error)
                return error;
        for (uint32_t r = 0; r < request_count; r++) {
                const char *id;

                error = TRITONBACKEND_RequestId(requests[r], &id);
                if (error)
                        TRITONSERVER_ErrorDelete(error);
        }
        return TRITONSERVER_LogMessage(level, __FILE__, __LINE__, "executed");
}

static void on_release(struct TRITONSERVER_InferenceRequest *request, const uint32_t flags,
                       void *userp) {
        (void)request;
        (void)flags;
        (void)userp;
}

static struct TRITONSERVER_Error *attributes(TRITONSERVER_ResponseAllocator *allocator,
                                             const char                     *tensor_name,
                                             TRITONSERVER_BufferAttributes  *buffer_attributes,
                                             void *userp, void *buffer_userp) {
        (void)allocator;
        (void)tensor_name;
        (void)userp;
        (void)buffer_userp;
        return TRITONSERVER_BufferAttributesSetCudaIpcHandle(buffer_attributes, NULL);
}

TRITONSERVER_InferenceRequestReleaseFn_t           release_fn = on_release;
TRITONSERVER_ResponseAllocatorBufferAttributesFn_t attributes_fn = attributes;

#ifdef __cplusplus
}
#endif
