/* SPDX-License-Identifier: BSD-3-Clause */
/* A run: one request on its way through a plan. Private to the runner, whose files call each other
 * downwards only:
 *
 *     runner.c        which thread drives a run; steps begin and end; the end of the run
 *       run_request.c   the inner request of a step
 *       run_answer.c    the client's responses
 *       run_flow.c      tensors arrive, steps become ready
 *       run_memory.c    memory for the outputs of steps, for frames, and for runs
 *       run_device.c    tensors on devices: where outputs are written, and copies for the next step
 *
 * Frames.  A run has a frame for each element of a stream (pipeline_plan.h): the values of its
 * tensors, and the steps that read them. Frame 0 is part of the run. Each response of a decoupled
 * step adds a frame, which is freed when its steps have ended, its outputs were sent, and the frames
 * that its own steps added are gone. So the limit of a step's responses bounds all that is made of
 * them. Responses are sent in the order of the frames whose outputs they hold.
 *
 * The driver.  One thread at a time drives a run. It alone changes the state of the run: it takes
 * responses, opens the steps that can follow, and finishes the run. A thread that has news for the
 * run (a response, the end of a step, a cancellation) leaves it under the run's lock. If no thread
 * drives the run, the thread with the news begins to; else the driver takes the news. The driver
 * stops when there is no more news. From that moment on any thread may drive, finish and free it.
 *
 * A run alone.  As long as no step is under way elsewhere, no other thread has news, except for a
 * cancellation. Then the driver begins the next step without giving the run up, and if the step ends
 * by the time that its submission returns, goes on with the step after it: without the lock, and
 * without the atomic operations that pass a run from thread to thread.
 *
 * A step is open from the moment when all its inputs are present, a stage of a chain from the end of the
 * stage before it, until the driver has taken its end.
 * An open step keeps the run, its frame, and the values that it reads.
 *
 * The memory budget is charged for a run when it begins, which may fail, then for its open steps, for
 * the responses of its decoupled steps with their frames (infer/response_stream.h), and for tensors
 * (step_memory.h).
 *
 * Tensors on devices.  A step whose backend asks for memory of a device gets it when a reader of the output
 * takes such memory, or the client, who gets a copy of it; else pinned memory. The next step reads it there.
 * When all instances of the next step's model are on one other device, it gets a copy on that device, which
 * lives as long as its request.
 *
 * Ownership.  The response of a step is kept until no step needs its outputs any more. Everything
 * else is freed with its frame or with the run.
 * Threads.  Comments name the owner of each field: the driver, the lock, or the step. A step's
 * fields belong to the thread that starts it, then to the thread that runs its inner request, then
 * to the driver that takes its end.
 */
#pragma once

#include "base/list.h"
#include "base/lock.h"
#include "base/work_pool.h"
#include "infer/infer_thread.h"
#include "infer/inner_request.h"
#include "infer/model.h"
#include "infer/request.h"
#include "infer/response.h"
#include "pipeline/pipeline_plan.h"
#include "pipeline/runner.h"
#include "pipeline/step_limit.h"
#include "pipeline/step_memory.h"
#include "pipeline/step_models.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Memory within the run for small outputs that only steps read. */
#define RUN_INLINE_BYTES 512
#define RUN_INLINE_ALIGNMENT 64 /* the alignment of a buf */

/* A run has paid for so many open steps when it begins, and pays for more of them as it opens them. */
#define STEPS_PAID_AT_FIRST 3
#define STEPS_PAID_AT_ONCE 4

/* A sequence: the client's, or the one that a step's response has changed it to, for the steps that read the
 * response. */
struct sequence_mark {
        struct correlation_id correlation;
        uint32_t              flags;
        char *text; /* owned: text of the correlation; NULL: it is a number, or belongs to another */
};

enum value_kind {
        VALUE_MISSING, /* not present yet */
        VALUE_ABSENT,  /* will not exist: an optional input, or an output that the model left out */
        VALUE_NEVER,   /* the step that writes it has ended without a response */
        VALUE_INPUT,
        VALUE_OUTPUT,
};

struct value {
        enum value_kind               kind;
        const struct request_input   *input;  /* borrowed from the outer request */
        const struct response_output *output; /* borrowed from a kept response */
        const struct sequence_mark   *mark;   /* borrowed: of that response; NULL: no response */
        uint64_t batch_size; /* of the request that produced it; 0: its model does not batch */
};

/* A copy of an input on the device of the step's model. */
struct moved_input {
        const void         *from; /* what it is a copy of, and how many bytes */
        size_t              n_bytes;
        struct step_buffer  buffer;
        struct moved_input *next;
};

/* The response of a step, and the number of readers that still need it. */
struct kept_outputs {
        struct response            *response; /* owned; NULL: none, or not needed any more */
        uint32_t                    n_users;
        const struct sequence_mark *mark; /* `own`, or the step's */
        struct sequence_mark        own;  /* when the response has another sequence than its step */
};

struct frame;
struct run;

