/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/mem.h"
#include "base/thread.h"
#include "fake_gpus.h"

#include <string.h>

#define N 5000

static void assert_traffic(const struct gpus *g, uint64_t to_device, uint64_t to_host,
                           uint64_t within, uint64_t between) {
        struct gpu_traffic t = gpus_traffic(g);

        assert_int_equal(t.to_device, to_device);
        assert_int_equal(t.to_host, to_host);
        assert_int_equal(t.within_device, within);
        assert_int_equal(t.between_devices, between);
}

static void test_there_and_back(void **state) {
        (void)state;
        struct gpus_options options = fake_gpus_options();
        struct fake_gpus    f;
        char                from[N], to[N];
        void               *memory, *other;

        fake_gpus_open(&f, &options);
        fill_bytes(from, N, 1);
        assert_null(gpu_alloc(f.gpus, 0, N, &memory));
        assert_null(gpu_alloc(f.gpus, 0, N, &other));
        put_bytes(f.gpus, 0, memory, from, N);
        assert_traffic(f.gpus, N, 0, 0, 0);
        assert_null(gpu_copy_all(f.gpus,
                                 &(struct gpu_copy){ .to = other, .from = memory, .bytes = N }, 1));
        assert_traffic(f.gpus, N, 0, N, 0);
        get_bytes(f.gpus, 0, to, other, N);
        assert_memory_equal(to, from, N);
        assert_traffic(f.gpus, N, N, N, 0);
        assert_int_equal(fake_gpus_count(&f).n_streams, 1);
        gpu_free(f.gpus, 0, memory);
        gpu_free(f.gpus, 0, other);
        fake_gpus_close(&f);
}

/* Each direction in one call: all have ended when it returns. */
static void test_many_at_once(void **state) {
        (void)state;
        struct gpus_options options = fake_gpus_options();
        struct fake_gpus    f;
        char                from[4][N], to[4][N] = { 0 };
        void               *memory[4];
        struct gpu_copy     copies[6];

        fake_gpus_open(&f, &options);
        for (int i = 0; i < 4; i++) {
                fill_bytes(from[i], N, (unsigned)i);
                assert_null(gpu_alloc(f.gpus, i % 2, N, &memory[i]));
        }
        put_bytes(f.gpus, 0, memory[2], from[2], N);
        put_bytes(f.gpus, 1, memory[3], from[3], N);
        copies[0] = (struct gpu_copy){ memory[0], from[0], 0, GPU_HOST, N };
        copies[1] = (struct gpu_copy){ memory[1], from[1], 1, GPU_HOST, N };
        copies[2] = (struct gpu_copy){ to[2], memory[2], GPU_HOST, 0, N };
        copies[3] = (struct gpu_copy){ to[3], memory[3], GPU_HOST, 1, N };
        copies[4] = (struct gpu_copy){ to[0], from[1], GPU_HOST, GPU_HOST, N };
        copies[5] = (struct gpu_copy){ NULL, NULL, 1, 0, 0 };
        assert_null(gpu_copy_all(f.gpus, copies, 6));
        assert_memory_equal(to[2], from[2], N);
        assert_memory_equal(to[3], from[3], N);
        assert_memory_equal(to[0], from[1], N);
        for (int i = 0; i < 2; i++) {
                get_bytes(f.gpus, i, to[i], memory[i], N);
                assert_memory_equal(to[i], from[i], N);
        }
        assert_int_equal(fake_gpus_count(&f).n_streams, 2);
        assert_null(gpu_copy_all(f.gpus, NULL, 0));
        for (int i = 0; i < 4; i++)
                gpu_free(f.gpus, i % 2, memory[i]);
        assert_no_context(&f);
        fake_gpus_close(&f);
}

static void test_zero(void **state) {
        (void)state;
        struct gpus_options options = fake_gpus_options();
        struct fake_gpus    f;
        char                bytes[N], zeros[N] = { 0 };
        void               *memory;

        fake_gpus_open(&f, &options);
        fill_bytes(bytes, N, 1);
        assert_null(gpu_alloc(f.gpus, 1, N, &memory));
        put_bytes(f.gpus, 1, memory, bytes, N);
        assert_null(gpu_zero(f.gpus, 1, memory, N - 1));
        get_bytes(f.gpus, 1, zeros, memory, N);
        assert_int_equal(zeros[N - 1], bytes[N - 1]);
        zeros[N - 1] = 0;
        memset(bytes, 0, N);
        assert_memory_equal(zeros, bytes, N);
        assert_null(gpu_zero(f.gpus, 1, memory, 0));
        assert_null(gpu_zero(f.gpus, GPU_HOST, zeros, 10));
        assert_gpu_error(gpu_zero(f.gpus, 7, memory, 10), ERR_INVALID_ARG, "GPU 7 is unknown");
        gpu_free(f.gpus, 1, memory);
        fake_gpus_close(&f);
}

/* ---- between devices ------------------------------------------------------------------------- */

/* Larger than what is copied at a time through the host. */
#define LARGE (((size_t)17 << 20) + 3)

