/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of another process, which opens its GPUs before this one does. */
#include "suite.h"

#include "fake_gpus.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES 5000

struct shared {
        unsigned char handle[GPU_SHARE_BYTES], pool[GPU_SHARE_BYTES];
        uint64_t      offset; /* in the pool */
};

static pid_t         child = -1;
static int           to_child = -1;
static struct shared shared;

/* Shares memory with known bytes, until the pipe is closed. */
static void be_child(int from_parent, int to_parent) {
        struct gpus_options options = fake_gpus_options();
        struct fake_gpus    f;
        struct shared       s;
        char                bytes[BYTES], end;
        cu_pointer          memory;
        void               *first, *second;
        uint64_t            offset;

        fake_gpus_open(&f, &options);
        assert_null(gpu_enter(f.gpus, 1));
        assert_int_equal(f.cuMemAlloc_v2(&memory, BYTES), CU_SUCCESS);
        fill_bytes(bytes, BYTES, 3);
        put_bytes(f.gpus, 1, (void *)(uintptr_t)memory, bytes, BYTES);
        assert_null(gpu_share(f.gpus, 1, (void *)(uintptr_t)memory, s.handle, &offset));
        assert_int_equal(offset, 0);
        assert_null(gpu_alloc(f.gpus, 0, 1000, &first));
        assert_null(gpu_alloc(f.gpus, 0, BYTES, &second));
        put_bytes(f.gpus, 0, second, bytes, BYTES);
        assert_null(gpu_share(f.gpus, 0, second, s.pool, &s.offset));
        assert_int_equal(write(to_parent, &s, sizeof(s)), sizeof(s));
        while (read(from_parent, &end, 1) > 0)
                continue;
        get_bytes(f.gpus, 1, bytes, (void *)(uintptr_t)memory, BYTES);
        assert_memory_equal(bytes, "changed", 7);
        assert_int_equal(f.cuMemFree_v2(memory), CU_SUCCESS);
        gpu_free(f.gpus, 0, first);
        gpu_free(f.gpus, 0, second);
        fake_gpus_close(&f);
        _exit(0);
}

static int start_child(void **state) {
        int there[2], back[2];

        (void)state;
        if (pipe(there) != 0 || pipe(back) != 0)
                return -1;
        child = fork();
        if (child == 0) {
                close(there[1]);
                be_child(there[0], back[1]);
        }
        close(there[0]);
        close(back[1]);
        to_child = there[1];
        return read(back[0], &shared, sizeof(shared)) == sizeof(shared) ? 0 : -1;
}

