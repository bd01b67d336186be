/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/model_instances.h"

#include "backend/host_policy.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "config/batch_members.h"
#include "gpu/gpu.h"
#include "infer/scheduler.h"
#include "repo/instance_start.h"
#include "repo/loaded_model.h"
#include "repo/model_kind.h"

#include <string.h>

/* A prepared change, to be committed or cancelled. */
struct model_update {
        struct loaded_model     *model;     /* borrowed: the caller holds a reference */
        struct group_config     *config;    /* ref */
        struct loaded_instance **instances; /* owned array: the instances after the change */
        size_t                   n_instances;
        size_t                   n_kept; /* instances that stay, at the start of the array */
};

/* Instances to be made. */
struct start_list {
        struct instance_start *starts; /* owned, and what they hold; instance NULL: moved
                                        * elsewhere */
        size_t                 n_starts;
};

static void group_config_unref(struct group_config *g) {
        if (g == NULL || !ref_put(&g->ref))
                return;
        model_config_free(g->shown);
        model_config_free(g->given);
        free(g);
}

static void instance_free(struct loaded_instance *in) {
        instance_end(in);
        group_config_unref(in->config);
        free(in);
}

/* Instances of one group on one device, or of a group without GPUs. */
struct seat {
        size_t group;  /* index in the configuration */
        int    device; /* GPU_HOST: none */
        int    count;
};

/* The seats of all groups, in their order, and in the order of a group's GPUs; the caller owns them. */
static struct seat *list_seats(const Inference__ModelConfig *pb, size_t *ret_n) {
        struct seat *seats;
        size_t       n = 0;

        for (size_t g = 0; g < pb->n_instance_group; g++)
                n += MAX(pb->instance_group[g]->n_gpus, 1);
        seats = mem_zalloc((n + 1) * sizeof(*seats));
        *ret_n = n;
        n = 0;
        for (size_t g = 0; g < pb->n_instance_group; g++) {
                const Inference__ModelInstanceGroup *group = pb->instance_group[g];

                for (size_t i = 0; i < MAX(group->n_gpus, 1); i++)
                        seats[n++] = (struct seat){
                                .group = g,
                                .device = group->n_gpus > 0 ? group->gpus[i] : GPU_HOST,
                                .count = group->count,
                        };
        }
        return seats;
}

static const struct placement *place_of(const struct loaded_model *l, const struct seat *seat) {
        AUTO_CHARS policy =
                host_policy_name(l->model.config->pb->instance_group[seat->group], seat->device);

        return host_policies_place(l->env->policies, policy);
}

const struct placement *model_instances_place(const struct loaded_model *l) {
        size_t                  n;
        struct seat            *seats = list_seats(l->model.config->pb, &n);
        const struct placement *place = host_policies_anywhere(l->env->policies);

        if (n > 0)
                place = place_of(l, &seats[0]);
        for (size_t i = 1; i < n; i++)
                if (place_of(l, &seats[i]) != place) {
                        place = host_policies_anywhere(l->env->policies);
                        break;
                }
        free(seats);
        return place;
}

struct instance_devices model_instances_devices(const struct model_config *c) {
        const Inference__ModelConfig *pb = c->pb;
        struct instance_devices       d = { .first = GPU_HOST, .only = GPU_HOST };

        d.has_no_cpu = d.has_only_gpus = pb->n_instance_group > 0;
        for (size_t g = 0; g < pb->n_instance_group; g++) {
                const Inference__ModelInstanceGroup *group = pb->instance_group[g];

                if (group->kind == INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_CPU)
                        d.has_no_cpu = false;
                if (group->kind != INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_GPU)
                        d.has_only_gpus = false;
                for (size_t i = 0; i < group->n_gpus; i++) {
                        if (d.first == GPU_HOST)
                                d.first = d.only = group->gpus[i];
                        else if (group->gpus[i] != d.only)
                                d.only = GPU_SEVERAL;
                }
        }
        return d;
}

/* The name may be a typing error, or the model was made for another machine. */
static void warn_of_unknown_policy(const struct loaded_model           *l,
                                   const Inference__ModelInstanceGroup *group) {
        if (config_text_is_set(group->host_policy) &&
            !host_policies_has(l->env->policies, group->host_policy))
                log_warn("model '%s': instance group '%s' names the host policy '%s', which is not "
                         "defined; its instances run on any core",
                         l->label, group->name, group->host_policy);
}

