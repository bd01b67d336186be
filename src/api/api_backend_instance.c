/* SPDX-License-Identifier: BSD-3-Clause */
/* The C API of model instances: TRITONBACKEND_ModelInstance. */
#include "api/api_backend_types.h"
#include "backend/backend_instance.h"
#include "triton/core/neso.h"

#define INSTANCE(argument) ((struct backend_instance *)(argument))

API_GETTER(TRITONBACKEND_ModelInstanceName, TRITONBACKEND_ModelInstance, instance, const char *,
           name, INSTANCE(instance)->name)

struct TRITONSERVER_Error *NESO_ModelInstanceMember(struct TRITONBACKEND_ModelInstance *instance,
                                                    const char **group_name, uint32_t *index,
                                                    const char **file) {
        API_NEEDS(instance, group_name, index, file);
        *group_name = INSTANCE(instance)->group->name;
        *index = INSTANCE(instance)->executor.index;
        *file = INSTANCE(instance)->file;
        return NULL;
}

struct TRITONSERVER_Error *NESO_ModelInstanceSharedGet(struct TRITONBACKEND_ModelInstance *instance,
                                                       const char *key, void **object) {
        API_NEEDS(instance, key, object);
        *object = shared_objects_find(&INSTANCE(instance)->model->shared,
                                      INSTANCE(instance)->shared, key);
        return NULL;
}

struct TRITONSERVER_Error *NESO_ModelInstanceSharedSet(struct TRITONBACKEND_ModelInstance *instance,
                                                       const char *key, void *object,
                                                       NESO_SharedDestroyFn_t destroy) {
        API_NEEDS(instance, key, object);
        return error_to_api(shared_objects_add(&INSTANCE(instance)->model->shared,
                                               INSTANCE(instance)->shared, key, object, destroy));
}

API_GETTER(TRITONBACKEND_ModelInstanceKind, TRITONBACKEND_ModelInstance, instance,
           TRITONSERVER_InstanceGroupKind, kind, INSTANCE(instance)->kind)

API_GETTER(TRITONBACKEND_ModelInstanceDeviceId, TRITONBACKEND_ModelInstance, instance, int32_t,
           device_id, INSTANCE(instance)->device_id)

API_GETTER(TRITONBACKEND_ModelInstanceHostPolicy, TRITONBACKEND_ModelInstance, instance,
           TRITONSERVER_Message *, host_policy, message_to_api(INSTANCE(instance)->host_policy))

API_GETTER(TRITONBACKEND_ModelInstanceIsPassive, TRITONBACKEND_ModelInstance, instance, bool,
           is_passive, INSTANCE(instance)->group->passive)

API_GETTER(TRITONBACKEND_ModelInstanceProfileCount, TRITONBACKEND_ModelInstance, instance, uint32_t,
           count, (uint32_t)INSTANCE(instance)->group->n_profile)

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceProfileName(TRITONBACKEND_ModelInstance *instance,
                                                           const uint32_t               index,
                                                           const char **profile_name) {
        const Inference__ModelInstanceGroup *group;

        API_NEEDS(instance, profile_name);
        group = INSTANCE(instance)->group;
        *profile_name = NULL;
        if (index >= group->n_profile)
                return error_to_api(error_new(ERR_INVALID_ARG,
                                              "out of bounds index %u: instance has %zu profiles",
                                              index, group->n_profile));
        *profile_name = group->profile[index];
        return NULL;
}

API_GETTER(TRITONBACKEND_ModelInstanceSecondaryDeviceCount, TRITONBACKEND_ModelInstance, instance,
           uint32_t, count, (uint32_t)INSTANCE(instance)->group->n_secondary_devices)

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceSecondaryDeviceProperties(
        TRITONBACKEND_ModelInstance *instance, uint32_t index, const char **kind, int64_t *id) {
        const Inference__ModelInstanceGroup *group;

        API_NEEDS(instance, kind, id);
        group = INSTANCE(instance)->group;
        if (index >= group->n_secondary_devices)
                return error_to_api(error_new(ERR_INVALID_ARG,
                                              "out of bounds index %u: instance has %zu secondary "
                                              "devices",
                                              index, group->n_secondary_devices));
        *kind = "KIND_NVDLA"; /* the only kind */
        *id = group->secondary_devices[index]->device_id;
        return NULL;
}

API_GETTER(TRITONBACKEND_ModelInstanceModel, TRITONBACKEND_ModelInstance, instance,
           TRITONBACKEND_Model *, model, (TRITONBACKEND_Model *)INSTANCE(instance)->model)

API_GETTER(TRITONBACKEND_ModelInstanceState, TRITONBACKEND_ModelInstance, instance, void *, state,
           INSTANCE(instance)->state)

API_SETTER(TRITONBACKEND_ModelInstanceSetState, TRITONBACKEND_ModelInstance, instance, void *,
           state, INSTANCE(instance)->state)

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReportMemoryUsage(
        TRITONBACKEND_ModelInstance *instance, TRITONSERVER_BufferAttributes **usage,
        uint32_t usage_size) {
        API_NEEDS(instance);
        if (usage_size > 0)
                API_NEEDS(usage);
        return api_report_memory(__func__, INSTANCE(instance)->model, instance, usage, usage_size);
}

API_GETTER(NESO_ModelInstanceExecutionStart, TRITONBACKEND_ModelInstance, instance, uint64_t,
           start_ns, backend_instance_execution_start(INSTANCE(instance)))

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReportStatistics(
        TRITONBACKEND_ModelInstance *instance, TRITONBACKEND_Request *request, const bool success,
        const uint64_t exec_start_ns, const uint64_t compute_start_ns,
        const uint64_t compute_end_ns, const uint64_t exec_end_ns) {
        struct request_times times;

        API_NEEDS(instance, request);
        times.exec_start_ns = exec_start_ns;
        times.compute_start_ns = compute_start_ns;
        times.compute_end_ns = compute_end_ns;
        times.exec_end_ns = exec_end_ns;
        backend_instance_report(INSTANCE(instance), (struct request *)request, success, &times);
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReportBatchStatistics(
        TRITONBACKEND_ModelInstance *instance, const uint64_t batch_size,
        const uint64_t exec_start_ns, const uint64_t compute_start_ns,
        const uint64_t compute_end_ns, const uint64_t exec_end_ns) {
        struct request_times times;

        API_NEEDS(instance);
        times.exec_start_ns = exec_start_ns;
        times.compute_start_ns = compute_start_ns;
        times.compute_end_ns = compute_end_ns;
        times.exec_end_ns = exec_end_ns;
        backend_instance_report_batch(INSTANCE(instance), batch_size, &times);
        return NULL;
}
