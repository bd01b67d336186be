/* SPDX-License-Identifier: BSD-3-Clause */
#include "tune/tune_run.h"

#include "base/clock.h"
#include "base/mem.h"
#include "load/control.h"
#include "load/load_run.h"
#include "load/plain_text.h"
#include "load/waiter.h"
#include "net/loop.h"
#include "tune/tune_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A load of a large model takes minutes. */
#define CONTROL_NS (600 * NS_PER_S)
#define MAX_MODELS 64
#define MAX_DEPTH 8
#define MAX_SOUGHT_LOAD 64
#define MAX_LOAD 256
/* Loads 1, 2, ... up to MAX_SOUGHT_LOAD; once more the load that was found, 2, 4, ... up to MAX_LOAD. */
#define SEEK_LOOKS 7
#define RAISE_LOOKS 9
/* A part of the budget. A load whose latency stays below it leaves other configurations some room. */
#define BUDGET_SHARE 0.8
/* Delays beyond this part of the budget cannot be within it under most loads. */
#define DELAY_SHARE 0.5
#define LOAD_SECONDS 0.3 /* of a load request, for the announcement */

struct tune_run {
        const struct tune_plan *plan; /* borrowed */
        struct waiter           waiter;
        struct target           target;
        bool                    has_target;
        struct loop_group      *loops; /* owned */
        struct channel_shard    shard;
        struct control         *control;
        struct tune_results     results;
        double                  load;
};

/* ---- the server -------------------------------------------------------------------------------- */

static bool is_interrupted(struct tune_run *r) {
        if (!r->results.is_interrupted)
                waiter_wait(&r->waiter, 0);
        r->results.is_interrupted = r->results.is_interrupted || r->waiter.is_interrupted;
        return r->results.is_interrupted;
}

static struct error *read_config(struct tune_run *r, const char *model, struct strbuf *ret) {
        struct control_subject subject = { .model = model };

        return control_ask(r->control, CONTROL_CONFIG, &subject, ret);
}

static struct error *load_config(struct tune_run *r, struct tune_model *m, struct str config) {
        struct control_subject subject = { .model = m->name, .config = config };
        AUTO_STRBUF            ignored = { 0 };

        return error_wrap(control_ask(r->control, CONTROL_LOAD, &subject, &ignored), "model '%s'",
                          m->name);
}

/* The present point is the configuration that was there, which may have more than a point says. */
static struct error *apply(struct tune_run *r, struct tune_model *m, const struct tune_point *p) {
        AUTO_STRBUF config = { 0 };

        m->is_changed = true;
        if (memcmp(p, &m->present, sizeof(*p)) == 0)
                return load_config(r, m, strbuf_str(&m->original));
        tune_config_put(strbuf_str(&m->original), &m->space, p, &config);
        return load_config(r, m, strbuf_str(&config));
}

/* Loads the configuration that is there already, so that a refusal comes before anything is measured. */
static struct error *try_load(struct tune_run *r, struct tune_model *m) {
        struct error *err = load_config(r, m, strbuf_str(&m->original));

        if (err != NULL && strstr(err->message, "load / unload is not allowed") != NULL) {
                error_free(err);
                return error_new_text(ERR_INVALID_ARG,
                                      "the server refuses load requests; tuning needs a server "
                                      "with --model-control-mode=explicit (and "
                                      "--load-model=MODEL)");
        }
        return err;
}

/* ---- the models -------------------------------------------------------------------------------- */

static bool has_model(const struct tune_run *r, const char *name) {
        for (size_t i = 0; i < r->results.n_models; i++)
                if (strcmp(r->results.models[i].name, name) == 0)
                        return true;
        return false;
}

static struct error *add_model(struct tune_run *r, const char *name, const struct strbuf *config) {
        struct tune_bounds   bounds = { .max_instances = r->plan->max_instances,
                                        .max_threads = r->plan->max_threads,
                                        .max_delay_us =
                                                (uint64_t)(r->plan->budget_ns * DELAY_SHARE / 1e3) };
        struct tune_limits   limits;
        struct tune_model   *m;
        struct tune_results *s = &r->results;

