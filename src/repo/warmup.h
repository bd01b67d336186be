/* SPDX-License-Identifier: BSD-3-Clause */
/* Warm-up: runs samples of the configuration on an instance before it serves.
 *
 * A sample is batch_size single requests, which are executed together, count times. They bypass the
 * scheduler and count in the statistics. A failure fails the load. Inputs are zeros, random numbers
 * (zeros for strings) or a file of the model's warmup directory. Source: model configuration,
 * model_warmup.
 *
 * Ownership.  The caller owns the bytes of an input, and their charge.
 * Threads.  The thread on which the instance runs.
 */
#pragma once

#include "base/error.h"
#include "config/model_config.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct byte_budget;
struct executor;
struct model;

/* True when the instance takes the batch of the sample. An instance that is no member takes every
 * batch. */
bool warmup_fits(const Inference__ModelWarmup *sample, const struct executor *executor);

/* The first two end a warm-up between two batches. Each may be NULL: never. */
struct warmup_options {
        const atomic_bool *is_stopping; /* true: the server stops */
        const atomic_uint
                *n_superseding; /* not 0: changes of the model wait that make it needless */
        /* Charged for the inputs, requests and outputs of the sample that runs; NULL: no limit. Their sizes are
         * a few bytes of a configuration, which clients that may load models send. */
        struct byte_budget *budget; /* borrowed */
};

/* Runs the samples that fit the instance of that name. UNAVAILABLE when it ends early. */
struct error *warmup_run(struct model *model, const char *model_directory, const char *instance,
                         struct executor *executor, const struct warmup_options *options) NODISCARD;

struct warmup_bytes {
        char  *bytes; /* owned */
        size_t n;
        size_t n_charged;
};

/* Makes the bytes of one input of a sample. `name` is the input's, for messages. Files are read
 * below <model>/warmup. `budget` may be NULL; UNAVAILABLE when it has no room. After an error, too,
 * warmup_bytes_done() must be called. */
struct error *warmup_input_read(const Inference__ModelWarmup__Input *input, const char *name,
                                const char *model_directory, struct byte_budget *budget,
                                struct warmup_bytes *ret) NODISCARD;
void          warmup_bytes_done(struct warmup_bytes *b, struct byte_budget *budget);
