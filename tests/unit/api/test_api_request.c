/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests through the C API: what a program may do with one that it keeps. */
#include "suite.h"

#include "../gpu/fake_gpus.h"
#include "infer/fake_model.h"
#include "server/server.h"
#include "triton/core/tritonbackend.h"
#include "triton/core/tritonserver.h"

#define CONFIG                                                                                     \
        "name: 'm' input { name: 'A' data_type: TYPE_FP32 dims: 1 } "                              \
        "output { name: 'Y' data_type: TYPE_FP32 dims: 1 } "

/* Accepts each request and keeps it. */
struct keeper {
        struct scheduler base;
        struct request  *kept;
        unsigned         n_cancels;
};

static struct error *keep(struct scheduler *s, struct request *req) {
        CONTAINER_OF(s, struct keeper, base)->kept = req;
        atomic_store(&req->state, REQUEST_PENDING);
        return NULL;
}

static void note_cancel(struct scheduler *s, struct request *req) {
        (void)req;
        CONTAINER_OF(s, struct keeper, base)->n_cancels++;
}

static const struct scheduler_ops keeper_ops = { .submit = keep, .cancel = note_cancel };

struct fixture {
        struct fake_model                     *fake;
        struct keeper                          keeper;
        struct server                          server;
        struct TRITONSERVER_Server            *server_face;
        struct TRITONSERVER_InferenceRequest  *request;
        struct TRITONSERVER_ResponseAllocator *allocator;
        unsigned                               n_released;
};

static void ok(struct TRITONSERVER_Error *err) {
        assert_ok((struct error *)err, "call");
}

static void refused(struct TRITONSERVER_Error *err, const char *message) {
        assert_error((struct error *)err, ERR_INVALID_ARG, message);
}

static struct TRITONSERVER_Error *alloc_nothing(struct TRITONSERVER_ResponseAllocator *allocator,
                                                const char *tensor, size_t byte_size,
                                                TRITONSERVER_MemoryType type, int64_t id,
                                                void *userp, void **buffer, void **buffer_userp,
                                                TRITONSERVER_MemoryType *actual_type,
                                                int64_t                 *actual_id) {
        (void)allocator, (void)tensor, (void)byte_size, (void)type, (void)id, (void)userp;
        (void)buffer, (void)buffer_userp, (void)actual_type, (void)actual_id;
        return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "no outputs in this test");
}

static struct TRITONSERVER_Error *release_nothing(struct TRITONSERVER_ResponseAllocator *allocator,
                                                  void *buffer, void *buffer_userp,
                                                  size_t byte_size, TRITONSERVER_MemoryType type,
                                                  int64_t id) {
        (void)allocator, (void)buffer, (void)buffer_userp, (void)byte_size, (void)type, (void)id;
        return NULL;
}

static void on_release(struct TRITONSERVER_InferenceRequest *request, const uint32_t flags,
                       void *userp) {
        struct fixture *f = userp;

        assert_ptr_equal(request, f->request);
        assert_int_equal(flags, TRITONSERVER_REQUEST_RELEASE_ALL);
        f->n_released++;
}

static void on_response(struct TRITONSERVER_InferenceResponse *response, const uint32_t flags,
                        void *userp) {
        (void)flags;
        (void)userp;
        ok(TRITONSERVER_InferenceResponseDelete(response));
}

static void set_callbacks(struct fixture *f) {
        ok(TRITONSERVER_InferenceRequestSetReleaseCallback(f->request, on_release, f));
        ok(TRITONSERVER_InferenceRequestSetResponseCallback(f->request, f->allocator, NULL,
                                                            on_response, f));
}

static int open_fixture(void **state) {
        static const float zero;
        struct fixture    *f = calloc(1, sizeof(*f));

        assert_non_null(f);
        f->fake = fake_model_new(CONFIG);
        f->keeper.base.ops = &keeper_ops;
        f->fake->model.scheduler = &f->keeper.base;
        atomic_store(&f->server.state, SERVER_READY);
        f->server_face = (struct TRITONSERVER_Server *)&f->server;
        f->request = (struct TRITONSERVER_InferenceRequest *)fake_request(f->fake);
        ok(TRITONSERVER_ResponseAllocatorNew(&f->allocator, alloc_nothing, release_nothing, NULL));
        ok(TRITONSERVER_InferenceRequestAddInput(f->request, "A", TRITONSERVER_TYPE_FP32,
                                                 (int64_t[]){ 1 }, 1));
        ok(TRITONSERVER_InferenceRequestAppendInputData(f->request, "A", &zero, sizeof(zero),
                                                        TRITONSERVER_MEMORY_CPU, 0));
        set_callbacks(f);
        *state = f;
        return 0;
}

