/* SPDX-License-Identifier: BSD-3-Clause */
/* A request that runs in parts: each part is an inference of its own over a few rows of the request,
 * and the concatenated outputs of the parts are the answer.
 *
 *     request of 5 rows    [0 1 2 3 4]
 *     parts                [0 1 2 3]  on one instance        [4]  on another
 *     outputs              rows 0 to 3 ----------------+------ row 4
 *                          one response, one release
 *
 * That is correct since a model with max_batch_size promises that rows do not depend on each other.
 * The parts borrow the bytes of their rows from the request; the rows of BYTES inputs are located by
 * one walk over the elements. The answer is sent when the last part has ended; when a part fails, the
 * request fails with the same error. While the request is queued, its `batch_size` is the number of
 * rows that no part has taken yet.
 *
 * Ownership.  Created for a request that its scheduler owns, freed with the request's release. The
 * split owns its parts.
 * Threads.  begin() and take() run under the scheduler's lock; parts are created and end on any
 * thread.
 */
#pragma once

#include "base/error.h"
#include "observe/model_stats.h"

#include <stdbool.h>
#include <stdint.h>

struct request;
struct split_part;

/* To be called before the first part is taken. */
void request_split_begin(struct request *req);
/* Creates a part of the next n_rows rows, at most batch_size. After all rows were taken, the request
 * is not queued any more. */
struct split_part *request_split_take(struct request *req, uint64_t n_rows);
/* The request that the part belongs to. */
struct request *split_part_request(const struct split_part *part);
/* Drops the rows that no part has taken (for a cancellation). The request fails with `why` after the
 * running parts have ended; without any, at once. No lock may be held. */
void request_split_give_up(struct request *req, const struct error *why,
                           enum failure_reason reason);

/* Creates the request of the part, to be executed like any other; it is in flight from now on. NULL: it
 * could not be created, and the part has ended. No lock may be held. */
struct request *split_part_make(struct split_part *part);

/* Records the times that the backend reports for a part (req->is_part). They are added to the
 * statistics of the whole request when that ends. */
void split_part_report(struct request *req, const struct request_times *times);