static void copy_between(const struct gpus_options *options, const char *peers, bool is_direct) {
        struct fake_gpus f;
        char            *from = mem_alloc(LARGE), *to = mem_zalloc(LARGE);
        void            *on_0, *on_1;

        fake_gpus_open(&f, options);
        f.fake_cuda_set("PEERS", peers);
        fill_bytes(from, LARGE, 5);
        assert_null(gpu_alloc(f.gpus, 0, LARGE, &on_0));
        assert_null(gpu_alloc(f.gpus, 1, LARGE, &on_1));
        put_bytes(f.gpus, 0, on_0, from, LARGE);
        for (int i = 0; i < 2; i++)
                assert_null(gpu_copy_all(f.gpus, &(struct gpu_copy){ on_1, on_0, 1, 0, LARGE }, 1));
        assert_no_context(&f);
        if (is_direct)
                assert_traffic(f.gpus, LARGE, 0, 0, 2 * LARGE);
        else
                assert_traffic(f.gpus, 3 * LARGE, 2 * LARGE, 0, 0);
        get_bytes(f.gpus, 1, to, on_1, LARGE);
        assert_memory_equal(to, from, LARGE);
        assert_int_equal(gpu_pool_usage(f.gpus, GPU_HOST).used_bytes, 0);
        gpu_free(f.gpus, 0, on_0);
        gpu_free(f.gpus, 1, on_1);
        fake_gpus_close(&f);
        free(from);
        free(to);
}

static void test_between_devices(void **state) {
        (void)state;
        struct gpus_options options = fake_gpus_options();

        copy_between(&options, NULL, true);
        copy_between(&options, "0", false);
        options.pinned_pool_bytes = 32 << 20;
        copy_between(&options, "0", false);
        options.enable_peer_access = false;
        copy_between(&options, NULL, false);
}

/* Another library of the process may have enabled it. */
static void test_peer_access_is_enabled_already(void **state) {
        (void)state;
        struct gpus_options options = fake_gpus_options();
        struct fake_gpus    f;
        char                from[N], to[N];
        void               *on_0, *on_1;
        cu_context          context;

        fake_gpus_open(&f, &options);
        assert_null(gpu_enter(f.gpus, 1));
        assert_int_equal(f.cuCtxGetCurrent(&context), CU_SUCCESS);
        assert_null(gpu_enter(f.gpus, 0));
        assert_int_equal(f.cuCtxEnablePeerAccess(context, 0), CU_SUCCESS);
        assert_int_equal(f.cuCtxSetCurrent(NULL), CU_SUCCESS);
        fill_bytes(from, N, 5);
        assert_null(gpu_alloc(f.gpus, 0, N, &on_0));
        assert_null(gpu_alloc(f.gpus, 1, N, &on_1));
        put_bytes(f.gpus, 0, on_0, from, N);
        assert_null(gpu_copy_all(f.gpus, &(struct gpu_copy){ on_1, on_0, 1, 0, N }, 1));
        assert_int_equal(gpus_traffic(f.gpus).between_devices, N);
        get_bytes(f.gpus, 1, to, on_1, N);
        assert_memory_equal(to, from, N);
        gpu_free(f.gpus, 0, on_0);
        gpu_free(f.gpus, 1, on_1);
        fake_gpus_close(&f);
}

/* ---- errors ---------------------------------------------------------------------------------- */

/* Each call of the driver fails once. The memory is freed at once, which the driver's stand-in allows only
 * when no copy is in flight. */
static void test_failures(void **state) {
        (void)state;
        static const char *const failures[] = {
                "cuMemcpyHtoDAsync:2:700", "cuMemcpyDtoHAsync:1:700", "cuMemcpyDtoDAsync:1:700",
                "cuMemcpyPeerAsync:1:700", "cuStreamCreate:1:2",      "cuStreamCreate:2:2",
                "cuCtxSetCurrent:1:201",   "cuCtxGetCurrent:1:201",
        };

        for (size_t i = 0; i < ARRAY_LEN(failures); i++) {
                struct gpus_options options = fake_gpus_options();
                struct fake_gpus    f;
                char               *bytes = mem_zalloc(3 * N);
                void               *on_0, *on_1;
                struct gpu_copy     copies[5];
                struct error       *err;

                fake_gpus_open(&f, &options);
                assert_null(gpu_alloc(f.gpus, 0, 3 * N, &on_0));
                assert_null(gpu_alloc(f.gpus, 1, 3 * N, &on_1));
                copies[0] = (struct gpu_copy){ on_0, bytes, 0, GPU_HOST, N };
                copies[1] = (struct gpu_copy){ on_1, bytes, 1, GPU_HOST, N };
                copies[2] = (struct gpu_copy){ bytes + N, on_0, GPU_HOST, 0, N };
                copies[3] = (struct gpu_copy){ (char *)on_0 + N, on_0, 0, 0, N };
                copies[4] = (struct gpu_copy){ (char *)on_1 + N, on_0, 1, 0, N };
                f.fake_cuda_set("FAIL", failures[i]);
                err = gpu_copy_all(f.gpus, copies, 5);
                if (err == NULL)
                        fail_msg("%s: no error", failures[i]);
                assert_int_equal(err->code, ERR_UNAVAILABLE);
                error_free(err);
                free(bytes);
                gpu_free(f.gpus, 0, on_0);
                gpu_free(f.gpus, 1, on_1);
                fake_gpus_close(&f);
        }
}

