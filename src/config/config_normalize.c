/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/config_normalize.h"

#include "config/config_edit.h"

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
                return config_edit_full();
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
        one = config_edit_alloc(c, 1, sizeof(*one));
        if (one == NULL)
                return config_edit_full();
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
                return config_edit_full();
        (*buffer)->enable = true;
        return NULL;
}

static struct error *normalize_optimization(struct model_config *c) {
        if (c->pb->optimization == NULL)
                c->pb->optimization =
                        config_edit_new(c, &inference__model_optimization_policy__descriptor);
        if (c->pb->optimization == NULL)
                return config_edit_full();
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
