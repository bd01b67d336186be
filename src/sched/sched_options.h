/* SPDX-License-Identifier: BSD-3-Clause */
/* Scheduling options of our own, given as model parameters:
 *
 *   inline_execution     auto (default), never, always: run to completion on the submitting thread
 *   inline_limit_us      auto: only while executions take less than this on average (default 50)
 */
#pragma once

#include "base/error.h"

struct model_config;
struct pull_options;
struct sched_setup;

/* INVALID_ARG names the parameter and the values allowed. */
struct error *sched_options_check(const char *model, const struct model_config *config) NODISCARD;

/* Fills in all but the policy. Errors as above. */
struct error *sched_options_read(const struct sched_setup *setup, struct pull_options *ret);
