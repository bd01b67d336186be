/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/scheduler_choice.h"

#include "base/dl.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "config/batch_members.h"
#include "config/batching_config.h"
#include "config/model_config.h"
#include "infer/model.h"
#include "sched/batch_sizes.h"
#include "sched/policy.h"
#include "sched/pull_engine.h"
#include "sched/sched_options.h"
#include "sched/sched_setup.h"
#include "sched_plugin/plugin_library.h"
#include "sched_plugin/plugin_members.h"
#include "sched_plugin/policy_plugin.h"
#include "sequence/sequence.h"

#include <string.h>

/* ---- no batching ----------------------------------------------------------------------------- */

static struct error *new_default(const struct sched_setup *setup, struct scheduler **ret) {
        struct pull_options options = { .policy = policy_single_new() };

        TRY(sched_options_read(setup, &options));
        return pull_engine_new(&options, ret);
}

/* ---- dynamic batching ------------------------------------------------------------------------ */

static struct error *make_dynamic_policy(const struct sched_setup *setup, struct policy **ret) {
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

static struct error *new_dynamic(const struct sched_setup *setup, struct scheduler **ret) {
        struct pull_options options = { .batches_at_flush = true };

        TRY(sched_options_read(setup, &options));
        TRY(make_dynamic_policy(setup, &options.policy));
        return pull_engine_new(&options, ret);
}

/* ---- instances that take certain batch sizes ------------------------------------------------- */

/* Lists the ranges of the instances that are scheduled. The caller owns the array. */
static struct row_range *list_ranges(const struct sched_setup *setup, size_t *ret_n) {
        struct row_range *ranges = mem_zalloc((setup->n_executors + 1) * sizeof(*ranges));

        *ret_n = 0;
        for (uint32_t i = 0; i < setup->n_executors; i++)
                if (!setup->executors[i]->is_passive)
                        ranges[(*ret_n)++] = (struct row_range){ setup->executors[i]->min_rows,
                                                                 setup->executors[i]->max_rows };
        return ranges;
}

/* Without dynamic_batching the batches have no delay. */
static struct error *make_policy_of_ranges(const struct sched_setup        *setup,
                                           struct policy_composite_options *o,
                                           struct policy                  **ret) {
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

static struct error *make_composite_policy(const struct sched_setup *setup, struct policy **ret) {
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
        return error_prefix(make_policy_of_ranges(setup, &rules, ret), "model '%s': ", model->name);
}

static struct error *new_composite(const struct sched_setup *setup, struct scheduler **ret) {
        struct pull_options options = { .batches_at_flush = true };

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
        TRY(sched_options_read(setup, &options));
        TRY(make_composite_policy(setup, &options.policy));
        return pull_engine_new(&options, ret);
}

/* ---- scheduler libraries --------------------------------------------------------------------- */

/* Makes the policy that takes over when the server gives up the plug-in. */
static struct error *make_builtin(const struct sched_setup *setup, struct policy **ret) {
        if (sched_is_composite(setup))
                return make_composite_policy(setup, ret);
        if (setup->model->config->pb->scheduling_choice_case ==
            INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING)
                return make_dynamic_policy(setup, ret);
        *ret = policy_single_new();
        return NULL;
}

/* A plug-in may split requests only if the model batches: then rows do not depend on each other. */
static struct error *read_members(const struct model *model, struct policy_plugin_options *o) {
        struct batch_members members;

        TRY(batch_members_read(model->config, &members));
        o->may_split = members.may_split && model->io->max_batch_size > 0;
        o->is_exclusive = members.is_exclusive;
        batch_members_done(&members);
        return NULL;
}

/* Opens the library first, so that its errors are reported before any other. */
static struct error *make_plugin_policy(const struct sched_setup *setup, const char *name,
                                        const struct plugin_init *init, struct policy **ret) {
        const struct model          *model = setup->model;
        struct batching_config       batching;
        struct policy_plugin_options options = { .model = model,
                                                 .executors = setup->executors,
                                                 .n_executors = setup->n_executors,
                                                 .batching = &batching,
                                                 .metrics = setup->metrics,
                                                 .init = init };
        struct error                *err;

        TRY(read_members(model, &options));
        TRY(plugin_library_open(&(struct plugin_query){ .name = name,
                                                        .model = model->name,
                                                        .version = model->version,
                                                        .directory = setup->model_directory,
                                                        .server_directory =
                                                                setup->scheduler_directory,
                                                        .is_sent = setup->is_sent,
                                                        .init = init },
                                &options.library, &options.functions));
        err = make_builtin(setup, &options.builtin);
        if (err == NULL)
                err = batching_config_init(&batching, model->config);
        if (err != NULL) {
                policy_free(options.builtin);
                dl_close(options.library);
                return err;
        }
        return policy_plugin_new(&options, ret);
}

static struct error *new_plugin(const struct sched_setup *setup, const char *name,
                                struct scheduler **ret) {
        struct pull_options   options = { 0 };
        AUTO_STRBUF           json = { 0 };
        struct plugin_init    init = { 0 };
        struct plugin_members members;
        struct error         *err;

        TRY(sched_options_read(setup, &options));
        TRY(model_config_print_json(setup->model->config, 1, &json));
        plugin_members_init(&members, setup->executors, setup->n_executors);
        init.members = members.views;
        init.n_members = members.n;
        init.config_json = strbuf_cstr(&json);
        init.max_batch = setup->model->io->max_batch_size;
        err = make_plugin_policy(setup, name, &init, &options.policy);
        plugin_members_done(&members);
        return err != NULL ? err : pull_engine_new(&options, ret);
}

/* ---- sequences ------------------------------------------------------------------------------- */

static struct error *new_sequence(const struct sched_setup *setup, struct scheduler **ret) {
        struct sequence_options options = { 0 };

        TRY(sched_options_read(setup, &options.engine));
        TRY(sched_options_read_delay(&options.hold_requests));
        TRY(sched_options_read_backlog_delay(&options.hold_backlog));
        return sequence_new(&options, ret);
}

/* ---- the choice ------------------------------------------------------------------------------ */

struct error *sched_new(const struct sched_setup *setup, struct scheduler **ret) {
        const struct model *model = setup->model;
        const char         *scheduler;

        TRY(sched_options_check(model->name, model->config));
        TRY(sched_options_read_scheduler(setup, &scheduler));
        if (!sched_is_built_in(scheduler))
                return new_plugin(setup, scheduler, ret);
        if (sched_is_composite(setup))
                return new_composite(setup, ret);
        switch (model->config->pb->scheduling_choice_case) {
        case INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING:
                return new_dynamic(setup, ret);
        case INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_SEQUENCE_BATCHING:
                return new_sequence(setup, ret);
        default: return new_default(setup, ret);
        }
}
