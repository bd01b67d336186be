/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/request.h"

#include "base/mem.h"
#include "infer/model.h"

#include <string.h>

static struct error *too_large(const struct request *req) {
        return request_error(req, ERR_UNAVAILABLE, "out of memory for the request's inputs");
}

struct request_input *request_find_input(const struct request *req, const char *name) {
        for (struct request_input *in = req->first_input; in != NULL; in = in->next)
                if (strcmp(in->name, name) == 0)
                        return in;
        return NULL;
}

struct request_input *request_input_at(const struct request *req, uint32_t index) {
        struct request_input *in = req->first_input;

        while (in != NULL && index-- > 0)
                in = in->next;
        return in;
}

static void append_input(struct request *req, struct request_input *in) {
        in->request = req;
        if (req->last_input != NULL)
                req->last_input->next = in;
        else
                req->first_input = in;
        req->last_input = in;
        req->n_inputs++;
}

static struct error *add_input(struct request *req, const char *name,
                               struct request_input **ret_input) {
        size_t                name_bytes = strlen(name) + 1;
        struct request_input *in;
        char                 *copy;

        if (request_find_input(req, name) != NULL)
                return request_error(req, ERR_INVALID_ARG, "input '%s' already exists in request",
                                     name);
        if (req->n_inputs >= req->model->io->n_inputs + REQUEST_MAX_EXTRA_TENSORS)
                return request_error(req, ERR_INVALID_ARG,
                                     "too many inputs for model '%s', which has %u",
                                     req->model->name, req->model->io->n_inputs);
        in = arena_try_alloc(&req->arena, sizeof(*in));
        copy = in != NULL ? arena_try_alloc(&req->arena, name_bytes) : NULL;
        if (copy == NULL)
                return too_large(req);
        memset(in, 0, sizeof(*in));
        in->name = memcpy(copy, name, name_bytes);
        *ret_input = in;
        return NULL;
}

struct error *request_add_input(struct request *req, const char *name, enum data_type type,
                                const int64_t *dims, uint64_t n_dims) {
        struct request_input *in;
        int64_t              *shape;

        if (n_dims > REQUEST_MAX_DIMS)
                return request_error(req, ERR_INVALID_ARG,
                                     "input '%s' has %llu dimensions, at most %d are supported",
                                     name, (unsigned long long)n_dims, REQUEST_MAX_DIMS);
        TRY(add_input(req, name, &in));
        shape = arena_try_alloc(&req->arena, (size_t)n_dims * sizeof(*shape));
        if (shape == NULL)
                return too_large(req);
        if (n_dims > 0)
                memcpy(shape, dims, (size_t)n_dims * sizeof(*shape));
        in->type = type;
        in->given_shape = in->shape = shape;
        in->n_given_dims = in->n_dims = (uint32_t)n_dims;
        append_input(req, in);
        return NULL;
}

struct error *request_add_raw_input(struct request *req, const char *name) {
        struct request_input *in;

        if (req->n_inputs > 0)
                return request_error(req, ERR_INVALID_ARG,
                                     "raw input '%s' can't be added to request with other inputs",
                                     name);
        TRY(add_input(req, name, &in));
        in->is_raw = true;
        append_input(req, in);
        return NULL;
}

struct error *request_remove_input(struct request *req, const char *name) {
        struct request_input *previous = NULL;

        for (struct request_input *in = req->first_input; in != NULL;
             previous = in, in = in->next) {
                if (strcmp(in->name, name) != 0)
                        continue;
                if (previous != NULL)
                        previous->next = in->next;
                else
                        req->first_input = in->next;
                if (req->last_input == in)
                        req->last_input = previous;
                req->n_inputs--;
                return NULL;
        }
        return request_error(req, ERR_INVALID_ARG, "input '%s' does not exist in request", name);
}

void request_remove_all_inputs(struct request *req) {
        req->first_input = req->last_input = NULL;
        req->n_inputs = 0;
}

static struct error *no_such_input(const struct request *req, const char *name) {
        return request_error(req, ERR_INVALID_ARG, "input '%s' does not exist in request", name);
}

/* Appends to the sum of bytes; false when it would overflow. */
static bool count_bytes(struct request_input *in, size_t bytes) {
        return !__builtin_add_overflow(in->byte_size, (uint64_t)bytes, &in->byte_size);
}

struct error *request_append_bytes(struct request *req, const char *input, const void *base,
                                   const struct buffer_attributes *attributes,
                                   const char *host_policy) {
        struct request_input *in = request_find_input(req, input);
        struct input_chunk   *chunk;

        if (in == NULL)
                return no_such_input(req, input);
        if (attributes->byte_size == 0)
                return NULL;
        chunk = in->first_chunk == NULL ? &in->only_chunk
                                        : arena_try_alloc(&req->arena, sizeof(*chunk));
        if (chunk == NULL)
                return too_large(req);
        *chunk = (struct input_chunk){ .base = base, .attributes = *attributes };
        if (host_policy != NULL) {
                size_t len = strlen(host_policy) + 1;
                char  *copy = arena_try_alloc(&req->arena, len);

                if (copy == NULL)
                        return too_large(req);
                chunk->host_policy = memcpy(copy, host_policy, len);
        } else if (!count_bytes(in, attributes->byte_size)) {
                return too_large(req);
        }
        if (in->last_chunk != NULL)
                in->last_chunk->next = chunk;
        else
                in->first_chunk = chunk;
        in->last_chunk = chunk;
        in->n_chunks++;
        return NULL;
}

struct error *request_remove_bytes(struct request *req, const char *input) {
        struct request_input *in = request_find_input(req, input);

        if (in == NULL)
                return no_such_input(req, input);
        in->first_chunk = in->last_chunk = NULL;
        in->n_chunks = 0;
        in->byte_size = 0;
        return NULL;
}
