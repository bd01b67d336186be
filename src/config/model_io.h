/* SPDX-License-Identifier: BSD-3-Clause */
/* A model's inputs and outputs in the form that checks of requests use: flat arrays, sizes computed
 * once, names with their lengths.
 *
 * Built once from a checked configuration (model_config_check_io), in the configuration's order, so
 * an index is valid in both. Control and state tensors of sequences are not listed.
 *
 * Ownership.  A model_io_set owns copies of all data that it points to.
 * Threads.  Immutable after model_io_set_new(); shared freely.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/map.h"
#include "config/data_type.h"
#include "config/shape.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct model_config;

struct model_io {
        const char    *name; /* in arena */
        uint32_t       name_len;
        enum data_type type;
        uint32_t       n_dims;
        uint32_t       n_reshape;
        const int64_t *dims;    /* in arena; without the batch dimension, -1 = any */
        const int64_t *reshape; /* in arena; the backend's view, NULL when !has_reshape */
        /* Bytes of a tensor, of one row of a batch; 0 unless they are the same for all tensors, and a tensor reaches
         * the backend as it is: no strings, no dimension of -1, no reshape, no shape tensor. */
        uint64_t    fixed_bytes;
        bool        has_reshape;
        bool        is_optional; /* inputs: requests may leave it out */
        bool        is_ragged;   /* inputs: allow_ragged_batch */
        bool        is_variable; /* at least one dimension is -1 */
        bool        is_shape_tensor;
        const char *label_filename; /* in arena; outputs; NULL when none */
};

struct model_io_set {
        struct arena     arena;
        struct model_io *inputs; /* in arena */
        uint32_t         n_inputs;
        uint32_t         n_required_inputs; /* number of inputs that are not optional */
        struct model_io *outputs;           /* in arena */
        const char     **output_names;      /* in arena; names of all outputs */
        uint32_t         n_outputs;
        uint32_t         max_batch_size;            /* 0: the model has no batch dimension */
        struct map inputs_by_name, outputs_by_name; /* struct model_io; empty when they are few */
};

struct error *model_io_set_new(const struct model_config *c, struct model_io_set **ret) NODISCARD;
void          model_io_set_free(struct model_io_set *s); /* NULL is fine */

/* Finds by name; NULL when there is none. Linear, comparing lengths first, for models with few tensors,
 * for which this is faster than hashing. `hint` is the index to try first: callers that walk a
 * request in order pass the position in the request. */
const struct model_io *model_io_find_input(const struct model_io_set *s, struct str name,
                                           uint32_t hint);
const struct model_io *model_io_find_output(const struct model_io_set *s, struct str name,
                                            uint32_t hint);
/* The same for a text that ends with a NUL. */
const struct model_io *model_io_find_output_text(const struct model_io_set *s, const char *name,
                                                 uint32_t hint);

/* The same; fastest for a name that belongs to the set. */
static inline const struct model_io *model_io_find_output_named(const struct model_io_set *s,
                                                                const char *name, uint32_t hint) {
        if (hint < s->n_outputs && s->outputs[hint].name == name)
                return &s->outputs[hint];
        return model_io_find_output_text(s, name, hint);
}
