/* SPDX-License-Identifier: BSD-3-Clause */
#include "tune/tune_search.h"

#include "base/compiler.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A twelfth of the grid, so that with the turns at the end it takes a tenth of the time, but enough for the coarse
 * points and a step from the best of them. */
#define MIN_POINTS 20
#define GRID_SHARE 12
#define N_BEST 3
/* Bounds of what a few windows say of the noise: they may agree, or be disturbed, by chance. */
#define MIN_NOISE 0.02
#define MAX_NOISE 0.5
#define MIN_LATENCY_NOISE 0.05
#define MAX_LATENCY_NOISE 1.0
/* Deviations between a mean and its bound. */
#define BOUND_DEVIATIONS 2.5
/* A part of the best value: configurations that differ by less count as equal. */
#define MAX_TIE 0.02

void tune_search_init(struct tune_search *s, const struct tune_space *space,
                      const struct tune_point *present) {
        memset(s, 0, sizeof(*s));
        s->space = space;
        s->present = *present;
        s->is_taken = mem_zalloc(tune_space_size(space) * sizeof(*s->is_taken));
        s->max_points = MAX(MIN_POINTS, tune_space_count(space) / GRID_SHARE);
        s->noise = MAX_NOISE;
        s->latency_noise = MAX_LATENCY_NOISE;
}

void tune_search_done(struct tune_search *s) {
        free(s->is_taken);
        free(s->trials);
}

size_t tune_search_size(const struct tune_search *s) {
        size_t n = tune_space_count(s->space);

        return s->is_exhaustive ? n : MIN(n, s->max_points);
}

/* ---- figures ----------------------------------------------------------------------------------- */

double tune_objective_value(enum tune_objective o, double rate, double latency_ns, double cpu) {
        switch (o) {
        case TUNE_RATE: return rate;
        case TUNE_LATENCY: return latency_ns > 0.0 ? 1e9 / latency_ns : 0.0;
        case TUNE_RATE_PER_CPU: return cpu > 0.0 ? rate / cpu : 0.0;
        }
        return 0.0;
}

static double value_of(const struct tune_search *s, const struct tune_figures *f) {
        return tune_objective_value(s->objective, f->rate, f->latency_ns, f->cpu);
}

bool tune_search_is_within(const struct tune_search *s, const struct tune_figures *f) {
        return !f->has_failed && f->latency_ns <= s->budget_ns;
}

/* True when `a` is better than `b`. */
static bool is_better(const struct tune_search *s, const struct tune_figures *a,
                      const struct tune_figures *b) {
        bool a_within = tune_search_is_within(s, a), b_within = tune_search_is_within(s, b);

        if (a->has_failed != b->has_failed)
                return b->has_failed;
        if (a_within != b_within)
                return a_within;
        if (!a_within)
                return a->latency_ns < b->latency_ns;
        return value_of(s, a) > value_of(s, b);
}

void tune_search_rank(const struct tune_search *s, size_t *ret) {
        for (size_t i = 0; i < s->n_trials; i++) {
                size_t k = i;

                for (; k > 0 && is_better(s, &s->trials[i].figures, &s->trials[ret[k - 1]].figures);
                     k--)
                        ret[k] = ret[k - 1];
                ret[k] = i;
        }
}

void tune_search_add(struct tune_search *s, const struct tune_point *p,
                     const struct tune_figures *f) {
        s->trials = mem_realloc(s->trials, (s->n_trials + 1) * sizeof(*s->trials));
        s->trials[s->n_trials++] = (struct tune_trial){ *p, *f };
}

/* ---- the order --------------------------------------------------------------------------------- */

static bool take_point(struct tune_search *s, const struct tune_point *p, struct tune_point *ret) {
        size_t number = tune_space_number(s->space, p);

        if (s->is_taken[number] || !tune_space_is_canonical(s->space, p))
                return false;
        s->is_taken[number] = true;
        *ret = *p;
        return true;
}

/* Both ends of the instances and of the threads, each with: no batching, batching, batching with a delay in the
 * middle of its axis. */
#define N_COARSE 12

static struct tune_point coarse_point(const struct tune_space *s, size_t k) {
        const struct tune_axis *batching = &s->axes[TUNE_BATCHING];
        struct tune_point       p = { { 0 } };
        size_t                  kind = k / 4;

