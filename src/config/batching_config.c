/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/batching_config.h"

#include "base/clock.h"
#include "base/mem.h"
#include "config/config_edit.h"

static uint64_t ns_from_us(uint64_t us) {
        return us > CLOCK_NEVER / NS_PER_US ? CLOCK_NEVER : us * NS_PER_US;
}

static struct queue_policy compile_policy(const Inference__ModelQueuePolicy *pb) {
        if (pb == NULL)
                return (struct queue_policy){ 0 };
        return (struct queue_policy){
                .action = pb->timeout_action == INFERENCE__MODEL_QUEUE_POLICY__TIMEOUT_ACTION__DELAY
                                  ? QUEUE_TIMEOUT_DELAY
                                  : QUEUE_TIMEOUT_REJECT,
                .default_timeout_ns = ns_from_us(pb->default_timeout_microseconds),
                .allow_override = pb->allow_timeout_override,
                .max_queue_size = pb->max_queue_size,
        };
}

static int compare_sizes(const void *a, const void *b) {
        uint32_t left = *(const uint32_t *)a;
        uint32_t right = *(const uint32_t *)b;

        return (left > right) - (left < right);
}

static int compare_levels(const void *a, const void *b) {
        uint64_t left = ((const struct level_policy *)a)->level;
        uint64_t right = ((const struct level_policy *)b)->level;

        return (left > right) - (left < right);
}

static struct error *compile_sizes(struct batching_config *p, const int32_t *sizes,
                                   size_t n_sizes) {
        size_t n = 0;

        if (n_sizes == 0)
                return NULL;
        p->preferred_sizes = try_zalloc(n_sizes * sizeof(*p->preferred_sizes));
        if (p->preferred_sizes == NULL)
                return config_out_of_memory();
        for (size_t i = 0; i < n_sizes; i++)
                p->preferred_sizes[i] = (uint32_t)MAX(sizes[i], 0);
        qsort(p->preferred_sizes, n_sizes, sizeof(*p->preferred_sizes), compare_sizes);
        for (size_t i = 0; i < n_sizes; i++)
                if (p->preferred_sizes[i] > 0 &&
                    (n == 0 || p->preferred_sizes[n - 1] != p->preferred_sizes[i]))
                        p->preferred_sizes[n++] = p->preferred_sizes[i];
        p->n_preferred_sizes = n;
        return NULL;
}

static struct error *compile_levels(struct batching_config                *p,
                                    const Inference__ModelDynamicBatching *pb) {
        size_t n = pb->n_priority_queue_policy;

        if (n == 0)
                return NULL;
        p->level_policies = try_zalloc(n * sizeof(*p->level_policies));
        if (p->level_policies == NULL)
                return config_out_of_memory();
        for (size_t i = 0; i < n; i++)
                p->level_policies[i] = (struct level_policy){
                        .level = pb->priority_queue_policy[i]->key,
                        .policy = compile_policy(pb->priority_queue_policy[i]->value),
                };
        qsort(p->level_policies, n, sizeof(*p->level_policies), compare_levels);
        p->n_level_policies = n;
        return NULL;
}

/* For the strategy `oldest`: each instance batches the oldest of its sequences as dynamic_batching
 * would. */
static struct error *compile_oldest(struct batching_config                 *p,
                                    const Inference__ModelSequenceBatching *pb) {
        if (pb->strategy_choice_case != INFERENCE__MODEL_SEQUENCE_BATCHING__STRATEGY_CHOICE_OLDEST)
                return NULL;
        p->max_queue_delay_ns = ns_from_us(pb->oldest->max_queue_delay_microseconds);
        p->preserve_ordering = pb->oldest->preserve_ordering;
        return compile_sizes(p, pb->oldest->preferred_batch_size,
                             pb->oldest->n_preferred_batch_size);
}

static struct error *compile(struct batching_config *p, const struct model_config *c) {
        const Inference__ModelDynamicBatching *pb;

        p->max_batch_size = (uint32_t)MAX(c->pb->max_batch_size, 0);
        if (c->pb->scheduling_choice_case ==
            INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_SEQUENCE_BATCHING)
                return compile_oldest(p, c->pb->sequence_batching);
        if (c->pb->scheduling_choice_case !=
            INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING)
                return NULL;
        pb = c->pb->dynamic_batching;
        p->max_queue_delay_ns = ns_from_us(pb->max_queue_delay_microseconds);
        p->preserve_ordering = pb->preserve_ordering;
        p->priority_levels = pb->priority_levels;
        p->default_priority_level = pb->default_priority_level;
        p->default_policy = compile_policy(pb->default_queue_policy);
        TRY(compile_sizes(p, pb->preferred_batch_size, pb->n_preferred_batch_size));
        return compile_levels(p, pb);
}

struct error *batching_config_init(struct batching_config *p, const struct model_config *c) {
        struct error *err;

        *p = (struct batching_config){ 0 };
        err = compile(p, c);
        if (err != NULL)
                batching_config_done(p);
        return err;
}

void batching_config_done(struct batching_config *p) {
        free(p->preferred_sizes);
        free(p->level_policies);
        *p = (struct batching_config){ 0 };
}

const struct queue_policy *queue_policy_for_level(const struct batching_config *p, uint64_t level) {
        struct level_policy  wanted = { .level = level };
        struct level_policy *found = NULL;

        if (p->n_level_policies > 0)
                found = bsearch(&wanted, p->level_policies, p->n_level_policies,
                                sizeof(*p->level_policies), compare_levels);
        return found != NULL ? &found->policy : &p->default_policy;
}

uint64_t batching_config_level(const struct batching_config *p, uint64_t request_priority) {
        if (p->priority_levels == 0)
                return 0;
        if (request_priority == 0 || request_priority > p->priority_levels)
                return p->default_priority_level;
        return request_priority;
}

uint64_t queue_policy_timeout_ns(const struct queue_policy *p, uint64_t request_timeout_us) {
        uint64_t own_ns = ns_from_us(request_timeout_us);

        /* A request may only shorten the default: with a default of 0 its own timeout is ignored. */
        if (p->allow_override && own_ns != 0 && own_ns < p->default_timeout_ns)
                return own_ns;
        return p->default_timeout_ns;
}

uint32_t batching_config_largest_preferred(const struct batching_config *p) {
        return p->n_preferred_sizes > 0 ? p->preferred_sizes[p->n_preferred_sizes - 1] : 0;
}
