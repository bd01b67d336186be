/* SPDX-License-Identifier: BSD-3-Clause */
#include "load/report_csv.h"

#include "base/mem.h"

#include <stdlib.h>

struct report_phases report_phases(const struct server_stats *s) {
        uint64_t n = s->success.count;

        return (struct report_phases){ .queue = stats_mean(&s->queue, n),
                                       .input = stats_mean(&s->input, n),
                                       .infer = stats_mean(&s->infer, n),
                                       .output = stats_mean(&s->output, n),
                                       .hit = stats_mean(&s->hit, n),
                                       .miss = stats_mean(&s->miss, n) };
}

static double per_request(double sum, const struct tally *t) {
        return t->latency.n > 0 ? sum / (double)t->latency.n : 0.0;
}

double report_network_ns(const struct load_result *r) {
        struct report_phases p = report_phases(&r->stats);
        double               mean = histogram_mean(&r->total->service);
        double               known = per_request(r->total->send_ns + r->total->recv_ns, r->total) +
                       stats_mean(&r->stats.success, r->stats.success.count);

        if (r->stats.success.count == 0)
                known = per_request(r->total->send_ns + r->total->recv_ns, r->total) + p.queue +
                        p.input + p.infer + p.output;
        return mean > known ? mean - known : 0.0;
}

static int by_value(const void *a, const void *b) {
        const struct load_result *x = *(const struct load_result *const *)a;
        const struct load_result *y = *(const struct load_result *const *)b;

        return (x->value > y->value) - (x->value < y->value);
}

const struct load_result **report_sort(const struct load_results *s) {
        const struct load_result **items = mem_zalloc((s->n_items + 1) * sizeof(*items));

        for (size_t i = 0; i < s->n_items; i++)
                items[i] = &s->items[i];
        qsort(items, s->n_items, sizeof(*items), by_value);
        return items;
}

static void put_us(struct strbuf *out, double ns) {
        strbuf_printf(out, ",%.0f", ns / 1e3);
}

static void put_percentiles(const struct load_result *r, struct strbuf *out) {
        static const double percents[] = { 50.0, 90.0, 95.0, 99.0 };

        for (size_t i = 0; i < ARRAY_LEN(percents); i++)
                put_us(out, (double)histogram_percentile(&r->total->latency, percents[i]));
}

static void put_server(const struct server_stats *s, bool has_cache, struct strbuf *out) {
        struct report_phases p = report_phases(s);

        put_us(out, p.queue);
        put_us(out, p.input);
        put_us(out, p.infer);
        put_us(out, p.output);
        if (has_cache) {
                put_us(out, p.hit);
                put_us(out, p.miss);
        }
}

static void put_row(const struct load_result *r, const struct load_model *m,
                    const struct load_plan *plan, struct strbuf *out) {
        const struct tally *t = r->total;

        strbuf_printf(out, "%g,%g", r->value, load_result_rate(r, plan));
        if (m->is_decoupled)
                strbuf_printf(out, ",%g",
                              r->seconds > 0.0 ? (double)t->n_responses / r->seconds : 0.0);
        put_us(out, per_request(t->send_ns, t));
        put_us(out, report_network_ns(r));
        put_server(&r->stats, m->has_cache, out);
        put_us(out, per_request(t->recv_ns, t));
        put_percentiles(r, out);
        if (plan->v->percentile > 0 || plan->v->has_verbose_csv)
                put_us(out, histogram_mean(&t->latency));
        if (plan->v->has_verbose_csv) {
                put_us(out, per_request(t->send_ns + t->recv_ns, t));
                put_us(out, per_request(t->wait_ns, t));
        }
        strbuf_putc(out, '\n');
}

void report_csv_put(const struct load_results *results, const struct load_model *m,
                    const struct load_plan *plan, struct strbuf *out) {
        const struct load_result **items = report_sort(results);

        strbuf_printf(out,
                      "%s,Inferences/Second%s,Client Send,Network+Server Send/Recv,Server Queue,"
                      "Server Compute Input,Server Compute Infer,Server Compute Output%s,"
                      "Client Recv,p50 latency,p90 latency,p95 latency,p99 latency%s%s\n",
                      plan->is_open ? "Request Rate" : "Concurrency",
                      m->is_decoupled ? ",Response Throughput" : "",
                      m->has_cache ? ",Server Cache Hit,Server Cache Miss" : "",
                      plan->v->percentile > 0 || plan->v->has_verbose_csv ? ",Avg latency" : "",
                      plan->v->has_verbose_csv ? ",request/response,response wait" : "");
        for (size_t i = 0; i < results->n_items; i++)
                if (items[i]->total->latency.n > 0) /* else it has no latencies */
                        put_row(items[i], m, plan, out);
        free(items);
}

void report_csv_put_step(const struct load_results *results, size_t step,
                         const struct load_plan *plan, struct strbuf *out) {
        const struct load_result **items = report_sort(results);

        strbuf_printf(out,
                      "%s,Inferences/Second,Server Queue,Server Compute Input,"
                      "Server Compute Infer,Server Compute Output\n",
                      plan->is_open ? "Request Rate" : "Concurrency");
        for (size_t i = 0; i < results->n_items; i++) {
                const struct load_result *r = items[i];

                if (r->steps == NULL)
                        continue;
                strbuf_printf(out, "%g,%g", r->value,
                              r->seconds > 0.0 ? (double)r->steps[step].n_inferences / r->seconds
                                               : 0.0);
                put_server(&r->steps[step], false, out);
                strbuf_putc(out, '\n');
        }
        free(items);
}
