/* SPDX-License-Identifier: BSD-3-Clause */
/* The kind of models that a backend runs (model_kind.h). It opens the backend, which completes
 * the configuration. Then it makes the instances, and the scheduler that gives them batches. */
#include "backend/backend_registry.h"
#include "backend/batch_strategy.h"
#include "base/mem.h"
#include "base/placement.h"
#include "config/config_check.h"
#include "config/config_normalize.h"
#include "gpu/gpu.h"
#include "repo/loaded_model.h"
#include "repo/model_instances.h"
#include "repo/model_kind.h"
#include "repo/scheduler_choice.h"
#include "repo/warmup.h"
#include "sched/sched_setup.h"

static struct error *open_backend(struct loaded_model *l) {
        const Inference__ModelConfig *pb = l->model.config->pb;
        const char *backend = config_text_is_set(pb->backend) ? pb->backend : pb->platform;
        bool        has_sent_files = l->override != NULL && !l->env->allows_uploaded_code;
        struct backend_wanted wanted = {
                .backend = backend,
                .runtime = config_text_is_set(pb->runtime) ? pb->runtime : "",
                .model = l->name,
                .model_directory = l->directory,
                .version = l->model.version,
                .is_sent = has_sent_files || l->origin.has_sent_runtime,
        };

        TRY(backend_registry_get(l->env->backends, &wanted, &l->backend.backend));
        l->backend.name = l->name;
        l->backend.version = l->model.version;
        l->backend.directory = l->directory;
        l->backend.config = l->model.config;
        l->backend.server = l->env->server;
        l->backend.is_sent = has_sent_files;
        l->backend.sent_parameters = (const char *const *)l->origin.sent;
        l->backend.n_sent_parameters = l->origin.n_sent;
        l->backend.auto_complete = l->env->auto_complete;
        return NULL;
}

/* --model-load-gpu-limit, of the devices of its instances. */
static struct error *check_load_limits(struct loaded_model *l, const struct model_config *config) {
        for (size_t i = 0; i < config->pb->n_instance_group; i++) {
                const Inference__ModelInstanceGroup *group = config->pb->instance_group[i];

                for (size_t k = 0; k < group->n_gpus; k++)
                        TRY(error_wrap(gpu_check_load(l->env->gpus, group->gpus[k]),
                                       "can not load model '%s'", l->label));
        }
        return NULL;
}

/* False for a backend that prefers other kinds only. The reference server's Python backend prefers the CPU
 * and runs on GPUs as well. */
static bool can_use_gpus(const struct backend *b) {
        const struct backend_attributes *a = &b->attributes;

        for (size_t i = 0; i < a->n_groups; i++)
                if (a->groups[i].kind == INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_GPU ||
                    a->groups[i].kind == INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_AUTO)
                        return true;
        return a->n_groups == 0 || backend_is_python(b);
}

static struct error *normalize(struct loaded_model *l, struct model_config *config) {
        const struct backend *b = l->backend.backend;
        const struct gpus    *gpus = l->env->gpus;
        struct config_devices devices = {
                .preferred = b->attributes.groups,
                .n_preferred = b->attributes.n_groups,
                .n_gpus = gpus_count(gpus),
                .least_capability = l->env->min_compute_capability,
                .is_cpu_only = !can_use_gpus(b),
        };
        int32_t      *ids = mem_alloc((devices.n_gpus + 1) * sizeof(*ids));
        struct error *err;

        for (size_t i = 0; i < devices.n_gpus; i++)
                ids[i] = gpus_at(gpus, i)->device;
        devices.gpus = ids;
        err = model_config_normalize_groups(config, &devices);
        if (err == NULL)
                err = model_config_check_groups(config, &devices);
        free(ids);
        return err;
}

struct model_start {
        struct backend_model *model;
        struct error         *error;
};

static bool looks_at_types(const struct backend *b, const struct instance_devices *d) {
        switch (b->memory) {
        case BACKEND_LOOKS: return d->has_no_cpu;
        case BACKEND_BY_KIND: return d->has_only_gpus;
        case BACKEND_ON_HOST: break;
        }
        return false;
}

/* To be called again when the backend has completed the configuration. */
static void set_devices(struct loaded_model *l) {
        struct instance_devices d = model_instances_devices(l->model.config);

        l->backend.device = d.first;
        l->model.device = d.only;
        /* A group that says KIND_GPU is right about a backend that only prefers the CPU. */
        l->model.takes_device_memory = l->backend.takes_device_inputs ||
                                       ((d.first != GPU_HOST || can_use_gpus(l->backend.backend)) &&
                                        looks_at_types(l->backend.backend, &d));
        l->model.writes_device_memory = l->backend.writes_device_outputs;
}

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

static struct error *open(struct loaded_model *l) {
        TRY(open_backend(l));
        l->model.may_be_unready = l->backend.backend->entry.instance_ready != NULL;
        TRY(normalize(l, l->model.config));
        TRY(check_load_limits(l, l->model.config));
        set_devices(l);
        return start_model(l);
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
                                               .timers = l->env->timers,
                                               .limiter = l->env->limiter,
                                               .adaptive = l->env->adaptive,
                                               .scheduler = l->env->scheduler,
                                               .scheduler_directory = l->env->scheduler_directory,
                                               .model_directory = l->directory,
                                               .is_sent = l->backend.is_sent,
                                               .metrics = l->env->metrics },
                        &l->model.scheduler);
        free(executors);
        return err;
}

/* Checks that every sample has run on at least one member: only members that take its batch run
 * it. */
static struct error *check_warmup_ran(const struct loaded_model *l) {
        const Inference__ModelConfig *pb = l->model.config->pb;

        for (size_t i = 0; i < pb->n_model_warmup; i++) {
                bool has_run = pb->model_warmup[i]->batch_size == 0;

                for (size_t k = 0; k < l->n_instances && !has_run; k++)
                        has_run = warmup_fits(pb->model_warmup[i],
                                              &l->instances[k]->backend->executor);
                if (!has_run)
                        return error_new(
                                ERR_INVALID_ARG,
                                "warmup sample '%s' of model '%s' has batch_size %u, which "
                                "no instance group takes",
                                pb->model_warmup[i]->name, l->name,
                                pb->model_warmup[i]->batch_size);
        }
        return NULL;
}

static struct error *make_backend_model(struct loaded_model *l) {
        set_devices(l);
        l->backend.has_sequences = l->model.config->pb->scheduling_choice_case ==
                                   INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_SEQUENCE_BATCHING;
        TRY(batch_strategy_open(&l->backend, &l->strategy));
        TRY(model_instances_make(l));
        TRY(check_warmup_ran(l));
        TRY(make_scheduler(l));
        l->backend.has_parts = l->model.scheduler->may_split;
        return NULL;
}

static void free_all(struct loaded_model *l) {
        model_instances_free(l);
        batch_strategy_close(l->strategy);
        backend_model_stop(&l->backend);
}

const struct model_kind_ops kind_backend = {
        .open = open,
        .normalize = normalize,
        .make = make_backend_model,
        .update = model_update_prepare,
        .is_ready = model_instances_are_ready,
        .free = free_all,
};
