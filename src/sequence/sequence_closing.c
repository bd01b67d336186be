/* SPDX-License-Identifier: BSD-3-Clause */
#include "sequence/sequence_closing.h"

#include "config/shape.h"
#include "infer/cancel_watch.h"
#include "infer/inner_request.h"
#include "infer/model.h"
#include "infer/request.h"
#include "infer/response.h"
#include "sequence/sequence_table.h"

#include <string.h>

static void on_response(struct inner_request *r, struct response *response, uint32_t flags) {
        (void)r;
        (void)flags;
        response_free(response);
}

static const struct inner_request_ops ops = { .on_response = on_response,
                                              .on_end = inner_request_free };

static struct error *no_memory(void) {
        return error_new(ERR_UNAVAILABLE, "out of memory");
}

/* Size of zeros in this shape. For BYTES they are empty elements, whose lengths are zero. */
static int64_t count_zeros(enum data_type type, const int64_t *dims, uint32_t n_dims) {
        return type == DATA_TYPE_BYTES ? shape_byte_size(DATA_TYPE_UINT32, dims, n_dims)
                                       : shape_byte_size(type, dims, n_dims);
}

static struct error *add_zeros(struct request *req, const struct model_io *io) {
        struct buffer_attributes attributes = { 0 };
        int64_t                  dims[REQUEST_MAX_DIMS + 1];
        int64_t                  n_bytes;
        uint32_t                 n_dims = 0;
        void                    *zeros;

        if (io->n_dims > REQUEST_MAX_DIMS)
                return no_memory();
        if (req->model->io->max_batch_size > 0)
                dims[n_dims++] = 1;
        for (uint32_t i = 0; i < io->n_dims; i++)
                dims[n_dims++] = io->dims[i] == SHAPE_ANY_DIM ? 1 : io->dims[i];
        TRY(request_add_input(req, io->name, io->type, dims, n_dims));
        n_bytes = count_zeros(io->type, dims, n_dims);
        if (n_bytes == 0)
                return NULL;
        zeros = n_bytes > 0 ? arena_try_alloc(&req->arena, (size_t)n_bytes) : NULL;
        if (zeros == NULL)
                return no_memory();
        memset(zeros, 0, (size_t)n_bytes);
        attributes.byte_size = (uint64_t)n_bytes;
        return request_append_bytes(req, io->name, zeros, &attributes, NULL);
}

static struct error *fill_request(struct inner_request *r, const struct sequence *seq) {
        struct request            *req = r->request;
        const struct model_io_set *io = req->model->io;

        for (uint32_t i = 0; i < io->n_inputs; i++)
                if (!io->inputs[i].is_optional)
                        TRY(add_zeros(req, &io->inputs[i]));
        if (seq->link.id.text != NULL)
                TRY(request_set_correlation_text(req, seq->link.id.text));
        else
                req->correlation.number = seq->link.id.number;
        return inner_request_prepare(r);
}

struct error *sequence_closing_new(struct model *model, const struct sequence *seq,
                                   struct request **ret) {
        struct inner_request *r = inner_request_new(model, &ops, NULL);

        if (r == NULL)
                return no_memory();
        TRY_OR(fill_request(r, seq), inner_request_free(r));
        r->request->flags = REQUEST_SEQUENCE_END;
        r->request->is_null = true;
        r->request->runs_cancelled = true;
        cancel_watch_cancel(r->request->stream);
        inner_request_begin(r);
        *ret = r->request;
        return NULL;
}