/* ---- making instances
 * ------------------------------------------------------------------------- */

static void add_start(struct start_list *list, const struct seat *seat, struct group_config *config,
                      const char *group_name, uint32_t index) {
        struct loaded_instance *in = mem_zalloc(sizeof(*in));
        char                   *name = mem_printf("%s_%u", group_name, index);

        in->group = seat->group;
        in->device = seat->device;
        in->index = index;
        in->config = config;
        if (config != NULL)
                ref_get(&config->ref);
        list->starts = mem_realloc(list->starts, (list->n_starts + 1) * sizeof(*list->starts));
        list->starts[list->n_starts++] = (struct instance_start){ .instance = in, .name = name };
}

/* Also frees the instances that were not moved elsewhere. */
static void start_list_done(struct start_list *list) {
        for (size_t i = 0; i < list->n_starts; i++) {
                if (list->starts[i].instance != NULL)
                        instance_free(list->starts[i].instance);
                free(list->starts[i].name);
        }
        free(list->starts);
}

/* Adds the starts of all instances. Those of a group are numbered over all of its devices. */
static void add_all_starts(struct loaded_model *l, struct start_list *list) {
        const Inference__ModelConfig *pb = l->model.config->pb;
        size_t                        n;
        struct seat                  *seats = list_seats(pb, &n);
        uint32_t                      index = 0;

        for (size_t i = 0; i < n; i++) {
                const Inference__ModelInstanceGroup *group = pb->instance_group[seats[i].group];

                if (i == 0 || seats[i].group != seats[i - 1].group) {
                        warn_of_unknown_policy(l, group);
                        index = 0;
                }
                for (int k = 0; k < seats[i].count; k++)
                        add_start(list, &seats[i], NULL, group->name, index++);
        }
        free(seats);
}

struct error *model_instances_make(struct loaded_model *l) {
        struct start_list list = { 0 };
        struct error     *err;

        add_all_starts(l, &list);
        err = instances_start(l, list.starts, list.n_starts);
        if (err == NULL) {
                l->instances = mem_zalloc((list.n_starts + 1) * sizeof(struct loaded_instance *));
                for (size_t i = 0; i < list.n_starts; i++)
                        l->instances[l->n_instances++] = STEAL(list.starts[i].instance);
        }
        start_list_done(&list);
        return err;
}

void model_instances_free(struct loaded_model *l) {
        for (size_t i = 0; i < l->n_instances; i++)
                instance_free(l->instances[i]);
        free(l->instances);
        group_config_unref(l->groups);
}

void model_instances_visit(struct loaded_model *l,
                           void (*visit)(struct backend_instance *in, void *userp), void *userp) {
        struct loaded_instance **asked;
        size_t                   n;

        mutex_lock(&l->lock);
        n = l->n_instances;
        asked = mem_zalloc((n + 1) * sizeof(struct loaded_instance *));
        for (size_t i = 0; i < n; i++) {
                asked[i] = l->instances[i];
                asked[i]->n_checks++; /* prevents that it is freed meanwhile */
        }
        mutex_unlock(&l->lock);
        for (size_t i = 0; i < n; i++)
                visit(asked[i]->backend, userp);
        mutex_lock(&l->lock);
        for (size_t i = 0; i < n; i++)
                asked[i]->n_checks--;
        cond_broadcast(&l->checked);
        mutex_unlock(&l->lock);
        free(asked);
}

size_t model_instances_count(struct loaded_model *l) {
        MUTEX_GUARD(&l->lock);
        return l->n_instances;
}

static void check_ready(struct backend_instance *in, void *userp) {
        bool *all = userp;

        *all = *all && in->executor.ops->is_ready(&in->executor);
}

bool model_instances_are_ready(struct loaded_model *l) {
        bool all = true;

        if (l->model.may_be_unready)
                model_instances_visit(l, check_ready, &all);
        return all;
}

/* ---- changes ------------------------------------------------------------------------------- */

