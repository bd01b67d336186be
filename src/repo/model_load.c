/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/model_load.h"

#include "base/byte_budget.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "cache/cached_scheduler.h"
#include "cache/response_cache.h"
#include "config/config_check.h"
#include "config/config_normalize.h"
#include "config/labels.h"
#include "config/state_specs.h"
#include "gpu/gpu.h"
#include "infer/model_generations.h"
#include "infer/request_shape.h"
#include "repo/agent_list.h"
#include "repo/composed_model.h"
#include "repo/loaded_model.h"
#include "repo/model_files.h"
#include "repo/model_instances.h"
#include "repo/model_key.h"
#include "repo/model_kind.h"
#include "repo/override.h"
#include "sched/sched_options.h"
#include "sched/sched_setup.h"
#include "store/store_copy.h"

#include <string.h>

/* ---- what a configuration makes the model hold ------------------------------------------------ */

/* What no configuration is charged for: most take less, with their labels. */
#define FREE_BYTES ((size_t)64 << 10)

/* Charges it: each version has its own, and a client that sends a configuration and a directory for each version
 * of a thousand sends each byte of the configuration once. */
static struct error *charge(struct loaded_model *l) {
        size_t n = l->model.config->arena.used_bytes + strlen(l->effective_config) +
                   labels_bytes(l->model.labels);

        if (n <= FREE_BYTES || l->env->state_memory == NULL)
                return NULL;
        if (!byte_budget_take(l->env->state_memory, n - FREE_BYTES))
                return error_new(ERR_UNAVAILABLE,
                                 "no room for the configuration and labels of version %lld of "
                                 "model '%s', %zu bytes: the memory for them and for states of "
                                 "sequences is used up",
                                 (long long)l->model.version, l->label, n);
        l->n_charged = n - FREE_BYTES;
        return NULL;
}

static void end_charge(struct loaded_model *l) {
        if (l->n_charged > 0)
                byte_budget_give(l->env->state_memory, l->n_charged);
}

/* ---- the life of a model ---------------------------------------------------------------------- */

/* Frees everything but the names, which the report of its end needs. */
static void free_parts(struct loaded_model *l) {
        struct model *m = &l->model;

        if (m->scheduler != NULL)
                m->scheduler->ops->free(m->scheduler);
        l->kind->free(l);
        composed_model_free(l->composed);
        if (m->stats != NULL)
                model_stats_free(m->stats);
        model_io_set_free(m->io);
        labels_free(m->labels);
        state_specs_free(m->states);
        model_config_free(m->config);
        agent_list_unref(l->agents);
        override_files_unref(l->override);
        store_copy_unref(l->copy);
        config_origin_done(&l->origin);
        model_generations_unref(m->generations);
        free(l->effective_config);
        end_charge(l);
        cond_done(&l->checked);
        mutex_done(&l->lock);
        free(l->directory);
}

static void free_names(struct loaded_model *l) {
        free(l->label);
        free(l->namespace);
        free(l->name);
}

static void free_loaded(struct loaded_model *l) {
        free_parts(l);
        free_names(l);
        free(l);
}

static void reap(struct reaper_item *item) {
        struct loaded_model *l = CONTAINER_OF(item, struct loaded_model, reaping);

        free_parts(l);
        log_info("successfully unloaded '%s' version %lld", l->label, (long long)l->model.version);
        if (l->env->on_ended != NULL)
                l->env->on_ended(l->env->owner, &l->model);
        free_names(l);
        free(l);
}

static void on_unused(struct model *model) {
        struct loaded_model *l = CONTAINER_OF(model, struct loaded_model, model);

        reaper_push(l->env->reaper, &l->reaping);
}

static void on_left(struct model *model) {
        const struct loaded_model *l = CONTAINER_OF(model, struct loaded_model, model);

        if (l->env->on_left != NULL)
                l->env->on_left(l->env->owner);
}

/* Checks the configuration after l->kind->open() has completed it. */
static struct error *check_completed(struct loaded_model *l) {
        struct model_config *config = l->model.config;

        TRY(model_config_normalize(config));
        TRY(l->kind->normalize(l, config));
        TRY(model_config_check(config));
        TRY(model_config_check_io(config));
        TRY(model_config_check_states(config));
        return model_config_check_warmup(config);
}

/* The GPUs that the model has instances on. */
static size_t list_gpus(const struct loaded_model *l, struct stats_gpu *ret) {
        size_t n = 0;

        for (size_t i = 0; i < gpus_count(l->env->gpus); i++) {
                const struct gpu_info *gpu = gpus_at(l->env->gpus, i);

                if (model_instances_are_at(l->model.config, gpu->device))
                        ret[n++] = (struct stats_gpu){ gpu->device, gpu->uuid };
        }
        return n;
}