        if (k % 2 == 1)
                p.at[TUNE_INSTANCES] = (uint8_t)(s->axes[TUNE_INSTANCES].n - 1);
        if (k / 2 % 2 == 1)
                p.at[TUNE_THREADS] = (uint8_t)(s->axes[TUNE_THREADS].n - 1);
        if (kind > 0 && batching->values[0] == TUNE_NO_BATCHING && batching->n > 1)
                p.at[TUNE_BATCHING] = 1;
        if (kind == 2)
                p.at[TUNE_DELAY] = (uint8_t)(s->axes[TUNE_DELAY].n / 2);
        tune_space_make_canonical(s, &p);
        return p;
}

static bool next_coarse(struct tune_search *s, struct tune_point *ret) {
        while (s->n_coarse < N_COARSE) {
                struct tune_point p = coarse_point(s->space, s->n_coarse++);

                if (take_point(s, &p, ret))
                        return true;
        }
        return false;
}

/* The next value of the axis upwards or downwards. Without batching there is no delay to change: the neighbour
 * with a delay is two steps away. */
static bool next_on_axis(struct tune_search *s, const struct tune_point *p, size_t axis, int step,
                         struct tune_point *ret) {
        struct tune_point neighbour = *p;
        int               at = p->at[axis] + step;

        if (at < 0 || at >= (int)s->space->axes[axis].n)
                return false;
        neighbour.at[axis] = (uint8_t)at;
        tune_space_make_canonical(s->space, &neighbour);
        return take_point(s, &neighbour, ret);
}

static bool next_neighbour(struct tune_search *s, const struct tune_point *p,
                           struct tune_point *ret) {
        for (size_t axis = 0; axis < TUNE_AXES; axis++)
                if (next_on_axis(s, p, axis, 1, ret) || next_on_axis(s, p, axis, -1, ret))
                        return true;
        return false;
}

static bool next_fine(struct tune_search *s, struct tune_point *ret) {
        size_t *ranks = mem_alloc((s->n_trials + 1) * sizeof(*ranks));
        bool    is_found = false;

        tune_search_rank(s, ranks);
        for (size_t i = 0; i < MIN(s->n_trials, N_BEST) && !is_found; i++)
                is_found = !s->trials[ranks[i]].figures.has_failed &&
                           next_neighbour(s, &s->trials[ranks[i]].point, ret);
        free(ranks);
        return is_found;
}

static bool next_of_grid(struct tune_search *s, struct tune_point *ret) {
        size_t size = tune_space_size(s->space);

        for (size_t i = 0; i < size; i++) {
                struct tune_point p = tune_space_point(s->space, i);

                if (take_point(s, &p, ret))
                        return true;
        }
        return false;
}

bool tune_search_next(struct tune_search *s, struct tune_point *ret) {
        if (s->n_trials == 0 && take_point(s, &s->present, ret))
                return true;
        if (s->is_exhaustive)
                return next_of_grid(s, ret);
        if (s->n_trials >= s->max_points)
                return false;
        return next_coarse(s, ret) || next_fine(s, ret);
}

/* ---- when a point is given up ------------------------------------------------------------------ */

static double mean_of(const double *values, size_t n) {
        double sum = 0.0;

        for (size_t i = 0; i < n; i++)
                sum += values[i];
        return n > 0 ? sum / (double)n : 0.0;
}

static double relative_deviation(const double *values, size_t n) {
        double mean = mean_of(values, n), sum = 0.0;

        for (size_t i = 0; i < n; i++)
                sum += (values[i] - mean) * (values[i] - mean);
        return n > 1 && mean > 0.0 ? sqrt(sum / (double)(n - 1)) / mean : INFINITY;
}

static double clamp(double value, double least, double most) {
        return value < least ? least : value > most ? most : value;
}

void tune_search_set_noise(struct tune_search *s, const struct tune_samples *samples) {
        s->noise = clamp(relative_deviation(samples->values, samples->n), MIN_NOISE, MAX_NOISE);
        s->latency_noise = clamp(relative_deviation(samples->latencies, samples->n),
                                 MIN_LATENCY_NOISE, MAX_LATENCY_NOISE);
}

static const struct tune_trial *leader(const struct tune_search *s) {
        const struct tune_trial *best = NULL;

        for (size_t i = 0; i < s->n_trials; i++)
                if (s->trials[i].figures.is_whole &&
                    (best == NULL || is_better(s, &s->trials[i].figures, &best->figures)))
                        best = &s->trials[i];
        return best;
}

