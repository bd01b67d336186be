/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of normalised instance groups. */
#include "config/config_check.h"

#include "config/batch_members.h"
#include "config/config_edit.h"

/* Each instance has a thread and a backend's state: no real configuration needs more. */
#define MAX_INSTANCES 4096

static struct error *refuse(const Inference__ModelConfig        *pb,
                            const Inference__ModelInstanceGroup *group, const char *reason) {
        return error_new(ERR_INVALID_ARG, "instance group %s of model %s has %s", group->name,
                         pb->name, reason);
}

static struct error *check_kind(const Inference__ModelConfig        *pb,
                                const Inference__ModelInstanceGroup *group, size_t n_gpus) {
        switch (group->kind) {
        case INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_MODEL:
                if (group->n_gpus > 0)
                        return error_at(refuse(pb, group,
                                               "kind KIND_MODEL but specifies one or more GPUs"),
                                        "gpus");
                return NULL;
        case INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_GPU:
                if (n_gpus == 0)
                        return error_at(refuse(pb, group,
                                               "kind KIND_GPU but server does not support GPUs"),
                                        "kind");
                if (group->n_gpus == 0)
                        return error_at(refuse(pb, group,
                                               "kind KIND_GPU but no GPUs are available"),
                                        "kind");
                return NULL;
        case INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_CPU:
                if (group->n_gpus > 0)
                        return error_at(refuse(pb, group,
                                               "kind KIND_CPU but specifies one or more GPUs"),
                                        "gpus");
                return NULL;
        default: return error_at(refuse(pb, group, "an unexpected kind"), "kind");
        }
}

static struct error *check_profile(const Inference__ModelConfig        *pb,
                                   const Inference__ModelInstanceGroup *group) {
        if (group->n_profile == 0 || config_text_is(pb->platform, "tensorrt_plan"))
                return NULL;
        return error_at(
                error_new(ERR_INVALID_ARG,
                          "instance group %s of model %s and platform %sspecifies profile field "
                          "which is only supported for TensorRT models",
                          group->name, pb->name, pb->platform),
                "profile");
}

static struct error *check_count(const Inference__ModelConfig        *pb,
                                 const Inference__ModelInstanceGroup *group, int64_t *n_all) {
        *n_all += group->count;
        if (*n_all <= MAX_INSTANCES)
                return NULL;
        return error_new(ERR_INVALID_ARG,
                         "instance group %s of model %s has count %d: a model may have at most %d "
                         "instances in all",
                         group->name, pb->name, group->count, MAX_INSTANCES);
}

struct error *model_config_check_groups(const struct model_config *c, size_t n_gpus) {
        const Inference__ModelConfig *pb = c->pb;
        int64_t                       n_all = 0;

        if (model_config_is_ensemble(c))
                return NULL;
        if (pb->n_instance_group == 0)
                return error_new(ERR_INVALID_ARG,
                                 "must specify one or more 'instance group's for %s", pb->name);
        for (size_t i = 0; i < pb->n_instance_group; i++) {
                TRY(error_at(check_kind(pb, pb->instance_group[i], n_gpus), "instance_group[%zu]",
                             i));
                TRY(error_at(check_profile(pb, pb->instance_group[i]), "instance_group[%zu]", i));
                TRY(error_at(check_count(pb, pb->instance_group[i], &n_all),
                             "instance_group[%zu].count", i));
        }
        return batch_members_check(c);
}
