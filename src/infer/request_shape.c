/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/request_shape.h"

#include "base/siphash.h"
#include "config/model_io.h"
#include "config/shape.h"
#include "infer/model.h"
#include "infer/request.h"

#include <string.h>

bool model_io_needs_equal_shapes(const struct model_io_set *io) {
        for (uint32_t i = 0; i < io->n_inputs; i++) {
                const struct model_io *t = &io->inputs[i];

                if ((t->is_variable && !t->is_ragged) || t->is_shape_tensor || t->is_optional)
                        return true;
        }
        return false;
}

static bool same_contents(const struct request_input *a, const struct request_input *b) {
        const struct input_chunk *x = a->first_chunk, *y = b->first_chunk;

        /* Shape tensors are small and usually come in one chunk. Those in several chunks are not
         * compared, and count as different. */
        if (a->n_chunks > 1 || b->n_chunks > 1 || a->byte_size != b->byte_size)
                return false;
        return a->byte_size == 0 || memcmp(x->base, y->base, a->byte_size) == 0;
}

static bool same_input(const struct request_input *a, const struct request_input *b,
                       uint32_t n_batch_dims) {
        const struct model_io *t = a->io;

        if (t->is_shape_tensor) /* has no batch dimension */
                return shape_equal(a->shape, a->n_dims, b->shape, b->n_dims) && same_contents(a, b);
        if (t->is_ragged)
                return true;
        return a->n_dims == b->n_dims && a->n_dims >= n_batch_dims &&
               shape_equal(a->shape + n_batch_dims, a->n_dims - n_batch_dims,
                           b->shape + n_batch_dims, b->n_dims - n_batch_dims);
}

bool request_same_shape(const struct request *a, const struct request *b) {
        uint32_t              n_batch_dims = a->model->io->max_batch_size > 0 ? 1 : 0;
        struct request_input *y = b->first_input;

        if (a->n_inputs != b->n_inputs)
                return false;
        for (struct request_input *x = a->first_input; x != NULL; x = x->next) {
                struct request_input *same =
                        y != NULL && y->io == x->io ? y : request_find_input(b, x->name);

                if (same == NULL || !same_input(x, same, n_batch_dims))
                        return false;
                y = y != NULL ? y->next : NULL;
        }
        return true;
}

/* Contents in several chunks count as different from all others (same_contents()), so the address of
 * the input is hashed instead. */
static void hash_contents(uint64_t v[4], const struct request_input *in) {
        const char *bytes = in->n_chunks == 1 ? in->first_chunk->base : NULL;

        siphash_take(v, in->byte_size);
        if (in->n_chunks > 1)
                siphash_take(v, (uintptr_t)in);
        for (uint64_t at = 0; bytes != NULL && at < in->byte_size; at += sizeof(uint64_t)) {
                uint64_t word = 0;

                memcpy(&word, bytes + at, MIN(in->byte_size - at, sizeof(word)));
                siphash_take(v, word);
        }
}

static uint64_t input_class(const struct request_input *in, uint32_t n_batch_dims,
                            const struct siphash_key *key) {
        const struct model_io *t = in->io;
        uint64_t               v[4], hash[2];

        siphash_begin(v, key);
        siphash_take(v, (uintptr_t)t);
        if (!t->is_ragged || t->is_shape_tensor) {
                siphash_take(v, in->n_dims);
                for (uint32_t i = t->is_shape_tensor ? 0 : n_batch_dims; i < in->n_dims; i++)
                        siphash_take(v, (uint64_t)in->shape[i]);
        }
        if (t->is_shape_tensor)
                hash_contents(v, in);
        siphash_end(v, hash);
        return hash[0];
}

uint64_t request_shape_class(const struct request *req, const struct siphash_key *key) {
        uint32_t n_batch_dims = req->model->io->max_batch_size > 0 ? 1 : 0;
        uint64_t sum = req->n_inputs; /* the order of inputs does not matter */

        for (const struct request_input *in = req->first_input; in != NULL; in = in->next)
                sum += input_class(in, n_batch_dims, key);
        return sum;
}
