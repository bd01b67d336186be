/* SPDX-License-Identifier: BSD-3-Clause */
/* Each misuse of the driver ends the process with a report of its kind. */
#include "suite.h"

#include "fake_children.h"

#include <sys/wait.h>
#include <unistd.h>

#define BYTES ((size_t)4096)
#define BLOCK_BYTES ((size_t)2 << 20)
#define LONG_DELAY "1000000000" /* microseconds: nothing queued runs unless it is waited for */

static char host[2 * BYTES];

static cu_pointer alloc(struct fake_child *c) {
        cu_pointer memory;

        CHECK_OK(c->cuda.cuMemAlloc_v2(&memory, BYTES));
        return memory;
}

static void *alloc_pinned(struct fake_child *c) {
        void *memory;

        CHECK_OK(c->cuda.cuMemHostAlloc(&memory, BYTES, CU_HOST_ALLOC_PORTABLE));
        return memory;
}

/* A copy that has not run yet. */
static void queue_copy(struct fake_child *c, cu_pointer to, const void *from) {
        c->fake_cuda_set("DELAY_US", LONG_DELAY);
        CHECK_OK(c->cuda.cuMemcpyHtoDAsync_v2(to, from, BYTES, c->stream));
}

/* ---- freeing --------------------------------------------------------------------------------- */

static void free_twice(struct fake_child *c) {
        cu_pointer memory = alloc(c);

        CHECK_OK(c->cuda.cuMemFree_v2(memory));
        c->cuda.cuMemFree_v2(memory);
}

static void free_pinned_twice(struct fake_child *c) {
        void *memory = alloc_pinned(c);

        CHECK_OK(c->cuda.cuMemFreeHost(memory));
        c->cuda.cuMemFreeHost(memory);
}

static void free_host_pointer(struct fake_child *c) {
        c->cuda.cuMemFree_v2((cu_pointer)(uintptr_t)host);
}

static void free_middle(struct fake_child *c) {
        c->cuda.cuMemFree_v2(alloc(c) + 256);
}

static void free_unpinned(struct fake_child *c) {
        c->cuda.cuMemFreeHost(host);
}

static void close_what_is_not_open(struct fake_child *c) {
        c->cuda.cuIpcCloseMemHandle(alloc(c));
}

static void release_context_twice(struct fake_child *c) {
        CHECK_OK(c->cuda.cuDevicePrimaryCtxRetain(&c->context, 1));
        CHECK_OK(c->cuda.cuDevicePrimaryCtxRelease_v2(1));
        c->cuda.cuDevicePrimaryCtxRelease_v2(1);
}

static void free_reserved_twice(struct fake_child *c) {
        cu_pointer address;

        CHECK_OK(c->cuda.cuMemAddressReserve(&address, BLOCK_BYTES, 0, 0, 0));
        CHECK_OK(c->cuda.cuMemAddressFree(address, BLOCK_BYTES));
        c->cuda.cuMemAddressFree(address, BLOCK_BYTES);
}

static void test_freeing(void **state) {
        (void)state;
        fake_child_reports(free_twice, "double free");
        fake_child_reports(free_pinned_twice, "double free");
        fake_child_reports(free_host_pointer, "unknown pointer");
        fake_child_reports(free_middle, "unknown pointer");
        fake_child_reports(free_unpinned, "unknown pointer");
        fake_child_reports(close_what_is_not_open, "unknown pointer");
        fake_child_reports(free_reserved_twice, "unknown pointer");
        fake_child_reports(release_context_twice, "double release");
}

/* ---- use ------------------------------------------------------------------------------------- */

static void copy_to_freed(struct fake_child *c) {
        cu_pointer memory = alloc(c);

        CHECK_OK(c->cuda.cuMemFree_v2(memory));
        c->cuda.cuMemcpyHtoDAsync_v2(memory, host, BYTES, c->stream);
}

static void copy_from_freed(struct fake_child *c) {
        cu_pointer memory = alloc(c);

        CHECK_OK(c->cuda.cuMemFree_v2(memory));
        c->cuda.cuMemcpyDtoHAsync_v2(host, memory, BYTES, c->stream);
}

static void set_freed(struct fake_child *c) {
        cu_pointer memory = alloc(c);

        CHECK_OK(c->cuda.cuMemFree_v2(memory));
        c->cuda.cuMemsetD8Async(memory, 0, BYTES, c->stream);
}

static void copy_from_freed_pinned(struct fake_child *c) {
        void *memory = alloc_pinned(c);

        CHECK_OK(c->cuda.cuMemFreeHost(memory));
        c->cuda.cuMemcpyHtoDAsync_v2(alloc(c), memory, BYTES, c->stream);
}

