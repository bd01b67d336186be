/* SPDX-License-Identifier: BSD-3-Clause */
/* Values of tensors for `neso ctl infer`, generated or from JSON, and shapes for them.
 *
 * FP16 and BF16 have no JSON form in the protocol: their values are sent as bytes after the JSON.
 *
 * Ownership.  Output is appended to the caller's strbufs, which report overflow.
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

/* Reads "1,2,3" or a JSON array of numbers; INVALID_ARG. */
struct error *tensor_shape_read(struct str text, struct tensor_shape *ret) NODISCARD;
/* Prints "[1,2,3]". */
void tensor_shape_print(const struct tensor_shape *s, struct strbuf *out);
/* Counts the elements; INVALID_ARG beyond the limit of a request, or with a negative dimension. */
struct error *tensor_shape_count(const struct tensor_shape *s, uint64_t *ret) NODISCARD;
/* Replaces each -1 by 1. */
void tensor_shape_fix(struct tensor_shape *s);

/* Infers the shape of values in JSON. Values nested as deep as `model` has dimensions have the
 * shape of their nesting. The number of values of a flat array, or of one value, determines the
 * variable dimensions; one that leaves a rest is refused. */
struct error *tensor_shape_infer(struct str json, const struct tensor_shape *model,
                                 struct tensor_shape *ret) NODISCARD;

enum tensor_fill { TENSOR_ZEROS, TENSOR_RANDOM };

struct tensor_source {
        TRITONSERVER_DataType type;
        enum tensor_fill      fill;
        uint64_t              seed; /* for random values */
};

bool tensor_is_binary(TRITONSERVER_DataType type); /* True for FP16 and BF16. */

/* Puts `n` values as a flat JSON array; small ones, which fit every type. */
void tensor_values_fill(const struct tensor_source *s, uint64_t n, struct strbuf *json);
/* Encodes a (nested) JSON array of numbers as FP16 or BF16, in order. INVALID_ARG. */
struct error *tensor_values_encode(TRITONSERVER_DataType type, struct str json, struct strbuf *out)
        NODISCARD;
/* Decodes such bytes into a flat JSON array. */
void tensor_values_decode(TRITONSERVER_DataType type, struct str bytes, struct strbuf *json);
