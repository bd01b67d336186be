/* SPDX-License-Identifier: BSD-3-Clause */
/* What a load needs to know of a model: its tensors and how it is scheduled, from the server's metadata and
 * configuration.
 *
 * Ownership.  load_model_done() frees the texts.
 * Threads.  Constant after it was read.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOAD_MAX_DIMS 32

struct load_shape {
        int64_t dims[LOAD_MAX_DIMS];
        size_t  n;
};

struct load_tensor {
        const char       *name;          /* in arena */
        const char       *datatype;      /* static: "FP32" */
        size_t            element_bytes; /* 0: BYTES */
        struct load_shape shape;         /* of one row; -1: variable */
        bool              is_optional;
};

struct load_step {
        const char *model, *version; /* in arena; version NULL: the newest */
};

struct load_model {
        struct arena        arena;          /* owned */
        const char         *name, *version; /* in arena; version NULL: the newest */
        const char         *found_version;  /* of the metadata: the last of its versions */
        uint64_t            max_batch;
        struct load_tensor *inputs, *outputs; /* in arena */
        size_t              n_inputs, n_outputs;
        bool                is_sequence, is_decoupled, has_cache;
        struct load_step   *steps; /* of an ensemble or a chain; in arena */
        size_t              n_steps;
};

/* INVALID_ARG when the texts are not those of a model. */
struct error *load_model_read(const char *name, const char *version, struct str metadata,
                              struct str config, struct load_model *ret) NODISCARD;
/* A model of which nothing but the name is known. */
void load_model_init_bare(const char *name, struct load_model *ret);
void load_model_done(struct load_model *m);
/* True when an earlier step has the same model and version: its statistics are the same. */
bool load_model_repeats_step(const struct load_model *m, size_t step);
/* The version in the name of the step's file: "1" stands for the newest, as for Triton's tool, unless another step has
 * that one. */
const char *load_model_step_file_version(const struct load_model *m, size_t step);
/* "model", or "model:version" when other steps have another version of it. Owned by the caller. */
char                     *load_model_step_name(const struct load_model *m, size_t step);
const struct load_tensor *load_model_input(const struct load_model *m, struct str name);
const struct load_tensor *load_model_output(const struct load_model *m, struct str name);

/* Reads "3,224,224"; INVALID_ARG. */
struct error *load_shape_read(struct str text, struct load_shape *ret) NODISCARD;
/* Number of elements; INVALID_ARG when a dimension is negative or there are more than 2^28. */
struct error *load_shape_count(const struct load_shape *s, uint64_t *ret) NODISCARD;
bool          load_shape_equal(const struct load_shape *a, const struct load_shape *b);
/* True when `s` is `model` with values for its variable dimensions. */
bool load_shape_fits(const struct load_shape *s, const struct load_shape *model);
