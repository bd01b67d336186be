/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of `neso tune`: those of a load (load/load_rows.def) and its own.
 *
 * Ownership.  tune_values_init(), tune_values_done(). tune_plan borrows the values.
 */
#pragma once

#include "load/load_options.h"
#include "tune/tune_search.h"

struct tune_values {
        struct load_values load; /* first: rows of both tables have their offsets from here */
        double             budget_ms;
        char              *objective;
        int64_t            max_instances, max_threads;
        uint64_t           window_ms;
        int64_t            percentile;
        bool               is_exhaustive;
};

extern const struct option_table tune_option_table;

struct tune_plan {
        struct load_plan    load;
        enum tune_objective objective;
        double              budget_ns;
        uint64_t            max_instances, max_threads;
        bool                is_exhaustive;
        bool                seeks_load; /* no load is given: find one */
};

void tune_values_init(struct tune_values *v);
void tune_values_done(struct tune_values *v);
/* `model`: the argument; NULL: --model-name. INVALID_ARG names the option. */
struct error *tune_plan_read(struct tune_values *v, const char *model, struct tune_plan *ret)
        NODISCARD;
void tune_plan_done(struct tune_plan *p);
