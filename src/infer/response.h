/* SPDX-License-Identifier: BSD-3-Clause */
/* One response: TRITONSERVER_InferenceResponse and TRITONBACKEND_Response.
 *
 * A backend creates it from a request, adds outputs, asks for their memory (from the front end's
 * allocator), and sends it. Once created, it does not depend on the request.
 *
 * Ownership.  The backend's until response_send(), then the front end's. response_free() also frees the
 * output memory, through the allocator's release function.
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
        const char    *name;
        enum data_type type;
        const int64_t *shape; /* with batch dimension, as the client sees it */
        uint32_t       n_dims;
        void          *base; /* from the allocator */
        size_t         byte_size;
        void          *userp; /* buffer_userp of the allocator */
        bool           has_buffer;
        bool           is_staged;   /* see infer/staged_output.h */
        uint32_t       n_redirects; /* steps from the response's allocator to the lender */
        struct buffer_attributes attributes;
        struct response         *response;
        struct response_output  *next;
        /* Borrowed: the allocator that gave the memory and gets it back. NULL when the memory is not given back. Valid
         * with has_buffer. */
        const struct response_allocator *lender;
        /* An output of an ensemble or a chain that has no labels has those of the step's output, under
         * the name that the output has in the step. */
        struct labels *labels;      /* ref; NULL: labels of the model */
        const char    *labels_name; /* valid with labels */
};

/* What a response takes from its request. response_source_of() copies the fields from the request; each
 * factory and each response has a copy. */
struct response_source {
        struct model                    *model;
        struct response_stream          *stream;
        struct response_ticket          *ticket; /* NULL unless the model preserves ordering */
        struct trace                    *trace;  /* NULL unless the inference is traced */
        const struct response_allocator *allocator;
        void                            *allocator_userp;
        response_complete_fn             on_response;
        void                            *on_response_userp;
        const char                      *id; /* id of the request */
};

struct response {
        /* Refs: model, stream, ticket, trace; the id is in the arena. */
        struct response_source  source;
        struct error           *error; /* owned */
        struct response_output *first_output;
        union {
                struct response_output *last_output; /* valid until the response is sent */
                struct response        *next;        /* next one that waits in a ticket */
        };
        struct parameter_list parameters;
        uint32_t              n_outputs;
        uint32_t              send_flags; /* flags of a response that waits in a ticket */
        bool                  is_lent;    /* its memory is lent by its stream */
        bool                  has_staged; /* some output is staged: infer/staged_output.h */
        struct arena          arena;
        char                  first_memory[512] __attribute__((aligned(16)));
};

static inline struct response_source response_source_of(const struct request *req) {
        return (struct response_source){
                .model = req->model,
                .stream = req->stream,
                .ticket = req->order_ticket,
                .trace = req->trace,
                .allocator = req->allocator,
                .allocator_userp = req->allocator_userp,
                .on_response = req->on_response,
                .on_response_userp = req->on_response_userp,
                .id = req->id,
        };
}

/* Creates a response with references and copies of its own. May wait for room, see response_stream.h.
 * An error of the allocator's start function becomes the error of the response: it gets no buffers and
 * is sent with the error. */
struct error *response_new_from(const struct response_source *source, struct response **ret);
void          response_free(struct response *response);

/* Results of two pointers come back in registers. A result that is written through a pointer would cost each caller in
 * the C API a variable in memory. */
struct response_result {
        struct error    *error;    /* owned by the caller; NULL: success */
        struct response *response; /* NULL: failure */
};
struct output_result {
        struct error           *error; /* likewise */
        struct response_output *output;
};

/* As response_new_from(), with the source of a request. */
struct response_result response_make(const struct request *req) NODISCARD;
/* Adds an output; undoes the configuration's reshape. */
struct output_result response_append_output(struct response *response, const char *name,
                                            enum data_type type, const int64_t *dims,
                                            uint32_t n_dims) NODISCARD;

static inline struct error *response_new(const struct request *req, struct response **ret) {
        struct response_result made = response_make(req);

        *ret = made.response;
        return made.error;
}

