/* SPDX-License-Identifier: BSD-3-Clause */
/* The results of `neso bench` for people.
 */
#pragma once

#include "base/strbuf.h"
#include "load/load_run.h"

void bench_report_put(const struct load_results *results, const struct load_model *m,
                      const struct load_plan *plan, struct strbuf *out);
