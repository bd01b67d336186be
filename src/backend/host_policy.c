/* SPDX-License-Identifier: BSD-3-Clause */
#include "backend/host_policy.h"

#include "base/mem.h"
#include "codec/json_writer.h"

#include <string.h>

enum policy_setting { SETTING_NODE, SETTING_CORES, N_SETTINGS };

static const char *const setting_names[N_SETTINGS] = { "numa-node", "cpu-cores" };

struct host_policy {
        char            *name;               /* owned */
        char            *values[N_SETTINGS]; /* owned; NULL = not given */
        struct placement place;
};

struct host_policies {
        struct host_policy *items; /* owned */
        size_t              n_items;
        struct placement    anywhere;
};

static size_t find_setting(const char *name) {
        size_t i = 0;

        while (i < N_SETTINGS && strcmp(setting_names[i], name) != 0)
                i++;
        return i;
}

struct error *host_policy_check_setting(const char *name) {
        if (find_setting(name) < N_SETTINGS)
                return NULL;
        return error_new(ERR_UNSUPPORTED,
                         "Unsupported host policy setting '%s' is specified, supported settings "
                         "are 'numa-node', 'cpu-cores'",
                         name);
}

static struct host_policy *find_policy(const struct host_policies *policies, const char *name) {
        if (policies != NULL)
                for (size_t i = 0; i < policies->n_items; i++)
                        if (strcmp(policies->items[i].name, name) == 0)
                                return &policies->items[i];
        return NULL;
}

static struct host_policy *add_policy(struct host_policies *policies, const char *name) {
        struct host_policy *policy;

        policies->items =
                mem_realloc(policies->items, (policies->n_items + 1) * sizeof(*policies->items));
        policy = &policies->items[policies->n_items++];
        *policy = (struct host_policy){ .name = mem_strdup(name) };
        return policy;
}

static struct error *take_setting(struct host_policies *policies, const struct setting *setting) {
        struct host_policy *policy = find_policy(policies, setting->group);
        size_t              at = find_setting(setting->name);

        TRY(host_policy_check_setting(setting->name));
        if (policy == NULL)
                policy = add_policy(policies, setting->group);
        free(policy->values[at]);
        policy->values[at] = mem_strdup(setting->value);
        return NULL;
}

static void run_nothing(void *arg) {
        (void)arg;
}

/* The cores are set last: they replace those of the node. */
static struct error *settle_policy(struct host_policy *policy, const char *nodes_directory) {
        const char *node = policy->values[SETTING_NODE];
        const char *cores = policy->values[SETTING_CORES];

        if (node != NULL)
                TRY(error_wrap(placement_read_node(&policy->place, node, nodes_directory),
                               "numa-node=%s", node));
        if (cores != NULL)
                TRY(error_wrap(placement_read_cores(&policy->place, cores), "cpu-cores=%s", cores));
        return placement_run(&policy->place, "neso-policy", run_nothing, NULL);
}

static struct error *settle(struct host_policies *policies, const char *nodes_directory) {
        bool has_memory = false;

        for (size_t i = 0; i < policies->n_items; i++) {
                struct host_policy *policy = &policies->items[i];

                TRY(error_wrap(settle_policy(policy, nodes_directory), "host policy '%s'",
                               policy->name));
                has_memory = has_memory || policy->place.has_memory;
        }
        return placement_get(&policies->anywhere, has_memory);
}

struct error *host_policies_new(const struct host_policies_options *o, struct host_policies **ret) {
        struct host_policies *policies;
        const char           *nodes = o->nodes_directory;

        *ret = NULL;
        if (o->n_settings == 0)
                return NULL;
        policies = mem_zalloc(sizeof(*policies));
        for (size_t i = 0; i < o->n_settings; i++)
                TRY_OR(take_setting(policies, &o->settings[i]), host_policies_free(policies));
        TRY_OR(settle(policies, nodes != NULL ? nodes : PLACEMENT_NODES_DIRECTORY),
               host_policies_free(policies));
        *ret = policies;
        return NULL;
}

void host_policies_free(struct host_policies *policies) {
        if (policies == NULL)
                return;
        for (size_t i = 0; i < policies->n_items; i++) {
                free(policies->items[i].name);
                for (size_t k = 0; k < N_SETTINGS; k++)
                        free(policies->items[i].values[k]);
        }
        free(policies->items);
        free(policies);
}

bool host_policies_has(const struct host_policies *policies, const char *name) {
        return find_policy(policies, name) != NULL;
}

const struct placement *host_policies_anywhere(const struct host_policies *policies) {
        return policies != NULL ? &policies->anywhere : NULL;
}

const struct placement *host_policies_place(const struct host_policies *policies,
                                            const char                 *name) {
        const struct host_policy *policy = find_policy(policies, name);

        return policy != NULL ? &policy->place : host_policies_anywhere(policies);
}

void host_policies_print(const struct host_policies *policies, const char *name,
                         struct strbuf *to) {
        const struct host_policy *policy = find_policy(policies, name);
        struct json_writer        w = { .out = to };

        json_begin_object(&w);
        json_member_object(&w, name);
        for (size_t i = 0; i < N_SETTINGS && policy != NULL; i++) {
                if (policy->values[i] == NULL)
                        continue;
                json_member_string(&w, setting_names[i], policy->values[i]);
        }
        json_end_object(&w);
        json_end_object(&w);
}

char *host_policy_name(const Inference__ModelInstanceGroup *group, int32_t device_id) {
        if (config_text_is_set(group->host_policy))
                return mem_strdup(group->host_policy);
        switch (group->kind) {
        case INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_GPU:
                return mem_printf("gpu_%d", (int)device_id);
        case INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_MODEL: return mem_strdup("model");
        default: return mem_strdup("cpu");
        }
}
