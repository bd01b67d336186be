/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/request.h"

#include "base/clock.h"
#include "infer/cancel_watch.h"
#include "infer/host_inputs.h"
#include "infer/model.h"
#include "infer/request_memory.h"
#include "infer/response.h"
#include "infer/response_order.h"
#include "infer/step_request.h"
#include "infer/trace.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct request *request_new_borrowing(struct model *model) {
        struct request_memory *memory = request_memory_take();
        struct request        *req;

        if (memory == NULL)
                return NULL;
        req = &memory->request;
        memset(req, 0, offsetof(struct request, first_memory));
        arena_init(&req->arena, req->first_memory, sizeof(req->first_memory),
                   REQUEST_MAX_ARENA_BYTES);
        req->id = "";
        req->queued.due.due_ns = CLOCK_NEVER;
        response_stream_init(&req->own_stream, memory, request_memory_give);
        response_stream_lend(&req->own_stream, &memory->response);
        req->stream = &req->own_stream;
        req->own_stream.borrows_model = true;
        req->model = model;
        return req;
}

struct request *request_new(struct model *model) {
        struct request *req = request_new_borrowing(model);

        if (req == NULL)
                return NULL;
        model_ref(model);
        req->own_stream.borrows_model = false;
        return req;
}

void request_free(struct request *req) {
        if (req == NULL)
                return;
        assert(!req->has_host_copies);
        response_ticket_unref(req->order_ticket);
        if (!req->own_stream.borrows_model)
                model_unref(req->model);
        arena_done(&req->arena);
        if (req->stream != &req->own_stream)
                response_stream_unref(req->stream);
        response_stream_unref(
                &req->own_stream); /* frees the request, unless responses still hold it */
}

static struct error *out_of_memory(const struct request *req) {
        return request_error(req, ERR_UNAVAILABLE,
                             "out of memory, or the request is larger than %zu bytes",
                             REQUEST_MAX_ARENA_BYTES);
}

/* Copies a text into the request's arena, over the previous text; NULL beyond the arena's limit. */
static const char *keep_text(struct request *req, struct arena_room *room, const char *text) {
        size_t bytes = strlen(text) + 1;
        char  *copy = arena_room_get(&req->arena, room, bytes);

        return copy != NULL ? memmove(copy, text, bytes) : NULL; /* source and target may overlap */
}

struct error *request_set_id(struct request *req, const char *id) {
        const char *copy = "";

        if (id != NULL && *id != '\0')
                copy = keep_text(req, &request_spares(req)->id_room, id);
        if (copy == NULL)
                return out_of_memory(req);
        req->id = copy;
        return NULL;
}

struct error *request_set_correlation_text(struct request *req, const char *text) {
        const char *copy = keep_text(req, &request_spares(req)->correlation_room, text);

        if (copy == NULL)
                return out_of_memory(req);
        req->correlation = (struct correlation_id){ .text = copy };
        return NULL;
}

static struct error *name_too_long(const struct request *req, const char *what, size_t bytes) {
        return request_error(req, ERR_INVALID_ARG,
                             "the name of %s has %zu bytes, at most %d are supported", what, bytes,
                             REQUEST_MAX_NAME_BYTES);
}

static struct error *check_new_parameter(const struct request *req, const char *name) {
        size_t len = strlen(name);

        if (len > REQUEST_MAX_NAME_BYTES)
                return name_too_long(req, "a parameter", len);
        if (req->parameters.n >= REQUEST_MAX_PARAMETERS)
                return request_error(req, ERR_INVALID_ARG,
                                     "too many parameters in request, at most %d are supported",
                                     REQUEST_MAX_PARAMETERS);
        return NULL;
}

struct error *request_add_parameter(struct request *req, const struct parameter *p) {
        bool is_known = parameter_list_find(&req->parameters, p->name) != NULL;
        bool is_done;

        if (!is_known)
                TRY(check_new_parameter(req, p->name));
        is_done = is_known ? parameter_list_set(&req->parameters, &req->arena, p)
                           : parameter_list_add(&req->parameters, &req->arena, p);
        return is_done ? NULL : out_of_memory(req);
}

/* Returns a reused or a new output; NULL when memory is short. */
static struct requested_output *take_output(struct request *req) {
        struct requested_output *o = req->has_spares ? req->spares.outputs : NULL;

        if (o != NULL) {
                req->spares.outputs = o->next;
                return o;
        }
        o = arena_try_alloc(&req->arena, sizeof(*o));
        if (o != NULL)
                *o = (struct requested_output){ 0 };
        return o;
}

static void spare_output(struct request *req, struct requested_output *o) {
        struct request_spares *spares = request_spares(req);

        o->next = spares->outputs;
        spares->outputs = o;
}

struct error *request_add_output(struct request *req, const char *name) {
        struct requested_output **end = &req->first_output;
        struct requested_output  *o;
        size_t                    len = strlen(name);

