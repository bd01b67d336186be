/* SPDX-License-Identifier: BSD-3-Clause */
/* The inputs of a request, and the chunks that hold their bytes. */
#include "infer/model.h"
#include "infer/request.h"
#include "infer/step_request.h"

#include <string.h>

static struct error *out_of_memory(const struct request *req) {
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

/* Returns a reused or a new input; NULL when memory is short. A reused one keeps its memory in the
 * arena. */
static struct request_input *take_input(struct request *req) {
        struct request_input *in = req->has_spares ? req->spares.inputs : NULL;
        struct arena_room     policy_room = { 0 }, shape_room;
        bool                  has_rooms = false;

        if (in != NULL) {
                req->spares.inputs = in->next;
                policy_room = in->only_chunk.policy_room;
                shape_room = in->shape_room;
                has_rooms = in->has_rooms;
        } else {
                in = arena_try_alloc(&req->arena, sizeof(*in));
                if (in == NULL)
                        return NULL;
                shape_room = (struct arena_room){ in->few_dims, sizeof(in->few_dims) };
        }
        memset(in, 0, offsetof(struct request_input, few_dims));
        in->only_chunk.policy_room = policy_room;
        in->shape_room = shape_room;
        in->has_rooms = has_rooms;
        return in;
}

static struct input_chunk *take_chunk(struct request *req) {
        struct input_chunk *chunk = req->has_spares ? req->spares.chunks : NULL;

        if (chunk != NULL) {
                req->spares.chunks = chunk->next;
                return chunk;
        }
        chunk = arena_try_alloc(&req->arena, sizeof(*chunk));
        if (chunk != NULL)
                *chunk = (struct input_chunk){ 0 };
        return chunk;
}

static void spare_chunk(struct request *req, struct request_input *in, struct input_chunk *chunk) {
        struct request_spares *spares = request_spares(req);

        if (chunk == &in->only_chunk)
                return;
        chunk->next = spares->chunks;
        spares->chunks = chunk;
}

static void spare_chunks(struct request *req, struct request_input *in) {
        for (struct input_chunk *chunk = in->first_chunk, *next; chunk != NULL; chunk = next) {
                next = chunk->next;
                spare_chunk(req, in, chunk);
        }
        in->first_chunk = in->last_chunk = NULL;
        in->n_chunks = in->n_plain = 0;
        in->byte_size = 0;
}

static void spare_input(struct request *req, struct request_input *in) {
        struct request_spares *spares = request_spares(req);

        spare_chunks(req, in);
        in->next = spares->inputs;
        spares->inputs = in;
}

static void append_input(struct request *req, struct request_input *in) {
        struct request_input **end = &req->first_input;

        while (*end != NULL)
                end = &(*end)->next;
        *end = in;
        req->n_inputs++;
}

/* Sets the name: the model's own string if the model has this input, since the string outlives the
 * request, else a copy. False when memory is short. */
static bool set_name(struct request *req, struct request_input *in, struct str name) {
        char *copy;

        if (in->io != NULL) {
                in->name = in->io->name;
                return true;
        }
        copy = arena_room_get(&req->arena, &input_rooms(in)->name, name.len + 1);
        if (copy == NULL)
                return false;
        in->name = memcpy(copy, name.ptr, name.len + 1);
        return true;
}

static struct error *create_input(struct request *req, const char *name,
                                  struct request_input **ret_input) {
        struct str             text = str_of(name);
        const struct model_io *io = model_io_find_input(req->model->io, text, req->n_inputs);
        struct request_input  *in;

        if (text.len > REQUEST_MAX_NAME_BYTES && io == NULL)
                return request_error(req, ERR_INVALID_ARG,
                                     "the name of an input has %zu bytes, at most %d are supported",
                                     text.len, REQUEST_MAX_NAME_BYTES);
        if (request_find_input(req, name) != NULL)
                return request_error(req, ERR_INVALID_ARG, "input '%s' already exists in request",
                                     name);
        if (req->n_inputs >= req->model->io->n_inputs + REQUEST_MAX_EXTRA_TENSORS)
                return request_error(req, ERR_INVALID_ARG,
                                     "too many inputs for model '%s', which has %u",
                                     req->model->name, req->model->io->n_inputs);
        in = take_input(req);
        if (in == NULL)
                return out_of_memory(req);
        in->io = io;
        if (!set_name(req, in, text)) {
                spare_input(req, in);
                return out_of_memory(req);
        }
        *ret_input = in;
        return NULL;
}

static struct error *too_many_dims(const struct request *req, const char *name, uint64_t n_dims) {
        return request_error(req, ERR_INVALID_ARG,
                             "input '%s' has %llu dimensions, at most %d are supported", name,
                             (unsigned long long)n_dims, REQUEST_MAX_DIMS);
}

/* Sets type and shape, and appends the input to the list. */
static struct error *fill_in_input(struct request *req, struct request_input *in,
                                   enum data_type type, const int64_t *dims, size_t n_dims) {
        int64_t *shape;

