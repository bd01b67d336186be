/* SPDX-License-Identifier: BSD-3-Clause */
/* May two requests share a batch? Dynamic batcher, shape equality and ragged rules.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct model_io_set;
struct request;
struct siphash_key;

/* True when a batch of this model must be checked with request_same_shape(): it has
 * variable-size inputs that are not ragged, shape tensors, or optional inputs. */
bool model_io_needs_equal_shapes(const struct model_io_set *io);

/* The same inputs, with equal shapes apart from the batch dimension unless ragged, and equal
 * contents of shape tensors. Both requests are prepared. */
bool request_same_shape(const struct request *a, const struct request *b);

/* A number that is equal for two requests exactly when request_same_shape() is true of them, but for
 * a chance of 2^-64 that nobody can bring about who does not know the key. */
uint64_t request_shape_class(const struct request *req, const struct siphash_key *key);
