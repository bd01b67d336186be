/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes the dynamic batcher (sched_setup.h). */
#include "sched/sched_setup.h"

#include "config/batching_config.h"
#include "infer/model.h"
#include "sched/policy.h"
#include "sched/pull_engine.h"
#include "sched/sched_options.h"

struct error *sched_dynamic_policy(const struct sched_setup *setup, struct policy **ret) {
        const struct model           *model = setup->model;
        struct batching_config        batching;
        struct policy_dynamic_options rules = {
                .batching = &batching,
                .filter = setup->filter,
                .equal_shapes = model->needs_equal_shapes,
        };

        TRY(sched_options_read_delay(&rules.n_delayed));
        TRY(sched_options_read_adaptive(setup, ADAPTIVE_OFF, &rules.adaptive));
        TRY(batching_config_init(&batching, model->config));
        *ret = policy_dynamic_new(&rules);
        return NULL;
}

struct error *sched_dynamic_new(const struct sched_setup *setup, struct scheduler **ret) {
        struct pull_options options = { .gathers = true };

        TRY(sched_options_read(setup, &options));
        TRY(sched_dynamic_policy(setup, &options.policy));
        return pull_engine_new(&options, ret);
}
