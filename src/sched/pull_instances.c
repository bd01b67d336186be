/* SPDX-License-Identifier: BSD-3-Clause */
/* Instances come and go while requests do. */
#include "base/mem.h"
#include "infer/model.h"
#include "sched/pull_private.h"
#include "sched/rate_limiter.h"

/* Its place at the limiter, if there is one. */
static struct error *join_limiter(struct instance *in) {
        struct pull_engine *e = in->engine;

        if (e->limiter == NULL)
                return NULL;
        if (e->policy->picks)
                in->group = rate_group_new(e->limiter);
        TRY(rate_claim_new(in->group != NULL ? in->group : e->group,
                           &(struct rate_claim_options){ .limits = in->executor->limits,
                                                         .device = in->executor->device,
                                                         .on_turn = pull_on_turn,
                                                         .instance = in },
                           &in->claim));
        rate_limiter_deliver(e->limiter);
        return NULL;
}

static void tell_change_locked(struct pull_engine *e) {
        const struct sched_view view = view_of(e);

        if (e->policy->ops->changed != NULL && e->is_made)
                e->policy->ops->changed(e->policy, &view);
}

/* It has a thread, and may be picked before that has come so far: else another member would run what is
 * this one's. */
static void let_begin(struct pull_engine *e, struct instance *in) {
        MUTEX_GUARD(&e->lock);
        if (!in->has_begun)
                list_append(&e->idle, &in->idle_node);
}

struct error *pull_add(struct scheduler *base, struct executor *executor) {
        struct pull_engine *e = CONTAINER_OF(base, struct pull_engine, base);
        struct instance    *in;
        struct error       *err;

        if (executor->is_passive)
                return NULL;
        in = instance_new(e, executor);
        if (e->policy->has_members && e->counts != NULL)
                pull_count_member(e, in);
        err = join_limiter(in);
        if (err != NULL) {
                instance_free(in);
                return err;
        }
        mutex_lock(&e->lock);
        e->instances = mem_realloc(e->instances, (e->n_instances + 1) * sizeof(struct instance *));
        e->instances[e->n_instances++] = in;
        tell_change_locked(e);
        if (e->policy->ops->joined != NULL) {
                const struct sched_view view = view_of(e);

                e->policy->ops->joined(e->policy, &view, in);
        }
        mutex_unlock(&e->lock);
        err = instance_start_thread(in, pull_instance_main);
        if (err != NULL)
                base->ops->remove_executor(base, executor);
        else if (e->policy->picks)
                let_begin(e, in);
        return err;
}

/* Out of the array, its thread told to leave; NULL when there is none. */
static struct instance *dismiss_locked(struct pull_engine *e, const struct executor *executor) {
        for (uint32_t i = 0; i < e->n_instances; i++) {
                struct instance *in = e->instances[i];

                if (in->executor != executor)
                        continue;
                e->instances[i] = e->instances[--e->n_instances];
                tell_change_locked(e);
                in->is_leaving = true;
                if (e->policy->ops->left != NULL) {
                        const struct sched_view view = view_of(e);

                        e->policy->ops->left(e->policy, &view, in);
                }
                if (!in->is_borrowed)
                        pull_wake_locked(in);
                return in;
        }
        return NULL;
}

void pull_remove(struct scheduler *base, struct executor *executor) {
        struct pull_engine *e = CONTAINER_OF(base, struct pull_engine, base);
        struct instance    *in;

        mutex_lock(&e->lock);
        in = dismiss_locked(e, executor);
        mutex_unlock(&e->lock);
        if (in == NULL)
                return;
        instance_join_thread(in);
        /* It gets no turn any more; a thread that is just giving it one holds the lock. */
        rate_claim_free(STEAL(in->claim));
        mutex_lock(&e->lock);
        /* It may have been woken for a batch, or have watched the time, when it left. */
        pull_pump_and_leave(e, NULL);
        instance_free(in);
}
