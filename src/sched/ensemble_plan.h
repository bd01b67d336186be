/* SPDX-License-Identifier: BSD-3-Clause */
/* The plan of an ensemble: its graph with one set of models for the steps. It has all facts that do
 * not depend on the request.
 *
 * Streams.  A decoupled step sends any number of responses, and the steps that read from it run
 * once for each response. The tensors that are computed from its responses, and the steps that read
 * them, form a stream with one element for each response (config/ensemble_models.h). Stream 0 has
 * the tensors and steps that occur once for each request. A run has a frame for each element of a
 * stream, with a place for each tensor and each step of the stream.
 *
 * Ownership.  A plan belongs to the snapshot of models that it was made for. It borrows the models
 * from the snapshot, and the configuration from the ensemble.
 * Threads.  Immutable after ensemble_plan_new().
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
        uint32_t                    in_stream; /* stream of the tensors that it reads */
        uint32_t                    out_stream;
        uint32_t                    place;     /* of this step in the frames of in_stream */
        uint32_t                    n_tensors; /* different tensors that it reads */
        uint32_t                   *feeders;   /* the steps that it reads from, each once */
        uint32_t                    n_feeders;
};

struct plan_tensor {
        uint32_t stream;
        uint32_t place; /* in the frames of the stream */
};

struct plan_stream {
        uint32_t *steps; /* steps that read its tensors, in the order of the graph */
        uint32_t  n_steps;
        uint32_t  n_tensors;
        uint32_t  producer; /* the decoupled step; ENSEMBLE_NONE for stream 0 */
};

/* The outputs that a request asks for, and the steps and tensors that they need. */
struct plan_choice {
        bool     *has_step;  /* by step: a requested output needs it */
        bool     *is_output; /* by tensor: it is a requested output */
        bool     *is_used;   /* by tensor: it is a requested output, or a needed step reads it */
        bool     *writes;    /* by step: it writes a requested output */
        uint32_t *n_users;   /* by step: needed steps that read from it, +1 if it writes outputs */
        uint32_t *n_steps;   /* by stream: needed steps that read its tensors */
        uint32_t  n_outputs;
        /* The step that writes its outputs directly into the client's memory; ENSEMBLE_NONE: no
         * step. At most one, because only one thread at a time may call the allocator for a
         * response. */
        uint32_t direct_step;
        void    *memory; /* owned: one block for all arrays */
};

struct ensemble_plan {
        struct arena           arena;
        struct ensemble_graph *graph; /* owned */
        struct plan_step      *steps; /* in arena, as the arrays below */
        struct plan_tensor    *tensors;
        struct plan_stream    *streams;
        uint32_t               n_streams;
        uint32_t               out_stream; /* of the ensemble's outputs */
        struct plan_choice     all;        /* for requests that ask for all outputs */
        size_t                 step_bytes; /* cost of the largest inner request (step_cost.h) */
        size_t                 run_bytes;  /* what a run is charged at its beginning */
};

/* Returns the errors of ensemble_models_check() when the models do not fit the ensemble. */
struct error *ensemble_plan_new(const Inference__ModelConfig *ensemble,
                                const struct step_models *models, struct ensemble_plan **ret)
        NODISCARD;
void ensemble_plan_free(void *plan); /* NULL is fine; see struct step_models, free_plan */

/* Computes the choice for the outputs that the request asks for. False when memory is short. */
bool plan_choice_make(const struct ensemble_plan *p, const struct request *req,
                      struct plan_choice *ret) NODISCARD;
void plan_choice_done(struct plan_choice *c);
