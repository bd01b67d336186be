/* SPDX-License-Identifier: BSD-3-Clause */
/* The request of a closing execution that the server makes: it shows a backend that a sequence has ended
 * for a reason that no request of a client reports, such as its idle time (sequence/sequence_table.h).
 *
 * It has the correlation id of the sequence, the flag END, and is cancelled. Its inputs are zeros, or
 * empty texts, of one batch element; a dimension of any size is 1; optional inputs are left out. Its
 * responses are dropped.
 *
 * Ownership.  It belongs to the scheduler and its backend until the release, which frees it. It holds a
 * reference to its model.
 * Threads.  Any.
 */
#pragma once

#include "base/error.h"

struct model;
struct request;
struct sequence;

/* The request is in flight: the caller submits it to an engine next. */
struct error *sequence_closing_new(struct model *model, const struct sequence *seq,
                                   struct request **ret) NODISCARD;
