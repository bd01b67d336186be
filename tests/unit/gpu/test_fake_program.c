/* SPDX-License-Identifier: BSD-3-Clause */
/* Correct programs on the stand-in of the driver. */
#include "suite.h"

#include "fake_children.h"

#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define N 1000
#define BYTES ((size_t)4096)
#define BLOCK_BYTES ((size_t)2 << 20)
#define N_RACES 64
#define LONG_DELAY "1000000000" /* microseconds: nothing queued runs unless it is waited for */

/* ---- add --------------------------------------------------------------------------------------- */

static void add(struct fake_child *c) {
        struct driver_table *cuda = &c->cuda;
        const size_t         bytes = N * sizeof(float);
        static float         a[N], b[N], out[N];
        cu_pointer           memory[3];
        cu_module            module;
        cu_function          function;
        unsigned             n = N;
        void                *parameters[] = { &memory[0], &memory[1], &memory[2], &n };

        for (int i = 0; i < N; i++) {
                a[i] = (float)i;
                b[i] = 2.0f * (float)i;
        }
        for (int i = 0; i < 3; i++)
                CHECK_OK(cuda->cuMemAlloc_v2(&memory[i], bytes));
        CHECK_OK(cuda->cuModuleLoadData(&module, ADD_PTX));
        CHECK_OK(cuda->cuModuleGetFunction(&function, module, "add_f32"));
        /* A busy machine may suspend this thread for longer than the usual delay. */
        c->fake_cuda_set("DELAY_US", LONG_DELAY);
        CHECK_OK(cuda->cuMemcpyHtoDAsync_v2(memory[0], a, bytes, c->stream));
        CHECK_OK(cuda->cuMemcpyHtoDAsync_v2(memory[1], b, bytes, c->stream));
        CHECK_OK(cuda->cuLaunchKernel(function, (N + 255) / 256, 1, 1, 256, 1, 1, 0, c->stream,
                                      parameters, NULL));
        CHECK_OK(cuda->cuMemcpyDtoHAsync_v2(out, memory[2], bytes, c->stream));
        /* Nothing is there before the wait. */
        CHECK(out[1] != 3.0f);
        CHECK_OK(cuda->cuStreamSynchronize(c->stream));
        for (int i = 0; i < N; i++)
                CHECK(out[i] == 3.0f * (float)i);
        for (int i = 0; i < 3; i++)
                CHECK_OK(cuda->cuMemFree_v2(memory[i]));
        CHECK_OK(cuda->cuModuleUnload(module));
}

static void test_add(void **state) {
        (void)state;
        fake_child_passes(add);
}

/* ---- contexts -------------------------------------------------------------------------------- */

static void *call_without_context(void *state) {
        struct fake_child *c = state;
        cu_device          device;

        CHECK(c->cuda.cuCtxGetDevice(&device) == CU_INVALID_CONTEXT);
        CHECK_OK(c->cuda.cuCtxSetCurrent(c->context));
        CHECK_OK(c->cuda.cuCtxGetDevice(&device));
        CHECK(device == 0);
        return NULL;
}

/* The context is current on the thread alone that made it so. */
static void use_contexts(struct fake_child *c) {
        cu_context context;
        cu_pointer memory;
        pthread_t  thread;
        pid_t      pid;
        int        status;

        CHECK(pthread_create(&thread, NULL, call_without_context, c) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK_OK(c->cuda.cuCtxGetCurrent(&context));
        CHECK(context == c->context);
        CHECK_OK(c->cuda.cuCtxSetCurrent(NULL));
        CHECK(c->cuda.cuMemAlloc_v2(&memory, BYTES) == CU_INVALID_CONTEXT);
        CHECK_OK(c->cuda.cuCtxSetCurrent(context));
        pid = fork();
        if (pid == 0)
                _exit(c->cuda.cuMemAlloc_v2(&memory, BYTES));
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == CU_NOT_INITIALIZED);
}

