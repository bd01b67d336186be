/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters of one model's batching: batches by the reason why they ran, executions of its members, and
 * requests that were run in parts. "Member" and "virtual instance" are defined in docs/batching.md.
 *
 * Ownership.  A model_stats owns it. Members and virtual instances are added and never removed, so
 * pointers to their counters stay valid.
 * Threads.  Any. The counters are atomic; a mutex (rank LOCK_METRIC) guards the lists of members and
 * virtual instances.
 */
#pragma once

#include "base/strbuf.h"
#include "observe/metric.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* In the order of enum dispatch_reason (sched/policy.h). */
enum { N_BATCH_REASONS = 5 };

struct batch_counts;

/* Counters of one instance group. */
struct member_counts {
        _Atomic uint32_t min_rows, max_rows; /* rows that its batches may have */
        _Atomic uint32_t n_instances;        /* instances that exist now */
        _Atomic uint32_t n_running;          /* instances that execute now */
        _Atomic uint64_t n_executions;
        _Atomic uint64_t n_rows;
        _Atomic uint64_t busy_ns;
};

/* Counters of one virtual instance: the instances with one index, one of each group. */
struct virtual_counts {
        _Atomic uint64_t n_running;
};

/* `labels` are those of the model, copied. */
struct batch_counts *batch_counts_new(const struct metric_label *labels, size_t n_labels);
void                 batch_counts_free(struct batch_counts *c); /* NULL is fine */

/* Return the counters of a member or a virtual instance, created by the first call. */
struct member_counts  *batch_counts_member(struct batch_counts *c, const char *name);
struct virtual_counts *batch_counts_virtual_instance(struct batch_counts *c, uint32_t index);
void                   batch_counts_add_batch(struct batch_counts *c, unsigned reason);
void                   batch_counts_add_split(struct batch_counts *c);

bool batch_counts_have_members(struct batch_counts *c);
/* Calls `visit` for each member in order of creation, with the lock held: `visit` must not call
 * functions of this header. */
typedef void (*member_visit_fn)(void *userp, const char *name, const struct member_counts *m);
void batch_counts_visit(struct batch_counts *c, member_visit_fn visit, void *userp);

/* The metric families of batching. */
enum { N_BATCH_FAMILIES = 6 };
struct batch_family {
        const char      *name;
        const char      *help;
        enum metric_kind kind;
};
extern const struct batch_family batch_families[N_BATCH_FAMILIES];
/* True when the model has lines of that family, an index of batch_families. */
bool batch_counts_has(struct batch_counts *c, size_t family);
/* Prints the model's lines of that family. */
void batch_counts_print(struct batch_counts *c, size_t family, struct strbuf *out);
