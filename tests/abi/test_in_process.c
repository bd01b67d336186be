/* SPDX-License-Identifier: BSD-3-Clause */
/* A program with a server in it: the public headers and libtritonserver.so, nothing else.
 *
 *   test_in_process <directory of backends>
 *
 * The repository has one model, "twin", of the identity backend: two FP32 inputs of 3 elements in
 * batches of up to 4, each repeated as an output.
 */
#include "api_assert.h"
#include "embedded.h"
#include "model_place.h"
#include "triton/core/neso.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define TIMEOUT_S 60

static const char config_text[] =
        "name: \"twin\"\n"
        "backend: \"identity\"\n"
        "max_batch_size: 4\n"
        "input [ { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 3 ] },\n"
        "        { name: \"INPUT1\" data_type: TYPE_FP32 dims: [ 3 ] } ]\n"
        "output [ { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 3 ] },\n"
        "         { name: \"OUTPUT1\" data_type: TYPE_FP32 dims: [ 3 ] } ]\n"
        "instance_group [ { count: 1 kind: KIND_CPU } ]\n";

static const char *backend_directory;

/* ---- the fixture: a server that all tests share --------------------------------------------- */

static struct model_place                     place;
static struct TRITONSERVER_Server            *server;
static struct TRITONSERVER_ResponseAllocator *allocator;

/* What the callbacks saw; guarded by the lock. */
static struct {
        pthread_mutex_t                        lock;
        pthread_cond_t                         changed;
        int                                    n_started;
        int                                    n_allocated;
        int                                    n_given_back;
        size_t                                 bytes_out; /* allocated and not given back */
        struct TRITONSERVER_InferenceResponse *response;
        unsigned                               n_final;
        unsigned                               n_responses;
        unsigned                               n_released;
        uint32_t                               release_flags;
} seen = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static int allocator_userp, response_userp, release_userp, buffer_note;

static struct TRITONSERVER_Error *start(struct TRITONSERVER_ResponseAllocator *a, void *userp) {
        (void)a;
        pthread_mutex_lock(&seen.lock);
        if (userp == &allocator_userp)
                seen.n_started++;
        pthread_mutex_unlock(&seen.lock);
        return NULL;
}

static struct TRITONSERVER_Error *allocate(struct TRITONSERVER_ResponseAllocator *a,
                                           const char *tensor_name, size_t byte_size,
                                           TRITONSERVER_MemoryType type, int64_t id, void *userp,
                                           void **buffer, void **buffer_userp,
                                           TRITONSERVER_MemoryType *actual_type,
                                           int64_t                 *actual_id) {
        (void)a, (void)type, (void)id;
        if (userp != &allocator_userp || strncmp(tensor_name, "OUTPUT", 6) != 0)
                return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "not what was set");
        *buffer = malloc(byte_size + 1);
        *buffer_userp = &buffer_note;
        *actual_type = TRITONSERVER_MEMORY_CPU;
        *actual_id = 0;
        pthread_mutex_lock(&seen.lock);
        seen.n_allocated++;
        seen.bytes_out += byte_size;
        pthread_mutex_unlock(&seen.lock);
        return NULL;
}

static struct TRITONSERVER_Error *give_back(struct TRITONSERVER_ResponseAllocator *a, void *buffer,
                                            void *buffer_userp, size_t byte_size,
                                            TRITONSERVER_MemoryType type, int64_t id) {
        (void)a;
        pthread_mutex_lock(&seen.lock);
        if (buffer_userp == &buffer_note && type == TRITONSERVER_MEMORY_CPU && id == 0) {
                seen.n_given_back++;
                seen.bytes_out -= byte_size;
        }
        pthread_mutex_unlock(&seen.lock);
        free(buffer);
        return NULL;
}

static void on_response(struct TRITONSERVER_InferenceResponse *response, const uint32_t flags,
                        void *userp) {
        pthread_mutex_lock(&seen.lock);
        if (userp == &response_userp && response != NULL) {
                seen.response = response;
                seen.n_responses++;
        }
        if (flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL)
                seen.n_final++;
        pthread_cond_signal(&seen.changed);
        pthread_mutex_unlock(&seen.lock);
}

static void on_release(struct TRITONSERVER_InferenceRequest *request, const uint32_t flags,
                       void *userp) {
        (void)request;
        pthread_mutex_lock(&seen.lock);
        if (userp == &release_userp) {
                seen.n_released++;
                seen.release_flags = flags;
        }
        pthread_cond_signal(&seen.changed);
        pthread_mutex_unlock(&seen.lock);
}

