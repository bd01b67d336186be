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
#include "config/model_config.h"

#include <stdbool.h>
#include <stddef.h>

struct executor;
struct model;

/* Does the instance take the sample's batch? Of a model whose instances take all sizes each does. */
bool warmup_fits(const Inference__ModelWarmup *sample, const struct executor *executor);

/* The samples that fit. */
struct error *warmup_run(struct model *model, const char *model_directory,
                         struct executor *executor) NODISCARD;

struct warmup_bytes {
        char  *bytes; /* owned */
        size_t n;
};

/* The bytes of one input of a sample. `name` is the input's, for messages. Files are read beneath
 * <model>/warmup. */
struct error *warmup_input_read(const Inference__ModelWarmup__Input *input, const char *name,
                                const char *model_directory, struct warmup_bytes *ret) NODISCARD;
