/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices and their contexts. */
#include "suite.h"

#include "base/file.h"
#include "base/log.h"
#include "fake_gpus.h"
#include "gpu/gpu_private.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the driver ------------------------------------------------------------------------------ */

static void test_library_is_missing(void **state) {
        (void)state;
        struct cuda_driver driver;

        assert_gpu_error(cuda_driver_open("libno_such_driver.so.1", &driver), ERR_NOT_FOUND,
                         "libno_such_driver.so.1: cannot open shared object file");
}

/* Another library has none of the functions. */
static void test_function_is_missing(void **state) {
        (void)state;
        struct cuda_driver driver;

        assert_gpu_error(cuda_driver_open("libz.so.1", &driver), ERR_UNSUPPORTED,
                         "libz.so.1 has no function cuInit");
}

static void test_library_is_found_by_its_name(void **state) {
        (void)state;
        struct cuda_driver driver;

        assert_null(cuda_driver_open(CUDA_LIBRARY, &driver));
        assert_true(driver.can_grow);
        assert_non_null(driver.cuMemRelease);
}

static void test_texts_of_errors(void **state) {
        (void)state;
        struct cuda_driver driver;

        assert_null(cuda_driver_open(CUDA_LIBRARY, &driver));
        assert_null(cuda_error(&driver, CU_SUCCESS));
        assert_gpu_error(cuda_error(&driver, CU_OUT_OF_MEMORY), ERR_UNAVAILABLE,
                         "CUDA_ERROR_OUT_OF_MEMORY: ");
        assert_gpu_error(cuda_error(&driver, 123456), ERR_UNAVAILABLE, "CUDA error 123456");
}

/* ---- devices --------------------------------------------------------------------------------- */

static void test_devices(void **state) {
        (void)state;
        struct gpus_options    options = fake_gpus_options();
        const struct gpu_info *info;
        struct fake_gpus       f;

        fake_gpus_open(&f, &options);
        assert_int_equal(gpus_count(f.gpus), 2);
        assert_string_equal(gpus_list(f.gpus), "0,1");
        assert_null(gpus_find(f.gpus, 2));
        assert_null(gpus_find(f.gpus, -1));
        assert_null(gpus_find(f.gpus, ((int64_t)1 << 32) + 1));
        assert_null(gpus_at(f.gpus, 2));
        info = gpus_find(f.gpus, 1);
        assert_ptr_equal(info, gpus_at(f.gpus, 1));
        assert_int_equal(info->device, 1);
        assert_int_equal(info->major, 9);
        assert_int_equal(info->minor, 0);
        assert_int_equal(info->total_bytes, (uint64_t)1 << 30);
        assert_true(strlen(info->name) > 0);
        assert_true(strlen(info->pci_bus_id) > 0);
        assert_int_equal(strlen(info->uuid), 40);
        assert_memory_equal(info->uuid, "GPU-", 4);
        assert_int_equal(info->uuid[12], '-');
        assert_int_equal(info->uuid[27], '-');
        assert_string_not_equal(info->uuid, gpus_at(f.gpus, 0)->uuid);
        fake_gpus_close(&f);
}

static void test_least_compute_capability(void **state) {
        (void)state;
        struct gpus_options options = fake_gpus_options();
        struct fake_gpus    f;

        options.min_compute_capability = 5.2;
        fake_gpus_open(&f, &options);
        assert_string_equal(gpus_list(f.gpus), "0,1,2");
        fake_gpus_close(&f);
        options.min_compute_capability = 5.3;
        fake_gpus_open(&f, &options);
        assert_string_equal(gpus_list(f.gpus), "0,1");
        fake_gpus_close(&f);
        options.min_compute_capability = 9.1;
        fake_gpus_find(&f);
        assert_null(gpus_open(&options, &f.gpus));
        assert_null(f.gpus);
        fake_gpus_close(&f);
}

static void test_no_devices(void **state) {
        (void)state;
        struct gpus_options      options = fake_gpus_options();
        struct fake_gpus         f;
        static const char *const failures[] = { "cuInit:1:100", "cuInit:1:999",
                                                "cuDeviceGetCount:1:3" };

        fake_gpus_find(&f);
        f.fake_cuda_set("DEVICES", "0");
        assert_null(gpus_open(&options, &f.gpus));
        assert_null(f.gpus);
        f.fake_cuda_set("DEVICES", NULL);
        for (size_t i = 0; i < ARRAY_LEN(failures); i++) {
                f.fake_cuda_set("FAIL", failures[i]);
                assert_null(gpus_open(&options, &f.gpus));
                assert_null(f.gpus);
        }
        fake_gpus_close(&f);
}

static void test_cpu_only(void **state) {
        (void)state;
        struct gpus_options options = fake_gpus_options();
        struct fake_gpus    f;

        fake_gpus_find(&f);
        setenv("TRITON_SERVER_CPU_ONLY", "", 1);
        assert_null(gpus_open(&options, &f.gpus));
        unsetenv("TRITON_SERVER_CPU_ONLY");
        assert_null(f.gpus);
        fake_gpus_close(&f);
}

