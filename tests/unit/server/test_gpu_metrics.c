/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "../gpu/fake_gpus.h"
#include "base/mem.h"
#include "server/gpu_metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct gpu_metrics *new_metrics(const struct gpus *gpus, bool reads_nvml,
                                       uint64_t interval_ms) {
        return gpu_metrics_new(&(struct gpu_metrics_options){ .gpus = gpus,
                                                              .pinned_pool_bytes = 1 << 20,
                                                              .reads_nvml = reads_nvml,
                                                              .interval_ms = interval_ms });
}

static char *print_page(struct gpu_metrics *m) {
        struct strbuf page;

        strbuf_init(&page, 0);
        gpu_metrics_measure(m);
        gpu_metrics_print(m, &page);
        return strbuf_take(&page);
}

static char *print(const struct gpus *gpus) {
        struct gpu_metrics *m = new_metrics(gpus, false, 0);
        char               *page = print_page(m);

        gpu_metrics_free(m);
        return page;
}

static void test_without_gpus(void **state) {
        (void)state;
        AUTO_CHARS page = print(NULL);

        assert_string_equal(page,
                            "# HELP nv_pinned_memory_pool_total_bytes Pinned memory pool total "
                            "memory size, in bytes\n"
                            "# TYPE nv_pinned_memory_pool_total_bytes gauge\n"
                            "nv_pinned_memory_pool_total_bytes 1048576\n"
                            "# HELP nv_pinned_memory_pool_used_bytes Pinned memory pool used "
                            "memory size, in bytes\n"
                            "# TYPE nv_pinned_memory_pool_used_bytes gauge\n"
                            "nv_pinned_memory_pool_used_bytes 0\n");
}

static void assert_line(const char *page, const char *format, ...) {
        char    line[200];
        va_list args;

        va_start(args, format);
        (void)vsnprintf(line, sizeof(line), format, args);
        va_end(args);
        if (strstr(page, line) == NULL)
                fail_msg("no %s in:\n%s", line, page);
}

static void test_with_gpus(void **state) {
        (void)state;
        struct gpus_options options = fake_gpus_options();
        struct fake_gpus    f;
        void               *pinned, *ordinary, *on_0, *on_1;
        bool                is_pinned;
        char                bytes[100] = { 0 };

        fake_gpus_open(&f, &options);
        const char *uuids[] = { gpus_at(f.gpus, 0)->uuid, gpus_at(f.gpus, 1)->uuid };

        assert_null(gpu_pinned_alloc(f.gpus, 1000, &pinned, &is_pinned));
        assert_null(gpu_pinned_alloc(f.gpus, 2 << 20, &ordinary, &is_pinned));
        assert_null(gpu_alloc(f.gpus, 1, 1000, &on_1));
        assert_null(gpu_alloc(f.gpus, 1, 2 << 20, &on_0));
        put_bytes(f.gpus, 1, on_1, bytes, 100);
        get_bytes(f.gpus, 1, bytes, on_1, 30);
        AUTO_CHARS page = print(f.gpus);
        assert_line(page, "\nnv_pinned_memory_pool_total_bytes 1048576\n");
        assert_line(page, "\nnv_pinned_memory_pool_used_bytes 1024\n");
        assert_line(page, "\n# TYPE neso_pinned_memory_pool_full_total counter\n"
                          "neso_pinned_memory_pool_full_total 1\n");
        assert_line(page,
                    "\n# TYPE neso_gpu_memory_pool_total_bytes gauge\n"
                    "neso_gpu_memory_pool_total_bytes{gpu_uuid=\"%s\"} 0\n"
                    "neso_gpu_memory_pool_total_bytes{gpu_uuid=\"%s\"} 1048576\n",
                    uuids[0], uuids[1]);
        assert_line(page, "\nneso_gpu_memory_pool_used_bytes{gpu_uuid=\"%s\"} 1024\n", uuids[1]);
        assert_line(page,
                    "\n# TYPE neso_gpu_memory_pool_full_total counter\n"
                    "neso_gpu_memory_pool_full_total{gpu_uuid=\"%s\"} 0\n"
                    "neso_gpu_memory_pool_full_total{gpu_uuid=\"%s\"} 1\n",
                    uuids[0], uuids[1]);
        assert_line(page, "\n# TYPE neso_gpu_copied_bytes_total counter\n"
                          "neso_gpu_copied_bytes_total{direction=\"to_device\"} 100\n"
                          "neso_gpu_copied_bytes_total{direction=\"to_host\"} 30\n"
                          "neso_gpu_copied_bytes_total{direction=\"within_device\"} 0\n"
                          "neso_gpu_copied_bytes_total{direction=\"between_devices\"} 0\n");
        gpu_pinned_free(f.gpus, pinned);
        gpu_pinned_free(f.gpus, ordinary);
        gpu_free(f.gpus, 1, on_0);
        gpu_free(f.gpus, 1, on_1);
        fake_gpus_close(&f);
}

