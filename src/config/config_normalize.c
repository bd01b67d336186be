/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/config_normalize.h"

#include "config/batch_members.h"
#include "config/config_edit.h"

#include <stdio.h>
#include <string.h>

/* A sequence without a request for this long has ended (model configuration:
 * max_sequence_idle_microseconds). */
#define SEQUENCE_IDLE_DEFAULT_US UINT64_C(1000000)

static struct error *normalize_version_policy(struct model_config *c) {
        Inference__ModelVersionPolicy         *policy;
        Inference__ModelVersionPolicy__Latest *latest;

        if (c->pb->version_policy != NULL)
                return NULL;
        policy = config_edit_new(c, &inference__model_version_policy__descriptor);
        latest = config_edit_new(c, &inference__model_version_policy__latest__descriptor);
        if (policy == NULL || latest == NULL)
                return model_config_full(&c->arena);
        latest->num_versions = 1;
        policy->policy_choice_case = INFERENCE__MODEL_VERSION_POLICY__POLICY_CHOICE_LATEST;
        policy->latest = latest;
        c->pb->version_policy = policy;
        return NULL;
}

/* Default of the preferred sizes: [max_batch_size], if the model supports batches. */
static struct error *normalize_preferred(struct model_config *c, size_t *n_sizes, int32_t **sizes) {
        int32_t *one;

        if (*n_sizes > 0 || c->pb->max_batch_size <= 0)
                return NULL;
        one = arena_try_calloc(&c->arena, 1, sizeof(*one));
        if (one == NULL)
                return model_config_full(&c->arena);
        *one = c->pb->max_batch_size;
        *sizes = one;
        *n_sizes = 1;
        return NULL;
}

static struct error *normalize_dynamic(struct model_config             *c,
                                       Inference__ModelDynamicBatching *dynamic) {
        return normalize_preferred(c, &dynamic->n_preferred_batch_size,
                                   &dynamic->preferred_batch_size);
}

static struct error *normalize_sequence(struct model_config              *c,
                                        Inference__ModelSequenceBatching *sequence) {
        Inference__ModelSequenceBatching__StrategyOldest *oldest;

        if (sequence->max_sequence_idle_microseconds == 0)
                sequence->max_sequence_idle_microseconds = SEQUENCE_IDLE_DEFAULT_US;
        if (sequence->strategy_choice_case !=
            INFERENCE__MODEL_SEQUENCE_BATCHING__STRATEGY_CHOICE_OLDEST)
                return NULL;
        oldest = sequence->oldest;
        return normalize_preferred(c, &oldest->n_preferred_batch_size,
                                   &oldest->preferred_batch_size);
}

static struct error *normalize_pinned(
        struct model_config *c, Inference__ModelOptimizationPolicy__PinnedMemoryBuffer **buffer) {
        if (*buffer != NULL)
                return NULL;
        *buffer = config_edit_new(
                c, &inference__model_optimization_policy__pinned_memory_buffer__descriptor);
        if (*buffer == NULL)
                return model_config_full(&c->arena);
        (*buffer)->enable = true;
        return NULL;
}

static struct error *normalize_optimization(struct model_config *c) {
        if (c->pb->optimization == NULL)
                c->pb->optimization =
                        config_edit_new(c, &inference__model_optimization_policy__descriptor);
        if (c->pb->optimization == NULL)
                return model_config_full(&c->arena);
        TRY(normalize_pinned(c, &c->pb->optimization->input_pinned_memory));
        return normalize_pinned(c, &c->pb->optimization->output_pinned_memory);
}

struct error *model_config_normalize(struct model_config *c) {
        TRY(normalize_version_policy(c));
        switch (c->pb->scheduling_choice_case) {
        case INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING:
                TRY(normalize_dynamic(c, c->pb->dynamic_batching));
                break;
        case INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_SEQUENCE_BATCHING:
                TRY(normalize_sequence(c, c->pb->sequence_batching));
                break;
        case INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_ENSEMBLE_SCHEDULING: return NULL;
        default: break;
        }
        return normalize_optimization(c);
}

/* ---- instance groups: what depends on the backend and on the machine ------------------------- */

#define KIND_AUTO INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_AUTO
#define KIND_CPU INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_CPU
#define KIND_GPU INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_GPU

static bool has_gpu(const int32_t *gpus, size_t n_gpus, int32_t gpu) {
        for (size_t i = 0; i < n_gpus; i++)
                if (gpus[i] == gpu)
                        return true;
        return false;
}

/* Sets the group's GPUs to the usable ones of `wanted`; to all usable ones when n_wanted is 0. */
static struct error *put_gpus(struct model_config *c, Inference__ModelInstanceGroup *group,
                              const struct config_devices  *devices,
                              const struct preferred_group *preferred) {
        bool     takes_all = preferred == NULL || preferred->n_gpus == 0;
        int32_t *gpus;

        if (devices->n_gpus == 0)
                return NULL;
        gpus = arena_try_calloc(&c->arena, devices->n_gpus, sizeof(*gpus));
        if (gpus == NULL)
                return model_config_full(&c->arena);
        group->gpus = gpus;
        for (size_t i = 0; i < devices->n_gpus; i++)
                if (takes_all || has_gpu(preferred->gpus, preferred->n_gpus, devices->gpus[i]))
                        gpus[group->n_gpus++] = devices->gpus[i];
        return NULL;
}

