/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/mem.h"
#include "base/strbuf.h"
#include "cli/option_parse.h"
#include "cli/option_print.h"
#include "cli/same_options.h"

#include <stdlib.h>
#include <string.h>

/* Those of the reference server: scripts that start it must find every one of them. */
static const char *const reference_names[] = {
        "help",
        "id",
        "exit-timeout-secs",
        "log-verbose",
        "log-info",
        "log-warning",
        "log-error",
        "log-format",
        "log-file",
        "model-store",
        "model-repository",
        "exit-on-error",
        "disable-auto-complete-config",
        "strict-readiness",
        "model-control-mode",
        "repository-poll-secs",
        "load-model",
        "model-config-name",
        "model-load-thread-count",
        "model-load-retry-count",
        "model-namespacing",
        "enable-peer-access",
        "allow-http",
        "http-address",
        "http-port",
        "reuse-http-port",
        "http-header-forward-pattern",
        "http-thread-count",
        "http-max-input-size",
        "http-restricted-api",
        "allow-grpc",
        "grpc-address",
        "grpc-port",
        "reuse-grpc-port",
        "grpc-header-forward-pattern",
        "grpc-infer-thread-count",
        "grpc-infer-allocation-pool-size",
        "grpc-max-response-pool-size",
        "grpc-use-ssl",
        "grpc-use-ssl-mutual",
        "grpc-server-cert",
        "grpc-server-key",
        "grpc-root-cert",
        "grpc-infer-response-compression-level",
        "grpc-keepalive-time",
        "grpc-keepalive-timeout",
        "grpc-keepalive-permit-without-calls",
        "grpc-http2-max-pings-without-data",
        "grpc-http2-min-recv-ping-interval-without-data",
        "grpc-http2-max-ping-strikes",
        "grpc-max-connection-age",
        "grpc-max-connection-age-grace",
        "grpc-restricted-protocol",
        "allow-sagemaker",
        "sagemaker-port",
        "sagemaker-safe-port-range",
        "sagemaker-thread-count",
        "allow-vertex-ai",
        "vertex-ai-port",
        "vertex-ai-thread-count",
        "vertex-ai-default-model",
        "allow-metrics",
        "allow-gpu-metrics",
        "allow-cpu-metrics",
        "metrics-address",
        "metrics-port",
        "metrics-interval-ms",
        "metrics-config",
        "trace-config",
        "backend-directory",
        "backend-config",
        "repoagent-directory",
        "cache-config",
        "cache-directory",
        "scheduler",
        "scheduler-directory",
        "rate-limit",
        "adaptive-batching",
        "rate-limit-resource",
        "pinned-memory-pool-byte-size",
        "cuda-memory-pool-byte-size",
        "cuda-virtual-address-size",
        "min-supported-compute-capability",
        "buffer-manager-thread-count",
        "host-policy",
        "model-load-gpu-limit",
        "allow-client-shm",
        "strict-model-config",
        "response-cache-byte-size",
        "trace-file",
        "trace-level",
        "trace-rate",
        "trace-count",
        "trace-log-frequency",
};

static const struct option_row *find(const char *name) {
        return option_table_find(&cli_option_table, str_of(name));
}

static void test_has_every_option_of_the_reference(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(reference_names); i++) {
                const char              *name = reference_names[i];
                const struct option_row *row = find(name);

                if (row == NULL)
                        fail_msg("there is no option --%s", name);
                if (strcmp(name, "model-store") == 0)
                        assert_string_equal(row->name, "model-repository");
                else
                        assert_string_equal(row->name, name);
        }
}

static void test_finds_whole_names_only(void **state) {
        (void)state;
        assert_null(find(""));
        assert_null(find("http-por"));
        assert_null(find("http-ports"));
        assert_null(find("HTTP-PORT"));
        assert_non_null(option_table_find(&cli_option_table, str_range("http-ports", 9)));
}

