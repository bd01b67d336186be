/* SPDX-License-Identifier: BSD-3-Clause */
/* One inference request: TRITONSERVER_InferenceRequest and TRITONBACKEND_Request are this.
 *
 * A front end fills it in, request_prepare() checks it against the model's configuration, a
 * scheduler queues it, a backend reads it, answers with responses and releases it. Everything in
 * it lives in its arena, which starts inside the struct: a small request is one allocation.
 *
 *     INITIALIZED --submit--> PENDING --batch formed--> EXECUTING --release--> RELEASED
 *          ^                     '-- refused or cancelled -----------------------^ |
 *          '---------------------------- used again -------------------------------'
 *
 * Ownership.  One owner at a time: front end, scheduler, backend. request_release() gives it back
 * to the front end through its callback; request_free() ends it. Input bytes are borrowed from
 * the front end until the release. It holds a reference to its model.
 * Threads.  The owner's; only request_cancel() and request_is_cancelled() are for any thread, and
 * what its responses share (response_stream.h), which outlives it.
 */
#pragma once

#include "base/arena.h"
#include "base/due_heap.h"
#include "base/error.h"
#include "base/list.h"
#include "config/data_type.h"
#include "infer/buffer_attributes.h"
#include "infer/parameter.h"
#include "infer/response_allocator.h"
#include "infer/response_stream.h"
#include "observe/model_stats.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct model;
struct model_io;
struct request;
struct request_split;
struct response;
struct implicit_states;
struct response_ticket;
struct sequence;
struct step_models;
struct trace;

/* Limits of what a request may name; generous, they only bound memory. */
#define REQUEST_MAX_DIMS 64
#define REQUEST_FEW_DIMS 2 /* a batch of vectors; an input is three cache lines with them */
/* Inputs or outputs beyond those of the model: enough for the check to name all that are wrong,
 * few enough, with names short enough, that looking for doubles stays cheap. */
#define REQUEST_MAX_EXTRA_TENSORS 256
#define REQUEST_MAX_PARAMETERS 1024 /* backends read them by index, each a walk */
#define REQUEST_MAX_NAME_BYTES 1024 /* unless the model itself has such a name */
#define REQUEST_MAX_ARENA_BYTES (size_t)(256u << 20)

enum request_flag { REQUEST_SEQUENCE_START = 1, REQUEST_SEQUENCE_END = 2 };
enum request_release_flag { REQUEST_RELEASE_ALL = 1, REQUEST_RELEASE_RESCHEDULE = 2 };
enum response_flag { RESPONSE_FINAL = 1 };

enum request_state {
        REQUEST_INITIALIZED,
        REQUEST_PENDING,
        REQUEST_EXECUTING,
        REQUEST_RELEASED,
};

/* One contiguous piece of an input's bytes. */
struct input_chunk {
        const void              *base;        /* borrowed: the front end, until the release */
        const char              *host_policy; /* NULL = for all; in policy_room */
        struct buffer_attributes attributes;
        struct input_chunk      *next;
        struct arena_room        policy_room;
};

struct input_rooms {
        struct arena_room name;
        struct arena_room reshaped; /* what `shape` points to under a reshape */
};

/* TRITONBACKEND_Input. */
struct request_input {
        /* A cache line of what backends read, and one of where the bytes are. */
        const char            *name;  /* the model's where it knows it, else in rooms */
        const int64_t         *shape; /* as the backend sees it: batch first, reshaped */
        enum data_type         type;
        uint32_t               n_dims;
        uint64_t               byte_size; /* of all chunks without a host policy */
        uint32_t               n_chunks;
        uint32_t               n_plain; /* of them, those without a host policy */
        struct input_chunk    *first_chunk;
        struct request_input  *next;
        const struct model_io *io;         /* borrowed: the model's of that name; NULL: none */
        struct input_chunk     only_chunk; /* the first one, without allocating */

        /* What the check of the request reads. */
        const int64_t      *given_shape; /* as the front end gave it */
        uint32_t            n_given_dims;
        bool                is_raw; /* shape and type follow from the configuration */
        bool                has_rooms;
        struct input_chunk *last_chunk;
        struct arena_room   shape_room; /* at first few_dims */
        int64_t             few_dims[REQUEST_FEW_DIMS];

