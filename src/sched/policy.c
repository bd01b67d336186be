/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/policy.h"

#include "base/clock.h"
#include "base/mem.h"
#include "config/batching_config.h"
#include "sched/instance.h"

#include <assert.h>

struct instance *sched_view_first_idle(const struct sched_view *view) {
        struct list_node *node = list_first(view->idle);

        return node != NULL ? LIST_ENTRY(node, struct instance, idle_node) : NULL;
}

void policy_assign(struct policy *p, struct instance *in) {
        assert(in->n_items > 0);
        instance_set_state_locked(in, INSTANCE_ASSIGNED);
        p->n_assigned++;
}

void policy_take_assigned(struct policy *p, const struct instance *in) {
        assert(in->state == INSTANCE_ASSIGNED);
        (void)in;
        p->n_assigned--;
}

struct instance *policy_find_assigned(const struct policy *p, const struct sched_view *view) {
        if (p->n_assigned == 0)
                return NULL;
        LIST_FOR_EACH(view->idle, node) {
                struct instance *in = LIST_ENTRY(node, struct instance, idle_node);

                if (in->state == INSTANCE_ASSIGNED)
                        return in;
        }
        return NULL;
}

void policy_refuse(struct policy *p, struct request *req, struct error *why) {
        struct refusal *refusal = mem_alloc(sizeof(*refusal));

        *refusal = (struct refusal){ .next = p->refused, .req = req, .why = why };
        p->refused = refusal;
}

/* ---- every request by itself ----------------------------------------------------------------- */

static struct dispatch decide_single(struct policy *p, const struct sched_view *view,
                                     uint64_t now_ns) {
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
        static const struct policy_ops      ops = { .decide = decide_single, .free = free_nothing };
        static const struct batching_config none = { 0 };
        static struct policy                single = { .ops = &ops,
                                                       .limits = &none,
                                                       .is_immediate = true }; /* no state */

        return &single;
}

/* ---- the slots of one instance --------------------------------------------------------------- */

struct policy_slots {
        struct policy               base;
        struct batching_config      limits; /* all zero: no levels, no timeouts */
        struct policy_slots_options options;
};

/* Runs all requests that are ready, unless they fill too few of the slots. Then it waits for more,
 * until the oldest has waited for the delay. */
static struct dispatch decide_slots(struct policy *p, const struct sched_view *view,
                                    uint64_t now_ns) {
        const struct policy_slots_options *o = &CONTAINER_OF(p, struct policy_slots, base)->options;
        uint64_t                           n = view->queue->n_waiting;
        struct dispatch                    d = { .verdict = BATCH_NOTHING };

        if (n == 0 || atomic_load_explicit(o->is_held, memory_order_relaxed))
                return d;
        if (o->max_delay_ns > 0 && (float)n / (float)o->n_slots < o->min_utilization) {
                uint64_t oldest_ns = request_queue_oldest(view->queue);

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
        static const struct policy_ops ops = { .decide = decide_slots, .free = free_slots };
        struct policy_slots           *s = mem_zalloc(sizeof(*s));

        s->base = (struct policy){ .ops = &ops, .limits = &s->limits };
        s->options = *options;
        return &s->base;
}
