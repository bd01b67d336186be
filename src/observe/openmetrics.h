/* SPDX-License-Identifier: BSD-3-Clause */
/* Converts a page of the Prometheus text format 0.0.4 to OpenMetrics 1.0.
 *
 * The samples keep their names and labels, so that rules and boards work with either format:
 *
 *     counter with "_total" in its name     the family is named without it, its samples with it
 *     any other counter (nv_inference_...)  type "unknown", since a counter's samples must end in "_total"
 *     gauge, histogram                      as they are, except integers of `le`, which get ".0"
 *
 * Exemplars are part of the input already (metric_registry_print_exemplars).
 *
 * Threads.  Any.
 */
#pragma once

#include "base/str.h"
#include "base/strbuf.h"

/* Converts pages as metric.h prints them: a line HELP before each line TYPE. Does not write the line of the
 * end, so that several pages can follow each other. */
void openmetrics_convert(struct str page, struct strbuf *out);
/* Writes "# EOF", the last line. */
void openmetrics_end(struct strbuf *out);