static int start_server(void **state) {
        struct TRITONSERVER_ServerOptions *options;

        (void)state;
        model_place_open(&place);
        model_place_add_model(&place, "twin", config_text, NULL);
        options = embedded_options(place.root, backend_directory);
        assert_ok(TRITONSERVER_ServerOptionsSetServerId(options, "in-process"));
        assert_ok(TRITONSERVER_ServerOptionsSetExitTimeout(options, 10));
        server = embedded_start(options);
        assert_ok(TRITONSERVER_ResponseAllocatorNew(&allocator, allocate, give_back, start));
        return 0;
}

static int stop_server(void **state) {
        (void)state;
        assert_ok(TRITONSERVER_ServerDelete(server));
        assert_ok(TRITONSERVER_ResponseAllocatorDelete(allocator));
        model_place_close(&place);
        return 0;
}

/* ---- steps of an inference ------------------------------------------------------------------ */

static struct TRITONSERVER_InferenceRequest *new_request(void) {
        struct TRITONSERVER_InferenceRequest *request;

        assert_ok(TRITONSERVER_InferenceRequestNew(&request, server, "twin", -1));
        assert_ok(TRITONSERVER_InferenceRequestSetReleaseCallback(request, on_release,
                                                                  &release_userp));
        assert_ok(TRITONSERVER_InferenceRequestSetResponseCallback(request, allocator,
                                                                   &allocator_userp, on_response,
                                                                   &response_userp));
        return request;
}

static void add_input(struct TRITONSERVER_InferenceRequest *request, const char *name,
                      const float *values, int64_t batch) {
        const int64_t shape[2] = { batch, 3 };

        assert_ok(TRITONSERVER_InferenceRequestAddInput(request, name, TRITONSERVER_TYPE_FP32,
                                                        shape, 2));
        assert_ok(TRITONSERVER_InferenceRequestAppendInputData(request, name, values,
                                                               (size_t)batch * 3 * sizeof(*values),
                                                               TRITONSERVER_MEMORY_CPU, 0));
}

/* Sends the request and waits until its response and the request itself have come back. */
static struct TRITONSERVER_InferenceResponse *infer_traced(
        struct TRITONSERVER_InferenceRequest *request, struct TRITONSERVER_InferenceTrace *trace) {
        struct timespec deadline;
        int             rc = 0;

        pthread_mutex_lock(&seen.lock);
        seen.response = NULL;
        seen.n_final = seen.n_responses = seen.n_released = seen.release_flags = 0;
        pthread_mutex_unlock(&seen.lock);

        assert_ok(TRITONSERVER_ServerInferAsync(server, request, trace));

        clock_gettime(CLOCK_REALTIME, &deadline);
        deadline.tv_sec += TIMEOUT_S;
        pthread_mutex_lock(&seen.lock);
        while (rc == 0 && (seen.n_final == 0 || seen.n_released == 0))
                rc = pthread_cond_timedwait(&seen.changed, &seen.lock, &deadline);
        pthread_mutex_unlock(&seen.lock);

        assert_int_equal(rc, 0);
        assert_int_equal(seen.n_final, 1);
        assert_int_equal(seen.n_responses, 1);
        assert_int_equal(seen.n_released, 1);
        assert_int_equal(seen.release_flags, TRITONSERVER_REQUEST_RELEASE_ALL);
        assert_non_null(seen.response);
        return seen.response;
}

static struct TRITONSERVER_InferenceResponse *infer(struct TRITONSERVER_InferenceRequest *request) {
        return infer_traced(request, NULL);
}

static void assert_output(struct TRITONSERVER_InferenceResponse *response, const char *wanted_name,
                          const float *values, int64_t batch) {
        uint32_t count;

        assert_ok(TRITONSERVER_InferenceResponseOutputCount(response, &count));
        for (uint32_t i = 0; i < count; i++) {
                const char             *name;
                TRITONSERVER_DataType   type;
                const int64_t          *shape;
                uint64_t                n_dims;
                const void             *base;
                size_t                  byte_size;
                TRITONSERVER_MemoryType memory_type;
                int64_t                 memory_id;
                void                   *userp;

                assert_ok(TRITONSERVER_InferenceResponseOutput(response, i, &name, &type, &shape,
                                                               &n_dims, &base, &byte_size,
                                                               &memory_type, &memory_id, &userp));
                if (strcmp(name, wanted_name) != 0)
                        continue;
                assert_int_equal(type, TRITONSERVER_TYPE_FP32);
                assert_int_equal(n_dims, 2);
                assert_int_equal(shape[0], batch);
                assert_int_equal(shape[1], 3);
                assert_int_equal(byte_size, (size_t)batch * 3 * sizeof(*values));
                assert_memory_equal(base, values, byte_size);
                assert_int_equal(memory_type, TRITONSERVER_MEMORY_CPU);
                assert_int_equal(memory_id, 0);
                assert_ptr_equal(userp, &buffer_note);
                return;
        }
        fail_msg("there is no output '%s'", wanted_name);
}

