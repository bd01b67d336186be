/* SPDX-License-Identifier: BSD-3-Clause */
/* What the options of a load mean, and which combinations are refused. */
#include "suite.h"

#include "base/compiler.h"
#include "load/load_options.h"

#include <stdio.h>
#include <string.h>

#define MAX_GIVEN 4

static void set(struct load_values *v, const char *given) {
        struct str               name, value = str_split(str_of(given), '=', &name);
        const struct option_row *row = option_table_find(&load_option_table, name);

        assert_non_null(row);
        assert_null(option_set(row, v, value.ptr != NULL ? value.ptr : "true"));
}

static const struct row {
        const char *given[MAX_GIVEN];
        const char *expected; /* of the range and the mode, or the error */
} rows[] = {
        { { 0 }, "closed 1 1 1" },
        { { "concurrency-range=1:4" }, "closed 1 4 1" },
        { { "concurrency-range=2:16:2" }, "closed 2 16 2" },
        { { "request-rate-range=100:500:50" }, "open 100 500 50" },
        { { "request-rate-range=0.5" }, "open 0.5 0.5 1" },
        { { "concurrency-range=1:0", "latency-threshold=20" }, "closed 1 0 1" },
        { { "concurrency=4" }, "closed 4 4 1" },
        { { "concurrency=2", "dynamic-concurrency", "max-concurrency=8" }, "closed 2 8 1" },
        { { "concurrency-range=4:1" },
          "--concurrency-range: '4:1' is no range START:END:STEP with START above 0" },
        { { "concurrency-range=1:" },
          "--concurrency-range: '1:' is no range START:END:STEP with START above 0" },
        { { "request-rate-range=1:2:1e-20" },
          "--request-rate-range: '1:2:1e-20': the step is too small" },
        { { "concurrency-range=0" },
          "--concurrency-range: '0' is no range START:END:STEP with START above 0" },
        { { "concurrency-range=1.5" }, "--concurrency-range: whole numbers up to 65536" },
        { { "concurrency-range=1:0" }, "a range without an end needs --latency-threshold" },
        { { "concurrency-range=1", "request-rate-range=1" },
          "--concurrency-range, --request-rate-range, --request-intervals: one of them" },
        { { "binary-search", "concurrency-range=1:8" },
          "--binary-search needs a range with an end, and --latency-threshold" },
        { { "batch-size=0" }, "--batch-size: 1 to 1048576" },
        { { "streaming" }, "--streaming needs -i grpc" },
        { { "service-kind=tfserving" }, "--service-kind: 'tfserving' is not supported" },
        { { "protocol=gRPC", "streaming" }, "closed 1 1 1" },
        { { "protocol=ftp" }, "--protocol: unknown value 'ftp', not one of http, grpc" },
        { { "grpc-compression-algorithm=gzip" }, "--grpc-compression-algorithm needs -i grpc" },
        { { "protocol=grpc", "grpc-compression-algorithm=br" },
          "--grpc-compression-algorithm: unknown value 'br', not one of none, gzip, deflate" },
        { { "sequence-id-range=5:5" }, "--sequence-id-range: '5:5' is no range START:END" },
        { { "percentile=0" }, "--percentile: 1 to 99" },
        { { "periodic-concurrency-range=2:8:2", "language" }, "closed 2 8 2" },
        { { "periodic-concurrency-range=2:8:2" },
          "--periodic-concurrency-range needs streams: -i grpc --streaming, --language, or "
          "--endpoint" },
        { { "periodic-concurrency-range=2:0", "language" },
          "--periodic-concurrency-range: whole numbers up to 65536, with an end" },
        { { "periodic-concurrency-range=2:4", "language", "request-period=0" },
          "--request-period: at least 1" },
        { { "periodic-concurrency-range=2:4", "language", "threads=2" },
          "--periodic-concurrency-range: not with --threads, --request-count or --binary-search" },
        { { "periodic-concurrency-range=2:4", "concurrency-range=1" },
          "--concurrency-range, --request-rate-range, --request-intervals: one of them" },
        { { "language", "shared-memory=system" },
          "--language over HTTP: no --shared-memory, since the requests are plain JSON" },
        { { "endpoint=chat" }, "closed 1 1 1" },
        { { "endpoint=v1/completions", "service-kind=openai", "streaming" }, "closed 1 1 1" },
        { { "service-kind=openai", "concurrency-range=4" }, "closed 4 4 1" },
        { { "endpoint=embeddings", "batch-size=8" }, "closed 1 1 1" },
        { { "endpoint=chat", "periodic-concurrency-range=2:8:2" }, "closed 2 8 2" },
        { { "endpoint=chat", "whole", "periodic-concurrency-range=2:8:2" },
          "--periodic-concurrency-range needs streams: -i grpc --streaming, --language, or "
          "--endpoint" },
        { { "endpoint=responses" },
          "--endpoint: unknown value 'responses', not one of chat, completions, embeddings, "
          "generate" },
        { { "endpoint=chat", "protocol=grpc" }, "--endpoint needs -i http" },
        { { "endpoint=chat", "language" },
          "--endpoint makes requests of prompts: no --language, --input-data, --shape or "
          "--shared-memory" },
        { { "endpoint=chat", "batch-size=2" },
          "--batch-size with --endpoint: of embeddings alone" },
        { { "endpoint=chat", "model-version=1" },
          "--model-version: the OpenAI API has no versions" },
        { { "endpoint=generate", "model-version=1" }, "closed 1 1 1" },
        { { "endpoint=generate", "whole" }, "--whole: the endpoint generate is a stream" },
        { { "endpoint=chat", "prompt-tokens=x" },
          "--prompt-tokens: 'x' is no number of tokens from 1 to 10000000, or MEAN,DEVIATION" },
        { { "prompt-tokens=5" }, "--prompt-tokens needs --endpoint" },
        { { "output-tokens=5" }, "--output-tokens needs --endpoint" },
        { { "prompts=x" }, "--prompts needs --endpoint" },
        { { "whole" }, "--whole needs --endpoint" },
        { { "endpoint=chat", "prompts=x", "prefix-tokens=3" },
          "--prompts: no --prompt-tokens or --prefix-tokens, since the prompts are those of the "
          "file" },
        { { "endpoint=chat", "prompts=x", "prompt-tokens=7" },
          "--prompts: no --prompt-tokens or --prefix-tokens, since the prompts are those of the "
          "file" },
        { { "endpoint=chat", "prompts=x" }, "closed 1 1 1" },
};

