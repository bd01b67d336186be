/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/tune_report.h"

#include "base/mem.h"
#include "cli/text_table.h"
#include "codec/json_writer.h"
#include "tune/tune_config.h"

#include <stdlib.h>
#include <string.h>

static bool is_same(const struct tune_point *a, const struct tune_point *b) {
        return memcmp(a, b, sizeof(*a)) == 0;
}

/* ---- the table --------------------------------------------------------------------------------- */

static const struct text_column columns[] = {
        { "CONFIGURATION", TEXT_LEFT }, { "LOAD", TEXT_RIGHT },  { "INFER/S", TEXT_RIGHT },
        { "P50", TEXT_RIGHT },          { "P99", TEXT_RIGHT },   { "CPU", TEXT_RIGHT },
        { "RSS", TEXT_RIGHT },          { "REMARK", TEXT_LEFT },
};

static void put_remark(const struct tune_model *m, const struct tune_trial *trial,
                       struct text_table *t) {
        const struct tune_figures *f = &trial->figures;
        AUTO_STRBUF                text = { 0 };

        if (is_same(&trial->point, &m->best))
                strbuf_puts(&text, "best ");
        if (is_same(&trial->point, &m->present))
                strbuf_puts(&text, "present ");
        if (f->has_failed)
                strbuf_puts(&text, "failed");
        else if (!tune_search_is_within(&m->search, f))
                strbuf_puts(&text, "beyond the budget");
        else if (!f->is_whole)
                strbuf_puts(&text, "given up");
        text_table_put(t, str_trim(strbuf_str(&text)));
}

static void put_row(const struct tune_model *m, const struct tune_trial *trial,
                    struct text_table *t) {
        const struct tune_figures *f = &trial->figures;
        AUTO_STRBUF                text = { 0 };

        tune_space_print(&m->space, &trial->point, &text);
        text_table_put(t, strbuf_str(&text));
        text_table_printf(t, "%g", f->load);
        text_table_printf(t, "%.1f", f->rate);
        text_table_put_duration(t, f->p50_ns);
        text_table_put_duration(t, f->p99_ns);
        if (f->cpu >= 0.0)
                text_table_printf(t, "%.0f%%", f->cpu * 100.0);
        else
                text_table_put(t, STR_LIT(""));
        if (f->rss > 0)
                text_table_printf(t, "%.1f MiB", (double)f->rss / (1 << 20));
        else
                text_table_put(t, STR_LIT(""));
        put_remark(m, trial, t);
}

static void put_table(const struct tune_model *m, struct strbuf *out) {
        size_t         *ranks = mem_alloc((m->search.n_trials + 1) * sizeof(*ranks));
        AUTO_TEXT_TABLE t;

        tune_search_rank(&m->search, ranks);
        text_table_init(&t, columns, ARRAY_LEN(columns));
        for (size_t i = 0; i < m->search.n_trials; i++)
                put_row(m, &m->search.trials[ranks[i]], &t);
        strbuf_printf(out, "%s: %zu of %zu configurations\n", m->name, m->search.n_trials,
                      tune_space_count(&m->space));
        text_table_print(&t, out);
        strbuf_putc(out, '\n');
        free(ranks);
}

/* ---- the result -------------------------------------------------------------------------------- */

static void put_lines(const struct tune_model *m, struct strbuf *out) {
        if (is_same(&m->best, &m->present)) {
                strbuf_printf(out,
                              "%s: nothing that was tried is better than the present "
                              "configuration.\n\n",
                              m->name);
                return;
        }
        strbuf_printf(out, "%s: in config.pbtxt, in the place of the present settings:\n\n",
                      m->name);
        tune_config_put_lines(strbuf_str(&m->original), &m->space, &m->best, out);
        strbuf_putc(out, '\n');
}

static const char *objective_noun(enum tune_objective o) {
        switch (o) {
        case TUNE_RATE: return "rate";
        case TUNE_LATENCY: return "1/latency";
        case TUNE_RATE_PER_CPU: return "rate for a core";
        }
        return "";
}

static void put_gain(const struct tune_results *s, const struct tune_plan *plan,
                     struct strbuf *out) {
        const char *noun = objective_noun(plan->objective);

        if (!s->is_compared)
                return;
        strbuf_printf(out,
                      "Gain against the present configuration: %+.1f %% of its %s (%+.1f to %+.1f "
                      "%% in %zu pairs; load %g, before %g)\n",
                      s->gain.median * 100.0, noun, s->gain.least * 100.0, s->gain.most * 100.0,
                      s->n_pairs, s->best_load, s->present_load);
        if (tune_gain_is_noise(&s->gain))
                strbuf_puts(out, "Warning: the difference is within the noise of this machine; the "
                                 "present configuration may be as good.\n");
}

/* A machine with other work: early stops are rare, and small differences mean nothing. */
#define LOUD_NOISE 0.1

