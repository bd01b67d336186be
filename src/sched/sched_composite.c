/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes the scheduler of instances that take certain batch sizes (sched_setup.h). */
#include "base/mem.h"
#include "config/batch_members.h"
#include "config/batching_config.h"
#include "infer/model.h"
#include "sched/policy.h"
#include "sched/pull_engine.h"
#include "sched/row_plan.h"
#include "sched/sched_options.h"
#include "sched/sched_setup.h"

#include <string.h>

/* Of those that are scheduled; owned by the caller. */
static struct row_range *list_ranges(const struct sched_setup *setup, size_t *ret_n) {
        struct row_range *ranges = mem_zalloc((setup->n_executors + 1) * sizeof(*ranges));

        *ret_n = 0;
        for (uint32_t i = 0; i < setup->n_executors; i++)
                if (!setup->executors[i]->is_passive)
                        ranges[(*ret_n)++] = (struct row_range){ setup->executors[i]->min_rows,
                                                                 setup->executors[i]->max_rows };
        return ranges;
}

/* A configuration that does not batch, or batches by no rule of its own, has no delay. */
static struct error *make_policy(const struct sched_setup        *setup,
                                 struct policy_composite_options *o, struct policy **ret) {
        struct batching_config batching;
        struct row_range      *ranges;
        struct error          *err;

        TRY(batching_config_init(&batching, setup->model->config));
        ranges = list_ranges(setup, &o->n_ranges);
        o->ranges = ranges;
        o->batching = &batching;
        if (o->n_ranges == 0)
                err = error_new(ERR_INVALID_ARG, "model '%s' has no instance that may run batches",
                                setup->model->name);
        else
                err = policy_composite_new(o, ret);
        free(ranges);
        batching_config_done(&batching);
        return err;
}

struct error *sched_composite_policy(const struct sched_setup *setup, struct policy **ret) {
        const struct model             *model = setup->model;
        struct batch_members            members;
        struct policy_composite_options rules = { .equal_shapes = model->needs_equal_shapes };
        const char                     *scheduler;

        TRY(sched_options_read_adaptive(setup, ADAPTIVE_FLOW, &rules.adaptive));
        TRY(sched_options_read_delay(&rules.n_delayed));
        TRY(sched_options_read_scheduler(setup, &scheduler));
        rules.is_greedy = strcmp(scheduler, "baseline") == 0;
        TRY(batch_members_read(model->config, &members));
        rules.may_wait = members.may_wait;
        rules.may_split = members.may_split;
        rules.is_exclusive = members.is_exclusive;
        batch_members_done(&members);
        return error_prefix(make_policy(setup, &rules, ret), "model '%s': ", model->name);
}

struct error *sched_composite_new(const struct sched_setup *setup, struct scheduler **ret) {
        struct pull_options options = { .gathers = true };

        TRY(sched_options_read(setup, &options));
        TRY(sched_composite_policy(setup, &options.policy));
        return pull_engine_new(&options, ret);
}