static void test_rows(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct load_values v;
                struct load_plan   p;
                char               got[200];
                AUTO_ERROR         err = NULL;

                option_table_init(&load_option_table, &v, sizeof(v));
                set(&v, "model-name=m");
                for (size_t k = 0; k < MAX_GIVEN && rows[i].given[k] != NULL; k++)
                        set(&v, rows[i].given[k]);
                err = load_plan_read(&v, &p);
                if (err != NULL)
                        snprintf(got, sizeof(got), "%s", err->message);
                else
                        snprintf(got, sizeof(got), "%s %g %g %g", p.is_open ? "open" : "closed",
                                 p.range.start, p.range.end, p.range.step);
                if (strcmp(got, rows[i].expected) != 0)
                        fail_msg("row %zu: '%s'", i, got);
                if (err == NULL)
                        load_plan_done(&p);
                option_table_done(&load_option_table, &v);
        }
}

/* Each option that does not exist yet is refused by its name, with or without a value. */
static void test_missing(void **state) {
        size_t n = 0;

        (void)state;
        for (size_t i = 0; i < load_option_table.n_rows; i++) {
                const struct option_row *row = &load_option_table.rows[i];
                struct load_values       v;
                AUTO_ERROR               err = NULL;

                if (row->missing == NULL)
                        continue;
                option_table_init(&load_option_table, &v, sizeof(v));
                err = option_set(row, &v, "x");
                assert_non_null(err);
                assert_int_equal(err->code, ERR_UNSUPPORTED);
                assert_non_null(strstr(err->message, row->name));
                option_table_done(&load_option_table, &v);
                n++;
        }
        assert_true(n > 5);
}

