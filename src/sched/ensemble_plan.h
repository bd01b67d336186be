/* SPDX-License-Identifier: BSD-3-Clause */
/* An ensemble's graph with one set of models for its steps: all that running a request through it
 * needs to know and that is the same for each.
 *
 * Streams.  A decoupled step answers with any number of responses, and the steps that read from it run
 * once for each. The tensors and steps that belong together in this way are a stream: stream 0 is what
 * comes once for a request, and each decoupled step begins another one (config/ensemble_models.h). For
 * each element of a stream a run has a frame, with a place for each tensor and step of the stream.
 *
 * Ownership.  A plan belongs to the snapshot of models that it was made for, and borrows the models
 * from it, and the configuration from the ensemble.
 * Threads.  Immutable once made.
 */
#pragma once

#include "base/arena.h"
#include "config/ensemble_graph.h"

#include <stddef.h>

struct model;
struct model_io;
struct request;
struct step_models;

struct plan_step {
        const struct ensemble_step *step;
        struct model               *model;  /* borrowed: the snapshot's */
        const struct model_io     **inputs; /* of the model, by the index of the link */
        const struct model_io     **outputs;
        uint32_t                    index;
        uint32_t                    in_stream; /* of what it reads */
        uint32_t                    out_stream;
        uint32_t                    place;     /* in the frames of in_stream */
        uint32_t                    n_tensors; /* that it reads, each counted once */
        uint32_t                   *feeders;   /* steps that it reads from, each once */
        uint32_t                    n_feeders;
};

struct plan_tensor {
        uint32_t stream;
        uint32_t place; /* in its frames */
};

struct plan_stream {
        uint32_t *steps; /* that read of it, in the order of the graph */
        uint32_t  n_steps;
        uint32_t  n_tensors;
        uint32_t  producer; /* the decoupled step; ENSEMBLE_NONE for stream 0 */
};

/* Which outputs a request asks for, and what follows from that. */
struct plan_choice {
        bool     *has_step;  /* by step: it is needed for them */
        bool     *is_output; /* by tensor: it is one of them */
        bool     *is_used;   /* by tensor: it is one of them, or a needed step reads it */
        bool     *writes;    /* by step: it is needed and writes some of them */
        uint32_t *n_users;   /* by step: needed steps that read from it, and one more for outputs */
        uint32_t *n_steps;   /* by stream: needed ones that read of it */
        uint32_t  n_outputs;
        /* The step whose outputs are written where the response will be; ENSEMBLE_NONE: none is.
         * One only, since memory for one response is asked for by one thread at a time. */
        uint32_t direct_step;
        void    *memory; /* owned, of all arrays */
};

struct ensemble_plan {
        struct arena           arena;
        struct ensemble_graph *graph; /* owned */
        struct plan_step      *steps; /* in arena, as all below */
        struct plan_tensor    *tensors;
        struct plan_stream    *streams;
        uint32_t               n_streams;
        uint32_t               out_stream; /* of the ensemble's outputs */
        struct plan_choice     all;        /* when all outputs are asked for */
};

/* Errors as of ensemble_models_check(): the models do not fit the ensemble. */
struct error *ensemble_plan_new(const Inference__ModelConfig *ensemble,
                                const struct step_models *models, struct ensemble_plan **ret)
        NODISCARD;
void ensemble_plan_free(void *plan); /* NULL is fine; of struct step_models, free_plan */

/* For the outputs that the request asks for. False when memory is short. */
bool plan_choice_make(const struct ensemble_plan *p, const struct request *req,
                      struct plan_choice *ret) NODISCARD;
void plan_choice_done(struct plan_choice *c);
