/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines of the Prometheus text exposition format, version 0.0.4.
 */
#pragma once

#include "base/strbuf.h"
#include "observe/metric.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "# HELP name help" and "# TYPE name kind". */
void prometheus_head(struct strbuf *out, const char *name, const char *help, enum metric_kind kind);
/* `{a="x",b="y"}` sorted by name, values escaped; nothing for none. */
void prometheus_labels(struct strbuf *out, const struct metric_label *labels, size_t n_labels);
/* As C++ streams print a double: integers without a dot, else the shortest digits. */
void prometheus_number(struct strbuf *out, double value);
void prometheus_sample(struct strbuf *out, const char *name, const char *labels_text, double value);

/* The counts of one histogram. Bounds are inclusive and ascend; what lies above the last one is
 * counted in counts[n_bounds], the bucket "+Inf". */
struct prometheus_histogram {
        const double   *bounds; /* borrowed */
        const uint64_t *counts; /* borrowed: n_bounds + 1, not cumulative */
        size_t          n_bounds;
        double          sum;
};

/* The lines name_bucket (with `le` as the last label), name_sum and name_count. */
void prometheus_histogram(struct strbuf *out, const char *name, const char *labels_text,
                          const struct prometheus_histogram *h);

/* [a-zA-Z_][a-zA-Z0-9_]*, and ':' as well for the name of a family. */
bool prometheus_is_label_name(const char *name);
bool prometheus_is_family_name(const char *name);