        if (len > REQUEST_MAX_NAME_BYTES &&
            model_io_find_output(req->model->io, str_range(name, len), 0) == NULL)
                return name_too_long(req, "a requested output", len);
        if (req->n_outputs >= req->model->io->n_outputs + REQUEST_MAX_EXTRA_TENSORS)
                return request_error(req, ERR_INVALID_ARG,
                                     "too many requested outputs for model '%s', which has %u",
                                     req->model->name, req->model->io->n_outputs);
        for (; *end != NULL; end = &(*end)->next)
                if (strcmp((*end)->name, name) == 0)
                        return request_error(req, ERR_INVALID_ARG,
                                             "output '%s' already exists in request", name);

        o = take_output(req);
        if (o == NULL)
                return out_of_memory(req);
        o->name = keep_text(req, &o->name_room, name);
        o->next = NULL;
        if (o->name == NULL) {
                spare_output(req, o);
                return out_of_memory(req);
        }
        *end = o;
        req->n_outputs++;
        return NULL;
}

struct error *request_remove_output(struct request *req, const char *name) {
        struct requested_output *previous = NULL;

        for (struct requested_output *o = req->first_output; o != NULL; previous = o, o = o->next) {
                if (strcmp(o->name, name) != 0)
                        continue;
                if (previous != NULL)
                        previous->next = o->next;
                else
                        req->first_output = o->next;
                req->n_outputs--;
                spare_output(req, o);
                return NULL;
        }
        return request_error(req, ERR_INVALID_ARG, "output '%s' does not exist in request", name);
}

void request_remove_all_outputs(struct request *req) {
        struct requested_output **end = &req->first_output;
        struct request_spares    *spares;

        if (req->first_output == NULL)
                return;
        /* Keeps the order, so that the same names get the same memory again. */
        while (*end != NULL)
                end = &(*end)->next;
        spares = request_spares(req);
        *end = spares->outputs;
        spares->outputs = req->first_output;
        req->first_output = NULL;
        req->n_outputs = 0;
}

struct error *request_renew_stream(struct request *req) {
        struct response_stream *stream = response_stream_renew(req->stream);

        if (stream == NULL)
                return request_error(req, ERR_UNAVAILABLE, "out of memory");
        if (stream != req->stream && req->stream != &req->own_stream)
                response_stream_unref(req->stream);
        req->stream = stream;
        return NULL;
}

struct error *request_limit_responses(struct request *req, const struct response_limits *limits) {
        const struct byte_budget *b = limits->share != NULL ? limits->share->budget : NULL;

        if (response_stream_limit(req->stream, limits))
                return NULL;
        return request_error(req, ERR_UNAVAILABLE, "%s",
                             byte_budget_fits(b, sizeof(struct response)) ? "out of memory"
                                                                          : BYTE_BUDGET_USED_UP);
}

void request_cancel(struct request *req) {
        /* Both accesses are sequentially consistent. A scheduler that takes the request at the same
         * time writes the state and then reads the flag, so one of the two sees the other. The model
         * is read only after the state is PENDING: before, the request may be bound to another model. */
        cancel_watch_cancel(req->stream);
        if (atomic_load(&req->state) == REQUEST_PENDING)
                req->model->scheduler->ops->cancel(req->model->scheduler, req);
}

/* The backend had no memory for a response, and releases the request. When it has no factory either, no response can
 * follow, so this sends the last flag: without it the client would get no answer. */
static COLD void answer_lost(const struct request *req) {
        if (atomic_load_explicit(&req->stream->ref.count, memory_order_acquire) == 1 &&
            !response_stream_has_ended(req->stream))
                error_free(request_send_flags(req, RESPONSE_FINAL)); /* says what was lost */
}

void request_release(struct request *req, uint32_t flags) {
        struct model     *model = req->model;
        struct scheduler *s = model->scheduler; /* NULL while a model is warmed up */

        if (s != NULL && s->ops->released != NULL && s->ops->released(s, req, flags))
                return;
        if (response_stream_has_lost(req->stream))
                answer_lost(req);
        if (model->gpus != NULL)
                host_inputs_return(req);
        if (req->order_ticket != NULL)
                response_ticket_unref(STEAL(req->order_ticket));
        if (req->trace != NULL) {
                trace_report(req->trace, TRACE_REQUEST_END, clock_now_ns());
                trace_unref(STEAL(req->trace));
        }
        atomic_store_explicit(&req->state, REQUEST_RELEASED, memory_order_release);
        atomic_fetch_sub_explicit(&model->n_in_flight, 1, memory_order_relaxed);
        req->on_release(req, flags, req->on_release_userp);
}

void request_fail(struct request *req, const struct error *why, enum failure_reason reason) {
        struct response_source source = response_source_of(req);

        /* A part fails with its request, which is counted. */
        if (!request_is_null(req) && !req->is_part)
                model_stats_failure(req->model->stats, reason,
                                    clock_now_ns() - req->times.request_start_ns);

        /* An error when the backend had answered the request before it failed. */
        error_free(response_send_error(&source, why));
}

void request_refuse(struct request *req, const struct error *why, enum failure_reason reason) {
        request_fail(req, why, reason);
        request_release(req, REQUEST_RELEASE_ALL);
}
