/* SPDX-License-Identifier: BSD-3-Clause */
#include "load/report_html.h"

#include "base/mem.h"
#include "load/report_csv.h"
#include "load/report_json.h"
#include "load/svg_plot.h"

#include <stdlib.h>

static const char head[] =
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width\">\n<title>neso bench</title>\n"
        "<style>\n"
        ":root { color-scheme: light dark; }\n"
        "body { font: 15px/1.4 system-ui, sans-serif; margin: 2em auto; max-width: 1180px; "
        "padding: 0 1em; }\n"
        "table { border-collapse: collapse; font-variant-numeric: tabular-nums; }\n"
        "th, td { padding: .2em .7em; text-align: right; border-bottom: 1px solid #8886; }\n"
        ".plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(480px, 1fr)); "
        "gap: 1em; margin-top: 1.5em; }\n"
        "svg { width: 100%; font-size: 11px; fill: currentColor; }\n"
        "svg .title { font-size: 13px; font-weight: bold; }\n"
        "svg .grid { stroke: #8884; }\n"
        "</style>\n</head>\n<body>\n";

static const char *load_noun(const struct load_plan *plan) {
        return plan->is_open ? "requests a second" : "requests under way";
}

/* ---- the table --------------------------------------------------------------------------------- */

/* Without an answer there is no latency. */
static void put_ms(struct strbuf *out, const struct histogram *h, double ns) {
        if (h->n > 0)
                strbuf_printf(out, "<td>%.3f</td>", ns / 1e6);
        else
                strbuf_puts(out, "<td>-</td>");
}

static void put_row(const struct load_result *r, const struct load_plan *plan, struct strbuf *out) {
        static const double     percents[] = { 50.0, 90.0, 95.0, 99.0, 99.9 };
        const struct histogram *h = &r->total->latency;

        strbuf_printf(out, "<tr><td>%g</td><td>%.1f</td>", r->value, load_result_rate(r, plan));
        put_ms(out, h, histogram_mean(h));
        for (size_t i = 0; i < ARRAY_LEN(percents); i++)
                put_ms(out, h, (double)histogram_percentile(h, percents[i]));
        put_ms(out, h, (double)h->max);
        strbuf_printf(out, "<td>%llu</td><td>%s</td></tr>\n",
                      (unsigned long long)r->total->n_failed,
                      r->is_stable    ? "yes"
                      : r->is_counted ? ""
                                      : "no");
}

static void put_table(const struct load_results *results, const struct load_plan *plan,
                      struct strbuf *out) {
        strbuf_printf(out,
                      "<table>\n<tr><th>%s</th><th>inferences/s</th><th>mean, ms</th>"
                      "<th>p50</th><th>p90</th><th>p95</th><th>p99</th><th>p99.9</th>"
                      "<th>max</th><th>errors</th><th>stable</th></tr>\n",
                      load_noun(plan));
        for (size_t i = 0; i < results->n_items; i++)
                put_row(&results->items[i], plan, out);
        strbuf_puts(out, "</table>\n");
}

static void put_errors(const struct load_results *results, struct strbuf *out) {
        char kind[32];

        for (size_t i = 0; i < results->n_items; i++)
                for (size_t k = 0; k < results->items[i].total->n_errors; k++) {
                        const struct tally_error *e = &results->items[i].total->errors[k];

                        strbuf_printf(out, "<p>load %g: %llu x %s: ", results->items[i].value,
                                      (unsigned long long)e->n,
                                      report_error_kind(e, kind, sizeof(kind)));
                        svg_put_text(out, e->text);
                        strbuf_puts(out, "</p>\n");
                }
}

/* ---- plots over the load ----------------------------------------------------------------------- */

/* Columns of n values. */
struct columns {
        double *values; /* owned */
        size_t  n;
};

static struct columns columns_new(size_t n_columns, size_t n) {
        return (struct columns){ mem_zalloc((n_columns * n + 1) * sizeof(double)), n };
}

static double *column(const struct columns *c, size_t k) {
        return c->values + k * c->n;
}

static const struct {
        const char *name;
        double      percent;
} percentiles[] = { { "p50", 50.0 }, { "p90", 90.0 }, { "p95", 95.0 }, { "p99", 99.0 } };

