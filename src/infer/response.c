/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/response.h"

#include "base/mem.h"
#include "infer/model.h"
#include "infer/output_shape.h"
#include "infer/response_order.h"

#include <string.h>

#define RESPONSE_MAX_ARENA_BYTES (size_t)(64u << 20)

static struct error *out_of_memory(void) {
        return error_new(ERR_UNAVAILABLE, "out of memory for a response");
}

struct error *response_new(struct request *req, struct response **ret) {
        struct response *r = try_alloc(sizeof(*r));

        if (r == NULL)
                return out_of_memory();
        memset(r, 0, offsetof(struct response, arena));
        arena_init(&r->arena, r->first_memory, sizeof(r->first_memory), RESPONSE_MAX_ARENA_BYTES);
        model_ref(req->model);
        r->model = req->model;
        r->allocator = req->allocator;
        r->allocator_userp = req->allocator_userp;
        r->on_response = req->on_response;
        r->on_response_userp = req->on_response_userp;
        r->id = "";
        if (*req->id != '\0') {
                size_t len = strlen(req->id) + 1;
                char  *copy = arena_try_alloc(&r->arena, len);

                if (copy == NULL) {
                        response_free(r);
                        return out_of_memory();
                }
                r->id = memcpy(copy, req->id, len);
        }
        if (req->slot != NULL) {
                response_slot_ref(req->slot);
                r->slot = req->slot;
        }
        if (r->allocator != NULL && r->allocator->start != NULL) {
                struct error *err = r->allocator->start((struct response_allocator *)r->allocator,
                                                        r->allocator_userp);
                if (err != NULL) {
                        response_free(r);
                        return err;
                }
        }
        *ret = r;
        return NULL;
}

static void release_buffer(struct response *r, struct response_output *o) {
        if (!o->has_buffer || r->allocator->release == NULL)
                return;
        error_free(r->allocator->release((struct response_allocator *)r->allocator, o->base,
                                         o->userp, o->byte_size, o->attributes.memory_type,
                                         o->attributes.memory_id));
}

void response_free(struct response *r) {
        if (r == NULL)
                return;
        for (struct response_output *o = r->first_output; o != NULL; o = o->next)
                release_buffer(r, o);
        error_free(r->error);
        response_slot_unref(r->slot);
        model_unref(r->model);
        arena_done(&r->arena);
        free(r);
}

struct response_output *response_output_at(const struct response *r, uint32_t index) {
        struct response_output *o = r->first_output;

        while (o != NULL && index-- > 0)
                o = o->next;
        return o;
}

struct response_output *response_find_output(const struct response *r, const char *name) {
        for (struct response_output *o = r->first_output; o != NULL; o = o->next)
                if (strcmp(o->name, name) == 0)
                        return o;
        return NULL;
}

struct error *response_add_output(struct response *r, const char *name, enum data_type type,
                                  const int64_t *dims, uint32_t n_dims,
                                  struct response_output **ret) {
        struct response_output *o;
        size_t                  name_bytes = strlen(name) + 1;
        size_t                  cap_dims;
        char                   *name_copy;
        int64_t                *shape;

        if (n_dims > REQUEST_MAX_DIMS)
                return error_new(ERR_INVALID_ARG, "output '%s' has %u dimensions, at most %d are supported",
                                 name, n_dims, REQUEST_MAX_DIMS);
        o = arena_try_alloc(&r->arena, sizeof(*o));
        name_copy = o != NULL ? arena_try_alloc(&r->arena, name_bytes) : NULL;
        cap_dims = output_shape_max_dims(r->model->io, name, n_dims);
        shape = name_copy != NULL ? arena_try_alloc(&r->arena, cap_dims * sizeof(*shape)) : NULL;
        if (shape == NULL)
                return out_of_memory();
        memset(o, 0, sizeof(*o));
        o->name = memcpy(name_copy, name, name_bytes);
        o->type = type;
        o->shape = shape;
        o->response = r;
        o->n_dims = output_shape_restore(r->model->io, name, dims, n_dims, shape);
        if (r->last_output != NULL)
                r->last_output->next = o;
        else
                r->first_output = o;
        r->last_output = o;
        r->n_outputs++;
        *ret = o;
        return NULL;
}

struct error *response_output_buffer(struct response_output *o, uint64_t byte_size,
                                     enum memory_type *type, int64_t *id, void **ret) {
        struct response *r = o->response;
        enum memory_type actual_type = *type;
        int64_t          actual_id = *id;

        if (o->has_buffer)
                return error_new(ERR_ALREADY_EXISTS,
                                 "allocated buffer for output '%s' already exists", o->name);
        if (r->allocator == NULL)
                return error_new(ERR_INTERNAL, "no response allocator is set for output '%s'",
                                 o->name);
        TRY(r->allocator->alloc((struct response_allocator *)r->allocator, o->name, byte_size, *type,
                                *id, r->allocator_userp, &o->base, &o->userp, &actual_type,
                                &actual_id));
        if (o->base == NULL && byte_size > 0)
                return error_new(ERR_UNAVAILABLE, "no memory was given for output '%s'", o->name);
        o->has_buffer = true;
        o->byte_size = byte_size;
        o->attributes = (struct buffer_attributes){ .memory_type = actual_type,
                                                    .memory_id = actual_id,
                                                    .byte_size = byte_size };
        if (r->allocator->attributes != NULL)
                TRY(r->allocator->attributes((struct response_allocator *)r->allocator, o->name,
                                             &o->attributes, r->allocator_userp, o->userp));
        *type = actual_type;
        *id = actual_id;
        *ret = o->base;
        return NULL;
}

struct error *response_add_parameter(struct response *r, const struct parameter *p) {
        return parameter_list_add(&r->parameters, &r->arena, p) ? NULL : out_of_memory();
}

void response_send(struct response *r, uint32_t flags, const struct error *why) {
        if (why != NULL)
                r->error = error_copy(why);
        if (r->slot != NULL)
                response_slot_send(r->slot, r, flags);
        else
                r->on_response(r, flags, r->on_response_userp);
}

void request_send_flags(struct request *req, uint32_t flags) {
        if (req->slot != NULL)
                response_slot_send_flags(req->slot, req, flags);
        else
                req->on_response(NULL, flags, req->on_response_userp);
}
