/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/step_request.h"

#include "base/clock.h"
#include "infer/model.h"

bool request_renew(struct request *req, const struct model *model) {
        struct response_stream *stream = &req->own_stream;

        if (req->model != model ||
            atomic_load_explicit(&stream->ref.count, memory_order_acquire) != 1)
                return false;
        response_stream_reset(stream);
        atomic_store_explicit(&req->state, REQUEST_INITIALIZED, memory_order_relaxed);
        req->queued.due.due_ns = CLOCK_NEVER;
        req->kept_batch = 0;
        req->is_checked = true;
        req->batch_size = 0;
        req->has_device_inputs = false; /* until request_replace_input() */
        req->has_device_outputs = false;
        return true;
}

/* Bytes of a tensor of the model's shape, in which each -1 is any dimension; false: it has another shape, or its size does
 * not follow from it. Not inlined: its caller has no registers left for the loop. */
static NOINLINE bool size_of_variable(const struct model_io *io, const int64_t *dims,
                                      uint64_t *ret) {
        uint64_t size = data_type_size(io->type);

        if (size == 0 || io->has_reshape || io->is_shape_tensor)
                return false;
        for (uint32_t i = 0; i < io->n_dims; i++)
                if (dims[i] < 0 || (io->dims[i] != SHAPE_ANY_DIM && io->dims[i] != dims[i]) ||
                    __builtin_mul_overflow(size, (uint64_t)dims[i], &size))
                        return false;
        *ret = size;
        return true;
}

static inline bool equal_dims(const int64_t *a, const int64_t *b, uint32_t n) {
        for (uint32_t i = 0; i < n; i++)
                if (a[i] != b[i])
                        return false;
        return true;
}

/* Whether the model accepts the tensor. A false answer only means that the full check must decide. */
static inline bool fits_tensor(const struct model_io *io, bool is_batched, enum data_type type,
                               const int64_t *dims, uint32_t n_dims, uint64_t n_bytes) {
        const int64_t *row = dims + is_batched;
        uint64_t       size = io->fixed_bytes;

        if (type != io->type || n_dims != io->n_dims + is_batched)
                return false;
        if (size != 0 ? !equal_dims(row, io->dims, io->n_dims) : !size_of_variable(io, row, &size))
                return false;
        if (is_batched && (dims[0] < 0 || __builtin_mul_overflow(size, (uint64_t)dims[0], &size)))
                return false;
        return size == n_bytes;
}

bool request_replace_input(struct request *req, struct request_input *in, enum data_type type,
                           const int64_t *dims, uint32_t n_dims, const void *base,
                           const struct buffer_attributes *attributes) {
        uint32_t max_batch = req->model->io->max_batch_size;

        if (in->n_chunks != 1 || in->only_chunk.host_policy != NULL ||
            !fits_tensor(in->io, max_batch > 0, type, dims, n_dims, attributes->byte_size))
                return false;
        if (max_batch > 0) {
                if (dims[0] > (int64_t)max_batch ||
                    (in != req->first_input && (uint64_t)dims[0] != req->batch_size))
                        return false;
                req->batch_size = (uint64_t)dims[0];
        }
        in->type = type;
        in->shape = in->given_shape = dims;
        in->n_dims = in->n_given_dims = n_dims;
        in->byte_size = attributes->byte_size;
        in->only_chunk.base = base;
        in->only_chunk.attributes = *attributes;
        if (attributes->memory_type == MEMORY_GPU)
                req->has_device_inputs = true;
        return true;
}
