/* SPDX-License-Identifier: BSD-3-Clause */
/* The C API of backends and their models: TRITONBACKEND_Backend, TRITONBACKEND_Model. */
#include "api/api_backend_types.h"
#include "backend/backend_model.h"
#include "base/mem.h"
#include "gpu/gpu.h"
#include "observe/model_stats.h"
#include "triton/core/neso.h"

#include <string.h>

#define BACKEND(argument) ((struct backend *)(argument))
#define MODEL(argument) ((struct backend_model *)(argument))

/* ---- memory ---------------------------------------------------------------------------------- */

/* The manager is the backend itself, which has the server's GPUs. */
#define MANAGER(argument) ((struct backend *)(argument))

API_GETTER(TRITONBACKEND_BackendMemoryManager, TRITONBACKEND_Backend, backend,
           TRITONBACKEND_MemoryManager *, manager, (TRITONBACKEND_MemoryManager *)backend)

/* Ids of devices have more bits in the C API than in the driver. `use`: what the caller wants of its memory. */
static struct error *check_device(const struct gpus *gpus, int64_t device, const char *use) {
        if (gpus == NULL)
                return error_new(ERR_UNSUPPORTED, "GPU memory can not be %s: GPUs not supported",
                                 use);
        if (gpus_find(gpus, device) != NULL)
                return NULL;
        return error_new(ERR_INVALID_ARG, "GPU %lld is unknown: the GPUs are %s", (long long)device,
                         gpus_list(gpus));
}

static struct error *allocate(struct gpus *gpus, TRITONSERVER_MemoryType type, int64_t id,
                              size_t bytes, void **ret) {
        bool is_pinned;

        switch (type) {
        case TRITONSERVER_MEMORY_CPU:
                *ret = try_alloc(bytes);
                if (*ret != NULL)
                        return NULL;
                return error_new(ERR_UNAVAILABLE, "out of memory: %zu bytes", bytes);
        /* Ordinary memory without a pool: as in the reference server, the type stays what it was. */
        case TRITONSERVER_MEMORY_CPU_PINNED: return gpu_pinned_alloc(gpus, bytes, ret, &is_pinned);
        case TRITONSERVER_MEMORY_GPU:
                TRY(check_device(gpus, id, "allocated"));
                return gpu_alloc(gpus, (int)id, bytes, ret);
        }
        return error_new(ERR_INVALID_ARG, "%d is no type of memory", (int)type);
}

TRITONSERVER_Error *TRITONBACKEND_MemoryManagerAllocate(TRITONBACKEND_MemoryManager  *manager,
                                                        void                        **buffer,
                                                        const TRITONSERVER_MemoryType memory_type,
                                                        const int64_t  memory_type_id,
                                                        const uint64_t byte_size) {
        void *memory = NULL;

        API_NEEDS(manager, buffer);
        *buffer = NULL;
        API_TRY(allocate(MANAGER(manager)->gpus, memory_type, memory_type_id, (size_t)byte_size,
                         &memory));
        *buffer = memory;
        return NULL;
}

static struct error *deallocate(struct gpus *gpus, TRITONSERVER_MemoryType type, int64_t id,
                                void *memory) {
        switch (type) {
        case TRITONSERVER_MEMORY_CPU: free(memory); return NULL;
        case TRITONSERVER_MEMORY_CPU_PINNED: gpu_pinned_free(gpus, memory); return NULL;
        case TRITONSERVER_MEMORY_GPU:
                TRY(check_device(gpus, id, "freed"));
                gpu_free(gpus, (int)id, memory);
                return NULL;
        }
        return error_new(ERR_INVALID_ARG, "%d is no type of memory", (int)type);
}

TRITONSERVER_Error *TRITONBACKEND_MemoryManagerFree(TRITONBACKEND_MemoryManager  *manager,
                                                    void                         *buffer,
                                                    const TRITONSERVER_MemoryType memory_type,
                                                    const int64_t                 memory_type_id) {
        API_NEEDS(manager);
        return error_to_api(
                deallocate(MANAGER(manager)->gpus, memory_type, memory_type_id, buffer));
}

/* ---- copies ------------------------------------------------------------------------------------- */

#define COPIES_TOGETHER 32 /* enough for most batches; more wait several times */

