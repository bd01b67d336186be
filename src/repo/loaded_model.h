/* SPDX-License-Identifier: BSD-3-Clause */
/* One loaded version of a model with all that it is made of: what `struct model` is embedded in.
 * For the files of src/repo that load, change and end models.
 *
 * Ownership.  The owner of everything in it; it ends on the reaper's thread once the last
 * reference to the model is gone.
 * Threads.  Changed by its loader only, before it is published and while its instances are
 * updated (one update at a time); `lock` guards what others read meanwhile.
 */
#pragma once

#include "backend/backend_instance.h"
#include "base/lock.h"
#include "base/ref.h"
#include "infer/model.h"
#include "repo/reaper.h"
#include "repo/repo_parts.h"

struct agent_list;
struct batch_strategy;
struct composed_model;
struct model_runner_ops;
struct override_files;

/* A configuration that came later than the model and differs in its instance groups. */
struct group_config {
        struct ref           ref;
        struct model_config *shown; /* owned: the model's with the new groups; borrows from: */
        struct model_config *given; /* owned */
};

struct loaded_instance {
        struct backend_instance *backend;  /* owned */
        struct job_thread       *thread;   /* owned; of its own, see instance_start.h; NULL: none */
        struct group_config     *config;   /* ref: its group lives there; NULL: in the model's */
        size_t                   group;    /* index there */
        uint32_t                 index;    /* in the group: the number in its name */
        size_t                   n_checks; /* threads that ask it something */
};

struct loaded_model {
        struct model                   model;
        const struct model_runner_ops *runner; /* what runs it */
        const struct repo_parts       *parts;  /* borrowed: the server */
        char                          *name;   /* owned */
        char *namespace;                       /* owned */
        char                  *label;          /* owned */
        char                  *directory;      /* owned */
        struct agent_list     *agents;         /* ref; NULL: it has none */
        struct override_files *override;       /* ref; NULL unless files were sent for it */
        char *effective_config; /* owned; its complete configuration, see model_files.h */
        struct backend_model   backend;
        struct batch_strategy *strategy; /* owned; NULL: batches as the configuration says */
        struct composed_model *composed; /* owned; NULL: it needs no other models */
        double                 load_seconds;
        struct reaper_item     reaping;

        struct mutex             lock;      /* rank LOCK_MODEL; guards everything below */
        struct cond              checked;   /* an instance has one check fewer */
        struct loaded_instance **instances; /* owned, and each */
        size_t                   n_instances;
        struct group_config     *groups; /* ref; NULL: as in model.config */
};

static inline struct loaded_model *loaded_model_of(struct model *model) {
        return model->owner;
}

/* The configuration that the instance was made with. */
static inline const struct model_config *loaded_instance_config(const struct loaded_model    *l,
                                                                const struct loaded_instance *in) {
        return in->config != NULL ? in->config->shown : l->model.config;
}

/* Of that configuration. */
static inline const Inference__ModelInstanceGroup *loaded_instance_group(
        const struct loaded_model *l, const struct loaded_instance *in) {
        return loaded_instance_config(l, in)->pb->instance_group[in->group];
}
