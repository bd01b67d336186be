/* SPDX-License-Identifier: BSD-3-Clause */
/* The order in which a search tries configurations, when it gives one up, and which it chooses. It measures
 * nothing itself:
 *
 *     while (tune_search_next(&s, &p)) {
 *             ... measure p, window by window, as long as tune_search_wants_more() ...
 *             tune_search_add(&s, &p, &figures);
 *     }
 *     best = tune_search_best(&s);
 *
 * The present configuration comes first: its windows show how far figures differ by themselves. Then the ends of
 * the axes (coarse), then the neighbours of the best three, until there is none left or `max_points` are done.
 *
 * Ownership.  tune_search_init(), tune_search_done().
 * Threads.  One owner at a time.
 */
#pragma once

#include "tune/tune_space.h"

#include <stdbool.h>
#include <stddef.h>

enum tune_objective { TUNE_RATE, TUNE_LATENCY, TUNE_RATE_PER_CPU };

#define TUNE_WINDOWS 3
/* A point is within the budget, or it is not; among those within it the objective decides. */
struct tune_figures {
        double   rate;       /* inferences a second */
        double   latency_ns; /* the judged one */
        double   p50_ns, p99_ns;
        double   cpu; /* cores of the server; below 0: not known */
        uint64_t rss;
        double   load;       /* the concurrency or the rate */
        bool     is_whole;   /* false: given up before its last window */
        bool     has_failed; /* not loaded, or errors */
};

struct tune_trial {
        struct tune_point   point;
        struct tune_figures figures;
};

struct tune_samples {
        double values[TUNE_WINDOWS];    /* of the objective; greater is better */
        double latencies[TUNE_WINDOWS]; /* nanoseconds */
        size_t n;
};

struct tune_search {
        const struct tune_space *space; /* borrowed */
        enum tune_objective      objective;
        double                   budget_ns;
        bool                     is_exhaustive; /* each point of the grid, none is given up */
        size_t                   max_points;
        struct tune_point        present;
        struct tune_trial       *trials; /* owned, in the order of measurement */
        size_t                   n_trials;
        bool                    *is_taken; /* owned: by the number of the point */
        size_t                   n_coarse; /* coarse points looked at so far */
        double                   noise,
                latency_noise; /* relative deviation of a window of the present configuration */
};

void tune_search_init(struct tune_search *s, const struct tune_space *space,
                      const struct tune_point *present);
void tune_search_done(struct tune_search *s);
/* Most points that the search measures, before it has begun. */
size_t tune_search_size(const struct tune_search *s);

/* False: nothing is left to try. */
bool tune_search_next(struct tune_search *s, struct tune_point *ret);
void tune_search_add(struct tune_search *s, const struct tune_point *p,
                     const struct tune_figures *f);
/* After the windows of the present configuration. */
void tune_search_set_noise(struct tune_search *s, const struct tune_samples *samples);
/* False when the point is out of the race: even its upper bound is below the best, or even the lower bound of
 * its latency is beyond the budget. */
bool tune_search_wants_more(const struct tune_search *s, const struct tune_samples *samples);

/* The figure of the objective; greater is better. 0: not measured. */
double tune_objective_value(enum tune_objective o, double rate, double latency_ns, double cpu);
bool   tune_search_is_within(const struct tune_search *s, const struct tune_figures *f);
/* Puts the indices of all trials, best first. */
void tune_search_rank(const struct tune_search *s, size_t *ret);
#define TUNE_FINALISTS 3
/* Puts the indices of the best trials that were measured whole, within the budget, best first: figures of different
 * minutes, so the choice between them needs measurements in turns. Returns their number. */
size_t tune_search_finalists(const struct tune_search *s, size_t ret[TUNE_FINALISTS]);
/* The finalist with the best of `values`, or the smallest of those that differ from it by no more than the noise. */
size_t tune_search_choose(const struct tune_search *s, const size_t *finalists,
                          const double *values, size_t n);
/* The choice without further measurements: of those that differ from the best by no more than the noise, the one with the fewest instances
 * and threads. NULL when nothing was measured. */
const struct tune_trial *tune_search_best(const struct tune_search *s);

/* The gain of pairs of measurements, one of each configuration in turn: b / a - 1. */
struct tune_gain {
        double median, least, most;
};
struct tune_gain tune_gain_of(const double *a, const double *b, size_t n);
/* True when some pair says otherwise. */
bool tune_gain_is_noise(const struct tune_gain *g);