/* For KIND_AUTO: whether these GPUs are usable decides about the kind. */
static struct error *copy_gpus(struct model_config *c, Inference__ModelInstanceGroup *group,
                               const struct preferred_group *preferred) {
        if (preferred->n_gpus == 0)
                return NULL;
        group->gpus = arena_try_calloc(&c->arena, preferred->n_gpus, sizeof(*group->gpus));
        if (group->gpus == NULL)
                return model_config_full(&c->arena);
        memcpy(group->gpus, preferred->gpus, preferred->n_gpus * sizeof(*group->gpus));
        group->n_gpus = preferred->n_gpus;
        return NULL;
}

static bool is_usable(const struct preferred_group *preferred,
                      const struct config_devices  *devices) {
        if (preferred->kind != KIND_GPU)
                return true;
        if (preferred->n_gpus == 0)
                return devices->n_gpus > 0;
        for (size_t i = 0; i < preferred->n_gpus; i++)
                if (has_gpu(devices->gpus, devices->n_gpus, preferred->gpus[i]))
                        return true;
        return false;
}

/* Adds the group of a model that configures none: the first preferred one that the machine
 * supports. */
static struct error *add_group(struct model_config *c, const struct config_devices *devices) {
        Inference__ModelInstanceGroup *group;

        c->pb->instance_group = arena_try_calloc(&c->arena, 1, sizeof(*c->pb->instance_group));
        group = config_edit_new(c, &inference__model_instance_group__descriptor);
        if (c->pb->instance_group == NULL || group == NULL)
                return model_config_full(&c->arena);
        TRY(config_edit_text(c, &group->name, "", c->pb->name));
        for (size_t i = 0; i < devices->n_preferred; i++) {
                const struct preferred_group *preferred = &devices->preferred[i];

                if (!is_usable(preferred, devices))
                        continue;
                group->kind = preferred->kind;
                group->count = preferred->count > INT32_MAX ? INT32_MAX : (int32_t)preferred->count;
                if (preferred->kind == KIND_GPU)
                        TRY(put_gpus(c, group, devices, preferred));
                else if (preferred->kind == KIND_AUTO)
                        TRY(copy_gpus(c, group, preferred));
                break;
        }
        c->pb->instance_group[0] = group;
        c->pb->n_instance_group = 1;
        return NULL;
}

static void resolve_kind(Inference__ModelInstanceGroup *group,
                         const struct config_devices   *devices) {
        if (group->kind != KIND_AUTO)
                return;
        group->kind = devices->n_gpus > 0 && !devices->is_cpu_only ? KIND_GPU : KIND_CPU;
        for (size_t i = 0; i < group->n_gpus; i++)
                if (!has_gpu(devices->gpus, devices->n_gpus, group->gpus[i]))
                        group->kind = KIND_CPU;
}

static const struct preferred_group *find_preferred(const struct config_devices        *devices,
                                                    Inference__ModelInstanceGroup__Kind kind) {
        for (size_t i = 0; i < devices->n_preferred; i++)
                if (devices->preferred[i].kind == kind &&
                    is_usable(&devices->preferred[i], devices))
                        return &devices->preferred[i];
        return NULL;
}

/* Frameworks whose sessions gain from a second instance on the CPU (model configuration:
 * instance_group.count). */
static int32_t default_count(const Inference__ModelConfig        *pb,
                             const Inference__ModelInstanceGroup *group) {
        bool is_framework = config_text_is(pb->backend, "onnxruntime") ||
                            config_text_is(pb->backend, "tensorflow");

        return group->kind == KIND_CPU && is_framework ? 2 : 1;
}

static struct error *put_name(struct model_config *c, Inference__ModelInstanceGroup *group,
                              size_t index) {
        char suffix[24]; /* '_' and the digits of a size_t */

        if (config_text_is_set(group->name))
                return NULL;
        snprintf(suffix, sizeof(suffix), "_%zu", index);
        return config_edit_text(c, &group->name, c->pb->name, suffix);
}

static struct error *normalize_group(struct model_config *c, size_t index,
                                     const struct config_devices *devices) {
        Inference__ModelInstanceGroup *group = c->pb->instance_group[index];
        const struct preferred_group  *preferred;

        TRY(put_name(c, group, index));
        resolve_kind(group, devices);
        preferred = find_preferred(devices, group->kind);
        if (group->count < 1 && preferred != NULL && preferred->count > 0)
                group->count = preferred->count > INT32_MAX ? INT32_MAX : (int32_t)preferred->count;
        if (group->count < 1)
                group->count = default_count(c->pb, group);
        if (group->kind == KIND_GPU && group->n_gpus == 0)
                TRY(put_gpus(c, group, devices, preferred));
        return NULL;
}

struct error *model_config_normalize_groups(struct model_config         *c,
                                            const struct config_devices *devices) {
        if (model_config_is_ensemble(c))
                return NULL;
        TRY(batch_members_expand(c));
        if (c->pb->n_instance_group == 0)
                TRY(add_group(c, devices));
        for (size_t i = 0; i < c->pb->n_instance_group; i++)
                TRY(normalize_group(c, i, devices));
        return NULL;
}
