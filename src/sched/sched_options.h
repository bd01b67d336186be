/* SPDX-License-Identifier: BSD-3-Clause */
/* Scheduling options of our own, given as model parameters:
 *
 *   inline_execution     auto (default), never, always: run to completion on the submitting thread
 *   inline_limit_us      auto: only while executions take less than this on average (default 50)
 *
 *   adaptive_batching    off, idle, flow: see sched/adaptive.h; else --adaptive-batching, else off for
 *                        dynamic_batching
 *
 *   scheduler            default, baseline, triton, or the name of a plug-in; else --scheduler. Of the
 *                        built-in ones, baseline and triton have no adaptive batching
 *
 * and, as in the reference server, for tests that want a full queue:
 *
 *   TRITONSERVER_DELAY_SCHEDULER=n   in the environment: a dynamic batcher forms no batch before n
 *                                    requests are queued, once after each load of a model; of
 *                                    sequences, the strategy `direct` counts those of all slots
 *   TRITONSERVER_BACKLOG_DELAY_SCHEDULER=n   and `direct` waits for n requests in the backlog, too
 */
#pragma once

#include "base/error.h"
#include "sched/adaptive.h"

#include <stdbool.h>
#include <stdint.h>

struct model_config;
struct pull_options;
struct sched_setup;

/* Whether sched_new() can read the parameters of a configuration, before anything is made of it.
 * INVALID_ARG names the parameter and the values allowed. */
struct error *sched_options_check(const char *model, const struct model_config *config) NODISCARD;

/* TRITONSERVER_DELAY_SCHEDULER, 0 without it. INVALID_ARG names the variable and what it says. */
struct error *sched_options_read_delay(uint64_t *ret_n_requests) NODISCARD;
/* TRITONSERVER_BACKLOG_DELAY_SCHEDULER, as above. */
struct error *sched_options_read_backlog_delay(uint64_t *ret_n_requests) NODISCARD;

/* What the model says of adaptive batching, else the server, else `otherwise`. Errors as above. */
struct error *sched_options_read_adaptive(const struct sched_setup *setup,
                                          enum adaptive_mode otherwise, enum adaptive_mode *ret);

/* The name of the model's scheduler: what the model says; else the server's, for models whose
 * scheduling it can decide; else "default". Borrowed. INVALID_ARG and UNSUPPORTED say why the model
 * cannot have the one that it asks for. */
struct error *sched_options_read_scheduler(const struct sched_setup *setup, const char **ret)
        NODISCARD;
bool sched_is_built_in(const char *scheduler);

/* True when the model forms batches that could run earlier or later: dynamic_batching, or batch
 * ranges. */
bool sched_has_batches(const struct model_config *config);
/* True when an instance takes certain batch sizes only, by `batch_ranges` or by its backend. */
bool sched_is_composite(const struct sched_setup *setup);

/* Fills in all but the policy. Errors as above. */
struct error *sched_options_read(const struct sched_setup *setup, struct pull_options *ret);
