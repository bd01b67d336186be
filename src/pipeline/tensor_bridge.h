/* SPDX-License-Identifier: BSD-3-Clause */
/* The shape of a tensor that passes from a model with batches to one without, or back: a batch of
 * one is added or removed.
 *
 * Threads.  Pure functions.
 */
#pragma once

#include "config/shape.h"
#include "infer/request.h"

#include <stdbool.h>
#include <stdint.h>

enum tensor_bridge {
        BRIDGE_BY_SHAPE, /* a batch of one is added or removed if the dims do not match otherwise */
        BRIDGE_NONE,
        BRIDGE_ADD_ONE,
        BRIDGE_DROP_ONE,
};

struct bridged_shape {
        const int64_t *dims; /* those of the tensor, or in `room` */
        uint32_t       n_dims;
        int64_t        room[REQUEST_MAX_DIMS + 1];
};

/* Chooses for a model whose configuration has the dims `config`, without batch dimension. `batch_size`
 * is that of the tensor; 0: it has no batch dimension. */
enum tensor_bridge tensor_bridge_choose(struct shape_form config, bool has_batch,
                                        uint64_t batch_size, struct shape_form shape);
/* BRIDGE_DROP_ONE needs a shape with a dim. */
void tensor_bridge_apply(enum tensor_bridge bridge, struct shape_form shape,
                         struct bridged_shape *ret);
