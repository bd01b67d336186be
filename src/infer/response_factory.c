/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/response_factory.h"

#include "base/mem.h"
#include "infer/model.h"
#include "infer/response_order.h"
#include "infer/trace.h"

#include <string.h>

struct error *response_factory_new(struct request *req, struct response_factory **ret) {
        struct response_factory *f;
        size_t                   id_bytes = strlen(req->id) + 1;

        f = try_alloc(sizeof(*f) + id_bytes);
        if (f == NULL)
                return error_new(ERR_UNAVAILABLE, "out of memory for a response factory");
        f->source = response_source_of(req);
        f->source.id = memcpy(f->id, req->id, id_bytes);
        model_ref(f->source.model);
        response_stream_ref(f->source.stream);
        f->cancel = request_cancel_stream(req);
        response_stream_ref(f->cancel);
        if (f->source.ticket != NULL)
                response_ticket_ref(f->source.ticket);
        if (f->source.trace != NULL)
                trace_ref(f->source.trace);
        atomic_fetch_add_explicit(&f->source.model->n_in_flight, 1, memory_order_relaxed);
        *ret = f;
        return NULL;
}

void response_factory_free(struct response_factory *f) {
        if (f == NULL)
                return;
        response_ticket_unref(f->source.ticket);
        trace_unref(f->source.trace);
        response_stream_unref(f->cancel);
        response_stream_unref(f->source.stream);
        atomic_fetch_sub_explicit(&f->source.model->n_in_flight, 1, memory_order_relaxed);
        model_unref(f->source.model);
        free(f);
}

struct error *response_factory_respond(struct response_factory *f, struct response **ret) {
        return response_new_from(&f->source, ret);
}

struct error *response_factory_send_flags(struct response_factory *f, uint32_t flags) {
        return response_source_send_flags(&f->source, flags);
}

/* A response with a ticket does not wait for room (response_new_from()). */
uint32_t response_factory_room(struct response_factory *f) {
        return f->source.ticket != NULL ? UINT32_MAX : response_stream_room(f->source.stream);
}

bool response_factory_when_room(struct response_factory *f, response_room_fn call, void *userp) {
        return f->source.ticket == NULL && response_stream_when_room(f->source.stream, call, userp);
}