/* Packs a group without its name, count and GPUs, to compare it. The caller owns the bytes. */
static struct str pack_group(const Inference__ModelInstanceGroup *group) {
        Inference__ModelInstanceGroup bare = *group;
        uint8_t                      *bytes;

        bare.name = (char *)(uintptr_t) "";
        bare.count = 0;
        bare.n_gpus = 0; /* an instance has one of them, which is compared on its own */
        bytes = mem_zalloc(inference__model_instance_group__get_packed_size(&bare) + 1);
        return (struct str){ .ptr = (char *)bytes,
                             .len = inference__model_instance_group__pack(&bare, bytes) };
}

static bool is_same_group(const Inference__ModelInstanceGroup *a,
                          const Inference__ModelInstanceGroup *b) {
        struct str x = pack_group(a), y = pack_group(b);
        bool       is_same = str_equal(x, y);

        free((char *)(uintptr_t)x.ptr);
        free((char *)(uintptr_t)y.ptr);
        return is_same;
}

/* Makes a configuration with the groups and the version policy of `given`, and the loaded model's
 * values for everything else. */
static struct error *group_config_new(struct loaded_model *l, const struct model_config *given,
                                      struct group_config **ret) {
        struct group_config *g = mem_zalloc(sizeof(*g));

        ref_init(&g->ref);
        TRY_OR(model_config_copy(given, &g->given), group_config_unref(g));
        TRY_OR(model_config_copy(l->model.config, &g->shown), group_config_unref(g));
        TRY_OR(l->kind->normalize(l, g->given), group_config_unref(g));
        g->shown->pb->n_instance_group = g->given->pb->n_instance_group;
        g->shown->pb->instance_group = g->given->pb->instance_group;
        g->shown->pb->version_policy = g->given->pb->version_policy;
        *ret = g;
        return NULL;
}

static const struct model_config *config_in_force(const struct loaded_model *l) {
        return l->groups != NULL ? l->groups->shown : l->model.config;
}

static struct error *is_unchanged(const struct loaded_model *l, const struct group_config *g,
                                  bool *ret) {
        AUTO_STRBUF old = { 0 };
        AUTO_STRBUF new = { 0 };

        TRY(model_config_print_json(config_in_force(l), MODEL_CONFIG_VERSION, &old));
        TRY(model_config_print_json(g->shown, MODEL_CONFIG_VERSION, &new));
        *ret = str_equal(strbuf_str(&old), strbuf_str(&new));
        return NULL;
}

static bool is_in(struct loaded_instance *const *in, size_t n, const struct loaded_instance *one) {
        for (size_t i = 0; i < n; i++)
                if (in[i] == one)
                        return true;
        return false;
}

/* The name of a group counts when it says which batches its instances take. */
static bool fits(const struct model_update *u, const struct loaded_instance *in,
                 const struct seat *seat) {
        const Inference__ModelInstanceGroup *own = loaded_instance_group(u->model, in);
        const Inference__ModelInstanceGroup *group =
                u->config->shown->pb->instance_group[seat->group];

        return in->device == seat->device && is_same_group(own, group) &&
               (!batch_members_are_given(u->model->model.config) ||
                strcmp(own->name, group->name) == 0);
}

static void append_instance(struct model_update *u, struct loaded_instance *in) {
        u->instances =
                mem_realloc(u->instances, (u->n_instances + 1) * sizeof(struct loaded_instance *));
        u->instances[u->n_instances++] = in;
}

/* Lowers the counts of the seats by the instances that stay. */
static void keep_fitting(struct model_update *u, struct seat *seats, size_t n) {
        const struct loaded_model *l = u->model;
        bool                      *is_kept = mem_zalloc(l->n_instances + 1);

        for (size_t i = 0; i < n; i++)
                for (size_t k = 0; k < l->n_instances && seats[i].count > 0; k++)
                        if (!is_kept[k] && fits(u, l->instances[k], &seats[i])) {
                                append_instance(u, l->instances[k]);
                                is_kept[k] = true;
                                seats[i].count--;
                        }
        u->n_kept = u->n_instances;
        free(is_kept);
}

static void add_name(struct map *names, const char *name) {
        map_set(names, str_of(name), names); /* a set: any value but NULL */
}

