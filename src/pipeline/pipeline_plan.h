/* SPDX-License-Identifier: BSD-3-Clause */
/* The plan of a composed model, an ensemble or a chain, for one set of models: everything that does
 * not depend on the request. One runner (pipeline/runner.h) executes all plans. ensemble_plan.c and
 * chain_plan.c make them.
 *
 * Streams.  A decoupled step sends any number of responses, and the steps that read from it run
 * once for each response. The tensors that are computed from its responses, and the steps that read
 * them, form a stream with one element for each response (config/ensemble_models.h). Stream 0 has
 * the tensors and steps that occur once for each request. A run has a frame for each element of a
 * stream, with a place for each tensor and each step of the stream.
 *
 * Chains.  The plan of a chain is a line of steps in stream 0. A step begins when the one before it
 * has ended. The last step writes no tensors: its responses are passed on to the client.
 *
 * Ownership.  A plan belongs to the snapshot of models that it was made for. It borrows the models
 * from the snapshot, and the configuration from the composed model.
 * Threads.  Immutable after it was made.
 */
#pragma once

#include "base/arena.h"
#include "pipeline/tensor_bridge.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct metric;
struct model;
struct model_io;
struct request;
struct step_models;

#define PLAN_NONE UINT32_MAX

/* A tensor of the plan as an input or output of a step's model. */
struct plan_link {
        const struct model_io *io;     /* of the step's model */
        uint32_t               tensor; /* index */
        uint32_t               place;  /* of the tensor, in the frames of its stream */
        enum tensor_bridge     bridge; /* for inputs */
};

struct plan_step {
        struct model       *model;  /* borrowed: the snapshot's */
        struct step_models *nested; /* likewise: of its own steps; may be NULL */
        struct plan_link   *inputs;
        struct plan_link   *outputs;
        uint32_t            n_inputs;
        uint32_t            n_outputs;
        uint32_t            index;
        uint32_t            in_stream; /* stream of the tensors that it reads */
        uint32_t            out_stream;
        uint32_t            place;     /* of this step in the frames of in_stream */
        uint32_t            n_tensors; /* different tensors that it reads */
        uint32_t           *feeders;   /* the steps that it reads from, each once */
        uint32_t            n_feeders;
        bool                has_sequence; /* gets the correlation id and the flags of the request */
        bool                is_passed_on; /* its responses are the client's */
        bool                is_in_run;    /* its outputs are freed with the run at the latest */

        /* For a chain; borrowed from the chain's metrics. NULL: not counted. */
        struct metric *failure;
        struct metric *handoff; /* to the next stage */
};

struct plan_tensor {
        const char *name;    /* of the composed model; NULL: none */
        uint32_t    writer;  /* step; PLAN_NONE: an input of the composed model */
        uint32_t   *readers; /* steps that wait for it, ascending, each once; none in a chain */
        uint32_t    n_readers;
        uint32_t    stream;
        uint32_t    place; /* in the frames of the stream */
};

struct plan_stream {
        uint32_t *steps; /* steps that read its tensors, in the order of the graph */
        uint32_t  n_steps;
        uint32_t  n_tensors;
        uint32_t  producer; /* the decoupled step; PLAN_NONE for stream 0 */
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
        /* The step that writes its outputs directly into the client's memory; PLAN_NONE: no step. At
         * most one, because only one thread at a time may call the allocator for a response. */
        uint32_t direct_step;
        void    *memory; /* owned: one block for all arrays */
};

struct pipeline_plan {
        struct arena        arena;
        uint64_t            id;    /* differs from that of every other plan of the process */
        struct plan_step   *steps; /* in arena, as all arrays */
        uint32_t            n_steps;
        struct plan_tensor *tensors;
        uint32_t            n_tensors;
        struct plan_stream *streams;
        uint32_t            n_streams;
        uint32_t            out_stream; /* of the outputs */
        uint32_t           *order;      /* steps, each after the steps that it reads from */
        uint32_t            n_ordered;
        uint32_t           *inputs;  /* tensor of each input of the composed model, by its index */
        uint32_t           *outputs; /* the same for outputs; not for chains */
        uint32_t            n_outputs;
        bool                is_chain;
        size_t              step_bytes; /* cost of the largest request to a step (step_cost.h) */
        size_t run_bytes; /* what a run is charged at its beginning; set by the runner */
        struct plan_choice
                all; /* for requests that ask for all outputs; every request of a chain */
};

/* Completes a plan whose steps have their inputs and outputs, and whose tensors have their writers,
 * readers and streams. False when memory is short. */
bool pipeline_plan_finish(struct pipeline_plan *p) NODISCARD;
void pipeline_plan_done(struct pipeline_plan *p);

/* Computes the choice for the outputs that the request asks for. False when memory is short. */
bool plan_choice_make(const struct pipeline_plan *p, const struct request *req,
                      struct plan_choice *ret) NODISCARD;
void plan_choice_done(struct plan_choice *c);
