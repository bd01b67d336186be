/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "cli/option_parse.h"
#include "cli/trace_options.h"
#include "triton/core/tritonserver.h"

#include <stdlib.h>
#include <string.h>

#define MAX_ARGUMENTS 8

/* The texts of the last configuration that was read. */
static struct cli_options options;

/* Of a command line with these arguments. */
static struct error *read(const char *const arguments[MAX_ARGUMENTS], struct trace_config *ret) {
        char         *argv[MAX_ARGUMENTS + 1] = { (char *)"neso" };
        int           argc = 1;
        struct error *err;

        for (; argc <= MAX_ARGUMENTS && arguments[argc - 1] != NULL; argc++)
                argv[argc] = (char *)arguments[argc - 1];
        cli_options_done(&options);
        cli_options_init(&options);
        err = option_parse(argc, argv, &options);
        assert_null(err);
        return trace_options_read(&options, ret);
}

static void test_values(void **state) {
        enum { T = TRITONSERVER_TRACE_LEVEL_TIMESTAMPS, D = TRITONSERVER_TRACE_LEVEL_TENSORS };
        static const struct {
                const char         *arguments[MAX_ARGUMENTS];
                enum trace_mode     mode;
                struct trace_values values;
                const char         *file;
        } rows[] = {
                { { NULL }, TRACE_MODE_TRITON, { 0, 1000, -1, 0 }, "" },
                { { "--trace-config=level=TIMESTAMPS", "--trace-config=rate=0",
                    "--trace-config=count=7", "--trace-config=triton,file=a,b=c",
                    "--trace-config=triton,log-frequency=4294967295" },
                  TRACE_MODE_TRITON,
                  { T, 0, 7, UINT32_MAX },
                  "a,b=c" },
                { { "--trace-config=level=TENSORS", "--trace-config=level=MAX" },
                  TRACE_MODE_TRITON,
                  { T | D, 1000, -1, 0 },
                  "" },
                { { "--trace-config=level=true" }, TRACE_MODE_TRITON, { T, 1000, -1, 0 }, "" },
                { { "--trace-config=level=On" }, TRACE_MODE_TRITON, { T, 1000, -1, 0 }, "" },
                { { "--trace-config=level=TENSORS", "--trace-config=level=false" },
                  TRACE_MODE_TRITON,
                  { 0, 1000, -1, 0 },
                  "" },
                { { "--trace-config=level=TENSORS", "--trace-config=level=OFF" },
                  TRACE_MODE_TRITON,
                  { 0, 1000, -1, 0 },
                  "" },
                { { "--trace-config=mode=opentelemetry", "--trace-config=mode=triton",
                    "--trace-config=mode=opentelemetry" },
                  TRACE_MODE_OPENTELEMETRY,
                  { 0, 1000, -1, 0 },
                  "" },
                { { "--trace-level=MIN", "--trace-level=TENSORS", "--trace-rate=2",
                    "--trace-count=3", "--trace-log-frequency=4", "--trace-file=f" },
                  TRACE_MODE_TRITON,
                  { T | D, 2, 3, 4 },
                  "f" },
                { { "--trace-config=level=timestamps", "--trace-config=level=Tensors",
                    "--trace-config=mode=OpenTelemetry" },
                  TRACE_MODE_OPENTELEMETRY,
                  { T | D, 1000, -1, 0 },
                  "" },
                { { "--trace-config=rate=5", "--trace-rate=2", "--trace-file=f" },
                  TRACE_MODE_TRITON,
                  { 0, 5, -1, 0 },
                  "f" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct trace_config c;

                assert_null(read(rows[i].arguments, &c));
                assert_int_equal(c.mode, rows[i].mode);
                assert_int_equal(c.values.level, rows[i].values.level);
                assert_int_equal(c.values.rate, rows[i].values.rate);
                assert_int_equal(c.values.count, rows[i].values.count);
                assert_int_equal(c.values.log_frequency, rows[i].values.log_frequency);
                assert_string_equal(c.file, rows[i].file);
        }
}

static void test_export(void **state) {
        static const char *const given[MAX_ARGUMENTS] = {
                "--trace-config=opentelemetry,url=http://x/?a=b,c",
                "--trace-config=opentelemetry,resource=a=b=c",
                "--trace-config=opentelemetry,resource=d=",
                "--trace-config=opentelemetry,bsp_schedule_delay=0",
                "--trace-config=opentelemetry,bsp_max_queue_size=9",
        };
        struct trace_config c;

        (void)state;
        setenv("OTEL_BSP_MAX_QUEUE_SIZE", "77", 1);
        setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "78", 1);
        setenv("OTEL_BSP_SCHEDULE_DELAY", "", 1);
        assert_null(read(given, &c));
        assert_string_equal(c.url, "http://x/?a=b,c");
        assert_null(read(
                (const char *const[MAX_ARGUMENTS]){
                        "--trace-config=opentelemetry,url=localhost:4318/v1/traces" },
                &c));
        assert_string_equal(c.url, "localhost:4318/v1/traces");
        assert_null(read(given, &c));
        assert_int_equal(c.n_resources, 2);
        assert_string_equal(c.resources[0], "a=b=c");
        assert_string_equal(c.resources[1], "d=");
        assert_int_equal(c.bsp_max_queue_size, 9);
        assert_int_equal(c.bsp_schedule_delay_ms, 0);
        assert_int_equal(c.bsp_max_export_batch_size, 78);
        assert_null(read((const char *const[MAX_ARGUMENTS]){ NULL }, &c));
        assert_int_equal(c.bsp_max_queue_size, 77);
        assert_int_equal(c.bsp_schedule_delay_ms, 5000);
        unsetenv("OTEL_BSP_MAX_QUEUE_SIZE");
        unsetenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE");
        unsetenv("OTEL_BSP_SCHEDULE_DELAY");
        assert_null(read((const char *const[MAX_ARGUMENTS]){ NULL }, &c));
        assert_string_equal(c.url, "http://localhost:4318/v1/traces");
        assert_int_equal(c.bsp_max_queue_size, 2048);
        assert_int_equal(c.bsp_max_export_batch_size, 512);
}

