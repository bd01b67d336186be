/* SPDX-License-Identifier: BSD-3-Clause */
/* CUDA shared memory over gRPC, with GPUs of the tests' own: the driver is called on another thread. */
#include "suite.h"

#include "base/mem.h"
#include "grpc/fake_call.h"
#include "grpc/rpc_table.h"
#include "grpc_service.pb-c.h"
#include "shm/fake_gpus.h"
#include "shm/shared_memory.h"

#include <stdlib.h>
#include <string.h>

static struct gpus gpus;

static void ask(const char *name, const ProtobufCMessage *m) {
        struct grpc_method_table table = rpc_table();
        size_t                   len = protobuf_c_message_get_packed_size(m), i = 0;
        AUTO_CHARS               bytes = mem_alloc(len + 1);

        while (strcmp(table.rows[i].path + strlen("/inference.GRPCInferenceService/"), name) != 0)
                assert_true(++i < table.n_rows);
        protobuf_c_message_pack(m, (uint8_t *)bytes);
        fake_call.call.method = &table.rows[i];
        fake_call_read(table.rows[i].on_message, str_range(bytes, len));
}

static void register_region(const char *name, unsigned char *handle, size_t n, int64_t device,
                            uint64_t byte_size) {
        Inference__CudaSharedMemoryRegisterRequest q =
                INFERENCE__CUDA_SHARED_MEMORY_REGISTER_REQUEST__INIT;

        q.name = (char *)name;
        q.raw_handle = (ProtobufCBinaryData){ n, handle };
        q.device_id = device;
        q.byte_size = byte_size;
        ask("CudaSharedMemoryRegister", &q.base);
}

static void unregister(const char *name) {
        Inference__CudaSharedMemoryUnregisterRequest q =
                INFERENCE__CUDA_SHARED_MEMORY_UNREGISTER_REQUEST__INIT;

        q.name = (char *)name;
        ask("CudaSharedMemoryUnregister", &q.base);
}

static int setup(void **state) {
        (void)state;
        fake_gpus_open(&gpus);
        fake_call_init();
        assert_null(shared_memory_new(&gpus, &fake_call.service.shared_memory));
        return 0;
}

static int teardown(void **state) {
        (void)state;
        shared_memory_free(fake_call.service.shared_memory);
        fake_call_done();
        fake_gpus_close(&gpus);
        return 0;
}

static void enter(const char *name, size_t allocation, int64_t device) {
        unsigned char handle[GPU_SHARE_BYTES];

        fake_gpus_handle(allocation, handle);
        assert_null(shared_memory_register_cuda(
                fake_call.service.shared_memory,
                &(struct cuda_place){ name, str_range((char *)handle, sizeof(handle)), device,
                                      8 }));
}

static void assert_empty_answer(void) {
        assert_int_equal(fake_call.code, GRPC_OK);
        assert_int_equal(fake_call.n_messages, 1);
        assert_int_equal(fake_call.messages[0].len, 0);
}

static void assert_refused(enum grpc_code code, const char *text) {
        assert_int_equal(fake_call.n_finished, 1);
        assert_int_equal(fake_call.code, code);
        assert_string_equal(strbuf_cstr(&fake_call.text), text);
        assert_int_equal(fake_gpus_n_open(&gpus), 0);
}

static void registers(void **state) {
        unsigned char handle[GPU_SHARE_BYTES];

        (void)state;
        fake_gpus_handle(1, handle);
        register_region("r", handle, sizeof(handle), 1, 100);
        assert_int_equal(fake_call.n_finished, 0);
        assert_int_equal(gpus.n_opened, 0); /* not on the loop */
        fake_call_run_work();
        assert_empty_answer();
        assert_int_equal(gpus.n_open[1], 1);
}

static void refuses_a_handle(void **state) {
        unsigned char handle[GPU_SHARE_BYTES] = "no handle";

        (void)state;
        register_region("r", handle, sizeof(handle), 0, 1);
        fake_call_run_work();
        assert_refused(GRPC_INVALID_ARGUMENT,
                       "failed to register shared memory region: invalid args");
}

static void refuses_no_handle(void **state) {
        (void)state;
        register_region("r", NULL, 0, 0, 1);
        fake_call_run_work();
        assert_refused(GRPC_INVALID_ARGUMENT, "failed to register shared memory region 'r': "
                                              "raw_handle has 0 bytes, a handle has 64");
}

static void refuses_a_device(void **state) {
        unsigned char handle[GPU_SHARE_BYTES];

        (void)state;
        fake_gpus_handle(0, handle);
        register_region("r", handle, sizeof(handle), -1, 1);
        fake_call_run_work();
        assert_refused(GRPC_INVALID_ARGUMENT, "failed to register shared memory region 'r': "
                                              "unknown device_id -1, the server has these GPUs: "
                                              "0,1");
}

/* The order runs on; the call ends with it. */
static void client_goes_away(void **state) {
        unsigned char handle[GPU_SHARE_BYTES];

        (void)state;
        fake_gpus_handle(0, handle);
        register_region("r", handle, sizeof(handle), 0, 1);
        fake_call.call.abort_reason = GRPC_ABORT_CANCELLED;
        fake_call.call.method->on_abort(&fake_call.call);
        assert_int_equal(fake_call.n_finished, 0);
        fake_call_run_work();
        assert_int_equal(gpus.n_open[0], 1);
        assert_int_equal(fake_call.n_messages, 0);
}

static void unregisters(void **state) {
        (void)state;
        enter("a", 0, 0);
        enter("b", 1, 1);
        unregister("a");
        assert_int_equal(fake_gpus_n_open(&gpus), 2); /* not on the loop */
        fake_call_run_work();
        assert_empty_answer();
        assert_int_equal(gpus.n_open[0], 0);
        assert_int_equal(gpus.n_open[1], 1);
}

static void unregisters_all(void **state) {
        (void)state;
        enter("a", 0, 0);
        enter("b", 1, 1);
        unregister("");
        fake_call_run_work();
        assert_empty_answer();
        assert_int_equal(fake_gpus_n_open(&gpus), 0);
}

static void lists(void **state) {
        Inference__CudaSharedMemoryStatusRequest q =
                INFERENCE__CUDA_SHARED_MEMORY_STATUS_REQUEST__INIT;
        Inference__CudaSharedMemoryStatusResponse *answer;

        (void)state;
        enter("b", 0, 0);
        enter("a", 1, 1);
        ask("CudaSharedMemoryStatus", &q.base);
        assert_int_equal(fake_call.code, GRPC_OK);
        answer = inference__cuda_shared_memory_status_response__unpack(
                NULL, fake_call.messages[0].len,
                (const uint8_t *)strbuf_cstr(&fake_call.messages[0]));
        assert_int_equal(answer->n_regions, 2);
        for (size_t i = 0; i < 2; i++) {
                assert_string_equal(answer->regions[i]->key, i == 0 ? "a" : "b");
                assert_string_equal(answer->regions[i]->value->name, i == 0 ? "a" : "b");
                assert_int_equal(answer->regions[i]->value->device_id, 1 - i);
                assert_int_equal(answer->regions[i]->value->byte_size, 8);
        }
        inference__cuda_shared_memory_status_response__free_unpacked(answer, NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

SUITE(rpc_shm) {
        const struct CMUnitTest tests[] = {
                TEST(registers),         TEST(refuses_a_handle),
                TEST(refuses_no_handle), TEST(refuses_a_device),
                TEST(client_goes_away),  TEST(unregisters),
                TEST(unregisters_all),   TEST(lists),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
