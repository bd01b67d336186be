/* SPDX-License-Identifier: BSD-3-Clause */
/* Neso's own scheduling options. They are model parameters:
 *
 *   inline_execution     auto (default), never, always: run to completion on the submitting thread
 *   inline_limit_us      for auto: only while executions take less than this on average (default 50)
 *
 *   adaptive_batching    off, idle, flow: see sched/adaptive.h. Default: --adaptive-batching; without
 *                        that option, off for dynamic_batching and flow for batch ranges
 *
 *   scheduler            default, baseline, triton, or the name of a plug-in. Default: --scheduler.
 *                        With baseline and triton there is no adaptive batching
 *
 * These two variables of the environment are those of the reference server, for tests that need a full
 * queue:
 *
 *   TRITONSERVER_DELAY_SCHEDULER=n   A dynamic batcher forms no batch before n requests are queued,
 *                                    once after each load of a model. The sequence strategy `direct`
 *                                    counts the requests of all slots.
 *   TRITONSERVER_BACKLOG_DELAY_SCHEDULER=n   `direct` also waits for n requests in the backlog.
 */
#pragma once

#include "base/error.h"
#include "sched/adaptive.h"

#include <stdbool.h>
#include <stdint.h>

struct model_config;
struct pull_options;
struct sched_setup;

/* Checks the parameters of a configuration before a scheduler is made from it. INVALID_ARG names
 * the parameter and the allowed values. */
struct error *sched_options_check(const char *model, const struct model_config *config) NODISCARD;

/* Reads TRITONSERVER_DELAY_SCHEDULER; 0 without it. INVALID_ARG names the variable and its value. */
struct error *sched_options_read_delay(uint64_t *ret_n_requests) NODISCARD;
/* Reads TRITONSERVER_BACKLOG_DELAY_SCHEDULER, in the same way. */
struct error *sched_options_read_backlog_delay(uint64_t *ret_n_requests) NODISCARD;

/* Returns the adaptive batching of the model, else that of the server, else `otherwise`. Errors as
 * above. */
struct error *sched_options_read_adaptive(const struct sched_setup *setup,
                                          enum adaptive_mode otherwise, enum adaptive_mode *ret);

/* Returns the name of the model's scheduler: that of the model; else that of the server, for models
 * whose scheduling it can decide; else "default". The name is borrowed. INVALID_ARG and UNSUPPORTED
 * explain why the model cannot have the scheduler that it names. */
struct error *sched_options_read_scheduler(const struct sched_setup *setup, const char **ret)
        NODISCARD;
/* True for a valid name of a scheduler: letters, digits, '_' and '-', at most 64 of them. */
bool scheduler_name_is_valid(const char *name);
bool sched_is_built_in(const char *scheduler);

/* True when the model forms batches that could run earlier or later: dynamic_batching, or batch
 * ranges. */
bool sched_has_batches(const struct model_config *config);
/* True when an instance takes certain batch sizes only, by `batch_ranges` or by its backend. */
bool sched_is_composite(const struct sched_setup *setup);

/* Fills in everything except the policy. Errors as above. */
struct error *sched_options_read(const struct sched_setup *setup, struct pull_options *ret);
