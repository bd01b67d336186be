/* SPDX-License-Identifier: BSD-3-Clause */
/* A whole run: reads the model, makes the requests, measures each load of the range, and keeps the results.
 *
 * A load begins with a warm-up; then windows follow until the last three agree (stable) or --max-trials is
 * reached. The result is what those last windows measured together. An unstable result is a result, too.
 *
 * Ownership.  load_run_free() ends everything, regions of shared memory included.
 * Threads.  The main thread. The loops of the run are its own.
 */
#pragma once

#include "base/error.h"
#include "load/gauge_means.h"
#include "load/load_model.h"
#include "load/load_options.h"
#include "load/server_stats.h"
#include "load/tally.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct load_run;

#define LOAD_STABLE_WINDOWS 3

/* A window, for plots over time. */
struct load_point {
        double at_s; /* its end, from the beginning of the run */
        double p50_ns, p99_ns;
};

/* Of one load. */
struct load_result {
        double               value;      /* the concurrency or the rate */
        struct tally        *total;      /* owned */
        struct tally       **logs;       /* owned: of all windows, with --profile-export-file */
        uint64_t            *boundaries; /* owned: wall times of the windows */
        size_t               n_windows;
        struct load_point   *points; /* owned: of all windows */
        size_t               n_points;
        double               seconds;               /* of `total` */
        bool                 is_stable, is_counted; /* is_counted: one window of --request-count */
        double               rate_spread, latency_spread; /* of the last windows, percent */
        struct server_stats  stats;
        struct server_stats *steps;        /* owned: of the model's steps */
        double               cpu_share;    /* of the generator's busiest thread, of one core */
        double               server_cpu;   /* cores; below 0: not known */
        uint64_t             server_rss;   /* resident bytes at the end; 0: not known */
        size_t               n_unanswered; /* requests that were dropped DRAIN_NS after the load */
        /* Of them: those that were under way for longer than LOST_LATENCIES times the longest latency. */
        size_t             n_lost;
        size_t             n_measured; /* windows */
        bool               is_generator_limit;
        bool               has_stats; /* the server has statistics of the model */
        struct gauge_means gauges;    /* of all windows, with --collect-metrics */
};

struct load_results {
        struct load_result *items; /* owned */
        size_t              n_items;
        bool                is_interrupted;
        uint64_t n_wrong;    /* outputs that were not the expected ones, outside the windows, too */
        uint64_t n_unlogged; /* requests for which --profile-export-file had no room */
        bool     has_found;  /* --binary-search */
        double   found;      /* highest load within the limit */
};

/* Measures all loads. After an error there may be results, too. */
struct error *load_run_new(const struct load_plan *plan, struct load_run **ret) NODISCARD;
struct error *load_run_measure(struct load_run *r) NODISCARD;
void          load_run_free(struct load_run *r); /* NULL is fine */

const struct load_results *load_run_results(const struct load_run *r);
const struct load_model   *load_run_model(const struct load_run *r);
const struct target       *load_run_target(const struct load_run *r);

/* Inferences a second. */
double load_result_rate(const struct load_result *r, const struct load_plan *plan);
/* The latency that is judged, in nanoseconds: the percentile of the plan, or the mean. */
double load_result_latency(const struct tally *t, const struct load_plan *plan);
bool   load_result_fails(const struct load_result *r, const struct load_plan *plan,
                         const struct fail_limit *limit);
