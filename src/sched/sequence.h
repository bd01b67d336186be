/* SPDX-License-Identifier: BSD-3-Clause */
/* The scheduler of stateful models: sequence_batching. All requests of a sequence go to one slot of
 * one instance, one after the other.
 *
 *     submit --> sequence_table --ready--> pull_engine of the instance --> sequence_instance --> backend
 *                    ^   '-- waits: in its sequence, or with its sequence in the backlog
 *                    '---------- released(): the next of the sequence, or of the backlog
 *
 * Each instance has an engine of its own (sched/pull_engine.h), with all that engines can: a thread,
 * run to completion, turns of the rate limiter. The strategies differ in its policy:
 *
 *     direct   a slot is a place in the batch (max_batch_size of them); policy_slots_new() decides when
 *              to run, sequence_batch.c fills the slots with nothing to run
 *     oldest   max_candidate_sequences slots; policy_dynamic.c makes dynamic batches of what is
 *              ready
 *
 * Ownership.  As of struct scheduler. An engine is kept when its instance leaves, and used again for
 * the next one that comes: threads may still be about to look at it.
 * Threads.  Lock rank LOCK_SEQUENCE, never held across a call out. What follows from an event is
 * done after it.
 */
#pragma once

#include "base/error.h"

struct sched_setup;
struct scheduler;

struct error *sequence_scheduler_new(const struct sched_setup *setup, struct scheduler **ret)
        NODISCARD;
