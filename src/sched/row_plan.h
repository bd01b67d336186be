/* SPDX-License-Identifier: BSD-3-Clause */
/* How many rows to run at once when each member of a model takes batches of certain sizes only.
 *
 * A member takes batches of min_rows to max_rows rows. The plan of n rows is the list of executions
 * that serves them: as few as possible; of two lists of the same length, the one with the larger
 * execution first. It depends on the ranges alone, so it is computed once and looked up afterwards.
 *
 *   without waiting   n rows of more than the largest size M are served M at a time first; then the
 *                     fewest executions. Size 1 must be there, so that every n is served.
 *   with waiting      as many of the n rows as sizes allow, then the fewest executions; the rest
 *                     wait for others to come. Exact up to ROW_PLAN_WINDOW rows, and in any case
 *                     for M up to 1024; beyond, M at a time first.
 *
 * Ownership.  row_plan_done() frees what row_plan_init() made.
 * Threads.  Immutable after row_plan_init(); shared freely.
 */
#pragma once

#include "base/error.h"
#include "base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The largest size of a member: what is larger needs no plan. */
#define ROW_PLAN_MAX_ROWS ((uint32_t)1 << 16)
#define ROW_PLAN_WINDOW ((uint32_t)1 << 20)

struct row_range {
        uint32_t min_rows; /* 1 at least */
        uint32_t max_rows;
};

struct row_plan {
        struct row_range *sizes; /* owned: ascending, none touches another */
        size_t            n_sizes;
        uint32_t          max_rows;  /* M */
        uint32_t         *first;     /* owned: the first execution of so many rows; 0: none */
        uint32_t          n_planned; /* first[0] to first[n_planned] */
};

/* Of one range at least, each with 1 <= min <= max <= ROW_PLAN_MAX_ROWS. Errors: INVALID_ARG "cannot
 * serve batch size 1 (smallest member minimum is <n>)" unless it may wait, UNAVAILABLE. */
struct error *row_plan_init(struct row_plan *p, const struct row_range *ranges, size_t n_ranges,
                            bool may_wait) NODISCARD;
void          row_plan_done(struct row_plan *p);
/* Changes it to torchpipe's rule: always the largest size that the rows suffice for. */
void          row_plan_make_greedy(struct row_plan *p);

/* The size of the first execution for n waiting rows, the plan being this size and then the plan of
 * what remains. 0: nothing runs, they wait. */
uint32_t row_plan_next(const struct row_plan *p, uint64_t n_rows);

/* Is it the size of some member's batch? */
bool row_plan_has_size(const struct row_plan *p, uint64_t n_rows);

/* The plan for a reader: "8,4,1"; "8, 2 wait". */
void row_plan_print(const struct row_plan *p, uint64_t n_rows, struct strbuf *to);

/* Such sizes for a message: "1,4-6,8". */
void row_plan_print_sizes(const struct row_plan *p, struct strbuf *to);