static void test_ids(void **state) {
        struct load_values v;
        struct load_plan   p;

        (void)state;
        option_table_init(&load_option_table, &v, sizeof(v));
        set(&v, "model-name=m");
        set(&v, "sequence-id-range=10:14");
        assert_null(load_plan_read(&v, &p));
        assert_int_equal(p.first_id, 10);
        assert_int_equal(p.n_ids, 4);
        load_plan_done(&p);
        option_table_done(&load_option_table, &v);
}

static void test_limits(void **state) {
        static const struct {
                const char      *text;
                enum fail_figure figure;
                bool             is_above;
                double           percent, bound; /* bound 0: wrong */
        } limits[] = {
                { "p99>20ms", FAIL_PERCENTILE, true, 99.0, 20e6 },
                { "p99.9 > 1.5s", FAIL_PERCENTILE, true, 99.9, 1.5e9 },
                { "mean>300us", FAIL_MEAN, true, 0.0, 300e3 },
                { "max>5000ns", FAIL_MAX, true, 0.0, 5000.0 },
                { "rate<1000", FAIL_RATE, false, 0.0, 1000.0 },
                { "errors>1", FAIL_ERRORS, true, 0.0, 1.0 },
                { "p99>20", FAIL_PERCENTILE, true, 0.0, 0.0 },
                { "p0>1ms", FAIL_PERCENTILE, true, 0.0, 0.0 },
                { "p99=1ms", FAIL_PERCENTILE, true, 0.0, 0.0 },
                { "speed>1", FAIL_PERCENTILE, true, 0.0, 0.0 },
                { "rate<1ms", FAIL_PERCENTILE, true, 0.0, 0.0 },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
                struct fail_limit l;
                AUTO_ERROR        err = fail_limit_read(limits[i].text, &l);

                if ((err != NULL) != (limits[i].bound == 0.0))
                        fail_msg("'%s'", limits[i].text);
                if (err != NULL)
                        continue;
                assert_int_equal(l.figure, limits[i].figure);
                assert_int_equal(l.is_above, limits[i].is_above);
                assert_true(l.percent == limits[i].percent && l.bound == limits[i].bound);
        }
}

static void assert_notes(const char *const *given, size_t n, const char *wanted) {
        struct load_values v;
        struct load_plan   p;

        option_table_init(&load_option_table, &v, sizeof(v));
        set(&v, "model-name=m");
        for (size_t i = 0; i < n; i++)
                set(&v, given[i]);
        assert_null(load_plan_read(&v, &p));
        assert_string_equal(strbuf_cstr(&p.notes), wanted);
        load_plan_done(&p);
        option_table_done(&load_option_table, &v);
}

/* An option that has no effect is not passed over in silence. */
static void test_notes(void **state) {
        static const char *const closed[] = { "connections=2", "request-distribution=poisson" };
        static const char *const open[] = { "connections=2", "request-distribution=poisson",
                                            "request-rate-range=5" };
        static const char *const grpc[] = { "connections=2", "protocol=grpc" };

        (void)state;
        assert_notes(
                closed, ARRAY_LEN(closed),
                "--connections is ignored: over HTTP each request under way has a connection of "
                "its own\n"
                "--request-distribution is ignored without --request-rate-range\n");
        assert_notes(open, ARRAY_LEN(open), "");
        assert_notes(grpc, ARRAY_LEN(grpc), "");
}

SUITE(load_options) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rows),  cmocka_unit_test(test_missing),
                cmocka_unit_test(test_ids),   cmocka_unit_test(test_limits),
                cmocka_unit_test(test_notes),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
