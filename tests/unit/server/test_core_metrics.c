/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/mem.h"
#include "base/strbuf.h"
#include "observe/metric.h"
#include "server/core_metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_LIMITS 64

struct place {
        struct metric_registry *registry;
        struct core_metrics    *metrics;
};

static struct place begin(const struct core_metrics_options *options) {
        struct place p = { .registry = metric_registry_new() };

        p.metrics = core_metrics_new(p.registry, options);
        return p;
}

static void end(struct place *p) {
        core_metrics_free(p->metrics);
        metric_registry_free(p->registry);
}

static char *print(struct place *p) {
        struct strbuf page;

        strbuf_init(&page, 0);
        metric_registry_print(p->registry, &page);
        return strbuf_take(&page);
}

/* The value on the line that begins with this; fails when there is none. */
static double sample(const char *page, const char *name) {
        AUTO_CHARS  start = mem_printf("\n%s ", name);
        const char *at = strstr(page, start);
        char       *value_end;
        double      value;

        if (at == NULL)
                fail_msg("no %s in:\n%s", name, page);
        value = strtod(at + strlen(start), &value_end);
        assert_int_equal(*value_end, '\n');
        return value;
}

static void test_pinned_pool(void **state) {
        struct place p =
                begin(&(struct core_metrics_options){ .gpus = { .pinned_pool_bytes = 268435456 } });
        AUTO_CHARS page = print(&p);

        (void)state;
        /* No CPU figures, no refusals: nothing else is there. */
        assert_string_equal(page,
                            "# HELP neso_log_lines_lost_total Lines of the log that were lost: "
                            "not read in time, or refused by the disk\n"
                            "# TYPE neso_log_lines_lost_total counter\n"
                            "neso_log_lines_lost_total 0\n"
                            "# HELP nv_pinned_memory_pool_total_bytes Pinned memory pool total "
                            "memory size, in bytes\n"
                            "# TYPE nv_pinned_memory_pool_total_bytes gauge\n"
                            "nv_pinned_memory_pool_total_bytes 268435456\n"
                            "# HELP nv_pinned_memory_pool_used_bytes Pinned memory pool used "
                            "memory size, in bytes\n"
                            "# TYPE nv_pinned_memory_pool_used_bytes gauge\n"
                            "nv_pinned_memory_pool_used_bytes 0\n");
        end(&p);
}

static void test_cpu(void **state) {
        struct place p = begin(&(struct core_metrics_options){ .cpu = true });
        AUTO_CHARS   first = print(&p);
        AUTO_CHARS   second = NULL;
        double       machine = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);

        (void)state;
        /* There is nothing to compare with yet. */
        assert_true(sample(first, "nv_cpu_utilization") == 0);
        for (unsigned i = 0; i < 100; i++) {
                free(second);
                second = print(&p);
                assert_true(sample(second, "nv_cpu_utilization") >= 0);
                assert_true(sample(second, "nv_cpu_utilization") <= 1);
        }
        assert_true(sample(second, "nv_cpu_memory_total_bytes") > machine / 2);
        assert_true(sample(second, "nv_cpu_memory_total_bytes") < machine * 2);
        assert_true(sample(second, "nv_cpu_memory_used_bytes") > 0);
        assert_true(sample(second, "nv_cpu_memory_used_bytes") <
                    sample(second, "nv_cpu_memory_total_bytes"));
        assert_non_null(strstr(second,
                               "# HELP nv_cpu_utilization CPU utilization rate [0.0 - 1.0]\n"
                               "# TYPE nv_cpu_utilization gauge\n"));
        assert_non_null(strstr(second, "# TYPE nv_cpu_memory_total_bytes gauge\n"));
        assert_non_null(strstr(second, "# TYPE nv_cpu_memory_used_bytes gauge\n"));
        end(&p);
}

static void test_memory(void **state) {
        static const struct {
                const char *text;
                uint64_t    total, used;
        } rows[] = {
                { "MemTotal:  100 kB\nMemFree: 1 kB\nMemAvailable:   30 kB\n", 102400, 71680 },
                { "MemTotal:  100 kB\nMemAvailable:   130 kB\n", 102400, 0 }, /* of the machine */
                { "MemAvailable:   130 kB\n", 0, 0 },
                { "MemTotal:  100 kB\n", 102400, 102400 },
                { "", 0, 0 },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                uint64_t total, used;

                core_metrics_read_memory(rows[i].text, &total, &used);
                assert_int_equal(total, rows[i].total);
                assert_int_equal(used, rows[i].used);
        }
}

/* Within the interval the figures are those of the first reading, however busy we are. */
static void test_cpu_is_read_once_per_interval(void **state) {
        struct place p =
                begin(&(struct core_metrics_options){ .cpu = true, .interval_ms = 3600 * 1000 });
        AUTO_CHARS first = print(&p);
        AUTO_CHARS second = NULL;
        char      *busy = mem_alloc((size_t)8 << 20);

        (void)state;
        memset(busy, 1, (size_t)8 << 20);
        second = print(&p);
        assert_string_equal(first, second);
        free(busy);
        end(&p);
}

static void test_refusals(void **state) {
        struct place p = begin(&(struct core_metrics_options){ 0 });
        AUTO_CHARS   page = NULL;

        (void)state;
        assert_null(core_metrics_count_rejected(p.metrics, "connections"));
        assert_null(core_metrics_count_rejected(p.metrics, "body"));
        assert_null(core_metrics_count_rejected(p.metrics, "connections"));
        page = print(&p);
        assert_non_null(strstr(page, "# HELP neso_rejected_total Requests and connections refused "
                                     "because of a limit\n"
                                     "# TYPE neso_rejected_total counter\n"));
        assert_true(sample(page, "neso_rejected_total{limit=\"connections\"}") == 2);
        assert_true(sample(page, "neso_rejected_total{limit=\"body\"}") == 1);
        end(&p);
}

static void test_names_of_limits_are_bounded(void **state) {
        struct place  p = begin(&(struct core_metrics_options){ 0 });
        AUTO_CHARS    page = NULL;
        struct error *err;

        (void)state;
        for (int i = 0; i < MAX_LIMITS; i++) {
                AUTO_CHARS name = mem_printf("limit%d", i);

                assert_null(core_metrics_count_rejected(p.metrics, name));
        }
        err = core_metrics_count_rejected(p.metrics, "one more");
        assert_non_null(err);
        assert_int_equal(err->code, ERR_INVALID_ARG);
        assert_string_equal(err->message, "more than 64 names of limits");
        error_free(err);
        /* Those that are there go on counting. */
        assert_null(core_metrics_count_rejected(p.metrics, "limit63"));
        page = print(&p);
        assert_true(sample(page, "neso_rejected_total{limit=\"limit63\"}") == 2);
        assert_null(strstr(page, "one more"));
        end(&p);
}

SUITE(core_metrics) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_pinned_pool),
                cmocka_unit_test(test_cpu),
                cmocka_unit_test(test_memory),
                cmocka_unit_test(test_cpu_is_read_once_per_interval),
                cmocka_unit_test(test_refusals),
                cmocka_unit_test(test_names_of_limits_are_bounded),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
