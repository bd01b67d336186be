/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/policy.h"

#include "base/mem.h"
#include "sched/instance.h"

#include <assert.h>

void policy_assign(struct policy *p, struct instance *in) {
        assert(!in->is_assigned && in->n_items > 0);
        in->is_assigned = in->is_running = true;
        p->n_assigned++;
}

void policy_take_assigned(struct policy *p, struct instance *in) {
        assert(in->is_assigned);
        in->is_assigned = false;
        p->n_assigned--;
}

struct instance *policy_find_assigned(const struct policy *p, const struct sched_view *view) {
        if (p->n_assigned == 0)
                return NULL;
        LIST_FOR_EACH(view->idle, node) {
                struct instance *in = LIST_ENTRY(node, struct instance, idle_node);

                if (in->is_assigned)
                        return in;
        }
        return NULL;
}

void policy_refuse(struct policy *p, struct request *req, struct error *why) {
        struct refusal *refusal = mem_alloc(sizeof(*refusal));

        *refusal = (struct refusal){ .next = p->refused, .req = req, .why = why };
        p->refused = refusal;
}
