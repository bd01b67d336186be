/* SPDX-License-Identifier: BSD-3-Clause */
/* One inference request: TRITONSERVER_InferenceRequest and TRITONBACKEND_Request.
 *
 * A front end fills it in, request_prepare() checks it against the model's configuration, a scheduler
 * queues it, and a backend reads it, answers with responses and releases it. Everything in it lives in
 * its arena, which starts inside the struct: a small request is one allocation.
 *
 *     INITIALIZED --submit--> PENDING --batch formed--> EXECUTING --release--> RELEASED
 *          ^                     '-- refused or cancelled -----------------------^  |
 *          '---------------------------- used again --------------------------------'
 *
 * PENDING: request_cancel() asks the scheduler. A request that is executed at once skips this state. The
 * request of a composed model may go EXECUTING -> PENDING -> EXECUTING: PENDING while its run can be
 * found by request_cancel().
 *
 * Ownership.  One owner at a time: front end, scheduler, backend. request_release() returns it to the
 * front end through its callback; request_free() frees it. Input bytes are borrowed from the front end
 * until the release. It holds a reference to its model.
 * Threads.  The owner's thread. Any thread may call request_cancel() and request_is_cancelled(), and
 * use the state that its responses share (response_stream.h), which outlives it.
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

struct host_copies;
struct host_copies;
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

/* Limits of what a request may contain. They only bound memory: no real request reaches them. */
#define REQUEST_MAX_DIMS 64
/* Enough for a batch of vectors; makes an input three cache lines long. */
#define REQUEST_FEW_DIMS 2
/* Inputs or outputs in addition to those of the model: enough that the check can name all wrong ones,
 * and few and short enough that the search for duplicates stays cheap. */
#define REQUEST_MAX_EXTRA_TENSORS 256
/* Backends read parameters by index, each time by a walk over the list. */
#define REQUEST_MAX_PARAMETERS 1024
#define REQUEST_MAX_NAME_BYTES 1024 /* longer only when the model itself has such a name */
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
        const void              *base;        /* borrowed from the front end until the release */
        const char              *host_policy; /* NULL = for all policies; stored in policy_room */
        struct buffer_attributes attributes;
        struct input_chunk      *next;
        struct arena_room        policy_room;
};

struct input_rooms {
        struct arena_room name;
        struct arena_room reshaped; /* shape that `shape` points to under a reshape */
};

/* TRITONBACKEND_Input. */
struct request_input {
        /* One cache line of what backends read, and one with the location of the bytes. */
        const char            *name;  /* the model's own string if it has the name, else in rooms */
        const int64_t         *shape; /* as the backend sees it: with batch dimension, reshaped */
        enum data_type         type;
        uint32_t               n_dims;
        uint64_t               byte_size; /* sum of the chunks without a host policy */
        uint32_t               n_chunks;
        uint32_t               n_plain; /* number of chunks without a host policy */
        struct input_chunk    *first_chunk;
        struct request_input  *next;
        const struct model_io *io; /* borrowed: the model's input of that name; NULL: none */
        struct input_chunk     only_chunk; /* the first chunk, without an allocation */

        /* Fields that the check of the request reads. */
        const int64_t      *given_shape; /* as set by the front end */
        uint32_t            n_given_dims;
        bool                is_raw; /* shape and type are derived from the configuration */
        bool                has_rooms;
        struct input_chunk *last_chunk;
        struct arena_room   shape_room; /* memory of given_shape; at first few_dims */
        int64_t             few_dims[REQUEST_FEW_DIMS];

        /* Rarely used, and not cleared. */
        uint32_t           raw_length; /* length prefix of the element of a raw BYTES input */
        struct input_rooms rooms;      /* valid with has_rooms, access through input_rooms() */
};

/* Initialised empty by the first call. */
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
        const char *text; /* in the arena */
};

typedef void (*request_release_fn)(struct request *req, uint32_t flags, void *userp);
typedef void (*response_complete_fn)(struct response *response, uint32_t flags, void *userp);

/* Removed inputs, outputs and parameters, which are reused: a request that is reused for ever does not
 * grow. */
