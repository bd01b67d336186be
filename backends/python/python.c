/* SPDX-License-Identifier: BSD-3-Clause */
/* The entry points of the python backend: models that are Python programs, with a process for each
 * instance.
 *
 * Backend state: struct backend. Model state: struct model. Instance state: struct instance.
 */
#include "kit/model.h"
#include "python/complete.h"
#include "python/device_memory.h"
#include "python/python_instance.h"
#include "python/stacks.h"

KIT_BACKEND_HOST_MEMORY;

/* An entry point of Neso, see triton/core/neso.h. */
TRITONBACKEND_ISPEC TRITONSERVER_Error *NESOBACKEND_ModelInstanceStacks(
        TRITONBACKEND_ModelInstance *triton, TRITONSERVER_Message **ret);

TRITONSERVER_Error *TRITONBACKEND_Initialize(TRITONBACKEND_Backend *triton) {
        struct backend *backend;

        KIT_TRY(backend_new(triton, &backend));
        return TRITONBACKEND_BackendSetState(triton, backend);
}

TRITONSERVER_Error *TRITONBACKEND_Finalize(TRITONBACKEND_Backend *triton) {
        void *backend;

        KIT_TRY(TRITONBACKEND_BackendState(triton, &backend));
        backend_free(backend);
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_GetBackendAttribute(TRITONBACKEND_Backend          *triton,
                                                      TRITONBACKEND_BackendAttribute *attributes) {
        (void)triton;
        KIT_TRY(TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(
                attributes, TRITONSERVER_INSTANCEGROUPKIND_CPU, 0, NULL, 0));
        return TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading(attributes, true);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model *triton) {
        struct model       *model;
        TRITONSERVER_Error *err;
        bool                is_completed;

        KIT_TRY(model_new(triton, &model));
        err = TRITONBACKEND_ModelAutoCompleteConfig(triton, &is_completed);
        if (err == NULL && is_completed)
                err = complete_config(model);
        if (err == NULL)
                err = device_declare(triton, model->takes_device_memory);
        if (err == NULL)
                err = TRITONBACKEND_ModelSetState(triton, model);
        if (err != NULL)
                model_free(model);
        return err;
}

TRITONSERVER_Error *TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model *triton) {
        void *model;

        KIT_TRY(TRITONBACKEND_ModelState(triton, &model));
        model_free(model);
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance *triton) {
        TRITONBACKEND_Model *model;
        struct instance     *instance;
        void                *state;

        KIT_TRY(TRITONBACKEND_ModelInstanceModel(triton, &model));
        KIT_TRY(TRITONBACKEND_ModelState(model, &state));
        KIT_TRY(instance_new(triton, state, &instance));
        return TRITONBACKEND_ModelInstanceSetState(triton, instance);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance *triton) {
        void *instance;

        KIT_TRY(TRITONBACKEND_ModelInstanceState(triton, &instance));
        instance_free(instance);
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReady(TRITONBACKEND_ModelInstance *triton) {
        void *instance;

        KIT_TRY(TRITONBACKEND_ModelInstanceState(triton, &instance));
        return instance_is_ready(instance);
}

TRITONSERVER_Error *NESOBACKEND_ModelInstanceStacks(TRITONBACKEND_ModelInstance *triton,
                                                    TRITONSERVER_Message       **ret) {
        void *instance;

        KIT_TRY(TRITONBACKEND_ModelInstanceState(triton, &instance));
        return stacks_ask(instance, ret);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance *triton,
                                                       TRITONBACKEND_Request      **requests,
                                                       const uint32_t               n_requests) {
        void             *instance;
        struct execution *waited;

        KIT_TRY(TRITONBACKEND_ModelInstanceState(triton, &instance));
        KIT_TRY(execution_start(instance, requests, n_requests, &waited));
        if (waited != NULL)
                reader_wait(instance, waited);
        return NULL;
}
