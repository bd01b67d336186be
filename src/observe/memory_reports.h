/* SPDX-License-Identifier: BSD-3-Clause */
/* What a backend has reported of the memory of a model: a list from the model itself and one from each instance. A new
 * report replaces that of the same owner; the statistics show the sums for each place.
 *
 * Ownership.  The object copies the lists. The texts of the types are constants.
 * Threads.  Any; a lock of rank LOCK_METRIC.
 */
#pragma once

#include "base/compiler.h"
#include "base/list.h"
#include "base/lock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct memory_usage {
        const char *type; /* "CPU", …; a constant */
        int64_t     id;
        uint64_t    byte_size;
};

struct memory_reports {
        struct mutex lock; /* rank LOCK_METRIC; guards the list */
        struct list  reports;
};

void memory_reports_init(struct memory_reports *m);
void memory_reports_done(struct memory_reports *m);

/* `owner` is compared only. False when memory is short: then the report before stays. */
bool memory_reports_set(struct memory_reports *m, const void *owner,
                        const struct memory_usage *usage, size_t n) NODISCARD;
/* To be called before the owner ends; also for one without a report. */
void memory_reports_remove(struct memory_reports *m, const void *owner);

/* Returns an owned list of *ret_n sums, in the order of their first report; NULL when there are none. A sum stays at
 * the largest value when it would overflow. */
struct memory_usage *memory_reports_sum(struct memory_reports *m, size_t *ret_n) NODISCARD;