/* It checks what was written to its memory. */
static int end_child(void **state) {
        int status = -1;

        (void)state;
        close(to_child);
        if (waitpid(child, &status, 0) != child)
                return -1;
        return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

static void test_memory_of_another_process(void **state) {
        (void)state;
        struct gpus_options options = fake_gpus_options();
        struct fake_gpus    f;
        char                bytes[BYTES], expected[BYTES];
        void               *memory, *again;
        uint64_t            bytes_there = 0;

        fake_gpus_open(&f, &options);
        assert_null(gpu_open_shared(f.gpus, 1, shared.handle, BYTES, &memory));
        assert_null(gpu_open_shared(f.gpus, 1, shared.handle, 1, &again));
        assert_null(gpu_shared_bytes(f.gpus, 1, again, &bytes_there)); /* of the whole allocation */
        assert_true(bytes_there >= BYTES);
        assert_no_context(&f);
        get_bytes(f.gpus, 1, bytes, memory, BYTES);
        fill_bytes(expected, BYTES, 3);
        assert_memory_equal(bytes, expected, BYTES);
        put_bytes(f.gpus, 1, memory, "changed", 7);
        gpu_close_shared(f.gpus, 1, memory);
        get_bytes(f.gpus, 1, bytes, again, 7);
        assert_memory_equal(bytes, "changed", 7);
        gpu_close_shared(f.gpus, 1, again);
        gpu_close_shared(f.gpus, 1, NULL);
        assert_no_context(&f);
        fake_gpus_close(&f);
}

static void test_too_few_bytes(void **state) {
        (void)state;
        struct gpus_options options = fake_gpus_options();
        struct fake_gpus    f;
        void               *memory = NULL;

        fake_gpus_open(&f, &options);
        assert_gpu_error(gpu_open_shared(f.gpus, 1, shared.handle, BYTES * 1000, &memory),
                         ERR_INVALID_ARG, "which are fewer than the 5000000 that are given");
        assert_gpu_error(gpu_open_shared(f.gpus, 1, shared.handle, UINT64_MAX, &memory),
                         ERR_INVALID_ARG, "which are fewer than the 18446744073709551615");
        assert_null(memory);
        assert_int_equal(fake_gpus_count(&f).n_allocations, 0);
        fake_gpus_close(&f);
}

static void test_bad_handles(void **state) {
        (void)state;
        struct gpus_options options = fake_gpus_options();
        struct fake_gpus    f;
        unsigned char       handle[GPU_SHARE_BYTES];
        void               *memory = NULL;

        fake_gpus_open(&f, &options);
        for (unsigned i = 0; i < 50; i++) {
                fill_bytes(handle, sizeof(handle), i * 7);
                assert_gpu_error(gpu_open_shared(f.gpus, 0, handle, 1, &memory), ERR_INVALID_ARG,
                                 "CUDA_ERROR_");
        }
        assert_gpu_error(gpu_open_shared(f.gpus, 5, shared.handle, 1, &memory), ERR_INVALID_ARG,
                         "GPU 5 is unknown");
        f.fake_cuda_set("FAIL", "cuIpcOpenMemHandle:1:2");
        assert_gpu_error(gpu_open_shared(f.gpus, 1, shared.handle, 1, &memory), ERR_UNAVAILABLE,
                         "CUDA_ERROR_OUT_OF_MEMORY");
        assert_null(memory);
        assert_no_context(&f);
        fake_gpus_close(&f);
}

/* A handle stands for the whole allocation, which is the pool. */
static void test_memory_of_a_pool(void **state) {
        (void)state;
        struct gpus_options options = fake_gpus_options();
        struct fake_gpus    f;
        char                bytes[BYTES], expected[BYTES];
        void               *pool;

        assert_int_equal(shared.offset, 1024);
        fake_gpus_open(&f, &options);
        assert_null(gpu_open_shared(f.gpus, 0, shared.pool, shared.offset + BYTES, &pool));
        get_bytes(f.gpus, 0, bytes, (char *)pool + shared.offset, BYTES);
        fill_bytes(expected, BYTES, 3);
        assert_memory_equal(bytes, expected, BYTES);
        gpu_close_shared(f.gpus, 0, pool);
        fake_gpus_close(&f);
}

static void test_own_memory(void **state) {
        (void)state;
        struct gpus_options options = fake_gpus_options();
        struct fake_gpus    f;
        unsigned char       handle[GPU_SHARE_BYTES];
        uint64_t            offset = 7;
        void               *own, *opened = NULL;

        fake_gpus_open(&f, &options);
        assert_null(gpu_alloc(f.gpus, 0, 2 << 20, &own));
        assert_null(gpu_share(f.gpus, 0, own, handle, &offset));
        assert_int_equal(offset, 0);
        /* The driver opens no memory of its own process. */
        assert_gpu_error(gpu_open_shared(f.gpus, 0, handle, 1, &opened), ERR_INVALID_ARG,
                         "CUDA_ERROR_");
        assert_null(opened);
        gpu_free(f.gpus, 0, own);
        assert_gpu_error(gpu_share(f.gpus, 0, &f, handle, &offset), ERR_UNAVAILABLE,
                         "GPU 0: unable to share memory: CUDA_ERROR_");
        assert_gpu_error(gpu_share(f.gpus, 6, own, handle, &offset), ERR_INVALID_ARG,
                         "GPU 6 is unknown");
        assert_no_context(&f);
        fake_gpus_close(&f);
}

/* Memory of another process has no handle here, but a place. */
static void test_place_of_opened_memory(void **state) {
        (void)state;
        struct gpus_options options = fake_gpus_options();
        struct fake_gpus    f;
        unsigned char       handle[GPU_SHARE_BYTES];
        uint64_t            offset = 7;
        void               *opened;

        fake_gpus_open(&f, &options);
        assert_null(gpu_open_shared(f.gpus, 1, shared.handle, BYTES, &opened));
        assert_gpu_error(gpu_share(f.gpus, 1, opened, handle, &offset), ERR_UNAVAILABLE,
                         "GPU 1: unable to share memory: CUDA_ERROR_");
        assert_null(gpu_find_place(f.gpus, 1, (char *)opened + 12, &offset));
        assert_int_equal(offset, 12);
        gpu_close_shared(f.gpus, 1, opened);
        assert_gpu_error(gpu_find_place(f.gpus, 1, &f, &offset), ERR_UNAVAILABLE,
                         "GPU 1: unable to share memory: CUDA_ERROR_");
        assert_gpu_error(gpu_find_place(f.gpus, 6, opened, &offset), ERR_INVALID_ARG,
                         "GPU 6 is unknown");
        assert_no_context(&f);
        fake_gpus_close(&f);
}

SUITE(gpu_share) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_memory_of_another_process),
                cmocka_unit_test(test_too_few_bytes),
                cmocka_unit_test(test_bad_handles),
                cmocka_unit_test(test_memory_of_a_pool),
                cmocka_unit_test(test_own_memory),
                cmocka_unit_test(test_place_of_opened_memory),
        };
        return cmocka_run_group_tests(tests, start_child, end_child);
}
