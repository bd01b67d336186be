/* SPDX-License-Identifier: BSD-3-Clause */
/* One request on its way through an ensemble. Private to ensemble*.c.
 *
 *     ensemble.c         begins and ends a run; cancellation
 *     ensemble_flow.c    tensors arrive, steps become ready: all state, under the run's lock
 *     ensemble_step.c    one step: its inner request
 *     ensemble_output.c  the ensemble's responses
 *
 * A run has a frame for each element of a stream (ensemble_plan.h): the values of its tensors, and the
 * steps that read them. Frame 0 is part of the run; the others come with the responses of decoupled
 * steps, and go when their steps have ended and their outputs were sent. Responses are sent in the
 * order of the frames that they are made of.
 *
 * A step is open from the moment when its inputs are there until its inner request has ended: then its
 * response is taken, unless it is decoupled, and the steps that follow are opened, all at once. Whoever
 * closes the last one finishes the run, alone.
 *
 * Ownership.  The response of a step is kept until no step needs its outputs any more. Everything else
 * ends with its frame, or with the run.
 * Threads.  The lock guards what says so. A step that is open belongs to the thread that starts it, then
 * to whoever runs its inner request.
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

/* For outputs between the steps of one request, when they are small. */
#define ENSEMBLE_INLINE_BYTES 512
#define ENSEMBLE_INLINE_ALIGNMENT 64 /* as that of a buf */

struct ensemble {
        struct scheduler           base;
        struct model              *model;  /* borrowed: the owner */
        struct step_models_holder *steps;  /* borrowed: outlives the scheduler */
        struct step_limit         *limits; /* owned; by step */
        struct step_memory         memory; /* for large outputs between steps */
        uint32_t                   n_steps;
        _Atomic bool               is_draining;
        struct mutex               lock; /* rank LOCK_SEQUENCE; guards all below, and queued.run */
        struct cached_run           *kept; /* owned: memory of runs that ended */
        uint32_t                   n_kept;
};

/* What stands in the memory of a run while it is kept. */
struct cached_run {
        struct cached_run *next;
        size_t           n_bytes;
};

/* What the response of a step says about the sequence, for the steps that read it. */
struct sequence_mark {
        struct correlation_id correlation;
        uint32_t              flags;
        char *text; /* owned: of the correlation; NULL: it is a number, or the request's */
};

enum value_kind {
        VALUE_MISSING, /* not there yet */
        VALUE_ABSENT,  /* there is none: an optional input, an output that the model left out */
        VALUE_NEVER,   /* its step has ended without a response */
        VALUE_INPUT,
        VALUE_OUTPUT,
};

struct value {
        enum value_kind               kind;
        const struct request_input   *input;  /* borrowed: of the request */
        const struct response_output *output; /* borrowed: of a response that is kept */
        const struct sequence_mark   *mark;   /* borrowed: of that response; NULL: of none */
        uint64_t batch_size;                  /* of the request that made it; 0: without batching */
};

/* The response of a step, and how many still need it. */
struct kept_outputs {
        struct response     *response; /* owned; NULL: none, or not needed any more */
        uint32_t             n_users;
        bool                 is_small; /* and may stay to the end of the run */
        struct sequence_mark mark;
};

struct ensemble_run;
struct frame;

struct step_run {
        struct continuation             start;
        struct list_node                open_node; /* in the run's open_steps; under the lock */
        struct step_waiter              waiter;    /* in the line of its step_limit */
        struct ensemble_run            *run;
        struct frame                   *frame;
        const struct plan_step         *plan;
        _Atomic(struct inner_request *) inner; /* owned; NULL: not begun */

        /* Of its inner request, then of who closes it. */
        struct response     *answer;      /* owned; until it closes. A decoupled step has none. */
        uint32_t             n_responses;
        struct compute_sums  sums;
        struct sequence_mark given;    /* with its inner request; text is not owned */
        bool                 has_slot; /* of its limit */

        /* Under the lock. */
        uint32_t            n_missing;    /* tensors */
        uint32_t            n_cancelling; /* threads that are just cancelling its inner request */
        bool                is_over;      /* the last of them closes it */
        bool                has_final;
        bool                is_skipped; /* it can never run */
        bool                is_cancelled;
        struct kept_outputs kept; /* unless it is decoupled: then of the new frame */
        struct step_run    *next_cancelled;
};

struct frame {
        struct ensemble_run *run;
        uint32_t             stream;
        uint32_t             n_left;    /* needed steps that have not ended, and its outputs */
        uint32_t             n_missing; /* outputs */
        bool                 is_dead;   /* an output of it will never come */
        struct list_node     node;      /* in the run's frames; frame 0 is in none */
        struct list_node     out_node;  /* in the run's out_frames */
        struct kept_outputs  origin;    /* of the decoupled step */
        struct value        *values;    /* by place */
        struct step_run     *steps;     /* by place */
};