/* The names of the instances that stay. */
static void list_names(const struct model_update *u, struct map *ret) {
        map_init(ret);
        for (size_t i = 0; i < u->n_instances; i++)
                add_name(ret, u->instances[i]->backend->name);
}

/* Returns the first n from `index` on such that no other instance is called "<group>_<n>". */
static uint32_t free_index(const struct map *names, const char *group, uint32_t index) {
        for (;; index++) {
                AUTO_CHARS name = mem_printf("%s_%u", group, index);

                if (map_find(names, str_of(name)) == NULL)
                        return index;
        }
}

/* Adds the new instances to the scheduler, after all of them were made. */
static struct error *add_to_scheduler(struct model_update *u, struct start_list *list) {
        struct scheduler *s = u->model->model.scheduler;

        for (size_t i = 0; i < list->n_starts; i++) {
                TRY(s->ops->add_executor(s, &list->starts[i].instance->backend->executor));
                append_instance(u, STEAL(list->starts[i].instance));
        }
        return NULL;
}

/* Instances of a group are numbered over all of its devices. */
static void add_missing_starts(const struct model_update *u, const struct seat *missing, size_t n,
                               struct start_list *list) {
        const Inference__ModelConfig *pb = u->config->shown->pb;
        struct map                    names;
        uint32_t                      index = 0;

        list_names(u, &names);
        for (size_t i = 0; i < n; i++) {
                const Inference__ModelInstanceGroup *group = pb->instance_group[missing[i].group];

                if (i > 0 && missing[i].group != missing[i - 1].group)
                        index = 0;
                if (missing[i].count > 0)
                        warn_of_unknown_policy(u->model, group);
                for (int k = 0; k < missing[i].count; k++) {
                        index = free_index(&names, group->name, index);
                        add_start(list, &missing[i], u->config, group->name, index);
                        add_name(&names, list->starts[list->n_starts - 1].name);
                }
        }
        map_done(&names);
}

static struct error *make_missing(struct model_update *u, const struct seat *missing, size_t n) {
        struct start_list list = { 0 };
        struct error     *err;

        add_missing_starts(u, missing, n, &list);
        err = instances_start(u->model, list.starts, list.n_starts);
        if (err == NULL)
                err = add_to_scheduler(u, &list);
        start_list_done(&list);
        return err;
}

/* --model-load-gpu-limit, of the devices that get more instances. */
static struct error *check_load_limits(const struct model_update *u, const struct seat *missing,
                                       size_t n) {
        const struct loaded_model *l = u->model;

        for (size_t i = 0; i < n; i++)
                if (missing[i].count > 0 && missing[i].device != GPU_HOST)
                        TRY(error_wrap(gpu_check_load(l->env->gpus, missing[i].device),
                                       "can not load model '%s'", l->label));
        return NULL;
}

static struct error *prepare(struct model_update *u) {
        size_t        n;
        struct seat  *seats = list_seats(u->config->shown->pb, &n);
        struct error *err;

        keep_fitting(u, seats, n);
        err = check_load_limits(u, seats, n);
        if (err == NULL)
                err = make_missing(u, seats, n);
        free(seats);
        return err;
}

bool model_instances_are_at(const struct model_config *c, int device) {
        for (size_t g = 0; g < c->pb->n_instance_group; g++) {
                const Inference__ModelInstanceGroup *group = c->pb->instance_group[g];

                if (group->n_gpus == 0 && device == GPU_HOST)
                        return true;
                for (size_t i = 0; i < group->n_gpus; i++)
                        if (group->gpus[i] == device)
                                return true;
        }
        return false;
}

/* True when `wide` has instances wherever `c` has some. */
static bool covers(const struct model_config *wide, const struct model_config *c) {
        for (size_t g = 0; g < c->pb->n_instance_group; g++) {
                const Inference__ModelInstanceGroup *group = c->pb->instance_group[g];

                if (group->n_gpus == 0 && !model_instances_are_at(wide, GPU_HOST))
                        return false;
                for (size_t i = 0; i < group->n_gpus; i++)
                        if (!model_instances_are_at(wide, group->gpus[i]))
                                return false;
        }
        return true;
}