        /* Seldom used, and not cleared. */
        uint32_t           raw_length; /* the bytes before those of a raw BYTES element */
        struct input_rooms rooms;      /* valid with has_rooms, see input_rooms() */
};

/* Empty at first. */
static inline struct input_rooms *input_rooms(struct request_input *in) {
        if (!in->has_rooms)
                in->rooms = (struct input_rooms){ 0 };
        in->has_rooms = true;
        return &in->rooms;
}

struct requested_output {
        const char              *name;
        struct requested_output *next;
        struct arena_room        name_room;
};

/* A correlation id is a number, or a text when `text` is not NULL. */
struct correlation_id {
        uint64_t    number;
        const char *text; /* in arena */
};

typedef void (*request_release_fn)(struct request *req, uint32_t flags, void *userp);
typedef void (*response_complete_fn)(struct response *response, uint32_t flags, void *userp);

/* What was removed is used again: a request that is used for ever does not grow. */
struct request_spares {
        struct request_input    *inputs;
        struct requested_output *outputs;
        struct input_chunk      *chunks;
        struct arena_room        id_room;
        struct arena_room        correlation_room;
        struct arena_room        output_names_room;
};

/* Between two touches lies a whole execution, and each line of it has to come from memory again. So
 * the order is that of use, in whole cache lines: what instances touch, what only front ends and
 * the check do, and at the end what a plain request never needs. */
struct request {
        /* Of the responses (response_source_of() copies this, in this order). */
        struct model                    *model; /* ref */
        struct response_stream          *flow;  /* ref: of this use of the request */
        struct response_ticket          *slot;  /* ref; NULL unless the model preserves ordering */
        struct trace                    *trace; /* ref; NULL unless this inference is traced */
        const struct response_allocator *allocator; /* borrowed: the front end */
        void                            *allocator_userp;
        response_complete_fn             on_response;
        void                            *on_response_userp;
        const char                      *id; /* never NULL */

        request_release_fn    on_release;
        void                 *on_release_userp;
        struct request_input *first_input;
        const char *const    *output_names; /* what the backend is asked for */
        uint32_t              n_inputs;
        uint32_t              n_output_names;
        uint64_t              batch_size; /* the first dim; 0 for models without batching */
        _Atomic int           state;      /* enum request_state */
        uint32_t              flags;

        struct {
                uint64_t request_start_ns;
                uint64_t queue_start_ns;
        } times;
        struct {
                struct list_node node; /* in a level's waiting or delayed list */
                struct request  *next; /* in a batch or a list of refused ones */
                struct due       due;  /* CLOCK_NEVER = no timeout */
                union {
                        uint64_t level; /* priority level in force */
                        void    *run;   /* of a scheduler of other models */
                };
        } queued; /* the scheduler's, valid while PENDING */

        /* The first flow; its reference is that of the request's memory. */
        struct response_stream own_flow;

        struct arena             arena;
        uint32_t                 n_outputs;
        bool                     has_spares;
        bool                     is_not_kept : 1; /* see NESO_InferenceRequestSetCacheable() */
        bool                     runs_alone : 1;  /* see NESO_InferenceRequestSetRunsAlone() */
        bool                     has_states : 1;
        bool                     is_inner; /* made by the server: see infer/inner_request.h */
        bool                     has_sequence : 1; /* bits: a plain request has six lines */
        bool                     has_version : 1;  /* the client asked for this one, not for any */
        bool                     is_split : 1;     /* runs in parts: see infer/request_split.h */
        bool                     is_part : 1;      /* is one of them */
        struct requested_output *first_output;     /* none = all of the model's */
        struct parameter_list    parameters;
        struct correlation_id    correlation;
        uint64_t                 priority; /* as given; 0 = the default */
        uint64_t                 timeout_us;