struct ensemble_run {
        struct ensemble            *ensemble; /* borrowed: as long as the request has its model */
        size_t                      n_bytes;  /* of this memory */
        struct request             *req;
        struct step_models         *models;      /* ref */
        const struct ensemble_plan *plan;        /* borrowed: the snapshot's */
        const struct plan_choice   *choice;      /* own_choice, or the plan's */
        uint32_t                    direct_step; /* as the choice's, if the allocator allows it */
        struct plan_choice          own_choice;
        uint64_t                    start_ns;
        uint64_t                    deadline_ns;
        _Atomic bool                has_failed;

        struct mutex        lock;      /* rank LOCK_QUEUE; guards everything below */
        struct error       *error;     /* owned; of the first step that failed */
        uint32_t            n_open;    /* steps, and holds of who cancels it */
        uint32_t            n_flowing; /* open steps that may send more responses */
        struct compute_sums sums;      /* of steps that have ended */
        struct list         open_steps;
        struct list         frames;
        struct list         out_frames; /* decoupled ensembles: those to be sent, in order */
        bool                is_sending;
        bool                has_sent_final;

        struct frame  *first; /* stream 0 */
        _Atomic size_t inline_used;
        _Alignas(ENSEMBLE_INLINE_ALIGNMENT) char inline_memory[ENSEMBLE_INLINE_BYTES];
};

/* Outputs of a step that are not worth the trouble of freeing them before the request ends. */
#define ENSEMBLE_SMALL_BYTES 16384

/* What follows from a change of the state, for when the lock is released. */
struct work {
        struct continuation *first, *last; /* steps to start */
        struct response     *responses;    /* to be freed, linked by `next` */
        struct frame        *frames;       /* to be freed, linked by node.next */
        bool                 has_failed;   /* just now */
};

/* ---- ensemble_flow.c ---- */

size_t frame_bytes(const struct ensemble_plan *p, uint32_t stream);
/* In memory of that size. */
void frame_init(struct frame *f, struct ensemble_run *run, uint32_t stream);
/* All that it keeps, not its memory. */
void frame_done(struct frame *f);

/* Nobody else knows of the run yet. */
void flow_begin(struct ensemble_run *run, struct work *w);
/* Takes a response of a decoupled step that is open. */
void flow_response_locked(struct step_run *s, struct response *response, struct work *w);
void flow_final_locked(struct step_run *s);
/* With the answer of a step that is not decoupled. */
void flow_end_locked(struct step_run *s, struct work *w);
/* The first one counts. Takes err. */
void flow_fail_locked(struct ensemble_run *run, struct error *err, struct work *w);
/* The outputs of a frame were sent, or will never be. */
void flow_sent_locked(struct frame *f, struct work *w);
/* Frees, and starts; `now` while the execution that the thread is inside of goes on. `now_ns` as of
 * submitter_start(). */
void flow_follow(struct work *w, bool now, uint64_t now_ns);

static inline bool is_decoupled(const struct plan_step *step) {
        return step->in_stream != step->out_stream;
}

static inline struct value *frame_value(struct frame *f, uint32_t tensor) {
        return &f->values[f->run->plan->tensors[tensor].place];
}

/* ---- ensemble_step.c ---- */

void step_start(struct continuation *c);
/* Its request's deadline passed while it waited for a place of its step. */
void step_expire(struct step_waiter *w);
/* Those of the open steps that wait for a place end. Of those that have begun, all are cancelled, or only
 * those that may answer more than once. The caller holds the run open. */
void steps_cancel(struct ensemble_run *run, bool only_decoupled);

/* ---- ensemble_output.c ---- */

/* Memory for an output of a step: the client's (client_memory.h), the run's, or a counted buf. */
extern const struct response_allocator ensemble_allocator;

/* A tensor as a model with or without batching wants to see it. `dims` are what the configuration says,
 * without the batch. */
struct bridged_shape {
        const int64_t *dims;
        uint32_t       n_dims;
        int64_t        room[REQUEST_MAX_DIMS + 1];
};
void bridge_shape(const int64_t *config_dims, uint32_t n_config_dims, bool has_batch,
                  uint64_t batch_size, const int64_t *dims, uint32_t n_dims,
                  struct bridged_shape *ret);

/* Of an answer that was kept. */
void output_label_all(const struct request *req, struct response *r,
                      const struct step_models *models);

/* Of the frame's outputs, which are all there. */
struct error *output_make(struct frame *f, struct response **ret) NODISCARD;
/* Sends what is ready, in order. The caller holds the run open. */
void output_flush(struct ensemble_run *run);

/* ---- ensemble.c ---- */

void run_fail(struct ensemble_run *run, struct error *err); /* takes err */
/* Closes one that was open; the last one finishes the run, which is gone then. */
void run_close(struct ensemble_run *run);
void run_finish(struct ensemble_run *run);
