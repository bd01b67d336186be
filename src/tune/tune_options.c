/* SPDX-License-Identifier: BSD-3-Clause */
#include "tune/tune_options.h"

#include "base/mem.h"

#include <string.h>
#include <unistd.h>

#define MEMBER_ROW(row_kind, row_name, row_offset, ...)                                            \
        { .kind = OPTION_##row_kind, .name = row_name, .offset = row_offset, __VA_ARGS__ }
#define ROW(row_kind, row_name, member, ...)                                                       \
        MEMBER_ROW(row_kind, row_name, offsetof(struct load_values, member), __VA_ARGS__)
#define OWN(row_kind, row_name, member, ...)                                                       \
        MEMBER_ROW(row_kind, row_name, offsetof(struct tune_values, member), __VA_ARGS__)

/* Their defaults are set by tune_values_init(), from this table. */
#define OWN_ROWS                                                                                   \
        OWN(REAL, "latency-budget", budget_ms, .argument = "MS", .min = 0, .max = 1e9,             \
            .help = "highest latency (p99, or --percentile) that is accepted; required"),          \
                OWN(TEXT, "objective", objective, .argument = "<rate|latency|rate-per-cpu>",       \
                    .initial = "rate",                                                             \
                    .help = "what is best within the budget: the most inferences a second, the\n"  \
                            "lowest latency, or the most inferences for each second of CPU time; " \
                            "rate"),                                                               \
                OWN(NUMBER, "max-instances", max_instances, .argument = "N", .min = 0,             \
                    .max = 1024, .help = "instances at most; twice the cores of this machine"),    \
                OWN(NUMBER, "max-threads", max_threads, .argument = "N", .min = 0, .max = 1024,    \
                    .help = "onnxruntime: threads of an instance at most; the cores of this "      \
                            "machine"),                                                            \
                OWN(COUNT, "measurement-interval", window_ms, .letter = 'p', .argument = "MS",     \
                    .initial = "1000",                                                             \
                    .help = "a window; a configuration has three, after one to warm up; 1000"),    \
                OWN(NUMBER, "percentile", percentile, .argument = "P", .initial = "99", .min = 1,  \
                    .max = 99, .help = "the latency that is judged; 99"),                          \
                OWN(FLAG, "exhaustive", is_exhaustive,                                             \
                    .help = "measure each configuration of the grid, which takes ten times as "    \
                            "long")

static const struct option_row   own_rows[] = { OWN_ROWS };
static const struct option_table own_table = { own_rows, ARRAY_LEN(own_rows) };

static const struct option_row rows[] = {
        OWN_ROWS,
        ROW(TEXT, "concurrency-range", concurrency, .argument = "N",
            .help = "requests under way. Without it: as many as the present configuration\n"
                    "serves within four fifths of the budget, at most 64; 1 for the objective\n"
                    "latency"),
        ROW(TEXT, "request-rate-range", rate, .argument = "N",
            .help = "requests a second, for the objectives latency and rate-per-cpu"),
        ROW(NUMBER, "threads", n_threads, .argument = "N", .initial = "1", .min = 1, .max = 64,
            .help = "threads that send; 1"),
        ROW(FLAG, "json", is_json, .help = "print the results as JSON"),
#include "load/load_rows.def"
};

const struct option_table tune_option_table = { rows, ARRAY_LEN(rows) };

void tune_values_init(struct tune_values *v) {
        option_table_init(&own_table, v, sizeof(*v));
        option_table_init(&load_option_table, &v->load, sizeof(v->load));
}

void tune_values_done(struct tune_values *v) {
        option_table_done(&load_option_table, &v->load);
        option_table_done(&own_table, v);
}

static struct error *read_objective(const char *text, enum tune_objective *ret) {
        static const char *const names[] = { [TUNE_RATE] = "rate",
                                             [TUNE_LATENCY] = "latency",
                                             [TUNE_RATE_PER_CPU] = "rate-per-cpu" };

        for (size_t i = 0; i < ARRAY_LEN(names); i++)
                if (strcmp(text, names[i]) == 0) {
                        *ret = (enum tune_objective)i;
                        return NULL;
                }
        return error_new(ERR_INVALID_ARG,
                         "--objective: unknown value '%s', not one of rate, latency, rate-per-cpu",
                         text);
}

static struct error *read_model(struct tune_values *v, const char *model) {
        if (model != NULL && v->load.model != NULL)
                return error_new(ERR_INVALID_ARG, "two models: '%s' and '%s'", model,
                                 v->load.model);
        if (model != NULL)
                v->load.model = mem_strdup(model);
        if (v->load.model == NULL || *v->load.model == '\0')
                return error_new_text(ERR_INVALID_ARG,
                                      "which model? neso tune MODEL --latency-budget=MS");
        if (v->budget_ms <= 0.0)
                return error_new_text(ERR_INVALID_ARG,
                                      "--latency-budget: the highest latency that is accepted, in "
                                      "milliseconds");
        return NULL;
}

static struct error *check_load(const struct tune_plan *p) {
        if (p->load.range.start != p->load.range.end)
                return error_new_text(ERR_INVALID_ARG,
                                      "--concurrency-range, --request-rate-range: one load, not a "
                                      "range");
        if (p->load.is_open && p->objective == TUNE_RATE)
                return error_new_text(ERR_INVALID_ARG,
                                      "--request-rate-range: the rate is given, so it cannot be "
                                      "the --objective");
        return NULL;
}

struct error *tune_plan_read(struct tune_values *v, const char *model, struct tune_plan *ret) {
        long             n_cpus = sysconf(_SC_NPROCESSORS_ONLN);
        uint64_t         cores = n_cpus > 0 ? (uint64_t)n_cpus : 1;
        struct tune_plan p = { .budget_ns = v->budget_ms * 1e6, .is_exhaustive = v->is_exhaustive };
        struct error    *err;

        TRY(read_model(v, model));
        TRY(read_objective(v->objective, &p.objective));
        p.max_instances = v->max_instances > 0 ? (uint64_t)v->max_instances : 2 * cores;
        p.max_threads = v->max_threads > 0 ? (uint64_t)v->max_threads : cores;
        p.seeks_load =
                v->load.concurrency == NULL && v->load.rate == NULL && p.objective != TUNE_LATENCY;
        v->load.window_ms = v->window_ms;
        v->load.percentile = v->percentile;
        v->load.max_trials = TUNE_WINDOWS;
        v->load.stability = 0.0; /* all of them are measured */
        TRY(load_plan_read(&v->load, &p.load));
        err = check_load(&p);
        if (err != NULL) {
                load_plan_done(&p.load);
                return err;
        }
        *ret = p;
        return NULL;
}

void tune_plan_done(struct tune_plan *p) {
        load_plan_done(&p->load);
}
