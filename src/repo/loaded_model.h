/* SPDX-License-Identifier: BSD-3-Clause */
/* One loaded version of a model: its instances, its batcher and what else belongs to it. `struct model`
 * is embedded in it. For the files of src/repo that load, change and end models.
 *
 * Ownership.  It owns everything in it. It ends on the reaper's thread, after the last reference to
 * the model was dropped.
 * Threads.  Only its loader changes it, before it is published and while its instances are updated
 * (one update at a time). `lock` guards what other threads read meanwhile.
 */
#pragma once

#include "backend/backend_instance.h"
#include "base/lock.h"
#include "base/ref.h"
#include "infer/model.h"
#include "repo/config_origin.h"
#include "repo/reaper.h"
#include "repo/repo_environment.h"

#include <stdatomic.h>

struct agent_list;
struct batch_strategy;
struct composed_model;
struct model_kind_ops;
struct override_files;
struct store_copy;

/* A configuration that came after the load and differs in its instance groups. */
struct group_config {
        struct ref           ref;
        struct model_config *shown; /* owned: the model's configuration with the new groups;
                                     * borrows from `given` */
        struct model_config *given; /* owned */
};

struct loaded_instance {
        struct backend_instance *backend;  /* owned */
        struct job_thread       *thread;   /* owned; its thread; NULL: none */
        struct group_config     *config;   /* ref: has its group; NULL: model.config has */
        size_t                   group;    /* index in that configuration */
        int                      device;   /* its GPU; GPU_HOST: none */
        uint32_t                 index;    /* index in the group: the number in its name */
        size_t                   n_checks; /* threads that query it now */
};

struct loaded_model {
        struct model                   model;
        const struct model_kind_ops   *kind; /* what it consists of */
        const struct repo_environment *env;  /* borrowed: the server */
        /* Borrowed from the change that loads or updates it, meanwhile: the number of changes that wait and
         * make it needless. Else NULL. */
        const atomic_uint *n_superseding;
        char              *name;          /* owned */
        char *namespace;                  /* owned */
        char                  *label;     /* owned */
        char                  *directory; /* owned */
        struct agent_list     *agents;    /* ref; NULL: no agents */
        struct override_files *override;  /* ref; NULL: no uploaded files */
        struct store_copy     *copy;      /* ref; holds the directory; NULL: it is not remote */
        struct config_origin   origin;    /* owned */
        char  *effective_config;          /* owned; the complete configuration, see model_files.h */
        size_t n_charged; /* to the environment's state_memory, for configuration and labels */
        struct backend_model   backend;
        struct batch_strategy *strategy; /* owned; NULL: none */
        struct composed_model *composed; /* owned; NULL: needs no other models */
        double                 load_seconds;
        struct reaper_item     reaping;

        struct mutex             lock;      /* rank LOCK_MODEL; guards everything below */
        struct cond              checked;   /* signalled when an `n_checks` decreases */
        struct loaded_instance **instances; /* owned, and each */
        size_t                   n_instances;
        struct group_config     *groups; /* ref; NULL: those of model.config */
};

static inline struct loaded_model *loaded_model_of(struct model *model) {
        return model->owner;
}

/* Returns the configuration with which the instance was made. */
static inline const struct model_config *loaded_instance_config(const struct loaded_model    *l,
                                                                const struct loaded_instance *in) {
        return in->config != NULL ? in->config->shown : l->model.config;
}

/* Returns the group of the instance in that configuration. */
static inline const Inference__ModelInstanceGroup *loaded_instance_group(
        const struct loaded_model *l, const struct loaded_instance *in) {
        return loaded_instance_config(l, in)->pb->instance_group[in->group];
}
