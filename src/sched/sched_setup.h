/* SPDX-License-Identifier: BSD-3-Clause */
/* Everything that the scheduler of a model with instances is made from. repo/scheduler_choice.h makes it.
 *
 * Ownership.  Says each field.
 */
#pragma once

#include "infer/executor.h"
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
