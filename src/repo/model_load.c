/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/model_load.h"

#include "backend/backend_registry.h"
#include "backend/batch_strategy.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/placement.h"
#include "cache/response_cache.h"
#include "config/config_check.h"
#include "config/config_normalize.h"
#include "config/labels.h"
#include "infer/request_shape.h"
#include "repo/agent_list.h"
#include "repo/loaded_model.h"
#include "repo/model_key.h"
#include "repo/model_files.h"
#include "repo/model_instances.h"
#include "repo/override.h"
#include "sched/sched_setup.h"

#include <string.h>

/* All but its names, by which its end is told. */
static void end_parts(struct loaded_model *l) {
        struct model *m = &l->model;

        if (m->scheduler != NULL)
                m->scheduler->ops->free(m->scheduler);
        model_instances_free(l);
        batch_strategy_close(l->strategy);
        backend_model_stop(&l->backend);
        if (m->stats != NULL)
                model_stats_free(m->stats);
        model_io_set_free(m->io);
        labels_free(m->labels);
        model_config_free(m->config);
        agent_list_unref(l->agents);
        override_files_unref(l->override);
        free(l->settled);
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
        end_parts(l);
        free_names(l);
        free(l);
}

static void reap(struct reaper_item *item) {
        struct loaded_model *l = CONTAINER_OF(item, struct loaded_model, reaping);

        end_parts(l);
        log_info("successfully unloaded '%s' version %lld", l->label,
                 (long long)l->model.version);
        if (l->parts->on_ended != NULL)
                l->parts->on_ended(l->parts->owner, &l->model);
        free_names(l);
        free(l);
}

static void on_unused(struct model *model) {
        struct loaded_model *l = CONTAINER_OF(model, struct loaded_model, model);

        reaper_push(l->parts->reaper, &l->reaping);
}

static struct error *open_backend(struct loaded_model *l) {
        const Inference__ModelConfig *pb = l->model.config->pb;
        const char *backend = config_text_is_set(pb->backend) ? pb->backend : pb->platform;
        struct backend_wanted wanted = {
                .backend = backend,
                .runtime = config_text_is_set(pb->runtime) ? pb->runtime : "",
                .model = l->name,
                .model_directory = l->directory,
                .version = l->model.version,
        };

        TRY(backend_registry_get(l->parts->backends, &wanted, &l->backend.backend));
        l->backend.name = l->name;
        l->backend.version = l->model.version;
        l->backend.directory = l->directory;
        l->backend.config = l->model.config;
        l->backend.server = l->parts->server;
        l->backend.auto_complete = l->parts->auto_complete;
        return NULL;
}

struct error *model_load_normalize_groups(struct loaded_model *l, struct model_config *config) {
        const struct backend_attributes *a = &l->backend.backend->attributes;
        struct config_devices devices = { .preferred = a->groups, .n_preferred = a->n_groups };

        TRY(model_config_normalize_groups(config, &devices));
        return model_config_check_groups(config, devices.n_gpus);
}

/* After the backend had its say. */
static struct error *check_completed(struct loaded_model *l) {
        struct model_config *config = l->model.config;

        TRY(model_config_normalize(config));
        TRY(model_load_normalize_groups(l, l->model.config));
        TRY(model_config_check(config));
        TRY(model_config_check_io(config));
        TRY(model_config_check_states(config));
        return model_config_check_warmup(config);
}

/* Makes the statistics, with the configuration's metric tags as labels. */
static void make_stats(struct loaded_model *l) {
        const Inference__ModelConfig *pb = l->model.config->pb;
        struct metric_label *tags = mem_zalloc((pb->n_metric_tags + 1) * sizeof(*tags));

        for (size_t i = 0; i < pb->n_metric_tags; i++)
                tags[i] = (struct metric_label){ pb->metric_tags[i]->key,
                                                 pb->metric_tags[i]->value };
        l->model.stats = model_stats_new(
                l->parts->board,
                &(struct model_stats_options){ .model = l->name,
                                               .namespace = l->namespace,
                                               .version = l->model.version,
                                               .tags = tags,
                                               .n_tags = pb->n_metric_tags,
                                               .has_cache = l->model.cache != NULL,
                                               .is_decoupled = l->model.is_decoupled });
        l->backend.stats = l->model.stats;
        free(tags);
}