        if (s->n_models == MAX_MODELS)
                return error_new(ERR_INVALID_ARG, "'%s' has more than %d steps",
                                 r->plan->load.v->model, MAX_MODELS);
        TRY(error_wrap(tune_config_read(strbuf_str(config), &bounds, &limits), "model '%s'", name));
        m = &s->models[s->n_models++];
        m->name = mem_strdup(name);
        m->limits = limits;
        strbuf_put(&m->original, config->ptr, config->len);
        tune_space_make(&m->limits, &m->space);
        m->present = m->best = tune_space_present(&m->space, &m->limits);
        tune_search_init(&m->search, &m->space, &m->present);
        m->search.objective = r->plan->objective;
        m->search.budget_ns = r->plan->budget_ns;
        m->search.is_exhaustive = r->plan->is_exhaustive;
        return NULL;
}

/* The model, or the models of its steps, down to those that have none. */
static struct error *collect_models(struct tune_run *r, const char *name, int depth) {
        AUTO_STRBUF       config = { 0 };
        struct load_model shape;
        struct error     *err = NULL;

        if (has_model(r, name))
                return NULL;
        if (depth > MAX_DEPTH)
                return error_new(ERR_INVALID_ARG, "the steps of '%s' are nested too deeply", name);
        TRY(read_config(r, name, &config));
        TRY(load_model_read(name, NULL, STR_LIT("{}"), strbuf_str(&config), &shape));
        if (shape.n_steps == 0)
                err = add_model(r, name, &config);
        for (size_t i = 0; i < shape.n_steps && err == NULL; i++)
                err = collect_models(r, shape.steps[i].model, depth + 1);
        load_model_done(&shape);
        return err;
}

static struct error *open_run(struct tune_run *r) {
        TRY(waiter_open(&r->waiter));
        TRY(target_open(&r->plan->load.target, &r->target));
        r->has_target = true;
        TRY(loop_group_new("neso-tune", 1, &r->loops));
        r->shard = (struct channel_shard){ .loop = loop_group_get(r->loops, 0),
                                           .target = &r->target,
                                           .room = mem_alloc(CHANNEL_ROOM_BYTES) };
        r->control = control_open(&r->shard, CONTROL_NS, &r->waiter);
        r->results.models = mem_zalloc(MAX_MODELS * sizeof(*r->results.models));
        TRY(collect_models(r, r->plan->load.v->model, 0));
        if (r->plan->objective == TUNE_RATE_PER_CPU && !target_is_local(&r->target))
                return error_new_text(ERR_INVALID_ARG,
                                      "--objective=rate-per-cpu needs a server on this machine");
        for (size_t i = 0; i < r->results.n_models; i++)
                TRY(try_load(r, &r->results.models[i]));
        return NULL;
}

struct error *tune_run_new(const struct tune_plan *plan, struct tune_run **ret) {
        struct tune_run *r = mem_zalloc(sizeof(*r));
        struct error    *err;

        r->plan = plan;
        r->load = plan->load.range.start;
        r->waiter = (struct waiter){ .signal_fd = -1, .wake_fd = -1 };
        err = open_run(r);
        if (err != NULL) {
                tune_run_free(r);
                return err;
        }
        *ret = r;
        return NULL;
}

void tune_run_free(struct tune_run *r) {
        if (r == NULL)
                return;
        control_close(r->control);
        loop_group_free(r->loops);
        free(r->shard.room);
        for (size_t i = 0; i < r->results.n_models; i++) {
                free(r->results.models[i].name);
                strbuf_done(&r->results.models[i].original);
                tune_search_done(&r->results.models[i].search);
        }
        free(r->results.models);
        if (r->has_target)
                target_done(&r->target);
        waiter_close(&r->waiter);
        free(r);
}

