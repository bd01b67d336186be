/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows about the sequences of a table, for people.
 *
 * Threads.  The table's owner's lock. A call looks at a bounded number of slots and sequences.
 */
#pragma once

#include "infer/sequence_row.h"

struct sequence_place;
struct sequence_table;

struct sequence_listing {
        uint64_t             now_ns;
        struct sequence_row *rows; /* borrowed */
        size_t               cap;
        size_t               n;
};

/* Those with a slot of the instance, from *at on. True when that is done, false when the listing is
 * full or it took long enough; *at is where to go on. */
bool sequence_list_place(struct sequence_listing *l, const struct sequence_place *place,
                         const char *instance, uint32_t *at);
/* Those of the backlog that began after *after_ns. */
bool sequence_list_backlog(struct sequence_listing *l, const struct sequence_table *t,
                           uint64_t *after_ns);
