/* SPDX-License-Identifier: BSD-3-Clause */
/* The policy without batching: each request is run by itself (policy.h). */
#include "sched/policy.h"

#include "config/batching_config.h"
#include "sched/instance.h"

struct instance *sched_view_first_idle(const struct sched_view *view) {
        struct list_node *node = list_first(view->idle);

        return node != NULL ? LIST_ENTRY(node, struct instance, idle_node) : NULL;
}

static struct dispatch decide(struct policy *p, const struct sched_view *view, uint64_t now_ns) {
        (void)p;
        (void)now_ns;
        if (view->queue->n_waiting == 0)
                return (struct dispatch){ .verdict = BATCH_NOTHING };
        return (struct dispatch){ .verdict = BATCH_RUN,
                                  .on = sched_view_first_idle(view),
                                  .n_requests = 1 };
}

static void free_nothing(struct policy *p) {
        (void)p;
}

struct policy *policy_single_new(void) {
        static const struct policy_ops      ops = { .decide = decide, .free = free_nothing };
        static const struct batching_config none = { 0 };
        static struct policy                single = { .ops = &ops,
                                                       .limits = &none,
                                                       .is_immediate = true }; /* no state */

        return &single;
}
