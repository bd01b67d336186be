/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "fake_gpus.h"
#include "gpu/gpu_private.h"

#include <string.h>

#define MIB ((size_t)1 << 20)

static struct gpu_growable *make(const struct fake_gpus *f, uint64_t max_bytes) {
        struct gpu_growable *b;

        assert_null(gpu_growable_new(f->gpus, 0, max_bytes, &b));
        return b;
}

static void test_grows_and_stays(void **state) {
        (void)state;
        struct gpus_options  options = fake_gpus_options();
        struct fake_gpus     f;
        struct gpu_growable *b;
        char                 from[3000], to[3000];
        void                *memory;
        size_t               n_bytes;

        fake_gpus_open(&f, &options);
        b = make(&f, 64 * MIB);
        memory = gpu_growable_memory(b);
        assert_non_null(memory);
        assert_int_equal(fake_gpus_count(&f).device_bytes, 0);
        assert_null(gpu_growable_reserve(b, 0));
        assert_int_equal(fake_gpus_count(&f).device_bytes, 0);
        assert_null(gpu_growable_reserve(b, sizeof(from)));
        n_bytes = fake_gpus_count(&f).device_bytes;
        assert_true(n_bytes >= sizeof(from));
        fill_bytes(from, sizeof(from), 9);
        put_bytes(f.gpus, 0, memory, from, sizeof(from));
        assert_null(gpu_growable_reserve(b, sizeof(from)));
        assert_int_equal(fake_gpus_count(&f).device_bytes, n_bytes);
        for (size_t i = 1; i <= 9; i++)
                assert_null(gpu_growable_reserve(b, i * 7 * MIB));
        assert_true(fake_gpus_count(&f).device_bytes >= 63 * MIB);
        assert_ptr_equal(gpu_growable_memory(b), memory);
        get_bytes(f.gpus, 0, to, memory, sizeof(to));
        assert_memory_equal(to, from, sizeof(to));
        /* The end is usable, too. */
        put_bytes(f.gpus, 0, (char *)memory + 63 * MIB - sizeof(from), from, sizeof(from));
        assert_no_context(&f);
        gpu_growable_free(b);
        assert_int_equal(fake_gpus_count(&f).n_allocations, 0);
        fake_gpus_close(&f);
}

static void test_maximum(void **state) {
        (void)state;
        struct gpus_options  options = fake_gpus_options();
        struct fake_gpus     f;
        struct gpu_growable *b;

        fake_gpus_open(&f, &options);
        b = make(&f, 8 * MIB);
        assert_null(gpu_growable_reserve(b, 8 * MIB));
        assert_gpu_error(gpu_growable_reserve(b, 8 * MIB + 1), ERR_UNAVAILABLE,
                         "GPU 0: a growing buffer has at most 8388608 bytes, 8388609 are needed");
        assert_gpu_error(gpu_growable_reserve(b, SIZE_MAX), ERR_UNAVAILABLE, "at most 8388608");
        gpu_growable_free(b);
        fake_gpus_close(&f);
}

static void test_size_of_the_setting(void **state) {
        (void)state;
        static const struct gpu_bytes sizes[] = { { 0, 4 << 20 } };
        struct gpus_options           options = fake_gpus_options();
        struct fake_gpus              f;
        struct gpu_growable          *b;

        options.virtual_sizes = sizes;
        options.n_virtual_sizes = 1;
        fake_gpus_open(&f, &options);
        b = make(&f, 0);
        assert_gpu_error(gpu_growable_reserve(b, 5 * MIB), ERR_UNAVAILABLE, "at most 4194304");
        gpu_growable_free(b);
        assert_null(gpu_growable_new(f.gpus, 1, 0, &b));
        assert_gpu_error(gpu_growable_reserve(b, GPU_VIRTUAL_BYTES + 1), ERR_UNAVAILABLE,
                         "GPU 1: a growing buffer has at most 1073741824");
        gpu_growable_free(b);
        fake_gpus_close(&f);
}

static void test_unsupported(void **state) {
        (void)state;
        struct gpus_options  options = fake_gpus_options();
        struct fake_gpus     f;
        struct gpu_growable *b = NULL;
        struct cuda_driver   driver;
        struct gpus         *old;

        options.min_compute_capability = 0;
        fake_gpus_open(&f, &options);
        assert_gpu_error(gpu_growable_new(f.gpus, 2, 0, &b), ERR_UNSUPPORTED,
                         "GPU 2 has no memory that grows");
        assert_gpu_error(gpu_growable_new(f.gpus, 3, 0, &b), ERR_INVALID_ARG, "GPU 3 is unknown");
        /* An old driver lacks the functions. */
        assert_null(cuda_driver_open(CUDA_LIBRARY, &driver));
        driver.can_grow = false;
        driver.cuMemCreate = NULL;
        driver.cuMemGetAllocationGranularity = NULL;
        assert_null(gpus_open_driver(&driver, &options, &old));
        assert_gpu_error(gpu_growable_new(old, 0, 0, &b), ERR_UNSUPPORTED,
                         "GPU 0 has no memory that grows");
        assert_null(b);
        gpus_close(old);
        fake_gpus_close(&f);
}

/* What was reserved stays usable, and nothing is left of what failed. */
static void test_failures(void **state) {
        (void)state;
        static const char *const failures[] = { "cuMemCreate:1:2", "cuMemMap:1:1",
                                                "cuMemSetAccess:1:1" };
        static const char *const new_failures[] = { "cuMemGetAllocationGranularity:1:1",
                                                    "cuMemAddressReserve:1:2" };
        struct gpus_options      options = fake_gpus_options();
        struct fake_gpus         f;
        struct gpu_growable     *b;

        fake_gpus_open(&f, &options);
        for (size_t i = 0; i < ARRAY_LEN(new_failures); i++) {
                f.fake_cuda_set("FAIL", new_failures[i]);
                assert_gpu_error(gpu_growable_new(f.gpus, 0, 0, &b), ERR_UNAVAILABLE, "GPU 0: ");
        }
        f.fake_cuda_set("FAIL", NULL);
        b = make(&f, 64 * MIB);
        assert_null(gpu_growable_reserve(b, MIB));
        for (size_t i = 0; i < ARRAY_LEN(failures); i++) {
                const size_t before = fake_gpus_count(&f).device_bytes;

                f.fake_cuda_set("FAIL", failures[i]);
                assert_gpu_error(gpu_growable_reserve(b, 20 * MIB), ERR_UNAVAILABLE,
                                 "further bytes of a growing buffer: CUDA_ERROR_");
                f.fake_cuda_set("FAIL", NULL);
                assert_int_equal(fake_gpus_count(&f).device_bytes, before);
                assert_null(gpu_zero(f.gpus, 0, gpu_growable_memory(b), MIB));
        }
        assert_null(gpu_growable_reserve(b, 20 * MIB));
        assert_null(gpu_zero(f.gpus, 0, gpu_growable_memory(b), 20 * MIB));
        gpu_growable_free(b);
        fake_gpus_close(&f);
}

SUITE(gpu_growable) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_grows_and_stays),
                cmocka_unit_test(test_maximum),
                cmocka_unit_test(test_size_of_the_setting),
                cmocka_unit_test(test_unsupported),
                cmocka_unit_test(test_failures),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