const struct tune_results *tune_run_results(const struct tune_run *r) {
        return &r->results;
}

/* ---- measurements ------------------------------------------------------------------------------ */

/* A measurement under way. */
struct trial {
        const struct tune_run    *run;
        const struct tune_search *search; /* NULL: all windows are measured */
        struct tune_samples       samples;
        size_t                    n_windows; /* wanted */
        bool                      is_given_up;
};

static bool on_window(void *owner, const struct load_window *w) {
        struct trial *t = owner;

        t->samples.values[t->samples.n] = tune_objective_value(t->run->plan->objective, w->rate,
                                                               w->latency_ns, w->server_cpu);
        t->samples.latencies[t->samples.n] = w->latency_ns;
        t->samples.n++;
        t->is_given_up = t->samples.n < t->n_windows && t->search != NULL &&
                         !tune_search_wants_more(t->search, &t->samples);
        return t->samples.n < t->n_windows && !t->is_given_up;
}

static void read_result(const struct load_result *x, const struct load_plan *plan,
                        struct tune_figures *ret) {
        const struct histogram *h = &x->total->latency;

        *ret = (struct tune_figures){ .rate = load_result_rate(x, plan),
                                      .latency_ns = load_result_latency(x->total, plan),
                                      .p50_ns = (double)histogram_percentile(h, 50.0),
                                      .p99_ns = (double)histogram_percentile(h, 99.0),
                                      .cpu = x->server_cpu,
                                      .rss = x->server_rss,
                                      .load = x->value,
                                      .is_whole = true,
                                      .has_failed = x->total->n_failed > 0 || x->n_lost > 0 ||
                                                    h->n == 0 };
}

/* Windows without any answer are no failure: the model, or the machine, is slow. */
static struct error *first_failure(const struct load_result *x) {
        if (x->total->latency.n > 0 || x->total->n_errors == 0)
                return NULL;
        return error_new(ERR_INVALID_ARG, "no request succeeded: %s", x->total->errors[0].text);
}

/* Runs the load with the configurations that the server has now. */
static struct error *measure_load(struct tune_run *r, double load, struct trial *t,
                                  struct tune_figures *ret) {
        struct load_plan           plan = r->plan->load;
        struct load_run           *run = NULL;
        const struct load_results *results;
        struct error              *err;

        plan.range = (struct load_range){ .start = load, .end = load, .step = 1, .is_given = true };
        plan.on_window = on_window;
        plan.owner = t;
        t->run = r;
        if (is_interrupted(r)) /* while the configuration was loaded */
                return NULL;
        TRY(load_run_new(&plan, &run));
        err = load_run_measure(run);
        results = load_run_results(run);
        if (results->is_interrupted)
                r->results.is_interrupted = true;
        if (err == NULL && results->n_items > 0) {
                read_result(&results->items[0], &plan, ret);
                ret->is_whole = !t->is_given_up && !results->is_interrupted;
                err = results->is_interrupted ? NULL : first_failure(&results->items[0]);
        }
        load_run_free(run);
        return err;
}

/* One window. */
static struct error *look(struct tune_run *r, double load, struct tune_figures *ret) {
        struct trial t = { .n_windows = 1 };

        return measure_load(r, load, &t, ret);
}

/* The server's text may have characters that a terminal obeys. */
static void print_failure(const char *failure) {
        AUTO_CHARS plain = mem_strdup(failure);

        plain_text_make(plain, strlen(plain), '?');
        fprintf(stderr, "%s\n", plain);
}

static void report_point(const struct tune_run *r, const struct tune_model *m,
                         const struct tune_point *p, const struct tune_figures *f,
                         const char *failure) {
        AUTO_STRBUF text = { 0 };

        tune_space_print(&m->space, p, &text);
        fprintf(stderr, "%s [%zu of at most %zu] %s: ", m->name, m->search.n_trials,
                tune_search_size(&m->search), strbuf_cstr(&text));
        if (failure != NULL)
                print_failure(failure);
        else
                fprintf(stderr, "%.1f/s, p%lld %.2f ms%s%s\n", f->rate,
                        (long long)r->plan->load.v->percentile, f->latency_ns / 1e6,
                        tune_search_is_within(&m->search, f) ? "" : ", beyond the budget",
                        f->is_whole ? "" : ", given up");
}