static struct error *find_place(const struct gpus *gpus, TRITONSERVER_MemoryType type, int64_t id,
                                int *ret) {
        switch (type) {
        case TRITONSERVER_MEMORY_CPU:
        case TRITONSERVER_MEMORY_CPU_PINNED: *ret = GPU_HOST; return NULL;
        case TRITONSERVER_MEMORY_GPU:
                TRY(check_device(gpus, id, "copied"));
                *ret = (int)id;
                return NULL;
        }
        return error_new(ERR_INVALID_ARG, "%d is no type of memory", (int)type);
}

static struct error *read_copy(const struct gpus *gpus, const struct NESO_MemoryCopy *copy,
                               struct gpu_copy *ret) {
        *ret = (struct gpu_copy){ .to = copy->to, .from = copy->from, .bytes = copy->byte_size };
        TRY(find_place(gpus, copy->to_type, copy->to_id, &ret->to_device));
        return find_place(gpus, copy->from_type, copy->from_id, &ret->from_device);
}

static struct error *copy_all(struct gpus *gpus, const struct NESO_MemoryCopy *copies, uint32_t n) {
        struct gpu_copy some[COPIES_TOGETHER];

        while (n > 0) {
                uint32_t n_some = 0;

                for (; n > 0 && n_some < COPIES_TOGETHER; n--, copies++) {
                        TRY(read_copy(gpus, copies, &some[n_some]));
                        n_some += copies->byte_size > 0;
                }
                if (n_some > 0)
                        TRY(gpu_copy_all(gpus, some, n_some));
        }
        return NULL;
}

TRITONSERVER_Error *NESO_MemoryManagerCopy(TRITONBACKEND_MemoryManager  *manager,
                                           const struct NESO_MemoryCopy *copies, uint32_t n) {
        API_NEEDS(manager);
        if (n > 0)
                API_NEEDS(copies);
        return error_to_api(copy_all(MANAGER(manager)->gpus, copies, n));
}

/* ---- memory of other processes ------------------------------------------------------------------- */

static struct error *find_gpus(struct TRITONBACKEND_MemoryManager *manager, int64_t device,
                               struct gpus **ret) {
        *ret = MANAGER(manager)->gpus;
        return check_device(*ret, device, "shared");
}

static struct error *share(struct TRITONBACKEND_MemoryManager *manager, int64_t device,
                           const void *memory, const void *known, void *handle, uint64_t *offset) {
        struct gpus *gpus;

        TRY(find_gpus(manager, device, &gpus));
        if (known == NULL)
                return gpu_share(gpus, (int)device, memory, handle, offset);
        TRY(gpu_find_place(gpus, (int)device, memory, offset));
        memcpy(handle, known, GPU_SHARE_BYTES);
        return NULL;
}

_Static_assert(NESO_DEVICE_HANDLE_BYTES == GPU_SHARE_BYTES, "a handle is copied as it is");

struct TRITONSERVER_Error *NESO_DeviceMemoryShare(struct TRITONBACKEND_MemoryManager *manager,
                                                  int64_t device, const void *memory,
                                                  const void *known_handle, void *handle,
                                                  uint64_t *offset) {
        API_NEEDS(manager, memory, handle, offset);
        return error_to_api(share(manager, device, memory, known_handle, handle, offset));
}

static struct error *open_shared(struct TRITONBACKEND_MemoryManager *manager, int64_t device,
                                 const void *handle, uint64_t byte_size, void **base) {
        struct gpus *gpus;

        TRY(find_gpus(manager, device, &gpus));
        return gpu_open_shared(gpus, (int)device, handle, byte_size, base);
}

struct TRITONSERVER_Error *NESO_DeviceMemoryOpen(struct TRITONBACKEND_MemoryManager *manager,
                                                 int64_t device, const void *handle,
                                                 uint64_t byte_size, void **base) {
        API_NEEDS(manager, handle, base);
        return error_to_api(open_shared(manager, device, handle, byte_size, base));
}

static struct error *close_shared(struct TRITONBACKEND_MemoryManager *manager, int64_t device,
                                  void *base) {
        struct gpus *gpus;

        TRY(find_gpus(manager, device, &gpus));
        gpu_close_shared(gpus, (int)device, base);
        return NULL;
}

