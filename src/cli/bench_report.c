/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/bench_report.h"

#include "base/mem.h"
#include "cli/text_table.h"
#include "load/report_csv.h"
#include "load/report_json.h"

/* A column of the table is empty, and so left out, where no load has a value for it. */
static const struct text_column columns[] = {
        { "LOAD", TEXT_RIGHT },   { "INFER/S", TEXT_RIGHT }, { "RESPONSES/S", TEXT_RIGHT },
        { "MEAN", TEXT_RIGHT },   { "P50", TEXT_RIGHT },     { "P90", TEXT_RIGHT },
        { "P95", TEXT_RIGHT },    { "P99", TEXT_RIGHT },     { "P99.9", TEXT_RIGHT },
        { "MAX", TEXT_RIGHT },    { "ERRORS", TEXT_RIGHT },  { "CPU", TEXT_RIGHT },
        { "SERVER", TEXT_RIGHT }, { "STABLE", TEXT_LEFT },
};

/* Without an answer there is no latency; 0 would be the best of all. */
static void put_time(const struct histogram *h, double ns, struct text_table *t) {
        if (h->n > 0)
                text_table_put_duration(t, ns);
        else
                text_table_put(t, STR_LIT("-"));
}

static void put_times(const struct histogram *h, struct text_table *t) {
        static const double percents[] = { 50.0, 90.0, 95.0, 99.0, 99.9 };

        put_time(h, histogram_mean(h), t);
        for (size_t i = 0; i < ARRAY_LEN(percents); i++)
                put_time(h, (double)histogram_percentile(h, percents[i]), t);
        put_time(h, (double)h->max, t);
}

static void put_row(const struct load_result *r, const struct load_model *m,
                    const struct load_plan *plan, struct text_table *t) {
        text_table_printf(t, "%g", r->value);
        text_table_printf(t, "%.1f", load_result_rate(r, plan));
        if (m->is_decoupled || plan->v->is_language)
                text_table_printf(t, "%.1f",
                                  r->seconds > 0.0 ? (double)r->total->n_responses / r->seconds
                                                   : 0.0);
        else
                text_table_put(t, STR_LIT(""));
        put_times(&r->total->latency, t);
        if (r->total->n_failed > 0)
                text_table_put_count(t, r->total->n_failed);
        else
                text_table_put(t, STR_LIT(""));
        text_table_printf(t, "%.0f%%", r->cpu_share * 100.0);
        if (r->server_cpu >= 0.0)
                text_table_printf(t, "%.0f%%", r->server_cpu * 100.0);
        else
                text_table_put(t, STR_LIT(""));
        text_table_put(t, r->is_stable    ? STR_LIT("yes")
                          : r->is_counted ? STR_LIT("")
                                          : STR_LIT("no"));
}

/* ---- responses of streams ---------------------------------------------------------------------- */

static const struct text_column response_columns[] = {
        { "LOAD", TEXT_RIGHT },         { "RESPONSES/S", TEXT_RIGHT },
        { "A REQUEST", TEXT_RIGHT },    { "FIRST P50", TEXT_RIGHT },
        { "FIRST P90", TEXT_RIGHT },    { "FIRST P99", TEXT_RIGHT },
        { "BETWEEN MEAN", TEXT_RIGHT }, { "BETWEEN P50", TEXT_RIGHT },
        { "BETWEEN P90", TEXT_RIGHT },  { "BETWEEN P99", TEXT_RIGHT },
};

static void put_percentiles(const struct histogram *h, struct text_table *t) {
        static const double percents[] = { 50.0, 90.0, 99.0 };

        for (size_t i = 0; i < ARRAY_LEN(percents); i++)
                put_time(h, (double)histogram_percentile(h, percents[i]), t);
}

static void put_response_table(const struct load_results *results, struct strbuf *out) {
        AUTO_TEXT_TABLE t;

        text_table_init(&t, response_columns, ARRAY_LEN(response_columns));
        for (size_t i = 0; i < results->n_items; i++) {
                const struct load_result *r = &results->items[i];
                double                    n = (double)r->total->n_responses;

                text_table_printf(&t, "%g", r->value);
                text_table_printf(&t, "%.1f", r->seconds > 0.0 ? n / r->seconds : 0.0);
                text_table_printf(&t, "%.1f",
                                  r->total->latency.n > 0 ? n / (double)r->total->latency.n : 0.0);
                put_percentiles(&r->total->first, &t);
                put_time(&r->total->between, histogram_mean(&r->total->between), &t);
                put_percentiles(&r->total->between, &t);
        }
        strbuf_puts(out, "\nResponses, to the first one and from each to the next:\n");
        text_table_print(&t, out);
}

/* ---- tokens of language models ----------------------------------------------------------------- */

static const struct text_column token_columns[] = {
        { "LOAD", TEXT_RIGHT },      { "TOKENS/S", TEXT_RIGHT },  { "A REQUEST", TEXT_RIGHT },
        { "OF PROMPT", TEXT_RIGHT }, { "FIRST P50", TEXT_RIGHT }, { "FIRST P90", TEXT_RIGHT },
        { "FIRST P99", TEXT_RIGHT }, { "NEXT P50", TEXT_RIGHT },  { "NEXT P90", TEXT_RIGHT },
        { "NEXT P99", TEXT_RIGHT },  { "GAP P99", TEXT_RIGHT },
};

