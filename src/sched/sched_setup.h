/* SPDX-License-Identifier: BSD-3-Clause */
/* What every scheduler is made from; and the choice of one by the model's configuration.
 */
#pragma once

#include "infer/executor.h"
#include "infer/scheduler.h"
#include "sched/adaptive.h"

#include <stdbool.h>
#include <stdint.h>

struct batch_filter;
struct model;
struct metric_registry;
struct model_config;
struct policy;
struct rate_limiter;
struct timer_thread;

struct sched_setup {
        struct model        *model;     /* borrowed: will own the scheduler */
        struct executor    **executors; /* borrowed: outlive the scheduler; the array is copied */
        uint32_t             n_executors;
        struct timer_thread *timers;    /* borrowed: the server's */
        struct batch_filter *filter;    /* borrowed: outlives the scheduler; may be NULL */
        struct rate_limiter *limiter;   /* borrowed: the server's; NULL: nothing is limited */
        enum adaptive_mode   adaptive;  /* --adaptive-batching, for models that do not say */

        /* Of plug-ins; all borrowed for the call, but for the metrics, which outlive the scheduler. */
        const char             *scheduler; /* --scheduler, for models that do not say; NULL: default */
        const char             *scheduler_directory; /* NULL: none */
        const char             *model_directory;     /* NULL: none */
        bool                    is_sent;             /* what is there came with the load */
        struct metric_registry *metrics;             /* NULL: nothing is counted */
};

/* Every request is a batch of its own; any idle instance takes the next, first come first served. */
struct error *sched_default_new(const struct sched_setup *setup, struct scheduler **ret);

/* Batches by preferred size and delay, priorities, queue policies: dynamic_batching. */
struct error *sched_dynamic_new(const struct sched_setup *setup, struct scheduler **ret);

/* Instances that take certain batch sizes only: batch_ranges, or what their backend says. */
struct error *sched_composite_new(const struct sched_setup *setup, struct scheduler **ret);
bool          sched_is_composite(const struct sched_setup *setup);

/* Their policies alone. */
struct error *sched_dynamic_policy(const struct sched_setup *setup, struct policy **ret);
struct error *sched_composite_policy(const struct sched_setup *setup, struct policy **ret);

/* As the library of that name decides: sched/policy_plugin.h. */
struct error *sched_plugin_new(const struct sched_setup *setup, const char *name,
                               struct scheduler **ret);

/* Requests of a sequence one after the other on one instance: sequence_batching, see
 * sched/sequence.h. */
struct error *sched_sequence_new(const struct sched_setup *setup, struct scheduler **ret);

/* Does the model batch by a rule of its own, so that it may be asked why a batch ran? */
bool sched_has_batches(const struct model_config *config);

/* By the configuration's scheduling choice. Errors: those of sched_options_check(), and UNSUPPORTED
 * for what does not go together. */
struct error *sched_new(const struct sched_setup *setup, struct scheduler **ret);
