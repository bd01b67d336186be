/* SPDX-License-Identifier: BSD-3-Clause */
/* Values of tensors for `neso ctl infer`: made up, or taken from JSON; and shapes for them.
 *
 * FP16 and BF16 have no form in JSON on the wire: their values are bytes behind it.
 *
 * Ownership.  Output is appended to the caller's strbufs, which tell of overflow.
 * Threads.  Any.
 */
#pragma once

#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"

#include "triton/core/tritonserver.h"

#include <stdbool.h>
#include <stdint.h>

#define TENSOR_MAX_DIMS 32

struct tensor_shape {
        int64_t dims[TENSOR_MAX_DIMS];
        size_t  n;
};

/* "1,2,3"; INVALID_ARG. A JSON array of numbers, too. */
struct error *tensor_shape_read(struct str text, struct tensor_shape *ret) NODISCARD;
/* "[1,2,3]" */
void tensor_shape_print(const struct tensor_shape *s, struct strbuf *out);
/* Elements; INVALID_ARG beyond what a request may hold, or with a dimension below 0. */
struct error *tensor_shape_count(const struct tensor_shape *s, uint64_t *ret) NODISCARD;
/* Each -1 becomes 1. */
void tensor_shape_fix(struct tensor_shape *s);

/* The shape of values that were given as JSON: nested as deep as `model` has dimensions, that of the
 * nesting; a flat array, or one value, fills the dimensions of any size. */
struct error *tensor_shape_infer(struct str json, const struct tensor_shape *model,
                                 struct tensor_shape *ret) NODISCARD;

enum tensor_fill { TENSOR_ZEROS, TENSOR_RANDOM };

struct tensor_source {
        TRITONSERVER_DataType type;
        enum tensor_fill      fill;
        uint64_t              seed; /* of random values */
};

bool tensor_is_binary(TRITONSERVER_DataType type); /* FP16, BF16 */

/* `n` values as a flat JSON array. Small ones: they fit every type. */
void tensor_values_fill(const struct tensor_source *s, uint64_t n, struct strbuf *json);
/* A (nested) JSON array of numbers as FP16 or BF16, in the order in which they stand. INVALID_ARG. */
struct error *tensor_values_encode(TRITONSERVER_DataType type, struct str json, struct strbuf *out)
        NODISCARD;
/* The other way round: a flat JSON array. */
void tensor_values_decode(TRITONSERVER_DataType type, struct str bytes, struct strbuf *json);
