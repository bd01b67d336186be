/* SPDX-License-Identifier: BSD-3-Clause */
/* The plan of how many rows to run at once when each member of a model takes certain batch sizes only.
 *
 * A member takes batches of min_rows to max_rows rows. The plan of n rows is the list of executions
 * that serves them. It has as few executions as possible; of two lists of the same length it is the
 * one with the larger execution first. The plan depends on the ranges alone, so it is computed once and
 * looked up afterwards.
 *
 *   without waiting   While there are more rows than the largest size M, M rows run at a time. The rest
 *                     takes the fewest executions. Size 1 is required, so that every n can be served.
 *   with waiting      As many of the n rows as the sizes allow run, in the fewest executions. The rest
 *                     waits for more rows. This is exact up to ROW_PLAN_WINDOW rows, and for any number
 *                     of rows with M up to 1024. For more rows, M rows run at a time first.
 *
 * Ownership.  batch_sizes_done() frees what batch_sizes_init() allocated.
 * Threads.  Immutable after batch_sizes_init(), and shared freely.
 */
#pragma once

#include "base/error.h"
#include "base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Largest size of a member that a plan supports; larger batches need no plan. */
#define ROW_PLAN_MAX_ROWS ((uint32_t)1 << 16)
#define ROW_PLAN_WINDOW ((uint32_t)1 << 20)

struct row_range {
        uint32_t min_rows; /* at least 1 */
        uint32_t max_rows;
};

struct batch_sizes {
        struct row_range *sizes; /* owned: ascending, neither overlapping nor adjacent */
        size_t            n_sizes;
        uint32_t          max_rows;  /* M */
        uint32_t         *first;     /* owned: size of the first execution for n rows; 0: none */
        uint32_t          n_planned; /* `first` has entries 0 to n_planned */
};

/* Plans for at least one range, each with 1 <= min <= max <= ROW_PLAN_MAX_ROWS. Errors: INVALID_ARG
 * "cannot serve batch size 1 (smallest member minimum is <n>)" unless rows may wait; UNAVAILABLE. */
struct error *batch_sizes_init(struct batch_sizes *p, const struct row_range *ranges,
                               size_t n_ranges, bool may_wait) NODISCARD;
void          batch_sizes_done(struct batch_sizes *p);
/* Changes the plan to torchpipe's rule: always the largest size that there are enough rows for. */
void batch_sizes_make_greedy(struct batch_sizes *p);

/* Returns the size of the first execution for n waiting rows. The rest of the plan is the plan for
 * the rows that remain. 0: no batch runs, the rows wait. */
uint32_t batch_sizes_next(const struct batch_sizes *p, uint64_t n_rows);

/* True when some member takes a batch of this size. */
bool batch_sizes_has_size(const struct batch_sizes *p, uint64_t n_rows);

/* Prints the plan for a reader: "8,4,1"; "8, 2 wait". */
void batch_sizes_print(const struct batch_sizes *p, uint64_t n_rows, struct strbuf *to);

/* Prints the sizes for a message: "1,4-6,8". */
void batch_sizes_print_sizes(const struct batch_sizes *p, struct strbuf *to);
