/* SPDX-License-Identifier: BSD-3-Clause */
/* The classification extension of KServe v2: the k largest elements of an output, as text.
 *
 * Each element becomes "<value>:<index>" or "<value>:<index>:<label>" in a BYTES tensor (uint32
 * length, bytes), largest first; equal values by index, NaN
 * last. Floats are printed with %f of C, integers in decimal.
 *
 * Threads.  Any.
 */
#pragma once

#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "triton/core/tritonserver.h"

#include <stddef.h>
#include <stdint.h>

/* The limit of the reference server. Larger outputs are not class scores. */
#define CLASSIFY_MAX_ELEMENTS 1000000

/* Returns the label of a class; NULL or "" when there is none. Borrowed until the next call. */
typedef const char *(*classify_label_fn)(void *labels, size_t class_index);

struct classify_source {
        TRITONSERVER_DataType datatype;
        struct str            bytes;     /* the tensor: n_rows rows of equal length */
        size_t                n_rows;    /* the batch size; 1 when the model does not batch */
        uint32_t              n_classes; /* requested per row; at most the length of a row */
        classify_label_fn     label;     /* NULL: no labels */
        void                 *labels;    /* borrowed: argument of label() */
};

/* Appends the tensor to `out`. *ret_n_classes is the number of classes of each row: the shape of
 * the result is [n_classes], or [n_rows, n_classes] for a model that batches. */
struct error *classify(const struct classify_source *s, struct strbuf *out, size_t *ret_n_classes)
        NODISCARD;