bool model_update_is_possible(struct loaded_model *l, const struct model_config *config) {
        const struct model_config *old = config_in_force(l);
        AUTO_MODEL_CONFIG          copy = NULL;
        AUTO_ERROR                 err = NULL;

        if (l->env->gpus == NULL)
                return true;
        err = model_config_copy(config, &copy);
        if (err == NULL)
                err = l->kind->normalize(l, copy);
        if (err != NULL)
                return true; /* the update reports it */
        return model_instances_devices(old).has_no_cpu ==
                       model_instances_devices(copy).has_no_cpu &&
               covers(old, copy) && covers(copy, old);
}

struct error *model_update_prepare(struct loaded_model *l, const struct model_config *config,
                                   struct model_update **ret) {
        struct model_update *u = mem_zalloc(sizeof(*u));
        bool                 unchanged = false;
        struct error        *err;

        *ret = NULL;
        u->model = l;
        err = group_config_new(u->model, config, &u->config);
        if (err == NULL)
                err = is_unchanged(u->model, u->config, &unchanged);
        if (err == NULL && !unchanged)
                err = prepare(u);
        if (err != NULL || unchanged) {
                model_update_cancel(u);
                return err;
        }
        *ret = u;
        return NULL;
}

/* They are removed one after the other. The later ones begin no sequences meanwhile. */
static void close_instances(const struct loaded_model *l, struct loaded_instance *const *in,
                            size_t n) {
        struct scheduler *s = l->model.scheduler;

        for (size_t i = 0; i < n && s->sequences != NULL; i++)
                s->sequences->close_executor(s, &in[i]->backend->executor);
}

/* Returns the model's instances that the change removes; the caller owns the array. */
static struct loaded_instance **list_removed(const struct model_update *u, size_t *ret_n) {
        const struct loaded_model *l = u->model;
        struct loaded_instance   **removed =
                mem_zalloc((l->n_instances + 1) * sizeof(struct loaded_instance *));

        *ret_n = 0;
        for (size_t i = 0; i < l->n_instances; i++)
                if (!is_in(u->instances, u->n_kept, l->instances[i]))
                        removed[(*ret_n)++] = l->instances[i];
        return removed;
}

/* Removes an instance from the scheduler, waits until no thread queries it, and frees it. */
static void end_instance(struct loaded_model *l, struct loaded_instance *in) {
        struct scheduler *s = l->model.scheduler;

        s->ops->remove_executor(s, &in->backend->executor);
        mutex_lock(&l->lock);
        while (in->n_checks > 0)
                cond_wait(&l->checked, &l->lock);
        mutex_unlock(&l->lock);
        instance_free(in);
}

static void update_free(struct model_update *u) {
        group_config_unref(u->config);
        free(u->instances);
        free(u);
}

void model_update_commit(struct model_update *u) {
        struct loaded_model     *l;
        struct loaded_instance **old, **removed;
        struct group_config     *old_groups;
        size_t                   n_removed;

        if (u == NULL)
                return;
        l = u->model;
        removed = list_removed(u, &n_removed);
        close_instances(l, removed, n_removed);
        mutex_lock(&l->lock);
        old = l->instances;
        old_groups = l->groups;
        l->instances = u->instances;
        l->n_instances = u->n_instances;
        l->groups = u->config;
        mutex_unlock(&l->lock);
        for (size_t i = 0; i < n_removed; i++)
                end_instance(l, removed[i]);
        free(removed);
        free(old);
        u->instances = NULL;
        u->config = old_groups;
        update_free(u);
}

void model_update_cancel(struct model_update *u) {
        if (u == NULL)
                return;
        if (u->n_instances > u->n_kept)
                close_instances(u->model, &u->instances[u->n_kept], u->n_instances - u->n_kept);
        for (size_t i = u->n_kept; i < u->n_instances; i++)
                end_instance(u->model, u->instances[i]);
        update_free(u);
}

struct error *model_print_config(struct model *model, uint32_t config_version, struct strbuf *to) {
        struct loaded_model *l = loaded_model_of(model);
        struct group_config *groups;
        struct error        *err;

        mutex_lock(&l->lock);
        groups = l->groups;
        if (groups != NULL)
                ref_get(&groups->ref);
        mutex_unlock(&l->lock);
        err = model_config_print_json(groups != NULL ? groups->shown : model->config,
                                      config_version, to);
        group_config_unref(groups);
        return err;
}