static void test_rows_are_complete(void **state) {
        const struct option_row *rows = cli_option_table.rows;
        size_t                   n = cli_option_table.n_rows;

        (void)state;
        assert_true(n > ARRAY_LEN(reference_names));
        for (size_t i = 0; i < n; i++) {
                const struct option_row *row = &rows[i];
                size_t                   help_len = strlen(row->help);

                assert_true(strlen(row->name) > 0);
                for (const char *c = row->name; *c != '\0'; c++)
                        assert_true(*c == '-' || (*c >= 'a' && *c <= 'z') ||
                                    (*c >= '0' && *c <= '9'));
                if (help_len == 0 || row->help[help_len - 1] != '.')
                        fail_msg("the help of --%s is no sentence: %s", row->name, row->help);
                assert_int_equal(option_argument(row)[0], row->kind == OPTION_FLAG ? '\0' : '<');
                if (row->missing == NULL)
                        assert_true(row->offset < sizeof(struct cli_options));
                else
                        assert_int_not_equal(row->kind, OPTION_FLAG);
                assert_ptr_equal(find(row->name), row); /* once */
        }
}

/* Two options with one place would overwrite each other. */
static void test_each_has_a_place_of_its_own(void **state) {
        const struct option_row *rows = cli_option_table.rows;
        size_t                   n = cli_option_table.n_rows;

        (void)state;
        for (size_t i = 0; i < n; i++)
                for (size_t k = 0; k < i; k++) {
                        if (rows[i].missing != NULL || rows[k].missing != NULL ||
                            rows[i].offset != rows[k].offset)
                                continue;
                        fail_msg("--%s has the place of --%s", rows[i].name, rows[k].name);
                }
}

/* What --help says is what the program does without the option. */
static void test_defaults_are_as_told(void **state) {
        const struct option_row *rows = cli_option_table.rows;
        unsigned                 n_compared = 0;

        (void)state;
        for (size_t i = 0; i < cli_option_table.n_rows; i++) {
                const struct option_row *row = &rows[i];
                const char              *reported = option_default(row);
                bool is_value = row->kind == OPTION_BOOL || row->kind == OPTION_NUMBER ||
                                row->kind == OPTION_REAL;
                struct cli_options fresh, o;
                AUTO_CHARS         value = NULL;

                /* What is computed from the machine, or from other options. */
                if (row->missing != NULL || *reported == '\0' || !is_value ||
                    strcmp(reported, "number of cores") == 0 ||
                    strcmp(reported, "three quarters of them") == 0)
                        continue;
                /* "0 (unlimited)" is 0. */
                value = mem_strndup(reported, strcspn(reported, " "));
                cli_options_init(&fresh);
                cli_options_init(&o);
                assert_null(cli_options_set(&o, row->name, value));
                if (options_differ(&o, &fresh) != NULL)
                        fail_msg("--%s=%s is not the default", row->name, value);
                cli_options_done(&o);
                cli_options_done(&fresh);
                n_compared++;
        }
        assert_true(n_compared >= 25);
}

/* A default is a value of its kind; one that is out of the range stands for "not given". */
static void test_defaults_can_be_read(void **state) {
        struct cli_options o;

        (void)state;
        cli_options_init(&o);
        for (size_t i = 0; i < cli_option_table.n_rows; i++) {
                const struct option_row *row = &cli_option_table.rows[i];

                if (option_is_changed(row, &o))
                        fail_msg("--%s: the default '%s' is not stored", row->name, row->initial);
        }
        assert_int_equal(o.http_max_connections_per_address, CLI_CONNECTIONS_SHARE);
        assert_int_equal(o.cache_bytes, -1);
        assert_int_equal(o.trace_rate, -2);
        assert_int_equal(option_n_values(find("trace-rate"), &o), 0);
        cli_options_done(&o);
}

static void test_defaults_of_texts(void **state) {
        struct cli_options o;

        (void)state;
        cli_options_init(&o);
        assert_string_equal(o.id, "triton");
        assert_string_equal(o.http_address, "0.0.0.0");
        assert_string_equal(o.log_verbose, "0");
        assert_string_equal(o.log_format, "default");
        assert_string_equal(o.log_file, "");
        assert_string_equal(o.model_config_name, "");
        assert_string_equal(o.backend_directory, "");
        assert_string_equal(o.http_header_forward_pattern, "");
        assert_null(o.metrics_address);
        assert_int_equal(o.http_threads, 0);
        cli_options_done(&o);
}

/* ---- help and page --------------------------------------------------------------------------- */

static void assert_contains(const struct strbuf *text, const char *wanted) {
        if (strstr(strbuf_cstr(text), wanted) == NULL)
                fail_msg("'%s' is not in:\n%s", wanted, strbuf_cstr(text));
}

