/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "backend/temp_tree.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/core_options.h"
#include "cli/option_parse.h"
#include "server/server_options.h"
#include "triton/core/tritonserver.h"

/* What the arguments, which end with NULL, make of the core's options. The log is afterwards as it
 * was before; *ret_log is what it had become, where that is asked for. */
static struct error *make(const char *const *arguments, struct server_options **ret,
                          struct log_settings *ret_log) {
        struct TRITONSERVER_ServerOptions *made = NULL;
        struct cli_options                 o;
        struct log_settings                before;
        struct error                      *err;
        char                              *argv[16] = { (char *)"neso" };
        int                                argc = 1;

        while (arguments[argc - 1] != NULL) {
                argv[argc] = (char *)arguments[argc - 1];
                argc++;
        }
        cli_options_init(&o);
        err = option_parse(argc, argv, &o);
        if (err != NULL)
                fail_msg("%s", err->message);
        log_get_settings(&before);
        err = core_options_make(&o, &made);
        if (ret_log != NULL)
                log_get_settings(ret_log);
        log_set_settings(&before);
        assert_null(log_set_file(""));
        cli_options_done(&o);
        *ret = (struct server_options *)made;
        return err;
}

#define ARGUMENTS(...) ((const char *const[]){ __VA_ARGS__, NULL })

static struct server_options *make_well(const char *const   *arguments,
                                        struct log_settings *ret_log) {
        struct server_options *made;
        struct error          *err = make(arguments, &made, ret_log);

        if (err != NULL)
                fail_msg("%s: %s", arguments[0], err->message);
        return made;
}

static void assert_refused(const char *argument, enum error_code code, const char *message) {
        struct server_options *made;
        struct error          *err = make(ARGUMENTS(argument), &made, NULL);

        if (err == NULL)
                fail_msg("%s is accepted", argument);
        assert_string_equal(err->message, message);
        assert_int_equal(err->code, code);
        assert_null(made);
        error_free(err);
}

static void test_defaults(void **state) {
        struct server_options *o = make_well(ARGUMENTS("--id=triton"), NULL);

        (void)state;
        assert_string_equal(o->id, "triton");
        assert_int_equal(o->model_repository.n_items, 0);
        assert_false(o->strict_model_config); /* the library's own default is the other one */
        assert_string_equal(o->model_config_name, "");
        assert_int_equal(o->model_load_threads, 4);
        assert_true(o->exit_on_error);
        assert_true(o->strict_readiness);
        assert_int_equal(o->exit_timeout_s, 30);
        assert_int_equal(o->pinned_pool_bytes, 268435456);
        assert_true(o->allow_metrics);
        assert_true(o->allow_cpu_metrics);
        assert_int_equal(o->metrics_interval_ms, 2000);
        assert_int_equal(o->backend_settings.n_items, 0);
        assert_int_equal(o->metrics_settings.n_items, 0);
        server_options_free(o);
}

static void test_values_reach_the_core(void **state) {
        struct server_options *o =
                make_well(ARGUMENTS("--id=mine", "--exit-timeout-secs=7", "--exit-on-error=false",
                                    "--strict-readiness=0", "--model-config-name=tuned",
                                    "--model-load-thread-count=9",
                                    "--pinned-memory-pool-byte-size=77", "--allow-metrics=false",
                                    "--allow-cpu-metrics=false", "--metrics-interval-ms=12.75",
                                    "--backend-directory=/b",
                                    "--min-supported-compute-capability=6.5", "--model-store=/m1",
                                    "--model-repository=/m2"),
                          NULL);

        (void)state;
        assert_string_equal(o->id, "mine");
        assert_int_equal(o->exit_timeout_s, 7);
        assert_false(o->exit_on_error);
        assert_false(o->strict_readiness);
        assert_string_equal(o->model_config_name, "tuned");
        assert_int_equal(o->model_load_threads, 9);
        assert_int_equal(o->pinned_pool_bytes, 77);
        assert_false(o->allow_metrics);
        assert_false(o->allow_cpu_metrics);
        assert_int_equal(o->metrics_interval_ms, 12);
        assert_string_equal(o->backend_directory, "/b");
        assert_true(o->min_compute_capability == 6.5);
        assert_int_equal(o->model_repository.n_items, 2);
        assert_string_equal(o->model_repository.items[0], "/m1");
        assert_string_equal(o->model_repository.items[1], "/m2");
        server_options_free(o);
}