static int close_fixture(void **state) {
        struct fixture *f = *state;

        ok(TRITONSERVER_InferenceRequestDelete(f->request));
        ok(TRITONSERVER_ResponseAllocatorDelete(f->allocator));
        fake_model_free(f->fake);
        free(f);
        return 0;
}

static bool is_cancelled(struct fixture *f) {
        bool yes = false;

        ok(TRITONSERVER_InferenceRequestIsCancelled(f->request, &yes));
        return yes;
}

/* A scheduler's lists would break if a request were in them twice. */
static void test_in_use(void **state) {
        static const char in_use[] =
                "the request is in use by an inference that has not released it";
        struct fixture *f = *state;

        ok(TRITONSERVER_ServerInferAsync(f->server_face, f->request, NULL));
        refused(TRITONSERVER_ServerInferAsync(f->server_face, f->request, NULL), in_use);
        atomic_store(&f->keeper.kept->state, REQUEST_EXECUTING);
        refused(TRITONSERVER_ServerInferAsync(f->server_face, f->request, NULL), in_use);
        refused(TRITONSERVER_InferenceRequestDelete(f->request), in_use);
        assert_int_equal(atomic_load(&f->fake->model.n_in_flight), 1);
        request_release(f->keeper.kept, REQUEST_RELEASE_ALL);
        assert_int_equal(f->n_released, 1);

        ok(TRITONSERVER_ServerInferAsync(f->server_face, f->request, NULL));
        request_release(f->keeper.kept, REQUEST_RELEASE_ALL);
        assert_int_equal(f->n_released, 2);
        assert_int_equal(atomic_load(&f->fake->model.n_in_flight), 0);
}

/* A cancellation ends one inference, not all that the same request is used for later. */
static void test_cancellation_is_of_one_use(void **state) {
        struct fixture *f = *state;

        ok(TRITONSERVER_ServerInferAsync(f->server_face, f->request, NULL));
        ok(TRITONSERVER_InferenceRequestCancel(f->request));
        assert_int_equal(f->keeper.n_cancels, 1);
        assert_true(is_cancelled(f));
        request_release(f->keeper.kept, REQUEST_RELEASE_ALL);
        assert_true(is_cancelled(f));

        set_callbacks(f);
        assert_false(is_cancelled(f));

        /* Before it starts: it will be refused. */
        ok(TRITONSERVER_InferenceRequestCancel(f->request));
        assert_int_equal(f->keeper.n_cancels, 1);
        assert_true(is_cancelled(f));
        ok(TRITONSERVER_InferenceRequestDelete(NULL));
}

static void test_memory_types(void **state) {
        struct fixture *f = *state;
        char            byte = 0;

        refused(TRITONSERVER_InferenceRequestAppendInputData(f->request, "A", &byte, 1,
                                                             (TRITONSERVER_MemoryType)3, 0),
                "TRITONSERVER_InferenceRequestAppendInputData: 3 is no valid memory type");
        assert_error((struct error *)TRITONSERVER_InferenceRequestAppendInputData(
                             f->request, "A", &byte, 1, TRITONSERVER_MEMORY_GPU, 0),
                     ERR_UNSUPPORTED, "input 'A' is in GPU memory: GPUs not supported");
        ok(TRITONSERVER_InferenceRequestAppendInputData(f->request, "A", &byte, 1,
                                                        TRITONSERVER_MEMORY_CPU_PINNED, 0));
        assert_int_equal(request_find_input((struct request *)f->request, "A")->byte_size, 5);
}

