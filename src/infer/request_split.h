/* SPDX-License-Identifier: BSD-3-Clause */
/* A request that is run in parts: its rows are taken a few at a time, each part is an inference of its
 * own, and their outputs, one after the other, are the answer.
 *
 *     request of 5 rows    [0 1 2 3 4]
 *     parts                [0 1 2 3]  on one instance        [4]  on another
 *     outputs              rows 0 to 3 ----------------+------ row 4
 *                                                      one response, one release
 *
 * That is legal since a model with max_batch_size promises that rows do not depend on each other. The
 * parts borrow the bytes of their rows from the request; those of BYTES inputs are found by walking over
 * the elements, once. The answer comes when the last part has ended; a part that failed makes the
 * whole one fail, with its error. While rows still wait, `batch_size` of the request is their number.
 *
 * Ownership.  Made for a request that its scheduler has, and ends with the request's release. A part is
 * the split's.
 * Threads.  begin() and take() under the scheduler's lock; parts are made and end on any thread.
 */
#pragma once

#include "base/error.h"
#include "observe/model_stats.h"

#include <stdbool.h>
#include <stdint.h>

struct request;
struct split_part;

/* The first part is about to be taken. */
void request_split_begin(struct request *req);
/* The next n_rows, at most batch_size: all of them, and the request is not queued any more. */
struct split_part *request_split_take(struct request *req, uint64_t n_rows);
/* The request that it is a part of. */
struct request *split_part_request(const struct split_part *part);
/* The rows that wait are given up (a cancellation). The answer is `why` once the parts that run have
 * ended, perhaps at once. No lock may be held. */
void request_split_give_up(struct request *req, const struct error *why,
                           enum failure_reason reason);

/* The request of the part, to be executed like any other and under way from now on. NULL: it could not
 * be made, and has ended. No lock may be held. */
struct request *split_part_make(struct split_part *part);

/* What its backend reports of a part (req->is_part): counted with the whole request. */
void split_part_report(struct request *req, const struct request_times *times);
