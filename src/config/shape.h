/* SPDX-License-Identifier: BSD-3-Clause */
/* Shapes: arrays of int64_t dimensions, -1 for a dimension of any size.
 *
 * Every count and size is computed with checked arithmetic, because dimensions come from peers
 * and from files. A count is either >= 0 or one of the negative values below.
 *
 * Threads.  Pure functions.
 */
#pragma once

#include "config/data_type.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct strbuf;

/* In configurations: a dimension whose size each request chooses. */
#define SHAPE_ANY_DIM INT64_C(-1)

#define SHAPE_VARIABLE INT64_C(-1)       /* some dimension is -1; or the elements are BYTES */
#define SHAPE_INVALID_DIM INT64_C(-2)    /* some dimension is below -1 */
#define SHAPE_OVERFLOW INT64_C(-3)       /* more than INT64_MAX elements */
#define SHAPE_BYTES_OVERFLOW INT64_C(-4) /* the count fits, count * size of an element does not */

/* The number of elements (1 for no dimensions), or VARIABLE, INVALID_DIM, OVERFLOW. An invalid
 * dimension takes precedence over a variable one, and that over an overflow. */
int64_t shape_element_count(const int64_t *dims, size_t n_dims);

/* The number of bytes, or one of the four values above. */
int64_t shape_byte_size(enum data_type type, const int64_t *dims, size_t n_dims);

bool shape_equal(const int64_t *a, size_t n_a, const int64_t *b, size_t n_b);

/* True when `dims` of the configuration allow `given`, a request's shape: as many dimensions, each
 * equal or -1 in the configuration; none of `given` negative. */
bool shape_matches(const int64_t *dims, size_t n_dims, const int64_t *given, size_t n_given);

/* True when at least one dimension is -1. */
bool shape_is_variable(const int64_t *dims, size_t n_dims);

/* Converts a concrete shape to another form of the same tensor (model configuration: reshape):
 * `given` has the form `from`; ret[0 .. n_to) becomes `to` with each -1 replaced by the size that
 * `given` has at the next -1 of `from`. Inputs go from dims to reshape, outputs from reshape to
 * dims. False when `given` is not of the form `from` or when the numbers of variable dimensions
 * differ; ret is then undefined. */
struct shape_form {
        const int64_t *dims; /* borrowed */
        size_t         n_dims;
};
bool shape_reshape(struct shape_form from, struct shape_form to, const int64_t *given,
                   int64_t *ret);

/* Prints "[1,16]" or "[]", as in messages and logs. */
void shape_print(const int64_t *dims, size_t n_dims, struct strbuf *to);
