/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "server/server_options.h"

static void test_defaults(void **state) {
        struct server_options *o = server_options_new();

        (void)state;
        assert_string_equal(o->id, "triton");
        assert_int_equal(o->model_repository.n_items, 0);
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
        assert_true(o->allow_metrics && o->allow_gpu_metrics && o->allow_cpu_metrics);
        assert_int_equal(o->metrics_interval_ms, 2000);
        server_options_free(o);
        server_options_free(NULL);
}

static void test_texts_are_copies_in_order(void **state) {
        struct server_options *o = server_options_new();
        char                   text[] = "/a";

        (void)state;
        option_texts_add(&o->model_repository, text);
        text[1] = 'b';
        option_texts_add(&o->model_repository, text);
        option_texts_add(&o->model_repository, text);
        option_text_set(&o->id, text);
        text[1] = 'c';
        assert_int_equal(o->model_repository.n_items, 3);
        assert_string_equal(o->model_repository.items[0], "/a");
        assert_string_equal(o->model_repository.items[1], "/b");
        assert_string_equal(o->model_repository.items[2], "/b");
        assert_string_equal(o->id, "/b");
        server_options_free(o);
}

static void assert_refused(struct server_options *o, const char *name, const char *text,
                           const char *message) {
        struct error *err = server_options_set(o, name, text);

        assert_non_null(err);
        assert_int_equal(err->code, ERR_INVALID_ARG);
        assert_string_equal(err->message, message);
        error_free(err);
}

static void test_options_by_name(void **state) {
        struct server_options *o = server_options_new();

        (void)state;
        assert_null(server_options_set(o, "chain-strict-unload", "true"));
        assert_null(server_options_set(o, "exit-timeout-secs", "7"));
        assert_null(server_options_set(o, "metrics-interval-ms", "12.5"));
        assert_null(server_options_set(o, "id", "mine"));
        assert_null(server_options_set(o, "model-repository", "/a"));
        assert_null(server_options_set(o, "model-store", "/b")); /* the older name */
        assert_true(o->chain_strict_unload);
        assert_int_equal(o->exit_timeout_s, 7);
        assert_true(o->metrics_interval_ms == 12.5);
        assert_string_equal(o->id, "mine");
        assert_int_equal(o->model_repository.n_items, 2);
        assert_string_equal(o->model_repository.items[1], "/b");

        assert_int_equal(server_options_adaptive_mode(o), ADAPTIVE_UNSET);
        assert_null(server_options_set(o, "adaptive-batching", "flow"));
        assert_int_equal(server_options_adaptive_mode(o), ADAPTIVE_FLOW);
        assert_null(server_options_set(o, "scheduler", "my_own"));
        assert_string_equal(o->scheduler, "my_own");
        server_options_free(o);
}

static void test_options_by_name_that_are_refused(void **state) {
        struct server_options *o = server_options_new();

        (void)state;
        assert_refused(o, "exit-timeout-sec", "7",
                       "the server library has no option 'exit-timeout-sec'; did you mean "
                       "'exit-timeout-secs'?");
        assert_refused(o, "http-port", "8000", "the server library has no option 'http-port'");
        assert_refused(o, "exit-timeout-secs", "-1",
                       "Bad option: \"--exit-timeout-secs\".\nvalue is out of range [ 0, 86400 ], "
                       "got: -1");
        assert_refused(o, "adaptive-batching", "on",
                       "adaptive batching must be 'off', 'idle' or 'flow', got 'on'");
        assert_refused(o, "scheduler", "a/b",
                       "the scheduler must be 'default', 'baseline', 'triton' or the name of a "
                       "scheduler library, got 'a/b'");
        assert_int_equal(o->exit_timeout_s, 30);
        assert_int_equal(server_options_adaptive_mode(o), ADAPTIVE_UNSET);
        assert_string_equal(o->scheduler, "default");
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
                cmocka_unit_test(test_options_by_name),
                cmocka_unit_test(test_options_by_name_that_are_refused),
                cmocka_unit_test(test_one_entry_per_device),
                cmocka_unit_test(test_one_entry_per_cache),
                cmocka_unit_test(test_resource_once_per_device),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