static void test_staged_copy_fails(void **state) {
        (void)state;
        static const char *const failures[] = {
                "cuMemcpyDtoHAsync:1:700", "cuMemcpyDtoHAsync:4:700", "cuMemcpyHtoDAsync:1:700",
                "cuMemcpyHtoDAsync:3:700", "cuStreamCreate:1:2",      "cuStreamCreate:2:2",
                "cuEventCreate:1:2",       "cuEventCreate:2:2",       "cuEventCreate:3:2",
                "cuEventCreate:4:2",       "cuEventRecord:1:400",     "cuEventRecord:2:400",
                "cuStreamWaitEvent:1:400", "cuStreamWaitEvent:3:400", "cuStreamWaitEvent:4:400",
        };

        for (size_t i = 0; i < ARRAY_LEN(failures); i++) {
                struct gpus_options options = fake_gpus_options();
                struct fake_gpus    f;
                void               *on_0, *on_1;
                struct error       *err;

                options.enable_peer_access = false;
                fake_gpus_open(&f, &options);
                assert_null(gpu_alloc(f.gpus, 0, LARGE, &on_0));
                assert_null(gpu_alloc(f.gpus, 1, LARGE, &on_1));
                f.fake_cuda_set("FAIL", failures[i]);
                err = gpu_copy_all(f.gpus, &(struct gpu_copy){ on_1, on_0, 1, 0, LARGE }, 1);
                if (err == NULL)
                        fail_msg("%s: no error", failures[i]);
                assert_int_equal(err->code, ERR_UNAVAILABLE);
                error_free(err);
                assert_int_equal(gpu_pool_usage(f.gpus, GPU_HOST).used_bytes, 0);
                gpu_free(f.gpus, 0, on_0);
                gpu_free(f.gpus, 1, on_1);
                fake_gpus_close(&f);
        }
}

static void test_unknown_devices(void **state) {
        (void)state;
        struct gpus_options options = fake_gpus_options();
        struct fake_gpus    f;
        char                a[4] = "abc", b[4] = "xyz";

        fake_gpus_open(&f, &options);
        assert_gpu_error(gpu_copy_all(f.gpus, &(struct gpu_copy){ a, b, 2, GPU_HOST, 4 }, 1),
                         ERR_INVALID_ARG, "GPU 2 is unknown: the GPUs are 0,1");
        assert_gpu_error(gpu_copy_all(f.gpus, &(struct gpu_copy){ a, b, GPU_HOST, -2, 4 }, 1),
                         ERR_INVALID_ARG, "GPU -2 is unknown: the GPUs are 0,1");
        assert_string_equal(a, "abc");
        assert_int_equal(fake_gpus_count(&f).n_contexts, 0);
        fake_gpus_close(&f);
}

/* ---- threads --------------------------------------------------------------------------------- */

#define N_THREADS 20
#define N_ROUNDS 20

static void copy_in_thread(void *arg) {
        struct gpus *g = arg;
        char         from[N], to[N];
        void        *memory;

        for (unsigned i = 0; i < N_ROUNDS; i++) {
                fill_bytes(from, N, i + (unsigned)(uintptr_t)from);
                assert_null(gpu_alloc(g, (int)i % 2, N, &memory));
                put_bytes(g, (int)i % 2, memory, from, N);
                get_bytes(g, (int)i % 2, to, memory, N);
                assert_memory_equal(to, from, N);
                gpu_free(g, (int)i % 2, memory);
        }
}

/* More threads than streams that are kept. */
static void test_threads(void **state) {
        (void)state;
        struct gpus_options options = fake_gpus_options();
        struct fake_gpus    f;
        struct thread       threads[N_THREADS];

        fake_gpus_open(&f, &options);
        for (size_t i = 0; i < N_THREADS; i++)
                assert_null(thread_start(&threads[i], "copy", copy_in_thread, f.gpus));
        for (size_t i = 0; i < N_THREADS; i++)
                thread_join(&threads[i]);
        assert_traffic(f.gpus, (uint64_t)N * N_THREADS * N_ROUNDS,
                       (uint64_t)N * N_THREADS * N_ROUNDS, 0, 0);
        assert_true(fake_gpus_count(&f).n_streams <= 32);
        fake_gpus_close(&f);
}

SUITE(gpu_copy) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_there_and_back),
                cmocka_unit_test(test_many_at_once),
                cmocka_unit_test(test_zero),
                cmocka_unit_test(test_between_devices),
                cmocka_unit_test(test_peer_access_is_enabled_already),
                cmocka_unit_test(test_failures),
                cmocka_unit_test(test_staged_copy_fails),
                cmocka_unit_test(test_unknown_devices),
                cmocka_unit_test(test_threads),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