/* As the reference server, which compares without regard to case. */
static void test_values_in_any_case(void **state) {
        struct server_options *o =
                make_well(ARGUMENTS("--model-control-mode=EXPLICIT", "--load-model=m",
                                    "--rate-limit=Execution_Count"),
                          NULL);

        (void)state;
        assert_int_equal(o->control_mode, MODEL_CONTROL_EXPLICIT);
        assert_int_equal(o->rate_limit_mode, RATE_LIMIT_EXEC_COUNT);
        server_options_free(o);
}

static void test_options_of_gpus(void **state) {
        struct server_options *o = make_well(ARGUMENTS("--cuda-memory-pool-byte-size=0:67108864",
                                                       "--cuda-virtual-address-size=1:1024",
                                                       "--model-load-gpu-limit=0:0.5"),
                                             NULL);

        (void)state;
        assert_int_equal(o->n_cuda_pools, 1);
        assert_int_equal(o->cuda_pools[0].device, 0);
        assert_int_equal(o->cuda_pools[0].bytes, 67108864);
        assert_int_equal(o->n_cuda_virtual_sizes, 1);
        assert_int_equal(o->cuda_virtual_sizes[0].device, 1);
        assert_int_equal(o->cuda_virtual_sizes[0].bytes, 1024);
        assert_int_equal(o->n_load_limits, 1);
        assert_int_equal(o->load_limits[0].device, 0);
        assert_true(o->load_limits[0].fraction == 0.5);
        server_options_free(o);
        assert_refused("--model-load-gpu-limit=0:", ERR_INVALID_ARG,
                       "Bad option: \"--model-load-gpu-limit\".\nexpects "
                       "<device>:<fraction of 0 to 1>, got: 0:");
        assert_refused("--model-load-gpu-limit=0:nan", ERR_INVALID_ARG,
                       "Bad option: \"--model-load-gpu-limit\".\nexpects "
                       "<device>:<fraction of 0 to 1>, got: 0:nan");
        assert_refused("--model-load-gpu-limit=x:0.5", ERR_INVALID_ARG,
                       "Bad option: \"--model-load-gpu-limit\".\nexpects "
                       "<device>:<fraction of 0 to 1>, got: x:0.5");
        assert_refused("--cuda-memory-pool-byte-size=67108864", ERR_INVALID_ARG,
                       "Bad option: \"--cuda-memory-pool-byte-size\".\nexpects <device>:<bytes>, "
                       "got: 67108864");
        assert_refused("--cuda-virtual-address-size=x:1", ERR_INVALID_ARG,
                       "Bad option: \"--cuda-virtual-address-size\".\nexpects <device>:<bytes>, "
                       "got: x:1");
        assert_refused("--model-load-gpu-limit=0:1.5", ERR_INVALID_ARG,
                       "Bad option: \"--model-load-gpu-limit\".\nexpects "
                       "<device>:<fraction of 0 to 1>, got: 0:1.5");
}

static void test_strict_configurations(void **state) {
        static const struct {
                const char *argument;
                bool        is_strict;
        } rows[] = {
                { "--disable-auto-complete-config", true },
                { "--strict-model-config=true", true },
                { "--strict-model-config=false", false },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct server_options *o = make_well(ARGUMENTS(rows[i].argument), NULL);

                assert_int_equal(o->strict_model_config, rows[i].is_strict);
                server_options_free(o);
        }
}

/* Beside what has the core in it: here, this program. */
static void test_default_backend_directory(void **state) {
        struct server_options *o = make_well(ARGUMENTS("--id=x"), NULL);
        size_t                 len = strlen(o->backend_directory);

        (void)state;
        assert_true(len > strlen("/backends"));
        assert_string_equal(o->backend_directory + len - strlen("/backends"), "/backends");
        server_options_free(o);
}

