/* SPDX-License-Identifier: BSD-3-Clause */
/* The report of `neso tune`: a table of what was tried, the lines to paste, the gain.
 */
#pragma once

#include "base/strbuf.h"
#include "tune/tune_run.h"

void tune_report_put(const struct tune_results *s, const struct tune_plan *plan,
                     struct strbuf *out);
/* The same as JSON, with each configuration as the server takes it. */
void tune_report_put_json(const struct tune_results *s, const struct tune_plan *plan,
                          struct strbuf *out);
