/* SPDX-License-Identifier: BSD-3-Clause */
#include "load/report_json.h"

#include "base/mem.h"
#include "codec/json_writer.h"
#include "load/report_csv.h"

#include <math.h>
#include <stdio.h>

/* ---- the times of each request ----------------------------------------------------------------- */

static void put_request(struct json_writer *w, const struct load_model *m, const uint64_t *record) {
        json_begin_object(w);
        json_member_u64(w, "timestamp", record[0]);
        if (m->is_sequence)
                json_member_u64(w, "sequence_id", record[1]);
        json_member_array(w, "response_timestamps");
        for (uint64_t i = 0; i < record[2]; i++)
                json_put_u64(w, record[3 + i]);
        json_end_array(w);
        json_end_object(w);
}

static void put_experiment(struct json_writer *w, const struct load_result *r,
                           const struct load_model *m, const struct load_plan *plan) {
        json_begin_object(w);
        json_member_object(w, "experiment");
        json_member_string(w, "mode", plan->is_open ? "request_rate" : "concurrency");
        json_member_f64(w, "value", r->value);
        json_end_object(w);
        json_member_array(w, "requests");
        for (size_t i = 0; i < r->n_windows; i++)
                for (size_t at = 0; at + 3 <= r->logs[i]->n_log; at += 3 + r->logs[i]->log[at + 2])
                        put_request(w, m, r->logs[i]->log + at);
        json_end_array(w);
        json_member_array(w, "window_boundaries");
        for (size_t i = 0; r->n_windows > 0 && i <= r->n_windows; i++)
                json_put_u64(w, r->boundaries[i]);
        json_end_array(w);
        json_end_object(w);
}

void report_json_put_requests(const struct load_results *results, const struct load_model *m,
                              const struct load_plan *plan, const struct target *t,
                              struct strbuf *out) {
        struct json_writer w = { .out = out };

        json_begin_object(&w);
        json_member_array(&w, "experiments");
        for (size_t i = 0; i < results->n_items; i++)
                put_experiment(&w, &results->items[i], m, plan);
        json_end_array(&w);
        json_member_string(&w, "version", NESO_VERSION);
        json_member_string(&w, "service_kind", "triton");
        json_member_string(&w, "endpoint", t->authority);
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

        json_member_object(w, key);
        json_member_u64(w, "n", h->n);
        json_member_f64(w, "mean", histogram_mean(h) / 1e3);
        json_member_f64(w, "deviation", histogram_deviation(h) / 1e3);
        json_member_f64(w, "min", (double)h->min / 1e3);
        for (size_t i = 0; i < ARRAY_LEN(percentiles); i++)
                json_member_f64(w, percentiles[i].key,
                                (double)histogram_percentile(h, percentiles[i].percent) / 1e3);
        json_member_f64(w, "max", (double)h->max / 1e3);
        json_end_object(w);
}

const char *report_error_kind(const struct tally_error *e, char *room, size_t room_bytes) {
        if (e->kind == ANSWER_BROKEN)
                return "no answer";
        if (e->code == TALLY_VARIOUS)
                return "various";
        if (e->code == 0)
                return "wrong output";
        snprintf(room, room_bytes, "status %d", e->code);
        return room;
}

static void put_errors(struct json_writer *w, const struct tally *t) {
        char kind[32];

        json_member_array(w, "errors");
        for (size_t i = 0; i < t->n_errors; i++) {
                json_begin_object(w);
                json_member_string(w, "kind", report_error_kind(&t->errors[i], kind, sizeof(kind)));
                json_member_string(w, "text", t->errors[i].text);
                json_member_u64(w, "n", t->errors[i].n);
                json_end_object(w);
        }
        json_end_array(w);
}

static void put_server(struct json_writer *w, const char *key, const struct server_stats *s) {
        struct report_phases p = report_phases(s);

        json_member_object(w, key);
        json_member_u64(w, "inferences", s->n_inferences);
        json_member_u64(w, "executions", s->n_executions);
        json_member_f64(w, "queue", p.queue / 1e3);
        json_member_f64(w, "compute_input", p.input / 1e3);
        json_member_f64(w, "compute_infer", p.infer / 1e3);
        json_member_f64(w, "compute_output", p.output / 1e3);
        json_end_object(w);
}

static void put_steps(struct json_writer *w, const struct load_result *r,
                      const struct load_model *m) {
        json_member_object(w, "steps_us");
        for (size_t i = 0; r->steps != NULL && i < m->n_steps; i++) {
                AUTO_CHARS name = load_model_step_name(m, i);

                if (!load_model_repeats_step(m, i))
                        put_server(w, name, &r->steps[i]);
        }
        json_end_object(w);
}