static void test_use_after_free(void **state) {
        (void)state;
        fake_child_reports(copy_to_freed, "use after free");
        fake_child_reports(copy_from_freed, "use after free");
        fake_child_reports(set_freed, "use after free");
        fake_child_reports(copy_from_freed_pinned, "use after free");
}

static void copy_too_much(struct fake_child *c) {
        c->cuda.cuMemcpyHtoDAsync_v2(alloc(c), host, BYTES + 1, c->stream);
}

static void copy_too_much_within(struct fake_child *c) {
        cu_pointer memory = alloc(c);

        c->cuda.cuMemcpyDtoDAsync_v2(memory + BYTES / 2, memory, BYTES / 2 + 1, c->stream);
}

static void set_too_much(struct fake_child *c) {
        c->cuda.cuMemsetD8Async(alloc(c) + 1, 0, BYTES, c->stream);
}

static void copy_too_much_pinned(struct fake_child *c) {
        c->cuda.cuMemcpyDtoHAsync_v2((char *)alloc_pinned(c) + 1, alloc(c), BYTES, c->stream);
}

/* The kernel writes one element more than its output has. */
static void launch(struct fake_child *c, cu_pointer a, cu_pointer b, cu_pointer out) {
        cu_module   module;
        cu_function function;
        unsigned    n = BYTES / sizeof(float);
        void       *parameters[] = { &a, &b, &out, &n };

        CHECK_OK(c->cuda.cuModuleLoadData(&module, ADD_PTX));
        CHECK_OK(c->cuda.cuModuleGetFunction(&function, module, "add_f32"));
        CHECK_OK(c->cuda.cuLaunchKernel(function, 4, 1, 1, 256, 1, 1, 0, c->stream, parameters,
                                        NULL));
        c->cuda.cuStreamSynchronize(c->stream);
}

static void compute_too_much(struct fake_child *c) {
        launch(c, alloc(c), alloc(c), alloc(c) + sizeof(float));
}

static void test_overrun(void **state) {
        (void)state;
        fake_child_reports(copy_too_much, "overrun");
        fake_child_reports(copy_too_much_within, "overrun");
        fake_child_reports(set_too_much, "overrun");
        fake_child_reports(copy_too_much_pinned, "overrun");
        fake_child_reports(compute_too_much, "overrun");
}

static void compute_on_host(struct fake_child *c) {
        launch(c, alloc(c), (cu_pointer)(uintptr_t)host, alloc(c));
}

static void compute_on_other_device(struct fake_child *c) {
        cu_context other;
        cu_pointer far;

        CHECK_OK(c->cuda.cuDevicePrimaryCtxRetain(&other, 1));
        CHECK_OK(c->cuda.cuCtxSetCurrent(other));
        far = alloc(c);
        CHECK_OK(c->cuda.cuCtxSetCurrent(c->context));
        launch(c, alloc(c), far, alloc(c));
}

static void test_illegal_address(void **state) {
        (void)state;
        fake_child_reports(compute_on_host, "illegal address");
        fake_child_reports(compute_on_other_device, "illegal address");
}

/* ---- queued work ----------------------------------------------------------------------------- */

static void free_while_written(struct fake_child *c) {
        cu_pointer memory = alloc(c);

        queue_copy(c, memory, host);
        c->cuda.cuMemFree_v2(memory);
}

static void free_pinned_while_read(struct fake_child *c) {
        void *memory = alloc_pinned(c);

        queue_copy(c, alloc(c), memory);
        c->cuda.cuMemFreeHost(memory);
}

static void free_while_computed(struct fake_child *c) {
        cu_pointer  a = alloc(c), b = alloc(c), out = alloc(c);
        cu_module   module;
        cu_function function;
        unsigned    n = 1;
        void       *parameters[] = { &a, &b, &out, &n };

        CHECK_OK(c->cuda.cuModuleLoadData(&module, ADD_PTX));
        CHECK_OK(c->cuda.cuModuleGetFunction(&function, module, "add_f32"));
        c->fake_cuda_set("DELAY_US", LONG_DELAY);
        CHECK_OK(c->cuda.cuLaunchKernel(function, 1, 1, 1, 256, 1, 1, 0, c->stream, parameters,
                                        NULL));
        c->cuda.cuMemFree_v2(out);
}

static void test_in_flight(void **state) {
        (void)state;
        fake_child_reports(free_while_written, "in flight");
        fake_child_reports(free_pinned_while_read, "in flight");
        fake_child_reports(free_while_computed, "in flight");
}

/* ---- objects --------------------------------------------------------------------------------- */

