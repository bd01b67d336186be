/* SPDX-License-Identifier: BSD-3-Clause */
#include "program.h"

#include <pthread.h>

static const float values[4] = { 1, 2, 3, 4 };

/* ---- what the server calls ------------------------------------------------------------------- */

#define MAX_RESPONSES 8

/* Guarded by the lock. */
static struct {
        pthread_mutex_t                        lock;
        pthread_cond_t                         changed;
        struct TRITONSERVER_InferenceResponse *responses[MAX_RESPONSES];
        unsigned                               n_responses, n_finals, n_releases, n_traces;
        unsigned                               n_custom; /* activities of the backend's */
} seen = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static void count(unsigned *counter) {
        pthread_mutex_lock(&seen.lock);
        ++*counter;
        pthread_cond_broadcast(&seen.changed);
        pthread_mutex_unlock(&seen.lock);
}

static void await(const unsigned *counter, unsigned n) {
        pthread_mutex_lock(&seen.lock);
        while (*counter < n)
                pthread_cond_wait(&seen.changed, &seen.lock);
        pthread_mutex_unlock(&seen.lock);
}

static TRITONSERVER_Error *allocate(struct TRITONSERVER_ResponseAllocator *allocator,
                                    const char *name, size_t size, TRITONSERVER_MemoryType type,
                                    int64_t id, void *userp, void **buffer, void **buffer_userp,
                                    TRITONSERVER_MemoryType *actual_type, int64_t *actual_id) {
        (void)allocator, (void)name, (void)type, (void)id, (void)userp;
        *buffer = malloc(size + 1);
        *buffer_userp = NULL;
        *actual_type = TRITONSERVER_MEMORY_CPU;
        *actual_id = 0;
        return NULL;
}

static TRITONSERVER_Error *give_back(struct TRITONSERVER_ResponseAllocator *allocator, void *buffer,
                                     void *buffer_userp, size_t size, TRITONSERVER_MemoryType type,
                                     int64_t id) {
        (void)allocator, (void)buffer_userp, (void)size, (void)type, (void)id;
        free(buffer);
        return NULL;
}

static TRITONSERVER_Error *describe(struct TRITONSERVER_ResponseAllocator *allocator,
                                    const char                            *name,
                                    struct TRITONSERVER_BufferAttributes *attributes, void *userp,
                                    void *buffer_userp) {
        (void)allocator, (void)name, (void)attributes, (void)userp, (void)buffer_userp;
        return NULL;
}

static TRITONSERVER_Error *answer_query(struct TRITONSERVER_ResponseAllocator *allocator,
                                        void *userp, const char *name, size_t *size,
                                        TRITONSERVER_MemoryType *type, int64_t *id) {
        (void)allocator, (void)userp, (void)name, (void)size;
        *type = TRITONSERVER_MEMORY_CPU;
        *id = 0;
        return NULL;
}

static void on_response(struct TRITONSERVER_InferenceResponse *response, const uint32_t flags,
                        void *userp) {
        (void)userp;
        if (response != NULL) {
                pthread_mutex_lock(&seen.lock);
                EXPECT(seen.n_responses < MAX_RESPONSES);
                seen.responses[seen.n_responses++] = response;
                pthread_mutex_unlock(&seen.lock);
        }
        if ((flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) != 0)
                count(&seen.n_finals);
}

static void on_release(struct TRITONSERVER_InferenceRequest *request, const uint32_t flags,
                       void *userp) {
        (void)request, (void)flags, (void)userp;
        count(&seen.n_releases);
}

static void on_activity(struct TRITONSERVER_InferenceTrace *trace,
                        TRITONSERVER_InferenceTraceActivity activity, uint64_t ns, void *userp) {
        const char *name = NULL;

        (void)ns, (void)userp;
        if (activity != TRITONSERVER_TRACE_CUSTOM_ACTIVITY)
                return;
        OK(NESO_InferenceTraceCustomActivity, trace, &name);
        EXPECT(strcmp(name, "CALLS") == 0);
        count(&seen.n_custom);
}

