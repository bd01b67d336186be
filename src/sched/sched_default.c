/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/sched_setup.h"

#include "base/clock.h"
#include "config/model_config.h"
#include "infer/model.h"
#include "sched/pull_scheduler.h"
#include "sched/sched_options.h"

struct error *sched_default_new(const struct sched_setup *setup, struct scheduler **ret) {
        struct batch_policy policy = { .max_batch_size = setup->model->io->max_batch_size };
        struct pull_options options = { .policy = &policy, .one_by_one = true };

        TRY(sched_options_read(setup, &options));
        return pull_scheduler_new(&options, ret);
}

struct error *sched_new(const struct sched_setup *setup, struct scheduler **ret) {
        const struct model *model = setup->model;

        switch (model->config->pb->scheduling_choice_case) {
        case INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING:
                return sched_dynamic_new(setup, ret);
        case INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_SEQUENCE_BATCHING:
                return error_new(ERR_UNSUPPORTED,
                                 "model '%s': sequence_batching is not supported yet", model->name);
        case INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_ENSEMBLE_SCHEDULING:
                return error_new(ERR_UNSUPPORTED,
                                 "model '%s': ensemble_scheduling is not supported yet",
                                 model->name);
        default:
                return sched_default_new(setup, ret);
        }
}
