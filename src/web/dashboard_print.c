/* SPDX-License-Identifier: BSD-3-Clause */
/* The answers of the dashboard as JSON. */
#include "base/byte_budget.h"
#include "base/clock.h"
#include "codec/json_writer.h"
#include "core_api/core_error.h"
#include "web/dashboard_private.h"

static void put_ports(struct json_writer *w, struct dashboard *d) {
        static const char *const names[] = {
                [DASHBOARD_HTTP] = "http",
                [DASHBOARD_GRPC] = "grpc",
                [DASHBOARD_METRICS] = "metrics",
        };
        struct dashboard_port_state ports[N_DASHBOARD_PORTS];

        dashboard_read_ports_locked(d, ports);
        json_member_array(w, "ports");
        for (size_t i = 0; i < N_DASHBOARD_PORTS; i++) {
                if (ports[i].n_loops == 0)
                        continue;
                json_begin_array(w);
                json_put_string(w, names[i]);
                json_put_u64(w, ports[i].n_connections);
                json_put_u64(w, ports[i].n_loops);
                json_end_array(w);
        }
        json_end_array(w);
}

static void put_server(struct json_writer *w, struct dashboard *d) {
        const struct byte_budget *budget = d->options.budget;

        json_member_object(w, "server");
        json_member_u64(w, "now_ms", clock_wall_ns() / NS_PER_MS);
        json_member_u64(w, "uptime_ms", (d->options.now_ns() - d->start_ns) / NS_PER_MS);
        json_member_u64(w, "cpu_us", dashboard_cpu_us());
        json_member_u64(w, "rss_bytes", dashboard_rss_bytes());
        json_member_u64(w, "budget_used", budget != NULL ? byte_budget_used(budget) : 0);
        json_member_u64(w, "budget_max", budget != NULL ? budget->max : 0);
        put_ports(w, d);
        json_end_object(w);
}

/* ---- models ---- */

static bool is_seen(const struct dashboard_question *q, const struct shown_model *m) {
        return q->sees == NULL || q->sees(q->owner, str_of(m->name));
}

static void put_model(struct json_writer *w, const struct shown_model *m) {
        json_begin_array(w);
        json_put_u64(w, m->id);
        json_put_string(w, m->name);
        json_put_string(w, m->version);
        json_put_string(w, m->state);
        json_put_string(w, m->reason);
        json_end_array(w);
}

static void put_row(struct json_writer *w, const struct shown_model *m) {
        json_begin_array(w);
        json_put_u64(w, m->id);
        for (size_t i = 0; i < N_DASHBOARD_NUMBERS; i++)
                json_put_u64(w, m->row[i]);
        json_end_array(w);
}

static void put_models(struct json_writer *w, struct dashboard *d,
                       const struct dashboard_question *q, uint64_t since) {
        json_member_array(w, "models");
        for (size_t i = 0; i < d->n_models; i++) {
                const struct shown_model *m = d->models[i];

                if (m->gone_seq == 0 && m->state_seq > since && is_seen(q, m))
                        put_model(w, m);
        }
        json_end_array(w);
}

static void put_gone(struct json_writer *w, struct dashboard *d, const struct dashboard_question *q,
                     uint64_t since) {
        json_member_array(w, "gone");
        for (size_t i = 0; i < d->n_models; i++) {
                const struct shown_model *m = d->models[i];

                if (since > 0 && m->gone_seq > since && is_seen(q, m))
                        json_put_u64(w, m->id);
        }
        json_end_array(w);
}

static void put_rows(struct json_writer *w, struct dashboard *d, const struct dashboard_question *q,
                     uint64_t since) {
        json_member_array(w, "rows");
        for (size_t i = 0; i < d->n_models; i++) {
                const struct shown_model *m = d->models[i];

                if (m->gone_seq == 0 && m->row_seq > since && is_seen(q, m))
                        put_row(w, m);
        }
        json_end_array(w);
}

/* ---- the log ---- */