struct step_run {
        struct continuation             start; /* and link of the ready steps */
        struct run                     *run;
        struct frame                   *frame;
        const struct plan_step         *plan;
        _Atomic(struct inner_request *) inner; /* owned; NULL: the step has not begun */

        /* The step's. */
        struct response *answer;   /* owned until the step ends; NULL for a decoupled step */
        struct error    *failure;  /* owned; it could not begin, or its response not be passed on */
        struct moved_input *moved; /* owned; until its request has ended */
        uint32_t            n_responses;
        bool                has_slot;     /* holds a place of its step_limit */
        bool                has_answered; /* FINAL was passed on to the client */
        struct compute_sums sums;
        /* What the inner request was given: of the response that it reads first, else the run's. Borrowed from
         * a frame that outlives the step's, or its own. */
        const struct sequence_mark *mark;
        struct step_waiter          waiter; /* in the queue of its step_limit */

        /* Guarded by the run's lock. */
        struct step_run *next_news;
        bool             is_listed;
        bool             has_sent_final; /* news of a decoupled step */
        bool             has_ended;

        /* The driver's. */
        struct list_node    open_node; /* in the run's open_steps */
        uint32_t            n_missing; /* inputs that are not present yet */
        bool                has_final;
        bool                is_skipped; /* an input will never come */
        bool                is_cancelled;
        struct kept_outputs kept; /* unused if decoupled: each new frame keeps its response */
};

struct frame {
        struct run   *run;
        struct frame *parent; /* has the step whose response began this frame; NULL: frame 0 */
        uint32_t      stream;
        /* Needed steps that have not ended, frames that began with their responses, and 1 until its
         * outputs were sent. */
        uint32_t         n_left;
        uint32_t         n_missing; /* outputs of the composed model that are not present yet */
        bool             is_dead;   /* one of these outputs will never come */
        struct list_node node;      /* in the run's frames; frame 0 is not listed */
        struct list_node out_node;  /* in the run's out_frames */
        struct kept_outputs
                         origin; /* the response of the decoupled step that began the frame: kept as
                                       * long as the frame, so that the step's limit bounds the frames */
        struct value    *values; /* by place */
        struct step_run *steps;  /* by place */
};

/* Ready steps, linked by start.next, the oldest first. */
struct ready_steps {
        struct continuation *first, *last;
};

struct run {
        struct runner              *runner; /* borrowed: the outer request holds its model */
        struct request             *req;
        struct step_models         *models; /* ref */
        const struct pipeline_plan *plan;   /* borrowed from the models */
        const struct plan_choice   *choice; /* own_choice, or the plan's `all` */
        uint32_t             direct_step;   /* the choice's, if the client's allocator allows it */
        struct plan_choice   own_choice;
        uint64_t             start_ns;
        uint64_t             deadline_ns;
        struct sequence_mark mark; /* of the outer request */
        bool keeps_requests; /* other runs of the plan have the same requests: they may use them again */
        _Atomic bool has_failed;
        /* No step waits for a place any more: the run has failed or was cancelled. */
        _Atomic bool is_stopping;

        /* The driver's. */
        struct continuation start; /* continues to drive a run that is alone */
        struct ready_steps  ready;
        struct error       *error; /* owned; error of the first step that failed, without prefix */
        const struct plan_step *failed;      /* that step; NULL: none */
        uint32_t                n_open;      /* open steps, plus 1 for a call that on_room() ends */
        uint32_t                n_paid;      /* open steps that the memory budget was charged for */
        uint32_t                n_begun;     /* of these, steps that were started, and that call */
        uint32_t                n_flowing;   /* open steps that may send more responses */
        struct compute_sums     sums;        /* of the steps that have ended */
        uint64_t                step_end_ns; /* chains: when the last step ended */
        struct list             open_steps;
        struct list             frames;
        struct list             out_frames; /* with streams: frames to be sent, in order */
        struct run             *next;       /* in a group of the runner */
        bool                    has_sent_final;
        bool                    is_cancelled;   /* the cancellation was passed to the open steps */
        bool                    is_reachable;   /* request_cancel() finds it */
        bool                    waits_for_room; /* on_room() will be called */

        /* The lock's. */
        bool             is_driven;
        bool             has_cancel;                     /* news: the request was cancelled */
        bool             has_room;                       /* news: on_room() was called */
        struct response *first_response, *last_response; /* news: owned, linked by `next` */
        struct step_run *first_news, *last_news;

        _Atomic size_t inline_used;

        /* Everything above is cleared for each request; the rest stays in memory that is used again
         * (run_memory.c). */
        struct mutex  lock;    /* rank LOCK_QUEUE */
        struct work   late;    /* the driver's: drives on, on a thread that may wait for a device */
        uint64_t      plan_id; /* of the plan that the block was made for */
        struct frame *first;   /* the frame of stream 0 */
        struct inner_request *
                *kept; /* owned, by place in stream 0: requests of steps that have ended, to
                                         * be used again; each may be NULL */
        uint32_t n_kept;
        _Alignas(RUN_INLINE_ALIGNMENT) char inline_memory[RUN_INLINE_BYTES];
};

