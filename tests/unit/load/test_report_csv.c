/* SPDX-License-Identifier: BSD-3-Clause */
/* The CSV text, with the columns of the reference's load generator. */
#include "suite.h"

#include "base/clock.h"
#include "base/compiler.h"
#include "base/mem.h"
#include "load/report_csv.h"

#define COLUMNS                                                                                    \
        "Inferences/Second,Client Send,Network+Server Send/Recv,Server Queue,"                     \
        "Server Compute Input,Server Compute Infer,Server Compute Output,Client Recv,"             \
        "p50 latency,p90 latency,p95 latency,p99 latency"

/* 100 requests of 1000 us in 2 s: 10 to send, 20 to receive; on the server 500, of them 100 in the queue. */
static void fill(struct load_result *r, double value) {
        *r = (struct load_result){ .value = value, .seconds = 2.0, .total = tally_new(false) };
        for (int i = 0; i < 100; i++) {
                histogram_add(&r->total->latency, 1000 * NS_PER_US);
                histogram_add(&r->total->service, 1000 * NS_PER_US);
        }
        r->total->n_responses = 300;
        r->total->send_ns = 100.0 * 10e3;
        r->total->recv_ns = 100.0 * 20e3;
        r->total->wait_ns = 100.0 * 970e3;
        r->stats = (struct server_stats){ .n_inferences = 100,
                                          .success = { 100, 100 * 500 * NS_PER_US },
                                          .queue = { 100, 100 * 100 * NS_PER_US },
                                          .input = { 100, 100 * 50 * NS_PER_US },
                                          .infer = { 100, 100 * 300 * NS_PER_US },
                                          .output = { 100, 100 * 40 * NS_PER_US },
                                          .hit = { 10, 100 * 7 * NS_PER_US },
                                          .miss = { 10, 100 * 8 * NS_PER_US } };
}

static void assert_csv(const struct load_model *m, struct load_values *v, bool is_open,
                       const char *wanted) {
        struct load_result  items[2];
        struct load_results results = { .items = items, .n_items = 2 };
        struct load_plan    plan = { .v = v, .is_open = is_open };
        AUTO_STRBUF         out = { 0 };

        fill(&items[0], 8.0);
        fill(&items[1], 4.0); /* the rows are in order */
        strbuf_init(&out, 0);
        report_csv_put(&results, m, &plan, &out);
        assert_string_equal(strbuf_cstr(&out), wanted);
        tally_free(items[0].total);
        tally_free(items[1].total);
}

static void test_plain(void **state) {
        struct load_values v = { .batch = 2, .percentile = -1 };
        struct load_model  m = { 0 };

        (void)state;
        assert_csv(&m, &v, false,
                   "Concurrency," COLUMNS "\n"
                   "4,100,10,470,100,50,300,40,20,1000,1000,1000,1000\n"
                   "8,100,10,470,100,50,300,40,20,1000,1000,1000,1000\n");
}

static void test_all_columns(void **state) {
        struct load_values v = { .batch = 1, .percentile = 95, .has_verbose_csv = true };
        struct load_model  m = { .is_decoupled = true, .has_cache = true };

        (void)state;
        assert_csv(
                &m, &v, true,
                "Request Rate,Inferences/Second,Response Throughput,Client Send,"
                "Network+Server Send/Recv,Server Queue,Server Compute Input,Server Compute Infer,"
                "Server Compute Output,Server Cache Hit,Server Cache Miss,Client Recv,p50 latency,"
                "p90 latency,p95 latency,p99 latency,Avg latency,request/response,response wait\n"
                "4,50,150,10,470,100,50,300,40,7,8,20,1000,1000,1000,1000,1000,30,970\n"
                "8,50,150,10,470,100,50,300,40,7,8,20,1000,1000,1000,1000,1000,30,970\n");
}

SUITE(report_csv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_plain),
                cmocka_unit_test(test_all_columns),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