static void assert_message_has(struct TRITONSERVER_Message *message, const char *part) {
        const char *base;
        size_t      byte_size;

        assert_ok(TRITONSERVER_MessageSerializeToJson(message, &base, &byte_size));
        if (memmem(base, byte_size, part, strlen(part)) == NULL)
                fail_msg("%.*s does not contain %s", (int)byte_size, base, part);
}

/* ---- the tests, in this order --------------------------------------------------------------- */

static void test_ready(void **state) {
        bool flag = false;

        (void)state;
        assert_ok(TRITONSERVER_ServerIsLive(server, &flag));
        assert_true(flag);
        flag = false;
        assert_ok(TRITONSERVER_ServerIsReady(server, &flag));
        assert_true(flag);
        flag = false;
        assert_ok(TRITONSERVER_ServerModelIsReady(server, "twin", 1, &flag));
        assert_true(flag);
        assert_ok(TRITONSERVER_ServerModelIsReady(server, "twin", 2, &flag));
        assert_false(flag);
        assert_ok(TRITONSERVER_ServerModelIsReady(server, "nobody", -1, &flag));
        assert_false(flag);
}

static void test_metadata(void **state) {
        struct TRITONSERVER_Message *message;
        uint32_t                     flags = 0;
        void                        *reserved = &flags;

        (void)state;
        assert_ok(TRITONSERVER_ServerMetadata(server, &message));
        assert_message_has(message, "{\"name\":\"in-process\",\"version\":\"");
        assert_message_has(message, "\"extensions\":[\"classification\",\"sequence\",");
        assert_ok(TRITONSERVER_MessageDelete(message));

        assert_ok(TRITONSERVER_ServerModelMetadata(server, "twin", -1, &message));
        assert_message_has(message,
                           "{\"name\":\"twin\",\"versions\":[\"1\"],\"platform\":\"identity\","
                           "\"inputs\":[{\"name\":\"INPUT0\",\"datatype\":\"FP32\","
                           "\"shape\":[-1,3]},");
        assert_ok(TRITONSERVER_MessageDelete(message));

        assert_ok(TRITONSERVER_ServerModelConfig(server, "twin", -1, 1, &message));
        assert_message_has(message, "\"max_batch_size\":4");
        assert_ok(TRITONSERVER_MessageDelete(message));

        assert_ok(TRITONSERVER_ServerModelIndex(server, 0, &message));
        assert_message_has(message, "[{\"name\":\"twin\",\"version\":\"1\",\"state\":\"READY\"}]");
        assert_ok(TRITONSERVER_MessageDelete(message));

        assert_ok(TRITONSERVER_ServerModelBatchProperties(server, "twin", -1, &flags, &reserved));
        assert_int_equal(flags, TRITONSERVER_BATCH_FIRST_DIM);
        assert_null(reserved);
        assert_ok(TRITONSERVER_ServerModelTransactionProperties(server, "twin", -1, &flags, NULL));
        assert_int_equal(flags, TRITONSERVER_TXN_ONE_TO_ONE);
}

static void test_infer(void **state) {
        static const float values0[6] = { 0.0f, -1.5f, 3e38f, 4.0f, 5.0f, 6.25f };
        static const float values1[6] = { 7.0f, 8.0f, 9.0f, -0.0f, 1e-30f, 12.0f };
        struct TRITONSERVER_InferenceRequest  *request = new_request();
        struct TRITONSERVER_InferenceResponse *response;
        bool                                   is_decoupled = true, is_batched;
        TRITONSERVER_DataType                  type;
        const int64_t                         *shape;
        uint64_t                               n_dims;
        const char                            *text = NULL;
        int64_t                                version = 0;

        (void)state;
        assert_ok(NESO_InferenceRequestIsDecoupled(request, &is_decoupled));
        assert_false(is_decoupled);
        assert_ok(NESO_InferenceRequestModelInput(request, "INPUT1", &type, &shape, &n_dims,
                                                  &is_batched));
        assert_int_equal(type, TRITONSERVER_TYPE_FP32);
        assert_int_equal(n_dims, 1);
        assert_int_equal(shape[0], 3);
        assert_true(is_batched);
        assert_ok(NESO_InferenceRequestModelInput(request, "OUTPUT1", &type, &shape, &n_dims,
                                                  &is_batched));
        assert_int_equal(type, TRITONSERVER_TYPE_INVALID);
        assert_ok(TRITONSERVER_InferenceRequestSetId(request, "first"));
        add_input(request, "INPUT0", values0, 2);
        add_input(request, "INPUT1", values1, 2);
        response = infer(request);
        assert_ok(TRITONSERVER_InferenceResponseError(response));
        assert_output(response, "OUTPUT0", values0, 2);
        assert_output(response, "OUTPUT1", values1, 2);
        assert_ok(TRITONSERVER_InferenceResponseId(response, &text));
        assert_string_equal(text, "first");
        assert_ok(TRITONSERVER_InferenceResponseModel(response, &text, &version));
        assert_string_equal(text, "twin");
        assert_int_equal(version, 1);
        assert_int_equal(seen.n_started, 1);
        assert_int_equal(seen.n_allocated, 2);
        assert_int_equal(seen.n_given_back, 0);
        assert_ok(TRITONSERVER_InferenceResponseDelete(response));
        assert_int_equal(seen.n_given_back, 2);
        assert_int_equal(seen.bytes_out, 0);
        assert_ok(TRITONSERVER_InferenceRequestDelete(request));
}

