/* SPDX-License-Identifier: BSD-3-Clause */
/* What executions of each batch size cost: a small array sorted by batch size.
 *
 * A model sees few different sizes, and mostly the one it saw last; so the last place found is
 * asked first, and the rest is a binary search.
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
        size_t              last; /* place of the last one found */
};

/* Zeroed memory is an empty table. */
void batch_table_done(struct batch_table *t);
/* The item of a size, made when missing; NULL when there are too many or memory is short. */
struct batch_stats *batch_table_at(struct batch_table *t, uint64_t batch_size);
void                batch_table_add(struct batch_table *t, const struct batch_stats *more);