/* The signature of TRITONSERVER_InferenceTraceTensorActivityFn_t. */
static void on_tensor(struct TRITONSERVER_InferenceTrace *trace,
                      TRITONSERVER_InferenceTraceActivity activity, const char *name,
                      TRITONSERVER_DataType type, const void *base, size_t size,
                      const int64_t *shape, uint64_t n_dims, TRITONSERVER_MemoryType memory_type,
                      int64_t memory_id, void *userp) {
        (void)trace, (void)activity, (void)name, (void)type, (void)base, (void)size, (void)shape;
        (void)n_dims, (void)memory_type, (void)memory_id, (void)userp;
}

/* The last moment at which it is there. */
static void call_trace_of_request(struct TRITONSERVER_InferenceTrace *trace) {
        const char *name = NULL, *id = NULL;
        int64_t     version = 0;

        OK(TRITONSERVER_InferenceTraceModelName, trace, &name);
        OK(TRITONSERVER_InferenceTraceModelVersion, trace, &version);
        OK(TRITONSERVER_InferenceTraceRequestId, trace, &id);
        EXPECT(strcmp(name, "calls") == 0 && version == 1 && strcmp(id, "text") == 0);
}

static void on_trace_release(struct TRITONSERVER_InferenceTrace *trace, void *userp) {
        (void)userp;
        call_trace_of_request(trace);
        OK(TRITONSERVER_InferenceTraceDelete, trace);
        count(&seen.n_traces);
}

/* ---- requests -------------------------------------------------------------------------------- */

static void call_inputs(struct TRITONSERVER_InferenceRequest *request) {
        static const int64_t                  shape[] = { 4 };
        struct TRITONSERVER_BufferAttributes *attributes;

        OK(TRITONSERVER_InferenceRequestAddRawInput, request, "INPUT0");
        OK(TRITONSERVER_InferenceRequestRemoveInput, request, "INPUT0");
        OK(TRITONSERVER_InferenceRequestAddInput, request, "INPUT0", TRITONSERVER_TYPE_FP32, shape,
           1);
        OK(TRITONSERVER_InferenceRequestRemoveAllInputs, request);
        OK(TRITONSERVER_InferenceRequestAddInput, request, "INPUT0", TRITONSERVER_TYPE_FP32, shape,
           1);
        OK(TRITONSERVER_InferenceRequestAppendInputData, request, "INPUT0", values, 16,
           TRITONSERVER_MEMORY_CPU, 0);
        OK(TRITONSERVER_InferenceRequestRemoveAllInputData, request, "INPUT0");
        OK(TRITONSERVER_BufferAttributesNew, &attributes);
        OK(TRITONSERVER_BufferAttributesSetByteSize, attributes, 16);
        OK(TRITONSERVER_InferenceRequestAppendInputDataWithBufferAttributes, request, "INPUT0",
           values, attributes);
        OK(TRITONSERVER_BufferAttributesDelete, attributes);
        OK(TRITONSERVER_InferenceRequestAppendInputDataWithHostPolicy, request, "INPUT0", values,
           16, TRITONSERVER_MEMORY_CPU, 0, "here");
}

static void call_outputs(struct TRITONSERVER_InferenceRequest *request) {
        OK(TRITONSERVER_InferenceRequestAddRequestedOutput, request, "OUTPUT0");
        OK(TRITONSERVER_InferenceRequestRemoveRequestedOutput, request, "OUTPUT0");
        OK(TRITONSERVER_InferenceRequestRemoveAllRequestedOutputs, request);
        OK(TRITONSERVER_InferenceRequestAddRequestedOutput, request, "OUTPUT0");
}

