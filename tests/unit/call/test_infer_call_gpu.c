/* SPDX-License-Identifier: BSD-3-Clause */
/* Tensors in CUDA regions: what the core gets of them, and that the CPU touches none of their bytes.
 * The GPUs and the core are the tests' own.
 */
#include "suite.h"

#include "base/strbuf.h"
#include "call/fake_core.h"
#include "call/infer_call.h"
#include "call/infer_response.h"
#include "shm/fake_gpus.h"
#include "shm/shared_memory.h"
#include "shm/shm_object.h"

#include <string.h>

struct fixture {
        struct gpus                   gpus;
        struct shm_object             object;
        struct infer_core             core;
        struct infer_call             call;
        struct infer_request          request;
        struct infer_input            inputs[2];
        struct infer_requested_output outputs[2];
        struct arena                  arena;
};

static void enter(struct fixture *f, const char *name, size_t allocation, int64_t device) {
        unsigned char handle[GPU_SHARE_BYTES];

        fake_gpus_handle(allocation, handle);
        assert_null(shared_memory_register_cuda(
                f->core.shared_memory,
                &(struct cuda_place){ name, str_range((char *)handle, sizeof(handle)), device,
                                      FAKE_GPU_BYTES }));
}

/* The regions are "gpu0" and "gpu1", of a device each, and "host". */
static void open_fixture(struct fixture *f) {
        struct infer_call_options options = { .core = &f->core };

        *f = (struct fixture){ 0 };
        memset(&fake, 0, sizeof(fake));
        strbuf_init(&fake.calls, 0);
        fake_gpus_open(&f->gpus);
        shm_object_open(&f->object, 4096);
        assert_null(infer_core_init(&f->core, &(struct infer_core_options){ 0 }));
        assert_null(shared_memory_new(&f->gpus, &f->core.shared_memory));
        enter(f, "gpu0", 0, 0);
        enter(f, "gpu1", 1, 1);
        assert_null(shared_memory_register(f->core.shared_memory,
                                           &(struct shm_place){ "host", f->object.key, 0, 4096 }));
        arena_init(&f->arena, NULL, 0, 0);
        infer_call_init(&f->call, &options);
        infer_request_init(&f->request);
        f->request.inputs = f->inputs;
        f->request.outputs = f->outputs;
        f->request.n_inputs = f->request.n_outputs = 2;
        for (size_t i = 0; i < 2; i++) {
                f->inputs[i].name = i == 0 ? "IN0" : "IN1";
                f->inputs[i].datatype = TRITONSERVER_TYPE_UINT8;
                f->outputs[i].name = i == 0 ? "OUT0" : "OUT1";
        }
        assert_null(infer_call_open(&f->call, "m", 1));
        strbuf_clear(&fake.calls);
}

static void close_fixture(struct fixture *f) {
        infer_call_done(&f->call);
        infer_request_done(&f->request);
        arena_done(&f->arena);
        shared_memory_free(f->core.shared_memory);
        infer_core_done(&f->core);
        fake_gpus_close(&f->gpus);
        shm_object_close(&f->object);
        strbuf_done(&fake.calls);
        assert_int_equal(fake.n_requests, 0);
        assert_int_equal(fake.n_errors, 0);
}

static struct error *find(struct fixture *f) {
        return infer_call_find_regions(&f->call, &f->request, &f->arena);
}

static void put(struct infer_shared_memory *at, const char *region, uint64_t offset,
                uint64_t byte_size) {
        *at = (struct infer_shared_memory){ region, offset, byte_size };
}

static void assert_refused(struct error *err, enum error_code code, const char *text) {
        assert_non_null(err);
        assert_string_equal(err->message, text);
        assert_int_equal(err->code, code);
        error_free(err);
}

/* ---- inputs ---- */

