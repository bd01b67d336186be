/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes the scheduler of a scheduler library (sched_setup.h). */
#include "sched/sched_setup.h"

#include "base/dl.h"
#include "base/strbuf.h"
#include "config/batch_members.h"
#include "config/batching_config.h"
#include "config/model_config.h"
#include "infer/model.h"
#include "sched/plugin_library.h"
#include "sched/plugin_members.h"
#include "sched/policy.h"
#include "sched/policy_plugin.h"
#include "sched/pull_engine.h"
#include "sched/sched_options.h"

/* What decides when the plug-in is given up. */
static struct error *make_builtin(const struct sched_setup *setup, struct policy **ret) {
        if (sched_is_composite(setup))
                return sched_composite_policy(setup, ret);
        if (setup->model->config->pb->scheduling_choice_case ==
            INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING)
                return sched_dynamic_policy(setup, ret);
        *ret = policy_single_new();
        return NULL;
}

/* Rows of a model that batches do not depend on each other. */
static struct error *read_members(const struct model *model, struct policy_plugin_options *o) {
        struct batch_members members;

        TRY(batch_members_read(model->config, &members));
        o->may_split = members.may_split && model->io->max_batch_size > 0;
        o->is_exclusive = members.is_exclusive;
        batch_members_done(&members);
        return NULL;
}

/* The library is opened first: what is wrong with it is said before anything else. */
static struct error *make_policy(const struct sched_setup *setup, const char *name,
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
        TRY(plugin_library_open(&(struct plugin_wanted){ .name = name,
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

struct error *sched_plugin_new(const struct sched_setup *setup, const char *name,
                               struct scheduler **ret) {
        struct pull_options   options = { 0 };
        AUTO_STRBUF           json = { 0 };
        struct plugin_init    init = { 0 };
        struct plugin_members members;
        struct error         *err;

        TRY(sched_options_read(setup, &options));
        strbuf_init(&json, 0);
        TRY(model_config_print_json(setup->model->config, 1, &json));
        plugin_members_init(&members, setup->executors, setup->n_executors);
        init.members = members.views;
        init.n_members = members.n;
        init.config_json = strbuf_cstr(&json);
        init.max_batch = setup->model->io->max_batch_size;
        err = make_policy(setup, name, &init, &options.policy);
        plugin_members_done(&members);
        return err != NULL ? err : pull_engine_new(&options, ret);
}
