/* SPDX-License-Identifier: BSD-3-Clause */
/* A run: one request on its way through an ensemble. Private to ensemble*.c.
 *
 *     ensemble.c         begins and ends a run; cancellation
 *     ensemble_flow.c    tensors arrive, steps become ready: all state, under the run's lock
 *     ensemble_step.c    one step: its inner request
 *     ensemble_output.c  the ensemble's responses
 *
 * A run has a frame for each element of a stream (ensemble_plan.h): the values of its tensors, and the
 * steps that read them. Frame 0 is part of the run. Each response of a decoupled step adds a frame,
 * which is freed when its steps have ended, its outputs were sent, and the frames that its own steps
 * added are gone. So the limit of a step's responses bounds all that is made of them. Responses are
 * sent in the order of the frames whose outputs they hold.
 *
 * A step is open from the moment when all its inputs are present until its inner request has ended.
 * Then the run takes its response (those of a decoupled step were taken before) and opens all steps
 * that can follow. The thread that closes the last open step finishes the run; no other thread uses
 * the run by then.
 *
 * The memory budget is charged for a run when it begins, which may fail, then for its open steps, for the
 * responses of its decoupled steps with their frames (response_stream.h), and for tensors (step_memory.h).
 *
 * Ownership.  The response of a step is kept until no step needs its outputs any more. Everything else
 * is freed with its frame or with the run.
 * Threads.  Comments name the fields that the run's lock guards. An open step belongs to the thread that
 * starts it, then to the thread that runs its inner request.
 */
#pragma once

#include "base/list.h"
#include "base/lock.h"
#include "infer/inner_request.h"
#include "infer/model.h"
#include "infer/request.h"
#include "infer/response.h"
#include "infer/submitter.h"
#include "sched/ensemble_plan.h"
#include "sched/step_limit.h"
#include "sched/step_memory.h"
#include "sched/step_models.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Memory within the run for small outputs that only steps read. */
#define ENSEMBLE_INLINE_BYTES 512
#define ENSEMBLE_INLINE_ALIGNMENT 64 /* the alignment of a buf */

/* A run has paid for so many open steps when it begins, and pays for more of them as it opens them. */
#define STEPS_PAID_AT_FIRST 3
#define STEPS_PAID_AT_ONCE 4

struct ensemble {
        struct scheduler           base;
        struct model              *model;  /* borrowed: the owner */
        struct step_models_holder *steps;  /* borrowed: outlives the scheduler */
        struct step_limit         *limits; /* owned; by step */
        struct step_memory        *memory; /* borrowed: the server's */
        uint32_t                   n_steps;
        _Atomic bool               is_draining;
        struct mutex               lock; /* rank LOCK_SEQUENCE; guards all below, and queued.run */
        struct cached_run         *kept; /* owned: memory of runs that have ended */
        uint32_t                   n_kept;
};

/* Content of the memory of an ended run while the ensemble keeps it for the next one. */
struct cached_run {
        struct cached_run *next;
        size_t             n_bytes;
};

/* The sequence that a step's response belongs to, for the steps that read the response. */
struct sequence_mark {
        struct correlation_id correlation;
        uint32_t              flags;
        char *text; /* owned: text of the correlation; NULL: it is a number, or the outer request's text */
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
        const struct sequence_mark   *mark; /* borrowed: mark of that response; NULL: no response */
        uint64_t batch_size; /* of the request that produced it; 0: its model does not batch */
};

/* The response of a step, and the number of readers that still need it. */
struct kept_outputs {
        struct response     *response; /* owned; NULL: none, or not needed any more */
        uint32_t             n_users;
        bool                 is_small; /* may stay until the end of the run */
        struct sequence_mark mark;
};

struct ensemble_run;
struct frame;

struct step_run {
        struct continuation     start;
        struct list_node        open_node; /* in the run's open_steps; guarded by the lock */
        struct step_waiter      waiter;    /* in the queue of its step_limit */
        struct ensemble_run    *run;
        struct frame           *frame;
        const struct plan_step *plan;
        _Atomic(struct inner_request *) inner; /* owned; NULL: the step has not begun */

        /* Belong to the thread of the inner request, then to the thread that closes the step. */
        struct response     *answer; /* owned until the step closes; NULL for a decoupled step */
        uint32_t             n_responses;
        struct compute_sums  sums;
        struct sequence_mark given;    /* what the inner request was given; text is not owned */
        bool                 has_slot; /* holds a place of its step_limit */

        /* Guarded by the lock. */
        uint32_t            n_missing;    /* inputs that are not present yet */
        uint32_t            n_cancelling; /* threads that are cancelling its inner request now */
        bool                is_over;      /* the last of these threads closes the step */
        bool                has_final;
        bool                is_skipped; /* an input will never come */
        bool                is_cancelled;
        struct kept_outputs kept; /* unused if decoupled: each new frame keeps its response */
        struct step_run    *next_cancelled;
};

struct frame {
        struct ensemble_run *run;
        struct frame        *parent; /* has the step whose response began this frame; NULL: frame 0 */
        uint32_t             stream;
        /* Needed steps that have not ended, frames that began with their responses, and 1 until its
         * outputs were sent. */
        uint32_t n_left;
        uint32_t n_missing;           /* outputs of the ensemble that are not present yet */
        bool     is_dead;             /* one of these outputs will never come */
        struct list_node    node;     /* in the run's frames; frame 0 is not listed */
        struct list_node    out_node; /* in the run's out_frames */
        struct kept_outputs origin;   /* the response of the decoupled step that began the frame: kept as
                                       * long as the frame, so that the step's limit bounds the frames */
        struct value       *values;   /* by place */
        struct step_run    *steps;    /* by place */
};