/* Both kinds in one request: each input with the attributes of its memory. */
static void test_inputs(void **state) {
        struct fixture f;

        (void)state;
        open_fixture(&f);
        put(&f.inputs[0].shared_memory, "gpu1", 16, 100);
        put(&f.inputs[1].shared_memory, "host", 97, 3); /* "abc" */
        assert_null(find(&f));
        assert_ptr_equal(f.inputs[0].bytes.ptr, f.gpus.memory[1] + 16);
        assert_int_equal(f.inputs[0].gpu->device, 1);
        assert_null(f.inputs[1].gpu);
        assert_null(infer_call_fill(&f.call, &f.request));
        assert_string_equal(strbuf_cstr(&fake.calls),
                            "input IN0 2\nappend IN0 type 2 id 1 handle 1, 100 bytes\n"
                            "input IN1 2\nappend IN1 'abc'\noutput OUT0\noutput OUT1\n"
                            "cacheable 0\n");
        assert_null(infer_call_check_regions(&f.call));
        close_fixture(&f);
}

static void test_no_bytes(void **state) {
        struct fixture f;

        (void)state;
        open_fixture(&f);
        put(&f.inputs[0].shared_memory, "gpu0", 5, 0);
        put(&f.inputs[1].shared_memory, "gpu0", 5, 0);
        f.inputs[1].datatype = TRITONSERVER_TYPE_BYTES;
        f.request.n_outputs = 0;
        assert_null(find(&f));
        assert_null(infer_call_fill(&f.call, &f.request));
        assert_string_equal(strbuf_cstr(&fake.calls), "input IN0 2\ninput IN1 13\ncacheable 0\n");
        close_fixture(&f);
}

/* The core checks the lengths of texts, so they come to the host. */
static void test_strings(void **state) {
        struct fixture f;

        (void)state;
        open_fixture(&f);
        f.inputs[0].datatype = TRITONSERVER_TYPE_BYTES;
        put(&f.inputs[0].shared_memory, "gpu0", 10, 20);
        f.request.n_inputs = 1;
        assert_null(find(&f));
        assert_null(f.inputs[0].gpu);
        assert_ptr_equal(f.inputs[0].bytes.ptr, f.inputs[0].converted->bytes);
        for (size_t i = 0; i < 20; i++)
                assert_int_equal(f.inputs[0].bytes.ptr[i], 10 + i);
        close_fixture(&f);
}

/* The loop does not wait for a device. */
static void test_is_long(void **state) {
        struct fixture f;

        (void)state;
        open_fixture(&f);
        put(&f.inputs[0].shared_memory, "gpu0", 0, 8);
        put(&f.inputs[1].shared_memory, "host", 0, 8);
        f.inputs[1].datatype = TRITONSERVER_TYPE_BYTES;
        assert_false(infer_call_is_long(&f.call, &f.request, 1000));
        assert_true(infer_call_is_long(&f.call, &f.request, 7));
        f.inputs[0].datatype = TRITONSERVER_TYPE_BYTES;
        assert_true(infer_call_is_long(&f.call, &f.request, 1000));
        assert_false(infer_call_is_long(&f.call, &f.request, SIZE_MAX));
        put(&f.inputs[0].shared_memory, "unknown", 0, 8);
        assert_false(infer_call_is_long(&f.call, &f.request, 1000));
        close_fixture(&f);
}

static void test_lost_device(void **state) {
        struct fixture f;

        (void)state;
        open_fixture(&f);
        f.gpus.fails_to_copy = true;
        f.inputs[0].datatype = TRITONSERVER_TYPE_BYTES;
        put(&f.inputs[0].shared_memory, "gpu1", 0, 20);
        assert_refused(find(&f), ERR_UNAVAILABLE, "GPU 1 is lost");
        close_fixture(&f);
}

static void test_bounds(void **state) {
        struct fixture f;

        (void)state;
        open_fixture(&f);
        put(&f.inputs[0].shared_memory, "gpu0", FAKE_GPU_BYTES, 1);
        assert_refused(find(&f), ERR_INVALID_ARG,
                       "Invalid offset for shared memory region: 'gpu0'");
        infer_call_done(&f.call);
        put(&f.inputs[0].shared_memory, "gpu0", 1, FAKE_GPU_BYTES);
        assert_refused(find(&f), ERR_INVALID_ARG,
                       "Invalid offset + byte size for shared memory region: 'gpu0'");
        close_fixture(&f);
}

