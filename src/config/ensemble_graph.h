/* SPDX-License-Identifier: BSD-3-Clause */
/* The graph of an ensemble: its steps, and the tensors between them.
 *
 *     input X --> step 0 --> T --> step 2 --> output Y
 *            '--> step 1 --> U ----^
 *
 * A tensor is an input of the ensemble or is written by one step; any number of steps read it, and
 * it may be an output of the ensemble as well. The graph is used by all modules that need the
 * structure: the check of a configuration, the check against the models of the steps
 * (ensemble_models.h), and the scheduler that runs requests through it.
 *
 * Ownership.  A graph owns its arrays and borrows the names from its configuration, which outlives
 * it.
 * Threads.  Immutable after ensemble_graph_new(); shared freely.
 */
#pragma once

#include "base/arena.h"
#include "config/model_config.h"

#include <stdbool.h>
#include <stdint.h>

#define ENSEMBLE_NONE UINT32_MAX

/* One entry of an input_map or an output_map. */
struct ensemble_link {
        const char *name;   /* name of the input or output of the step's model */
        uint32_t    tensor; /* index */
};

struct ensemble_step {
        const char *model;
        const char *namespace;         /* "" for no namespace */
        int64_t               version; /* -1: the latest */
        struct ensemble_link *inputs;
        uint32_t              n_inputs;
        struct ensemble_link *outputs;
        uint32_t              n_outputs;
        bool                  is_connected; /* all tensors that it reads have a source */
};

struct ensemble_tensor {
        const char *name;
        uint32_t    writer;  /* step; ENSEMBLE_NONE: an input, or a tensor without a source */
        uint32_t    input;   /* index of the ensemble's input; ENSEMBLE_NONE: not an input */
        uint32_t    output;  /* the same for the ensemble's output */
        uint32_t   *readers; /* steps, ascending, each once */
        uint32_t    n_readers;
        bool        is_connected;
};

struct ensemble_graph {
        struct arena                  arena;
        const Inference__ModelConfig *pb;    /* borrowed */
        struct ensemble_step         *steps; /* in the order of the configuration */
        uint32_t                      n_steps;
        struct ensemble_tensor       *tensors; /* in the order of their first names */
        uint32_t                      n_tensors;
        uint32_t *order; /* connected steps, each after the steps that it reads from */
        uint32_t  n_ordered;
        uint32_t *inputs;  /* tensor of each input of the ensemble, by the input's index */
        uint32_t *outputs; /* the same for outputs; ENSEMBLE_NONE: not mapped */
};

/* `pb` is an ensemble's configuration. Errors: "must specify '<field>' in step <i> of ensemble
 * '<e>'", "ensemble tensor '<t>' can appear in an output map only once ...". */
struct error *ensemble_graph_new(const Inference__ModelConfig *pb, struct ensemble_graph **ret)
        NODISCARD;
void ensemble_graph_free(struct ensemble_graph *g); /* NULL is fine */

/* Checks that each tensor has a source and a reader. Errors: "ensemble input '<i>' for ensemble
 * <e>' is not used", "ensemble input '<i>' for ensemble '<e>' is also an output of step <n>",
 * "output '<o>' for ensemble '<e>' is not written ...", "ensemble tensor '<t>' is unused in
 * ensemble '<e>'". */
struct error *ensemble_graph_check(const struct ensemble_graph *g) NODISCARD;
