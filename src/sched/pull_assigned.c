/* SPDX-License-Identifier: BSD-3-Clause */
/* How the engine schedules for policies that assign batches. The batch is taken for the instance that the
 * policy chose, at once, and that instance runs it. Another instance cannot form it anew, since it may take other
 * batch sizes.
 */
#include "infer/request_split.h"
#include "infer/response_order.h"
#include "observe/batch_counts.h"
#include "sched/pull_private.h"
#include "sched/rate_limiter.h"

#include <assert.h>

static void take_tickets_locked(const struct pull_engine *e, const struct instance *in) {
        for (uint32_t i = 0; i < in->n_items; i++) {
                struct request *req = in->items[i].request;

                if (req == NULL)
                        req = split_part_request(in->items[i].part);
                if (req->order_ticket == NULL)
                        req->order_ticket = response_ticket_new(e->base.order);
        }
}

/* ---- counters of members ---- */

void pull_count_member(struct pull_engine *e, struct instance *in) {
        const char *name = in->executor->group_name;

        in->member = batch_counts_member(e->counts, name != NULL ? name : "");
        atomic_store_explicit(&in->member->min_rows, in->executor->min_rows, memory_order_relaxed);
        atomic_store_explicit(&in->member->max_rows, in->executor->max_rows, memory_order_relaxed);
        atomic_fetch_add_explicit(&in->member->n_instances, 1, memory_order_relaxed);
        in->virtual_instance = batch_counts_virtual_instance(e->counts, in->executor->index);
}

void pull_count_execution(const struct execution *done) {
        struct member_counts *m = done->on->member;

        atomic_fetch_add_explicit(&m->n_rows, done->rows, memory_order_relaxed);
        atomic_fetch_add_explicit(&m->busy_ns, done->took_ns, memory_order_relaxed);
        atomic_fetch_add_explicit(&m->n_executions, 1, memory_order_release);
        atomic_fetch_sub_explicit(&m->n_running, 1, memory_order_relaxed);
        atomic_fetch_sub_explicit(&done->on->virtual_instance->n_running, 1, memory_order_relaxed);
}

static void count_locked(const struct pull_engine *e, const struct instance *in,
                         const struct dispatch *d) {
        batch_counts_add_batch(e->counts, d->reason);
        for (uint32_t i = 0; i < in->n_new_splits; i++)
                batch_counts_add_split(e->counts);
        if (in->member == NULL)
                return;
        atomic_fetch_add_explicit(&in->member->n_running, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&in->virtual_instance->n_running, 1, memory_order_relaxed);
}

/* ---- dispatching ----------------------------------------------------------------------------- */

/* Takes the batch for that instance: the calling thread runs it, or the instance's own thread. */
static void take_assigned_locked(struct pull_engine *e, struct sched_event *ev,
                                 const struct dispatch *d) {
        struct instance *in = d->on;
        bool             is_here = in == ev->self || (ev->may_run_here && may_borrow(e, in));

        assert(list_is_linked(&in->idle_node));
        assert(in->state == (d->requests != NULL ? INSTANCE_FREE : INSTANCE_ASSIGNED));
        if (in->state == INSTANCE_ASSIGNED)
                policy_take_assigned(e->policy, in);
        else
                instance_take(in, &e->queue, d);
        if (e->base.order != NULL)
                take_tickets_locked(e, in);
        if (e->counts != NULL)
                count_locked(e, in, d);
        if (is_here) {
                hand_out_here_locked(e, ev, in, in->rows);
        } else {
                hand_out_locked(e, in, INSTANCE_DISPATCHED, in->rows);
                wake_instance_locked(ev, in);
        }
}

static void return_permit_locked(struct instance *in) {
        rate_claim_end(in->claim,
                       in->permit == PERMIT_EXECUTED ? RATE_PERMIT_EXECUTED : RATE_PERMIT_UNUSED);
        instance_set_permit_locked(in, PERMIT_NONE);
}

/* Returns true when the instance may run now. With a rate limiter it needs a permit of its own, which
 * is given at once or later. */
static bool has_permit_locked(struct instance *in) {
        bool is_given;

        if (in->group == NULL || in->permit == PERMIT_GIVEN)
                return true;
        if (in->permit == PERMIT_EXECUTED)
                return_permit_locked(in);
        is_given = rate_group_ask(in->group) != NULL;
        instance_set_permit_locked(in, is_given ? PERMIT_GIVEN : PERMIT_ASKED);
        return is_given;
}

/* Returns the permits that no instance needs any more, and withdraws the claims that wait for one. */
static void return_permits_locked(const struct pull_engine *e, const struct sched_event *ev) {
        for (uint32_t i = 0; i < e->n_instances; i++) {
                struct instance *in = e->instances[i];

                if (in->state != INSTANCE_FREE)
                        continue;
                if (in->permit == PERMIT_DOUBTED) {
                        instance_set_permit_locked(in, PERMIT_NONE);
                        rate_group_withdraw(in->group);
                }
                if (in->permit == PERMIT_EXECUTED || (in->permit == PERMIT_GIVEN && in == ev->self))
                        return_permit_locked(in);
        }
}

/* A claim that waits for its permit is withdrawn at the end of the round, unless there is a batch for it. */
static void doubt_permits_locked(const struct pull_engine *e) {
        for (uint32_t i = 0; i < e->n_instances; i++)
                if (e->instances[i]->permit == PERMIT_ASKED)
                        instance_set_permit_locked(e->instances[i], PERMIT_DOUBTED);
}

/* Lets one idle instance sleep until then. Any instance will do, since it asks for all of them. */
static void watch_for_all_locked(struct pull_engine *e, struct sched_event *ev, uint64_t until_ns) {
        struct list_node *first = list_first(&e->idle);
        struct instance  *in = e->watcher;

        if (in != NULL && until_ns >= in->watch_until_ns)
                return;
        if (in == NULL)
                in = ev->self != NULL ? ev->self : LIST_ENTRY(first, struct instance, idle_node);
        e->watcher = in;
        in->watch_until_ns = until_ns;
        if (in != ev->self)
                wake_instance_locked(ev, in);
}

/* Dispatches until the policy has no more batches. An instance that waits for its permit counts as
 * busy for the rest of the round, so that others run meanwhile. */
void pull_schedule_assigned_locked(struct pull_engine *e, struct sched_event *ev) {
        struct list       waiting;
        struct list_node *node;

        list_init(&waiting);
        if (e->limiter != NULL)
                doubt_permits_locked(e);
        while (!list_is_empty(&e->idle)) {
                const struct sched_view view = view_of(e);
                struct dispatch         d = e->policy->ops->decide(e->policy, &view, ev->now_ns);

                if (d.verdict == BATCH_WAIT)
                        watch_for_all_locked(e, ev, d.wait_until_ns);
                if (d.verdict != BATCH_RUN)
                        break;
                if (has_permit_locked(d.on)) {
                        take_assigned_locked(e, ev, &d);
                } else {
                        list_remove(&d.on->idle_node);
                        list_append(&waiting, &d.on->idle_node);
                }
        }
        while ((node = list_first(&waiting)) != NULL) {
                list_remove(node);
                list_append(&e->idle, node);
        }
        if (e->limiter != NULL)
                return_permits_locked(e, ev);
}