static void call_settings(struct TRITONSERVER_InferenceRequest *request) {
        const char *text = NULL;
        uint64_t    number = 0;
        uint32_t    flags = 7, priority = 7;

        OK(TRITONSERVER_InferenceRequestSetFlags, request,
           TRITONSERVER_REQUEST_FLAG_SEQUENCE_START | TRITONSERVER_REQUEST_FLAG_SEQUENCE_END);
        OK(TRITONSERVER_InferenceRequestFlags, request, &flags);
        EXPECT(flags == 3);
        OK(TRITONSERVER_InferenceRequestSetPriorityUInt64, request, 3);
        OK(TRITONSERVER_InferenceRequestPriorityUInt64, request, &number);
        EXPECT(number == 3);
        OK(TRITONSERVER_InferenceRequestSetPriority, request, 0);
        OK(TRITONSERVER_InferenceRequestPriority, request, &priority);
        EXPECT(priority == 0);
        OK(TRITONSERVER_InferenceRequestSetTimeoutMicroseconds, request, 60000000);
        OK(TRITONSERVER_InferenceRequestTimeoutMicroseconds, request, &number);
        EXPECT(number == 60000000);
        OK(TRITONSERVER_InferenceRequestSetCorrelationIdString, request, "sequence");
        OK(TRITONSERVER_InferenceRequestCorrelationIdString, request, &text);
        EXPECT(strcmp(text, "sequence") == 0);
        OK(TRITONSERVER_InferenceRequestSetStringParameter, request, "text", "value");
        OK(TRITONSERVER_InferenceRequestSetIntParameter, request, "int", 1);
        OK(TRITONSERVER_InferenceRequestSetBoolParameter, request, "bool", true);
        OK(TRITONSERVER_InferenceRequestSetDoubleParameter, request, "double", 0.5);
}

static void see_step(const char *model_name, void *userp) {
        EXPECT(*model_name != '\0');
        ++*(unsigned *)userp;
}

/* What Neso has of its own. */
static void call_neso(struct TRITONSERVER_InferenceRequest *request) {
        bool                  is_decoupled = false, is_batched = true, is_composed = true;
        bool                  is_optional = true;
        unsigned              n_steps = 0;
        TRITONSERVER_DataType type = TRITONSERVER_TYPE_INVALID;
        const int64_t        *shape = NULL;
        uint64_t              n_dims = 0, loaded_at_s = 0;
        uint32_t              max_batch_size = 7;
        const char           *name = NULL, *value = "";

        OK(NESO_InferenceRequestIsDecoupled, request, &is_decoupled);
        EXPECT(is_decoupled);
        OK(NESO_InferenceRequestLimitResponses, request, MAX_RESPONSES, 1 << 20);
        OK(NESO_InferenceRequestSetCacheable, request, true);
        OK(NESO_InferenceRequestSetDeviceOutputs, request, false);
        OK(NESO_InferenceRequestSetRunsAlone, request, false);
        OK(NESO_InferenceRequestModelSteps, request, &is_composed, see_step, &n_steps);
        EXPECT(!is_composed && n_steps == 1);
        OK(NESO_InferenceRequestModelInput, request, "INPUT0", &type, &shape, &n_dims, &is_batched);
        EXPECT(type == TRITONSERVER_TYPE_FP32 && n_dims == 1 && shape[0] == -1 && !is_batched);
        OK(NESO_InferenceRequestModelInputName, request, 0, &name);
        EXPECT(name != NULL && strcmp(name, "INPUT0") == 0);
        OK(NESO_InferenceRequestModelInputIsOptional, request, "INPUT0", &is_optional);
        EXPECT(!is_optional);
        OK(NESO_InferenceRequestModelInputIsOptional, request, "no such input", &is_optional);
        EXPECT(is_optional);
        OK(NESO_InferenceRequestModelParameter, request, "no such key", &value);
        EXPECT(value == NULL);
        OK(NESO_InferenceRequestModelLoad, request, &max_batch_size, &loaded_at_s);
        EXPECT(max_batch_size == 0 && loaded_at_s > 1700000000);
}

/* ---- traces ---------------------------------------------------------------------------------- */

static void call_traces(void) {
        struct TRITONSERVER_InferenceTrace *trace, *child;
        uint64_t                            id = 0, parent_id = 0;
        const char                         *context = NULL;

        OK(TRITONSERVER_InferenceTraceNew, &trace, TRITONSERVER_TRACE_LEVEL_TIMESTAMPS, 0,
           on_activity, on_trace_release, NULL);
        OK(TRITONSERVER_InferenceTraceSpawnChildTrace, trace, &child);
        OK(TRITONSERVER_InferenceTraceId, trace, &id);
        OK(TRITONSERVER_InferenceTraceParentId, child, &parent_id);
        EXPECT(id == parent_id && id != 0);
        OK(TRITONSERVER_InferenceTraceSetContext, trace, "context");
        OK(TRITONSERVER_InferenceTraceContext, trace, &context);
        EXPECT(strcmp(context, "context") == 0);
        OK(TRITONSERVER_InferenceTraceDelete, child);
        OK(TRITONSERVER_InferenceTraceDelete, trace);
}