static void use_default_stream(struct fake_child *c) {
        c->cuda.cuMemcpyHtoDAsync_v2(alloc(c), host, BYTES, NULL);
}

static void destroy_stream_twice(struct fake_child *c) {
        CHECK_OK(c->cuda.cuStreamDestroy_v2(c->stream));
        c->cuda.cuStreamDestroy_v2(c->stream);
}

static void copy_on_destroyed_stream(struct fake_child *c) {
        CHECK_OK(c->cuda.cuStreamDestroy_v2(c->stream));
        c->cuda.cuMemcpyHtoDAsync_v2(alloc(c), host, BYTES, c->stream);
}

static void destroy_event_twice(struct fake_child *c) {
        cu_event event;

        CHECK_OK(c->cuda.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
        CHECK_OK(c->cuda.cuEventDestroy_v2(event));
        c->cuda.cuEventDestroy_v2(event);
}

static void unload_twice(struct fake_child *c) {
        cu_module module;

        CHECK_OK(c->cuda.cuModuleLoadData(&module, ADD_PTX));
        CHECK_OK(c->cuda.cuModuleUnload(module));
        c->cuda.cuModuleUnload(module);
}

static void launch_unloaded(struct fake_child *c) {
        cu_module   module;
        cu_function function;

        CHECK_OK(c->cuda.cuModuleLoadData(&module, ADD_PTX));
        CHECK_OK(c->cuda.cuModuleGetFunction(&function, module, "add_f32"));
        CHECK_OK(c->cuda.cuModuleUnload(module));
        c->cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, c->stream, NULL, NULL);
}

static void test_objects(void **state) {
        (void)state;
        fake_child_reports(use_default_stream, "default stream");
        fake_child_reports(destroy_stream_twice, "unknown stream");
        fake_child_reports(copy_on_destroyed_stream, "unknown stream");
        fake_child_reports(destroy_event_twice, "unknown event");
        fake_child_reports(unload_twice, "unknown module");
        fake_child_reports(launch_unloaded, "unknown kernel");
}

/* ---- leaks ----------------------------------------------------------------------------------- */

static void leave_memory(struct fake_child *c) {
        alloc(c);
}

static void leave_pinned(struct fake_child *c) {
        alloc_pinned(c);
}

static void leave_event(struct fake_child *c) {
        cu_event event;

        CHECK_OK(c->cuda.cuEventCreate(&event, 0));
}

static void leave_module(struct fake_child *c) {
        cu_module module;

        CHECK_OK(c->cuda.cuModuleLoadData(&module, ADD_PTX));
}

static void leave_stream(struct fake_child *c) {
        CHECK_OK(c->cuda.cuDevicePrimaryCtxRelease_v2(0));
}

static void exit_with_memory(struct fake_child *c) {
        alloc(c);
        exit(0);
}

static void exit_with_block(struct fake_child *c) {
        const struct cu_allocation kind = { .type = CU_ALLOCATION_PINNED,
                                            .location = { CU_LOCATION_DEVICE, 0 } };
        cu_block                   block;

        CHECK_OK(c->cuda.cuMemCreate(&block, BLOCK_BYTES, &kind, 0));
        exit(0);
}

static void exit_with_addresses(struct fake_child *c) {
        cu_pointer address;

        CHECK_OK(c->cuda.cuMemAddressReserve(&address, BLOCK_BYTES, 0, 0, 0));
        CHECK_OK(c->cuda.cuStreamDestroy_v2(c->stream));
        exit(0);
}

static void test_leaks(void **state) {
        (void)state;
        fake_child_reports(leave_memory, "leak");
        fake_child_reports(leave_pinned, "leak");
        fake_child_reports(leave_event, "leak");
        fake_child_reports(leave_module, "leak");
        fake_child_reports(leave_stream, "leak");
        fake_child_reports(exit_with_memory, "leak");
        fake_child_reports(exit_with_block, "leak");
        fake_child_reports(exit_with_addresses, "leak");
}

/* ---- addresses and memory apart -------------------------------------------------------------- */

struct mapping {
        cu_pointer address;
        cu_block   block;
};

/* One block at the first of two blocks' addresses; the device has no access yet. */
static struct mapping map(struct fake_child *c) {
        const struct cu_allocation kind = { .type = CU_ALLOCATION_PINNED,
                                            .location = { CU_LOCATION_DEVICE, 0 } };
        struct mapping             m;

        CHECK_OK(c->cuda.cuMemAddressReserve(&m.address, 2 * BLOCK_BYTES, 0, 0, 0));
        CHECK_OK(c->cuda.cuMemCreate(&m.block, BLOCK_BYTES, &kind, 0));
        CHECK_OK(c->cuda.cuMemMap(m.address, BLOCK_BYTES, 0, m.block, 0));
        return m;
}

