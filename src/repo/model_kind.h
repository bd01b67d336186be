/* SPDX-License-Identifier: BSD-3-Clause */
/* The kind of a loaded model: a backend with its instances, or other models.
 *
 * src/repo/model_load.c does what all models share (configuration, labels, statistics, publishing)
 * and calls the functions of the kind in between:
 *
 *     open -> normalize -> (checks, labels, inputs, outputs, statistics) -> make -> serves -> free
 *
 * Ownership.  What these functions make lives in the loaded model. free() ends it at any stage of the
 * load. The scheduler is freed before that.
 * Threads.  The loader's, one at a time. is_ready(): any.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>

struct loaded_model;
struct model;
struct model_config;
struct model_files;
struct model_update;
struct readiness;

struct model_kind_ops {
        /* Opens what completes the configuration. */
        struct error *(*open)(struct loaded_model *l);
        /* Fills in and checks the parts of a configuration that depend on the kind (instance
         * groups): of the configuration in force, or of a new one. */
        struct error *(*normalize)(struct loaded_model *l, struct model_config *config);
        /* Makes the instances and the scheduler: l->model.scheduler. */
        struct error *(*make)(struct loaded_model *l);
        /* Prepares a change to `config` without a reload, see model_instances.h. *ret is NULL when
         * nothing differs. */
        struct error *(*update)(struct loaded_model *l, const struct model_config *config,
                                struct model_update **ret);
        /* True when the model can serve now. */
        bool (*is_ready)(struct loaded_model *l);
        void (*free)(struct loaded_model *l);
};

/* True when a loaded model can serve now. In composed_model.c, since it depends on the models that
 * the model needs. */
bool model_is_ready(struct model *model);
/* The same, without the models that it needs. */
bool model_is_ready_itself(struct model *model);
/* What the core knows of that without a call of a backend. */
struct readiness model_readiness(struct model *model);
struct error    *model_update(struct model *model, const struct model_files *files,
                              struct model_update **ret) NODISCARD;

/* kind_backend.c: instances of one backend. */
extern const struct model_kind_ops kind_backend;
/* kind_composed.c: other models, those of the loaded model's `composed`. */
extern const struct model_kind_ops kind_composed;