bool tune_search_wants_more(const struct tune_search *s, const struct tune_samples *samples) {
        const struct tune_trial *best = leader(s);
        double                   root = sqrt((double)samples->n);
        double                   most, least_ns;

        if (best == NULL || s->is_exhaustive || samples->n == 0 ||
            !tune_search_is_within(s, &best->figures))
                return true;
        most = mean_of(samples->values, samples->n) * (1.0 + BOUND_DEVIATIONS * s->noise / root);
        least_ns = mean_of(samples->latencies, samples->n) *
                   (1.0 - BOUND_DEVIATIONS * s->latency_noise / root);
        return most >= value_of(s, &best->figures) && least_ns <= s->budget_ns;
}

/* ---- the choice -------------------------------------------------------------------------------- */

/* Instances times threads: what a configuration takes of a machine. */
static double size_of(const struct tune_search *s, const struct tune_trial *t) {
        uint64_t instances = tune_space_value(s->space, &t->point, TUNE_INSTANCES);
        uint64_t threads = tune_space_value(s->space, &t->point, TUNE_THREADS);
        uint64_t most = s->space->axes[TUNE_THREADS].values[s->space->axes[TUNE_THREADS].n - 1];

        if (threads == 0) /* one for each core */
                threads = MAX(most, 1);
        return (instances == TUNE_KEEP ? 1.0 : (double)instances) *
               (threads == TUNE_KEEP ? 1.0 : (double)threads);
}

const struct tune_trial *tune_search_best(const struct tune_search *s) {
        const struct tune_trial *best = leader(s), *choice = best;
        double                   enough;

        if (best == NULL || !tune_search_is_within(s, &best->figures))
                return best;
        enough = value_of(s, &best->figures) * (1.0 - MIN(s->noise, MAX_TIE));
        for (size_t i = 0; i < s->n_trials; i++) {
                const struct tune_trial *t = &s->trials[i];

                if (t->figures.is_whole && tune_search_is_within(s, &t->figures) &&
                    value_of(s, &t->figures) >= enough && size_of(s, t) < size_of(s, choice))
                        choice = t;
        }
        return choice;
}

size_t tune_search_finalists(const struct tune_search *s, size_t ret[TUNE_FINALISTS]) {
        size_t *ranks = mem_alloc((s->n_trials + 1) * sizeof(*ranks));
        size_t  n = 0;

        tune_search_rank(s, ranks);
        for (size_t i = 0; i < s->n_trials && n < TUNE_FINALISTS; i++) {
                const struct tune_figures *f = &s->trials[ranks[i]].figures;

                if (f->is_whole && tune_search_is_within(s, f))
                        ret[n++] = ranks[i];
        }
        free(ranks);
        return n;
}

size_t tune_search_choose(const struct tune_search *s, const size_t *finalists,
                          const double *values, size_t n) {
        size_t best = 0, choice;

        for (size_t i = 1; i < n; i++)
                if (values[i] > values[best])
                        best = i;
        choice = best;
        for (size_t i = 0; i < n; i++)
                if (values[i] >= values[best] * (1.0 - MIN(s->noise, MAX_TIE)) &&
                    size_of(s, &s->trials[finalists[i]]) <
                            size_of(s, &s->trials[finalists[choice]]))
                        choice = i;
        return finalists[choice];
}

static int by_value(const void *a, const void *b) {
        double x = *(const double *)a, y = *(const double *)b;

        return (x > y) - (x < y);
}

struct tune_gain tune_gain_of(const double *a, const double *b, size_t n) {
        double          *gains = mem_zalloc((n + 1) * sizeof(*gains));
        struct tune_gain g = { 0 };
        size_t           k = 0;

        for (size_t i = 0; i < n; i++)
                if (a[i] > 0.0)
                        gains[k++] = b[i] / a[i] - 1.0;
        if (k > 0) {
                qsort(gains, k, sizeof(*gains), by_value);
                g = (struct tune_gain){ .median = (gains[(k - 1) / 2] + gains[k / 2]) / 2.0,
                                        .least = gains[0],
                                        .most = gains[k - 1] };
        }
        free(gains);
        return g;
}

bool tune_gain_is_noise(const struct tune_gain *g) {
        return g->least <= 0.0;
}
