/* SPDX-License-Identifier: BSD-3-Clause */
/* TRITONBACKEND_MemoryManagerAllocate() and NESO_MemoryManagerCopy(), without GPUs and on the stand-in of the
 * driver. */
#include "suite.h"

#include "../gpu/fake_gpus.h"
#include "backend/backend.h"
#include "triton/core/neso.h"
#include "triton/core/tritonbackend.h"

#include <string.h>

struct fixture {
        struct fake_gpus             f;
        struct backend               backend;
        TRITONBACKEND_MemoryManager *manager;
};

static void open_manager(struct fixture *x, const struct gpus_options *options) {
        memset(x, 0, sizeof(*x));
        if (options != NULL)
                fake_gpus_open(&x->f, options);
        x->backend.gpus = x->f.gpus;
        assert_null(TRITONBACKEND_BackendMemoryManager((TRITONBACKEND_Backend *)&x->backend,
                                                       &x->manager));
}

static void *allocate(struct fixture *x, TRITONSERVER_MemoryType type, int64_t id, uint64_t bytes) {
        void *memory = NULL;

        assert_null(TRITONBACKEND_MemoryManagerAllocate(x->manager, &memory, type, id, bytes));
        assert_non_null(memory);
        return memory;
}

static void deallocate(struct fixture *x, TRITONSERVER_MemoryType type, int64_t id, void *memory) {
        assert_null(TRITONBACKEND_MemoryManagerFree(x->manager, memory, type, id));
}

static void assert_refused(struct fixture *x, TRITONSERVER_MemoryType type, int64_t id,
                           uint64_t bytes, enum error_code code, const char *text) {
        char  guard;
        void *memory = &guard;

        assert_gpu_error((struct error *)TRITONBACKEND_MemoryManagerAllocate(x->manager, &memory,
                                                                             type, id, bytes),
                         code, text);
        assert_null(memory);
}

static void test_without_gpus(void **state) {
        (void)state;
        struct fixture x;
        void          *memory;

        open_manager(&x, NULL);
        memory = allocate(&x, TRITONSERVER_MEMORY_CPU, 0, 100);
        memset(memory, 1, 100);
        deallocate(&x, TRITONSERVER_MEMORY_CPU, 0, memory);
        memory = allocate(&x, TRITONSERVER_MEMORY_CPU_PINNED, 0, 100);
        memset(memory, 1, 100);
        deallocate(&x, TRITONSERVER_MEMORY_CPU_PINNED, 0, memory);
        assert_refused(&x, TRITONSERVER_MEMORY_GPU, 0, 100, ERR_UNSUPPORTED,
                       "GPU memory can not be allocated: GPUs not supported");
        assert_refused(&x, TRITONSERVER_MEMORY_CPU, 0, SIZE_MAX / 2, ERR_UNAVAILABLE,
                       "out of memory: 9223372036854775807 bytes");
        assert_refused(&x, (TRITONSERVER_MemoryType)7, 0, 100, ERR_INVALID_ARG,
                       "7 is no type of memory");
}

static void test_with_gpus(void **state) {
        (void)state;
        struct gpus_options options = fake_gpus_options();
        struct fixture      x;
        void               *on_cpu, *pinned, *on_gpu;

        open_manager(&x, &options);
        on_cpu = allocate(&x, TRITONSERVER_MEMORY_CPU, 0, 100);
        pinned = allocate(&x, TRITONSERVER_MEMORY_CPU_PINNED, 0, 100);
        on_gpu = allocate(&x, TRITONSERVER_MEMORY_GPU, 1, 100);
        assert_int_equal(gpu_pool_usage(x.f.gpus, GPU_HOST).used_bytes, 128);
        assert_int_equal(gpu_pool_usage(x.f.gpus, 0).used_bytes, 0);
        assert_int_equal(gpu_pool_usage(x.f.gpus, 1).used_bytes, 256);
        deallocate(&x, TRITONSERVER_MEMORY_CPU, 0, on_cpu);
        deallocate(&x, TRITONSERVER_MEMORY_CPU_PINNED, 0, pinned);
        deallocate(&x, TRITONSERVER_MEMORY_GPU, 1, on_gpu);
        assert_int_equal(gpu_pool_usage(x.f.gpus, GPU_HOST).used_bytes, 0);
        assert_int_equal(gpu_pool_usage(x.f.gpus, 1).used_bytes, 0);
        assert_refused(&x, TRITONSERVER_MEMORY_GPU, 2, 100, ERR_INVALID_ARG,
                       "GPU 2 is unknown: the GPUs are 0,1");
        assert_refused(&x, TRITONSERVER_MEMORY_GPU, ((int64_t)1 << 32) + 1, 100, ERR_INVALID_ARG,
                       "GPU 4294967297 is unknown: the GPUs are 0,1");
        assert_refused(&x, TRITONSERVER_MEMORY_GPU, 0, (uint64_t)2 << 30, ERR_UNAVAILABLE,
                       "GPU 0 has no memory for 2147483648 bytes");
        assert_gpu_error((struct error *)TRITONBACKEND_MemoryManagerFree(x.manager, &x,
                                                                         TRITONSERVER_MEMORY_GPU,
                                                                         9),
                         ERR_INVALID_ARG, "GPU 9 is unknown");
        assert_no_context(&x.f);
        fake_gpus_close(&x.f);
}