        /* Two inputs fit. */
        char                  first_memory[576] __attribute__((aligned(16)));
        struct request_spares spares; /* valid with has_spares, see request_spares() */
        /* Borrowed: its scheduler's; NULL: a null request, which fills the slot of a sequence that
         * has nothing to run. Valid with has_sequence. */
        union {
                struct sequence *sequence;
                uint32_t         ticket; /* its place among the items of a plug-in scheduler */
        };
        /* Borrowed: the outer request's, of an inner request for a composed model; else NULL. Valid
         * with is_inner. */
        struct step_models *steps;
        /* Borrowed: what the server keeps for the request's sequence (infer/implicit_state.h). Valid
         * with has_states: during an execution. */
        struct implicit_states *states;
        /* Borrowed: of the request that this one is a step of; NULL: of none. Valid with is_inner. */
        struct compute_sums  *sums;
        struct request_split *split; /* owned: ends with the release; valid with is_split */
        /* Those of one number were a batch in the stage before, and are to be one again; 0: no matter.
         * Valid with is_inner. */
        uint64_t group;
};

static inline bool request_is_null(const struct request *req) {
        return UNLIKELY(req->has_sequence) && req->sequence == NULL;
}

/* What it counts in a batch. */
static inline uint64_t request_rows(const struct request *req) {
        return req->batch_size > 0 ? req->batch_size : 1;
}

/* Takes a reference to the model. NULL when memory is short. */
struct request *request_new(struct model *model);
void            request_free(struct request *req);

/* It is for that model from now on; not while it is in use. On error it is as it was. */
struct error *request_rebind(struct request *req, struct model *model) NODISCARD;

struct error *request_set_id(struct request *req, const char *id);
struct error *request_set_correlation_text(struct request *req, const char *text);
/* dims may be NULL when n_dims is 0. Errors: "input '<i>' already exists in request". */
struct error *request_add_input(struct request *req, const char *name, enum data_type type,
                                const int64_t *dims, uint64_t n_dims);
struct error *request_add_raw_input(struct request *req, const char *name);
struct error *request_remove_input(struct request *req, const char *name);
void          request_remove_all_inputs(struct request *req);
struct error *request_append_bytes(struct request *req, const char *input, const void *base,
                                   const struct buffer_attributes *attributes,
                                   const char                     *host_policy);
struct error *request_remove_bytes(struct request *req, const char *input);
/* Before the others; `chunk` is the caller's to fill in, NULL when memory is short. */
struct input_chunk *request_prepend_chunk(struct request *req, struct request_input *in);
struct error       *request_add_output(struct request *req, const char *name);
struct error       *request_remove_output(struct request *req, const char *name);
void                request_remove_all_outputs(struct request *req);
/* Replaces the one of that name. */
struct error *request_add_parameter(struct request *req, const struct parameter *p);

/* Empty at first. */
static inline struct request_spares *request_spares(struct request *req) {
        if (!req->has_spares)
                req->spares = (struct request_spares){ 0 };
        req->has_spares = true;
        return &req->spares;
}

struct request_input *request_find_input(const struct request *req, const char *name);
/* NULL beyond the end. */
struct request_input *request_input_at(const struct request *req, uint32_t index);

/* "[request id: <id>] ", with <id_unknown> for an empty one: what error texts start with. */
struct error *request_error(const struct request *req, enum error_code code, const char *format,
                            ...) PRINTF_LIKE(3, 4) COLD;

/* For the next inference with this request, which is not in use: what is left of the last one, be
 * it cancelled or still answering, is no concern of the new one. */
struct error *request_renew_flow(struct request *req) NODISCARD;
/* Bounds the responses that exist at once, for this inference and those to come. */
struct error *request_limit_responses(struct request *req, const struct response_limits *limits)
        NODISCARD;

/* Marks it cancelled and takes it out of its scheduler's queue if it waits there. Responses that
 * come after the release are cancelled, too. */
void request_cancel(struct request *req);
bool request_is_cancelled(const struct request *req);

/* Between submit and release: a scheduler or a backend has it. */
static inline bool request_is_in_use(const struct request *req) {
        int state = atomic_load_explicit(&req->state, memory_order_acquire);

        return state == REQUEST_PENDING || state == REQUEST_EXECUTING;
}

/* Back to the front end, or to the scheduler if it runs it again. flags: enum
 * request_release_flag; RESCHEDULE only where the scheduler takes it. */
void request_release(struct request *req, uint32_t flags);
/* Answers with a final error response, then releases: for requests that no backend will see.
 * Takes neither the error's ownership nor changes its text. Counts the failure. */
void request_refuse(struct request *req, const struct error *why, enum failure_reason reason);
