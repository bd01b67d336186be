/* SPDX-License-Identifier: BSD-3-Clause */
/* dynamic_batching and its queue policies, compiled for the scheduler: nanoseconds, sorted sizes,
 * one lookup per priority level. sequence_batching uses a part of it.
 *
 * Sources: model configuration, ModelDynamicBatching, ModelQueuePolicy, StrategyOldest.
 *
 * Ownership.  batching_config_done() frees the arrays of batching_config_init().
 * Threads.  Immutable after batching_config_init(); shared freely.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct model_config;

enum queue_timeout_action {
        QUEUE_TIMEOUT_REJECT = 0, /* answered "Request timeout expired" */
        QUEUE_TIMEOUT_DELAY = 1,  /* served after all others of its level */
};

struct queue_policy {
        enum queue_timeout_action action;
        uint64_t                  default_timeout_ns; /* 0: none */
        bool                      allow_override;     /* a request may set a shorter timeout */
        uint32_t                  max_queue_size;     /* 0: no limit */
};

struct level_policy {
        uint64_t            level;
        struct queue_policy policy;
};

struct batching_config {
        uint32_t             max_batch_size;
        uint32_t            *preferred_sizes; /* owned; ascending, each once */
        size_t               n_preferred_sizes;
        uint64_t             max_queue_delay_ns;
        bool                 preserve_ordering;
        bool                 equal_shapes;    /* of the requests of a batch; set by a policy */
        uint64_t             priority_levels; /* 0: one queue, priorities are ignored */
        uint64_t             default_priority_level;
        struct queue_policy  default_policy;
        struct level_policy *level_policies; /* owned; ascending by level */
        size_t               n_level_policies;
};

/* Requires a checked configuration. Without dynamic_batching, and without sequence_batching by the
 * strategy `oldest`: no preferred sizes, no delay. */
struct error *batching_config_init(struct batching_config *p, const struct model_config *c)
        NODISCARD;
void batching_config_done(struct batching_config *p);

/* Returns the level's own policy, else the default one. Borrowed. */
const struct queue_policy *queue_policy_for_level(const struct batching_config *p, uint64_t level);

/* Returns the level on which a request with this priority waits: 0 and levels beyond the last are
 * the default level; 0 when the model has no priorities. */
uint64_t batching_config_level(const struct batching_config *p, uint64_t request_priority);

/* Longest time in ns that a request may wait, 0 = no limit: the policy's timeout, or the request's
 * own if that is allowed, set and shorter. */
uint64_t queue_policy_timeout_ns(const struct queue_policy *p, uint64_t request_timeout_us);

/* The largest preferred size, 0 when there is none. */
uint32_t batching_config_largest_preferred(const struct batching_config *p);
