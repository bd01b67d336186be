/* SPDX-License-Identifier: BSD-3-Clause */
/* A backend that calls every function of tritonbackend.h with right arguments. What it does in an
 * execution depends on the request's id; see inference.c. */
#define CALLER "backend"
#include "calls.h"
#include "triton/core/neso.h"
#include "triton/core/tritonbackend.h"

#include <time.h>

static int note; /* what is kept as a state */

static uint64_t now_ns(void) {
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- backend --------------------------------------------------------------------------------- */

static void call_copy(TRITONBACKEND_MemoryManager *manager, const char *from) {
        char                   to[64] = { 0 };
        struct NESO_MemoryCopy copy = { .to = to,
                                        .from = from,
                                        .byte_size = sizeof(to),
                                        .to_type = TRITONSERVER_MEMORY_CPU,
                                        .from_type = TRITONSERVER_MEMORY_CPU };

        OK(NESO_MemoryManagerCopy, manager, &copy, 1);
        EXPECT(memcmp(to, from, sizeof(to)) == 0);
}

/* There are no GPUs here. */
static void call_device_memory(TRITONBACKEND_MemoryManager *manager) {
        unsigned char handle[NESO_DEVICE_HANDLE_BYTES] = { 0 };
        uint64_t      offset;
        void         *base;

        REFUSED(UNSUPPORTED, NESO_DeviceMemoryShare, manager, 0, &offset, NULL, handle, &offset);
        REFUSED(UNSUPPORTED, NESO_DeviceMemoryOpen, manager, 0, handle, 1, &base);
        REFUSED(UNSUPPORTED, NESO_DeviceMemoryClose, manager, 0, handle);
}

static void call_memory(TRITONBACKEND_Backend *backend) {
        TRITONBACKEND_MemoryManager *manager;
        void                        *buffer = NULL;

        OK(TRITONBACKEND_BackendMemoryManager, backend, &manager);
        OK(TRITONBACKEND_MemoryManagerAllocate, manager, &buffer, TRITONSERVER_MEMORY_CPU, 0, 64);
        EXPECT(buffer != NULL);
        memset(buffer, 1, 64);
        call_copy(manager, buffer);
        OK(TRITONBACKEND_MemoryManagerFree, manager, buffer, TRITONSERVER_MEMORY_CPU, 0);
        call_device_memory(manager);
}

TRITONSERVER_Error *TRITONBACKEND_Initialize(TRITONBACKEND_Backend *backend) {
        TRITONBACKEND_ExecutionPolicy policy = TRITONBACKEND_EXECUTION_DEVICE_BLOCKING;
        TRITONBACKEND_ArtifactType    type;
        TRITONSERVER_Message         *config;
        const char                   *text = NULL;
        uint32_t                      major = 0, minor = 0;
        size_t                        size;
        void                         *state = NULL;

        OK(TRITONBACKEND_ApiVersion, &major, &minor);
        EXPECT(major == TRITONBACKEND_API_VERSION_MAJOR &&
               minor >= TRITONBACKEND_API_VERSION_MINOR);
        OK(TRITONBACKEND_BackendName, backend, &text);
        EXPECT(strcmp(text, "tensorrt") == 0);
        OK(TRITONBACKEND_BackendConfig, backend, &config);
        OK(TRITONSERVER_MessageSerializeToJson, config, &text, &size);
        EXPECT(memmem(text, size, "\"key\":\"value\"", 13) != NULL);
        OK(TRITONBACKEND_BackendSetExecutionPolicy, backend, TRITONBACKEND_EXECUTION_BLOCKING);
        OK(TRITONBACKEND_BackendExecutionPolicy, backend, &policy);
        EXPECT(policy == TRITONBACKEND_EXECUTION_BLOCKING);
        OK(TRITONBACKEND_BackendArtifacts, backend, &type, &text);
        EXPECT(type == TRITONBACKEND_ARTIFACT_FILESYSTEM && access(text, R_OK) == 0);
        OK(TRITONBACKEND_BackendSetState, backend, &note);
        OK(TRITONBACKEND_BackendState, backend, &state);
        EXPECT(state == &note);
        call_memory(backend);
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_GetBackendAttribute(
        TRITONBACKEND_Backend *backend, TRITONBACKEND_BackendAttribute *backend_attributes) {
        (void)backend;
        OK(TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup, backend_attributes,
           TRITONSERVER_INSTANCEGROUPKIND_CPU, 1, NULL, 0);
        OK(TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading, backend_attributes, true);
        return NULL;
}

/* ---- model ----------------------------------------------------------------------------------- */

static TRITONSERVER_BufferAttributes *new_usage(void) {
        TRITONSERVER_BufferAttributes *usage;

        OK(TRITONSERVER_BufferAttributesNew, &usage);
        OK(TRITONSERVER_BufferAttributesSetByteSize, usage, 4096);
        return usage;
}

static void call_config(TRITONBACKEND_Model *model) {
        TRITONSERVER_Message *config;
        bool                  completes = false;

        OK(TRITONBACKEND_ModelAutoCompleteConfig, model, &completes);
        EXPECT(completes);
        OK(TRITONBACKEND_ModelConfig, model, 1, &config);
        OK(TRITONBACKEND_ModelSetConfig, model, 1, config);
        OK(TRITONSERVER_MessageDelete, config);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model *model) {
        TRITONSERVER_BufferAttributes *usage = new_usage();
        TRITONBACKEND_ArtifactType     type;
        TRITONBACKEND_Backend         *backend;
        TRITONSERVER_Server           *server;
        const char                    *text = NULL;
        uint64_t                       version = 0;
        bool                           is_sent = true;
        void                          *state = NULL;

        OK(TRITONBACKEND_ModelName, model, &text);
        EXPECT(strcmp(text, "calls") == 0);
        OK(TRITONBACKEND_ModelVersion, model, &version);
        EXPECT(version == 1);
        OK(TRITONBACKEND_ModelRepository, model, &type, &text);
        EXPECT(type == TRITONBACKEND_ARTIFACT_FILESYSTEM && access(text, R_OK) == 0);
        call_config(model);
        OK(NESO_ModelUseDeviceMemory, model, false, false);
        OK(NESO_ModelParameterIsSent, model, "any", &is_sent);
        EXPECT(!is_sent);
        OK(TRITONBACKEND_ModelServer, model, &server);
        OK(TRITONBACKEND_ModelBackend, model, &backend);
        OK(TRITONBACKEND_BackendState, backend, &state);
        EXPECT(state == &note);
        OK(TRITONBACKEND_ModelSetState, model, &note);
        OK(TRITONBACKEND_ModelState, model, &state);
        EXPECT(state == &note);
        OK(TRITONBACKEND_ModelReportMemoryUsage, model, &usage, 1);
        OK(TRITONSERVER_BufferAttributesDelete, usage);
        return NULL;
}

/* ---- instance -------------------------------------------------------------------------------- */

static void call_group(TRITONBACKEND_ModelInstance *instance) {
        const char *text = NULL;
        uint32_t    n = 0;
        int64_t     id = 0;

        OK(TRITONBACKEND_ModelInstanceProfileCount, instance, &n);
        EXPECT(n == 1);
        OK(TRITONBACKEND_ModelInstanceProfileName, instance, 0, &text);
        EXPECT(strcmp(text, "profile") == 0);
        OK(TRITONBACKEND_ModelInstanceSecondaryDeviceCount, instance, &n);
        EXPECT(n == 1);
        OK(TRITONBACKEND_ModelInstanceSecondaryDeviceProperties, instance, 0, &text, &id);
        EXPECT(strcmp(text, "KIND_NVDLA") == 0 && id == 3);
}

static void call_shared(TRITONBACKEND_ModelInstance *instance) {
        static int object;
        void      *found = &object;

        OK(NESO_ModelInstanceSharedGet, instance, "object", &found);
        EXPECT(found == NULL);
        OK(NESO_ModelInstanceSharedSet, instance, "object", &object, NULL);
        OK(NESO_ModelInstanceSharedGet, instance, "object", &found);
        EXPECT(found == &object);
}

/* Outside an execution. */
static void call_clock(TRITONBACKEND_ModelInstance *instance) {
        uint64_t before_ns = now_ns(), start_ns = 0;

        OK(NESO_ModelInstanceExecutionStart, instance, &start_ns);
        EXPECT(before_ns <= start_ns && start_ns <= now_ns());
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance *instance) {
        TRITONSERVER_BufferAttributes *usage = new_usage();
        TRITONSERVER_InstanceGroupKind kind;
        TRITONBACKEND_Model           *model;
        TRITONSERVER_Message          *policy;
        const char                    *text = NULL, *file = "none";
        uint32_t                       index = 7;
        int32_t                        device = 7;
        bool                           is_passive = true;
        void                          *state = NULL;

        call_clock(instance);
        OK(TRITONBACKEND_ModelInstanceName, instance, &text);
        EXPECT(strncmp(text, "calls", 5) == 0);
        OK(NESO_ModelInstanceMember, instance, &text, &index, &file);
        EXPECT(strcmp(text, "calls_0") == 0 && index == 0 && file == NULL);
        call_shared(instance);
        OK(TRITONBACKEND_ModelInstanceKind, instance, &kind);
        EXPECT(kind == TRITONSERVER_INSTANCEGROUPKIND_CPU);
        OK(TRITONBACKEND_ModelInstanceDeviceId, instance, &device);
        EXPECT(device == 0);
        OK(TRITONBACKEND_ModelInstanceHostPolicy, instance, &policy);
        OK(TRITONBACKEND_ModelInstanceIsPassive, instance, &is_passive);
        EXPECT(!is_passive);
        OK(TRITONBACKEND_ModelInstanceModel, instance, &model);
        OK(TRITONBACKEND_ModelState, model, &state);
        EXPECT(state == &note);
        OK(TRITONBACKEND_ModelInstanceSetState, instance, &note);
        OK(TRITONBACKEND_ModelInstanceState, instance, &state);
        EXPECT(state == &note);
        OK(TRITONBACKEND_ModelInstanceReportMemoryUsage, instance, &usage, 1);
        OK(TRITONSERVER_BufferAttributesDelete, usage);
        call_group(instance);
        return NULL;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static void call_input(TRITONBACKEND_Request *request, TRITONBACKEND_Input *input) {
        TRITONBACKEND_Input           *by_index;
        TRITONSERVER_BufferAttributes *attributes;
        TRITONSERVER_MemoryType        memory = TRITONSERVER_MEMORY_CPU;
        TRITONSERVER_DataType          type;
        const char                    *name = NULL;
        const int64_t                 *shape;
        const void                    *buffer;
        uint32_t                       n_dims = 0, n_buffers = 0, n = 0;
        uint64_t                       size = 0;
        int64_t                        id = 0;

        OK(TRITONBACKEND_RequestInputCount, request, &n);
        OK(TRITONBACKEND_RequestInputName, request, 0, &name);
        EXPECT(n == 2 && strcmp(name, "INPUT0") == 0);
        OK(TRITONBACKEND_RequestInputByIndex, request, 0, &by_index);
        EXPECT(by_index == input);
        OK(TRITONBACKEND_InputProperties, input, &name, &type, &shape, &n_dims, &size, &n_buffers);
        EXPECT(n_dims == 1 && shape[0] == 4 && size == 16 && n_buffers == 1);
        OK(TRITONBACKEND_InputPropertiesForHostPolicy, input, "here", &name, &type, &shape, &n_dims,
           &size, &n_buffers);
        EXPECT(size == 16 && n_buffers == 1);
        OK(TRITONBACKEND_InputBuffer, input, 0, &buffer, &size, &memory, &id);
        OK(TRITONBACKEND_InputBufferForHostPolicy, input, "here", 0, &buffer, &size, &memory, &id);
        EXPECT(buffer != NULL && size == 16);
        OK(TRITONBACKEND_InputBufferAttributes, input, 0, &buffer, &attributes);
        OK(TRITONSERVER_BufferAttributesByteSize, attributes, &size);
        EXPECT(size == 16);
}

/* ---- requests -------------------------------------------------------------------------------- */

static void call_request(TRITONBACKEND_Request *request) {
        TRITONSERVER_ParameterType type;
        TRITONSERVER_MemoryType    memory = TRITONSERVER_MEMORY_CPU;
        const char                *text = NULL;
        const void                *value = NULL;
        bool                       is_cancelled = true;
        uint64_t                   number = 0;
        uint32_t                   n = 7;
        size_t                     size = 16;
        int64_t                    id = 0;

        OK(TRITONBACKEND_RequestFlags, request, &n);
        EXPECT(n == 3);
        OK(TRITONBACKEND_RequestIsCancelled, request, &is_cancelled);
        EXPECT(!is_cancelled);
        OK(TRITONBACKEND_InferenceRequestTimeoutMicroseconds, request, &number);
        EXPECT(number == 60000000);
        OK(TRITONBACKEND_RequestParameterCount, request, &n);
        EXPECT(n == 4);
        OK(TRITONBACKEND_RequestParameter, request, 0, &text, &type, &value);
        EXPECT(strcmp(text, "text") == 0 && strcmp(value, "value") == 0);
        OK(TRITONBACKEND_RequestOutputCount, request, &n);
        OK(TRITONBACKEND_RequestOutputName, request, 0, &text);
        EXPECT(n == 1 && strcmp(text, "OUTPUT0") == 0);
        OK(TRITONBACKEND_RequestOutputBufferProperties, request, "OUTPUT0", &size, &memory, &id);
}

static void call_trace(TRITONBACKEND_Request *request) {
        TRITONSERVER_InferenceTrace *trace = NULL;

        OK(TRITONBACKEND_RequestTrace, request, &trace);
        EXPECT(trace != NULL);
        OK(TRITONSERVER_InferenceTraceReportActivity, trace, now_ns(), "CALLS");
}

/* Each request is a sequence of its own: it finds zeros. */
static void call_states(TRITONBACKEND_Request *request) {
        static const int64_t           shape[] = { 2 };
        TRITONBACKEND_State           *state;
        TRITONBACKEND_Input           *input;
        TRITONSERVER_BufferAttributes *attributes;
        TRITONSERVER_MemoryType        memory = TRITONSERVER_MEMORY_GPU;
        const void                    *found;
        void                          *buffer = NULL;
        uint64_t                       size = 0;
        int64_t                        id = 7;

        OK(TRITONBACKEND_RequestInput, request, "STATE_IN", &input);
        OK(TRITONBACKEND_InputBuffer, input, 0, &found, &size, &memory, &id);
        EXPECT(size == 8 && memcmp(found, "\0\0\0\0\0\0\0", 8) == 0);
        OK(TRITONBACKEND_StateNew, &state, request, "STATE_OUT", TRITONSERVER_TYPE_FP32, shape, 1);
        OK(TRITONBACKEND_StateBuffer, state, &buffer, 8, &memory, &id);
        EXPECT(buffer != NULL && buffer != found && memory == TRITONSERVER_MEMORY_CPU && id == 0);
        memset(buffer, 1, 8);
        OK(TRITONBACKEND_StateBufferAttributes, state, &attributes);
        OK(TRITONSERVER_BufferAttributesByteSize, attributes, &size);
        EXPECT(size == 8);
        OK(TRITONBACKEND_StateUpdate, state);
        REFUSED(INVALID_ARG, TRITONBACKEND_StateUpdate, state);
        REFUSED(INVALID_ARG, TRITONBACKEND_StateNew, &state, request, "STATE_IN",
                TRITONSERVER_TYPE_FP32, shape, 1);
}

/* ---- responses ------------------------------------------------------------------------------- */

static void call_output(TRITONBACKEND_Response *response, TRITONBACKEND_Input *input) {
        static const int64_t           shape[] = { 4 };
        TRITONBACKEND_Output          *output;
        TRITONSERVER_BufferAttributes *attributes;
        TRITONSERVER_MemoryType        memory = TRITONSERVER_MEMORY_CPU;
        TRITONSERVER_DataType          type;
        const int64_t                 *found;
        const char                    *name = NULL;
        const void                    *from;
        void                          *to;
        uint64_t                       size, n_dims = 0;
        int64_t                        id = 0;

        OK(TRITONBACKEND_InputBuffer, input, 0, &from, &size, &memory, &id);
        OK(TRITONBACKEND_ResponseOutput, response, &output, "OUTPUT0", TRITONSERVER_TYPE_FP32,
           shape, 1);
        OK(TRITONBACKEND_OutputBuffer, output, &to, size, &memory, &id);
        memcpy(to, from, size);
        OK(TRITONBACKEND_OutputBufferAttributes, output, &attributes);
        OK(TRITONBACKEND_InferenceResponseOutput, response, 0, &name, &type, &found, &n_dims);
        EXPECT(strcmp(name, "OUTPUT0") == 0 && n_dims == 1 && found[0] == 4);
        OK(TRITONBACKEND_InferenceResponseOutputByName, response, "OUTPUT0", &type, &found,
           &n_dims);
        EXPECT(type == TRITONSERVER_TYPE_FP32 && n_dims == 1);
}

static void call_response(TRITONBACKEND_Request *request, TRITONBACKEND_Input *input) {
        TRITONBACKEND_Response *response;

        OK(TRITONBACKEND_ResponseNew, &response, request);
        OK(TRITONBACKEND_ResponseDelete, response);
        OK(TRITONBACKEND_ResponseNew, &response, request);
        OK(TRITONBACKEND_ResponseSetStringParameter, response, "text", "value");
        OK(TRITONBACKEND_ResponseSetIntParameter, response, "int", 1);
        OK(TRITONBACKEND_ResponseSetBoolParameter, response, "bool", true);
        OK(TRITONBACKEND_ResponseSetDoubleParameter, response, "double", 0.5);
        call_output(response, input);
        OK(TRITONBACKEND_ResponseSend, response, 0, NULL);
}

static void call_record(TRITONBACKEND_ModelInstance   *instance,
                        TRITONBACKEND_ResponseFactory *factory) {
        TRITONBACKEND_ModelInstanceResponseStatistics *record;

        OK(TRITONBACKEND_ModelInstanceResponseStatisticsNew, &record);
        OK(TRITONBACKEND_ModelInstanceResponseStatisticsSetModelInstance, record, instance);
        OK(TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseFactory, record, factory);
        OK(TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseStart, record, now_ns());
        OK(TRITONBACKEND_ModelInstanceResponseStatisticsSetComputeOutputStart, record, now_ns());
        OK(TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseEnd, record, now_ns());
        OK(TRITONBACKEND_ModelInstanceResponseStatisticsSetError, record, NULL);
        OK(TRITONBACKEND_ModelInstanceReportResponseStatistics, record);
        OK(TRITONBACKEND_ModelInstanceResponseStatisticsDelete, record);
}

static void on_room(void *userp) {
        (void)userp;
}

/* The last response, after the release. */
static void call_factory(TRITONBACKEND_ModelInstance   *instance,
                         TRITONBACKEND_ResponseFactory *factory) {
        TRITONBACKEND_Response *response;
        bool                    is_cancelled = true, is_waiting = true;
        uint32_t                room = 0;

        OK(TRITONBACKEND_ResponseFactoryIsCancelled, factory, &is_cancelled);
        EXPECT(!is_cancelled);
        OK(NESO_ResponseFactoryRoom, factory, &room);
        EXPECT(room > 0);
        OK(NESO_ResponseFactoryWhenRoom, factory, on_room, NULL, &is_waiting);
        EXPECT(!is_waiting);
        OK(TRITONBACKEND_ResponseNewFromFactory, &response, factory);
        OK(TRITONBACKEND_ResponseSend, response, 0, NULL);
        call_record(instance, factory);
        OK(TRITONBACKEND_ResponseFactorySendFlags, factory, TRITONSERVER_RESPONSE_COMPLETE_FINAL);
        OK(TRITONBACKEND_ResponseFactoryDelete, factory);
}

/* ---- executions ------------------------------------------------------------------------------ */

static void on_cancelled(void *userp) {
        (void)userp;
        EXPECT(false);
}

static void execute(TRITONBACKEND_ModelInstance *instance, TRITONBACKEND_Request *request) {
        TRITONBACKEND_ResponseFactory *factory;
        struct NESO_CancelWatch       *watch;
        TRITONBACKEND_Input           *input;
        const char                    *id = NULL, *text = NULL;
        uint64_t                       number = 0, start = now_ns();

        OK(TRITONBACKEND_RequestId, request, &id);
        if (strcmp(id, "number") == 0) {
                OK(TRITONBACKEND_RequestCorrelationId, request, &number);
                EXPECT(number == 5);
        } else {
                OK(TRITONBACKEND_RequestCorrelationIdString, request, &text);
                EXPECT(strcmp(text, "sequence") == 0);
                call_trace(request);
        }
        OK(TRITONBACKEND_RequestInput, request, "INPUT0", &input);
        call_input(request, input);
        call_request(request);
        call_states(request);
        OK(TRITONBACKEND_ResponseFactoryNew, &factory, request);
        OK(NESO_CancelWatchNew, &watch, request, on_cancelled, NULL);
        call_response(request, input);
        OK(TRITONBACKEND_ModelInstanceReportStatistics, instance, request, true, start, start,
           now_ns(), now_ns());
        OK(TRITONBACKEND_ModelInstanceReportBatchStatistics, instance, 1, start, start, now_ns(),
           now_ns());
        OK(TRITONBACKEND_RequestRelease, request, TRITONSERVER_REQUEST_RELEASE_ALL);
        OK(NESO_CancelWatchDelete, watch); /* outlives the request */
        call_factory(instance, factory);
}

TRITONBACKEND_ISPEC TRITONSERVER_Error *NESOBACKEND_ModelInstanceStacks(
        TRITONBACKEND_ModelInstance *instance, TRITONSERVER_Message **stacks);

TRITONSERVER_Error *NESOBACKEND_ModelInstanceStacks(TRITONBACKEND_ModelInstance *instance,
                                                    TRITONSERVER_Message       **stacks) {
        static const char json[] = "{\"stacks\":\"nowhere\"}";

        (void)instance;
        return TRITONSERVER_MessageNewFromSerializedJson(stacks, json, sizeof(json) - 1);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance *instance,
                                                       TRITONBACKEND_Request      **requests,
                                                       const uint32_t               request_count) {
        for (uint32_t i = 0; i < request_count; i++)
                execute(instance, requests[i]);
        return NULL;
}
