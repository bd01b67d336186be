/* SPDX-License-Identifier: BSD-3-Clause */
/* A search on a running server: sends configurations with load requests, measures a load with each, compares the
 * best one with the present one, and gives the models their own configurations back.
 *
 *     tune_run_new()        reads the models; fails when the server does not permit loads
 *     tune_run_search()     changes the server
 *     tune_run_restore()    after it in any case
 *
 * An ensemble or a chain is measured as a whole, while its steps are tuned one after the other.
 *
 * Ownership.  tune_run_free() frees it; it restores nothing. The plan is borrowed.
 * Threads.  The main thread. SIGINT and SIGTERM are blocked from tune_run_new() on, and end the search.
 */
#pragma once

#include "base/error.h"
#include "tune/tune_options.h"
#include "tune/tune_search.h"

struct tune_model {
        char              *name;     /* owned */
        struct strbuf      original; /* owned: its configuration */
        struct tune_limits limits;
        struct tune_space  space;
        struct tune_search search;
        struct tune_point  present, best; /* best: the present one until the search has ended */
        bool               is_changed;    /* on the server */
};

#define TUNE_PAIRS 3

struct tune_results {
        struct tune_model *models; /* owned */
        size_t             n_models;
        bool               is_interrupted, is_compared;
        double             present_load, best_load;
        double             seconds;
        /* Pairs of windows: the value of the objective; 0 when requests failed. */
        double           present_values[TUNE_PAIRS], best_values[TUNE_PAIRS];
        size_t           n_pairs;
        struct tune_gain gain;
};

struct tune_run;

struct error *tune_run_new(const struct tune_plan *plan, struct tune_run **ret) NODISCARD;
/* Puts what will be done, and how long it takes at most. */
void          tune_run_announce(const struct tune_run *r, struct strbuf *out);
struct error *tune_run_search(struct tune_run *r) NODISCARD;
struct error *tune_run_restore(struct tune_run *r) NODISCARD;
void          tune_run_free(struct tune_run *r); /* NULL is fine */

const struct tune_results *tune_run_results(const struct tune_run *r);
