/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether two requests may share a batch: the dynamic batcher's rules on equal shapes and ragged
 * inputs.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct model_io_set;
struct request;
struct siphash_key;

/* True when two requests of this model may share a batch only if request_same_shape() is true. This
 * holds for models with variable-size inputs that are not ragged, shape tensors, or optional inputs. */
bool model_io_needs_equal_shapes(const struct model_io_set *io);

/* True when both have the same inputs, with equal shapes apart from the batch dimension (unless ragged)
 * and equal contents of shape tensors. Both requests are prepared. */
bool request_same_shape(const struct request *a, const struct request *b);

/* A keyed hash of what request_same_shape() compares: equal for two requests that it calls the same,
 * and different for others but for a collision. The chance of a collision is 2^-64; a client cannot
 * increase it without the key. */
uint64_t request_shape_class(const struct request *req, const struct siphash_key *key);
