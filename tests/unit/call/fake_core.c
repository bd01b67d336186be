/* SPDX-License-Identifier: BSD-3-Clause */
#include "call/fake_core.h"

#include "base/mem.h"
#include "triton/core/neso.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct fake_core fake;

#define RECORD(...) strbuf_printf(&fake.calls, __VA_ARGS__)

static struct TRITONSERVER_Error *answer(const char *call) {
        if (fake.refuse == NULL || strcmp(fake.refuse, call) != 0)
                return NULL;
        return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_NOT_FOUND, call);
}

struct TRITONSERVER_Error *TRITONSERVER_ErrorNew(TRITONSERVER_Error_Code code, const char *msg) {
        struct TRITONSERVER_Error *e = mem_alloc(sizeof(*e));

        e->code = code;
        e->message = mem_strdup(msg);
        fake.n_errors++;
        return e;
}

void TRITONSERVER_ErrorDelete(struct TRITONSERVER_Error *error) {
        fake.n_errors--;
        free(error->message);
        free(error);
}

TRITONSERVER_Error_Code TRITONSERVER_ErrorCode(struct TRITONSERVER_Error *error) {
        return error->code;
}

const char *TRITONSERVER_ErrorMessage(struct TRITONSERVER_Error *error) {
        return error->message;
}