/* ---- readings of NVML ------------------------------------------------------------------------- */

#define NVML_VALUES "gpu_metrics_values.txt"

static void set_values(const char *lines) {
        FILE *file = fopen(NVML_VALUES, "we");

        assert_non_null(file);
        assert_true(fputs(lines, file) >= 0);
        assert_int_equal(fclose(file), 0);
}

struct metered {
        struct fake_gpus    gpus;
        struct gpu_metrics *metrics;
        const char         *uuids[2];
};

static void metered_open(struct metered *d, bool reads_nvml, uint64_t interval_ms) {
        struct gpus_options options = fake_gpus_options();

        fake_gpus_open(&d->gpus, &options);
        assert_int_equal(setenv("NESO_FAKE_NVML_FILE", NVML_VALUES, 1), 0);
        d->metrics = new_metrics(d->gpus.gpus, reads_nvml, interval_ms);
        for (size_t i = 0; i < 2; i++)
                d->uuids[i] = gpus_at(d->gpus.gpus, i)->uuid;
}

static void metered_close(struct metered *d) {
        gpu_metrics_free(d->metrics);
        fake_gpus_close(&d->gpus);
        assert_int_equal(unlink(NVML_VALUES), 0);
        assert_int_equal(unsetenv("NESO_FAKE_NVML_FILE"), 0);
}

static void test_readings(void **state) {
        (void)state;
        struct metered d;

        set_values("0.utilization=50\n0.memory_total=1000\n0.memory_used=300\n0.power=1500\n"
                   "0.power_limit=2500\n0.energy=4500\n1.utilization=0\n");
        metered_open(&d, true, 0);
        AUTO_CHARS page = print_page(d.metrics);
        assert_line(page,
                    "\n# TYPE nv_gpu_utilization gauge\nnv_gpu_utilization{gpu_uuid=\"%s\"} 0.5\n"
                    "nv_gpu_utilization{gpu_uuid=\"%s\"} 0\n",
                    d.uuids[0], d.uuids[1]);
        assert_line(page, "\nnv_gpu_memory_total_bytes{gpu_uuid=\"%s\"} 1000\n", d.uuids[0]);
        assert_line(page, "\nnv_gpu_memory_used_bytes{gpu_uuid=\"%s\"} 300\n", d.uuids[0]);
        assert_line(page, "\nnv_gpu_power_usage{gpu_uuid=\"%s\"} 1.5\n", d.uuids[0]);
        assert_line(page, "\nnv_gpu_power_limit{gpu_uuid=\"%s\"} 2.5\n", d.uuids[0]);
        assert_line(page,
                    "\n# TYPE nv_energy_consumption counter\n"
                    "nv_energy_consumption{gpu_uuid=\"%s\"} 0\n",
                    d.uuids[0]);
        assert_line(page, "\nneso_gpu_info{compute_capability=\"9.0\",device=\"1\",gpu_uuid=\"%s\"",
                    d.uuids[1]);
        set_values("0.utilization=75\n");
        AUTO_CHARS next = print_page(d.metrics);
        assert_line(next, "\nnv_gpu_utilization{gpu_uuid=\"%s\"} 0.75\n", d.uuids[0]);
        metered_close(&d);
}

