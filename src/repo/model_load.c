/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/model_load.h"

#include "backend/backend_instance.h"
#include "backend/backend_registry.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "config/config_check.h"
#include "config/config_normalize.h"
#include "config/labels.h"
#include "infer/model.h"
#include "infer/request_shape.h"
#include "repo/model_features.h"
#include "repo/model_files.h"
#include "repo/reaper.h"
#include "repo/repo_parts.h"
#include "repo/warmup.h"
#include "sched/sched_setup.h"

#include <string.h>

struct loaded_model {
        struct model              model;
        const struct repo_parts  *parts; /* borrowed: the server */
        char                     *name;      /* owned */
        char                     *directory; /* owned */
        struct backend_model      backend;
        struct backend_instance **instances; /* owned, and each */
        struct executor         **executors; /* owned array */
        uint32_t                  n_instances;
        struct reaper_item        reaping;
};

static void free_loaded(struct loaded_model *l) {
        struct model *m = &l->model;

        if (m->scheduler != NULL)
                m->scheduler->ops->free(m->scheduler);
        for (uint32_t i = 0; i < l->n_instances; i++)
                backend_instance_free(l->instances[i]);
        backend_model_stop(&l->backend);
        if (m->stats != NULL)
                model_stats_free(m->stats);
        model_io_set_free(m->io);
        labels_free(m->labels);
        model_config_free(m->config);
        free(l->executors);
        free(l->instances);
        free(l->directory);
        free(l->name);
        free(l);
}

static void reap(struct reaper_item *item) {
        struct loaded_model *l = CONTAINER_OF(item, struct loaded_model, reaping);

        log_info("successfully unloaded '%s' version %lld", l->name, (long long)l->model.version);
        free_loaded(l);
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

static struct error *normalize_groups(struct loaded_model *l) {
        const struct backend_attributes *a = &l->backend.backend->attributes;
        struct config_devices devices = { .preferred = a->groups, .n_preferred = a->n_groups };

        TRY(model_config_normalize_groups(l->model.config, &devices));
        return model_config_check_groups(l->model.config, devices.n_gpus);
}

/* After the backend had its say. */
static struct error *check_completed(struct loaded_model *l) {
        struct model_config *config = l->model.config;

        TRY(model_config_normalize(config));
        TRY(normalize_groups(l));
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
                                               .version = l->model.version,
                                               .tags = tags,
                                               .n_tags = pb->n_metric_tags,
                                               .is_decoupled = l->model.is_decoupled });
        l->backend.stats = l->model.stats;
        free(tags);
}

static struct error *add_instance(struct loaded_model *l, const Inference__ModelInstanceGroup *group,
                                  int index) {
        AUTO_CHARS name = mem_printf("%s_%d", group->name, index);
        const char *policy = config_text_is_set(group->host_policy) ? group->host_policy : "cpu";
        AUTO_CHARS  policy_json = mem_printf("{\"%s\":{}}", policy);
        struct backend_instance *in;

        TRY(backend_instance_new(
                &(struct backend_instance_options){ .model = &l->backend,
                                                    .name = name,
                                                    .group = group,
                                                    .host_policy_json = str_of(policy_json) },
                &in));
        l->instances = mem_realloc(l->instances, (l->n_instances + 1) * sizeof(struct backend_instance *));
        l->executors = mem_realloc(l->executors, (l->n_instances + 1) * sizeof(struct executor *));
        l->instances[l->n_instances] = in;
        l->executors[l->n_instances++] = &in->executor;
        return warmup_run(&l->model, l->directory, &in->executor);
}

static struct error *add_instances(struct loaded_model *l) {
        const Inference__ModelConfig *pb = l->model.config->pb;

        for (size_t g = 0; g < pb->n_instance_group; g++)
                for (int i = 0; i < pb->instance_group[g]->count; i++)
                        TRY(add_instance(l, pb->instance_group[g], i));
        return NULL;
}

static struct error *load(struct loaded_model *l, const struct model_files *files) {
        struct model *m = &l->model;

        TRY(model_features_check(files->config));
        TRY(model_config_copy(files->config, &m->config));
        TRY(open_backend(l));
        TRY(normalize_groups(l));
        TRY(backend_model_start(&l->backend));
        TRY(check_completed(l));
        TRY(labels_read(m->config, l->directory, &m->labels));
        TRY(model_io_set_new(m->config, &m->io));
        m->is_decoupled = model_config_is_decoupled(m->config);
        m->needs_equal_shapes = model_io_needs_equal_shapes(m->io);
        make_stats(l);
        TRY(add_instances(l));
        return sched_new(&(struct sched_setup){ .model = m,
                                                .executors = l->executors,
                                                .n_executors = l->n_instances,
                                                .timers = l->parts->timers },
                         &m->scheduler);
}

struct error *model_load(const struct repo_parts *parts, const struct model_files *files,
                         int64_t version, struct model **ret) {
        struct loaded_model *l = mem_zalloc(sizeof(*l));
        uint64_t             start_ns = clock_now_ns();
        struct error        *err;

        l->parts = parts;
        l->name = mem_strdup(files->name);
        l->directory = mem_strdup(files->directory);
        ref_init(&l->model.ref);
        l->model.name = l->name;
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
        model_stats_show(l->model.stats, (double)(clock_now_ns() - start_ns) / 1e9);
        *ret = &l->model;
        return NULL;
}

bool model_instances_are_ready(struct model *model) {
        struct loaded_model *l = model->owner;

        for (uint32_t i = 0; i < l->n_instances; i++)
                if (!l->executors[i]->ops->is_ready(l->executors[i]))
                        return false;
        return true;
}
