/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched_plugin/plugin_counters.h"

#include "base/mem.h"
#include "infer/model.h"
#include "observe/metric.h"

#include <math.h>
#include <string.h>

static const char *help_of(const char *name) {
        if (strcmp(name, PLUGIN_COUNTER_ERROR) == 0)
                return "Calls of a scheduler plug-in that were refused";
        if (strcmp(name, PLUGIN_COUNTER_STALL) == 0)
                return "Scheduler plug-ins that were given up because they left requests waiting";
        return "Counted by a scheduler plug-in";
}

static struct error *open_counter(struct plugin_counters *c, struct plugin_counter *item) {
        AUTO_CHARS family = mem_printf("neso_scheduler_%s", item->name);
        AUTO_CHARS version = mem_printf("%lld", (long long)c->model->version);
        const char *namespace = c->model->namespace;
        struct metric_label labels[] = { { "model", c->model->name },
                                         { "version", version },
                                         { "namespace", namespace } };
        bool                has_namespace = namespace != NULL && *namespace != '\0';
        struct error       *err;

        TRY(metric_family_open(c->registry, METRIC_COUNTER, family, help_of(item->name),
                               &item->family));
        err = metric_new(item->family, labels, has_namespace ? 3 : 2, NULL, 0, &item->metric);
        if (err != NULL)
                error_free(metric_family_close(item->family));
        return err;
}

static bool is_name(const char *name) {
        size_t len = name != NULL ? strnlen(name, PLUGIN_MAX_COUNTER_NAME + 1) : 0;

        return len > 0 && len <= PLUGIN_MAX_COUNTER_NAME &&
               strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == len;
}

/* Finds or creates the counter; NULL when that fails. */
static struct plugin_counter *find_counter(struct plugin_counters *c, const char *name) {
        struct plugin_counter *item;
        AUTO_ERROR             err = NULL;

        for (size_t i = 0; i < c->n_items; i++)
                if (strcmp(c->items[i].name, name) == 0)
                        return &c->items[i];
        if (c->n_items >= PLUGIN_MAX_COUNTERS)
                return NULL;
        item = &c->items[c->n_items];
        memcpy(item->name, name, strlen(name) + 1);
        err = open_counter(c, item);
        if (err != NULL)
                return NULL;
        c->n_items++;
        return item;
}

void plugin_counters_init(struct plugin_counters *c, struct metric_registry *registry,
                          const struct model *model) {
        *c = (struct plugin_counters){ .registry = registry, .model = model };
        plugin_counters_add(c, PLUGIN_COUNTER_ERROR, 0);
        plugin_counters_add(c, PLUGIN_COUNTER_STALL, 0);
}

void plugin_counters_done(struct plugin_counters *c) {
        for (size_t i = 0; i < c->n_items; i++) {
                metric_free(c->items[i].metric);
                error_free(metric_family_close(c->items[i].family));
        }
        c->n_items = 0;
}

bool plugin_counters_add(struct plugin_counters *c, const char *name, double amount) {
        struct plugin_counter *item;

        if (!is_name(name) || !isfinite(amount) || amount < 0)
                return false;
        if (c->registry == NULL)
                return true;
        item = find_counter(c, name);
        if (item != NULL)
                error_free(metric_increment(item->metric, amount));
        return item != NULL;
}