/* Makes the statistics. The metric tags of the configuration become labels. */
static void make_stats(struct loaded_model *l) {
        const Inference__ModelConfig *pb = l->model.config->pb;
        struct stats_gpu    *gpus = mem_zalloc((gpus_count(l->env->gpus) + 1) * sizeof(*gpus));
        struct metric_label *tags = mem_zalloc((pb->n_metric_tags + 1) * sizeof(*tags));
        bool                 has_sequences = pb->scheduling_choice_case ==
                             INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_SEQUENCE_BATCHING;

        for (size_t i = 0; i < pb->n_metric_tags; i++)
                tags[i] =
                        (struct metric_label){ pb->metric_tags[i]->key, pb->metric_tags[i]->value };
        l->model.stats =
                model_stats_new(l->env->model_metrics,
                                &(struct model_stats_options){
                                        .model = l->name,
                                        .namespace = l->namespace,
                                        .version = l->model.version,
                                        .gpus = gpus,
                                        .n_gpus = list_gpus(l, gpus),
                                        .tags = tags,
                                        .n_tags = pb->n_metric_tags,
                                        .has_cache = l->model.cache != NULL,
                                        .memory = l->backend.is_started ? &l->backend.memory : NULL,
                                        .is_decoupled = l->model.is_decoupled,
                                        .has_sequences = has_sequences,
                                        .has_batches = sched_has_batches(l->model.config) });
        l->backend.stats = l->model.stats;
        free(tags);
        free(gpus);
}

/* True when the model has no backend. */
static bool is_composed_only(const struct loaded_model *l) {
        return l->composed != NULL && l->composed->needs.kind != NEEDS_NEXT;
}

/* Puts the scheduler of the chain that begins here in front of the model's own. */
static struct error *wrap_in_chain(struct loaded_model *l) {
        struct composed_block block;

        composed_model_bind(l->composed, &block);
        TRY(composed_block_error(&block));
        l->model.has_next = true;
        l->model.scheduler = composed_model_chain(l->composed, l->model.scheduler);
        return NULL;
}

static struct error *load_version(struct loaded_model *l, const struct model_files *files) {
        struct model *m = &l->model;

        TRY(model_config_copy(files->config, &m->config));
        TRY(composed_model_new(l, &l->composed));
        if (is_composed_only(l))
                l->kind = &kind_composed;
        else
                TRY(sched_options_check(l->name, m->config));
        TRY(l->kind->open(l));
        TRY(check_completed(l));
        TRY(model_files_print_given_config(m->config, &l->effective_config));
        TRY(labels_read(m->config, l->directory, &m->labels));
        TRY(charge(l));
        TRY(state_specs_new(m->config, l->directory, l->env->state_memory, &m->states));
        if (m->states != NULL)
                m->states->gpus = m->gpus;
        TRY(model_io_set_new(m->config, &m->io));
        m->is_decoupled = model_config_is_decoupled(m->config);
        m->counts_inputs = m->is_decoupled ||
                           (l->backend.backend != NULL && backend_is_python(l->backend.backend));
        m->needs_equal_shapes = model_io_needs_equal_shapes(m->io);
        TRY(response_cache_attach(l->env->cache, m));
        make_stats(l);
        TRY(l->kind->make(l));
        if (m->cache != NULL)
                m->scheduler = cached_scheduler_new(m->cache, m->scheduler);
        if (l->composed != NULL && !is_composed_only(l))
                TRY(wrap_in_chain(l));
        return NULL;
}

struct error *model_load(const struct repo_environment *env, const struct model_files *files,
                         int64_t version, struct model **ret) {
        struct loaded_model *l = mem_zalloc(sizeof(*l));
        uint64_t             start_ns = clock_now_ns();
        struct error        *err;

        l->env = env;
        l->kind = &kind_backend;
        l->name = mem_strdup(files->name);
        l->namespace = mem_strdup(files->namespace);
        l->label = model_key_label(&(struct model_key){ l->namespace, l->name });
        l->directory = mem_strdup(files->directory);
        l->override = override_files_ref(files->override);
        l->copy = store_copy_ref(files->copy);
        config_origin_copy(&files->origin, &l->origin);
        l->agents = agent_list_ref(files->agents);
        mutex_init(&l->lock, LOCK_MODEL);
        cond_init(&l->checked);
        ref_init(&l->model.ref);
        l->model.name = l->name;
        l->model.namespace = l->namespace;
        l->model.label = l->label;
        l->model.version = version;
        l->model.loaded_at_s = clock_wall_ns() / NS_PER_S;
        l->model.gpus = env->gpus;
        l->model.device = GPU_HOST;
        l->backend.device = GPU_HOST;
        l->model.responses = env->responses;
        l->model.on_unused = on_unused;
        l->model.on_left = on_left;
        l->model.owner = l;
        l->reaping.reap = reap;
        l->n_superseding = files->n_superseding;
        err = load_version(l, files);
        l->n_superseding = NULL;
        if (err != NULL) {
                free_loaded(l);
                return err;
        }
        reaper_expect(env->reaper);
        l->load_seconds = (double)(clock_now_ns() - start_ns) / 1e9;
        *ret = &l->model;
        return NULL;
}

struct error *model_update(struct model *model, const struct model_files *files,
                           struct model_update **ret) {
        struct loaded_model *l = loaded_model_of(model);
        struct error        *err;

        l->n_superseding = files->n_superseding;
        err = l->kind->update(l, files->config, ret);
        l->n_superseding = NULL;
        return err;
}

void model_publish(struct model *model) {
        model_stats_show(model->stats, loaded_model_of(model)->load_seconds);
}

void model_hide(struct model *model) {
        model_stats_hide(model->stats);
        if (model->scheduler->ops->retire != NULL)
                model->scheduler->ops->retire(model->scheduler);
}