/* Data in two pieces; one output asked for; then the same request with other data. */
static void test_infer_again(void **state) {
        float                                  values[6] = { 1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f };
        const int64_t                          shape[2] = { 1, 3 };
        struct TRITONSERVER_InferenceRequest  *request = new_request();
        struct TRITONSERVER_InferenceResponse *response;
        uint32_t                               count = 0;

        (void)state;
        assert_ok(TRITONSERVER_InferenceRequestAddInput(request, "INPUT0", TRITONSERVER_TYPE_FP32,
                                                        shape, 2));
        assert_ok(TRITONSERVER_InferenceRequestAppendInputData(request, "INPUT0", values, 4,
                                                               TRITONSERVER_MEMORY_CPU, 0));
        assert_ok(TRITONSERVER_InferenceRequestAppendInputData(request, "INPUT0", values, 0,
                                                               TRITONSERVER_MEMORY_CPU, 0));
        assert_ok(TRITONSERVER_InferenceRequestAppendInputData(request, "INPUT0", values + 1, 8,
                                                               TRITONSERVER_MEMORY_CPU, 0));
        add_input(request, "INPUT1", values + 3, 1);
        assert_ok(TRITONSERVER_InferenceRequestAddRequestedOutput(request, "OUTPUT0"));
        response = infer(request);
        assert_ok(TRITONSERVER_InferenceResponseError(response));
        assert_ok(TRITONSERVER_InferenceResponseOutputCount(response, &count));
        assert_int_equal(count, 1);
        assert_output(response, "OUTPUT0", values, 1);
        assert_ok(TRITONSERVER_InferenceResponseDelete(response));

        assert_ok(TRITONSERVER_InferenceRequestRemoveAllInputData(request, "INPUT0"));
        assert_ok(TRITONSERVER_InferenceRequestAppendInputData(request, "INPUT0", values + 3, 12,
                                                               TRITONSERVER_MEMORY_CPU, 0));
        assert_ok(TRITONSERVER_InferenceRequestRemoveAllRequestedOutputs(request));
        response = infer(request);
        assert_ok(TRITONSERVER_InferenceResponseError(response));
        assert_output(response, "OUTPUT0", values + 3, 1);
        assert_output(response, "OUTPUT1", values + 3, 1);
        assert_ok(TRITONSERVER_InferenceResponseDelete(response));
        assert_ok(TRITONSERVER_InferenceRequestDelete(request));
}

static void test_unknown_model(void **state) {
        struct TRITONSERVER_InferenceRequest *request = NULL;
        struct TRITONSERVER_Message          *message = NULL;

        (void)state;
        assert_error(TRITONSERVER_InferenceRequestNew(&request, server, "nobody", -1),
                     TRITONSERVER_ERROR_NOT_FOUND,
                     "Request for unknown model: 'nobody' is not found");
        assert_error(TRITONSERVER_InferenceRequestNew(&request, server, "twin", 7),
                     TRITONSERVER_ERROR_NOT_FOUND,
                     "Request for unknown model: 'twin' version 7 is not found");
        /* Only -1 means the latest. */
        assert_error(TRITONSERVER_InferenceRequestNew(&request, server, "twin", -5),
                     TRITONSERVER_ERROR_NOT_FOUND,
                     "Request for unknown model: 'twin' version -5 is not found");
        assert_error(TRITONSERVER_ServerModelMetadata(server, "nobody", -1, &message),
                     TRITONSERVER_ERROR_NOT_FOUND,
                     "Request for unknown model: 'nobody' is not found");
        assert_null(request);
        assert_null(message);
}

