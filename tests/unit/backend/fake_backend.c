/* SPDX-License-Identifier: BSD-3-Clause */
#include "backend/fake_backend.h"

#include <stddef.h>

#define EXPORTED __attribute__((visibility("default")))

/* Found with dlsym(), so no header declares it. */
extern const struct fake_backend_hooks   *fake_backend_hooks;
EXPORTED const struct fake_backend_hooks *fake_backend_hooks;

#define CALL(hook, ...)                                                                            \
        (fake_backend_hooks != NULL && fake_backend_hooks->hook != NULL                            \
                 ? fake_backend_hooks->hook(__VA_ARGS__)                                           \
                 : NULL)

#ifndef FAKE_WITHOUT_EXECUTE

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance *instance,
                                                       TRITONBACKEND_Request      **requests,
                                                       const uint32_t               n_requests) {
        return CALL(execute, instance, requests, n_requests);
}

#endif

#ifdef FAKE_BARE

extern const int   NESO_BACKEND_INLINE_SAFE;
EXPORTED const int NESO_BACKEND_INLINE_SAFE = 1;

#else

TRITONSERVER_Error *TRITONBACKEND_Initialize(TRITONBACKEND_Backend *backend) {
        return CALL(initialize, backend);
}

TRITONSERVER_Error *TRITONBACKEND_Finalize(TRITONBACKEND_Backend *backend) {
        return CALL(finalize, backend);
}

TRITONSERVER_Error *TRITONBACKEND_GetBackendAttribute(TRITONBACKEND_Backend          *backend,
                                                      TRITONBACKEND_BackendAttribute *attributes) {
        return CALL(get_attributes, backend, attributes);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model *model) {
        return CALL(model_initialize, model);
}

TRITONSERVER_Error *TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model *model) {
        return CALL(model_finalize, model);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance *instance) {
        return CALL(instance_initialize, instance);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance *instance) {
        return CALL(instance_finalize, instance);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReady(TRITONBACKEND_ModelInstance *instance) {
        return CALL(instance_ready, instance);
}

#endif
