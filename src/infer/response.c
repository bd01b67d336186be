/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/response.h"

#include "base/clock.h"
#include "base/mem.h"
#include "config/labels.h"
#include "gpu/gpu.h"
#include "infer/model.h"
#include "infer/output_shape.h"
#include "infer/response_order.h"
#include "infer/staged_output.h"
#include "infer/trace.h"

#include <string.h>

#define RESPONSE_MAX_ARENA_BYTES (size_t)(64u << 20)

static struct error *out_of_memory(void) {
        return error_new(ERR_UNAVAILABLE, "out of memory for a response");
}

static NOINLINE bool copy_id(struct response *r, const char *id) {
        size_t len;
        char  *copy;

        len = strlen(id) + 1;
        copy = arena_try_alloc(&r->arena, len);
        if (copy == NULL)
                return false;
        r->source.id = memcpy(copy, id, len);
        return true;
}

static COLD struct error *sent_after_final(const struct response_source *s) {
        return error_new(ERR_INVALID_ARG,
                         "[request id: %s] model '%s' sent a response after the final one",
                         *s->id != '\0' ? s->id : "<id_unknown>", s->model->name);
}

/* After FINAL the allocator is not called, since its memory may be gone. */
static ALWAYS_INLINE struct error *start_allocator(const struct response_source *s) {
        if (s->allocator == NULL || s->allocator->start == NULL ||
            response_stream_has_ended(s->stream))
                return NULL;
        return s->allocator->start((struct response_allocator *)s->allocator, s->allocator_userp);
}

static ALWAYS_INLINE void init(struct response *r, const struct response_source *source,
                               bool is_lent) {
        r->source = *source;
        r->source.id = "";
        r->error = NULL;
        r->first_output = r->last_output = NULL;
        r->n_outputs = 0;
        r->parameters = (struct parameter_list){ 0 };
        r->is_lent = is_lent;
        r->has_staged = false;
        arena_init(&r->arena, r->first_memory, sizeof(r->first_memory), RESPONSE_MAX_ARENA_BYTES);
        if (!r->source.stream->borrows_model)
                model_ref(r->source.model);
        response_stream_ref(r->source.stream);
        if (r->source.ticket != NULL)
                response_ticket_ref(r->source.ticket);
        if (r->source.trace != NULL)
                trace_ref(r->source.trace);
}

static COLD struct error *note_lost(struct response_stream *s) {
        response_stream_note_lost(s);
        return out_of_memory();
}

/* Inlined, so that the source of a request's response is written once. */
static ALWAYS_INLINE struct response_result make_response(const struct response_source *source,
                                                          bool                          may_wait) {
        struct response *r;
        bool             is_lent;

        response_stream_enter(source->stream, sizeof(*r), may_wait);
        r = !mem_may_fail() ? response_stream_borrow(source->stream) : NULL;
        is_lent = r != NULL;
        if (!is_lent)
                r = try_alloc(sizeof(*r));
        if (r == NULL) {
                response_stream_leave(source->stream, sizeof(*r), 0);
                return (struct response_result){ .error = note_lost(source->stream) };
        }
        init(r, source, is_lent);
        if (*source->id != '\0' && !copy_id(r, source->id)) {
                response_free(r);
                return (struct response_result){ .error = note_lost(source->stream) };
        }
        /* A failure becomes the error of this response, since only a response reports it to the client. */
        r->error = start_allocator(&r->source);
        return (struct response_result){ .response = r };
}

/* Responses that wait for those of earlier requests are not written meanwhile, and the same backend may
 * have to create the earlier ones: so a response with a ticket does not wait for room. */
struct error *response_new_from(const struct response_source *source, struct response **ret) {
        struct response_result made = make_response(source, source->ticket == NULL);

        *ret = made.response;
        return made.error;
}

struct response_result response_make(const struct request *req) {
        const struct response_source source = response_source_of(req);

        return make_response(&source, source.ticket == NULL);
}

/* Returns the size of the buffer. */
static uint64_t release_buffer(struct response_output *o) {
        const struct response_allocator *a = o->lender;

        if (!o->has_buffer)
                return 0;
        if (a != NULL && a->release != NULL)
                error_free(a->release((struct response_allocator *)a, o->base, o->userp,
                                      o->byte_size, o->attributes.memory_type,
                                      o->attributes.memory_id));
        return o->byte_size;
}