static void put_gauges(struct json_writer *w, const struct gauge_means *g) {
        json_member_object(w, "metrics");
        MAP_FOR_EACH(&g->gauges, e) {
                const struct gauge_mean *m = e->value;

                json_member_f64(w, e->key, m->mean);
        }
        json_end_object(w);
}

static double per_second(double n, const struct load_result *r) {
        return r->seconds > 0.0 ? n / r->seconds : 0.0;
}

static void put_language(struct json_writer *w, const struct load_result *r,
                         const struct load_plan *plan) {
        const struct tally *t = r->total;

        json_member_object(w, "language");
        json_member_string(w, "endpoint", language_endpoint_name(plan->endpoint));
        json_member_u64(w, "prompt_tokens", t->n_prompt_tokens);
        json_member_u64(w, "output_tokens", t->n_output_tokens);
        json_member_u64(w, "requests_counted_by_server", t->n_counted);
        json_member_f64(w, "prompt_tokens_rate", per_second((double)t->n_prompt_tokens, r));
        json_member_f64(w, "output_tokens_rate", per_second((double)t->n_output_tokens, r));
        if (load_plan_has_streams(plan)) {
                put_times(w, "first_token_us", &t->first);
                put_times(w, "between_tokens_us", &t->pace);
                put_times(w, "between_chunks_us", &t->between);
        }
        json_end_object(w);
}

/* JSON has no infinity, which is the distance from a window without answers. */
static void put_spread(struct json_writer *w, const char *key, double percent) {
        if (isfinite(percent))
                json_member_f64(w, key, percent);
        else
                json_member_raw(w, key, STR_LIT("null"));
}

static void put_load(struct json_writer *w, const struct load_result *r, const struct load_model *m,
                     const struct load_plan *plan) {
        const struct tally *t = r->total;

        json_begin_object(w);
        json_member_string(w, "mode", plan->is_open ? "request_rate" : "concurrency");
        json_member_f64(w, "value", r->value);
        json_member_f64(w, "seconds", r->seconds);
        json_member_f64(w, "rate", load_result_rate(r, plan));
        json_member_u64(w, "requests", t->latency.n);
        json_member_u64(w, "responses", t->n_responses);
        json_member_u64(w, "failed", t->n_failed);
        json_member_u64(w, "unanswered", r->n_unanswered);
        json_member_u64(w, "lost", r->n_lost);
        put_times(w, "latency_us", &t->latency);
        put_times(w, "from_send_us", &t->service);
        if (plan->is_open)
                put_times(w, "lateness_us", &t->lateness);
        if (plan->v->is_streaming || plan->v->is_language) {
                put_times(w, "first_response_us", &t->first);
                put_times(w, "between_responses_us", &t->between);
                json_member_f64(w, "responses_rate", per_second((double)t->n_responses, r));
        }
        if (plan->endpoint != LANGUAGE_NONE)
                put_language(w, r, plan);
        put_errors(w, t);
        if (r->has_stats)
                put_server(w, "server_us", &r->stats);
        put_steps(w, r, m);
        if (plan->v->collects_metrics)
                put_gauges(w, &r->gauges);
        json_member_bool(w, "is_stable", r->is_stable);
        put_spread(w, "rate_spread_percent", r->rate_spread);
        put_spread(w, "latency_spread_percent", r->latency_spread);
        json_member_f64(w, "generator_cpu", r->cpu_share);
        json_member_f64(w, "server_cpu", r->server_cpu);
        json_member_bool(w, "is_generator_limit", r->is_generator_limit);
        json_end_object(w);
}

void report_json_put(const struct load_results *results, const struct load_model *m,
                     const struct load_plan *plan, const struct target *t, struct strbuf *out) {
        struct json_writer w = { .out = out };

        json_begin_object(&w);
        json_member_string(&w, "model", m->name);
        json_member_string(&w, "version", m->found_version);
        json_member_string(&w, "endpoint", t->authority);
        json_member_u64(&w, "batch", plan->v->batch);
        json_member_array(&w, "loads");
        for (size_t i = 0; i < results->n_items; i++)
                put_load(&w, &results->items[i], m, plan);
        json_end_array(&w);
        if (results->has_found)
                json_member_f64(&w, "found", results->found);
        json_member_bool(&w, "is_interrupted", results->is_interrupted);
        json_end_object(&w);
        strbuf_putc(out, '\n');
}