/* What is refused stays the caller's, who mends it and sends it again. */
static void test_refused(void **state) {
        static const float                     values[15] = { 1.0f, 2.0f, 3.0f };
        struct TRITONSERVER_InferenceRequest  *request;
        struct TRITONSERVER_InferenceResponse *response;

        (void)state;
        assert_ok(TRITONSERVER_InferenceRequestNew(&request, server, "twin", -1));
        add_input(request, "INPUT0", values, 1);
        add_input(request, "INPUT1", values, 1);
        /* Nobody would get the response. */
        assert_error(TRITONSERVER_ServerInferAsync(server, request, NULL),
                     TRITONSERVER_ERROR_INVALID_ARG,
                     "[request id: <id_unknown>] release and response callbacks must be set before "
                     "inference");
        assert_ok(TRITONSERVER_InferenceRequestDelete(request));

        request = new_request();
        assert_ok(TRITONSERVER_InferenceRequestSetId(request, "r"));
        add_input(request, "INPUT0", values, 5);
        add_input(request, "INPUT1", values, 5);
        assert_error(TRITONSERVER_ServerInferAsync(server, request, NULL),
                     TRITONSERVER_ERROR_INVALID_ARG,
                     "[request id: r] inference request batch-size must be <= 4 for 'twin'");
        assert_ok(TRITONSERVER_InferenceRequestRemoveInput(request, "INPUT1"));
        assert_error(TRITONSERVER_ServerInferAsync(server, request, NULL),
                     TRITONSERVER_ERROR_INVALID_ARG,
                     "[request id: r] expected 2 inputs but got 1 inputs for model 'twin'. Got "
                     "input(s) ['INPUT0'], but missing required input(s) ['INPUT1']. Please "
                     "provide all required input(s).");
        assert_ok(TRITONSERVER_InferenceRequestRemoveAllInputs(request));
        add_input(request, "INPUT0", values, 1);
        add_input(request, "INPUT1", values, 1);
        response = infer(request);
        assert_ok(TRITONSERVER_InferenceResponseError(response));
        assert_output(response, "OUTPUT1", values, 1);
        assert_ok(TRITONSERVER_InferenceResponseDelete(response));
        assert_ok(TRITONSERVER_InferenceRequestDelete(request));
}

/* Four inferences so far, of batches 2, 1, 1, 1. */
static void test_statistics(void **state) {
        struct TRITONSERVER_Message *message;
        struct TRITONSERVER_Metrics *metrics;
        const char                  *base;
        size_t                       byte_size;
        static const char            success[] =
                "nv_inference_request_success{model=\"twin\",version=\"1\"} 4\n";
        static const char refused[] =
                "neso_api_key_refused_total{key=\"someone\",reason=\"group\"} 2\n"
                "neso_api_key_refused_total{key=\"\",reason=\"missing\"} 1\n";
        static const char rejected[] = "neso_rejected_total{limit=\"of the test\"} 1\n";

        (void)state;
        assert_ok(TRITONSERVER_ServerModelStatistics(server, "twin", -1, &message));
        assert_message_has(message, "{\"model_stats\":[{\"name\":\"twin\",\"version\":\"1\",");
        assert_message_has(message, "\"inference_count\":5,\"execution_count\":4,");
        assert_message_has(message, "\"success\":{\"count\":4,");
        assert_message_has(message, "\"fail\":{\"count\":0,");
        assert_ok(TRITONSERVER_MessageDelete(message));

        assert_ok(NESO_ServerObserveRejected(server, "of the test"));
        assert_ok(NESO_ServerObserveKeyRefused(server, "someone", "group"));
        assert_ok(NESO_ServerObserveKeyRefused(server, "someone", "group"));
        assert_ok(NESO_ServerObserveKeyRefused(server, "", "missing"));
        assert_ok(TRITONSERVER_ServerMetrics(server, &metrics));
        assert_ok(TRITONSERVER_MetricsFormatted(metrics, TRITONSERVER_METRIC_PROMETHEUS, &base,
                                                &byte_size));
        assert_non_null(memmem(base, byte_size, success, strlen(success)));
        assert_non_null(memmem(base, byte_size, rejected, strlen(rejected)));
        assert_non_null(memmem(base, byte_size, refused, strlen(refused)));
        assert_ok(TRITONSERVER_MetricsDelete(metrics));
}

static unsigned n_changes;

static void on_change(void *userp) {
        assert_ptr_equal(userp, &n_changes);
        n_changes++;
}