void response_free(struct response *r) {
        struct response_stream *stream;
        struct model           *model;       /* NULL: the model is borrowed */
        uint64_t                n_bytes = 0; /* of its outputs */

        if (r == NULL)
                return;
        stream = r->source.stream;
        model = stream->borrows_model ? NULL : r->source.model;
        if (r->has_staged)
                staged_outputs_drop(r);
        for (struct response_output *o = r->first_output; o != NULL; o = o->next) {
                n_bytes += release_buffer(o);
                if (o->labels != NULL)
                        labels_free(o->labels);
        }
        error_free(r->error);
        if (r->source.ticket != NULL)
                response_ticket_unref(r->source.ticket);
        if (r->source.trace != NULL)
                trace_unref(r->source.trace);
        response_stream_leave(stream, sizeof(*r), n_bytes);
        if (r->arena.blocks != NULL) /* the next use of the memory begins a new arena */
                arena_done(&r->arena);
        if (r->is_lent)
                response_stream_lend(stream, r);
        else
                free(r);
        response_stream_unref(stream); /* last: it may hold the memory of this response */
        model_unref(model);
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

/* Adds an output with room for a shape of `cap_dims`; the caller fills it in. NULL: memory is short. */
static ALWAYS_INLINE struct response_output *add_output(struct response *r, const char *name,
                                                        size_t cap_dims, int64_t **ret_shape) {
        struct response_output *o;
        int64_t                *shape;

        o = arena_try_alloc(&r->arena, sizeof(*o) + cap_dims * sizeof(*shape));
        if (name == NULL || o == NULL)
                return NULL;
        shape = (int64_t *)(void *)(o + 1);
        /* Field by field: a compiler clears so large a struct with a loop. */
        o->name = name;
        o->shape = shape;
        o->base = NULL;
        o->byte_size = 0;
        o->userp = NULL;
        o->has_buffer = false;
        o->is_staged = false;
        o->n_redirects = 0;
        o->attributes = (struct buffer_attributes){ 0 };
        o->response = r;
        o->next = NULL;
        o->labels = NULL;
        if (r->last_output != NULL)
                r->last_output->next = o;
        else
                r->first_output = o;
        r->last_output = o;
        r->n_outputs++;
        *ret_shape = shape;
        return o;
}

static COLD struct error *too_many_dims(const char *name, size_t n_dims) {
        return error_new(ERR_INVALID_ARG,
                         "output '%s' has %zu dimensions, at most %d are supported", name, n_dims,
                         REQUEST_MAX_DIMS);
}

struct output_result response_append_output(struct response *r, const char *name,
                                            enum data_type type, const int64_t *dims,
                                            uint32_t n_dims) {
        const struct model_io_set *io = r->source.model->io;
        const struct model_io     *t = model_io_find_output_named(io, name, r->n_outputs);
        struct response_output    *o;
        int64_t                   *shape;

        if (n_dims > REQUEST_MAX_DIMS)
                return (struct output_result){ .error = too_many_dims(name, n_dims) };
        /* The model's own string lives as long as the response, which holds the model. */
        o = add_output(r, t != NULL ? t->name : arena_try_str(&r->arena, str_of(name)),
                       output_shape_max_dims(t, n_dims), &shape);
        if (o == NULL)
                return (struct output_result){ .error = out_of_memory() };
        o->type = type;
        o->n_dims = output_shape_restore(io, t, dims, n_dims, shape);
        return (struct output_result){ .output = o };
}

struct error *response_add_client_output(struct response *r, const char *name, enum data_type type,
                                         uint32_t n_dims, struct response_output **ret,
                                         int64_t **ret_shape) {
        if (n_dims > REQUEST_MAX_DIMS)
                return too_many_dims(name, n_dims);
        *ret = add_output(r, name, n_dims, ret_shape);
        if (*ret == NULL)
                return out_of_memory();
        (*ret)->type = type;
        (*ret)->n_dims = n_dims;
        return NULL;
}

static inline bool take_small(const struct response_source *s, struct response_output *o) {
        const struct response_allocator *a = s->allocator;

        if (a->small == NULL || o->attributes.memory_type != MEMORY_CPU)
                return false;
        o->base = a->small(s->allocator_userp, o->attributes.byte_size);
        if (o->base == NULL)
                return false;
        o->lender = NULL;
        o->attributes.memory_id = 0;
        return true;
}

/* Follows the redirections to the allocator that gives the memory. It replaces the preferred type and id in the output's
 * attributes by the actual ones. */
static NOINLINE struct error *take_from_origin(struct response_output *o) {
        const struct response_source *s = &o->response->source;
        struct memory_origin          m = { s->allocator, s->allocator_userp, o->name };
        struct buffer_attributes     *wanted = &o->attributes;

        o->n_redirects = 0;
        while (m.allocator->redirect != NULL && m.allocator->redirect(m.userp, m.name, &m))
                o->n_redirects++;
        o->lender = m.allocator;
        return m.allocator->alloc((struct response_allocator *)m.allocator, m.name,
                                  wanted->byte_size, wanted->memory_type, wanted->memory_id,
                                  m.userp, &o->base, &o->userp, &wanted->memory_type,
                                  &wanted->memory_id);
}

/* The allocator has given memory of a device to code that writes on the CPU. */
static struct error *stage_output(struct response_output *o) {
        struct gpus *gpus = o->response->source.model->gpus;

        if (gpus_find(gpus, o->attributes.memory_id) == NULL)
                return error_new(ERR_INVALID_ARG,
                                 "output '%s' is wanted in the memory of GPU %lld, which this "
                                 "server does not have; its GPUs are: %s",
                                 o->name, (long long)o->attributes.memory_id, gpus_list(gpus));
        return staged_output_begin(o);
}

/* Without GPUs the bytes may be anywhere, as in the reference server; nor is there anything to write without a
 * buffer. */
static bool needs_host(const struct response_output *o, enum output_writer writer) {
        const struct model *model = o->response->source.model;

        return model->gpus != NULL && (o->base != NULL || o->byte_size == 0) &&
               (writer == WRITER_ON_HOST ||
                (writer == WRITER_BACKEND && !model->takes_device_memory &&
                 !model->writes_device_memory));
}

/* Gives the writer an output for which the allocator has answered with memory of the device. */
static COLD struct error *give_on_device(struct response_output *o, enum output_writer writer,
                                         int64_t device, enum memory_type *type, int64_t *id,
                                         void **ret) {
        struct buffer_attributes given = { .memory_type = MEMORY_GPU, .memory_id = device };

        if (needs_host(o, writer)) {
                given = (struct buffer_attributes){ .memory_type = MEMORY_CPU };
                if (o->byte_size > 0) {
                        TRY(stage_output(o));
                        given = o->attributes;
                }
        }
        *type = given.memory_type;
        *id = given.memory_id;
        *ret = o->base;
        return NULL;
}

struct error *response_output_get(struct response_output *o, enum output_writer writer,
                                  uint64_t byte_size, enum memory_type *type, int64_t *id,
                                  void **ret) {
        struct response                 *r = o->response;
        const struct response_allocator *a = r->source.allocator;
        enum memory_type                 given_type;
        int64_t                          given_id;

        if (o->has_buffer)
                return error_new(ERR_ALREADY_EXISTS,
                                 "allocated buffer for output '%s' already exists", o->name);
        if (r->error != NULL)
                return error_copy(r->error);
        if (response_stream_has_ended(r->source.stream))
                return sent_after_final(&r->source);
        if (a == NULL)
                return error_new(ERR_INTERNAL, "no response allocator is set for output '%s'",
                                 o->name);
        o->attributes.memory_type = *type;
        o->attributes.memory_id = *id;
        o->attributes.byte_size = byte_size;
        if (!take_small(&r->source, o))
                TRY(take_from_origin(o));
        if (o->base == NULL && byte_size > 0 && !response_stream_is_queried(r->source.stream))
                return error_new(ERR_UNAVAILABLE, "no memory was given for output '%s'", o->name);
        o->has_buffer = true;
        o->byte_size = byte_size;
        response_stream_add_bytes(r->source.stream, byte_size);
        given_type = o->attributes.memory_type;
        given_id = o->attributes.memory_id;
        if (a->attributes != NULL)
                TRY(a->attributes((struct response_allocator *)a, o->name, &o->attributes,
                                  r->source.allocator_userp, o->userp));
        if (given_type == MEMORY_GPU)
                return give_on_device(o, writer, given_id, type, id, ret);
        *type = given_type;
        *id = given_id;
        *ret = o->base;
        return NULL;
}

struct error *response_take_buffer(struct response_output *to, struct response_output *from) {
        const struct response_allocator *a = to->response->source.allocator;

        to->base = from->base;
        to->byte_size = from->byte_size;
        to->attributes = from->attributes;
        to->userp = from->userp;
        to->lender = from->lender;
        to->n_redirects = from->n_redirects - 1;
        to->has_buffer = true;
        from->has_buffer = false;
        response_stream_add_bytes(from->response->source.stream, -(uint64_t)from->byte_size);
        response_stream_add_bytes(to->response->source.stream, to->byte_size);
        if (a->attributes == NULL)
                return NULL;
        return a->attributes((struct response_allocator *)a, to->name, &to->attributes,
                             to->response->source.allocator_userp, to->userp);
}

void response_set_labels(struct response_output *o, struct labels *labels, const char *name) {
        labels_ref(labels);
        o->labels = labels;
        o->labels_name = name;
}

const char *response_find_label(const struct response_output *o, size_t class_index) {
        if (o->labels != NULL)
                return labels_find(o->labels, o->labels_name, class_index);
        return labels_find(o->response->source.model->labels, o->name, class_index);
}

struct error *response_add_parameter(struct response *r, const struct parameter *p) {
        return parameter_list_add(&r->parameters, &r->arena, p) ? NULL : out_of_memory();
}

/* For the first response of a decoupled model: counts the time that the client waited for it. */
static void count_first_response(const struct response_source *s) {
        uint64_t start_ns = s->stream->start_ns;

        if (start_ns != 0 &&
            atomic_fetch_add_explicit(&s->stream->n_sent, 1, memory_order_relaxed) == 0)
                model_stats_first_response(s->model->stats, clock_now_ns() - start_ns);
}

/* A failure becomes the error of the response. */
static COLD void deliver_stages(struct response *r) {
        if (r->error == NULL)
                r->error = staged_outputs_copy(r);
        else
                staged_outputs_drop(r);
}

static COLD void report_outputs(struct response *r) {
        trace_report_outputs(r);
        trace_unref(STEAL(r->source.trace));
}

struct error *response_send(struct response *r, uint32_t flags, const struct error *why) {
        const struct response_source *s = &r->source;
        struct response_tap          *tap;

        if (!response_stream_may_send(s->stream, (flags & RESPONSE_FINAL) != 0)) {
                struct error *err = sent_after_final(s);

                response_free(r);
                return err;
        }
        if (why != NULL) {
                error_free(r->error);
                r->error = error_copy(why);
        }
        tap = response_stream_take_tap(s->stream);
        if (tap != NULL)
                tap->keep(tap, r, flags);
        if (s->trace != NULL)
                report_outputs(r);
        if (r->has_staged)
                deliver_stages(r);
        if (s->model->is_decoupled)
                count_first_response(s);
        if (s->ticket == NULL)
                s->on_response(r, flags, s->on_response_userp);
        else if (!response_ticket_send(s->ticket, r, flags))
                response_free(r);
        return NULL;
}

static COLD struct response *new_from_reserve(const struct response_source *s) {
        struct response *r = mem_alloc(sizeof(*r));

        response_stream_enter(s->stream, sizeof(*r), false);
        init(r, s, false);
        return r;
}

struct error *response_send_error(const struct response_source *s, const struct error *why) {
        struct response_result made = make_response(s, false);

        error_free(made.error);
        return response_send(made.response != NULL ? made.response : new_from_reserve(s),
                             RESPONSE_FINAL, why);
}

/* For a backend that had no memory for a response, and ends without it: the client learns of it. */
static COLD struct error *send_lost(const struct response_source *s) {
        static const struct error lost =
                ERROR_STATIC(ERR_UNAVAILABLE, "a response was lost: out of memory");

        return response_send_error(s, &lost);
}

struct error *response_source_send_flags(const struct response_source *s, uint32_t flags) {
        if ((flags & RESPONSE_FINAL) != 0 && response_stream_has_lost(s->stream))
                return send_lost(s);
        if (!response_stream_may_send(s->stream, (flags & RESPONSE_FINAL) != 0))
                return sent_after_final(s);
        if (s->ticket != NULL)
                response_ticket_send_flags(s->ticket, s, flags);
        else
                s->on_response(NULL, flags, s->on_response_userp);
        return NULL;
}

struct error *request_send_flags(const struct request *req, uint32_t flags) {
        struct response_source source = response_source_of(req);

        return response_source_send_flags(&source, flags);
}
