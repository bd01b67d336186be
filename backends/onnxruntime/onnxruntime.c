/* SPDX-License-Identifier: BSD-3-Clause */
/* The entry points of the onnxruntime backend: ONNX models on the CPU.
 *
 * Backend state: struct ort. Model state: struct model below. Instance state: struct run_instance.
 */
#include "kit/model.h"
#include "kit/scratch.h"
#include "onnxruntime/members.h"
#include "onnxruntime/onnx_config_check.h"
#include "onnxruntime/onnx_config_complete.h"
#include "onnxruntime/onnx_session.h"
#include "onnxruntime/ort.h"
#include "onnxruntime/run.h"

#include <stdlib.h>

KIT_BACKEND_INLINE_SAFE;

struct model {
        struct kit_model kit;
        struct session   session;
        struct run_plan  plan;
        struct members
                members; /* with members, the two above serve only instances that have none */
};

TRITONSERVER_Error *TRITONBACKEND_Initialize(TRITONBACKEND_Backend *backend) {
        struct ort *ort;

        KIT_TRY(kit_check_api_version("onnxruntime"));
        KIT_TRY(ort_open(backend, &ort));
        return TRITONBACKEND_BackendSetState(backend, ort);
}

TRITONSERVER_Error *TRITONBACKEND_Finalize(TRITONBACKEND_Backend *backend) {
        void *ort;

        KIT_TRY(TRITONBACKEND_BackendState(backend, &ort));
        if (ort != NULL)
                ort_close(ort);
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_GetBackendAttribute(TRITONBACKEND_Backend          *backend,
                                                      TRITONBACKEND_BackendAttribute *attributes) {
        (void)backend;
        KIT_TRY(TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(
                attributes, TRITONSERVER_INSTANCEGROUPKIND_CPU, 0, NULL, 0));
        return TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading(attributes, true);
}

static void free_model(struct model *model) {
        members_close(&model->members);
        run_plan_done(&model->plan);
        session_close(&model->session);
        kit_model_close(&model->kit);
        free(model);
}

static TRITONSERVER_Error *open_model(TRITONBACKEND_Model *triton, struct model *model) {
        TRITONBACKEND_Backend *backend;
        bool                   is_completed;
        void                  *ort;

        KIT_TRY(TRITONBACKEND_ModelBackend(triton, &backend));
        KIT_TRY(TRITONBACKEND_BackendState(backend, &ort));
        KIT_TRY(kit_model_open(triton, &model->kit));
        KIT_TRY(members_open(ort, &model->kit, &model->members));
        if (!members_need_main(&model->members, &model->kit))
                return NULL;
        KIT_TRY(session_open(ort, &model->kit, &model->session));
        KIT_TRY(TRITONBACKEND_ModelAutoCompleteConfig(triton, &is_completed));
        if (is_completed)
                KIT_TRY(onnx_config_complete(&model->kit, &model->session));
        KIT_TRY(onnx_config_check(&model->kit, &model->session));
        return run_plan_init(&model->plan, &model->kit, &model->session);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model *triton) {
        struct model       *model = kit_alloc_array(1, sizeof(*model));
        TRITONSERVER_Error *err;

        if (model == NULL)
                return kit_error_no_memory(sizeof(*model), "a model");
        err = open_model(triton, model);
        if (err == NULL)
                err = TRITONBACKEND_ModelSetState(triton, model);
        if (err != NULL)
                free_model(model);
        return err;
}

TRITONSERVER_Error *TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model *triton) {
        void *model;

        KIT_TRY(TRITONBACKEND_ModelState(triton, &model));
        if (model != NULL)
                free_model(model);
        return NULL;
}

static TRITONSERVER_Error *check_kind(TRITONBACKEND_ModelInstance *triton) {
        TRITONSERVER_InstanceGroupKind kind;
        const char                    *name;

        KIT_TRY(TRITONBACKEND_ModelInstanceKind(triton, &kind));
        KIT_TRY(TRITONBACKEND_ModelInstanceName(triton, &name));
        if (kind != TRITONSERVER_INSTANCEGROUPKIND_GPU)
                return NULL;
        return kit_error(TRITONSERVER_ERROR_UNSUPPORTED,
                         "instance '%s' is KIND_GPU, but the onnxruntime backend of this build "
                         "runs on the CPU only",
                         name);
}

/* Returns the plan of its member's file, or of the model's. */
static TRITONSERVER_Error *find_plan(const struct model *model, TRITONBACKEND_ModelInstance *triton,
                                     const struct run_plan **ret) {
        KIT_TRY(members_find(&model->members, triton, ret));
        if (*ret != NULL)
                return NULL;
        if (model->session.onnx == NULL)
                return kit_error(
                        TRITONSERVER_ERROR_INVALID_ARG,
                        "model '%s' has an instance group without a member file, and no file "
                        "of its own",
                        model->kit.name);
        *ret = &model->plan;
        return NULL;
}

TRITONSERVER_Error *NESOBACKEND_ModelInstanceBatchRange(TRITONBACKEND_ModelInstance *triton,
                                                        uint32_t *min_rows, uint32_t *max_rows) {
        const struct run_instance *instance;
        void                      *state;

        KIT_TRY(TRITONBACKEND_ModelInstanceState(triton, &state));
        instance = state;
        if (instance->plan->session->n_rows > 0)
                *min_rows = *max_rows = (uint32_t)instance->plan->session->n_rows;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance *triton) {
        const struct run_plan *plan;
        struct run_instance   *instance;
        TRITONBACKEND_Model   *model;
        void                  *state;

        KIT_TRY(check_kind(triton));
        KIT_TRY(TRITONBACKEND_ModelInstanceModel(triton, &model));
        KIT_TRY(TRITONBACKEND_ModelState(model, &state));
        KIT_TRY(find_plan(state, triton, &plan));
        KIT_TRY(run_instance_new(plan, triton, &instance));
        return TRITONBACKEND_ModelInstanceSetState(triton, instance);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance *triton) {
        void *instance;

        KIT_TRY(TRITONBACKEND_ModelInstanceState(triton, &instance));
        run_instance_free(instance);
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance *triton,
                                                       TRITONBACKEND_Request      **requests,
                                                       const uint32_t               n_requests) {
        void *instance;

        KIT_TRY(TRITONBACKEND_ModelInstanceState(triton, &instance));
        return run_execute(instance, requests, n_requests);
}