/* A configuration that does not load, or with which requests fail, is out of the race; a server that does not
 * answer ends the search. */
static struct error *try_point(struct tune_run *r, struct tune_model *m,
                               const struct tune_point *p) {
        struct trial        t = { .n_windows = TUNE_WINDOWS, .search = &m->search };
        struct tune_figures f = { .has_failed = true, .cpu = -1.0, .load = r->load };
        struct error       *err = apply(r, m, p);

        if (err == NULL)
                err = measure_load(r, r->load, &t, &f);
        if (r->results.is_interrupted)
                return err;
        if (err == NULL && r->plan->objective == TUNE_RATE_PER_CPU && f.cpu < 0.0)
                return error_new_text(ERR_INVALID_ARG,
                                      "--objective=rate-per-cpu: the CPU time of the server is "
                                      "not known; it must be a process of the same user");
        if (err != NULL && (err->code == ERR_UNAVAILABLE || m->search.n_trials == 0))
                return err;
        f.has_failed = f.has_failed || err != NULL;
        tune_search_add(&m->search, p, &f);
        if (m->search.n_trials == 1)
                tune_search_set_noise(&m->search, &t.samples);
        report_point(r, m, p, &f, err != NULL ? err->message : NULL);
        error_free(err);
        return NULL;
}

/* ---- the search -------------------------------------------------------------------------------- */

/* The highest load, in steps of two, with which the present configuration stays well within the budget. */
static struct error *seek_load(struct tune_run *r) {
        struct tune_figures f = { 0 };

        for (double load = 1.0; load <= MAX_SOUGHT_LOAD && !is_interrupted(r); load *= 2.0) {
                TRY(look(r, load, &f));
                if (r->results.is_interrupted)
                        return NULL;
                if (load == 1.0 && f.latency_ns > r->plan->budget_ns)
                        fprintf(stderr,
                                "the present configuration is beyond the budget even with one "
                                "request under way: %.2f ms\n",
                                f.latency_ns / 1e6);
                if (f.has_failed ||
                    (load > 1.0 && f.latency_ns > r->plan->budget_ns * BUDGET_SHARE))
                        return NULL;
                r->load = load;
        }
        return NULL;
}

static int by_value(const void *a, const void *b) {
        double x = *(const double *)a, y = *(const double *)b;

        return (x > y) - (x < y);
}

/* 0 when requests fail, whatever the rate of the others: a refusal is quicker than an answer. */
static double window_value(const struct tune_run *r, const struct tune_figures *f) {
        return f->has_failed
                       ? 0.0
                       : tune_objective_value(r->plan->objective, f->rate, f->latency_ns, f->cpu);
}

/* The medians of windows of each finalist, in turns; 0 for one with which requests failed. */
static struct error *take_turns(struct tune_run *r, struct tune_model *m, const size_t *finalists,
                                size_t n, double *ret) {
        double              values[TUNE_FINALISTS][TUNE_WINDOWS] = { { 0 } };
        bool                is_out[TUNE_FINALISTS] = { false };
        struct tune_figures f = { 0 };

        for (size_t k = 0; k < TUNE_WINDOWS; k++)
                for (size_t i = 0; i < n; i++) {
                        if (is_interrupted(r))
                                return NULL;
                        TRY(apply(r, m, &m->search.trials[finalists[i]].point));
                        TRY(look(r, r->load, &f));
                        values[i][k] = window_value(r, &f);
                        is_out[i] = is_out[i] || f.has_failed;
                }
        for (size_t i = 0; i < n; i++) {
                qsort(values[i], TUNE_WINDOWS, sizeof(values[i][0]), by_value);
                ret[i] = is_out[i] ? 0.0 : values[i][TUNE_WINDOWS / 2];
        }
        return NULL;
}

