/* SPDX-License-Identifier: BSD-3-Clause */
#include "load/report_json.h"

#include "codec/json_writer.h"
#include "load/report_csv.h"

#include <stdio.h>

static void put_text(struct json_writer *w, const char *key, const char *text) {
        json_key(w, key);
        json_put_string(w, text);
}

static void put_count(struct json_writer *w, const char *key, uint64_t n) {
        json_key(w, key);
        json_put_u64(w, n);
}

static void put_real(struct json_writer *w, const char *key, double value) {
        json_key(w, key);
        json_put_f64(w, value);
}

/* ---- the times of each request ----------------------------------------------------------------- */

static void put_request(struct json_writer *w, const struct load_model *m, const uint64_t *record) {
        json_begin_object(w);
        put_count(w, "timestamp", record[0]);
        if (m->is_sequence)
                put_count(w, "sequence_id", record[1]);
        json_key(w, "response_timestamps");
        json_begin_array(w);
        for (uint64_t i = 0; i < record[2]; i++)
                json_put_u64(w, record[3 + i]);
        json_end_array(w);
        json_end_object(w);
}

static void put_experiment(struct json_writer *w, const struct load_result *r,
                           const struct load_model *m, const struct load_plan *plan) {
        json_begin_object(w);
        json_key(w, "experiment");
        json_begin_object(w);
        put_text(w, "mode", plan->is_open ? "request_rate" : "concurrency");
        put_real(w, "value", r->value);
        json_end_object(w);
        json_key(w, "requests");
        json_begin_array(w);
        for (size_t i = 0; i < r->n_windows; i++)
                for (size_t at = 0; at + 3 <= r->logs[i]->n_log; at += 3 + r->logs[i]->log[at + 2])
                        put_request(w, m, r->logs[i]->log + at);
        json_end_array(w);
        json_key(w, "window_boundaries");
        json_begin_array(w);
        for (size_t i = 0; r->n_windows > 0 && i <= r->n_windows; i++)
                json_put_u64(w, r->boundaries[i]);
        json_end_array(w);
        json_end_object(w);
}

void report_json_put_requests(const struct load_results *results, const struct load_model *m,
                              const struct load_plan *plan, const struct target *t,
                              struct strbuf *out) {
        struct json_writer w;

        json_writer_init(&w, out);
        json_begin_object(&w);
        json_key(&w, "experiments");
        json_begin_array(&w);
        for (size_t i = 0; i < results->n_items; i++)
                put_experiment(&w, &results->items[i], m, plan);
        json_end_array(&w);
        put_text(&w, "version", NESO_VERSION);
        put_text(&w, "service_kind", "triton");
        put_text(&w, "endpoint", t->authority);
        json_end_object(&w);
        strbuf_putc(out, '\n');
}

/* ---- the figures of each load ------------------------------------------------------------------ */

static void put_times(struct json_writer *w, const char *key, const struct histogram *h) {
        static const struct {
                const char *key;
                double      percent;
        } percentiles[] = { { "p50", 50.0 },
                            { "p90", 90.0 },
                            { "p95", 95.0 },
                            { "p99", 99.0 },
                            { "p99.9", 99.9 } };

        json_key(w, key);
        json_begin_object(w);
        put_count(w, "n", h->n);
        put_real(w, "mean", histogram_mean(h) / 1e3);
        put_real(w, "deviation", histogram_deviation(h) / 1e3);
        put_real(w, "min", (double)h->min / 1e3);
        for (size_t i = 0; i < ARRAY_LEN(percentiles); i++)
                put_real(w, percentiles[i].key,
                         (double)histogram_percentile(h, percentiles[i].percent) / 1e3);
        put_real(w, "max", (double)h->max / 1e3);
        json_end_object(w);
}

const char *report_error_kind(const struct tally_error *e, char *room, size_t room_bytes) {
        if (e->kind == ANSWER_BROKEN)
                return "no answer";
        if (e->code == 0)
                return "wrong output";
        snprintf(room, room_bytes, "status %d", e->code);
        return room;
}

