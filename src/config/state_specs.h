/* SPDX-License-Identifier: BSD-3-Clause */
/* The implicit states of a model's sequences (sequence_batching.state), in the form that requests
 * use: sizes computed once, files read once.
 *
 * A value without initial_state begins as zeros (BYTES: empty texts), with 1 for each variable
 * dimension. initial_state gives its own dimensions, and zeros or a file of the model's directory
 * initial_state/.
 *
 * Ownership.  The specifications own all memory that they point to.
 * Threads.  Immutable after state_specs_new(); shared freely.
 */
#pragma once

#include "base/error.h"
#include "config/data_type.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct byte_budget;
struct gpus;
struct model_config;

struct state_spec {
        char          *input_name;
        char          *output_name;
        enum data_type type;
        uint32_t       n_dims;  /* with the batch dimension, which is 1 */
        int64_t       *dims;    /* shape of the first value of a sequence */
        void          *initial; /* first value, n_bytes long; NULL: zeros */
        size_t         n_bytes;
        bool           is_in_place; /* one buffer for the old and the new value */
        bool           is_growable; /* that buffer is on a device, and grows where it is */
};

struct state_specs {
        struct state_spec  *states;
        uint32_t            n;
        struct byte_budget *budget;    /* borrowed; the values are charged to it; NULL: no limit */
        size_t              n_charged; /* for the initial values */
        struct gpus        *gpus; /* borrowed, set by the loader; NULL: values are on the host */
};

/* Requires a checked configuration (model_config_check_states). *ret is NULL when the model has no
 * states. `budget` is the memory for the states of all sequences of all models; INVALID_ARG when the
 * states of one sequence never fit, UNAVAILABLE when the initial values do not fit now. NULL: no
 * limit. */
struct error *state_specs_new(const struct model_config *c, const char *model_directory,
                              struct byte_budget *budget, struct state_specs **ret) NODISCARD;
void          state_specs_free(struct state_specs *p); /* NULL is fine */
