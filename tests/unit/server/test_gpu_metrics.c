/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "../gpu/fake_gpus.h"
#include "base/mem.h"
#include "server/gpu_metrics.h"

#include <stdio.h>
#include <string.h>

static char *print(const struct gpus *gpus) {
        struct strbuf page;

        strbuf_init(&page, 0);
        gpu_metrics_print(gpus, 1 << 20, &page);
        return strbuf_take(&page);
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

SUITE(gpu_metrics) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_without_gpus),
                cmocka_unit_test(test_with_gpus),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