/* ---- responses ------------------------------------------------------------------------------- */

static void call_output(struct TRITONSERVER_InferenceResponse *response) {
        const char             *name, *label = NULL;
        TRITONSERVER_DataType   type;
        const int64_t          *shape;
        uint64_t                n_dims;
        const void             *base;
        size_t                  size;
        TRITONSERVER_MemoryType memory_type;
        int64_t                 memory_id;
        void                   *userp;
        uint32_t                n = 0;

        OK(TRITONSERVER_InferenceResponseOutputCount, response, &n);
        EXPECT(n == 1);
        OK(TRITONSERVER_InferenceResponseOutput, response, 0, &name, &type, &shape, &n_dims, &base,
           &size, &memory_type, &memory_id, &userp);
        EXPECT(size == sizeof(values) && memcmp(base, values, size) == 0);
        OK(TRITONSERVER_InferenceResponseOutputClassificationLabel, response, 0, 1, &label);
        EXPECT(label != NULL && strcmp(label, "two") == 0);
}

static void call_response(struct TRITONSERVER_InferenceResponse *response) {
        const char                *name = NULL, *id = NULL;
        int64_t                    version = 0;
        uint32_t                   n = 0;
        TRITONSERVER_ParameterType type;
        const void                *value = NULL;

        OK(TRITONSERVER_InferenceResponseError, response);
        OK(TRITONSERVER_InferenceResponseModel, response, &name, &version);
        EXPECT(strcmp(name, "calls") == 0 && version == 1);
        OK(TRITONSERVER_InferenceResponseId, response, &id);
        EXPECT(strcmp(id, "text") == 0);
        OK(TRITONSERVER_InferenceResponseParameterCount, response, &n);
        EXPECT(n == 4);
        OK(TRITONSERVER_InferenceResponseParameter, response, 0, &name, &type, &value);
        EXPECT(type == TRITONSERVER_PARAMETER_STRING && strcmp(value, "value") == 0);
        call_output(response);
}

static void delete_responses(void) {
        for (unsigned i = 0; i < seen.n_responses; i++)
                OK(TRITONSERVER_InferenceResponseDelete, seen.responses[i]);
        seen.n_responses = 0;
}

/* ---- inference ------------------------------------------------------------------------------- */

static struct TRITONSERVER_ResponseAllocator *new_allocator(void) {
        struct TRITONSERVER_ResponseAllocator *allocator;

        OK(TRITONSERVER_ResponseAllocatorNew, &allocator, allocate, give_back, NULL);
        OK(TRITONSERVER_ResponseAllocatorSetBufferAttributesFunction, allocator, describe);
        OK(TRITONSERVER_ResponseAllocatorSetQueryFunction, allocator, answer_query);
        return allocator;
}

static struct TRITONSERVER_InferenceRequest *new_request(
        struct TRITONSERVER_Server *server, const char *model,
        struct TRITONSERVER_ResponseAllocator *allocator) {
        struct TRITONSERVER_InferenceRequest *request;

        OK(TRITONSERVER_InferenceRequestNew, &request, server, model, -1);
        OK(TRITONSERVER_InferenceRequestSetReleaseCallback, request, on_release, NULL);
        OK(TRITONSERVER_InferenceRequestSetResponseCallback, request, allocator, NULL, on_response,
           NULL);
        return request;
}

