/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/output_shape.h"

#include "config/model_io.h"
#include "config/shape.h"

size_t output_shape_max_dims(const struct model_io *t, uint32_t n_dims) {
        size_t n_restored = t != NULL && t->has_reshape ? (size_t)t->n_dims + 1 : 0;

        return n_restored > n_dims ? n_restored : n_dims;
}

/* False when the dims do not fit the reshape. Changes *n_dims to the number of restored ones. */
static bool undo_reshape(const struct model_io_set *io, const struct model_io *t,
                         const int64_t *dims, uint32_t *n_dims, int64_t *ret_dims) {
        bool     has_batch = io->max_batch_size > 0 && !t->is_shape_tensor;
        uint32_t n_batch_dims = has_batch && *n_dims > 0 ? 1 : 0;

        if (*n_dims != t->n_reshape + n_batch_dims ||
            !shape_reshape((struct shape_form){ t->reshape, t->n_reshape },
                           (struct shape_form){ t->dims, t->n_dims }, dims + n_batch_dims,
                           ret_dims + n_batch_dims))
                return false;
        if (n_batch_dims > 0)
                ret_dims[0] = dims[0];
        *n_dims = t->n_dims + n_batch_dims;
        return true;
}

uint32_t output_shape_restore(const struct model_io_set *io, const struct model_io *t,
                              const int64_t *dims, uint32_t n_dims, int64_t *ret_dims) {
        if (t != NULL && t->has_reshape && undo_reshape(io, t, dims, &n_dims, ret_dims))
                return n_dims;
        for (uint32_t i = 0; i < n_dims; i++)
                ret_dims[i] = dims[i];
        return n_dims;
}