static void test_a_device_that_cannot_be_read(void **state) {
        (void)state;
        struct gpus_options options = fake_gpus_options();
        struct fake_gpus    f;

        fake_gpus_find(&f);
        f.fake_cuda_set("FAIL", "cuDeviceGetUuid:1:999");
        assert_null(gpus_open(&options, &f.gpus));
        assert_string_equal(gpus_list(f.gpus), "1");
        assert_int_equal(gpus_at(f.gpus, 0)->device, 1);
        assert_gpu_error(gpu_enter(f.gpus, 0), ERR_INVALID_ARG, "GPU 0 is unknown: the GPUs are 1");
        fake_gpus_close(&f);
}

/* The number of lines that opening writes to the log. */
static size_t count_lines(const struct gpus_options *options) {
        char          path[] = "/tmp/neso-test-gpus-XXXXXX";
        int           fd = mkstemp(path);
        struct gpus  *g;
        struct strbuf text;
        size_t        n = 0;

        assert_true(fd >= 0);
        close(fd);
        assert_null(log_set_file(path));
        assert_null(gpus_open(options, &g));
        gpus_close(g);
        assert_null(log_set_file(""));
        assert_null(file_read(path, 1 << 20, &text));
        for (size_t i = 0; i < text.len; i++)
                n += strbuf_cstr(&text)[i] == '\n';
        strbuf_done(&text);
        unlink(path);
        return n;
}

static void test_lines_of_the_log(void **state) {
        (void)state;
        static const char *const failures[] = { NULL, "cuInit:1:100", "cuInit:1:999",
                                                "cuDeviceGetUuid:1:999" };
        static const size_t      n_lines[] = { 3, 1, 1, 3 };
        struct gpus_options      options = fake_gpus_options();
        struct fake_gpus         f;

        fake_gpus_find(&f);
        for (size_t i = 0; i < ARRAY_LEN(failures); i++) {
                for (int is_quiet = 0; is_quiet < 2; is_quiet++) {
                        f.fake_cuda_set("FAIL", failures[i]);
                        options.is_quiet = is_quiet;
                        assert_int_equal(count_lines(&options), is_quiet ? 0 : n_lines[i]);
                }
        }
        fake_gpus_close(&f);
}

/* ---- contexts -------------------------------------------------------------------------------- */

static int current_device(const struct fake_gpus *f) {
        cu_device device = -7;

        assert_int_equal(f->cuCtxGetDevice(&device), CU_SUCCESS);
        return device;
}

static void test_contexts_are_made_at_first_use(void **state) {
        (void)state;
        struct gpus_options options = fake_gpus_options();
        struct fake_gpus    f;

        fake_gpus_open(&f, &options);
        assert_int_equal(fake_gpus_count(&f).n_contexts, 0);
        assert_null(gpu_enter(f.gpus, 1));
        assert_int_equal(fake_gpus_count(&f).n_contexts, 1);
        assert_int_equal(current_device(&f), 1);
        assert_null(gpu_enter(f.gpus, 1));
        assert_int_equal(fake_gpus_count(&f).n_contexts, 1);
        assert_null(gpu_enter(f.gpus, 0));
        assert_int_equal(fake_gpus_count(&f).n_contexts, 2);
        assert_int_equal(current_device(&f), 0);
        fake_gpus_close(&f);
}

static void test_other_functions_leave_the_context(void **state) {
        (void)state;
        struct gpus_options options = fake_gpus_options();
        struct fake_gpus    f;
        uint64_t            n_free, n_total;
        void               *memory;
        char                bytes[100];

        fake_gpus_open(&f, &options);
        assert_null(gpu_memory_left(f.gpus, 0, &n_free, &n_total));
        assert_no_context(&f);
        assert_null(gpu_enter(f.gpus, 1));
        assert_null(gpu_memory_left(f.gpus, 0, &n_free, &n_total));
        assert_null(gpu_alloc(f.gpus, 0, 100, &memory));
        fill_bytes(bytes, sizeof(bytes), 1);
        put_bytes(f.gpus, 0, memory, bytes, sizeof(bytes));
        assert_null(gpu_zero(f.gpus, 0, memory, 10));
        assert_int_equal(current_device(&f), 1);
        gpu_free(f.gpus, 0, memory);
        assert_int_equal(current_device(&f), 1);
        fake_gpus_close(&f);
}

