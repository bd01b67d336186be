/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes the scheduler of a model with instances, chosen by the model's configuration. Ensembles and
 * chains have schedulers of their own (pipeline/ensemble.h, pipeline/chain.h).
 *
 *   default     Each request is a batch of its own.
 *   dynamic     dynamic_batching: preferred sizes, delay, priorities, queue policies.
 *   composite   Instances that take certain batch sizes only, by `batch_ranges` or by their backend.
 *   sequence    sequence_batching: sequence/sequence.h.
 *   plug-in     A scheduler library decides: sched_plugin/policy_plugin.h.
 *
 * This file is in repo because it is the only one that knows all of sched, sequence and sched_plugin.
 */
#pragma once

#include "base/error.h"

struct sched_setup;
struct scheduler;

/* Makes the scheduler that the configuration chooses. Errors: those of sched_options_check(), and
 * INVALID_ARG or UNSUPPORTED for settings that exclude each other. */
struct error *sched_new(const struct sched_setup *setup, struct scheduler **ret) NODISCARD;
