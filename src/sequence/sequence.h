/* SPDX-License-Identifier: BSD-3-Clause */
/* The scheduler of stateful models: sequence_batching. All requests of a sequence go to one slot of one
 * instance, one after the other.
 *
 *     submit --> sequence_table --ready--> pull_engine of the instance --> sequence_instance --> backend
 *                    ^   '-- waits: in its sequence, or with its sequence in the backlog
 *                    '---------- released(): the next of the sequence, or of the backlog
 *
 * Each instance has its own engine (sched/pull_engine.h), with all features of an engine: a thread, run
 * to completion, permits of the rate limiter. The strategies differ in the policy of that engine:
 *
 *     direct   There are max_batch_size slots, and a slot is a position in the batch.
 *              policy_slots_new() decides when to run; sequence_batch.c fills the slots that have no
 *              request to run.
 *     oldest   There are max_candidate_sequences slots. policy_dynamic.c forms dynamic batches of the
 *              requests that are ready.
 *
 * Ownership.  As for struct scheduler. When an instance leaves, its engine is kept for the next
 * instance, because threads may still be about to use it.
 * Threads.  Lock rank LOCK_SEQUENCE. No call out is made under the lock: the results of an event are
 * handled after the lock was released.
 */
#pragma once

#include "base/error.h"
#include "sched/pull_engine.h"

#include <stdint.h>

struct scheduler;

struct sequence_options {
        struct pull_options engine; /* of each instance; without a policy */
        uint64_t hold_requests;     /* TRITONSERVER_DELAY_SCHEDULER (sched/sched_options.h) */
        uint64_t hold_backlog;      /* TRITONSERVER_BACKLOG_DELAY_SCHEDULER */
};

/* INVALID_ARG for controls or states that the model's configuration declares wrongly. */
struct error *sequence_new(const struct sequence_options *options, struct scheduler **ret)
        NODISCARD;