static void put_noise(const struct tune_results *s, struct strbuf *out) {
        for (size_t i = 0; i < s->n_models; i++)
                if (s->models[i].search.n_trials > 0 && s->models[i].search.noise > LOUD_NOISE) {
                        strbuf_printf(out,
                                      "Warning: the machine is not quiet: windows of one "
                                      "configuration differ by %.0f %%.\n",
                                      s->models[i].search.noise * 100.0);
                        return;
                }
}

static bool is_within_budget(const struct tune_results *s) {
        for (size_t i = 0; i < s->n_models; i++) {
                const struct tune_trial *best = tune_search_best(&s->models[i].search);

                if (best != NULL && !tune_search_is_within(&s->models[i].search, &best->figures))
                        return false;
        }
        return true;
}

void tune_report_put(const struct tune_results *s, const struct tune_plan *plan,
                     struct strbuf *out) {
        for (size_t i = 0; i < s->n_models; i++)
                if (s->models[i].search.n_trials > 0)
                        put_table(&s->models[i], out);
        if (s->is_interrupted)
                strbuf_puts(out, "Interrupted: the search is not complete.\n");
        for (size_t i = 0; i < s->n_models && !s->is_interrupted; i++)
                put_lines(&s->models[i], out);
        if (!is_within_budget(s))
                strbuf_printf(out,
                              "Warning: no configuration has a p%lld within %g ms under this load; "
                              "the lowest latency counts.\n",
                              (long long)plan->load.v->percentile, plan->budget_ns / 1e6);
        put_gain(s, plan, out);
        put_noise(s, out);
}

/* ---- JSON -------------------------------------------------------------------------------------- */

static void put_point(struct json_writer *w, const struct tune_model *m,
                      const struct tune_point *p) {
        AUTO_STRBUF text = { 0 }, config = { 0 };

        tune_space_print(&m->space, p, &text);
        json_member_string(w, "configuration", strbuf_cstr(&text));
        if (is_same(p, &m->present))
                strbuf_put(&config, m->original.ptr, m->original.len);
        else
                tune_config_put(strbuf_str(&m->original), &m->space, p, &config);
        json_member_raw(w, "config", strbuf_str(&config));
}

static void put_trial(struct json_writer *w, const struct tune_model *m,
                      const struct tune_trial *t) {
        const struct tune_figures *f = &t->figures;

        json_begin_object(w);
        put_point(w, m, &t->point);
        json_member_f64(w, "load", f->load);
        json_member_f64(w, "rate", f->rate);
        json_member_f64(w, "latency_us", f->latency_ns / 1e3);
        json_member_f64(w, "p50_us", f->p50_ns / 1e3);
        json_member_f64(w, "p99_us", f->p99_ns / 1e3);
        json_member_f64(w, "cpu", f->cpu);
        json_member_f64(w, "rss", (double)f->rss);
        json_member_bool(w, "is_within", tune_search_is_within(&m->search, f));
        json_member_bool(w, "is_whole", f->is_whole);
        json_end_object(w);
}

static void put_model(struct json_writer *w, const struct tune_model *m) {
        AUTO_STRBUF lines = { 0 };

        json_begin_object(w);
        json_member_string(w, "model", m->name);
        json_member_f64(w, "grid", (double)tune_space_count(&m->space));
        json_member_array(w, "tried");
        for (size_t i = 0; i < m->search.n_trials; i++)
                put_trial(w, m, &m->search.trials[i]);
        json_end_array(w);
        json_member_object(w, "best");
        put_point(w, m, &m->best);
        tune_config_put_lines(strbuf_str(&m->original), &m->space, &m->best, &lines);
        json_member_string(w, "lines", strbuf_cstr(&lines));
        json_member_bool(w, "is_present", is_same(&m->best, &m->present));
        json_end_object(w);
        json_end_object(w);
}

void tune_report_put_json(const struct tune_results *s, const struct tune_plan *plan,
                          struct strbuf *out) {
        struct json_writer w = { .out = out };

        json_begin_object(&w);
        json_member_f64(&w, "budget_ms", plan->budget_ns / 1e6);
        json_member_f64(&w, "seconds", s->seconds);
        json_member_f64(&w, "present_load", s->present_load);
        json_member_f64(&w, "best_load", s->best_load);
        json_member_bool(&w, "is_interrupted", s->is_interrupted);
        json_member_array(&w, "models");
        for (size_t i = 0; i < s->n_models; i++)
                put_model(&w, &s->models[i]);
        json_end_array(&w);
        if (s->is_compared) {
                json_member_object(&w, "gain");
                json_member_f64(&w, "median", s->gain.median);
                json_member_f64(&w, "least", s->gain.least);
                json_member_f64(&w, "most", s->gain.most);
                json_member_bool(&w, "is_noise", tune_gain_is_noise(&s->gain));
                json_end_object(&w);
        }
        json_end_object(&w);
        strbuf_putc(out, '\n');
}
