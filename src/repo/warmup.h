/* SPDX-License-Identifier: BSD-3-Clause */
/* Warm-up: samples of the configuration run on an instance before it serves.
 *
 * A sample is batch_size single requests executed together, count times. They bypass the
 * scheduler, are counted in the statistics, and a failure fails the load. Inputs are zeros,
 * random numbers (zeros for strings) or a file of the model's warmup directory.
 * Source: model configuration, model_warmup.
 */
#pragma once

#include "base/error.h"

struct executor;
struct model;

struct error *warmup_run(struct model *model, const char *model_directory, struct executor *executor)
        NODISCARD;