struct ensemble_run {
        struct ensemble            *ensemble; /* borrowed: the outer request holds its model */
        size_t                      n_bytes;  /* size of this memory block */
        struct request             *req;
        struct step_models         *models; /* ref */
        const struct ensemble_plan *plan;   /* borrowed from the models */
        const struct plan_choice   *choice; /* own_choice, or the plan's `all` */
        uint32_t           direct_step;     /* the choice's, if the client's allocator allows it */
        struct plan_choice own_choice;
        uint64_t           start_ns;
        uint64_t           deadline_ns;
        _Atomic bool       has_failed;

        struct mutex        lock;      /* rank LOCK_QUEUE; guards everything below */
        struct error       *error;     /* owned; error of the first step that failed */
        uint32_t            n_open;    /* open steps, plus threads that are cancelling the run */
        uint32_t            n_paid;    /* open steps that the memory budget was charged for */
        uint32_t            n_flowing; /* open steps that may send more responses */
        struct compute_sums sums;      /* of the steps that have ended */
        struct list         open_steps;
        struct list         frames;
        struct list         out_frames; /* decoupled ensembles: frames to be sent, in order */
        bool                is_sending;
        bool                has_sent_final;
        bool                waits_for_room; /* a call of response_stream_when_room() is due */

        struct frame  *first; /* the frame of stream 0 */
        _Atomic size_t inline_used;
        _Alignas(ENSEMBLE_INLINE_ALIGNMENT) char inline_memory[ENSEMBLE_INLINE_BYTES];
};

/* Outputs of a step up to this size are freed only when the run ends: freeing them earlier costs more
 * than it saves. */
#define ENSEMBLE_SMALL_BYTES 16384

/* What a change of state requires after the lock was released. */
struct work {
        struct continuation *first, *last; /* steps to start */
        struct response     *responses;    /* to be freed, linked by `next` */
        struct frame        *frames;       /* to be freed, linked by node.next */
        bool                 has_failed;   /* the run failed with this change */
};

/* ---- ensemble_flow.c ---- */

size_t frame_bytes(const struct ensemble_plan *p, uint32_t stream);
/* What a response of a decoupled step makes the run hold beside it: its frame and its outputs. `stream`:
 * the one that the response begins a frame of. */
size_t frame_cost(const struct ensemble_plan *p, uint32_t stream);
/* `f` is memory of frame_bytes(). `parent`: NULL for frame 0. */
void frame_init(struct frame *f, struct ensemble_run *run, uint32_t stream, struct frame *parent);
/* Frees what the frame keeps, not its memory. */
void frame_done(struct frame *f);

/* Called before any other thread can reach the run. */
void flow_begin(struct ensemble_run *run, struct work *w);
/* Takes a response of an open decoupled step. */
void flow_response_locked(struct step_run *s, struct response *response, struct work *w);
void flow_final_locked(struct step_run *s);
/* Ends a step, and takes its answer if it is not decoupled. */
void flow_end_locked(struct step_run *s, struct work *w);
/* Only the first error of a run counts. Takes err. */
void flow_fail_locked(struct ensemble_run *run, struct error *err, struct work *w);
/* The outputs of a frame were sent, or will never be. */
void flow_sent_locked(struct frame *f, struct work *w);
/* Frees what is to be freed and starts the steps. `now`: they start during the execution that the thread
 * is in. `now_ns` as in submitter_start(). */
void flow_follow(struct work *w, bool now, uint64_t now_ns);

static inline bool is_decoupled(const struct plan_step *step) {
        return step->in_stream != step->out_stream;
}

static inline struct value *frame_value(struct frame *f, uint32_t tensor) {
        return &f->values[f->run->plan->tensors[tensor].place];
}

/* ---- ensemble_step.c ---- */

void step_start(struct continuation *c);
/* Called when the request's deadline passes while the step waits for a place of its step_limit. */
void step_expire(struct step_waiter *w);
/* Ends the open steps that wait for a place. Cancels the steps that have begun: all of them, or only the
 * decoupled ones. The caller holds the run open. */
void steps_cancel(struct ensemble_run *run, bool only_decoupled);

/* ---- ensemble_output.c ---- */

/* Allocates memory for outputs of steps: the client's (client_memory.h), the run's, or a counted buf. */
extern const struct response_allocator ensemble_allocator;

/* A tensor's shape for a model with or without batching. `config_dims` come from the configuration and
 * have no batch dimension. */
struct bridged_shape {
        const int64_t *dims;
        uint32_t       n_dims;
        int64_t        room[REQUEST_MAX_DIMS + 1];
};
void bridge_shape(const int64_t *config_dims, uint32_t n_config_dims, bool has_batch,
                  uint64_t batch_size, const int64_t *dims, uint32_t n_dims,
                  struct bridged_shape *ret);

/* Sets the labels of all outputs of a cached answer. */
void output_label_all(const struct request *req, struct response *r,
                      const struct step_models *models);

/* Creates the response from the frame's outputs, which are all present. */
struct error *output_make(struct frame *f, struct response **ret) NODISCARD;
/* Sends the frames that are ready, in order. The caller holds the run open. */
void output_flush(struct ensemble_run *run);

/* ---- ensemble.c ---- */

void run_fail(struct ensemble_run *run, struct error *err); /* takes err */
/* Subtracts 1 from n_open; at 0 the run is finished and freed. */
void run_close(struct ensemble_run *run);
void run_finish(struct ensemble_run *run);