static void use_without_access(struct fake_child *c) {
        c->cuda.cuMemcpyHtoDAsync_v2(map(c).address, host, BYTES, c->stream);
}

static void use_without_memory(struct fake_child *c) {
        const struct cu_access access = { { CU_LOCATION_DEVICE, 0 }, CU_ACCESS_READ_WRITE };
        struct mapping         m = map(c);

        CHECK_OK(c->cuda.cuMemSetAccess(m.address, BLOCK_BYTES, &access, 1));
        c->cuda.cuMemcpyHtoDAsync_v2(m.address + BLOCK_BYTES - 1, host, 2, c->stream);
}

static void release_block_twice(struct fake_child *c) {
        struct mapping m = map(c);

        CHECK_OK(c->cuda.cuMemRelease(m.block));
        c->cuda.cuMemRelease(m.block);
}

static void unmap_twice(struct fake_child *c) {
        struct mapping m = map(c);

        CHECK_OK(c->cuda.cuMemUnmap(m.address, BLOCK_BYTES));
        c->cuda.cuMemUnmap(m.address, BLOCK_BYTES);
}

static void free_mapped_addresses(struct fake_child *c) {
        c->cuda.cuMemAddressFree(map(c).address, 2 * BLOCK_BYTES);
}

static void test_virtual_memory(void **state) {
        (void)state;
        fake_child_reports(use_without_access, "no access");
        fake_child_reports(use_without_memory, "no memory");
        fake_child_reports(release_block_twice, "unknown block");
        fake_child_reports(unmap_twice, "unknown mapping");
        fake_child_reports(free_mapped_addresses, "still mapped");
}

/* ---- other processes ------------------------------------------------------------------------- */

/* Before the driver is opened: a child of fork() cannot use it afterwards. */
static int to_opener[2], from_opener[2];

/* Opens the handle, says so, and waits. */
static void be_opener(void) {
        static struct fake_child c;
        struct cu_ipc_handle     handle;
        cu_pointer               memory;

        (void)close(to_opener[1]);
        CHECK(driver_table_open(&c.cuda, FAKE_CUDA));
        CHECK(read(to_opener[0], &handle, sizeof(handle)) == sizeof(handle));
        CHECK_OK(c.cuda.cuInit(0));
        CHECK_OK(c.cuda.cuDevicePrimaryCtxRetain(&c.context, 0));
        CHECK_OK(c.cuda.cuCtxSetCurrent(c.context));
        CHECK_OK(c.cuda.cuIpcOpenMemHandle_v2(&memory, handle, CU_IPC_LAZY_PEER_ACCESS));
        CHECK(write(from_opener[1], "o", 1) == 1);
        (void)!read(to_opener[0], &handle, 1); /* until the other one has ended */
        _exit(0);
}

static void free_what_is_open_elsewhere(struct fake_child *c) {
        struct cu_ipc_handle handle;
        cu_pointer           memory = alloc(c);
        char                 said;

        CHECK_OK(c->cuda.cuIpcGetMemHandle(&handle, memory));
        CHECK(write(to_opener[1], &handle, sizeof(handle)) == sizeof(handle));
        CHECK(read(from_opener[0], &said, 1) == 1);
        c->cuda.cuMemFree_v2(memory);
}

static void test_open_elsewhere(void **state) {
        pid_t opener;
        int   status;

        (void)state;
        assert_int_equal(pipe(to_opener), 0);
        assert_int_equal(pipe(from_opener), 0);
        opener = fork();
        if (opener == 0)
                be_opener();
        fake_child_reports(free_what_is_open_elsewhere, "open elsewhere");
        (void)close(to_opener[1]);
        assert_int_equal(waitpid(opener, &status, 0), opener);
        assert_int_equal(status, 0);
        (void)close(to_opener[0]);
        (void)close(from_opener[0]);
        (void)close(from_opener[1]);
}

static void set_nonsense(struct fake_child *c) {
        c->fake_cuda_set("FAIL", "cuMemAlloc");
        alloc(c);
}

static void test_settings(void **state) {
        (void)state;
        fake_child_reports(set_nonsense, "setting");
}

SUITE(fake_misuse) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_freeing),        cmocka_unit_test(test_use_after_free),
                cmocka_unit_test(test_overrun),        cmocka_unit_test(test_illegal_address),
                cmocka_unit_test(test_in_flight),      cmocka_unit_test(test_objects),
                cmocka_unit_test(test_leaks),          cmocka_unit_test(test_virtual_memory),
                cmocka_unit_test(test_open_elsewhere), cmocka_unit_test(test_settings),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
