/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/server_options.h"

#include "base/mem.h"

#include <string.h>

struct server_options *server_options_new(void) {
        struct server_options *o = mem_zalloc(sizeof(*o));

        *o = (struct server_options){
                .id = mem_strdup("triton"),
                .control_mode = MODEL_CONTROL_NONE,
                .strict_model_config = true,
                .model_config_name = mem_strdup(""),
                .model_load_threads = 4,
                .exit_on_error = true,
                .strict_readiness = true,
                .exit_timeout_s = 30,
                .pinned_pool_bytes = UINT64_C(256) << 20,
                .peer_access = true,
                .rate_limit_mode = RATE_LIMIT_OFF,
                .adaptive_batching = ADAPTIVE_UNSET,
                .backend_directory = mem_strdup("/opt/tritonserver/backends"),
                .repoagent_directory = mem_strdup("/opt/tritonserver/repoagents"),
                .scheduler = mem_strdup(""),
                .scheduler_directory = mem_strdup(""),
                .cache_directory = mem_strdup("/opt/tritonserver/caches"),
                .metrics = true,
                .gpu_metrics = true,
                .cpu_metrics = true,
                .metrics_interval_ms = 2000,
        };
        return o;
}

static void texts_done(struct option_texts *texts) {
        for (size_t i = 0; i < texts->n_items; i++)
                free(texts->items[i]);
        free(texts->items);
}

static void settings_done(struct option_settings *settings) {
        for (size_t i = 0; i < settings->n_items; i++) {
                free(settings->items[i].group);
                free(settings->items[i].name);
                free(settings->items[i].value);
        }
        free(settings->items);
}

void server_options_free(struct server_options *o) {
        if (!o)
                return;
        free(o->id);
        texts_done(&o->repository_paths);
        texts_done(&o->startup_models);
        free(o->model_config_name);
        free(o->cuda_pools);
        free(o->cuda_virtual_sizes);
        free(o->load_limits);
        settings_done(&o->host_policies);
        for (size_t i = 0; i < o->n_rate_limit_resources; i++)
                free(o->rate_limit_resources[i].name);
        free(o->rate_limit_resources);
        free(o->backend_directory);
        free(o->repoagent_directory);
        free(o->scheduler);
        free(o->scheduler_directory);
        free(o->cache_directory);
        settings_done(&o->backend_settings);
        for (size_t i = 0; i < o->n_caches; i++) {
                free(o->caches[i].name);
                free(o->caches[i].config_json);
        }
        free(o->caches);
        settings_done(&o->metrics_settings);
        free(o);
}

void server_options_set_text(char **owned, const char *text) {
        char *copy = mem_strdup(text);

        free(*owned);
        *owned = copy;
}

/* Makes room for one more item. The operator chooses the number of items, not peers, so growing by one
 * each time is cheap enough. */
static void *with_room(void *items, size_t n_items, size_t item_bytes) {
        return mem_realloc(items, (n_items + 1) * item_bytes);
}

void option_texts_add(struct option_texts *texts, const char *text) {
        texts->items = with_room(texts->items, texts->n_items, sizeof(*texts->items));
        texts->items[texts->n_items++] = mem_strdup(text);
}

void option_settings_add(struct option_settings *settings, const char *group, const char *name,
                         const char *value) {
        settings->items = with_room(settings->items, settings->n_items, sizeof(*settings->items));
        settings->items[settings->n_items++] = (struct option_setting){
                .group = mem_strdup(group),
                .name = mem_strdup(name),
                .value = mem_strdup(value),
        };
}

const char *option_settings_find(const struct option_settings *settings, const char *group,
                                 const char *name) {
        for (size_t i = settings->n_items; i-- > 0;) {
                const struct option_setting *item = &settings->items[i];

                if (strcmp(item->group, group) == 0 && strcmp(item->name, name) == 0)
                        return item->value;
        }
        return NULL;
}

static void set_device_bytes(struct device_bytes **items, size_t *n_items, int device,
                             uint64_t bytes) {
        for (size_t i = 0; i < *n_items; i++) {
                if ((*items)[i].device == device) {
                        (*items)[i].bytes = bytes;
                        return;
                }
        }
        *items = with_room(*items, *n_items, sizeof(**items));
        (*items)[(*n_items)++] = (struct device_bytes){ .device = device, .bytes = bytes };
}

void server_options_set_cuda_pool(struct server_options *o, int device, uint64_t bytes) {
        set_device_bytes(&o->cuda_pools, &o->n_cuda_pools, device, bytes);
}

void server_options_set_cuda_virtual_size(struct server_options *o, int device, uint64_t bytes) {
        set_device_bytes(&o->cuda_virtual_sizes, &o->n_cuda_virtual_sizes, device, bytes);
}

void server_options_set_load_limit(struct server_options *o, int device, double fraction) {
        for (size_t i = 0; i < o->n_load_limits; i++) {
                if (o->load_limits[i].device == device) {
                        o->load_limits[i].fraction = fraction;
                        return;
                }
        }
        o->load_limits = with_room(o->load_limits, o->n_load_limits, sizeof(*o->load_limits));
        o->load_limits[o->n_load_limits++] =
                (struct device_fraction){ .device = device, .fraction = fraction };
}

void server_options_set_cache(struct server_options *o, const char *name, const char *config_json) {
        for (size_t i = 0; i < o->n_caches; i++) {
                if (strcmp(o->caches[i].name, name) == 0) {
                        server_options_set_text(&o->caches[i].config_json, config_json);
                        return;
                }
        }
        o->caches = with_room(o->caches, o->n_caches, sizeof(*o->caches));
        o->caches[o->n_caches++] = (struct cache_setting){
                .name = mem_strdup(name),
                .config_json = mem_strdup(config_json),
        };
}

struct error *server_options_add_resource(struct server_options *o, const char *name, size_t count,
                                          int device) {
        for (size_t i = 0; i < o->n_rate_limit_resources; i++) {
                const struct rate_limit_resource *r = &o->rate_limit_resources[i];

                if (r->device == device && strcmp(r->name, name) == 0)
                        return error_new(ERR_ALREADY_EXISTS,
                                         "rate limit resource '%s' is given twice for device %d",
                                         name, device);
        }
        o->rate_limit_resources = with_room(o->rate_limit_resources, o->n_rate_limit_resources,
                                            sizeof(*o->rate_limit_resources));
        o->rate_limit_resources[o->n_rate_limit_resources++] = (struct rate_limit_resource){
                .name = mem_strdup(name), .count = count, .device = device
        };
        return NULL;
}