/* The type stays what it was asked for, and its memory is freed by that type. */
static void test_pinned_pool_is_full(void **state) {
        (void)state;
        struct gpus_options options = fake_gpus_options();
        struct fixture      x;
        void               *memory;

        open_manager(&x, &options);
        memory = allocate(&x, TRITONSERVER_MEMORY_CPU_PINNED, 0, 2 << 20);
        memset(memory, 1, 2 << 20);
        assert_int_equal(gpu_pool_usage(x.f.gpus, GPU_HOST).n_beyond, 1);
        deallocate(&x, TRITONSERVER_MEMORY_CPU_PINNED, 0, memory);
        fake_gpus_close(&x.f);
}

#define HOST TRITONSERVER_MEMORY_CPU
#define PINNED TRITONSERVER_MEMORY_CPU_PINNED
#define DEVICE TRITONSERVER_MEMORY_GPU
#define N_COPIES 70 /* more than are made together */

static struct NESO_MemoryCopy copy_of(void *to, TRITONSERVER_MemoryType to_type, int64_t to_id,
                                      const void *from, TRITONSERVER_MemoryType from_type,
                                      int64_t from_id) {
        return (struct NESO_MemoryCopy){ to, from, 8, to_type, from_type, to_id, from_id };
}

static void assert_no_copy(struct fixture *x, struct NESO_MemoryCopy copy, enum error_code code,
                           const char *text) {
        assert_gpu_error((struct error *)NESO_MemoryManagerCopy(x->manager, &copy, 1), code, text);
}

static void test_copies_without_gpus(void **state) {
        (void)state;
        struct fixture         x;
        char                   to[8] = "";
        struct NESO_MemoryCopy copy;

        open_manager(&x, NULL);
        copy = copy_of(to, HOST, 0, "abcdefg", PINNED, 5);
        assert_null(NESO_MemoryManagerCopy(x.manager, &copy, 1));
        assert_string_equal(to, "abcdefg");
        assert_null(NESO_MemoryManagerCopy(x.manager, NULL, 0));
        assert_no_copy(&x, copy_of(to, HOST, 0, "abcdefg", DEVICE, 0), ERR_UNSUPPORTED,
                       "GPU memory can not be copied: GPUs not supported");
        assert_no_copy(&x, copy_of(to, (TRITONSERVER_MemoryType)7, 0, "abcdefg", HOST, 0),
                       ERR_INVALID_ARG, "7 is no type of memory");
        assert_gpu_error((struct error *)NESO_MemoryManagerCopy(x.manager, NULL, 1),
                         ERR_INVALID_ARG, "copies");
}

static void test_copies(void **state) {
        (void)state;
        struct gpus_options    options = fake_gpus_options();
        struct fixture         x;
        struct NESO_MemoryCopy copies[N_COPIES];
        char                   from[N_COPIES * 8], to[N_COPIES * 8];
        char                  *zero, *one;

        open_manager(&x, &options);
        zero = allocate(&x, DEVICE, 0, sizeof(from));
        one = allocate(&x, DEVICE, 1, sizeof(from));
        fill_bytes(from, sizeof(from), 1);
        for (int i = 0; i < N_COPIES; i++)
                copies[i] = copy_of(zero + 8 * i, DEVICE, 0, from + 8 * i, HOST, 0);
        assert_null(NESO_MemoryManagerCopy(x.manager, copies, N_COPIES));
        for (int i = 0; i < N_COPIES; i++)
                copies[i] = copy_of(one + 8 * i, DEVICE, 1, zero + 8 * i, DEVICE, 0);
        assert_null(NESO_MemoryManagerCopy(x.manager, copies, N_COPIES));
        for (int i = 0; i < N_COPIES; i++)
                copies[i] = copy_of(to + 8 * i, HOST, 0, one + 8 * i, DEVICE, 1);
        copies[3].byte_size = 0; /* nothing, whatever its addresses */
        copies[3].from = copies[3].to = NULL;
        memset(to, 0, sizeof(to));
        assert_null(NESO_MemoryManagerCopy(x.manager, copies, N_COPIES));
        assert_memory_equal(to, from, 24);
        assert_memory_equal(to + 32, from + 32, sizeof(to) - 32);
        assert_int_equal(to[24] | to[31], 0);
        assert_int_equal(gpus_traffic(x.f.gpus).to_host, sizeof(to) - 8);
        assert_int_equal(gpus_traffic(x.f.gpus).between_devices, sizeof(to));

        assert_no_copy(&x, copy_of(to, HOST, 0, zero, DEVICE, 2), ERR_INVALID_ARG,
                       "GPU 2 is unknown: the GPUs are 0,1");
        x.f.fake_cuda_set("FAIL", "cuMemcpyDtoHAsync:1:999");
        assert_no_copy(&x, copy_of(to, HOST, 0, zero, DEVICE, 0), ERR_UNAVAILABLE,
                       "unable to copy 8 bytes");
        deallocate(&x, DEVICE, 0, zero);
        deallocate(&x, DEVICE, 1, one);
        assert_no_context(&x.f);
        fake_gpus_close(&x.f);
}

SUITE(api_memory) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_without_gpus),
                cmocka_unit_test(test_with_gpus),
                cmocka_unit_test(test_pinned_pool_is_full),
                cmocka_unit_test(test_copies_without_gpus),
                cmocka_unit_test(test_copies),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