/* Which buffer a backend finds at the index, by both functions. */
static void assert_buffer(struct fixture *f, uint32_t index, const void *base,
                          TRITONSERVER_MemoryType type, int64_t id, const void *handle) {
        TRITONBACKEND_Input           *input;
        TRITONSERVER_BufferAttributes *attributes;
        TRITONSERVER_MemoryType        got_type = TRITONSERVER_MEMORY_CPU; /* as it prefers */
        int64_t                        got_id = 0;
        uint64_t                       n_bytes;
        size_t                         n;
        const void                    *got;
        void                          *got_handle;

        ok(TRITONBACKEND_RequestInput((TRITONBACKEND_Request *)f->request, "A", &input));
        ok(TRITONBACKEND_InputBuffer(input, index, &got, &n_bytes, &got_type, &got_id));
        assert_ptr_equal(got, base);
        assert_int_equal(n_bytes, 4);
        assert_int_equal(got_type, type);
        assert_int_equal(got_id, id);
        ok(TRITONBACKEND_InputBufferForHostPolicy(input, "none", index, &got, &n_bytes, &got_type,
                                                  &got_id));
        assert_ptr_equal(got, base);
        assert_int_equal(got_type, type);
        assert_int_equal(got_id, id);
        ok(TRITONBACKEND_InputBufferAttributes(input, index, &got, &attributes));
        assert_ptr_equal(got, base);
        ok(TRITONSERVER_BufferAttributesMemoryType(attributes, &got_type));
        ok(TRITONSERVER_BufferAttributesMemoryTypeId(attributes, &got_id));
        ok(TRITONSERVER_BufferAttributesByteSize(attributes, &n));
        ok(TRITONSERVER_BufferAttributesCudaIpcHandle(attributes, &got_handle));
        assert_int_equal(got_type, type);
        assert_int_equal(got_id, id);
        assert_int_equal(n, 4);
        assert_ptr_equal(got_handle, handle);
}

static void test_devices(void **state) {
        static char                    handle[64];
        struct fixture                *f = *state;
        struct gpus_options            options = fake_gpus_options();
        struct fake_gpus               gpus;
        TRITONSERVER_BufferAttributes *attributes;
        void                          *memory;

        fake_gpus_open(&gpus, &options);
        f->fake->model.gpus = gpus.gpus;
        assert_ok(gpu_alloc(gpus.gpus, 1, 4, &memory), "memory");
        refused(TRITONSERVER_InferenceRequestAppendInputData(f->request, "A", memory, 4,
                                                             TRITONSERVER_MEMORY_GPU, 2),
                "[request id: <id_unknown>] input 'A' is in the memory of GPU 2, which this server "
                "does not have; its GPUs are: 0,1");
        refused(TRITONSERVER_InferenceRequestAppendInputDataWithHostPolicy(
                        f->request, "A", memory, 4, TRITONSERVER_MEMORY_GPU, -1, "gpu_0"),
                "[request id: <id_unknown>] input 'A' is in the memory of GPU -1, which this "
                "server "
                "does not have; its GPUs are: 0,1");
        ok(TRITONSERVER_BufferAttributesNew(&attributes));
        ok(TRITONSERVER_BufferAttributesSetMemoryType(attributes, TRITONSERVER_MEMORY_GPU));
        ok(TRITONSERVER_BufferAttributesSetMemoryTypeId(attributes, INT64_C(1) << 32));
        ok(TRITONSERVER_BufferAttributesSetByteSize(attributes, 4));
        ok(TRITONSERVER_BufferAttributesSetCudaIpcHandle(attributes, handle));
        refused(TRITONSERVER_InferenceRequestAppendInputDataWithBufferAttributes(f->request, "A",
                                                                                 memory,
                                                                                 attributes),
                "[request id: <id_unknown>] input 'A' is in the memory of GPU 4294967296, which "
                "this "
                "server does not have; its GPUs are: 0,1");
        ok(TRITONSERVER_InferenceRequestRemoveAllInputData(f->request, "A"));
        ok(TRITONSERVER_InferenceRequestAppendInputData(f->request, "A", memory, 4,
                                                        TRITONSERVER_MEMORY_GPU, 1));
        assert_buffer(f, 0, memory, TRITONSERVER_MEMORY_GPU, 1, NULL);
        ok(TRITONSERVER_BufferAttributesSetMemoryTypeId(attributes, 1));
        ok(TRITONSERVER_InferenceRequestAppendInputDataWithBufferAttributes(f->request, "A", memory,
                                                                            attributes));
        ok(TRITONSERVER_BufferAttributesDelete(attributes));
        assert_buffer(f, 1, memory, TRITONSERVER_MEMORY_GPU, 1, handle);
        ok(TRITONSERVER_InferenceRequestRemoveAllInputs(f->request));
        gpu_free(gpus.gpus, 1, memory);
        fake_gpus_close(&gpus);
}

SUITE(api_request) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_in_use, open_fixture, close_fixture),
                cmocka_unit_test_setup_teardown(test_cancellation_is_of_one_use, open_fixture,
                                                close_fixture),
                cmocka_unit_test_setup_teardown(test_memory_types, open_fixture, close_fixture),
                cmocka_unit_test_setup_teardown(test_devices, open_fixture, close_fixture),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