/* ---- traces --------------------------------------------------------------------------------- */

/* What one trace told; guarded by the lock of `seen`. */
struct reported {
        char     activities[512]; /* names, each with a space */
        uint64_t times[16];
        char     tensors[512];
        unsigned n_activities;
        unsigned n_released;
        bool     wants_child; /* to be spawned when the request is queued */
        struct TRITONSERVER_InferenceTrace *child;
};

static void on_activity(struct TRITONSERVER_InferenceTrace *trace,
                        TRITONSERVER_InferenceTraceActivity activity, uint64_t timestamp_ns,
                        void *userp) {
        struct reported *reported = userp;
        const char      *name = NULL;

        assert_ok(NESO_InferenceTraceCustomActivity(trace, &name));
        pthread_mutex_lock(&seen.lock);
        reported->times[reported->n_activities++ % 16] = timestamp_ns;
        strncat(reported->activities,
                name != NULL ? name : TRITONSERVER_InferenceTraceActivityString(activity), 64);
        strcat(reported->activities, " ");
        pthread_mutex_unlock(&seen.lock);
        if (activity == TRITONSERVER_TRACE_QUEUE_START && reported->wants_child) {
                reported->wants_child = false;
                assert_ok(TRITONSERVER_InferenceTraceSpawnChildTrace(trace, &reported->child));
        }
}

/* The signature of the C API's callback. */
static void on_tensor(struct TRITONSERVER_InferenceTrace *trace,
                      TRITONSERVER_InferenceTraceActivity activity, const char *name,
                      TRITONSERVER_DataType datatype, const void *base, size_t byte_size,
                      const int64_t *shape, uint64_t dim_count, TRITONSERVER_MemoryType memory_type,
                      int64_t memory_type_id, void *userp) {
        struct reported *reported = userp;
        size_t           len;

        (void)trace, (void)memory_type_id;
        pthread_mutex_lock(&seen.lock);
        len = strlen(reported->tensors);
        snprintf(reported->tensors + len, sizeof(reported->tensors) - len,
                 "%d %s %s [%lld,%lld]/%llu %zu %g; ", (int)activity - 7, name,
                 TRITONSERVER_DataTypeString(datatype), (long long)shape[0], (long long)shape[1],
                 (unsigned long long)dim_count, byte_size,
                 memory_type == TRITONSERVER_MEMORY_CPU ? ((const float *)base)[2] : -1.0f);
        pthread_mutex_unlock(&seen.lock);
}

static void on_trace_release(struct TRITONSERVER_InferenceTrace *trace, void *userp) {
        struct reported *reported = userp;

        (void)trace;
        pthread_mutex_lock(&seen.lock);
        reported->n_released++;
        pthread_cond_signal(&seen.changed);
        pthread_mutex_unlock(&seen.lock);
}

static void wait_for_trace(struct reported *reported) {
        struct timespec deadline;
        int             rc = 0;

        clock_gettime(CLOCK_REALTIME, &deadline);
        deadline.tv_sec += TIMEOUT_S;
        pthread_mutex_lock(&seen.lock);
        while (rc == 0 && reported->n_released == 0)
                rc = pthread_cond_timedwait(&seen.changed, &seen.lock, &deadline);
        pthread_mutex_unlock(&seen.lock);
        assert_int_equal(reported->n_released, 1);
}