static void test_errors_of_the_core(void **state) {
        struct fixture f;

        (void)state;
        open_fixture(&f);
        put(&f.inputs[0].shared_memory, "gpu0", 0, 1);
        assert_null(find(&f));
        fake.refuse = "AppendWithAttributes";
        assert_refused(infer_call_fill(&f.call, &f.request), ERR_NOT_FOUND, "AppendWithAttributes");
        close_fixture(&f);
}

/* ---- outputs ---- */

struct given {
        void                   *memory, *userp;
        TRITONSERVER_MemoryType type;
        int64_t                 id;
};

static struct error *allocate(struct fixture *f, const char *output, size_t bytes,
                              TRITONSERVER_MemoryType preferred, struct given *ret) {
        struct TRITONSERVER_InferenceRequest *r = f->call.request;
        struct TRITONSERVER_Error            *err =
                r->allocator->alloc(r->allocator, output, bytes, preferred, 0, r->allocator_userp,
                                    &ret->memory, &ret->userp, &ret->type, &ret->id);
        struct error *ours;

        if (err == NULL)
                return NULL;
        ours = error_new_text((enum error_code)TRITONSERVER_ErrorCode(err),
                              TRITONSERVER_ErrorMessage(err));
        TRITONSERVER_ErrorDelete(err);
        return ours;
}

/* -1: none. */
static int find_handle(struct fixture *f, const char *output, const struct given *g) {
        struct TRITONSERVER_ResponseAllocator *a = f->call.request->allocator;
        struct TRITONSERVER_BufferAttributes  *attributes;
        void                                  *handle;

        assert_null(TRITONSERVER_BufferAttributesNew(&attributes));
        assert_null(TRITONSERVER_BufferAttributesSetMemoryType(attributes, g->type));
        assert_null(a->describe(a, output, attributes, f->call.request->allocator_userp, g->userp));
        assert_null(TRITONSERVER_BufferAttributesCudaIpcHandle(attributes, &handle));
        TRITONSERVER_BufferAttributesDelete(attributes);
        return handle != NULL ? *(const unsigned char *)handle : -1;
}

static void assert_query(struct fixture *f, const char *output, TRITONSERVER_MemoryType type,
                         int64_t id) {
        struct TRITONSERVER_ResponseAllocator *a = f->call.request->allocator;
        TRITONSERVER_MemoryType                found = TRITONSERVER_MEMORY_CPU_PINNED;
        int64_t                                found_id = 9;

        assert_null(a->query(a, f->call.request->allocator_userp, output, NULL, &found, &found_id));
        assert_int_equal(found, type);
        assert_int_equal(found_id, id);
}

/* The client's memory, whatever the backend prefers; other outputs are the host's. */
static void test_outputs(void **state) {
        static const TRITONSERVER_MemoryType preferred[] = { TRITONSERVER_MEMORY_CPU,
                                                             TRITONSERVER_MEMORY_CPU_PINNED,
                                                             TRITONSERVER_MEMORY_GPU };
        struct fixture                       f;
        struct given                         g;

        (void)state;
        open_fixture(&f);
        put(&f.outputs[0].shared_memory, "gpu1", 32, 64);
        put(&f.outputs[1].shared_memory, "host", 8, 64);
        f.request.n_inputs = 0;
        assert_null(find(&f));
        assert_null(infer_call_fill(&f.call, &f.request));
        assert_string_equal(strbuf_cstr(&fake.calls),
                            "output OUT0\noutput OUT1\ndevice outputs 1\ncacheable 0\n");
        for (size_t i = 0; i < ARRAY_LEN(preferred); i++) {
                assert_null(allocate(&f, "OUT0", 64, preferred[i], &g));
                assert_ptr_equal(g.memory, f.gpus.memory[1] + 32);
                assert_int_equal(g.type, TRITONSERVER_MEMORY_GPU);
                assert_int_equal(g.id, 1);
                assert_null(g.userp);
                assert_int_equal(find_handle(&f, "OUT0", &g), 1);
                for (int k = 1; k < 3; k++) {
                        const char *output = k == 1 ? "OUT1" : "OUT2";

                        assert_null(allocate(&f, output, 64, preferred[i], &g));
                        assert_int_equal(g.type, TRITONSERVER_MEMORY_CPU);
                        assert_int_equal(g.id, 0);
                        memset(g.memory, 'x', 64);
                        assert_int_equal(find_handle(&f, output, &g), -1);
                }
        }
        assert_null(allocate(&f, "OUT0", 0, TRITONSERVER_MEMORY_GPU, &g)); /* has no bytes there */
        assert_int_equal(g.type, TRITONSERVER_MEMORY_CPU);
        assert_int_equal(find_handle(&f, "OUT0", &g), -1);
        assert_refused(allocate(&f, "OUT0", 65, TRITONSERVER_MEMORY_GPU, &g), ERR_INVALID_ARG,
                       "shared memory size specified with the request for output 'OUT0' (64 bytes) "
                       "should be at least 65 bytes to hold the results");
        assert_query(&f, "OUT0", TRITONSERVER_MEMORY_GPU, 1);
        assert_query(&f, "OUT1", TRITONSERVER_MEMORY_CPU, 0);
        assert_query(&f, NULL, TRITONSERVER_MEMORY_CPU, 0);
        close_fixture(&f);
}

