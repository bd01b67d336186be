/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/strbuf.h"
#include "observe/metric.h"
#include "pipeline/chain_metrics.h"

#include <string.h>

/* Parts of a microsecond add up: a chain of small models takes a few microseconds. */
static void test_durations_are_not_cut(void **state) {
        struct metric_registry *registry = metric_registry_new();
        struct chain_metrics   *m = chain_metrics_new(registry, "c", 1);
        AUTO_STRBUF             page = { 0 };

        (void)state;
        for (int i = 0; i < 4; i++) {
                chain_metrics_count_begin(m);
                chain_metrics_count_success(m, 1750);
        }
        metric_registry_print(registry, &page);
        assert_non_null(strstr(strbuf_cstr(&page), "neso_chain_duration_us{chain=\"c\"} 7\n"));
        assert_non_null(strstr(strbuf_cstr(&page), "neso_chain_inflight{chain=\"c\"} 0\n"));
        chain_metrics_free(m);
        metric_registry_free(registry);
}

SUITE(chain_metrics) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_durations_are_not_cut),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
