/* SPDX-License-Identifier: BSD-3-Clause */
/* Results as CSV, with the columns of the reference's load generator, in microseconds.
 *
 * Ownership.  Text is appended to the caller's strbuf.
 */
#pragma once

#include "base/strbuf.h"
#include "load/load_run.h"

/* A row for each load, in order of rate. */
void report_csv_put(const struct load_results *results, const struct load_model *m,
                    const struct load_plan *plan, struct strbuf *out);
/* The same for one step of an ensemble; the client's columns are left out. */
void report_csv_put_step(const struct load_results *results, size_t step,
                         const struct load_plan *plan, struct strbuf *out);

/* The results in the order of their loads. Owned by the caller. */
const struct load_result **report_sort(const struct load_results *s);

/* Mean nanoseconds of a request's parts. */
struct report_phases {
        double queue, input, infer, output, hit, miss;
};
struct report_phases report_phases(const struct server_stats *s);
/* Mean nanoseconds of a request that neither the client nor the model accounts for. */
double report_network_ns(const struct load_result *r);
