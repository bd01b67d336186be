/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints lines of the Prometheus text exposition format, version 0.0.4. */
#pragma once

#include "base/strbuf.h"
#include "observe/metric.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 32 hexadecimal or 20 decimal digits, and a NUL. */
#define PROMETHEUS_TRACE_ID_BYTES 33

/* "# HELP name help" and "# TYPE name kind". */
void prometheus_head(struct strbuf *out, const char *name, const char *help, enum metric_kind kind);
/* Prints `{a="x",b="y"}`, sorted by name, with escaped values; nothing without labels. */
void prometheus_labels(struct strbuf *out, const struct metric_label *labels, size_t n_labels);
/* The same as a text of its own, for labels that a configuration gives; never NULL. */
char *prometheus_labels_new(const struct metric_label *labels, size_t n_labels);
/* Prints integers without a dot, other values with the fewest digits that restore the same double. */
void prometheus_number(struct strbuf *out, double value);
void prometheus_sample(struct strbuf *out, const char *name, const char *labels_text, double value);

/* A traced request that was counted in a bucket. */
struct prometheus_exemplar {
        char     trace_id[PROMETHEUS_TRACE_ID_BYTES]; /* "": the bucket has none */
        double   value;                               /* of the request, in the histogram's unit */
        uint64_t wall_ns;                             /* when it was counted */
};

/* The counts of one histogram. Bounds are inclusive and ascending; values above the last one are
 * counted in counts[n_bounds], the bucket "+Inf". */
struct prometheus_histogram {
        const double   *bounds; /* borrowed */
        const uint64_t *counts; /* borrowed: n_bounds + 1, not cumulative */
        size_t          n_bounds;
        double          sum;
        /* Borrowed: n_bounds + 1. Only OpenMetrics has them, so NULL in other formats. */
        const struct prometheus_exemplar *exemplars;
};

/* Prints the lines name_bucket (with `le` as the last label), name_sum and name_count. */
void prometheus_histogram(struct strbuf *out, const char *name, const char *labels_text,
                          const struct prometheus_histogram *h);

/* Accepts [a-zA-Z_][a-zA-Z0-9_]*; the name of a family may contain ':' as well. */
bool prometheus_is_label_name(const char *name);
bool prometheus_is_family_name(const char *name);