        shape = arena_room_get(&req->arena, &in->shape_room, (size_t)n_dims * sizeof(*shape));
        if (shape == NULL) {
                spare_input(req, in);
                return out_of_memory(req);
        }
        if (n_dims > 0)
                memcpy(shape, dims, (size_t)n_dims * sizeof(*shape));
        in->type = type;
        in->given_shape = in->shape = shape;
        in->n_given_dims = in->n_dims = (uint32_t)n_dims;
        append_input(req, in);
        return NULL;
}

struct error *request_add_input(struct request *req, const char *name, enum data_type type,
                                const int64_t *dims, uint64_t n_dims) {
        struct request_input *in;

        if (n_dims > REQUEST_MAX_DIMS)
                return too_many_dims(req, name, n_dims);
        TRY(create_input(req, name, &in));
        return fill_in_input(req, in, type, dims, (size_t)n_dims);
}

struct error *request_add_known_input(struct request *req, const struct model_io *io,
                                      enum data_type type, const int64_t *dims, uint32_t n_dims,
                                      struct request_input **ret) {
        struct request_input *in;

        if (n_dims > REQUEST_MAX_DIMS)
                return too_many_dims(req, io->name, n_dims);
        in = take_input(req);
        if (in == NULL)
                return out_of_memory(req);
        in->io = io;
        in->name = io->name;
        TRY(fill_in_input(req, in, type, dims, n_dims));
        *ret = in;
        return NULL;
}

/* Copies names first, which may fail for lack of memory; no later step can fail. */
struct error *request_rebind(struct request *req, struct model *model) {
        struct model *old = req->model;
        uint32_t      at = 0;

        for (struct request_input *in = req->first_input; in != NULL; in = in->next) {
                const struct model_io *io = in->io;

                if (io == NULL || model_io_find_input(model->io, str_of(in->name), 0) != NULL)
                        continue;
                in->io = NULL;
                if (!set_name(req, in, str_of(in->name))) {
                        in->io = io;
                        return out_of_memory(req);
                }
                in->io = io;
        }
        for (struct request_input *in = req->first_input; in != NULL; in = in->next) {
                in->io = model_io_find_input(model->io, str_of(in->name), at++);
                if (in->io != NULL)
                        in->name = in->io->name;
        }
        model_ref(model);
        req->model = model;
        req->is_checked = false;
        if (!req->own_stream.borrows_model)
                model_unref(old);
        req->stream->borrows_model = req->own_stream.borrows_model = false;
        return NULL;
}

struct error *request_add_raw_input(struct request *req, const char *name) {
        struct request_input *in;

        if (req->n_inputs > 0)
                return request_error(req, ERR_INVALID_ARG,
                                     "raw input '%s' can't be added to request with other inputs",
                                     name);
        TRY(create_input(req, name, &in));
        in->is_raw = true;
        append_input(req, in);
        return NULL;
}

static struct error *no_such_input(const struct request *req, const char *name) {
        return request_error(req, ERR_INVALID_ARG, "input '%s' does not exist in request", name);
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
                req->n_inputs--;
                spare_input(req, in);
                return NULL;
        }
        return no_such_input(req, name);
}

void request_remove_all_inputs(struct request *req) {
        struct request_input **end = &req->first_input;
        struct request_spares *spares;

        if (req->first_input == NULL)
                return;
        req->has_device_inputs = false;
        for (; *end != NULL; end = &(*end)->next)
                spare_chunks(req, *end);
        /* Keeps the order, so that the same inputs get the same memory again. */
        spares = request_spares(req);
        *end = spares->inputs;
        spares->inputs = req->first_input;
        req->first_input = NULL;
        req->n_inputs = 0;
}

/* Adds to the input's byte size; false on overflow. */
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
        in->n_plain++;
        return chunk;
}

struct error *request_append_bytes(struct request *req, const char *input, const void *base,
                                   const struct buffer_attributes *attributes,
                                   const char                     *host_policy) {
        struct request_input *in = request_find_input(req, input);

        if (in == NULL)
                return no_such_input(req, input);
        return request_input_append(req, in, base, attributes, host_policy);
}

struct error *request_input_append(struct request *req, struct request_input *in, const void *base,
                                   const struct buffer_attributes *attributes,
                                   const char                     *host_policy) {
        struct input_chunk *chunk;

        if (attributes->byte_size == 0)
                return NULL;
        chunk = in->first_chunk == NULL ? &in->only_chunk : take_chunk(req);
        if (chunk == NULL)
                return out_of_memory(req);
        chunk->base = base;
        chunk->attributes = *attributes;
        chunk->next = NULL;
        if (attributes->memory_type == MEMORY_GPU)
                req->has_device_inputs = true;
        if (!set_policy(req, chunk, host_policy) ||
            (host_policy == NULL && !count_bytes(in, attributes->byte_size))) {
                spare_chunk(req, in, chunk);
                return out_of_memory(req);
        }
        if (in->last_chunk != NULL)
                in->last_chunk->next = chunk;
        else
                in->first_chunk = chunk;
        in->last_chunk = chunk;
        in->n_chunks++;
        in->n_plain += host_policy == NULL;
        return NULL;
}

struct error *request_remove_bytes(struct request *req, const char *input) {
        struct request_input *in = request_find_input(req, input);

        if (in == NULL)
                return no_such_input(req, input);
        spare_chunks(req, in);
        return NULL;
}
