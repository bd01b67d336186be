/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/sched_options.h"

#include "base/clock.h"
#include "base/str.h"
#include "config/batch_members.h"
#include "config/model_config.h"
#include "infer/model.h"
#include "sched/pull_engine.h"
#include "sched/sched_setup.h"

#include <stdlib.h>

#define MAX_INLINE_LIMIT_US UINT64_C(1000000)
#define MAX_NAME 64

static struct error *read_inline_execution(const char *model, const struct model_config *config,
                                           enum inline_execution *ret) {
        static const char *const names[] = {
                [INLINE_AUTO] = "auto",
                [INLINE_NEVER] = "never",
                [INLINE_ALWAYS] = "always",
        };
        const char *value = model_config_find_parameter(config, "inline_execution");

        *ret = INLINE_AUTO;
        if (value == NULL)
                return NULL;
        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
                if (strcmp(names[i], value) != 0)
                        continue;
                *ret = (enum inline_execution)i;
                return NULL;
        }
        return error_new(ERR_INVALID_ARG,
                         "parameter 'inline_execution' of model '%s' must be 'auto', 'never' or "
                         "'always', got '%s'",
                         model, value);
}

static struct error *read_inline_limit(const char *model, const struct model_config *config,
                                       uint64_t *ret_ns) {
        const char *value = model_config_find_parameter(config, "inline_limit_us");
        uint64_t    us;

        *ret_ns = INLINE_DEFAULT_LIMIT_NS;
        if (value == NULL)
                return NULL;
        if (!str_to_u64(str_of(value), &us) || us == 0 || us > MAX_INLINE_LIMIT_US)
                return error_new(ERR_INVALID_ARG,
                                 "parameter 'inline_limit_us' of model '%s' must be a number of "
                                 "microseconds from 1 to %llu, got '%s'",
                                 model, (unsigned long long)MAX_INLINE_LIMIT_US, value);
        *ret_ns = us * NS_PER_US;
        return NULL;
}

bool sched_has_batches(const struct model_config *config) {
        return batch_members_are_given(config) ||
               config->pb->scheduling_choice_case ==
                       INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING;
}

static struct error *read_adaptive(const char *model, const struct model_config *config,
                                   enum adaptive_mode *ret) {
        const char *value = model_config_find_parameter(config, "adaptive_batching");

        *ret = ADAPTIVE_UNSET;
        if (value == NULL)
                return NULL;
        if (!adaptive_mode_read(value, ret))
                return error_new(
                        ERR_INVALID_ARG,
                        "parameter 'adaptive_batching' of model '%s' must be 'off', 'idle' "
                        "or 'flow', got '%s'",
                        model, value);
        if (*ret != ADAPTIVE_OFF && !sched_has_batches(config))
                return error_new(ERR_INVALID_ARG,
                                 "parameter 'adaptive_batching' of model '%s' needs "
                                 "dynamic_batching",
                                 model);
        return NULL;
}

/* ---- the name of the scheduler --------------------------------------------------------------- */

#define SCHEDULER "scheduler"
#define BATCH_STRATEGY "TRITON_BATCH_STRATEGY_PATH"

bool scheduler_name_is_valid(const char *name) {
        size_t len = strlen(name);

        return len > 0 && len <= MAX_NAME &&
               strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") ==
                       len;
}

bool sched_is_built_in(const char *scheduler) {
        return strcmp(scheduler, "default") == 0 || strcmp(scheduler, "baseline") == 0 ||
               strcmp(scheduler, "triton") == 0;
}

/* A plug-in cannot schedule models whose requests depend on each other or on other models. */
static bool may_have_plugin(const struct model_config *config) {
        return config->pb->scheduling_choice_case !=
                       INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_SEQUENCE_BATCHING &&
               config->pb->scheduling_choice_case !=
                       INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_ENSEMBLE_SCHEDULING;
}

static struct error *check_scheduler(const char *model, const struct model_config *config) {
        const char *value = model_config_find_parameter(config, SCHEDULER);

        if (value == NULL)
                return NULL;
        if (!scheduler_name_is_valid(value))
                return error_new(
                        ERR_INVALID_ARG,
                        "parameter 'scheduler' of model '%s' must be 'default', 'baseline', "
                        "'triton' or the name of a scheduler library, got '%.100s'",
                        model, value);
        if (model_config_find_parameter(config, BATCH_STRATEGY) != NULL)
                return error_new(ERR_INVALID_ARG,
                                 "model '%s' has the parameters 'scheduler' and '" BATCH_STRATEGY
                                 "': only one of them can decide about batches",
                                 model);
        if (!sched_is_built_in(value) && !may_have_plugin(config))
                return error_new(
                        ERR_INVALID_ARG,
                        "parameter 'scheduler' of model '%s' cannot be '%s' for a model with "
                        "sequence_batching or ensemble_scheduling",
                        model, value);
        return NULL;
}