/* Two uses of one request: what the backend does depends on the id. */
static void infer_twice(struct TRITONSERVER_Server           *server,
                        struct TRITONSERVER_InferenceRequest *request,
                        struct TRITONSERVER_InferenceTrace   *trace) {
        const char *id = NULL;
        uint64_t    number = 0;

        OK(TRITONSERVER_InferenceRequestSetId, request, "text");
        OK(TRITONSERVER_InferenceRequestId, request, &id);
        EXPECT(strcmp(id, "text") == 0);
        OK(TRITONSERVER_ServerInferAsync, server, request, trace);
        OK(NESO_ThreadWakeInstances);
        await(&seen.n_finals, 1);
        await(&seen.n_releases, 1);
        EXPECT(seen.n_responses == 2 && seen.n_custom == 1);
        call_response(seen.responses[0]);
        delete_responses();

        OK(TRITONSERVER_InferenceRequestSetId, request, "number");
        OK(TRITONSERVER_InferenceRequestSetCorrelationId, request, 5);
        OK(TRITONSERVER_InferenceRequestCorrelationId, request, &number);
        EXPECT(number == 5);
        OK(TRITONSERVER_ServerInferAsync, server, request, NULL);
        OK(NESO_ThreadWakeInstances);
        await(&seen.n_finals, 2);
        await(&seen.n_releases, 2);
        delete_responses();
}

static void count_call(void *userp) {
        ++*(unsigned *)userp;
}

static void call_rows_of_responses(void) {
        bool     is_deferred = true;
        unsigned n = 0;

        OK(NESO_ThreadAfterResponses, count_call, &n, &is_deferred);
        EXPECT(!is_deferred);
        OK(NESO_ThreadBeginResponses);
        OK(NESO_ThreadAfterResponses, count_call, &n, &is_deferred);
        EXPECT(is_deferred && n == 0);
        OK(NESO_ThreadEndResponses);
        EXPECT(n == 1);
}

void call_inference(struct TRITONSERVER_Server *server) {
        struct TRITONSERVER_ResponseAllocator *allocator = new_allocator();
        struct TRITONSERVER_InferenceRequest  *request = new_request(server, "calls", allocator);
        struct TRITONSERVER_InferenceTrace    *trace;
        bool                                   is_cancelled = false;

        call_traces();
        OK(NESO_ThreadAllowInlineExecution, false);
        call_rows_of_responses();
        call_inputs(request);
        call_outputs(request);
        call_settings(request);
        call_neso(request);
        OK(TRITONSERVER_InferenceTraceTensorNew, &trace,
           TRITONSERVER_TRACE_LEVEL_TIMESTAMPS | TRITONSERVER_TRACE_LEVEL_TENSORS, 0, on_activity,
           on_tensor, on_trace_release, NULL);
        infer_twice(server, request, trace);
        await(&seen.n_traces, 1);
        OK(TRITONSERVER_InferenceRequestCancel, request);
        OK(TRITONSERVER_InferenceRequestIsCancelled, request, &is_cancelled);
        OK(TRITONSERVER_InferenceRequestDelete, request);
        OK(TRITONSERVER_ResponseAllocatorDelete, allocator);
}

void infer_cached(struct TRITONSERVER_Server *server) {
        static const int64_t                   shape[] = { 4 };
        struct TRITONSERVER_ResponseAllocator *allocator = new_allocator();
        struct TRITONSERVER_InferenceRequest  *request = new_request(server, "cached", allocator);
        unsigned                               n_finals = seen.n_finals;
        unsigned                               n_releases = seen.n_releases;

        OK(TRITONSERVER_InferenceRequestAddInput, request, "INPUT0", TRITONSERVER_TYPE_FP32, shape,
           1);
        OK(TRITONSERVER_InferenceRequestAppendInputData, request, "INPUT0", values, 16,
           TRITONSERVER_MEMORY_CPU, 0);
        OK(TRITONSERVER_ServerInferAsync, server, request, NULL);
        OK(NESO_ThreadWakeInstances);
        await(&seen.n_finals, n_finals + 1);
        await(&seen.n_releases, n_releases + 1);
        EXPECT(seen.n_responses == 1);
        OK(TRITONSERVER_InferenceResponseError, seen.responses[0]);
        delete_responses();
        OK(TRITONSERVER_InferenceRequestDelete, request);
        OK(TRITONSERVER_ResponseAllocatorDelete, allocator);
}
