/* SPDX-License-Identifier: BSD-3-Clause */
/* One response: TRITONSERVER_InferenceResponse and TRITONBACKEND_Response are this.
 *
 * A backend makes it from a request, adds outputs, asks for their memory (which the front end's
 * allocator gives), and sends it. It does not depend on the request any more once made.
 *
 * Ownership.  The backend's until response_send(), then the front end's, which ends it with
 * response_free() (and the output memory with it, through the allocator's release).
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "config/data_type.h"
#include "infer/request.h"

#include <stdbool.h>
#include <stdint.h>

struct labels;

struct response_output {
        const char              *name;
        enum data_type           type;
        const int64_t           *shape; /* batch first, as the client sees it */
        uint32_t                 n_dims;
        void                    *base; /* from the allocator */
        size_t                   byte_size;
        void                    *userp; /* the allocator's */
        bool                     has_buffer;
        struct buffer_attributes attributes;
        struct response         *response;
        struct response_output  *next;
        /* Of an ensemble's output that has none of its own: its step's, by the name there. */
        struct labels *labels; /* ref; NULL: those of the model */
        const char    *labels_name;
};

/* Where the responses of one request belong. A request is one, a factory has a copy. */
struct response_source {
        struct model                    *model;
        struct response_stream          *flow;
        struct response_ticket          *slot;  /* NULL unless the model preserves ordering */
        struct trace                    *trace; /* NULL unless the inference is traced */
        const struct response_allocator *allocator;
        void                            *allocator_userp;
        response_complete_fn             on_response;
        void                            *on_response_userp;
        const char                      *id; /* of the request */
};

struct response {
        struct response_source  source; /* holds model, flow, slot, trace; id in arena */
        struct error           *error;  /* owned */
        struct response_output *first_output;
        union {
                struct response_output *last_output; /* until it is sent */
                struct response        *next;        /* waiting in a slot */
        };
        struct parameter_list parameters;
        uint32_t              n_outputs;
        uint32_t              send_flags; /* waiting in a slot */
        bool                  is_lent;    /* its memory, by its flow */
        struct arena          arena;
        char                  first_memory[512] __attribute__((aligned(16)));
};

static inline struct response_source response_source_of(const struct request *req) {
        return (struct response_source){
                .model = req->model,
                .flow = req->flow,
                .slot = req->slot,
                .trace = req->trace,
                .allocator = req->allocator,
                .allocator_userp = req->allocator_userp,
                .on_response = req->on_response,
                .on_response_userp = req->on_response_userp,
                .id = req->id,
        };
}

/* Takes references and copies of its own. May wait for room, see response_stream.h. An error of the
 * allocator's start function becomes the response's: it gets no buffers and is sent with it. */
struct error *response_new_from(const struct response_source *source, struct response **ret);
struct error *response_new(const struct request *req, struct response **ret);
void          response_free(struct response *response);

/* The configuration's reshape is undone here. */
struct error *response_add_output(struct response *response, const char *name, enum data_type type,
                                  const int64_t *dims, uint32_t n_dims,
                                  struct response_output **ret);
/* The same as the client is to see it, with a name that outlives the response (the model's, which it
 * holds, or one in its arena) and room for the shape, which the caller fills in. */
struct error *response_add_seen_output(struct response *response, const char *name,
                                       enum data_type type, uint32_t n_dims,
                                       struct response_output **ret, int64_t **ret_shape);
/* In: the kind of memory wanted; out: the kind given. ALREADY_EXISTS when called twice. */
struct error *response_output_buffer(struct response_output *output, uint64_t byte_size,
                                     enum memory_type *type, int64_t *id, void **ret);
/* The memory that `from` had from the allocator of `to`'s response becomes that of `to`, which has
 * none: an ensemble's output is what its last step wrote. `userp` is the allocator's. */
struct error *response_take_buffer(struct response_output *to, struct response_output *from,
                                   void *userp);
/* Labels that may outlive the response's model; `name` is in the response's arena or outlives it. */
void response_set_labels(struct response_output *output, struct labels *labels, const char *name);
/* Of one class, borrowed from the response; NULL when there is none. */
const char *response_find_label(const struct response_output *output, size_t class_index);
struct response_output *response_output_at(const struct response *response, uint32_t index);
struct response_output *response_find_output(const struct response *response, const char *name);
struct error *response_add_parameter(struct response *response, const struct parameter *p);

/* Takes the response, whatever happens; `why` (copied, may be NULL) becomes its status. An error
 * when FINAL was sent before: then the response is dropped. */
struct error *response_send(struct response *response, uint32_t flags, const struct error *why)
        NODISCARD;
/* A flags-only answer: no response, on_response(NULL, flags). The same error. */
struct error *response_source_send_flags(const struct response_source *source, uint32_t flags)
        NODISCARD;
struct error *request_send_flags(const struct request *req, uint32_t flags) NODISCARD;