/* A backend may report that an instance takes fewer batch sizes than the configuration allows. */
static bool is_narrower(const struct executor *e, uint32_t max_batch_size) {
        return !e->is_passive && e->max_rows > 0 &&
               (e->min_rows > 1 || e->max_rows < MAX(max_batch_size, 1u));
}

bool sched_is_composite(const struct sched_setup *setup) {
        const struct model_config *config = setup->model->config;
        uint32_t                   max_batch_size = (uint32_t)MAX(config->pb->max_batch_size, 0);

        if (batch_members_are_given(config))
                return true;
        for (uint32_t i = 0; i < setup->n_executors; i++)
                if (is_narrower(setup->executors[i], max_batch_size))
                        return true;
        return false;
}

struct error *sched_options_read_scheduler(const struct sched_setup *setup, const char **ret) {
        const struct model_config *config = setup->model->config;
        const char                *value = model_config_find_parameter(config, SCHEDULER);

        TRY(check_scheduler(setup->model->name, config));
        if (value == NULL && may_have_plugin(config) && setup->filter == NULL &&
            !sched_is_composite(setup))
                value = setup->scheduler;
        *ret = config_text_is_set(value) ? value : "default";
        if (sched_is_built_in(*ret))
                return NULL;
        if (setup->filter != NULL)
                return error_new(ERR_UNSUPPORTED,
                                 "model '%s' has the scheduler '%s' and a custom batching library: "
                                 "only one of them can decide about batches",
                                 setup->model->name, *ret);
        return NULL;
}

struct error *sched_options_read_adaptive(const struct sched_setup *setup,
                                          enum adaptive_mode otherwise, enum adaptive_mode *ret) {
        const char *scheduler;

        TRY(read_adaptive(setup->model->name, setup->model->config, ret));
        TRY(sched_options_read_scheduler(setup, &scheduler));
        if (strcmp(scheduler, "baseline") == 0 || strcmp(scheduler, "triton") == 0)
                *ret = ADAPTIVE_OFF;
        if (*ret == ADAPTIVE_UNSET)
                *ret = setup->adaptive;
        if (*ret == ADAPTIVE_UNSET)
                *ret = otherwise;
        return NULL;
}

struct error *sched_options_check(const char *model, const struct model_config *config) {
        enum inline_execution when;
        uint64_t              limit_ns;
        enum adaptive_mode    adaptive;

        TRY(model_config_at_parameter(config, "inline_execution",
                                      read_inline_execution(model, config, &when)));
        TRY(model_config_at_parameter(config, "inline_limit_us",
                                      read_inline_limit(model, config, &limit_ns)));
        TRY(model_config_at_parameter(config, SCHEDULER, check_scheduler(model, config)));
        return model_config_at_parameter(config, "adaptive_batching",
                                         read_adaptive(model, config, &adaptive));
}

static struct error *read_n_requests(const char *variable, uint64_t *ret_n_requests) {
        const char *value = getenv(variable);
        uint64_t    n = 0;

        if (value != NULL && !str_to_u64(str_of(value), &n))
                return error_new(ERR_INVALID_ARG,
                                 "environment variable %s must be a number of requests, got '%s'",
                                 variable, value);
        *ret_n_requests = n;
        return NULL;
}

struct error *sched_options_read_delay(uint64_t *ret_n_requests) {
        return read_n_requests("TRITONSERVER_DELAY_SCHEDULER", ret_n_requests);
}

struct error *sched_options_read_backlog_delay(uint64_t *ret_n_requests) {
        return read_n_requests("TRITONSERVER_BACKLOG_DELAY_SCHEDULER", ret_n_requests);
}

struct error *sched_options_read(const struct sched_setup *setup, struct pull_options *ret) {
        const struct model *model = setup->model;

        TRY(read_inline_execution(model->name, model->config, &ret->inline_execution));
        TRY(read_inline_limit(model->name, model->config, &ret->inline_limit_ns));
        ret->model = setup->model;
        ret->executors = setup->executors;
        ret->n_executors = setup->n_executors;
        ret->timers = setup->timers;
        ret->limiter = setup->limiter;
        return NULL;
}
