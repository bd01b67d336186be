/* SPDX-License-Identifier: BSD-3-Clause */
/* What runs a loaded model: a backend with its instances, or other models.
 *
 * src/repo/model_load.c does what all models share (configuration, labels, statistics, publishing)
 * and calls the runner in between:
 *
 *     open -> normalize -> (checks, labels, inputs and outputs, statistics) -> make -> serves -> free
 *
 * Ownership.  What a runner makes lives in the loaded model, and free() ends it, however far the
 * load has come. The scheduler is freed before.
 * Threads.  The loader's, one at a time; is_ready() any.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>

struct loaded_model;
struct model;
struct model_config;
struct model_update;

struct model_runner_ops {
        /* What completes the configuration. */
        struct error *(*open)(struct loaded_model *l);
        /* What of a configuration depends on the runner (instance groups), filled in and checked:
         * the model's own, or one that will be. */
        struct error *(*normalize)(struct loaded_model *l, struct model_config *config);
        /* Instances and the scheduler: l->model.scheduler. */
        struct error *(*make)(struct loaded_model *l);
        /* What it would take to serve by `config` without a reload, see model_instances.h. *ret is
         * NULL when nothing differs. */
        struct error *(*update)(struct loaded_model *l, const struct model_config *config,
                                struct model_update **ret);
        /* Can it serve right now? */
        bool (*is_ready)(struct loaded_model *l);
        void (*free)(struct loaded_model *l);
};

/* Of a model that was loaded; in composed_model.c, since it depends on those that the model needs. */
bool model_is_ready(struct model *model);
/* The same whatever becomes of the models that it needs. */
bool          model_is_ready_itself(struct model *model);
struct error *model_update(struct model *model, const struct model_config *config,
                           struct model_update **ret) NODISCARD;

/* run_backend.c: instances of one backend. */
extern const struct model_runner_ops run_backend;
/* run_composed.c: other models, which the loaded model's `composed` has. */
extern const struct model_runner_ops run_composed;