static inline struct error *response_add_output(struct response *response, const char *name,
                                                enum data_type type, const int64_t *dims,
                                                uint32_t n_dims, struct response_output **ret) {
        struct output_result made = response_append_output(response, name, type, dims, n_dims);

        *ret = made.output;
        return made.error;
}

/* As response_add_output(), for a shape that needs no conversion: the caller writes the shape that the
 * client sees to *ret_shape. The name must outlive the response (the model's, or one in the response's
 * arena). */
struct error *response_add_client_output(struct response *response, const char *name,
                                         enum data_type type, uint32_t n_dims,
                                         struct response_output **ret, int64_t **ret_shape);
/* The code that writes an output, when the allocator answers with memory of a device. */
enum output_writer {
        WRITER_LOOKS, /* at the type of memory, and writes there */
        WRITER_BACKEND, /* the model's: looks, or is as the next one (takes_device_memory, infer/model.h) */
        WRITER_ON_HOST, /* gets memory of the host instead: infer/staged_output.h */
};

/* Allocates the output's memory. *type and *id: on entry the kind of memory that the writer prefers,
 * on return the kind that it got. ALREADY_EXISTS on a second call.
 *
 * The allocator may answer NULL for an output of no bytes, and for others when the backend has queried
 * it (TRITONBACKEND_RequestOutputBufferProperties); otherwise NULL is UNAVAILABLE "no memory was given
 * for output '<o>'". A NULL that was accepted is released like other memory.
 *
 * A writer on the host gets memory of the host for a device of the server's; INVALID_ARG for another device.
 * On a server without GPUs it gets whatever the allocator gives. */
struct error *response_output_get(struct response_output *output, enum output_writer writer,
                                  uint64_t byte_size, enum memory_type *type, int64_t *id,
                                  void **ret);

static inline struct error *response_output_buffer(struct response_output *output,
                                                   uint64_t byte_size, enum memory_type *type,
                                                   int64_t *id, void **ret) {
        return response_output_get(output, WRITER_LOOKS, byte_size, type, id, ret);
}

static inline struct error *response_output_host_buffer(struct response_output *output,
                                                        uint64_t                byte_size,
                                                        enum memory_type *ret_type, void **ret) {
        int64_t id = 0;

        *ret_type = MEMORY_CPU;
        return response_output_get(output, WRITER_ON_HOST, byte_size, ret_type, &id, ret);
}

/* Moves the memory of `from`, which was redirected to the allocator of `to`'s response, to `to`, which
 * has none: an output of an ensemble or a chain is the memory that its last step wrote. */
struct error *response_take_buffer(struct response_output *to, struct response_output *from);
/* Sets labels that may outlive the response's model; `name` is in the response's arena or outlives it. */
void response_set_labels(struct response_output *output, struct labels *labels, const char *name);
/* The label of one class, borrowed from the response; NULL when there is none. */
const char *response_find_label(const struct response_output *output, size_t class_index);
struct response_output *response_output_at(const struct response *response, uint32_t index);
struct response_output *response_find_output(const struct response *response, const char *name);
struct error *response_add_parameter(struct response *response, const struct parameter *p);

/* Sends the response, and takes it in any case; `why` (copied, may be NULL) becomes its error. Fails
 * when FINAL was sent before: then the response is dropped. */
struct error *response_send(struct response *response, uint32_t flags, const struct error *why)
        NODISCARD;
/* Sends a response that is an error, with FINAL: without a wait for room, and also when memory is short.
 * Fails like response_send(). */
struct error *response_send_error(const struct response_source *source, const struct error *why)
        NODISCARD;
/* Sends flags without a response: on_response(NULL, flags). Fails like response_send(). When there was no
 * memory for a response, FINAL is sent as an error. */
struct error *response_source_send_flags(const struct response_source *source, uint32_t flags)
        NODISCARD;
struct error *request_send_flags(const struct request *req, uint32_t flags) NODISCARD;