static inline bool is_decoupled(const struct plan_step *step) {
        return step->in_stream != step->out_stream;
}

static inline struct value *frame_value(struct frame *f, uint32_t tensor) {
        return &f->values[f->run->plan->tensors[tensor].place];
}

static inline struct value *link_value(struct frame *f, const struct plan_link *link) {
        return &f->values[link->place];
}

static inline struct error *run_no_memory(const struct step_run *s) {
        return error_new(ERR_UNAVAILABLE, "out of memory for a request to model '%s'",
                         s->plan->model->name);
}

/* ---- run_flow.c: all functions are called by the driver -------------------------------------- */

/* `f` is memory of frame_bytes(). `parent`: NULL for frame 0. */
void frame_init(struct frame *f, struct run *run, uint32_t stream, struct frame *parent);
/* Frees what the frame keeps, not its memory. */
void frame_done(struct frame *f);

/* Takes the inputs of the outer request. */
void flow_begin(struct run *run);
/* Takes a response of an open step, and opens the steps that can follow. */
void flow_response(struct step_run *s, struct response *response);
void flow_final(struct step_run *s);
/* Ends a step, and takes its answer if it is not decoupled. The frame may be freed. */
void flow_end(struct step_run *s);
/* Only the first error of a run counts. Takes err. */
void flow_fail(struct run *run, const struct plan_step *step, struct error *err);
/* The outputs of a frame were sent, or will never be. The frame may be freed. */
void flow_sent(struct frame *f);

/* ---- run_memory.c ---------------------------------------------------------------------------- */

/* The allocator for the outputs of a step: of the client's memory (client_memory.h), the run's, or a
 * counted buf. Its userp is the step_run. */
const struct response_allocator *run_allocator_of(const struct step_run *s);

size_t frame_bytes(const struct pipeline_plan *p, uint32_t stream);
/* What a response of a decoupled step makes the run hold beside it: its frame and its outputs. `stream`:
 * the one that the response begins a frame of. */
size_t frame_cost(const struct pipeline_plan *p, uint32_t stream);

/* Charges the memory budget for a run that begins. False when it has no room. */
bool run_memory_charge(struct runner *r, const struct pipeline_plan *p, const struct request *req)
        NODISCARD;
/* Charges it for STEPS_PAID_AT_ONCE more open steps, or gives the charge for as many back. */
void run_memory_charge_steps(struct run *run);
void run_memory_give_steps(struct run *run);
/* Gives back all that a run was charged. */
void run_memory_give_all(const struct run *run);

/* Memory for a run of the plan, whose first fields are cleared. NULL when memory is short. */
struct run *run_memory_take(struct runner *r, const struct pipeline_plan *plan) NODISCARD;
void        run_memory_give(struct run *run);
void        run_memory_free_kept(struct runner *r);

/* ---- run_device.c ----------------------------------------------------------------------------- */

/* Memory for an output whose backend asks for memory of a GPU, or for pinned memory. */
struct error *run_device_allocate(const struct step_run *s, const char *output, size_t bytes,
                                  enum memory_type type, int64_t id, struct step_buffer *ret)
        NODISCARD;
/* Where the step reads bytes that are on a device: there, or in a copy. Changes both. */
struct error *run_device_bring(struct step_run *s, const void **base,
                               struct buffer_attributes *attributes) NODISCARD;
/* The step's request has ended, or will not begin. */
void run_device_free_moved(struct step_run *s);

/* ---- run_request.c --------------------------------------------------------------------------- */

/* Takes the request of the step that an earlier run has left, or creates one, and fills it in. It borrows
 * from the outer request. Its owner is the step. NULL: the step has got a failure. */
struct inner_request *run_request_take(struct step_run *s, const struct inner_request_ops *ops)
        NODISCARD;
/* Takes the request of a step that has ended. `place` in stream 0 and `may_stay` are those of the step,
 * which may be freed. */
void run_request_give(struct run *run, uint32_t place, bool may_stay, struct inner_request *inner);

/* ---- run_answer.c ---------------------------------------------------------------------------- */

/* Adds the context of the step to its error: "in ensemble 'e', ...", "in chain 'c' stage 's' (1/3):
 * ...". Takes `why`. `step` may be NULL for an ensemble. */
struct error *run_error(const struct run *run, const struct plan_step *step, struct error *why);
/* Creates the response of an ensemble from the frame's outputs, which are all present. */
struct error *run_answer_make(struct frame *f, struct response **ret) NODISCARD;
/* Passes a response of a chain's step on to the client, and sets has_answered. Borrows the response;
 * NULL: sends the flags alone. Returns the error that the client got, or gets, in place of outputs,
 * without its context. */
struct error *run_answer_pass_on(struct step_run *s, const struct response *from, uint32_t flags)
        NODISCARD;