struct TRITONSERVER_Error *NESO_DeviceMemoryClose(struct TRITONBACKEND_MemoryManager *manager,
                                                  int64_t device, void *base) {
        API_NEEDS(manager, base);
        return error_to_api(close_shared(manager, device, base));
}

/* ---- backend --------------------------------------------------------------------------------- */

API_GETTER(TRITONBACKEND_BackendName, TRITONBACKEND_Backend, backend, const char *, name,
           BACKEND(backend)->name)

API_GETTER(TRITONBACKEND_BackendConfig, TRITONBACKEND_Backend, backend, TRITONSERVER_Message *,
           backend_config, message_to_api(BACKEND(backend)->config))

API_GETTER(TRITONBACKEND_BackendExecutionPolicy, TRITONBACKEND_Backend, backend,
           TRITONBACKEND_ExecutionPolicy, policy, BACKEND(backend)->policy)

TRITONSERVER_Error *TRITONBACKEND_BackendSetExecutionPolicy(TRITONBACKEND_Backend        *backend,
                                                            TRITONBACKEND_ExecutionPolicy policy) {
        API_NEEDS(backend);
        if (policy != TRITONBACKEND_EXECUTION_BLOCKING &&
            policy != TRITONBACKEND_EXECUTION_DEVICE_BLOCKING)
                return error_to_api(api_bad_value(__func__, "execution policy", policy));
        BACKEND(backend)->policy = policy;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_BackendArtifacts(TRITONBACKEND_Backend      *backend,
                                                   TRITONBACKEND_ArtifactType *artifact_type,
                                                   const char                **location) {
        API_NEEDS(backend, artifact_type, location);
        *artifact_type = TRITONBACKEND_ARTIFACT_FILESYSTEM;
        *location = BACKEND(backend)->directory;
        return NULL;
}

API_GETTER(TRITONBACKEND_BackendState, TRITONBACKEND_Backend, backend, void *, state,
           BACKEND(backend)->state)

API_SETTER(TRITONBACKEND_BackendSetState, TRITONBACKEND_Backend, backend, void *, state,
           BACKEND(backend)->state)

#define MAX_PREFERRED_GPUS 1024

TRITONSERVER_Error *TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(
        TRITONBACKEND_BackendAttribute      *backend_attributes,
        const TRITONSERVER_InstanceGroupKind kind, const uint64_t count, const uint64_t *device_ids,
        const uint64_t id_count) {
        static const Inference__ModelInstanceGroup__Kind kinds[] = {
                [TRITONSERVER_INSTANCEGROUPKIND_AUTO] =
                        INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_AUTO,
                [TRITONSERVER_INSTANCEGROUPKIND_CPU] =
                        INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_CPU,
                [TRITONSERVER_INSTANCEGROUPKIND_GPU] =
                        INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_GPU,
                [TRITONSERVER_INSTANCEGROUPKIND_MODEL] =
                        INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_MODEL,
        };
        int32_t gpus[MAX_PREFERRED_GPUS];

        API_NEEDS(backend_attributes);
        if ((size_t)kind >= ARRAY_LEN(kinds))
                return error_to_api(api_bad_value(__func__, "instance group kind", kind));
        if (count > INT32_MAX || id_count > MAX_PREFERRED_GPUS)
                return error_to_api(api_bad_value(__func__, "count", (long long)count));
        if (id_count > 0)
                API_NEEDS(device_ids);
        for (uint64_t i = 0; i < id_count; i++)
                gpus[i] = (int32_t)device_ids[i];
        backend_attributes_add_group((struct backend_attributes *)backend_attributes,
                                     &(struct preferred_group){ .kind = kinds[kind],
                                                                .count = (uint32_t)count,
                                                                .gpus = gpus,
                                                                .n_gpus = (size_t)id_count });
        return NULL;
}

API_SETTER(TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading,
           TRITONBACKEND_BackendAttribute, backend_attributes, bool, enabled,
           ((struct backend_attributes *)backend_attributes)->parallel_instances)

/* ---- model ----------------------------------------------------------------------------------- */

API_GETTER(TRITONBACKEND_ModelName, TRITONBACKEND_Model, model, const char *, name,
           MODEL(model)->name)

API_GETTER(TRITONBACKEND_ModelVersion, TRITONBACKEND_Model, model, uint64_t, version,
           (uint64_t)MODEL(model)->version)

TRITONSERVER_Error *TRITONBACKEND_ModelRepository(TRITONBACKEND_Model        *model,
                                                  TRITONBACKEND_ArtifactType *artifact_type,
                                                  const char                **location) {
        API_NEEDS(model, artifact_type, location);
        *artifact_type = TRITONBACKEND_ARTIFACT_FILESYSTEM;
        *location = MODEL(model)->directory;
        return NULL;
}

struct TRITONSERVER_Error *NESO_ModelUseDeviceMemory(struct TRITONBACKEND_Model *model, bool inputs,
                                                     bool outputs) {
        API_NEEDS(model);
        MODEL(model)->takes_device_inputs = inputs;
        MODEL(model)->writes_device_outputs = outputs;
        return NULL;
}

struct TRITONSERVER_Error *NESO_ModelParameterIsSent(struct TRITONBACKEND_Model *model,
                                                     const char *name, bool *is_sent) {
        const struct backend_model *m = MODEL(model);

        API_NEEDS(model, name, is_sent);
        *is_sent = false;
        for (size_t i = 0; i < m->n_sent_parameters; i++)
                *is_sent = *is_sent || strcmp(m->sent_parameters[i], name) == 0;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelConfig(TRITONBACKEND_Model   *model,
                                              const uint32_t         config_version,
                                              TRITONSERVER_Message **model_config) {
        API_NEEDS(model, model_config);
        return api_print_config(MODEL(model)->config, config_version, model_config);
}

API_GETTER(TRITONBACKEND_ModelAutoCompleteConfig, TRITONBACKEND_Model, model, bool,
           auto_complete_config, MODEL(model)->auto_complete)

TRITONSERVER_Error *TRITONBACKEND_ModelSetConfig(TRITONBACKEND_Model  *model,
                                                 const uint32_t        config_version,
                                                 TRITONSERVER_Message *model_config) {
        API_NEEDS(model, model_config);
        if (config_version != MODEL_CONFIG_VERSION)
                return error_to_api(error_new(ERR_UNSUPPORTED,
                                              "model configuration version %u not supported, "
                                              "supported versions are: 1",
                                              config_version));
        return error_to_api(
                backend_model_complete(MODEL(model), message_text(message_from_api(model_config))));
}

API_GETTER(TRITONBACKEND_ModelServer, TRITONBACKEND_Model, model, TRITONSERVER_Server *, server,
           MODEL(model)->server)

API_GETTER(TRITONBACKEND_ModelBackend, TRITONBACKEND_Model, model, TRITONBACKEND_Backend *, backend,
           (TRITONBACKEND_Backend *)MODEL(model)->backend)

API_GETTER(TRITONBACKEND_ModelState, TRITONBACKEND_Model, model, void *, state, MODEL(model)->state)

API_SETTER(TRITONBACKEND_ModelSetState, TRITONBACKEND_Model, model, void *, state,
           MODEL(model)->state)

#define MAX_MEMORY_USAGES 64

TRITONSERVER_Error *api_report_memory(const char *function, struct backend_model *model,
                                      const void *owner, TRITONSERVER_BufferAttributes **usage,
                                      uint32_t n) {
        struct memory_usage list[MAX_MEMORY_USAGES];

        if (n > MAX_MEMORY_USAGES)
                return error_to_api(api_bad_value(function, "number of memory usages", n));
        for (uint32_t i = 0; i < n; i++) {
                const struct buffer_attributes *a = buffer_attributes_from_api(usage[i]);

                if (a == NULL)
                        return error_to_api(api_null_argument(function, "usage"));
                list[i] = (struct memory_usage){ .type = memory_type_name(a->memory_type),
                                                 .id = a->memory_id,
                                                 .byte_size = a->byte_size };
        }
        if (!memory_reports_set(&model->memory, owner, list, n))
                return error_to_api(error_new(ERR_UNAVAILABLE,
                                              "out of memory for %u memory usages of model '%s'", n,
                                              model->name));
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelReportMemoryUsage(TRITONBACKEND_Model            *model,
                                                         TRITONSERVER_BufferAttributes **usage,
                                                         uint32_t usage_size) {
        API_NEEDS(model);
        if (usage_size > 0)
                API_NEEDS(usage);
        return api_report_memory(__func__, MODEL(model), model, usage, usage_size);
}