struct TRITONSERVER_Error *TRITONSERVER_ResponseAllocatorNew(
        struct TRITONSERVER_ResponseAllocator   **allocator,
        TRITONSERVER_ResponseAllocatorAllocFn_t   alloc_fn,
        TRITONSERVER_ResponseAllocatorReleaseFn_t release_fn,
        TRITONSERVER_ResponseAllocatorStartFn_t   start_fn) {
        (void)start_fn;
        *allocator = mem_zalloc(sizeof(**allocator));
        (*allocator)->alloc = alloc_fn;
        (*allocator)->release = release_fn;
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_ResponseAllocatorSetQueryFunction(
        struct TRITONSERVER_ResponseAllocator  *allocator,
        TRITONSERVER_ResponseAllocatorQueryFn_t query_fn) {
        allocator->query = query_fn;
        return answer("SetQueryFunction");
}

struct TRITONSERVER_Error *TRITONSERVER_ResponseAllocatorSetBufferAttributesFunction(
        struct TRITONSERVER_ResponseAllocator             *allocator,
        TRITONSERVER_ResponseAllocatorBufferAttributesFn_t describe) {
        allocator->describe = describe;
        return answer("SetBufferAttributesFunction");
}

struct TRITONSERVER_Error *TRITONSERVER_ResponseAllocatorDelete(
        struct TRITONSERVER_ResponseAllocator *allocator) {
        free(allocator);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestNew(
        struct TRITONSERVER_InferenceRequest **request, struct TRITONSERVER_Server *server,
        const char *model_name, const int64_t model_version) {
        bool is_decoupled = fake.is_decoupled;

        (void)server;
        RECORD("new %s %lld\n", model_name, (long long)model_version);
        if (fake.refuse != NULL && strcmp(fake.refuse, "New") == 0)
                return answer("New");
        if (fake.find_model != NULL) {
                struct TRITONSERVER_Error *err = fake.find_model(model_name, &is_decoupled);

                if (err != NULL)
                        return err;
        }
        *request = mem_zalloc(sizeof(**request));
        (*request)->is_decoupled = is_decoupled;
        fake.n_requests++;
        return NULL;
}

struct TRITONSERVER_Error *NESO_InferenceRequestIsDecoupled(
        struct TRITONSERVER_InferenceRequest *request, bool *ret) {
        *ret = request->is_decoupled;
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestDelete(
        struct TRITONSERVER_InferenceRequest *request) {
        fake.n_requests--;
        free(request);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetReleaseCallback(
        struct TRITONSERVER_InferenceRequest *request, TRITONSERVER_InferenceRequestReleaseFn_t fn,
        void *userp) {
        request->on_release = fn;
        request->release_userp = userp;
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetResponseCallback(
        struct TRITONSERVER_InferenceRequest  *request,
        struct TRITONSERVER_ResponseAllocator *allocator, void *allocator_userp,
        TRITONSERVER_InferenceResponseCompleteFn_t fn, void *userp) {
        request->allocator = allocator;
        request->allocator_userp = allocator_userp;
        request->on_response = fn;
        request->response_userp = userp;
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestCancel(
        struct TRITONSERVER_InferenceRequest *request) {
        request->is_cancelled = true;
        if (fake.cancel != NULL)
                fake.cancel(request);
        return NULL;
}

struct TRITONSERVER_Error *NESO_InferenceRequestLimitResponses(
        struct TRITONSERVER_InferenceRequest *request, uint32_t max_responses, uint64_t max_bytes) {
        (void)request;
        RECORD("limit %u %llu\n", max_responses, (unsigned long long)max_bytes);
        return NULL;
}

struct TRITONSERVER_Error *NESO_ThreadAfterResponses(NESO_AfterResponsesFn_t call, void *userp,
                                                     bool *is_deferred) {
        *is_deferred = fake.puts_off;
        if (!fake.puts_off)
                return NULL;
        assert_null(fake.after_responses);
        fake.after_responses = call;
        fake.after_responses_userp = userp;
        return NULL;
}

struct TRITONSERVER_Error *NESO_InferenceRequestSetDeviceOutputs(
        struct TRITONSERVER_InferenceRequest *request, bool on_devices) {
        (void)request;
        RECORD("device outputs %d\n", on_devices);
        return answer("device outputs");
}

/* Every model has one input, "INPUT": one text. */
struct TRITONSERVER_Error *NESO_InferenceRequestSetCacheable(
        struct TRITONSERVER_InferenceRequest *request, bool cacheable) {
        (void)request;
        RECORD("cacheable %d\n", cacheable);
        return answer("cacheable");
}

struct TRITONSERVER_Error *NESO_InferenceRequestModelInput(
        struct TRITONSERVER_InferenceRequest *request, const char *name,
        TRITONSERVER_DataType *datatype, const int64_t **shape, uint64_t *dim_count,
        bool *is_batched) {
        static const int64_t one = 1;
        bool                 is_input = strcmp(name, "INPUT") == 0;

        (void)request;
        *datatype = is_input ? TRITONSERVER_TYPE_BYTES : TRITONSERVER_TYPE_INVALID;
        *shape = &one;
        *dim_count = is_input ? 1 : 0;
        *is_batched = false;
        return answer("ModelInput");
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetId(
        struct TRITONSERVER_InferenceRequest *request, const char *id) {
        (void)request;
        RECORD("id %s\n", id);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetFlags(
        struct TRITONSERVER_InferenceRequest *request, uint32_t flags) {
        (void)request;
        RECORD("flags %u\n", flags);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetCorrelationId(
        struct TRITONSERVER_InferenceRequest *request, uint64_t id) {
        (void)request;
        RECORD("sequence %llu\n", (unsigned long long)id);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetCorrelationIdString(
        struct TRITONSERVER_InferenceRequest *request, const char *id) {
        (void)request;
        RECORD("sequence '%s'\n", id);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetPriorityUInt64(
        struct TRITONSERVER_InferenceRequest *request, uint64_t priority) {
        (void)request;
        RECORD("priority %llu\n", (unsigned long long)priority);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetTimeoutMicroseconds(
        struct TRITONSERVER_InferenceRequest *request, uint64_t timeout_us) {
        (void)request;
        RECORD("timeout %llu\n", (unsigned long long)timeout_us);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetStringParameter(
        struct TRITONSERVER_InferenceRequest *request, const char *key, const char *value) {
        (void)request;
        RECORD("string %s=%s\n", key, value);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetIntParameter(
        struct TRITONSERVER_InferenceRequest *request, const char *key, const int64_t value) {
        (void)request;
        RECORD("int %s=%lld\n", key, (long long)value);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetBoolParameter(
        struct TRITONSERVER_InferenceRequest *request, const char *key, const bool value) {
        (void)request;
        RECORD("bool %s=%d\n", key, value);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetDoubleParameter(
        struct TRITONSERVER_InferenceRequest *request, const char *key, const double value) {
        (void)request;
        RECORD("double %s=%g\n", key, value);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestAddInput(
        struct TRITONSERVER_InferenceRequest *request, const char *name,
        const TRITONSERVER_DataType datatype, const int64_t *shape, uint64_t dim_count) {
        (void)request;
        RECORD("input %s %d", name, (int)datatype);
        for (uint64_t i = 0; i < dim_count; i++)
                RECORD(" %lld", (long long)shape[i]);
        RECORD("\n");
        return answer("AddInput");
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestRemoveAllInputs(
        struct TRITONSERVER_InferenceRequest *request) {
        (void)request;
        RECORD("no inputs\n");
        return answer("RemoveAllInputs");
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestAddRawInput(
        struct TRITONSERVER_InferenceRequest *request, const char *name) {
        (void)request;
        RECORD("raw %s\n", name);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestAppendInputData(
        struct TRITONSERVER_InferenceRequest *request, const char *name, const void *base,
        size_t byte_size, TRITONSERVER_MemoryType memory_type, int64_t memory_type_id) {
        (void)request, (void)memory_type, (void)memory_type_id;
        RECORD("append %s '%.*s'\n", name, (int)byte_size, (const char *)base);
        return NULL;
}

/* The handle's first byte is recorded, and no byte of the input: the memory may be a device's. */
struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestAppendInputDataWithBufferAttributes(
        struct TRITONSERVER_InferenceRequest *request, const char *name, const void *base,
        struct TRITONSERVER_BufferAttributes *attributes) {
        TRITONSERVER_MemoryType type;
        int64_t                 id;
        size_t                  bytes;
        void                   *handle;

        (void)request, (void)base;
        assert_null(TRITONSERVER_BufferAttributesMemoryType(attributes, &type));
        assert_null(TRITONSERVER_BufferAttributesMemoryTypeId(attributes, &id));
        assert_null(TRITONSERVER_BufferAttributesByteSize(attributes, &bytes));
        assert_null(TRITONSERVER_BufferAttributesCudaIpcHandle(attributes, &handle));
        RECORD("append %s type %d id %lld handle %d, %zu bytes\n", name, (int)type, (long long)id,
               handle != NULL ? *(const unsigned char *)handle : -1, bytes);
        return answer("AppendWithAttributes");
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestAddRequestedOutput(
        struct TRITONSERVER_InferenceRequest *request, const char *name) {
        (void)request;
        RECORD("output %s\n", name);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_ServerInferAsync(
        struct TRITONSERVER_Server *server, struct TRITONSERVER_InferenceRequest *request,
        struct TRITONSERVER_InferenceTrace *trace) {
        struct TRITONSERVER_Error *err = answer("InferAsync");

        (void)server, (void)trace;
        if (err == NULL)
                fake.run(request);
        return err;
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceResponseDelete(
        struct TRITONSERVER_InferenceResponse *r) {
        fake.n_responses--;
        if (r->base != NULL)
                assert_null(r->allocator->release(r->allocator, r->base, r->userp, r->bytes,
                                                  TRITONSERVER_MEMORY_CPU, 0));
        free(r);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceResponseError(
        struct TRITONSERVER_InferenceResponse *r) {
        return r->error != NULL ? TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, r->error)
                                : NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceResponseModel(
        struct TRITONSERVER_InferenceResponse *r, const char **name, int64_t *version) {
        (void)r;
        *name = "model";
        *version = 3;
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceResponseId(
        struct TRITONSERVER_InferenceResponse *r, const char **id) {
        (void)r;
        *id = "the id";
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceResponseParameterCount(
        struct TRITONSERVER_InferenceResponse *r, uint32_t *count) {
        (void)r;
        *count = 4;
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceResponseParameter(
        struct TRITONSERVER_InferenceResponse *r, const uint32_t index, const char **name,
        TRITONSERVER_ParameterType *type, const void **vvalue) {
        static const int64_t integer = -7;
        static const bool    boolean = true;
        static const double  real = 2.5;
        static const struct {
                TRITONSERVER_ParameterType type;
                const void                *value;
        } rows[] = { { TRITONSERVER_PARAMETER_INT, &integer },
                     { TRITONSERVER_PARAMETER_BOOL, &boolean },
                     { TRITONSERVER_PARAMETER_DOUBLE, &real },
                     { TRITONSERVER_PARAMETER_STRING, "text" } };

        (void)r;
        *name = "p";
        *type = rows[index].type;
        *vvalue = rows[index].value;
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceResponseOutputCount(
        struct TRITONSERVER_InferenceResponse *r, uint32_t *count) {
        (void)r;
        *count = 1;
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceResponseOutput(
        struct TRITONSERVER_InferenceResponse *r, const uint32_t index, const char **name,
        TRITONSERVER_DataType *datatype, const int64_t **shape, uint64_t *dim_count,
        const void **base, size_t *byte_size, TRITONSERVER_MemoryType *memory_type,
        int64_t *memory_type_id, void **userp) {
        assert_int_equal(index, 0);
        r->shape[0] = (int64_t)r->bytes;
        *name = r->output;
        *datatype = TRITONSERVER_TYPE_UINT8;
        *shape = r->shape;
        *dim_count = 1;
        *base = r->base;
        *byte_size = r->bytes;
        *memory_type = r->type;
        *memory_type_id = 0;
        *userp = r->userp;
        return NULL;
}
