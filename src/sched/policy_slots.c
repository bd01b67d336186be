/* SPDX-License-Identifier: BSD-3-Clause */
/* The rules of the reference server's direct sequence batcher for one instance: all that is ready
 * runs at once, unless that fills too few of the slots; then it waits for more, until the oldest is
 * older than the delay.
 */
#include "sched/policy.h"

#include "base/clock.h"
#include "base/mem.h"
#include "config/batching_config.h"

struct policy_slots {
        struct policy               base;
        struct batching_config      limits; /* all zero: no levels, no timeouts */
        struct policy_slots_options options;
};

static uint64_t oldest_of(struct request_queue *q) {
        struct queue_walk w = queue_walk_begin(q);
        uint64_t          oldest_ns = CLOCK_NEVER;
        struct request   *req;

        while ((req = queue_walk_next(&w)) != NULL)
                oldest_ns = MIN(oldest_ns, req->times.queue_start_ns);
        return oldest_ns;
}

static struct dispatch decide(struct policy *p, const struct sched_view *view, uint64_t now_ns) {
        const struct policy_slots_options *o = &CONTAINER_OF(p, struct policy_slots, base)->options;
        uint64_t                           n = view->queue->n_waiting;
        struct dispatch                    d = { .verdict = BATCH_NOTHING };

        if (n == 0 || UNLIKELY(atomic_load_explicit(o->is_held, memory_order_relaxed)))
                return d;
        if (o->max_delay_ns > 0 && (float)n / (float)o->n_slots < o->min_utilization) {
                uint64_t oldest_ns = oldest_of(view->queue);

                if (__builtin_add_overflow(oldest_ns, o->max_delay_ns, &d.wait_until_ns))
                        d.wait_until_ns = CLOCK_NEVER;
                d.verdict = BATCH_WAIT;
                if (d.wait_until_ns > now_ns)
                        return d;
        }
        d.verdict = BATCH_RUN;
        d.on = sched_view_first_idle(view);
        d.n_requests = (uint32_t)n;
        return d;
}

static void free_slots(struct policy *p) {
        free(CONTAINER_OF(p, struct policy_slots, base));
}

struct policy *policy_slots_new(const struct policy_slots_options *options) {
        static const struct policy_ops ops = { .decide = decide, .free = free_slots };
        struct policy_slots           *s = mem_zalloc(sizeof(*s));

        s->base = (struct policy){ .ops = &ops, .limits = &s->limits };
        s->options = *options;
        return &s->base;
}