static void put_latencies(const struct load_result *const *items, size_t n,
                          const struct load_plan *plan, struct strbuf *out) {
        struct columns    c = columns_new(1 + ARRAY_LEN(percentiles), n);
        struct svg_series series[ARRAY_LEN(percentiles)];

        for (size_t i = 0; i < n; i++) {
                column(&c, 0)[i] = items[i]->value;
                for (size_t k = 0; k < ARRAY_LEN(percentiles); k++)
                        column(&c, 1 + k)[i] =
                                (double)histogram_percentile(&items[i]->total->latency,
                                                             percentiles[k].percent) /
                                1e6;
        }
        for (size_t k = 0; k < ARRAY_LEN(percentiles); k++)
                series[k] = (struct svg_series){ percentiles[k].name, column(&c, 0),
                                                 column(&c, 1 + k), n };
        svg_plot_put_lines(&(struct svg_plot){ "Latency over the load", load_noun(plan), "ms",
                                               series, ARRAY_LEN(series) },
                           out);
        free(c.values);
}

static void put_rates(const struct load_result *const *items, size_t n,
                      const struct load_plan *plan, struct strbuf *out) {
        struct columns    c = columns_new(2, n);
        struct svg_series series = { "inferences/s", column(&c, 0), column(&c, 1), n };

        for (size_t i = 0; i < n; i++) {
                column(&c, 0)[i] = items[i]->value;
                column(&c, 1)[i] = load_result_rate(items[i], plan);
        }
        svg_plot_put_lines(&(struct svg_plot){ "Rate over the load", load_noun(plan),
                                               "inferences a second", &series, 1 },
                           out);
        free(c.values);
}

static void put_phases(const struct load_result *const *items, size_t n,
                       const struct load_plan *plan, struct strbuf *out) {
        static const char *const names[] = { "queue", "input", "infer", "output", "rest" };
        struct columns           c = columns_new(1 + ARRAY_LEN(names), n);
        struct svg_series        series[ARRAY_LEN(names)];

        for (size_t i = 0; i < n; i++) {
                struct report_phases p = report_phases(&items[i]->stats);
                const double         values[] = { p.queue, p.input, p.infer, p.output,
                                                  report_network_ns(items[i]) };

                column(&c, 0)[i] = items[i]->value;
                for (size_t k = 0; k < ARRAY_LEN(names); k++)
                        column(&c, 1 + k)[i] = values[k] / 1e6;
        }
        for (size_t k = 0; k < ARRAY_LEN(names); k++)
                series[k] = (struct svg_series){ names[k], column(&c, 0), column(&c, 1 + k), n };
        svg_plot_put_bars(
                &(struct svg_plot){ "Phases of a request, mean (rest: network, protocols)",
                                    load_noun(plan), "ms", series, ARRAY_LEN(series) },
                out);
        free(c.values);
}

/* ---- over time --------------------------------------------------------------------------------- */

static void put_over_time(const struct load_results *results, struct strbuf *out) {
        size_t            n = 0, at = 0;
        struct columns    c;
        struct svg_series series[2];

        for (size_t i = 0; i < results->n_items; i++)
                n += results->items[i].n_points;
        c = columns_new(3, n);
        for (size_t i = 0; i < results->n_items; i++)
                for (size_t k = 0; k < results->items[i].n_points; k++, at++) {
                        const struct load_point *p = &results->items[i].points[k];

                        column(&c, 0)[at] = p->at_s;
                        column(&c, 1)[at] = p->p50_ns / 1e6;
                        column(&c, 2)[at] = p->p99_ns / 1e6;
                }
        series[0] = (struct svg_series){ "p50", column(&c, 0), column(&c, 1), n };
        series[1] = (struct svg_series){ "p99", column(&c, 0), column(&c, 2), n };
        svg_plot_put_lines(&(struct svg_plot){ "Latency of each window over time",
                                               "seconds since the start", "ms", series, 2 },
                           out);
        free(c.values);
}

void report_html_put(const struct load_results *results, const struct load_model *m,
                     const struct load_plan *plan, const struct target *t, struct strbuf *out) {
        const struct load_result **items = report_sort(results);
        size_t                     n = 0;

        for (size_t i = 0; i < results->n_items; i++)
                if (items[i]->total->latency.n > 0)
                        items[n++] = items[i];
        strbuf_puts(out, head);
        strbuf_puts(out, "<h1>Model ");
        svg_put_text(out, m->name);
        strbuf_puts(out, "</h1>\n<p>Version ");
        svg_put_text(out, m->found_version);
        strbuf_puts(out, " at ");
        svg_put_text(out, t->authority);
        strbuf_printf(out, ", batches of %llu; neso %s</p>\n", (unsigned long long)plan->v->batch,
                      NESO_VERSION);
        put_table(results, plan, out);
        put_errors(results, out);
        strbuf_puts(out, "<div class=\"plots\">\n");
        put_latencies(items, n, plan, out);
        put_rates(items, n, plan, out);
        put_phases(items, n, plan, out);
        put_over_time(results, out);
        strbuf_puts(out, "</div>\n</body>\n</html>\n");
        free(items);
}