static void put_errors(struct json_writer *w, const struct tally *t) {
        char kind[32];

        json_key(w, "errors");
        json_begin_array(w);
        for (size_t i = 0; i < t->n_errors; i++) {
                json_begin_object(w);
                put_text(w, "kind", report_error_kind(&t->errors[i], kind, sizeof(kind)));
                put_text(w, "text", t->errors[i].text);
                put_count(w, "n", t->errors[i].n);
                json_end_object(w);
        }
        json_end_array(w);
}

static void put_server(struct json_writer *w, const char *key, const struct server_stats *s) {
        struct report_phases p = report_phases(s);

        json_key(w, key);
        json_begin_object(w);
        put_count(w, "inferences", s->n_inferences);
        put_count(w, "executions", s->n_executions);
        put_real(w, "queue", p.queue / 1e3);
        put_real(w, "compute_input", p.input / 1e3);
        put_real(w, "compute_infer", p.infer / 1e3);
        put_real(w, "compute_output", p.output / 1e3);
        json_end_object(w);
}

static void put_gauges(struct json_writer *w, const struct gauge_means *g) {
        const struct map_entry *e;
        size_t                  at = 0;

        json_key(w, "metrics");
        json_begin_object(w);
        while ((e = map_next(&g->gauges, &at)) != NULL) {
                const struct gauge_mean *m = e->value;

                put_real(w, e->key, m->sum / (double)m->n);
        }
        json_end_object(w);
}

static void put_load(struct json_writer *w, const struct load_result *r, const struct load_model *m,
                     const struct load_plan *plan) {
        const struct tally *t = r->total;

        json_begin_object(w);
        put_text(w, "mode", plan->is_open ? "request_rate" : "concurrency");
        put_real(w, "value", r->value);
        put_real(w, "seconds", r->seconds);
        put_real(w, "rate", load_result_rate(r, plan));
        put_count(w, "requests", t->latency.n);
        put_count(w, "responses", t->n_responses);
        put_count(w, "failed", t->n_failed);
        put_times(w, "latency_us", &t->latency);
        if (plan->is_open) {
                put_times(w, "from_send_us", &t->service);
                put_times(w, "lateness_us", &t->lateness);
        }
        if (plan->v->is_streaming || plan->v->is_language) {
                put_times(w, "first_response_us", &t->first);
                put_times(w, "between_responses_us", &t->between);
                put_real(w, "responses_rate",
                         r->seconds > 0.0 ? (double)t->n_responses / r->seconds : 0.0);
        }
        put_errors(w, t);
        put_server(w, "server_us", &r->stats);
        json_key(w, "steps_us");
        json_begin_object(w);
        for (size_t i = 0; r->steps != NULL && i < m->n_steps; i++)
                put_server(w, m->steps[i].model, &r->steps[i]);
        json_end_object(w);
        if (plan->v->collects_metrics)
                put_gauges(w, &r->gauges);
        json_key(w, "is_stable");
        json_put_bool(w, r->is_stable);
        put_real(w, "rate_spread_percent", r->rate_spread);
        put_real(w, "latency_spread_percent", r->latency_spread);
        put_real(w, "generator_cpu", r->cpu_share);
        put_real(w, "server_cpu", r->server_cpu);
        json_key(w, "is_generator_limit");
        json_put_bool(w, r->is_generator_limit);
        json_end_object(w);
}

void report_json_put(const struct load_results *results, const struct load_model *m,
                     const struct load_plan *plan, const struct target *t, struct strbuf *out) {
        struct json_writer w;

        json_writer_init(&w, out);
        json_begin_object(&w);
        put_text(&w, "model", m->name);
        put_text(&w, "version", m->found_version);
        put_text(&w, "endpoint", t->authority);
        put_count(&w, "batch", plan->v->batch);
        json_key(&w, "loads");
        json_begin_array(&w);
        for (size_t i = 0; i < results->n_items; i++)
                put_load(&w, &results->items[i], m, plan);
        json_end_array(&w);
        if (results->has_found)
                put_real(&w, "found", results->found);
        json_key(&w, "is_interrupted");
        json_put_bool(&w, results->is_interrupted);
        json_end_object(&w);
        strbuf_putc(out, '\n');
}
