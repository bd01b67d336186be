/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs requests through the plan of a composed model: ensembles (ensemble.h) and chains (chain.h).
 *
 *     submit -> inputs -> steps that have all their inputs start
 *                  step ends -> its outputs are available -> further steps start ...
 *                        last step ends -> response, release
 *
 * Each step is an inner request. Its outputs stay where it wrote them, and the next step reads them
 * there. The last step writes the requested outputs into memory of the client's allocator, so the
 * response only points at them. Steps that no requested output needs do not run.
 *
 * Steps of fast models run one after the other on one thread (infer/infer_thread.h). A step that would
 * exceed max_inflight_requests waits in a queue and occupies no thread (pipeline/step_limit.h). The
 * runs of a chain whose stages end in the same execution on a thread are handed to the next stage
 * together, so that dynamic batching can make one batch of them again.
 *
 * A request has one deadline. The timeout of a step is the rest of the request's timeout, and no
 * step starts after the deadline. The error of the first step that fails is the error of the
 * request. It is sent after all steps that were started have ended. A cancellation is passed to the
 * running steps.
 *
 * Ownership.  A composed model owns its runner. A request holds the snapshot of its steps' models
 * until it ends (pipeline/step_models.h).
 * Threads.  Any, except for init and done.
 */
#pragma once

#include "base/block_cache.h"
#include "base/error.h"
#include "base/lock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct chain_metrics;
struct pipeline_plan;
struct request;
struct step_limit;
struct step_memory;
struct step_models;

struct runner_options {
        struct step_memory *memory;       /* borrowed: the server's; outlives the runner */
        uint32_t            n_steps;      /* with limits */
        uint32_t            max_inflight; /* of each step; 0: no limit */

        /* Of chains. */
        struct chain_metrics *metrics;       /* borrowed, likewise; NULL: it runs an ensemble */
        bool                  begins_at_own; /* the first stage is the model itself */
        bool                  may_end;       /* a response may end the chain: chain_allow_end */
        bool                  keeps_batches; /* chain_batching: "keep" */
};

struct runner {
        struct runner_options options;
        struct step_limit    *limits; /* owned; by step */
        struct mutex lock; /* rank LOCK_SEQUENCE; guards all below, and queued.run of requests */
        struct block_cache kept; /* memory of runs that have ended */
};

void runner_init(struct runner *r, const struct runner_options *o);
void runner_done(struct runner *r); /* no request is in flight */

/* Computes what a run of the plan is charged to the memory budget when it begins. */
void runner_price(struct pipeline_plan *plan);

/* Takes the request, and the reference to the models. On error neither is taken. The plan of the
 * models fits the request. UNAVAILABLE when memory is short or the budget is used up: but a request
 * that belongs to another one always fits the budget, since that was admitted and must be able to end. */
struct error *runner_submit(struct runner *r, struct request *req, struct step_models *models)
        NODISCARD;
void runner_cancel(struct runner *r, struct request *req);