/* What the driver has counted before the server started is not the server's. */
static void test_energy_since_the_start(void **state) {
        (void)state;
        struct metered d;

        set_values("0.energy=4500\n1.energy=fail\n");
        metered_open(&d, true, 0);
        set_values("0.energy=6000\n1.energy=2000\n");
        AUTO_CHARS page = print_page(d.metrics);
        assert_line(page,
                    "\nnv_energy_consumption{gpu_uuid=\"%s\"} 1.5\n"
                    "nv_energy_consumption{gpu_uuid=\"%s\"} 0\n",
                    d.uuids[0], d.uuids[1]);
        set_values("0.energy=1000\n"); /* the driver counts anew */
        AUTO_CHARS next = print_page(d.metrics);
        assert_line(next, "\nnv_energy_consumption{gpu_uuid=\"%s\"} 1\n", d.uuids[0]);
        metered_close(&d);
}

/* A page within the interval has the values of the one before. */
static void test_readings_keep_for_the_interval(void **state) {
        (void)state;
        struct metered d;

        set_values("0.utilization=50\n");
        metered_open(&d, true, 1000000);
        free(print_page(d.metrics));
        set_values("0.utilization=75\n");
        AUTO_CHARS next = print_page(d.metrics);
        assert_line(next, "\nnv_gpu_utilization{gpu_uuid=\"%s\"} 0.5\n", d.uuids[0]);
        metered_close(&d);
}

static void test_no_readings_when_they_are_off(void **state) {
        (void)state;
        struct metered d;

        set_values("");
        metered_open(&d, false, 0);
        AUTO_CHARS page = print_page(d.metrics);
        assert_null(strstr(page, "nv_gpu_"));
        assert_null(strstr(page, "nv_energy_"));
        assert_line(page, "\nneso_gpu_info{");
        metered_close(&d);
}

/* Twice in a row is a gap; three times is the end, for this reading of this device. */
static void test_reading_that_fails_ends(void **state) {
        (void)state;
        struct metered d;

        set_values("0.power=fail\n0.utilization=50\n");
        metered_open(&d, true, 0);
        for (int i = 0; i < 2; i++) {
                AUTO_CHARS page = print_page(d.metrics);
                AUTO_CHARS missing = mem_printf("nv_gpu_power_usage{gpu_uuid=\"%s\"}", d.uuids[0]);

                assert_null(strstr(page, missing));
                assert_line(page, "\nnv_gpu_power_usage{gpu_uuid=\"%s\"} 75\n", d.uuids[1]);
        }
        set_values("0.power=2000\n");
        AUTO_CHARS back = print_page(d.metrics);
        assert_line(back, "\nnv_gpu_power_usage{gpu_uuid=\"%s\"} 2\n", d.uuids[0]);
        set_values("0.power=fail\n");
        for (int i = 0; i < 3; i++)
                free(print_page(d.metrics));
        set_values("0.power=2000\n");
        AUTO_CHARS page = print_page(d.metrics);
        AUTO_CHARS gone = mem_printf("nv_gpu_power_usage{gpu_uuid=\"%s\"}", d.uuids[0]);
        assert_null(strstr(page, gone));
        assert_line(page, "\nnv_gpu_power_usage{gpu_uuid=\"%s\"} 75\n", d.uuids[1]);
        assert_line(page, "\nnv_gpu_utilization{gpu_uuid=\"%s\"} 0.25\n", d.uuids[0]);
        metered_close(&d);
}

/* NVML does not start: the page has everything else. */
static void test_nvml_does_not_start(void **state) {
        (void)state;
        struct metered d;

        set_values("nvml.init=fail\n");
        metered_open(&d, true, 0);
        AUTO_CHARS page = print_page(d.metrics);
        assert_null(strstr(page, "nv_gpu_utilization"));
        assert_line(page, "\nneso_gpu_memory_pool_total_bytes{");
        metered_close(&d);
}

SUITE(gpu_metrics) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_without_gpus),
                cmocka_unit_test(test_with_gpus),
                cmocka_unit_test(test_readings),
                cmocka_unit_test(test_energy_since_the_start),
                cmocka_unit_test(test_readings_keep_for_the_interval),
                cmocka_unit_test(test_no_readings_when_they_are_off),
                cmocka_unit_test(test_reading_that_fails_ends),
                cmocka_unit_test(test_nvml_does_not_start),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
