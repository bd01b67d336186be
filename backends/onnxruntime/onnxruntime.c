/* SPDX-License-Identifier: BSD-3-Clause */
/* The entry points of the onnxruntime backend: ONNX models on the CPU and on GPUs.
 *
 * Instances of KIND_GPU take tensors where they lie (device_run.h), those of other kinds in main memory.
 *
 * Backend state: struct ort. Model state: struct model below. Instance state: struct run_instance.
 */
#include "kit/model.h"
#include "kit/scratch.h"
#include "onnxruntime/gpu_providers.h"
#include "onnxruntime/members.h"
#include "onnxruntime/onnx_config_check.h"
#include "onnxruntime/onnx_config_complete.h"
#include "onnxruntime/onnx_session.h"
#include "onnxruntime/ort.h"
#include "onnxruntime/run.h"

#include <stdlib.h>
#include <string.h>

KIT_BACKEND_INLINE_SAFE;
KIT_BACKEND_MEMORY_BY_KIND;

/* What serves the instances on one GPU. */
struct on_gpu {
        struct session  session;
        struct run_plan plan;
};

struct model {
        struct kit_model kit;
        struct session   session; /* on the CPU, or on the first GPU if all instances are on GPUs */
        struct run_plan  plan;
        struct members
                members;     /* with members, the two above serve only instances that have none */
        struct on_gpu *gpus; /* owned; of the other GPUs */
        size_t         n_gpus;
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

/* Models without a kind run on GPUs where the library can use them. */
TRITONSERVER_Error *TRITONBACKEND_GetBackendAttribute(TRITONBACKEND_Backend          *backend,
                                                      TRITONBACKEND_BackendAttribute *attributes) {
        void *ort;

        KIT_TRY(TRITONBACKEND_BackendState(backend, &ort));
        if (!gpu_providers_exist(ort))
                KIT_TRY(TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(
                        attributes, TRITONSERVER_INSTANCEGROUPKIND_CPU, 0, NULL, 0));
        return TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading(attributes, true);
}

static void free_model(struct model *model) {
        for (size_t i = 0; i < model->n_gpus; i++) {
                run_plan_done(&model->gpus[i].plan);
                session_close(&model->gpus[i].session);
        }
        free(model->gpus);
        members_close(&model->members);
        run_plan_done(&model->plan);
        session_close(&model->session);
        kit_model_close(&model->kit);
        free(model);
}

/* ---- devices --------------------------------------------------------------------------------- */

/* The next device of the model's instance groups that no session is on; ON_CPU when there is none. Devices
 * come in the order of the groups. */
static int next_device(const struct model *model) {
        const struct kit_json_value *groups =
                kit_json_find(kit_json_root(model->kit.config), "instance_group");

        for (const struct kit_json_value *g = groups != NULL ? groups->first : NULL; g != NULL;
             g = g->next) {
                const struct kit_json_value *gpus = kit_json_find(g, "gpus");

                if (strcmp(kit_json_string(kit_json_find(g, "kind"), ""), "KIND_GPU") != 0)
                        continue;
                for (const struct kit_json_value *at = gpus != NULL ? gpus->first : NULL;
                     at != NULL; at = at->next) {
                        int  device = (int)kit_json_int(at, ON_CPU);
                        bool is_open =
                                model->session.ort != NULL && model->session.device == device;

                        for (size_t i = 0; i < model->n_gpus; i++)
                                is_open = is_open || model->gpus[i].session.device == device;
                        if (!is_open)
                                return device;
                }
        }
        return ON_CPU;
}

static bool has_cpu_group(const struct kit_model *model) {
        const struct kit_json_value *groups =
                kit_json_find(kit_json_root(model->config), "instance_group");

        for (const struct kit_json_value *g = groups != NULL ? groups->first : NULL; g != NULL;
             g = g->next)
                if (strcmp(kit_json_string(kit_json_find(g, "kind"), ""), "KIND_GPU") != 0)
                        return true;
        return groups == NULL || groups->first == NULL;
}

static TRITONSERVER_Error *open_on(const struct ort *ort, const struct model *model, int device,
                                   struct on_gpu *ret) {
        KIT_TRY(session_open(ort, &model->kit, device, &ret->session));
        return run_plan_init(&ret->plan, &model->kit, &ret->session);
}

/* An upper limit: a device may be in several groups. */
static size_t count_devices(const struct kit_model *model) {
        const struct kit_json_value *groups =
                kit_json_find(kit_json_root(model->config), "instance_group");
        size_t n = 0;

        for (const struct kit_json_value *g = groups != NULL ? groups->first : NULL; g != NULL;
             g = g->next) {
                const struct kit_json_value *gpus = kit_json_find(g, "gpus");

                for (const struct kit_json_value *at = gpus != NULL ? gpus->first : NULL;
                     at != NULL; at = at->next)
                        n++;
        }
        return n;
}

/* The array never moves: plans refer to the sessions in it. */
static TRITONSERVER_Error *open_gpus(const struct ort *ort, struct model *model) {
        size_t n = count_devices(&model->kit);
        int    device;

        if (n == 0)
                return NULL;
        model->gpus = kit_alloc_array(n, sizeof(*model->gpus));
        if (model->gpus == NULL)
                return kit_error_no_memory(n * sizeof(*model->gpus), "the GPUs of a model");
        while (model->n_gpus < n && (device = next_device(model)) != ON_CPU)
                KIT_TRY(open_on(ort, model, device, &model->gpus[model->n_gpus++]));
        return NULL;
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
        KIT_TRY(session_open(ort, &model->kit,
                             has_cpu_group(&model->kit) ? ON_CPU : next_device(model),
                             &model->session));
        KIT_TRY(TRITONBACKEND_ModelAutoCompleteConfig(triton, &is_completed));
        if (is_completed)
                KIT_TRY(onnx_config_complete(&model->kit, &model->session));
        KIT_TRY(onnx_config_check(&model->kit, &model->session));
        KIT_TRY(run_plan_init(&model->plan, &model->kit, &model->session));
        return open_gpus(ort, model);
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

static TRITONSERVER_Error *find_device(TRITONBACKEND_ModelInstance *triton, int *ret) {
        TRITONSERVER_InstanceGroupKind kind;

        KIT_TRY(TRITONBACKEND_ModelInstanceKind(triton, &kind));
        *ret = ON_CPU;
        if (kind != TRITONSERVER_INSTANCEGROUPKIND_GPU)
                return NULL;
        return TRITONBACKEND_ModelInstanceDeviceId(triton, ret);
}

/* Returns the plan of its member's file, or that of the model on the instance's device. */
static TRITONSERVER_Error *find_plan(const struct model *model, TRITONBACKEND_ModelInstance *triton,
                                     const struct run_plan **ret) {
        int device;

        KIT_TRY(find_device(triton, &device));
        KIT_TRY(members_find(&model->members, triton, ret));
        if (*ret != NULL && device != ON_CPU)
                return kit_error(TRITONSERVER_ERROR_UNSUPPORTED,
                                 "model '%s' has a member file for instances on a GPU; members are "
                                 "on the CPU only",
                                 model->kit.name);
        if (*ret != NULL)
                return NULL;
        if (model->session.onnx == NULL)
                return kit_error(
                        TRITONSERVER_ERROR_INVALID_ARG,
                        "model '%s' has an instance group without a member file, and no file "
                        "of its own",
                        model->kit.name);
        if (model->session.device == device)
                *ret = &model->plan;
        for (size_t i = 0; i < model->n_gpus && *ret == NULL; i++)
                if (model->gpus[i].session.device == device)
                        *ret = &model->gpus[i].plan;
        if (*ret == NULL)
                return kit_error(TRITONSERVER_ERROR_UNAVAILABLE,
                                 "model '%s' was loaded without instances on GPU %d: load it again",
                                 model->kit.name, device);
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
