/* SPDX-License-Identifier: BSD-3-Clause */
/* Chooses a scheduler by the model's configuration, and makes the default one (sched_setup.h). */
#include "sched/sched_setup.h"

#include "config/model_config.h"
#include "infer/model.h"
#include "sched/policy.h"
#include "sched/pull_engine.h"
#include "sched/sched_options.h"

struct error *sched_default_new(const struct sched_setup *setup, struct scheduler **ret) {
        struct pull_options options = { .policy = policy_single_new() };

        TRY(sched_options_read(setup, &options));
        return pull_engine_new(&options, ret);
}

static struct error *new_composite(const struct sched_setup *setup, struct scheduler **ret) {
        if (setup->model->config->pb->scheduling_choice_case ==
            INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_SEQUENCE_BATCHING)
                return error_new(ERR_INVALID_ARG,
                                 "model '%s': its backend has instances that take certain batch "
                                 "sizes only, which sequence_batching does not go with",
                                 setup->model->name);
        if (setup->filter != NULL)
                return error_new(ERR_INVALID_ARG,
                                 "model '%s': custom batching does not go with batch ranges",
                                 setup->model->name);
        return sched_composite_new(setup, ret);
}

struct error *sched_new(const struct sched_setup *setup, struct scheduler **ret) {
        const struct model *model = setup->model;
        const char         *scheduler;

        TRY(sched_options_check(model->name, model->config));
        TRY(sched_options_read_scheduler(setup, &scheduler));
        if (!sched_is_built_in(scheduler))
                return sched_plugin_new(setup, scheduler, ret);
        if (sched_is_composite(setup))
                return new_composite(setup, ret);
        switch (model->config->pb->scheduling_choice_case) {
        case INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING:
                return sched_dynamic_new(setup, ret);
        case INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_SEQUENCE_BATCHING:
                return sched_sequence_new(setup, ret);
        default: return sched_default_new(setup, ret);
        }
}