static void test_usage(void **state) {
        AUTO_STRBUF text = { 0 };

        (void)state;
        strbuf_init(&text, 0);
        option_print_usage(&text);
        assert_memory_equal(strbuf_cstr(&text),
                            "Usage: neso serve --model-repository <directory> [options]\n", 59);
        for (size_t i = 0; i < ARRAY_LEN(reference_names); i++) {
                AUTO_CHARS wanted = mem_printf("\n  --%s ", reference_names[i]);

                assert_contains(&text, wanted);
        }
        assert_contains(&text,
                        "\n  --http-port <integer>\n\tPort for HTTP requests; 0 takes a free "
                        "one and logs it. Default: 8000.\n");
        assert_contains(
                &text,
                "\n  --vertex-ai-default-model <name>\n\tModel of predictions that name none. "
                "Default: the only model that is loaded.\n");
        assert_contains(&text, "\nScheduling and memory:\n  --rate-limit ");
}

static void test_page(void **state) {
        AUTO_STRBUF text = { 0 };

        (void)state;
        strbuf_init(&text, 0);
        option_print_markdown(&text);
        assert_memory_equal(strbuf_cstr(&text), "# Options of `neso serve`\n", 26);
        for (size_t i = 0; i < ARRAY_LEN(reference_names); i++) {
                const char *name = reference_names[i];
                AUTO_CHARS  wanted = mem_printf("\n| `--%s%s", name,
                                               find(name)->kind == OPTION_FLAG ? "`" : " ");

                assert_contains(&text, wanted);
        }
        assert_contains(&text,
                        "\n| `--http-port <integer>` | 8000 | Port for HTTP requests; 0 takes "
                        "a free one and logs it. |\n");
        assert_contains(&text, "\n| `--help` |  | Print this text. |\n");
        /* A bar would end the cell. */
        assert_contains(&text,
                        "\n| `--rate-limit <execution_count\\|off>` | off | Whether instances "
                        "wait for the resources that their groups name. |\n");
        assert_contains(&text,
                        "\n## Metrics\n\n| option | default | what it does |\n|---|---|---|\n");
}

/* The values in force, which can be given again and then are the same. */
static void test_values_in_force(void **state) {
        char              *argv[] = { (char *)"neso",
                                      (char *)"--model-store=/a",
                                      (char *)"--http-port=9000",
                                      (char *)"--model-repository=/b c",
                                      (char *)"--allow-metrics=OFF",
                                      (char *)"--metrics-interval-ms=12.75",
                                      (char *)"--chain-strict-unload" };
        struct cli_options o, again;
        AUTO_STRBUF        text = { 0 };
        char              *at;

        (void)state;
        cli_options_init(&o);
        cli_options_init(&again);
        assert_null(option_parse(ARRAY_LEN(argv), argv, &o));
        strbuf_init(&text, 0);
        option_print_values(&o, &text);
        assert_contains(&text, "\n--model-repository=/a\n--model-repository=/b c\n");
        assert_contains(&text, "\n--http-port=9000\n");
        assert_contains(&text, "\n--grpc-port=8001\n");
        assert_contains(&text, "\n--allow-metrics=false\n");
        assert_contains(&text, "\n--metrics-interval-ms=12.75\n");
        assert_contains(&text, "\n--chain-strict-unload\n");
        assert_null(strstr(strbuf_cstr(&text), "--help"));
        assert_null(strstr(strbuf_cstr(&text), "--trace-rate"));
        assert_contains(&text, "\n--sagemaker-port=8080\n");
        assert_null(strstr(strbuf_cstr(&text), "--sagemaker-safe-port-range"));
        at = mem_strdup(strbuf_cstr(&text));
        for (char *line = strtok(at, "\n"); line != NULL; line = strtok(NULL, "\n")) {
                char *one[] = { (char *)"neso", line };

                assert_null(option_parse(2, one, &again));
        }
        free(at);
        assert_null(options_differ(&o, &again));
        cli_options_done(&again);
        cli_options_done(&o);
}

SUITE(option_table) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_has_every_option_of_the_reference),
                cmocka_unit_test(test_finds_whole_names_only),
                cmocka_unit_test(test_rows_are_complete),
                cmocka_unit_test(test_each_has_a_place_of_its_own),
                cmocka_unit_test(test_defaults_are_as_told),
                cmocka_unit_test(test_defaults_can_be_read),
                cmocka_unit_test(test_defaults_of_texts),
                cmocka_unit_test(test_usage),
                cmocka_unit_test(test_page),
                cmocka_unit_test(test_values_in_force),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