#define N_TOKEN_TIMES 7 /* columns of durations */

static void put_token_times(const struct tally *all, struct text_table *t) {
        put_percentiles(&all->first, t);
        put_percentiles(&all->pace, t);
        put_time(&all->between, (double)histogram_percentile(&all->between, 99.0), t);
}

static void put_token_row(const struct load_result *r, bool has_streams, struct text_table *t) {
        const struct tally *all = r->total;
        double              n = (double)MAX(all->latency.n, 1);
        double              tokens = (double)all->n_output_tokens;

        text_table_printf(t, "%g", r->value);
        text_table_printf(t, "%.1f", r->seconds > 0.0 ? tokens / r->seconds : 0.0);
        text_table_printf(t, "%.1f", tokens / n);
        text_table_printf(t, "%.1f", (double)all->n_prompt_tokens / n);
        if (has_streams)
                put_token_times(all, t);
        for (size_t i = 0; !has_streams && i < N_TOKEN_TIMES; i++)
                text_table_put(t, STR_LIT(""));
}

/* Where no answer is counted by the server, a piece of a stream stands for a token. */
static void put_uncounted(const struct load_result *r, struct strbuf *out) {
        uint64_t n = r->total->latency.n - MIN(r->total->n_counted, r->total->latency.n);

        if (n > 0)
                strbuf_printf(out,
                              "load %g: the server reported no number of tokens for %llu requests: "
                              "each piece of their answers counts as a token\n",
                              r->value, (unsigned long long)n);
}

static void put_token_table(const struct load_results *results, bool has_streams,
                            struct strbuf *out) {
        AUTO_TEXT_TABLE t;

        text_table_init(&t, token_columns, ARRAY_LEN(token_columns));
        for (size_t i = 0; i < results->n_items; i++)
                put_token_row(&results->items[i], has_streams, &t);
        strbuf_puts(out, has_streams
                                 ? "\nTokens: to the first one, from each to the next in the mean "
                                   "of a request, gaps of pieces:\n"
                                 : "\nTokens:\n");
        text_table_print(&t, out);
        for (size_t i = 0; i < results->n_items; i++)
                put_uncounted(&results->items[i], out);
}

/* ---- phases of the server ---------------------------------------------------------------------- */

static const struct text_column phase_columns[] = {
        { "LOAD", TEXT_RIGHT },  { "MODEL", TEXT_LEFT },       { "INFERENCES", TEXT_RIGHT },
        { "RUNS", TEXT_RIGHT },  { "MEAN BATCH", TEXT_RIGHT }, { "QUEUE", TEXT_RIGHT },
        { "INPUT", TEXT_RIGHT }, { "INFER", TEXT_RIGHT },      { "OUTPUT", TEXT_RIGHT },
        { "HIT", TEXT_RIGHT },   { "MISS", TEXT_RIGHT },       { "REST", TEXT_RIGHT },
};

static void put_phases(double value, const char *model, const struct server_stats *s,
                       double rest_ns, struct text_table *t) {
        struct report_phases p = report_phases(s);
        bool                 has_cache = s->hit.count + s->miss.count > 0;

        text_table_printf(t, "%g", value);
        text_table_put(t, str_of(model));
        text_table_put_count(t, s->n_inferences);
        text_table_put_count(t, s->n_executions);
        text_table_printf(t, "%.2f",
                          s->n_executions > 0 ? (double)s->n_inferences / (double)s->n_executions
                                              : 0.0);
        text_table_put_duration(t, p.queue);
        text_table_put_duration(t, p.input);
        text_table_put_duration(t, p.infer);
        text_table_put_duration(t, p.output);
        if (has_cache) {
                text_table_put_duration(t, p.hit);
                text_table_put_duration(t, p.miss);
        } else {
                text_table_put(t, STR_LIT(""));
                text_table_put(t, STR_LIT(""));
        }
        if (rest_ns >= 0.0)
                text_table_put_duration(t, rest_ns);
        else
                text_table_put(t, STR_LIT(""));
}

static void put_phase_table(const struct load_results *results, const struct load_model *m,
                            struct strbuf *out) {
        AUTO_TEXT_TABLE t;

        text_table_init(&t, phase_columns, ARRAY_LEN(phase_columns));
        for (size_t i = 0; i < results->n_items; i++) {
                const struct load_result *r = &results->items[i];

                if (r->steps == NULL)
                        continue;
                put_phases(r->value, m->name, &r->stats, report_network_ns(r), &t);
                for (size_t k = 0; k < m->n_steps; k++) {
                        AUTO_CHARS name = load_model_step_name(m, k);

                        if (!load_model_repeats_step(m, k))
                                put_phases(r->value, name, &r->steps[k], -1.0, &t);
                }
        }
        if (t.n_cells > ARRAY_LEN(phase_columns)) { /* more than the heads */
                strbuf_puts(out, "\nServer, mean of a request (REST: network and protocols):\n");
                text_table_print(&t, out);
        }
}

