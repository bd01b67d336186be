/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs requests of an ensemble: a graph of models, each step an inner request.
 *
 *     submit -> inputs -> steps that have all of theirs begin, side by side
 *                  step ends -> its outputs are there -> further steps begin ...
 *                        last step ends -> response of the ensemble, release
 *
 * An output lies where its step wrote it and is the input of the next step there. The outputs that the
 * client asked for are written by the last step into the memory that the client's own allocator gives,
 * so the response only points at them. Steps for outputs that nobody asked for do not run.
 *
 * Steps of fast models run one after the other on one thread (infer/submitter.h). A step that finds its
 * max_inflight_requests used up waits in a line without a thread.
 *
 * A request has one deadline: a step gets what is left of the request's timeout, and does not begin
 * after it. The first step that fails decides the error, which is answered once all steps that have
 * begun ended: "in ensemble '<e>', <text>". A cancellation reaches the steps that are under way.
 *
 * Ownership.  The scheduler belongs to the ensemble's model. A request holds the snapshot of its steps'
 * models until it ends (sched/step_models.h).
 * Threads.  As struct scheduler_ops.
 */
#pragma once

#include "base/error.h"
#include "config/model_config.h"

#include <stdbool.h>

struct model;
struct scheduler;
struct step_models;
struct step_models_holder;
struct timer_thread;

/* Checks the ensemble against the models of a snapshot and prepares that, before the holder gets it:
 * every snapshot that requests take must have been prepared. *ret_is_decoupled says whether these models
 * make the ensemble decoupled; its configuration must say the same while it serves. INVALID_ARG with the
 * field that is wrong: "in ensemble <e>, ...". The configuration outlives the snapshot. */
struct error *ensemble_prepare(const struct model_config *ensemble, struct step_models *models,
                               bool *ret_is_decoupled) NODISCARD;

/* `steps` and `timers` outlive the scheduler; the snapshots of `steps` have been prepared. */
struct error *ensemble_new(struct model *model, struct step_models_holder *steps,
                           struct timer_thread *timers, struct scheduler **ret);