static void test_contexts(void **state) {
        (void)state;
        fake_child_passes(use_contexts);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void ask_about_memory(struct fake_child *c) {
        cu_pointer memory, base;
        void      *pinned;
        size_t     bytes, n_free, n_total;
        unsigned   kind;
        int        device = -1, ends[2];

        CHECK_OK(c->cuda.cuMemAlloc_v2(&memory, BYTES));
        CHECK_OK(c->cuda.cuMemGetInfo_v2(&n_free, &n_total));
        CHECK(n_total == (size_t)1 << 30 && n_free == n_total - BYTES);
        CHECK_OK(c->cuda.cuMemGetAddressRange_v2(&base, &bytes, memory + 100));
        CHECK(base == memory && bytes == BYTES);
        CHECK_OK(c->cuda.cuPointerGetAttribute(&kind, CU_POINTER_MEMORY_TYPE, memory + 100));
        CHECK(kind == CU_MEMORY_OF_DEVICE);
        CHECK_OK(c->cuda.cuPointerGetAttribute(&device, CU_POINTER_DEVICE_ORDINAL, memory));
        CHECK(device == 0);
        CHECK_OK(c->cuda.cuMemHostAlloc(&pinned, BYTES, CU_HOST_ALLOC_PORTABLE));
        CHECK_OK(c->cuda.cuPointerGetAttribute(&kind, CU_POINTER_MEMORY_TYPE,
                                               (cu_pointer)(uintptr_t)pinned));
        CHECK(kind == CU_MEMORY_OF_HOST);
        CHECK(c->cuda.cuPointerGetAttribute(&kind, CU_POINTER_MEMORY_TYPE,
                                            (cu_pointer)(uintptr_t)&kind) == CU_INVALID_VALUE);
        /* The CPU cannot read it. */
        CHECK(pipe(ends) == 0);
        CHECK(write(ends[1], pinned, 1) == 1);
        CHECK(write(ends[1], (const void *)(uintptr_t)memory, 1) == -1 && errno == EFAULT);
        CHECK_OK(c->cuda.cuMemFreeHost(pinned));
        CHECK_OK(c->cuda.cuMemFree_v2(memory));
}

static void fail_to_allocate(struct fake_child *c) {
        cu_pointer memory[2];
        void      *pinned;

        c->fake_cuda_set("FAIL", "cuMemAlloc:2,cuMemHostAlloc:1+:801");
        CHECK_OK(c->cuda.cuMemAlloc_v2(&memory[0], BYTES));
        CHECK(c->cuda.cuMemAlloc_v2(&memory[1], BYTES) == CU_OUT_OF_MEMORY);
        CHECK_OK(c->cuda.cuMemAlloc_v2(&memory[1], BYTES));
        CHECK(c->cuda.cuMemHostAlloc(&pinned, BYTES, 0) == CU_NOT_SUPPORTED);
        CHECK(c->cuda.cuMemHostAlloc(&pinned, BYTES, 0) == CU_NOT_SUPPORTED);
        c->fake_cuda_set("FAIL", NULL);
        CHECK_OK(c->cuda.cuMemFree_v2(memory[1]));
        c->fake_cuda_set("ALLOC_LIMIT", "8192");
        CHECK(c->cuda.cuMemAlloc_v2(&memory[1], BYTES + 1) == CU_OUT_OF_MEMORY);
        CHECK_OK(c->cuda.cuMemAlloc_v2(&memory[1], BYTES));
        CHECK_OK(c->cuda.cuMemFree_v2(memory[0]));
        CHECK_OK(c->cuda.cuMemFree_v2(memory[1]));
        c->fake_cuda_set("PINNED_LIMIT", "4095");
        CHECK(c->cuda.cuMemHostAlloc(&pinned, BYTES, 0) == CU_OUT_OF_MEMORY);
}

static void test_memory(void **state) {
        (void)state;
        fake_child_passes(ask_about_memory);
        fake_child_passes(fail_to_allocate);
}

/* ---- other devices --------------------------------------------------------------------------- */

static void use_other_device(struct fake_child *c) {
        struct driver_table *cuda = &c->cuda;
        char                 text[16] = "far", read[16] = "";
        cu_pointer           near_memory, far_memory;
        cu_context           other;
        int                  can = 0;

        CHECK_OK(cuda->cuDevicePrimaryCtxRetain(&other, 1));
        CHECK_OK(cuda->cuMemAlloc_v2(&near_memory, BYTES));
        CHECK_OK(cuda->cuCtxSetCurrent(other));
        CHECK_OK(cuda->cuMemAlloc_v2(&far_memory, BYTES));
        CHECK_OK(cuda->cuCtxSetCurrent(c->context));
        CHECK(cuda->cuMemcpyHtoDAsync_v2(far_memory, text, 16, c->stream) == CU_INVALID_VALUE);
        CHECK(cuda->cuMemFree_v2(far_memory) == CU_INVALID_VALUE);
        CHECK_OK(cuda->cuMemcpyHtoDAsync_v2(near_memory, text, 16, c->stream));
        /* By way of the driver, without access. */
        CHECK_OK(
                cuda->cuMemcpyPeerAsync(far_memory, other, near_memory, c->context, 16, c->stream));
        CHECK_OK(cuda->cuStreamSynchronize(c->stream));
        CHECK(c->fake_cuda_read(read, far_memory, 16) == 0);
        CHECK(strcmp(read, "far") == 0);
        CHECK_OK(cuda->cuDeviceCanAccessPeer(&can, 0, 1));
        CHECK(can == 1);
        CHECK_OK(cuda->cuDeviceCanAccessPeer(&can, 0, 2));
        CHECK(can == 0);
        CHECK_OK(cuda->cuCtxEnablePeerAccess(other, 0));
        CHECK(cuda->cuCtxEnablePeerAccess(other, 0) == CU_PEER_ACCESS_ALREADY_ENABLED);
        CHECK_OK(cuda->cuMemcpyDtoDAsync_v2(far_memory + 16, near_memory, 16, c->stream));
        CHECK_OK(cuda->cuStreamSynchronize(c->stream));
        CHECK_OK(cuda->cuMemFree_v2(near_memory));
        CHECK_OK(cuda->cuCtxSetCurrent(other));
        CHECK_OK(cuda->cuMemFree_v2(far_memory));
        CHECK_OK(cuda->cuCtxSetCurrent(c->context));
        CHECK_OK(cuda->cuDevicePrimaryCtxRelease_v2(1));
}

static void count_devices(struct fake_child *c) {
        int  n, major;
        char first[16], second[16];

        CHECK_OK(c->cuda.cuDeviceGetCount(&n));
        CHECK(n == 2);
        CHECK_OK(c->cuda.cuDeviceGetAttribute(&major, CU_DEVICE_COMPUTE_CAPABILITY_MAJOR, 0));
        CHECK(major == 5);
        CHECK_OK(c->cuda.cuDeviceGetPCIBusId(first, sizeof(first), 0));
        CHECK_OK(c->cuda.cuDeviceGetPCIBusId(second, sizeof(second), 1));
        CHECK(strcmp(first, "0000:1c:00.0") == 0 && strcmp(second, "0000:1a:00.0") == 0);
        CHECK(c->cuda.cuDeviceGetName(first, sizeof(first), 2) == CU_INVALID_DEVICE);
}

static void test_devices(void **state) {
        (void)state;
        fake_child_passes(use_other_device);
        setenv("CUDA_VISIBLE_DEVICES", "2,0", 1);
        fake_child_passes(count_devices);
        unsetenv("CUDA_VISIBLE_DEVICES");
}

/* ---- order ----------------------------------------------------------------------------------- */

/* A copy reads its source when it runs, and a second stream waits for it by an event. */
static void wait_for_event(struct fake_child *c) {
        struct driver_table *cuda = &c->cuda;
        char                 source[8] = "early", result[8] = "";
        cu_pointer           memory;
        cu_stream            other;
        cu_event             event;

        CHECK_OK(cuda->cuMemAlloc_v2(&memory, BYTES));
        CHECK_OK(cuda->cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
        CHECK_OK(cuda->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
        CHECK_OK(cuda->cuEventQuery(event));
        c->fake_cuda_set("DELAY_US", LONG_DELAY);
        CHECK_OK(cuda->cuMemcpyHtoDAsync_v2(memory, source, 8, c->stream));
        CHECK_OK(cuda->cuEventRecord(event, c->stream));
        CHECK(cuda->cuEventQuery(event) == CU_NOT_READY);
        CHECK_OK(cuda->cuStreamWaitEvent(other, event, 0));
        CHECK_OK(cuda->cuMemcpyDtoHAsync_v2(result, memory, 8, other));
        memcpy(source, "later", 6);
        CHECK((unsigned char)result[0] == 0xCB);
        CHECK_OK(cuda->cuStreamSynchronize(other));
        CHECK(strcmp(result, "later") == 0);
        CHECK_OK(cuda->cuEventQuery(event));
        CHECK_OK(cuda->cuEventDestroy_v2(event));
        CHECK_OK(cuda->cuStreamDestroy_v2(other));
        CHECK_OK(cuda->cuMemFree_v2(memory));
}

/* All streams of the current device, and no other one's. */
static void wait_for_context(struct fake_child *c) {
        struct driver_table *cuda = &c->cuda;
        char                 source[8] = "source", result[2][8] = { "", "" };
        cu_pointer           memory[2];
        cu_stream            other;

        CHECK_OK(cuda->cuCtxSynchronize());
        CHECK_OK(cuda->cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
        c->fake_cuda_set("DELAY_US", LONG_DELAY);
        for (int i = 0; i < 2; i++) {
                cu_stream stream = i == 0 ? c->stream : other;

                CHECK_OK(cuda->cuMemAlloc_v2(&memory[i], BYTES));
                CHECK_OK(cuda->cuMemcpyHtoDAsync_v2(memory[i], source, 8, stream));
                CHECK_OK(cuda->cuMemcpyDtoHAsync_v2(result[i], memory[i], 8, stream));
        }
        CHECK_OK(cuda->cuCtxSynchronize());
        for (int i = 0; i < 2; i++) {
                CHECK(strcmp(result[i], "source") == 0);
                CHECK_OK(cuda->cuMemFree_v2(memory[i]));
        }
        CHECK_OK(cuda->cuStreamDestroy_v2(other));
}

struct race {
        struct fake_child *c;
        pthread_mutex_t    lock;
        pthread_cond_t     changed;
        int                n;
        int                order[2];
};

struct runner {
        struct race *race;
        int          number;
};

static void arrive(void *state) {
        struct runner *runner = state;
        struct race   *race = runner->race;
        cu_pointer     memory;

        CHECK(race->c->cuda.cuMemAlloc_v2(&memory, BYTES) == 800);
        pthread_mutex_lock(&race->lock);
        race->order[race->n++] = runner->number;
        pthread_cond_signal(&race->changed);
        pthread_mutex_unlock(&race->lock);
}

/* Which of two streams is first: nobody waits for them by the driver. */
static int run_race(struct fake_child *c, cu_stream other) {
        struct race   race = { .c = c,
                               .lock = PTHREAD_MUTEX_INITIALIZER,
                               .changed = PTHREAD_COND_INITIALIZER };
        struct runner runners[2] = { { &race, 0 }, { &race, 1 } };

        CHECK_OK(c->cuda.cuLaunchHostFunc(c->stream, arrive, &runners[0]));
        CHECK_OK(c->cuda.cuLaunchHostFunc(other, arrive, &runners[1]));
        pthread_mutex_lock(&race.lock);
        while (race.n < 2)
                pthread_cond_wait(&race.changed, &race.lock);
        pthread_mutex_unlock(&race.lock);
        return race.order[0];
}

static void run_in_any_order(struct fake_child *c) {
        cu_stream other;
        int       n_first = 0;

        CHECK_OK(c->cuda.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
        c->fake_cuda_set("DELAY_US", "100");
        for (int i = 0; i < N_RACES; i++)
                n_first += run_race(c, other) == 0;
        CHECK(n_first > 0 && n_first < N_RACES);
        CHECK_OK(c->cuda.cuStreamDestroy_v2(other));
}

static void test_order(void **state) {
        (void)state;
        fake_child_passes(wait_for_event);
        fake_child_passes(wait_for_context);
        fake_child_passes(run_in_any_order);
}

/* ---- kernels --------------------------------------------------------------------------------- */

static void fill(const struct fake_cuda_launch *l) {
        memset(l->memory(l, *(const cu_pointer *)l->parameters[0], 3),
               *(const int *)l->parameters[1], 3);
}

#define FILL_PTX                                                                                   \
        "\n.version 7.0\n.visible .entry fill(.param .u64 out, .param .u32 value) { ret; }\n"      \
        ".visible .entry unknown(.param .u64 out) { ret; }\n"

static void run_own_kernel(struct fake_child *c) {
        struct driver_table *cuda = &c->cuda;
        cu_pointer           memory;
        cu_module            module;
        cu_function          function;
        int                  value = 'x';
        void                *parameters[] = { &memory, &value };
        char                 result[4] = "";

        c->fake_cuda_kernel("fill", fill);
        CHECK(cuda->cuModuleLoadData(&module, "ELF") == CU_INVALID_IMAGE);
        CHECK_OK(cuda->cuModuleLoadData(&module, FILL_PTX));
        CHECK(cuda->cuModuleGetFunction(&function, module, "unknown") == CU_NOT_FOUND);
        CHECK(cuda->cuModuleGetFunction(&function, module, "add_f32") == CU_NOT_FOUND);
        CHECK_OK(cuda->cuModuleGetFunction(&function, module, "fill"));
        CHECK_OK(cuda->cuMemAlloc_v2(&memory, BYTES));
        CHECK_OK(cuda->cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, c->stream, parameters, NULL));
        value = 'y'; /* the launch has its own */
        CHECK_OK(cuda->cuStreamSynchronize(c->stream));
        CHECK(c->fake_cuda_read(result, memory, 3) == 0);
        CHECK(strcmp(result, "xxx") == 0);
        CHECK_OK(cuda->cuMemFree_v2(memory));
        CHECK_OK(cuda->cuModuleUnload(module));
}

static void test_kernels(void **state) {
        (void)state;
        fake_child_passes(run_own_kernel);
}

/* ---- growing memory -------------------------------------------------------------------------- */

static void grow(struct fake_child *c) {
        const struct cu_allocation kind = { .type = CU_ALLOCATION_PINNED,
                                            .location = { CU_LOCATION_DEVICE, 0 } };
        const struct cu_access     access = { { CU_LOCATION_DEVICE, 0 }, CU_ACCESS_READ_WRITE };
        struct driver_table       *cuda = &c->cuda;
        char                       result[8] = "";
        cu_pointer                 address;
        cu_block                   block;
        size_t                     granularity;

        CHECK_OK(cuda->cuMemGetAllocationGranularity(&granularity, &kind, 0));
        CHECK(granularity == BLOCK_BYTES);
        CHECK_OK(cuda->cuMemAddressReserve(&address, 4 * BLOCK_BYTES, 0, 0, 0));
        for (size_t i = 0; i < 2; i++) {
                CHECK_OK(cuda->cuMemCreate(&block, BLOCK_BYTES, &kind, 0));
                CHECK_OK(cuda->cuMemMap(address + i * BLOCK_BYTES, BLOCK_BYTES, 0, block, 0));
                CHECK_OK(cuda->cuMemSetAccess(address + i * BLOCK_BYTES, BLOCK_BYTES, &access, 1));
                CHECK_OK(cuda->cuMemRelease(block));
        }
        /* Over the seam of both blocks. */
        CHECK_OK(cuda->cuMemcpyHtoDAsync_v2(address + BLOCK_BYTES - 4, "0123456", 8, c->stream));
        CHECK_OK(cuda->cuMemcpyDtoHAsync_v2(result, address + BLOCK_BYTES - 4, 8, c->stream));
        CHECK_OK(cuda->cuStreamSynchronize(c->stream));
        CHECK(strcmp(result, "0123456") == 0);
        CHECK(cuda->cuMemCreate(&block, BLOCK_BYTES + 1, &kind, 0) == CU_INVALID_VALUE);
        CHECK_OK(cuda->cuMemUnmap(address, 2 * BLOCK_BYTES));
        CHECK_OK(cuda->cuMemAddressFree(address, 4 * BLOCK_BYTES));
}

static void test_growing(void **state) {
        (void)state;
        fake_child_passes(grow);
}

/* ---- other processes ------------------------------------------------------------------------- */

static int to_opener[2], from_opener[2];

/* Writes into the memory of the first handle; the second one's was freed. */
static void open_handles(struct fake_child *c) {
        struct driver_table *cuda = &c->cuda;
        struct cu_ipc_handle handle, stale, none = { { 1, 2, 3 } };
        cu_pointer           memory, again, base;
        size_t               bytes;

        CHECK(cuda->cuIpcOpenMemHandle_v2(&memory, none, CU_IPC_LAZY_PEER_ACCESS) ==
              CU_INVALID_VALUE);
        CHECK(read(to_opener[0], &handle, sizeof(handle)) == sizeof(handle));
        CHECK(read(to_opener[0], &stale, sizeof(stale)) == sizeof(stale));
        CHECK(cuda->cuIpcOpenMemHandle_v2(&memory, stale, CU_IPC_LAZY_PEER_ACCESS) ==
              CU_INVALID_HANDLE);
        CHECK_OK(cuda->cuIpcOpenMemHandle_v2(&memory, handle, CU_IPC_LAZY_PEER_ACCESS));
        CHECK_OK(cuda->cuIpcOpenMemHandle_v2(&again, handle, CU_IPC_LAZY_PEER_ACCESS));
        CHECK(again == memory);
        CHECK_OK(cuda->cuMemGetAddressRange_v2(&base, &bytes, memory));
        CHECK(base == memory && bytes == BYTES);
        CHECK_OK(cuda->cuMemcpyHtoDAsync_v2(memory + 8, "theirs", 7, c->stream));
        CHECK_OK(cuda->cuStreamSynchronize(c->stream));
        CHECK_OK(cuda->cuIpcCloseMemHandle(memory));
        CHECK_OK(cuda->cuIpcCloseMemHandle(memory));
        CHECK(write(from_opener[1], "c", 1) == 1);
}

static void share(struct fake_child *c) {
        struct driver_table *cuda = &c->cuda;
        struct cu_ipc_handle handle, stale;
        cu_pointer           memory, gone, own;
        char                 said, result[8] = "";

        CHECK_OK(cuda->cuMemAlloc_v2(&memory, BYTES));
        CHECK_OK(cuda->cuMemAlloc_v2(&gone, BYTES));
        CHECK_OK(cuda->cuIpcGetMemHandle(&handle, memory));
        CHECK(cuda->cuIpcGetMemHandle(&stale, gone + 1) == CU_INVALID_VALUE);
        CHECK_OK(cuda->cuIpcGetMemHandle(&stale, gone));
        CHECK_OK(cuda->cuMemFree_v2(gone));
        CHECK(cuda->cuIpcOpenMemHandle_v2(&own, handle, CU_IPC_LAZY_PEER_ACCESS) ==
              CU_INVALID_CONTEXT);
        CHECK(write(to_opener[1], &handle, sizeof(handle)) == sizeof(handle));
        CHECK(write(to_opener[1], &stale, sizeof(stale)) == sizeof(stale));
        CHECK(read(from_opener[0], &said, 1) == 1);
        CHECK(c->fake_cuda_read(result, memory + 8, 7) == 0);
        CHECK(strcmp(result, "theirs") == 0);
        CHECK_OK(cuda->cuMemFree_v2(memory));
}

static void test_sharing(void **state) {
        struct fake_running opener;

        (void)state;
        assert_int_equal(pipe(to_opener), 0);
        assert_int_equal(pipe(from_opener), 0);
        opener = fake_child_start(open_handles);
        fake_child_passes(share);
        fake_child_check_end(&opener);
        for (int i = 0; i < 2; i++) {
                (void)close(to_opener[i]);
                (void)close(from_opener[i]);
        }
}

SUITE(fake_program) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_add),     cmocka_unit_test(test_contexts),
                cmocka_unit_test(test_memory),  cmocka_unit_test(test_devices),
                cmocka_unit_test(test_order),   cmocka_unit_test(test_kernels),
                cmocka_unit_test(test_growing), cmocka_unit_test(test_sharing),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
