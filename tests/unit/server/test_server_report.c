/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "backend/log_lines.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "infer/fake_model.h"
#include "server/server_place.h"
#include "server/server_report.h"

#include <string.h>

/* A row of two or three columns with these widths, as the log has it. */
static void put_row(struct strbuf *out, const size_t *widths, size_t n, const char *const *cells) {
        strbuf_puts(out, "I ");
        for (size_t i = 0; i < n; i++)
                strbuf_printf(out, "| %-*s ", (int)widths[i], cells[i]);
        strbuf_puts(out, "|\n");
}

static void put_rule(struct strbuf *out, const size_t *widths, size_t n) {
        strbuf_puts(out, "I ");
        for (size_t i = 0; i < n; i++) {
                strbuf_putc(out, '+');
                for (size_t k = 0; k < widths[i] + 2; k++)
                        strbuf_putc(out, '-');
        }
        strbuf_puts(out, "+\n");
}

static void assert_logged(const char *log, const char *expected) {
        if (strstr(log, expected) == NULL)
                fail_msg("not in the log:\n%s\nwhich is:\n%s", expected, log);
}

static void test_tables(void **state) {
        static const char json[] =
                "{\"cmdline\":{\"auto-complete-config\":\"true\",\"backend-directory\":\"";
        struct server_place p;
        AUTO_CHARS          log = NULL;
        AUTO_CHARS          config = NULL;
        AUTO_STRBUF         backends = { 0 };

        (void)state;
        server_place_begin(&p);
        p.options->exit_on_error = false;
        p.options->strict_model_config = false;
        server_place_add(&p, "a", SERVER_PLACE_CONFIG, 2);
        server_place_add(&p, "broken", SERVER_PLACE_CONFIG, 1);
        server_place_add(&p, "unreadable", "nonsense", 1);
        fake_host_fail(FAKE_MODEL_INITIALIZE, "broken", TRITONSERVER_ERROR_INTERNAL, "boom");
        log_lines_begin();
        server_place_start(&p);
        log = log_lines_text();
        log_lines_end();

        config = mem_printf("%s%s/backends\",\"default-max-batch-size\":\"4\","
                            "\"min-compute-capability\":\"0.000000\"}}",
                            json, p.tree.path);
        const size_t widths[] = { 7, strlen(p.library.path), strlen(config) };

        strbuf_init(&backends, 0);
        put_rule(&backends, widths, 3);
        put_row(&backends, widths, 3, (const char *[]){ "Backend", "Path", "Config" });
        put_rule(&backends, widths, 3);
        put_row(&backends, widths, 3, (const char *[]){ "fake", p.library.path, config });
        put_rule(&backends, widths, 3);
        assert_logged(log, strbuf_cstr(&backends));

        assert_logged(log, "I +------------+---------+-----------------------------+\n"
                           "I | Model      | Version | Status                      |\n"
                           "I +------------+---------+-----------------------------+\n"
                           "I | a          | 2       | READY                       |\n"
                           "I | broken     | 1       | UNAVAILABLE: Internal: boom |\n"
                           "I | unreadable | -       | UNKNOWN                     |\n"
                           "I +------------+---------+-----------------------------+\n");
        server_place_end(&p);
}

static void test_options(void **state) {
        static const char *const modes[] = { "MODE_NONE", "MODE_POLL", "MODE_EXPLICIT" };

        (void)state;
        for (int mode = MODEL_CONTROL_NONE; mode <= MODEL_CONTROL_EXPLICIT; mode++) {
                struct server_place p;
                AUTO_CHARS          log = NULL;
                AUTO_STRBUF         table = { 0 };

                server_place_begin(&p);
                server_place_start(&p);
                p.options->control_mode = (enum model_control_mode)mode;
                p.options->rate_limit_mode = mode == 1 ? RATE_LIMIT_EXEC_COUNT : RATE_LIMIT_OFF;
                log_lines_begin();
                server_report_start(p.server, p.options);
                log = log_lines_text();
                log_lines_end();

                const char *const rows[][2] = {
                        { "Option", "Value" },
                        { "server_id", "triton" },
                        { "model_repository_path[0]", p.options->model_repository.items[0] },
                        { "model_control_mode", modes[mode] },
                        { "strict_model_config", "1" },
                        { "model_config_name", "" },
                        { "rate_limit", mode == 1 ? "EXEC_COUNT" : "OFF" },
                        { "pinned_memory_pool_byte_size", "268435456" },
                        { "min_supported_compute_capability", "0.0" },
                        { "strict_readiness", "1" },
                        { "exit_timeout", "30" },
                        { "cache_enabled", "0" },
                };
                const size_t widths[] = { strlen("min_supported_compute_capability"),
                                          MAX(strlen(rows[2][1]), strlen("MODE_EXPLICIT")) };

                strbuf_init(&table, 0);
                put_rule(&table, widths, 2);
                for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                        put_row(&table, widths, 2, rows[i]);
                        if (i == 0)
                                put_rule(&table, widths, 2);
                }
                put_rule(&table, widths, 2);
                assert_logged(log, strbuf_cstr(&table));
                server_place_end(&p);
        }
}

/* One line per row, whatever is in the cells. */
static void test_control_characters(void **state) {
        struct server_place p;
        AUTO_CHARS          log = NULL;

        (void)state;
        server_place_begin(&p);
        p.options->exit_on_error = false;
        option_text_set(&p.options->id, "a\nb\x1b[31mc\x7f");
        server_place_add(&p, "broken", SERVER_PLACE_CONFIG, 1);
        fake_host_fail(FAKE_MODEL_INITIALIZE, "broken", TRITONSERVER_ERROR_INTERNAL,
                       "first\r\n\tsecond\x01");
        log_lines_begin();
        server_place_start(&p);
        log = log_lines_text();
        log_lines_end();
        assert_logged(log, "I | broken | 1       | UNAVAILABLE: Internal: first   second? |\n");
        assert_logged(log, "I | server_id                        | a b?[31mc? ");
        server_place_end(&p);
}

static unsigned n_lines;

static void count_line(enum log_level level, const char *file, int line, const char *message) {
        (void)level;
        (void)file;
        (void)line;
        (void)message;
        n_lines++;
}

static bool without_info(enum log_level level) {
        return level != LOG_INFO;
}

static void test_quiet(void **state) {
        struct server_place p;

        (void)state;
        server_place_begin(&p);
        server_place_start(&p);
        n_lines = 0;
        log_set_sink(count_line, without_info);
        server_report_start(p.server, p.options);
        log_set_sink(NULL, NULL);
        assert_int_equal(n_lines, 0);
        server_place_end(&p);
}

SUITE(server_report) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_tables),
                cmocka_unit_test(test_options),
                cmocka_unit_test(test_control_characters),
                cmocka_unit_test(test_quiet),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