static void test_settings(void **state) {
        static const struct {
                const char *argument, *group, *name, *value;
        } rows[] = {
                { "--backend-config=onnxruntime,threads=2", "onnxruntime", "threads", "2" },
                { "--backend-config=threads=2", "", "threads", "2" },
                { "--backend-config=,threads=2", "", "threads", "2" },
                { "--backend-config=a,b=c=d,e", "a", "b", "c=d,e" },
                { "--backend-config=a,b,c=d", "a", "b,c", "d" },
                { "--backend-config=a,b=", "a", "b", "" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct server_options *o = make_well(ARGUMENTS(rows[i].argument), NULL);

                assert_int_equal(o->backend_settings.n_items, 1);
                assert_string_equal(o->backend_settings.items[0].group, rows[i].group);
                assert_string_equal(o->backend_settings.items[0].name, rows[i].name);
                assert_string_equal(o->backend_settings.items[0].value, rows[i].value);
                server_options_free(o);
        }
}

static void test_settings_that_are_wrong(void **state) {
        static const char *const options[] = { "backend-config", "metrics-config" };
        static const char *const junk[] = { "", "a", "a,b", "=", "=v", "a,=v", ",=v" };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(options); i++)
                for (size_t k = 0; k < ARRAY_LEN(junk); k++) {
                        AUTO_CHARS argument = mem_printf("--%s=%s", options[i], junk[k]);
                        AUTO_CHARS text = mem_printf("Bad option: \"--%s\".\nexpects "
                                                     "[<group>,]<setting>=<value>, got: %s",
                                                     options[i], junk[k]);

                        assert_refused(argument, ERR_INVALID_ARG, text);
                }
}

static void test_host_policies(void **state) {
        static const char *const junk[] = { "",
                                            "a",
                                            "a,b",
                                            "=",
                                            "=v",
                                            "a,=v",
                                            ",=v",
                                            "numa-node=0",
                                            ",numa-node=0",
                                            "cpu,numa-node=",
                                            "cpu,numa-node" };
        struct server_options   *o = make_well(ARGUMENTS("--host-policy=cpu,cpu-cores=0-3,8",
                                                         "--host-policy=cpu,numa-node=1",
                                                         "--host-policy=gpu_0,numa-node=0"),
                                               NULL);
        const struct setting    *items = o->host_policies.items;

        (void)state;
        assert_int_equal(o->host_policies.n_items, 3);
        assert_string_equal(items[0].group, "cpu");
        assert_string_equal(items[0].name, "cpu-cores");
        assert_string_equal(items[0].value, "0-3,8");
        assert_string_equal(items[1].name, "numa-node");
        assert_string_equal(items[2].group, "gpu_0");
        server_options_free(o);
        for (size_t i = 0; i < ARRAY_LEN(junk); i++) {
                AUTO_CHARS argument = mem_printf("--host-policy=%s", junk[i]);
                AUTO_CHARS text = mem_printf("Bad option: \"--host-policy\".\nexpects "
                                             "<name>,<setting>=<value>, got: %s",
                                             junk[i]);

                assert_refused(argument, ERR_INVALID_ARG, text);
        }
        assert_refused("--host-policy=cpu,cores=1", ERR_UNSUPPORTED,
                       "Unsupported host policy setting 'cores' is specified, supported settings "
                       "are 'numa-node', 'cpu-cores'");
}

static void test_settings_of_metrics(void **state) {
        static const char      missing[] = "--metrics-config: summaries are not supported; the "
                                           "neso_*_duration_seconds histograms are always on";
        struct server_options *o = make_well(ARGUMENTS("--metrics-config=counter_latencies=false",
                                                       "--metrics-config=histogram_latencies=true"),
                                             NULL);

        (void)state;
        assert_string_equal(settings_find(&o->metrics_settings, "", "counter_latencies"), "false");
        assert_string_equal(settings_find(&o->metrics_settings, "", "histogram_latencies"), "true");
        server_options_free(o);
        assert_refused("--metrics-config=summary_latencies=true", ERR_UNSUPPORTED, missing);
        assert_refused("--metrics-config=summary_quantiles=0.5:0.05", ERR_UNSUPPORTED, missing);
        assert_refused("--metrics-config=histogram_latency=true", ERR_INVALID_ARG,
                       "--metrics-config: expects counter_latencies or histogram_latencies, got: "
                       "histogram_latency");
        assert_refused("--metrics-config=histogram_latencies=yes", ERR_INVALID_ARG,
                       "--metrics-config: expects true or false, got: histogram_latencies=yes");
        /* What is off anyway may be turned off. */
        server_options_free(make_well(ARGUMENTS("--metrics-config=summary_latencies=false"), NULL));
        server_options_free(make_well(ARGUMENTS("--metrics-config=summary_latencies=0"), NULL));
}