static bool has_value(const double *values, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (values[i] > 0.0)
                        return true;
        return false;
}

static struct error *choose_trial(struct tune_run *r, struct tune_model *m) {
        const struct tune_trial *best = tune_search_best(&m->search);
        size_t                   finalists[TUNE_FINALISTS];
        size_t                   n = tune_search_finalists(&m->search, finalists);
        double                   values[TUNE_FINALISTS] = { 0 };

        if (n > 1)
                TRY(take_turns(r, m, finalists, n, values));
        if (n > 1 && !has_value(values, n))
                return NULL; /* the present configuration stays */
        if (n > 1)
                best = &m->search.trials[tune_search_choose(&m->search, finalists, values, n)];
        if (best != NULL)
                m->best = best->point;
        return NULL;
}

static struct error *search_model(struct tune_run *r, struct tune_model *m) {
        struct tune_point p;

        while (!is_interrupted(r) && tune_search_next(&m->search, &p))
                TRY(try_point(r, m, &p));
        if (!is_interrupted(r))
                TRY(choose_trial(r, m));
        return is_interrupted(r) ? NULL : apply(r, m, &m->best);
}

static bool has_change(const struct tune_results *s) {
        for (size_t i = 0; i < s->n_models; i++)
                if (memcmp(&s->models[i].best, &s->models[i].present, sizeof(struct tune_point)) !=
                    0)
                        return true;
        return false;
}

/* The configuration that was found may serve more than the load that it was found with. */
static struct error *raise_load(struct tune_run *r) {
        const struct tune_search *search = &r->results.models[0].search;
        struct tune_figures       now = { 0 }, more = { 0 };

        r->results.best_load = r->load;
        if (!r->plan->seeks_load || !has_change(&r->results) || is_interrupted(r))
                return NULL;
        TRY(look(r, r->load, &now));
        for (double load = 2.0 * r->load; load <= MAX_LOAD && !is_interrupted(r); load *= 2.0) {
                TRY(look(r, load, &more));
                if (!tune_search_is_within(search, &more) ||
                    more.rate < now.rate * (1.0 + search->noise))
                        return NULL;
                now = more;
                r->results.best_load = load;
        }
        return NULL;
}

static struct error *measure_pair_half(struct tune_run *r, bool is_best, double *ret,
                                       bool *ret_has_failed) {
        struct tune_figures f = { 0 };

        for (size_t i = 0; i < r->results.n_models; i++) {
                struct tune_model *m = &r->results.models[i];

                if (memcmp(&m->best, &m->present, sizeof(m->best)) != 0)
                        TRY(apply(r, m, is_best ? &m->best : &m->present));
        }
        TRY(look(r, is_best ? r->results.best_load : r->results.present_load, &f));
        *ret = window_value(r, &f);
        *ret_has_failed = f.has_failed;
        return NULL;
}

static void keep_present(struct tune_run *r) {
        fputs("requests failed with the configuration that was found; the present one stays\n",
              stderr);
        for (size_t i = 0; i < r->results.n_models; i++)
                r->results.models[i].best = r->results.models[i].present;
        r->results.best_load = r->results.present_load;
        r->results.n_pairs = 0;
}

/* In turns, so that a machine whose speed changes changes both. */
static struct error *compare_with_present(struct tune_run *r) {
        struct tune_results *s = &r->results;
        bool                 has_failed = false;

