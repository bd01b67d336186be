/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/sched_setup.h"

#include "base/clock.h"
#include "infer/model.h"
#include "sched/pull_scheduler.h"
#include "sched/sched_options.h"

struct error *sched_dynamic_new(const struct sched_setup *setup, struct scheduler **ret) {
        struct batch_policy policy;
        struct pull_options options = { .policy = &policy, .filter = setup->filter };

        TRY(sched_options_read(setup, &options));
        TRY(batch_policy_init(&policy, setup->model->config));
        struct error *err = pull_scheduler_new(&options, ret);

        batch_policy_done(&policy); /* moved out of on success */
        return err;
}
