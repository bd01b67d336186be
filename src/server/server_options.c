/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/server_options.h"

#include "base/mem.h"
#include "sched/sched_options.h"

#include <string.h>

#define OPTION(...)
#define CORE_OPTION(row_kind, member, row_name, row_initial, ...)                                  \
        { .kind = OPTION_##row_kind,                                                               \
          .offset = offsetof(struct server_options, member),                                       \
          .name = row_name,                                                                        \
          .initial = row_initial,                                                                  \
          __VA_ARGS__ },

static const struct option_row rows[] = {
#include "options/option_rows.def"
};

static const struct option_table table = { rows, ARRAY_LEN(rows) };

struct server_options *server_options_new(void) {
        struct server_options *o = mem_alloc(sizeof(*o));

        option_table_init(&table, o, sizeof(*o));
        o->strict_model_config = true;
        o->backend_directory = mem_strdup("/opt/tritonserver/backends");
        o->repoagent_directory = mem_strdup("/opt/tritonserver/repoagents");
        o->cache_directory = mem_strdup("/opt/tritonserver/caches");
        return o;
}

void server_options_free(struct server_options *o) {
        if (o == NULL)
                return;
        option_table_done(&table, o);
        free(o->cuda_pools);
        free(o->cuda_virtual_sizes);
        free(o->load_limits);
        settings_done(&o->host_policies);
        for (size_t i = 0; i < o->n_rate_limit_resources; i++)
                free(o->rate_limit_resources[i].name);
        free(o->rate_limit_resources);
        free(o->backend_directory);
        free(o->repoagent_directory);
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

/* ---- options by name ------------------------------------------------------------------------ */

static bool read_adaptive_mode(const char *text, enum adaptive_mode *ret) {
        *ret = ADAPTIVE_UNSET;
        return *text == '\0' || adaptive_mode_read(text, ret);
}

static struct error *check_adaptive_batching(const char *text) {
        enum adaptive_mode mode;

        if (read_adaptive_mode(text, &mode))
                return NULL;
        return error_new(ERR_INVALID_ARG,
                         "adaptive batching must be 'off', 'idle' or 'flow', got '%s'", text);
}

static struct error *check_scheduler(const char *text) {
        if (*text == '\0' || scheduler_name_is_valid(text))
                return NULL;
        return error_new(ERR_INVALID_ARG,
                         "the scheduler must be 'default', 'baseline', 'triton' or the name of a "
                         "scheduler library, got '%.100s'",
                         text);
}

/* Texts that only the library can check. */
static const struct {
        const char *name;
        struct error *(*check)(const char *text);
} checks[] = {
        { "adaptive-batching", check_adaptive_batching },
        { "scheduler", check_scheduler },
};

struct error *server_options_set(struct server_options *o, const char *name, const char *text) {
        const struct option_row *row = option_table_find(&table, str_of(name));

        if (row == NULL)
                return error_suggest(error_new(ERR_INVALID_ARG,
                                               "the server library has no option '%.100s'", name),
                                     "", option_table_suggest(&table, str_of(name)));
        for (size_t i = 0; i < ARRAY_LEN(checks); i++)
                if (strcmp(checks[i].name, row->name) == 0)
                        TRY(checks[i].check(text));
        return option_set(row, o, text);
}

enum adaptive_mode server_options_adaptive_mode(const struct server_options *o) {
        enum adaptive_mode mode;

        read_adaptive_mode(o->adaptive_batching, &mode);
        return mode;
}

/* ---- the others ----------------------------------------------------------------------------- */

/* Makes room for one more item. The operator chooses the number of items, not peers, so growing by one
 * each time is cheap enough. */
static void *with_room(void *items, size_t n_items, size_t item_bytes) {
        return mem_realloc(items, (n_items + 1) * item_bytes);
}

static void set_device_bytes(struct gpu_bytes **items, size_t *n_items, int device,
                             uint64_t bytes) {
        for (size_t i = 0; i < *n_items; i++) {
                if ((*items)[i].device == device) {
                        (*items)[i].bytes = bytes;
                        return;
                }
        }
        *items = with_room(*items, *n_items, sizeof(**items));
        (*items)[(*n_items)++] = (struct gpu_bytes){ .device = device, .bytes = bytes };
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
                (struct gpu_fraction){ .device = device, .fraction = fraction };
}

void server_options_set_cache(struct server_options *o, const char *name, const char *config_json) {
        for (size_t i = 0; i < o->n_caches; i++) {
                if (strcmp(o->caches[i].name, name) == 0) {
                        option_text_set(&o->caches[i].config_json, config_json);
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
