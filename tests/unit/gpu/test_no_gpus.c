/* SPDX-License-Identifier: BSD-3-Clause */
/* A machine without GPUs: `struct gpus *` is NULL. */
#include "suite.h"

#include "gpu/gpu.h"

#include <stdio.h>
#include <string.h>

static void assert_unknown(struct error *err, int device) {
        char text[80];

        snprintf(text, sizeof(text), "GPU %d is unknown: no GPUs are available", device);
        assert_non_null(err);
        assert_int_equal(err->code, ERR_INVALID_ARG);
        assert_string_equal(err->message, text);
        error_free(err);
}

static void test_lists_nothing(void **state) {
        (void)state;
        assert_int_equal(gpus_count(NULL), 0);
        assert_null(gpus_at(NULL, 0));
        assert_null(gpus_find(NULL, 0));
        assert_null(gpus_find(NULL, GPU_HOST));
        assert_string_equal(gpus_list(NULL), "");
        assert_int_equal(gpu_pool_usage(NULL, 0).total_bytes, 0);
        assert_int_equal(gpu_pool_usage(NULL, GPU_HOST).used_bytes, 0);
        assert_int_equal(gpus_traffic(NULL).to_device, 0);
        gpus_close(NULL);
}

static void test_refuses_devices(void **state) {
        (void)state;
        unsigned char        handle[GPU_SHARE_BYTES] = { 0 };
        struct gpu_growable *growable = NULL;
        void                *memory = NULL;
        uint64_t             n_free, n_total;

        assert_unknown(gpu_enter(NULL, 3), 3);
        assert_unknown(gpu_memory_left(NULL, 0, &n_free, &n_total), 0);
        assert_unknown(gpu_alloc(NULL, 1, 64, &memory), 1);
        assert_unknown(gpu_zero(NULL, 1, &memory, 64), 1);
        assert_unknown(gpu_growable_new(NULL, 2, 0, &growable), 2);
        assert_unknown(gpu_share(NULL, 0, handle, handle, &n_free), 0);
        assert_unknown(gpu_open_shared(NULL, 0, handle, 1, &memory), 0);
        assert_null(memory);
        assert_null(growable);
        gpu_free(NULL, 0, NULL);
        gpu_growable_free(NULL);
        gpu_close_shared(NULL, 0, NULL);
}

static void test_pinned_memory_is_ordinary(void **state) {
        (void)state;
        void *memory, *nothing;
        bool  is_pinned = true;

        assert_null(gpu_pinned_alloc(NULL, 100, &memory, &is_pinned));
        assert_false(is_pinned);
        assert_int_equal((uintptr_t)memory % 64, 0);
        memset(memory, 1, 100);
        gpu_pinned_free(NULL, memory);
        assert_null(gpu_pinned_alloc(NULL, 0, &nothing, &is_pinned));
        assert_non_null(nothing);
        gpu_pinned_free(NULL, nothing);
        gpu_pinned_free(NULL, NULL);
        AUTO_ERROR err = gpu_pinned_alloc(NULL, SIZE_MAX / 2, &memory, &is_pinned);
        assert_int_equal(err->code, ERR_UNAVAILABLE);
}

static void test_copies_within_the_host(void **state) {
        (void)state;
        char            from[] = "from one place", to[sizeof(from)] = "", other[4] = "xyz";
        struct gpu_copy copies[] = {
                { .to = to,
                  .from = from,
                  .to_device = GPU_HOST,
                  .from_device = GPU_HOST,
                  .bytes = sizeof(from) },
                { .to = NULL, .from = NULL, .to_device = GPU_HOST, .from_device = GPU_HOST },
        };

        assert_null(gpu_copy_all(NULL, copies, 2));
        assert_string_equal(to, from);
        assert_null(gpu_zero(NULL, GPU_HOST, other, 2));
        assert_memory_equal(other, "\0\0z", 4);
        copies[1].to_device = 1;
        memset(to, 0, sizeof(to));
        assert_unknown(gpu_copy_all(NULL, copies, 2), 1);
        assert_string_equal(to, "");
        copies[1].to_device = GPU_HOST;
        copies[1].from_device = 2;
        assert_unknown(gpu_copy_all(NULL, copies, 2), 2);
}

SUITE(no_gpus) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_lists_nothing),
                cmocka_unit_test(test_refuses_devices),
                cmocka_unit_test(test_pinned_memory_is_ordinary),
                cmocka_unit_test(test_copies_within_the_host),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