static struct error *make_scheduler(struct loaded_model *l) {
        struct executor **executors = mem_zalloc((l->n_instances + 1) * sizeof(struct executor *));
        struct error     *err;

        for (size_t i = 0; i < l->n_instances; i++)
                executors[i] = &l->instances[i]->backend->executor;
        err = sched_new(&(struct sched_setup){ .model = &l->model,
                                               .executors = executors,
                                               .n_executors = (uint32_t)l->n_instances,
                                               .filter = batch_strategy_filter(l->strategy),
                                               .timers = l->parts->timers,
                                               .limiter = l->parts->limiter },
                        &l->model.scheduler);
        free(executors);
        return err;
}

struct model_start {
        struct backend_model *model;
        struct error         *error;
};

static void start_main(void *arg) {
        struct model_start *s = arg;

        s->error = backend_model_start(s->model);
}

static struct error *start_model(struct loaded_model *l) {
        struct model_start s = { .model = &l->backend };

        TRY(error_wrap(placement_run(model_instances_place(l), l->name, start_main, &s),
                       "unable to place model '%s'", l->label));
        return s.error;
}

static struct error *load(struct loaded_model *l, const struct model_files *files) {
        struct model *m = &l->model;

        TRY(model_config_copy(files->config, &m->config));
        TRY(sched_check(l->name, m->config));
        TRY(open_backend(l));
        m->may_be_unready = l->backend.backend->entry.instance_ready != NULL;
        TRY(model_load_normalize_groups(l, l->model.config));
        TRY(start_model(l));
        TRY(check_completed(l));
        TRY(model_files_print_essence(m->config, &l->settled));
        TRY(labels_read(m->config, l->directory, &m->labels));
        TRY(model_io_set_new(m->config, &m->io));
        m->is_decoupled = model_config_is_decoupled(m->config);
        m->needs_equal_shapes = model_io_needs_equal_shapes(m->io);
        TRY(response_cache_attach(l->parts->cache, m));
        make_stats(l);
        TRY(batch_strategy_open(&l->backend, &l->strategy));
        TRY(model_instances_make(l));
        return make_scheduler(l);
}

struct error *model_load(const struct repo_parts *parts, const struct model_files *files,
                         int64_t version, struct model **ret) {
        struct loaded_model *l = mem_zalloc(sizeof(*l));
        uint64_t             start_ns = clock_now_ns();
        struct error        *err;

        l->parts = parts;
        l->name = mem_strdup(files->name);
        l->namespace = mem_strdup(files->namespace);
        l->label = model_key_label(&(struct model_key){ l->namespace, l->name });
        l->directory = mem_strdup(files->directory);
        l->override = override_files_ref(files->override);
        l->agents = agent_list_ref(files->agents);
        mutex_init(&l->lock, LOCK_MODEL);
        cond_init(&l->checked);
        ref_init(&l->model.ref);
        l->model.name = l->name;
        l->model.namespace = l->namespace;
        l->model.label = l->label;
        l->model.version = version;
        l->model.on_unused = on_unused;
        l->model.owner = l;
        l->reaping.reap = reap;
        err = load(l, files);
        if (err != NULL) {
                free_loaded(l);
                return err;
        }
        reaper_expect(parts->reaper);
        l->load_seconds = (double)(clock_now_ns() - start_ns) / 1e9;
        *ret = &l->model;
        return NULL;
}

void model_publish(struct model *model) {
        model_stats_show(model->stats, loaded_model_of(model)->load_seconds);
}

void model_hide(struct model *model) {
        model_stats_hide(model->stats);
}