/* ---- what else is to be said ------------------------------------------------------------------- */

static void put_errors(const struct load_result *r, struct strbuf *out) {
        char kind[32];

        for (size_t i = 0; i < r->total->n_errors; i++)
                strbuf_printf(out, "load %g: %llu x %s: %s\n", r->value,
                              (unsigned long long)r->total->errors[i].n,
                              report_error_kind(&r->total->errors[i], kind, sizeof(kind)),
                              r->total->errors[i].text);
}

static void put_gauges(const struct load_result *r, struct strbuf *out) {
        MAP_FOR_EACH(&r->gauges.gauges, e) {
                const struct gauge_mean *m = e->value;

                strbuf_printf(out, "load %g: mean %s %g\n", r->value, e->key, m->mean);
        }
}

static void put_stability(const struct load_result *r, struct strbuf *out) {
        if (r->is_stable || r->is_counted || r->n_measured == 0)
                return;
        if (r->n_measured < LOAD_STABLE_WINDOWS)
                strbuf_printf(
                        out,
                        "load %g is not stable: it has %zu of the %d windows that must agree\n",
                        r->value, r->n_measured, LOAD_STABLE_WINDOWS);
        else
                strbuf_printf(
                        out,
                        "load %g is not stable: the last windows differ by %.1f %% in rate and "
                        "%.1f %% in latency\n",
                        r->value, r->rate_spread, r->latency_spread);
}

static void put_remarks(const struct load_result *r, const struct load_plan *plan,
                        struct strbuf *out) {
        const struct tally *t = r->total;
        double              from_send = (double)histogram_percentile(&t->service, 99.0);
        double              from_start = (double)histogram_percentile(&t->latency, 99.0);

        put_errors(r, out);
        put_gauges(r, out);
        if (t->latency.n == 0 && t->n_failed == 0 && !r->is_counted && r->n_measured > 0)
                strbuf_printf(out,
                              "load %g: no request was answered in a window of %llu ms; -p makes "
                              "windows longer\n",
                              r->value, (unsigned long long)plan->v->window_ms);
        if (r->n_unanswered > 0)
                strbuf_printf(out,
                              "load %g: %zu requests were dropped without an answer at the end of "
                              "the load; their latency is not in the figures\n",
                              r->value, r->n_unanswered);
        if (r->n_lost > 0)
                strbuf_printf(out,
                              "load %g: %zu of them were under way for more than twice the longest "
                              "latency: they count as lost\n",
                              r->value, r->n_lost);
        put_stability(r, out);
        if (r->is_generator_limit)
                strbuf_printf(
                        out,
                        "load %g: the generator was the limit (%.0f %% of a core, sends late by "
                        "%.0f us at p99); --threads gives it more\n",
                        r->value, r->cpu_share * 100.0,
                        (double)histogram_percentile(&t->lateness, 99.0) / 1e3);
        if (from_start > from_send * 1.1 + 1e5)
                strbuf_printf(
                        out,
                        "load %g: requests waited %sbefore they were sent; p99 from the send is "
                        "%.0f us, from the intended start %.0f us\n",
                        r->value, plan->is_open ? "" : "for a connection or a stream ",
                        from_send / 1e3, from_start / 1e3);
}

/* The summary has the form of the reference's, which scripts read. */
static void put_summary(const struct load_result *r, const struct load_plan *plan,
                        struct strbuf *out) {
        strbuf_printf(out, "%s: %g, throughput: %g infer/sec, latency %.0f usec\n",
                      plan->is_open ? "Request Rate" : "Concurrency", r->value,
                      load_result_rate(r, plan), load_result_latency(r->total, plan) / 1e3);
}

void bench_report_put(const struct load_results *results, const struct load_model *m,
                      const struct load_plan *plan, struct strbuf *out) {
        AUTO_TEXT_TABLE t;

        text_table_init(&t, columns, ARRAY_LEN(columns));
        for (size_t i = 0; i < results->n_items; i++)
                put_row(&results->items[i], m, plan, &t);
        text_table_print(&t, out);
        if (plan->v->is_language)
                put_response_table(results, out);
        if (plan->endpoint != LANGUAGE_NONE)
                put_token_table(results, load_plan_has_streams(plan), out);
        put_phase_table(results, m, out);
        strbuf_putc(out, '\n');
        for (size_t i = 0; i < results->n_items; i++)
                put_remarks(&results->items[i], plan, out);
        for (size_t i = 0; i < results->n_items; i++)
                if (results->items[i].total->latency.n > 0)
                        put_summary(&results->items[i], plan, out);
        if (results->has_found)
                strbuf_printf(out, "The highest load within %llu ms is %g.\n",
                              (unsigned long long)plan->v->latency_limit_ms, results->found);
        else if (plan->v->is_binary_search)
                strbuf_printf(out, "No load of the range is within %llu ms.\n",
                              (unsigned long long)plan->v->latency_limit_ms);
        if (results->is_interrupted)
                strbuf_puts(out, "Interrupted: the last load is not complete.\n");
}