struct request_spares {
        struct request_input    *inputs;
        struct requested_output *outputs;
        struct input_chunk      *chunks;
        struct arena_room        id_room;
        struct arena_room        correlation_room;
        struct arena_room        output_names_room;
};

/* Between two uses of a request lies a whole execution, after which each of its cache lines must be
 * loaded from memory again. So the fields are grouped into cache lines by their users: first those
 * that instances use, then those that only front ends and the check use, at the end those that a plain
 * request never needs. */
struct request {
        /* The source of its responses (response_source_of() copies these fields, in this order). */
        struct model           *model;        /* ref */
        struct response_stream *stream;       /* ref: state of this use of the request */
        struct response_ticket *order_ticket; /* ref; NULL unless the model preserves ordering */
        struct trace           *trace;        /* ref; NULL unless this inference is traced */
        const struct response_allocator *allocator; /* borrowed from the front end */
        void                            *allocator_userp;
        response_complete_fn             on_response;
        void                            *on_response_userp;
        const char                      *id; /* never NULL */

        request_release_fn    on_release;
        void                 *on_release_userp;
        struct request_input *first_input;
        const char *const    *output_names; /* outputs that the backend shall produce */
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
                struct list_node node; /* in the waiting or delayed list of a level */
                struct request  *next; /* next in a batch or in a list of refused requests */
                struct due       due;  /* CLOCK_NEVER = no timeout */
                union {
                        uint64_t level; /* effective priority level */
                        void    *run;   /* state of a scheduler that runs other models */
                };
        } queued; /* belongs to the scheduler, valid while PENDING */

        /* The first stream; its reference stands for the memory of the request. */
        struct response_stream own_stream;

        struct arena arena;
        uint32_t     n_outputs;
        bool         has_spares;
        bool         is_uncacheable : 1; /* see NESO_InferenceRequestSetCacheable() */
        bool         runs_alone : 1;     /* see NESO_InferenceRequestSetRunsAlone() */
        bool         has_states : 1;
        bool         is_checked : 1; /* request_prepare() has nothing to do, see step_request.h */
        bool         runs_cancelled : 1; /* runs even when it is cancelled: sequence/sequence.h */
        /* They belong to the scheduler as `queued` does. */
        bool is_delayed : 1; /* its timeout has passed, and it waits nevertheless */
        bool differs : 1;    /* has another shape than the request before it: sched/queue_list.h */
        bool is_inversion : 1; /* is older than the request before it: likewise */
        bool is_inner;         /* created by the server: see infer/inner_request.h */
        bool has_sequence : 1; /* a bit, so that a plain request has six cache lines */
        bool has_version : 1;  /* the client asked for this version */
        bool is_split : 1;     /* runs in parts: see infer/request_split.h */
        bool is_part : 1;      /* is a part of a split request */
        /* Made by the scheduler of sequences. No client receives its responses, and the statistics
         * of requests do not count it. */
        bool is_null : 1;
        bool has_device_inputs : 1;            /* some input may lie on a device */
        bool has_device_outputs : 1;           /* see NESO_InferenceRequestSetDeviceOutputs() */
        bool has_host_copies : 1;              /* see infer/host_inputs.h */
        struct requested_output *first_output; /* NULL = all outputs of the model */
        struct parameter_list    parameters;
        struct correlation_id    correlation;
        uint64_t                 priority; /* as given by the client; 0 = the default */
        uint64_t                 timeout_us;

        /* The arena's first memory: enough for two inputs. */
        char                  first_memory[576] __attribute__((aligned(16)));
        struct request_spares spares; /* valid with has_spares, see request_spares() */
        /* Borrowed from its scheduler; NULL: a null request that fills the slot of a sequence that has
         * nothing to run. Valid with has_sequence. */
        union {
                struct sequence *sequence;
                uint32_t         ticket; /* index among the items of a plug-in scheduler */
        };
        /* Borrowed from the outer request, for an inner request of a composed model; else NULL. Valid
         * with is_inner. */
        struct step_models *steps;
        /* Borrowed: implicit states of the request's sequence (infer/implicit_state.h). Valid with
         * has_states, during an execution. */
        struct implicit_states *states;
        /* Borrowed from the request of which this one is a step; NULL: none. Valid with is_inner. */
        struct compute_sums *sums;
        /* Borrowed: the client's request, of which this one is a step, or the request of which it is a part. Its
         * cancellation holds for this one as well. NULL: none. Valid with is_inner. */
        const struct request *outer;
        struct request_split *split; /* owned: ends with the release; valid with is_split */
        /* Requests with the same number were one batch in the stage before and shall be one again; 0:
         * no preference. Valid with is_inner. */
        uint64_t            kept_batch;
        struct host_copies *host_copies; /* owned; valid with has_host_copies */
};