static void test_log(void **state) {
        static const struct {
                const char *argument;
                unsigned    verbose_level;
        } levels[] = {
                { "--log-verbose=0", 0 },       { "--log-verbose=1", 1 },
                { "--log-verbose=true", 1 },    { "--log-verbose=FALSE", 0 },
                { "--log-verbose=1000", 1000 },
        };
        static const struct {
                const char     *argument;
                enum log_format format;
        } formats[] = {
                { "--log-format=default", LOG_FORMAT_DEFAULT },
                { "--log-format=ISO8601", LOG_FORMAT_ISO8601 },
                { "--log-format=json", LOG_FORMAT_JSON },
        };
        struct log_settings log;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(levels); i++) {
                server_options_free(make_well(ARGUMENTS(levels[i].argument), &log));
                assert_int_equal(log.verbose_level, levels[i].verbose_level);
                assert_true(log.info && log.warning && log.error);
        }
        for (size_t i = 0; i < ARRAY_LEN(formats); i++) {
                server_options_free(make_well(ARGUMENTS(formats[i].argument), &log));
                assert_int_equal(log.format, formats[i].format);
        }
        server_options_free(make_well(ARGUMENTS("--log-info=false", "--log-error=false"), &log));
        assert_false(log.info);
        assert_true(log.warning);
        assert_false(log.error);
        server_options_free(make_well(ARGUMENTS("--log-warning=false"), &log));
        assert_false(log.warning);
}

static void test_log_values_that_are_wrong(void **state) {
        static const char *const levels[] = {
                "", "-1", "1001", "yes", "1x", "18446744073709551616"
        };

        (void)state;
        assert_refused("--log-format=iso8601", ERR_INVALID_ARG,
                       "invalid argument for --log-format, expects default, ISO8601 or json, got: "
                       "iso8601");
        assert_refused(
                "--log-format=", ERR_INVALID_ARG,
                "invalid argument for --log-format, expects default, ISO8601 or json, got: ");
        for (size_t i = 0; i < ARRAY_LEN(levels); i++) {
                AUTO_CHARS argument = mem_printf("--log-verbose=%s", levels[i]);
                AUTO_CHARS text = mem_printf("Bad option: \"--log-verbose\".\nexpects a level of 0 "
                                             "to 1000, true or false, got: %s",
                                             levels[i]);

                assert_refused(argument, ERR_INVALID_ARG, text);
        }
}

static void test_log_file(void **state) {
        struct temp_tree tree = temp_tree_make();
        AUTO_CHARS       path = temp_tree_path(&tree, "log");
        AUTO_CHARS       missing = temp_tree_path(&tree, "no/log");
        AUTO_CHARS       argument = mem_printf("--log-file=%s", path);
        AUTO_CHARS       wrong = mem_printf("--log-file=%s", missing);
        AUTO_CHARS       text =
                mem_printf("unable to open log file '%s': No such file or directory", missing);
        struct log_settings log;

        (void)state;
        server_options_free(make_well(ARGUMENTS(argument), &log));
        assert_string_equal(log.file, path);
        assert_true(file_exists(path));
        assert_refused(wrong, ERR_NOT_FOUND, text);
        temp_tree_remove(&tree);
}

SUITE(core_options) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_defaults),
                cmocka_unit_test(test_values_reach_the_core),
                cmocka_unit_test(test_values_in_any_case),
                cmocka_unit_test(test_options_of_gpus),
                cmocka_unit_test(test_strict_configurations),
                cmocka_unit_test(test_default_backend_directory),
                cmocka_unit_test(test_settings),
                cmocka_unit_test(test_settings_that_are_wrong),
                cmocka_unit_test(test_host_policies),
                cmocka_unit_test(test_settings_of_metrics),
                cmocka_unit_test(test_log),
                cmocka_unit_test(test_log_values_that_are_wrong),
                cmocka_unit_test(test_log_file),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
