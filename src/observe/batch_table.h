/* SPDX-License-Identifier: BSD-3-Clause */
/* Number and durations of executions by batch size: a small array sorted by batch size.
 *
 * A model runs few different batch sizes, and usually the same one as before. So a search tries the
 * item that it found last, and then does a binary search.
 *
 * Ownership.  Embedded; batch_table_done() frees the items.
 * Threads.  The caller locks.
 */
#pragma once

#include "observe/model_stats.h"

struct batch_table {
        struct batch_stats *items; /* owned; ascending batch_size */
        size_t              n;
        size_t              cap;
        size_t              last; /* index of the last item found */
};

/* Zeroed memory is an empty table. */
void batch_table_done(struct batch_table *t);
/* Returns the item of a batch size, created when missing. NULL when there are too many sizes, or
 * memory is short: then the caller does not count the execution. */
struct batch_stats *batch_table_at(struct batch_table *t, uint64_t batch_size);
/* Adds the counts and durations of `more` to the item of its batch size. */
void batch_table_add(struct batch_table *t, const struct batch_stats *more);