static void put_line(const struct NESO_LogRecentLine *line, void *userp) {
        struct json_writer *w = userp;
        AUTO_STRBUF         place = { 0 };

        strbuf_printf(&place, "%s:%u", line->file, line->line);
        json_begin_array(w);
        json_put_u64(w, line->number);
        json_put_u64(w, line->wall_ms);
        json_put_string(w, line->level == TRITONSERVER_LOG_ERROR ? "error" : "warning");
        json_put_str(w, strbuf_str(&place));
        json_put_str(w, str_of(line->message));
        json_end_array(w);
}

static struct error *put_log(struct json_writer *w, uint64_t since) {
        struct error *err;

        json_member_array(w, "log");
        err = core_error_take(NESO_LogRecent(since, put_line, w));
        json_end_array(w);
        return err;
}

/* ---- answers ---- */

static void put_reading(struct json_writer *w, struct dashboard *d,
                        const struct dashboard_question *q) {
        bool     is_full = q->since == 0 || q->since > d->seq || q->since < d->forget_seq;
        uint64_t since = is_full ? 0 : q->since;

        json_member_u64(w, "boot", d->boot_ms);
        json_member_u64(w, "seq", d->seq);
        json_member_bool(w, "full", is_full);
        json_member_u64(w, "window_ms", d->window_ns / NS_PER_MS);
        json_member_u64(w, "period_s", SAMPLE_PERIOD_S);
        put_server(w, d);
        put_models(w, d, q, since);
        put_gone(w, d, q, since);
        put_rows(w, d, q, since);
}

struct error *dashboard_print(struct dashboard *d, const struct dashboard_question *q,
                              struct strbuf *out) {
        struct json_writer w = { .out = out };
        struct error      *err;

        json_begin_object(&w);
        mutex_lock(&d->lock);
        err = dashboard_refresh_locked(d);
        if (err == NULL)
                put_reading(&w, d, q);
        mutex_unlock(&d->lock);
        if (err == NULL && q->with_log)
                err = put_log(&w, q->log_since);
        json_end_object(&w);
        return err != NULL ? err : strbuf_check(out, "the answer");
}

static void put_sample(struct json_writer *w, const uint32_t *sample, size_t n) {
        if (sample == NULL) {
                json_put_u64(w, 0);
                return;
        }
        json_begin_array(w);
        for (size_t i = 0; i < n; i++)
                json_put_u64(w, sample[i]);
        json_end_array(w);
}

static void put_history(struct json_writer *w, const struct dashboard *d,
                        const struct sample_ring *ring, size_t n_numbers) {
        uint32_t n = d->period < SAMPLE_RING_LENGTH ? d->period : SAMPLE_RING_LENGTH;
        uint64_t age_ms = (d->options.now_ns() - d->sample_ns) / NS_PER_MS;

        json_begin_object(w);
        json_member_u64(w, "period_s", SAMPLE_PERIOD_S);
        json_member_u64(w, "end_ms", clock_wall_ns() / NS_PER_MS - age_ms);
        json_member_array(w, "samples");
        for (uint32_t period = d->period - n + 1; period <= d->period && n > 0; period++)
                put_sample(w, ring != NULL ? sample_ring_get(ring, period) : NULL, n_numbers);
        json_end_array(w);
        json_end_object(w);
}

struct error *dashboard_print_history(struct dashboard *d, struct str model, struct str version,
                                      struct strbuf *out) {
        const struct shown_model *m;
        struct json_writer        w = { .out = out };

        MUTEX_GUARD(&d->lock);
        if (model.len == 0) {
                put_history(&w, d, d->server_history, N_SERVER_SAMPLE);
                return strbuf_check(out, "the answer");
        }
        m = dashboard_find_locked(d, model, version);
        if (m == NULL)
                return error_new(ERR_NOT_FOUND, "the dashboard knows no version '%.*s' of '%.*s'",
                                 STR_ARG(version), STR_ARG(model));
        put_history(&w, d, m->history, N_DASHBOARD_SAMPLE);
        return strbuf_check(out, "the answer");
}