static void assert_refused(const char *argument, const char *text) {
        struct trace_config c;
        AUTO_ERROR          err = read((const char *const[MAX_ARGUMENTS]){ argument }, &c);

        assert_non_null(err);
        assert_string_equal(err->message, text);
        assert_int_equal(err->code, ERR_INVALID_ARG);
}

static void test_refusals(void **state) {
        static const char *const rows[][2] = {
                { "--trace-config=rate", "--trace-config: expects [<mode>,]<setting>=<value>, got: "
                                         "rate" },
                { "--trace-config=", "--trace-config: expects [<mode>,]<setting>=<value>, got: " },
                { "--trace-config=file=x", "--trace-config: unknown trace setting, got: file=x" },
                { "--trace-config=triton,rate=1",
                  "--trace-config: unknown trace setting, got: triton,rate=1" },
                { "--trace-config=,rate=1", "--trace-config: unknown trace setting, got: ,rate=1" },
                { "--trace-config=opentelemetry,file=x",
                  "--trace-config: unknown trace setting, got: opentelemetry,file=x" },
                { "--trace-config=rate=-1", "--trace-config: value is out of range "
                                            "[ 0, 4294967295 ], got: rate=-1" },
                { "--trace-config=opentelemetry,bsp_max_queue_size=0",
                  "--trace-config: value is out of range [ 1, 4294967295 ], got: "
                  "opentelemetry,bsp_max_queue_size=0" },
                { "--trace-config=opentelemetry,resource==x",
                  "--trace-config: expects resource=<key>=<value>, got: "
                  "opentelemetry,resource==x" },
                { "--trace-config=opentelemetry,url=",
                  "--trace-config: expects an address of http:// or https://, got: "
                  "opentelemetry,url=" },
                { "--trace-config=opentelemetry,url=ftp://x/",
                  "--trace-config: expects an address of http:// or https://, got: "
                  "opentelemetry,url=ftp://x/" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                assert_refused(rows[i][0], rows[i][1]);
        setenv("OTEL_BSP_SCHEDULE_DELAY", "soon", 1);
        assert_refused("--trace-rate=1", "OTEL_BSP_SCHEDULE_DELAY: expects an integer, got: soon");
        unsetenv("OTEL_BSP_SCHEDULE_DELAY");
}

SUITE(trace_options) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_values),
                cmocka_unit_test(test_export),
                cmocka_unit_test(test_refusals),
        };

        int failed = cmocka_run_group_tests(tests, NULL, NULL);

        cli_options_done(&options);
        return failed;
}