        s->present_load = r->load;
        if (!has_change(s))
                return NULL;
        while (s->n_pairs < TUNE_PAIRS && !is_interrupted(r)) {
                TRY(measure_pair_half(r, false, &s->present_values[s->n_pairs], &has_failed));
                if (is_interrupted(r))
                        return NULL;
                TRY(measure_pair_half(r, true, &s->best_values[s->n_pairs], &has_failed));
                if (has_failed && !s->is_interrupted) {
                        keep_present(r);
                        return NULL;
                }
                if (!s->is_interrupted)
                        s->n_pairs++;
        }
        s->is_compared = s->n_pairs > 0;
        s->gain = tune_gain_of(s->present_values, s->best_values, s->n_pairs);
        return NULL;
}

static struct error *search(struct tune_run *r) {
        if (r->plan->seeks_load)
                TRY(seek_load(r));
        for (size_t i = 0; i < r->results.n_models && !is_interrupted(r); i++)
                TRY(search_model(r, &r->results.models[i]));
        TRY(raise_load(r));
        return compare_with_present(r);
}

struct error *tune_run_search(struct tune_run *r) {
        uint64_t      begin_ns = clock_now_ns();
        struct error *err = search(r);

        r->results.is_interrupted = r->results.is_interrupted || r->waiter.is_interrupted;
        if (err != NULL && r->results.is_interrupted && err->code == ERR_UNAVAILABLE)
                error_free(STEAL(err)); /* of an answer that was not waited for */
        r->results.seconds = (double)(clock_now_ns() - begin_ns) / 1e9;
        return err;
}

/* ---- before and after -------------------------------------------------------------------------- */

void tune_run_announce(const struct tune_run *r, struct strbuf *out) {
        double             window_s = (double)r->plan->load.window_ns / 1e9;
        double             warm_s = MIN(window_s, 1.0), seconds = 0.0;
        unsigned long long total;
        size_t n_looks = (r->plan->seeks_load ? SEEK_LOOKS + RAISE_LOOKS : 0) + 2 * TUNE_PAIRS;

        for (size_t i = 0; i < r->results.n_models; i++) {
                const struct tune_model *m = &r->results.models[i];

                strbuf_printf(out, "%s: at most %zu of %zu configurations\n", m->name,
                              tune_search_size(&m->search), tune_space_count(&m->space));
                n_looks += TUNE_FINALISTS * TUNE_WINDOWS;
                seconds += (double)tune_search_size(&m->search) *
                           (warm_s + TUNE_WINDOWS * window_s + LOAD_SECONDS);
        }
        seconds += (double)n_looks * (warm_s + window_s + LOAD_SECONDS);
        total = (unsigned long long)(seconds + 0.5);
        strbuf_printf(out,
                      "This takes at most %llu min %llu s, and the time of the loads of a large "
                      "model.\n",
                      total / 60, total % 60);
}

static struct error *restore_model(struct tune_run *r, struct tune_model *m) {
        AUTO_STRBUF now = { 0 };

        TRY(load_config(r, m, strbuf_str(&m->original)));
        TRY(read_config(r, m->name, &now));
        if (!str_equal(strbuf_str(&now), strbuf_str(&m->original)))
                return error_new(ERR_INTERNAL,
                                 "model '%s' has another configuration than before; unload and "
                                 "load it",
                                 m->name);
        m->is_changed = false;
        return NULL;
}

static bool has_changed(const struct tune_run *r) {
        for (size_t i = 0; i < r->results.n_models; i++)
                if (r->results.models[i].is_changed)
                        return true;
        return false;
}

/* The interruption that has ended the search does not cut this short; another one does. */
struct error *tune_run_restore(struct tune_run *r) {
        struct error *first = NULL, *err;

        if (r->results.is_interrupted && has_changed(r))
                fputs("Interrupted: the models get their configurations back. Interrupt again to "
                      "leave "
                      "them as they are.\n",
                      stderr);
        r->waiter.is_interrupted = false;
        for (size_t i = 0; i < r->results.n_models; i++) {
                if (!r->results.models[i].is_changed)
                        continue;
                err = restore_model(r, &r->results.models[i]);
                if (first == NULL)
                        first = err;
                else
                        error_free(err);
        }
        return first;
}