static inline bool request_is_null(const struct request *req) {
        return req->is_null;
}

/* Number of rows that the request contributes to a batch. */
static inline uint64_t request_rows(const struct request *req) {
        return req->batch_size > 0 ? req->batch_size : 1;
}

/* Takes a reference to the model. NULL when memory is short. */
struct request *request_new(struct model *model);
void            request_free(struct request *req);

/* Binds the request to another model; not while it is in use. On error it is unchanged. */
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
/* Inserts a chunk before the others; the caller fills it in. NULL when memory is short. */
struct input_chunk *request_prepend_chunk(struct request *req, struct request_input *in);
struct error       *request_add_output(struct request *req, const char *name);
struct error       *request_remove_output(struct request *req, const char *name);
void                request_remove_all_outputs(struct request *req);
/* Replaces the parameter of that name, if there is one. */
struct error *request_add_parameter(struct request *req, const struct parameter *p);

/* Initialised empty by the first call. */
static inline struct request_spares *request_spares(struct request *req) {
        if (!req->has_spares)
                req->spares = (struct request_spares){ 0 };
        req->has_spares = true;
        return &req->spares;
}

struct request_input *request_find_input(const struct request *req, const char *name);
/* NULL beyond the end. */
struct request_input *request_input_at(const struct request *req, uint32_t index);

/* An error whose text starts with "[request id: <id>] ", with <id_unknown> for an empty id. */
struct error *request_error(const struct request *req, enum error_code code, const char *format,
                            ...) PRINTF_LIKE(3, 4) COLD;

/* Gives the request, which must not be in use, a fresh stream for its next inference, so that a
 * cancellation or late responses of the previous inference do not affect it. */
struct error *request_renew_stream(struct request *req) NODISCARD;
/* Bounds the number of responses that exist at once, for this inference and later ones. */
struct error *request_limit_responses(struct request *req, const struct response_limits *limits)
        NODISCARD;

/* Cancels the inference. A request that waits in a queue is answered and released at once, on this
 * thread; a backend that has it, or creates responses after its release, can see the flag. */
void request_cancel(struct request *req);

/* A step of a composed model is cancelled with the client's request, a part with its request. */
static inline bool request_is_cancelled(const struct request *req) {
        while (!response_stream_is_cancelled(req->stream)) {
                if (!req->is_inner || req->outer == NULL)
                        return false;
                req = req->outer;
        }
        return true;
}

/* The stream that a cancellation of the request reaches: a part has none of its own. */
static inline struct response_stream *request_cancel_stream(const struct request *req) {
        return req->is_part ? req->outer->stream : req->stream;
}

/* True between submit and release, while a scheduler or a backend has the request. */
static inline bool request_is_in_use(const struct request *req) {
        int state = atomic_load_explicit(&req->state, memory_order_acquire);

        return state == REQUEST_PENDING || state == REQUEST_EXECUTING;
}

/* Returns the request to the front end, or to the scheduler, which may run it again. flags: enum
 * request_release_flag; RESCHEDULE only if scheduler->may_reschedule. */
void request_release(struct request *req, uint32_t flags);
/* Answers the request with the error as its final response and counts the failure. Does not release
 * it. Borrows `why`. */
void request_fail(struct request *req, const struct error *why, enum failure_reason reason);
/* request_fail(), and then releases the request. For requests that no backend has, or that their
 * backend failed. */
void request_refuse(struct request *req, const struct error *why, enum failure_reason reason);
