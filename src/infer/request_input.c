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

/* One that was removed, or a new one; NULL when memory is short. Its pieces of memory are kept. */
static struct request_input *take_input(struct request *req) {
        struct request_input *in = req->spare_inputs;

        if (in == NULL) {
                in = arena_try_alloc(&req->arena, sizeof(*in));
                if (in != NULL)
                        memset(in, 0, sizeof(*in));
                return in;
        }
        req->spare_inputs = in->next;
        *in = (struct request_input){
                .only_chunk = { .policy_room = in->only_chunk.policy_room },
                .name_room = in->name_room,
                .shape_room = in->shape_room,
                .reshaped_room = in->reshaped_room,
        };
        return in;
}

static struct input_chunk *take_chunk(struct request *req) {
        struct input_chunk *chunk = req->spare_chunks;

        if (chunk != NULL) {
                req->spare_chunks = chunk->next;
                return chunk;
        }
        chunk = arena_try_alloc(&req->arena, sizeof(*chunk));
        if (chunk != NULL)
                *chunk = (struct input_chunk){ 0 };
        return chunk;
}

static void spare_chunk(struct request *req, struct request_input *in, struct input_chunk *chunk) {
        if (chunk == &in->only_chunk)
                return;
        chunk->next = req->spare_chunks;
        req->spare_chunks = chunk;
}

static void spare_chunks(struct request *req, struct request_input *in) {
        for (struct input_chunk *chunk = in->first_chunk, *next; chunk != NULL; chunk = next) {
                next = chunk->next;
                spare_chunk(req, in, chunk);
        }
        in->first_chunk = in->last_chunk = NULL;
        in->n_chunks = 0;
        in->byte_size = 0;
}

static void spare_input(struct request *req, struct request_input *in) {
        spare_chunks(req, in);
        in->next = req->spare_inputs;
        req->spare_inputs = in;
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

        if (name_bytes > REQUEST_MAX_NAME_BYTES + 1 &&
            model_io_find_input(req->model->io, str_of(name), 0) == NULL)
                return request_error(req, ERR_INVALID_ARG,
                                     "the name of an input has %zu bytes, at most %d are supported",
                                     name_bytes - 1, REQUEST_MAX_NAME_BYTES);
        if (request_find_input(req, name) != NULL)
                return request_error(req, ERR_INVALID_ARG, "input '%s' already exists in request",
                                     name);
        if (req->n_inputs >= req->model->io->n_inputs + REQUEST_MAX_EXTRA_TENSORS)
                return request_error(req, ERR_INVALID_ARG,
                                     "too many inputs for model '%s', which has %u",
                                     req->model->name, req->model->io->n_inputs);
        in = take_input(req);
        if (in == NULL)
                return too_large(req);
        copy = arena_room_get(&req->arena, &in->name_room, name_bytes);
        if (copy == NULL) {
                spare_input(req, in);
                return too_large(req);
        }
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
        shape = arena_room_get(&req->arena, &in->shape_room, (size_t)n_dims * sizeof(*shape));
        if (shape == NULL) {
                spare_input(req, in);
                return too_large(req);
        }
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
                spare_input(req, in);
                return NULL;
        }
        return request_error(req, ERR_INVALID_ARG, "input '%s' does not exist in request", name);
}

void request_remove_all_inputs(struct request *req) {
        for (struct request_input *in = req->first_input; in != NULL; in = in->next)
                spare_chunks(req, in);
        /* In order, so that the same inputs find the same places. */
        if (req->last_input != NULL) {
                req->last_input->next = req->spare_inputs;
                req->spare_inputs = req->first_input;
        }
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

static bool set_policy(struct request *req, struct input_chunk *chunk, const char *policy) {
        size_t bytes = policy != NULL ? strlen(policy) + 1 : 0;
        char  *copy;

        chunk->host_policy = NULL;
        if (policy == NULL)
                return true;
        copy = arena_room_get(&req->arena, &chunk->policy_room, bytes);
        if (copy == NULL)
                return false;
        chunk->host_policy = memcpy(copy, policy, bytes);
        return true;
}

struct input_chunk *request_prepend_chunk(struct request *req, struct request_input *in) {
        struct input_chunk *chunk = take_chunk(req);

        if (chunk == NULL)
                return NULL;
        chunk->host_policy = NULL;
        chunk->next = in->first_chunk;
        in->first_chunk = chunk;
        if (in->last_chunk == NULL)
                in->last_chunk = chunk;
        in->n_chunks++;
        return chunk;
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
        chunk = in->first_chunk == NULL ? &in->only_chunk : take_chunk(req);
        if (chunk == NULL)
                return too_large(req);
        chunk->base = base;
        chunk->attributes = *attributes;
        chunk->next = NULL;
        if (!set_policy(req, chunk, host_policy) ||
            (host_policy == NULL && !count_bytes(in, attributes->byte_size))) {
                spare_chunk(req, in, chunk);
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
        spare_chunks(req, in);
        return NULL;
}