/* The core describes no buffer of a call that has no output on a device. */
static void test_plain_allocator(void **state) {
        struct fixture f;

        (void)state;
        open_fixture(&f);
        put(&f.inputs[0].shared_memory, "gpu0", 0, 1);
        put(&f.outputs[0].shared_memory, "host", 0, 64);
        assert_null(find(&f));
        assert_null(infer_call_fill(&f.call, &f.request));
        assert_ptr_equal(f.call.request->allocator, f.core.allocator);
        assert_null(f.call.request->allocator->describe);
        close_fixture(&f);
}

/* An output on a device is the region's, and is never sent. */
static void test_response(void **state) {
        struct TRITONSERVER_InferenceResponse r = { .output = "out",
                                                    .bytes = 100,
                                                    .type = TRITONSERVER_MEMORY_GPU };
        struct infer_requested_output         asked = { .name = "out" };
        struct infer_response                 response;
        struct fixture                        f;

        (void)state;
        open_fixture(&f);
        r.base = f.gpus.memory[0];
        f.request.outputs = &asked;
        f.request.n_outputs = 1;
        put(&asked.shared_memory, "gpu0", 0, 100);
        assert_null(infer_response_read(&r, &f.request, &f.arena, &response));
        assert_int_equal(response.outputs[0].form, INFER_OUTPUT_SHARED_MEMORY);
        assert_int_equal(infer_response_work(&response), 0);
        assert_int_equal(infer_response_bytes(&response), 0);
        put(&asked.shared_memory, NULL, 0, 0);
        assert_refused(infer_response_read(&r, &f.request, &f.arena, &response), ERR_INTERNAL,
                       "output 'out' is in the memory of a GPU");
        close_fixture(&f);
}

/* ---- lifetime ---- */

static void test_held(void **state) {
        struct fixture f;

        (void)state;
        open_fixture(&f);
        put(&f.inputs[0].shared_memory, "gpu0", 0, 1);
        put(&f.outputs[0].shared_memory, "gpu1", 0, 1);
        assert_null(find(&f));
        assert_null(
                shared_memory_unregister(f.core.shared_memory, SHARED_MEMORY_CUDA, STR_LIT("")));
        assert_int_equal(fake_gpus_n_open(&f.gpus), 2);
        infer_call_done(&f.call);
        close_fixture(&f); /* the regions are closed before it ends */
}

SUITE(infer_call_gpu) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_inputs),
                cmocka_unit_test(test_no_bytes),
                cmocka_unit_test(test_strings),
                cmocka_unit_test(test_is_long),
                cmocka_unit_test(test_lost_device),
                cmocka_unit_test(test_bounds),
                cmocka_unit_test(test_errors_of_the_core),
                cmocka_unit_test(test_outputs),
                cmocka_unit_test(test_plain_allocator),
                cmocka_unit_test(test_response),
                cmocka_unit_test(test_held),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