/* Times, then tensors, then both, with one trace each. */
static void test_traced(void **state) {
        static const float values[3] = { 1.0f, 2.0f, 3.5f };
        static const char all_times[] = "REQUEST_START QUEUE_START COMPUTE_START COMPUTE_INPUT_END "
                                        "COMPUTE_OUTPUT_START COMPUTE_END REQUEST_END ";
        static const char all_tensors[] =
                "0 INPUT0 FP32 [1,3]/2 12 3.5; 0 INPUT1 FP32 [1,3]/2 12 3.5; "
                "1 INPUT0 FP32 [1,3]/2 12 3.5; 1 INPUT1 FP32 [1,3]/2 12 3.5; "
                "2 OUTPUT0 FP32 [1,3]/2 12 3.5; "
                "2 OUTPUT1 FP32 [1,3]/2 12 3.5; ";
        uint64_t last_id = 0;

        (void)state;
        for (int level = 4; level <= 12; level += 4) {
                struct TRITONSERVER_InferenceRequest  *request = new_request();
                struct TRITONSERVER_InferenceResponse *response;
                struct TRITONSERVER_InferenceTrace    *trace;
                struct reported                        reported = { 0 };
                const char                            *text;
                uint64_t                               id;
                int64_t                                version;

                assert_ok(TRITONSERVER_InferenceTraceTensorNew(
                        &trace, (TRITONSERVER_InferenceTraceLevel)level, 41, on_activity, on_tensor,
                        on_trace_release, &reported));
                assert_ok(TRITONSERVER_InferenceTraceModelName(trace, &text));
                assert_string_equal(text, "");
                assert_ok(TRITONSERVER_InferenceRequestSetId(request, "traced"));
                add_input(request, "INPUT0", values, 1);
                add_input(request, "INPUT1", values, 1);
                response = infer_traced(request, trace);
                wait_for_trace(&reported);
                assert_string_equal(reported.activities, (level & 4) ? all_times : "");
                assert_string_equal(reported.tensors, (level & 8) ? all_tensors : "");
                for (unsigned i = 1; i < reported.n_activities; i++)
                        assert_true(reported.times[i - 1] <= reported.times[i]);

                assert_ok(TRITONSERVER_InferenceTraceId(trace, &id));
                assert_true(id > last_id);
                last_id = id;
                assert_ok(TRITONSERVER_InferenceTraceParentId(trace, &id));
                assert_int_equal(id, 41);
                assert_ok(TRITONSERVER_InferenceTraceModelName(trace, &text));
                assert_string_equal(text, "twin");
                assert_ok(TRITONSERVER_InferenceTraceModelVersion(trace, &version));
                assert_int_equal(version, 1);
                assert_ok(TRITONSERVER_InferenceTraceRequestId(trace, &text));
                assert_string_equal(text, "traced");
                assert_ok(TRITONSERVER_InferenceTraceDelete(trace));
                assert_ok(TRITONSERVER_InferenceResponseDelete(response));
                assert_ok(TRITONSERVER_InferenceRequestDelete(request));
        }
}

/* A refusal gives the trace back as well, once, and before the call returns. */
static void test_traced_refusal(void **state) {
        struct TRITONSERVER_InferenceRequest *request = new_request();
        struct TRITONSERVER_InferenceTrace   *trace;
        struct reported                       reported = { 0 };

        (void)state;
        assert_ok(TRITONSERVER_InferenceTraceNew(&trace, TRITONSERVER_TRACE_LEVEL_TIMESTAMPS, 0,
                                                 on_activity, on_trace_release, &reported));
        assert_error(TRITONSERVER_ServerInferAsync(server, request, trace),
                     TRITONSERVER_ERROR_INVALID_ARG,
                     "[request id: <id_unknown>] expected 2 inputs but got 0 inputs for model "
                     "'twin'. Got input(s) [], but missing required input(s) ['INPUT0','INPUT1']. "
                     "Please provide all required input(s).");
        assert_int_equal(reported.n_released, 1);
        assert_string_equal(reported.activities, "REQUEST_START REQUEST_END ");
        assert_ok(TRITONSERVER_InferenceTraceDelete(trace));
        assert_ok(TRITONSERVER_InferenceRequestDelete(request));
}

static void test_child_trace(void **state) {
        struct TRITONSERVER_InferenceTrace *trace, *child;
        struct reported                     reported = { 0 };
        const char                         *text = "not asked";
        uint64_t                            id, parent_id;

        (void)state;
        assert_ok(TRITONSERVER_InferenceTraceNew(&trace, TRITONSERVER_TRACE_LEVEL_MAX, 0,
                                                 on_activity, on_trace_release, &reported));
        assert_ok(TRITONSERVER_InferenceTraceContext(trace, &text));
        assert_null(text);
        assert_ok(TRITONSERVER_InferenceTraceSetContext(trace, "{\"traceparent\":\"x\"}"));
        assert_ok(TRITONSERVER_InferenceTraceSpawnChildTrace(trace, &child));
        assert_ok(TRITONSERVER_InferenceTraceSetContext(trace, "changed"));
        assert_ok(TRITONSERVER_InferenceTraceContext(child, &text));
        assert_string_equal(text, "{\"traceparent\":\"x\"}");
        assert_ok(TRITONSERVER_InferenceTraceId(trace, &id));
        assert_ok(TRITONSERVER_InferenceTraceParentId(child, &parent_id));
        assert_int_equal(parent_id, id);
        assert_ok(TRITONSERVER_InferenceTraceId(child, &parent_id));
        assert_true(parent_id > id);

        assert_ok(TRITONSERVER_InferenceTraceReportActivity(child, 17, "OF_MINE"));
        assert_string_equal(reported.activities, "OF_MINE ");
        assert_int_equal(reported.times[0], 17);
        assert_int_equal(reported.n_released, 0);
        assert_ok(TRITONSERVER_InferenceTraceDelete(child));
        assert_ok(TRITONSERVER_InferenceTraceDelete(trace));
        assert_int_equal(reported.n_released, 0);
}

