/* SPDX-License-Identifier: BSD-3-Clause */
/* What a chain's stages are for one set of models, worked out once: which output goes to which input,
 * which outputs nobody takes, and the largest batch that all stages take. The functions are in chain.h.
 *
 * Threads.  Immutable once made.
 */
#pragma once

#include "sched/chain.h"

#include <stdint.h>

struct metric;

struct planned_stage {
        struct model      *model;     /* borrowed, see chain_plan_stage() */
        struct chain_edge *edge;      /* owned; to the next stage; NULL for the last */
        const char       **outputs;   /* owned array; what to ask for */
        uint32_t           n_outputs; /* 0: all */
        struct metric     *failure;   /* borrowed: the chain's metrics */
        struct metric     *handoff;   /* likewise; to the next stage */
};

struct chain_plan {
        uint32_t             n;
        uint32_t             max_batch;
        uint32_t             narrowest; /* the stage that sets it */
        struct planned_stage stages[];
};
