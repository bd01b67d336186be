/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "server/server_options.h"

static void test_defaults(void **state) {
        struct server_options *o = server_options_new();

        (void)state;
        assert_string_equal(o->id, "triton");
        assert_int_equal(o->repository_paths.n_items, 0);
        assert_int_equal(o->control_mode, MODEL_CONTROL_NONE);
        assert_true(o->strict_model_config);
        assert_string_equal(o->model_config_name, "");
        assert_false(o->model_namespacing);
        assert_int_equal(o->model_load_threads, 4);
        assert_int_equal(o->model_load_retries, 0);
        assert_true(o->exit_on_error);
        assert_true(o->strict_readiness);
        assert_int_equal(o->exit_timeout_s, 30);
        assert_int_equal(o->pinned_pool_bytes, 268435456);
        assert_true(o->peer_access);
        assert_int_equal(o->buffer_manager_threads, 0);
        assert_int_equal(o->rate_limit_mode, RATE_LIMIT_OFF);
        assert_string_equal(o->backend_directory, "/opt/tritonserver/backends");
        assert_string_equal(o->repoagent_directory, "/opt/tritonserver/repoagents");
        assert_string_equal(o->cache_directory, "/opt/tritonserver/caches");
        assert_true(o->metrics && o->gpu_metrics && o->cpu_metrics);
        assert_int_equal(o->metrics_interval_ms, 2000);
        server_options_free(o);
        server_options_free(NULL);
}

static void test_texts_are_copies_in_order(void **state) {
        struct server_options *o = server_options_new();
        char                   text[] = "/a";

        (void)state;
        option_texts_add(&o->repository_paths, text);
        text[1] = 'b';
        option_texts_add(&o->repository_paths, text);
        option_texts_add(&o->repository_paths, text);
        server_options_set_text(&o->id, text);
        text[1] = 'c';
        assert_int_equal(o->repository_paths.n_items, 3);
        assert_string_equal(o->repository_paths.items[0], "/a");
        assert_string_equal(o->repository_paths.items[1], "/b");
        assert_string_equal(o->repository_paths.items[2], "/b");
        assert_string_equal(o->id, "/b");
        server_options_free(o);
}

static void test_last_setting_counts(void **state) {
        struct server_options *o = server_options_new();

        (void)state;
        option_settings_add(&o->backend_settings, "onnxruntime", "threads", "1");
        option_settings_add(&o->backend_settings, "", "threads", "8");
        option_settings_add(&o->backend_settings, "onnxruntime", "threads", "2");
        assert_int_equal(o->backend_settings.n_items, 3);
        assert_string_equal(option_settings_find(&o->backend_settings, "onnxruntime", "threads"),
                            "2");
        assert_string_equal(option_settings_find(&o->backend_settings, "", "threads"), "8");
        assert_null(option_settings_find(&o->backend_settings, "onnxruntime", "thread"));
        assert_null(option_settings_find(&o->backend_settings, "python", "threads"));
        server_options_free(o);
}

static void test_one_entry_per_device(void **state) {
        struct server_options *o = server_options_new();

        (void)state;
        server_options_set_cuda_pool(o, 0, 1);
        server_options_set_cuda_pool(o, 3, 2);
        server_options_set_cuda_pool(o, 0, UINT64_MAX);
        assert_int_equal(o->n_cuda_pools, 2);
        assert_int_equal(o->cuda_pools[0].device, 0);
        assert_true(o->cuda_pools[0].bytes == UINT64_MAX);
        assert_int_equal(o->cuda_pools[1].device, 3);
        assert_int_equal(o->cuda_pools[1].bytes, 2);

        server_options_set_cuda_virtual_size(o, 1, 5);
        server_options_set_cuda_virtual_size(o, 1, 6);
        assert_int_equal(o->n_cuda_virtual_sizes, 1);
        assert_int_equal(o->cuda_virtual_sizes[0].bytes, 6);

        server_options_set_load_limit(o, 2, 0.25);
        server_options_set_load_limit(o, 4, 0.5);
        server_options_set_load_limit(o, 2, 0.75);
        assert_int_equal(o->n_load_limits, 2);
        assert_true(o->load_limits[0].fraction == 0.75);
        assert_true(o->load_limits[1].fraction == 0.5);
        server_options_free(o);
}

static void test_one_entry_per_cache(void **state) {
        struct server_options *o = server_options_new();

        (void)state;
        server_options_set_cache(o, "local", "{\"size\":\"1\"}");
        server_options_set_cache(o, "redis", "{}");
        server_options_set_cache(o, "local", "{\"size\":\"2\"}");
        assert_int_equal(o->n_caches, 2);
        assert_string_equal(o->caches[0].name, "local");
        assert_string_equal(o->caches[0].config_json, "{\"size\":\"2\"}");
        assert_string_equal(o->caches[1].name, "redis");
        server_options_free(o);
}

static void test_resource_once_per_device(void **state) {
        struct server_options *o = server_options_new();
        struct error          *err;

        (void)state;
        assert_null(server_options_add_resource(o, "R1", 10, RATE_LIMIT_EACH_DEVICE));
        assert_null(server_options_add_resource(o, "R1", 20, 0));
        assert_null(server_options_add_resource(o, "R2", 30, 0));
        err = server_options_add_resource(o, "R1", 40, 0);
        assert_non_null(err);
        assert_int_equal(err->code, ERR_ALREADY_EXISTS);
        assert_string_equal(err->message, "rate limit resource 'R1' is given twice for device 0");
        error_free(err);
        assert_int_equal(o->n_rate_limit_resources, 3);
        assert_string_equal(o->rate_limit_resources[1].name, "R1");
        assert_int_equal(o->rate_limit_resources[1].count, 20);
        assert_int_equal(o->rate_limit_resources[1].device, 0);
        server_options_free(o);
}

SUITE(server_options) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_defaults),
                cmocka_unit_test(test_texts_are_copies_in_order),
                cmocka_unit_test(test_last_setting_counts),
                cmocka_unit_test(test_one_entry_per_device),
                cmocka_unit_test(test_one_entry_per_cache),
                cmocka_unit_test(test_resource_once_per_device),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
