/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/tensor_bridge.h"

#include <string.h>

static bool fits_shape(struct shape_form config, struct shape_form shape) {
        if (config.n_dims != shape.n_dims)
                return false;
        for (size_t i = 0; i < shape.n_dims; i++)
                if (config.dims[i] != SHAPE_ANY_DIM && config.dims[i] != shape.dims[i])
                        return false;
        return true;
}

enum tensor_bridge tensor_bridge_choose(struct shape_form config, bool has_batch,
                                        uint64_t batch_size, struct shape_form shape) {
        if (has_batch == (batch_size != 0))
                return BRIDGE_NONE;
        if (has_batch)
                return fits_shape(config, shape) ? BRIDGE_ADD_ONE : BRIDGE_NONE;
        return batch_size == 1 && shape.n_dims > 0 && !fits_shape(config, shape) ? BRIDGE_DROP_ONE
                                                                                 : BRIDGE_NONE;
}

void tensor_bridge_apply(enum tensor_bridge bridge, struct shape_form shape,
                         struct bridged_shape *ret) {
        ret->dims = shape.dims;
        ret->n_dims = (uint32_t)shape.n_dims; /* at most REQUEST_MAX_DIMS, as of every tensor */
        if (bridge == BRIDGE_ADD_ONE) {
                ret->room[0] = 1;
                if (shape.n_dims > 0)
                        memcpy(&ret->room[1], shape.dims, shape.n_dims * sizeof(*shape.dims));
                ret->dims = ret->room;
                ret->n_dims++;
        } else if (bridge == BRIDGE_DROP_ONE) {
                ret->dims++;
                ret->n_dims--;
        }
}