static void test_context_fails(void **state) {
        (void)state;
        struct gpus_options options = fake_gpus_options();
        struct fake_gpus    f;
        void               *memory = NULL;

        fake_gpus_open(&f, &options);
        f.fake_cuda_set("FAIL", "cuDevicePrimaryCtxRetain:1:2");
        assert_gpu_error(gpu_enter(f.gpus, 0), ERR_UNAVAILABLE,
                         "GPU 0: unable to make its context: CUDA_ERROR_OUT_OF_MEMORY");
        f.fake_cuda_set("FAIL", "cuCtxSetCurrent:1:201");
        assert_gpu_error(gpu_enter(f.gpus, 0), ERR_UNAVAILABLE,
                         "GPU 0: unable to make its context current: ");
        f.fake_cuda_set("FAIL", "cuDevicePrimaryCtxRetain:1+:2");
        assert_gpu_error(gpu_alloc(f.gpus, 1, 100, &memory), ERR_UNAVAILABLE,
                         "GPU 1: unable to make its context: ");
        assert_null(memory);
        f.fake_cuda_set("FAIL", NULL);
        fake_gpus_close(&f);
}

static void test_memory_left(void **state) {
        (void)state;
        struct gpus_options options = fake_gpus_options();
        struct fake_gpus    f;
        uint64_t            n_free, n_total, n_free_then;
        void               *memory;

        fake_gpus_open(&f, &options);
        assert_null(gpu_memory_left(f.gpus, 0, &n_free, &n_total));
        assert_int_equal(n_total, (uint64_t)1 << 30);
        assert_null(gpu_alloc(f.gpus, 0, 64 << 20, &memory));
        assert_null(gpu_memory_left(f.gpus, 0, &n_free_then, &n_total));
        /* The pool, which is too small, was made, too. */
        assert_int_equal(n_free - n_free_then, (64 << 20) + (1 << 20));
        gpu_free(f.gpus, 0, memory);
        f.fake_cuda_set("FAIL", "cuMemGetInfo:1:700");
        assert_gpu_error(gpu_memory_left(f.gpus, 0, &n_free, &n_total), ERR_UNAVAILABLE,
                         "GPU 0: unable to read its free memory: CUDA_ERROR_ILLEGAL_ADDRESS");
        assert_gpu_error(gpu_memory_left(f.gpus, 9, &n_free, &n_total), ERR_INVALID_ARG,
                         "GPU 9 is unknown: the GPUs are 0,1");
        fake_gpus_close(&f);
}

static void test_limit_of_loads(void **state) {
        (void)state;
        static const struct gpu_fraction limits[] = { { 0, 0.5 } };
        struct gpus_options              options = fake_gpus_options();
        struct fake_gpus                 f;
        void                            *on_0, *on_1;

        options.load_limits = limits;
        options.n_load_limits = 1;
        fake_gpus_open(&f, &options);
        /* Nothing is read without a limit. */
        assert_null(gpu_check_load(f.gpus, 1));
        assert_int_equal(fake_gpus_count(&f).n_contexts, 0);
        assert_null(gpu_check_load(f.gpus, 0));
        assert_null(gpu_alloc(f.gpus, 0, 768 << 20, &on_0));
        assert_null(gpu_alloc(f.gpus, 1, 768 << 20, &on_1));
        assert_null(gpu_check_load(f.gpus, 1));
        assert_gpu_error(gpu_check_load(f.gpus, 0), ERR_INTERNAL,
                         "memory limit of GPU 0 has been exceeded: 0.75");
        gpu_free(f.gpus, 0, on_0);
        gpu_free(f.gpus, 1, on_1);
        assert_null(gpu_check_load(f.gpus, 0));
        fake_gpus_close(&f);
}

/* The former context of the thread stays, also when it is another holder's of the same device. */
static void test_another_holder(void **state) {
        (void)state;
        struct gpus_options options = fake_gpus_options();
        struct gpus        *other;
        struct fake_gpus    f;
        uint64_t            n_free, n_total;

        fake_gpus_open(&f, &options);
        assert_null(gpus_open(&options, &other));
        assert_null(gpu_enter(f.gpus, 0));
        assert_null(gpu_memory_left(other, 0, &n_free, &n_total));
        assert_int_equal(fake_gpus_count(&f).n_contexts, 2);
        gpus_close(other);
        assert_int_equal(fake_gpus_count(&f).n_contexts, 1);
        assert_null(gpu_enter(f.gpus, 0));
        assert_int_equal(current_device(&f), 0);
        fake_gpus_close(&f);
}

SUITE(gpus) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_library_is_missing),
                cmocka_unit_test(test_function_is_missing),
                cmocka_unit_test(test_library_is_found_by_its_name),
                cmocka_unit_test(test_texts_of_errors),
                cmocka_unit_test(test_devices),
                cmocka_unit_test(test_least_compute_capability),
                cmocka_unit_test(test_no_devices),
                cmocka_unit_test(test_cpu_only),
                cmocka_unit_test(test_a_device_that_cannot_be_read),
                cmocka_unit_test(test_lines_of_the_log),
                cmocka_unit_test(test_contexts_are_made_at_first_use),
                cmocka_unit_test(test_other_functions_leave_the_context),
                cmocka_unit_test(test_context_fails),
                cmocka_unit_test(test_memory_left),
                cmocka_unit_test(test_limit_of_loads),
                cmocka_unit_test(test_another_holder),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