/* An inference on behalf of another one, and after its end: the parent waits for the child. */
static void test_child_inference(void **state) {
        static const char all_times[] = "REQUEST_START QUEUE_START COMPUTE_START COMPUTE_INPUT_END "
                                        "COMPUTE_OUTPUT_START COMPUTE_END REQUEST_END ";
        static const float                  values[3] = { 1.0f, 2.0f, 3.5f };
        struct TRITONSERVER_InferenceTrace *trace;
        struct reported                     reported = { .wants_child = true };
        uint64_t                            id, parent_id;
        const char                         *text;

        (void)state;
        assert_ok(TRITONSERVER_InferenceTraceNew(&trace, TRITONSERVER_TRACE_LEVEL_TIMESTAMPS, 0,
                                                 on_activity, on_trace_release, &reported));
        for (int i = 0; i < 2; i++) {
                struct TRITONSERVER_InferenceRequest  *request = new_request();
                struct TRITONSERVER_InferenceResponse *response;

                assert_ok(TRITONSERVER_InferenceRequestSetId(request, i == 0 ? "outer" : "inner"));
                add_input(request, "INPUT0", values, 1);
                add_input(request, "INPUT1", values, 1);
                if (i == 1)
                        reported.activities[0] = '\0';
                response = infer_traced(request, i == 0 ? trace : reported.child);
                if (i == 1)
                        wait_for_trace(&reported); /* the child's */
                assert_int_equal(reported.n_released, i);
                assert_string_equal(reported.activities, all_times);
                assert_ok(TRITONSERVER_InferenceResponseDelete(response));
                assert_ok(TRITONSERVER_InferenceRequestDelete(request));
        }
        assert_ok(TRITONSERVER_InferenceTraceId(trace, &id));
        assert_ok(TRITONSERVER_InferenceTraceParentId(reported.child, &parent_id));
        assert_int_equal(parent_id, id);
        assert_ok(TRITONSERVER_InferenceTraceRequestId(reported.child, &text));
        assert_string_equal(text, "inner");

        assert_error(TRITONSERVER_InferenceTraceDelete(trace), TRITONSERVER_ERROR_INVALID_ARG,
                     "the trace is in use by an inference that has not released it");
        assert_ok(TRITONSERVER_InferenceTraceDelete(reported.child));
        assert_int_equal(reported.n_released, 2);
        assert_ok(TRITONSERVER_InferenceTraceDelete(trace));
}

static void test_stopped(void **state) {
        struct NESO_ReadyWatch               *watch;
        struct TRITONSERVER_InferenceRequest *request = NULL;
        struct TRITONSERVER_Error            *err;
        bool                                  flag = true;

        (void)state;
        assert_ok(NESO_ReadyWatchNew(&watch, server, on_change, &n_changes));
        assert_int_equal(n_changes, 0);
        assert_ok(TRITONSERVER_ServerStop(server));
        assert_true(n_changes > 0);
        assert_ok(NESO_ReadyWatchDelete(watch));
        err = TRITONSERVER_ServerIsReady(server, &flag);
        assert_non_null(err);
        assert_string_equal(TRITONSERVER_ErrorMessage(err), "Server exiting");
        assert_int_equal(TRITONSERVER_ErrorCode(err), TRITONSERVER_ERROR_UNAVAILABLE);
        TRITONSERVER_ErrorDelete(err);
        assert_false(flag);
        err = TRITONSERVER_InferenceRequestNew(&request, server, "twin", -1);
        assert_non_null(err);
        assert_int_equal(TRITONSERVER_ErrorCode(err), TRITONSERVER_ERROR_UNAVAILABLE);
        TRITONSERVER_ErrorDelete(err);
        assert_int_equal(seen.n_allocated, seen.n_given_back);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_ready),           cmocka_unit_test(test_metadata),
                cmocka_unit_test(test_infer),           cmocka_unit_test(test_infer_again),
                cmocka_unit_test(test_unknown_model),   cmocka_unit_test(test_refused),
                cmocka_unit_test(test_statistics),      cmocka_unit_test(test_traced),
                cmocka_unit_test(test_traced_refusal),  cmocka_unit_test(test_child_trace),
                cmocka_unit_test(test_child_inference), cmocka_unit_test(test_stopped),
        };

        if (argc != 2) {
                fprintf(stderr, "usage: %s <directory of backends>\n", argv[0]);
                return 2;
        }
        backend_directory = argv[1];
        return cmocka_run_group_tests(tests, start_server, stop_server);
}
