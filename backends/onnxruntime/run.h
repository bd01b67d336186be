/* SPDX-License-Identifier: BSD-3-Clause */
/* One instance of a model, and its execution of batches.
 *
 * A batch is gathered into one run of the session, and its outputs are scattered. Copies are made
 * only where the batch needs them: the buffers of a single request are passed to the runtime
 * directly, and outputs with a fixed shape are computed directly into the response.
 *
 * An instance on a GPU has its tensors there, see device_run.h.
 *
 * Requests that do not fit each other (different shapes of an input, different optional inputs) run
 * one group after the other. When a run of several requests fails, each runs alone, so that only
 * the requests fail that cannot be run.
 *
 * Ownership.  An instance owns its arrays and scratch memory. It borrows model and session.
 * Threads.  One execution at a time per instance, as the server guarantees; instances share no
 * mutable state.
 */
#pragma once

#include "kit/batch.h"
#include "kit/batch_input.h"
#include "kit/memory.h"
#include "kit/model.h"
#include "kit/scratch.h"
#include "onnxruntime/onnx_session.h"

/* Facts about a tensor of the session that are known at load. */
struct run_input {
        const char *name;        /* borrowed: the session */
        bool        is_optional; /* may be missing from a request and from the run */
        bool        is_ragged;
        bool        is_scalar;              /* has no dimensions in the model, [1] for clients */
        const struct kit_batch_input *made; /* borrowed: the plan; not NULL: made of the batch */
        bool can_differ; /* its shape may differ between requests that the server batches */
};

struct run_output {
        const char           *name; /* borrowed: the session */
        TRITONSERVER_DataType type;
        const int64_t        *scalar_shape; /* borrowed: [1] for clients where the model has no
                                             * dimensions */
        uint32_t              n_scalar_dims;
        const struct kit_batch_output
                *cut;       /* borrowed: the plan; not NULL: is flat over the batch */
        bool     is_listed; /* clients may ask for it */
        bool     is_state;
        bool     is_in_place; /* a state: may be written where the old value is read */
        bool     is_fixed;    /* all dims except the rows are known before the run */
        size_t   row_bytes;   /* when it is fixed */
};

/* Per model: made once, read by all its instances. */
struct run_plan {
        const struct session    *session; /* borrowed */
        const char              *model_name;
        int64_t                  max_batch_size;
        bool                     can_differ; /* whether the shape of an input can */
        struct run_input        *inputs; /* owned: those of the session that requests can have */
        size_t                   n_inputs;
        struct run_output       *outputs;      /* owned, one per output of the session */
        struct kit_batch_input  *batch_inputs; /* owned */
        size_t                   n_batch_inputs;
        struct kit_batch_output *batch_outputs; /* owned */
        size_t                   n_batch_outputs;
};

TRITONSERVER_Error *run_plan_init(struct run_plan *plan, const struct kit_model *model,
                                  const struct session *session);
void                run_plan_done(struct run_plan *plan);

/* One output of a run. */
struct run_bound {
        const struct run_output *output;    /* borrowed: the plan */
        void                    *buffer;    /* borrowed: the response's, when it was made before the
                                             * run */
        struct kit_place         place;     /* of the buffer */
        TRITONBACKEND_State     *state;     /* the run writes into its memory */
        size_t                   n_bytes;   /* of the buffer */
        bool                     is_direct; /* the run writes into the buffer itself */
};

struct device_run; /* device_run.h */

struct run_instance {
        const struct run_plan       *plan; /* borrowed: the model outlives its instances */
        TRITONBACKEND_ModelInstance *triton;
        struct kit_scratch          *scratch;      /* owned, one per input of the plan */
        const char                 **input_names;  /* owned; for one run, as are those below */
        OrtValue                   **input_values; /* owned */
        size_t                       n_inputs;
        const char                 **output_names;  /* owned */
        OrtValue                   **output_values; /* owned */
        struct run_bound            *bound;         /* owned; parallel to output_values */
        size_t                       n_outputs;
        struct kit_scratch           chars;  /* for string outputs */
        struct device_run           *device; /* owned; NULL: on the CPU */
};

TRITONSERVER_Error *run_instance_new(const struct run_plan       *plan,
                                     TRITONBACKEND_ModelInstance *triton,
                                     struct run_instance        **ret);
void                run_instance_free(struct run_instance *instance);

/* As TRITONBACKEND_ModelInstanceExecute. */
TRITONSERVER_Error *run_execute(struct run_instance *instance, TRITONBACKEND_Request **requests,
                                uint32_t n_requests);
