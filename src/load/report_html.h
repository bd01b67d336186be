/* SPDX-License-Identifier: BSD-3-Clause */
/* Results as one page of HTML, which needs no other file and no script: a table, and plots of the latencies and the
 * rate over the load, of the phases of a request, and of the latencies over time.
 *
 * Ownership.  Text is appended to the caller's strbuf.
 */
#pragma once

#include "base/strbuf.h"
#include "load/load_run.h"

void report_html_put(const struct load_results *results, const struct load_model *m,
                     const struct load_plan *plan, const struct target *t, struct strbuf *out);
