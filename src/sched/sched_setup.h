/* SPDX-License-Identifier: BSD-3-Clause */
/* The scheduler of a model with instances: its parts, and the choice of it by the model's
 * configuration. Ensembles and chains have schedulers of their own (sched/ensemble.h, sched/chain.h).
 *
 *   default     Each request is a batch of its own.
 *   dynamic     dynamic_batching: preferred sizes, delay, priorities, queue policies.
 *   composite   Instances that take certain batch sizes only, by `batch_ranges` or by their backend.
 *   sequence    sequence_batching: sched/sequence.h.
 *   plug-in     A scheduler library decides: sched/policy_plugin.h.
 */
#pragma once

#include "infer/executor.h"
#include "infer/scheduler.h"
#include "sched/adaptive.h"

#include <stdbool.h>
#include <stdint.h>

struct batch_filter;
struct metric_registry;
struct model;
struct rate_limiter;
struct timer_thread;

struct sched_setup {
        struct model        *model;     /* borrowed: will own the scheduler */
        struct executor    **executors; /* borrowed: outlive the scheduler; the array is copied */
        uint32_t             n_executors;
        struct timer_thread *timers;   /* borrowed: the server's */
        struct batch_filter *filter;   /* borrowed: outlives the scheduler; may be NULL */
        struct rate_limiter *limiter;  /* borrowed: the server's; NULL: nothing is limited */
        enum adaptive_mode   adaptive; /* --adaptive-batching: for models without the parameter */

        /* For scheduler libraries. Borrowed for the call, except the metrics, which outlive the
         * scheduler. */
        const char *scheduler; /* --scheduler: for models without the parameter; NULL: default */
        const char *scheduler_directory; /* NULL: none */
        const char *model_directory;     /* NULL: none */
        bool        is_sent; /* the files of the model were uploaded with the load request */
        struct metric_registry *metrics; /* NULL: nothing is counted */
};

/* Makes the scheduler that the configuration chooses. Errors: those of sched_options_check(), and
 * INVALID_ARG or UNSUPPORTED for settings that exclude each other. */
struct error *sched_new(const struct sched_setup *setup, struct scheduler **ret) NODISCARD;
