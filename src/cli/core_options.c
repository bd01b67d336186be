/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/core_options.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/settings.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "call/log_control.h"
#include "codec/json_writer.h"
#include "core_api/core_error.h"
#include "triton/core/neso.h"
#include "triton/core/tritonserver.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define CORE(call) TRY(core_error_take(call))

#define EACH_DEVICE (-1)

static struct error *read_log_verbose(const char *text, unsigned *ret) {
        uint64_t level;

        if (str_equal_nocase(str_of(text), STR_LIT("true")))
                level = 1;
        else if (str_equal_nocase(str_of(text), STR_LIT("false")))
                level = 0;
        else if (!str_to_u64(str_of(text), &level) || level > 1000)
                return error_new(ERR_INVALID_ARG,
                                 "Bad option: \"--log-verbose\".\nexpects a level of 0 to 1000, "
                                 "true or false, got: %s",
                                 text);
        *ret = (unsigned)level;
        return NULL;
}

/* The core writes the log. This link unit keeps the same settings, to report them to clients. */
static struct error *set_log(const struct cli_options *o, struct TRITONSERVER_ServerOptions *t) {
        struct log_settings log = { .info = o->log_info,
                                    .warning = o->log_warning,
                                    .error = o->log_error };

        TRY(read_log_verbose(o->log_verbose, &log.verbose_level));
        if (!log_control_find_format(str_of(o->log_format), &log.format))
                return error_new(ERR_INVALID_ARG,
                                 "invalid argument for --log-format, expects default, ISO8601 or "
                                 "json, got: %s",
                                 o->log_format);
        TRY(log_control_apply(t, &log));
        if (*o->log_file == '\0')
                return NULL;
        CORE(TRITONSERVER_ServerOptionsSetLogFile(t, o->log_file));
        return log_set_file(o->log_file);
}

/* ---- settings of groups ---------------------------------------------------------------------- */

static bool is_one_of(const char *text, const char *a, const char *b) {
        return strcmp(text, a) == 0 || strcmp(text, b) == 0;
}

/* The reference server ignores unknown settings; here, a typing error is reported. */
static struct error *check_metrics(const struct setting *s) {
        bool is_off = is_one_of(s->value, "false", "0");

        if (strcmp(s->name, "summary_quantiles") == 0 ||
            (strcmp(s->name, "summary_latencies") == 0 && !is_off))
                return error_new(ERR_UNSUPPORTED,
                                 "--metrics-config: summaries are not supported; the "
                                 "neso_*_duration_seconds histograms are always on");
        if (strcmp(s->name, "summary_latencies") == 0)
                return NULL;
        if (!is_one_of(s->name, "counter_latencies", "histogram_latencies"))
                return error_new(ERR_INVALID_ARG,
                                 "--metrics-config: expects counter_latencies or "
                                 "histogram_latencies, got: %s",
                                 s->name);
        if (!is_off && !is_one_of(s->value, "true", "1"))
                return error_new(ERR_INVALID_ARG,
                                 "--metrics-config: expects true or false, got: %s=%s", s->name,
                                 s->value);
        return NULL;
}

/* An option of the form "[<group>,]<name>=<value>", and the function that takes the three. */
struct setting_option {
        const char *name;
        const char *form;
        bool        needs_all;                           /* a group and a value, too */
        struct error *(*check)(const struct setting *s); /* NULL: none */
        struct TRITONSERVER_Error *(*set)(struct TRITONSERVER_ServerOptions *t, const char *group,
                                          const char *name, const char *value);
};

static const struct setting_option backend_config = {
        .name = "backend-config",
        .form = "[<group>,]<setting>=<value>",
        .set = TRITONSERVER_ServerOptionsSetBackendConfig,
};

static const struct setting_option metrics_config = {
        .name = "metrics-config",
        .form = "[<group>,]<setting>=<value>",
        .check = check_metrics,
        .set = TRITONSERVER_ServerOptionsSetMetricsConfig,
};

static const struct setting_option host_policy = {
        .name = "host-policy",
        .form = "<name>,<setting>=<value>",
        .needs_all = true,
        .set = TRITONSERVER_ServerOptionsSetHostPolicy,
};

static struct error *read_setting(const struct setting_option *option, const char *text,
                                  struct settings *ret) {
        const struct setting *s;

        if (settings_read(ret, text)) {
                s = &ret->items[ret->n_items - 1];
                if (!option->needs_all || (*s->group != '\0' && *s->value != '\0'))
                        return option->check != NULL ? option->check(s) : NULL;
        }
        return error_new(ERR_INVALID_ARG, "Bad option: \"--%s\".\nexpects %s, got: %s",
                         option->name, option->form, text);
}

static struct error *set_settings(const struct setting_option       *option,
                                  const struct option_texts         *texts,
                                  struct TRITONSERVER_ServerOptions *t) {
        struct settings read = { 0 };
        struct error   *err = NULL;

        for (size_t i = 0; i < texts->n_items && err == NULL; i++) {
                err = read_setting(option, texts->items[i], &read);
                if (err == NULL)
                        err = core_error_take(option->set(t, read.items[i].group,
                                                          read.items[i].name, read.items[i].value));
        }
        settings_done(&read);
        return err;
}

/* ---- the response cache ---------------------------------------------------------------------- */

/* "<cache>,<setting>=<value>" */
static struct error *read_cache_setting(const char *text, struct settings *ret) {
        struct str cache;
        bool       has_cache = str_split(str_of(text), ',', &cache).ptr != NULL && cache.len > 0;

        if (settings_read(ret, text) && *ret->items[ret->n_items - 1].group != '\0')
                return NULL;
        if (!has_cache)
                return error_new(ERR_INVALID_ARG,
                                 "No cache name specified. --cache-config option format is "
                                 "<cache name>,<setting>=<value>. Got %s",
                                 text);
        return error_new(ERR_INVALID_ARG,
                         "--cache-config option format is "
                         "'<cache name>,<setting>=<value>'. Got %s",
                         text);
}

/* Prints the settings of one cache as JSON. When a name is given several times, the last value
 * counts. */
static void print_cache_config(const struct settings *all, const char *cache, struct strbuf *out) {
        struct json_writer w = { .out = out };

        json_begin_object(&w);
        for (size_t i = 0; i < all->n_items; i++) {
                const struct setting *s = &all->items[i];

                if (strcmp(s->group, cache) != 0 || settings_find(all, cache, s->name) != s->value)
                        continue;
                json_member_string(&w, s->name, s->value);
        }
        json_end_object(&w);
}

/* A cache with several settings is set several times, to the same value. */
static struct error *set_each_cache(const struct option_texts *texts, struct settings *all,
                                    struct TRITONSERVER_ServerOptions *t) {
        for (size_t i = 0; i < texts->n_items; i++)
                TRY(read_cache_setting(texts->items[i], all));
        for (size_t i = 0; i < all->n_items; i++) {
                AUTO_STRBUF config = { 0 };

                print_cache_config(all, all->items[i].group, &config);
                TRY(strbuf_check(&config, "the configuration of a cache"));
                CORE(TRITONSERVER_ServerOptionsSetCacheConfig(t, all->items[i].group,
                                                              strbuf_cstr(&config)));
        }
        return NULL;
}

static struct error *set_cache(const struct cli_options *o, struct TRITONSERVER_ServerOptions *t) {
        struct settings all = { 0 };
        struct error   *err;

        if (o->cache_bytes >= 0) {
                if (o->cache_config.n_items > 0)
                        return error_new(ERR_INVALID_ARG,
                                         "Incompatible flags --response-cache-byte-size and "
                                         "--cache-config both provided. Please provide one or the "
                                         "other.");
                return core_error_take(TRITONSERVER_ServerOptionsSetResponseCacheByteSize(
                        t, (uint64_t)o->cache_bytes));
        }
        err = set_each_cache(&o->cache_config, &all, t);
        settings_done(&all);
        return err;
}

/* ---- models and plug-ins ---------------------------------------------------------------------- */

/* Returns the option's directory. Without one, a directory next to the library:
 * <prefix>/lib/neso/<what> when installed, <build>/<what> in a build. */
static char *plugin_directory(const char *option, const char *what) {
        Dl_info    place;
        AUTO_CHARS directory = NULL;
        AUTO_CHARS below = mem_printf("neso/%s", what);
        char      *installed;

        if (*option != '\0')
                return mem_strdup(option);
        if (dladdr((void *)(uintptr_t)TRITONSERVER_ServerNew, &place) == 0)
                return path_join("/opt/tritonserver", what);
        directory = path_dirname(place.dli_fname);
        installed = path_join(directory, below);
        if (file_exists(installed))
                return installed;
        free(installed);
        return path_join(directory, what);
}

/* Sets which models are loaded at the start, and how they change later. */
static struct error *set_model_control(const struct cli_options          *o,
                                       struct TRITONSERVER_ServerOptions *t) {
        static const struct {
                const char                   *name;
                TRITONSERVER_ModelControlMode mode;
        } modes[] = {
                { "none", TRITONSERVER_MODEL_CONTROL_NONE },
                { "poll", TRITONSERVER_MODEL_CONTROL_POLL },
                { "explicit", TRITONSERVER_MODEL_CONTROL_EXPLICIT },
        };
        size_t i = 0;

        while (i < ARRAY_LEN(modes) && strcasecmp(o->model_control_mode, modes[i].name) != 0)
                i++;
        if (i == ARRAY_LEN(modes))
                return error_new(ERR_INVALID_ARG,
                                 "invalid argument for --model-control-mode, expects none, poll or "
                                 "explicit, got: %s",
                                 o->model_control_mode);
        CORE(TRITONSERVER_ServerOptionsSetModelControlMode(t, modes[i].mode));
        if (o->load_model.n_items > 0 && modes[i].mode != TRITONSERVER_MODEL_CONTROL_EXPLICIT)
                return error_new_text(ERR_INVALID_ARG, "Use of '--load-model' requires setting "
                                                       "'--model-control-mode=explicit' as well.");
        return NULL;
}

static struct error *set_directories(const struct cli_options          *o,
                                     struct TRITONSERVER_ServerOptions *t) {
        AUTO_CHARS backends = plugin_directory(o->backend_directory, "backends");
        AUTO_CHARS agents = plugin_directory(o->repoagent_directory, "repoagents");
        AUTO_CHARS caches = plugin_directory(o->cache_directory, "caches");
        AUTO_CHARS schedulers = plugin_directory(o->scheduler_directory, "schedulers");

        CORE(TRITONSERVER_ServerOptionsSetBackendDirectory(t, backends));
        CORE(TRITONSERVER_ServerOptionsSetRepoAgentDirectory(t, agents));
        CORE(TRITONSERVER_ServerOptionsSetCacheDirectory(t, caches));
        CORE(NESO_ServerOptionsSetByName(t, "scheduler-directory", schedulers));
        return NULL;
}

/* ---- rate limits, GPUs ----------------------------------------------------------------------- */

/* "<name>:<count>[:<device>]" */
static struct error *add_resource(const char *text, struct TRITONSERVER_ServerOptions *t) {
        struct str name, count, device = { 0 };
        struct str numbers = str_split(str_of(text), ':', &name);
        uint64_t   n = 0, number = 0;
        bool       is_right = name.len > 0 && numbers.ptr != NULL;

        if (is_right) {
                device = str_split(numbers, ':', &count);
                is_right = str_to_u64(count, &n) && n <= SIZE_MAX;
        }
        if (device.ptr != NULL)
                is_right = is_right && str_to_u64(device, &number) && number <= INT32_MAX;
        if (!is_right)
                return error_new(ERR_INVALID_ARG,
                                 "--rate-limit-resource option format is "
                                 "'<resource_name>:<count>:<device>' or '<resource_name>:<count>'. "
                                 "Got %s",
                                 text);

        AUTO_CHARS copy = mem_strndup(name.ptr, name.len);

        return core_error_take(TRITONSERVER_ServerOptionsAddRateLimiterResource(
                t, copy, (size_t)n, device.ptr != NULL ? (int)number : EACH_DEVICE));
}

static struct error *set_rate_limits(const struct cli_options          *o,
                                     struct TRITONSERVER_ServerOptions *t) {
        TRITONSERVER_RateLimitMode mode = TRITONSERVER_RATE_LIMIT_OFF;

        if (strcasecmp(o->rate_limit, "execution_count") == 0)
                mode = TRITONSERVER_RATE_LIMIT_EXEC_COUNT;
        else if (strcasecmp(o->rate_limit, "off") != 0)
                return error_new(ERR_INVALID_ARG,
                                 "invalid argument for --rate-limit, expects execution_count or "
                                 "off, got: %s",
                                 o->rate_limit);
        TRY(core_error_take(TRITONSERVER_ServerOptionsSetRateLimiterMode(t, mode)));
        for (size_t i = 0; i < o->rate_limit_resource.n_items; i++)
                TRY(add_resource(o->rate_limit_resource.items[i], t));
        return NULL;
}

static struct error *bad_gpu_option(const char *option, const char *expected, const char *text) {
        return error_new(ERR_INVALID_ARG, "Bad option: \"--%s\".\nexpects <device>:<%s>, got: %s",
                         option, expected, text);
}

/* "<device>:<value>" */
static bool split_device(const char *text, int *ret_device, struct str *ret_value) {
        struct str device;
        uint64_t   number;

        *ret_value = str_split(str_of(text), ':', &device);
        if (ret_value->ptr == NULL || !str_to_u64(device, &number) || number > INT32_MAX)
                return false;
        *ret_device = (int)number;
        return true;
}

typedef struct TRITONSERVER_Error *(*set_bytes_fn)(struct TRITONSERVER_ServerOptions *options,
                                                   int device, size_t bytes);

static struct error *set_gpu_bytes(const char *option, const struct option_texts *texts,
                                   set_bytes_fn set, struct TRITONSERVER_ServerOptions *t) {
        for (size_t i = 0; i < texts->n_items; i++) {
                struct str value;
                uint64_t   bytes;
                int        device;

                if (!split_device(texts->items[i], &device, &value) || !str_to_u64(value, &bytes) ||
                    bytes > SIZE_MAX)
                        return bad_gpu_option(option, "bytes", texts->items[i]);
                CORE(set(t, device, (size_t)bytes));
        }
        return NULL;
}

static struct error *set_load_limits(const struct option_texts         *texts,
                                     struct TRITONSERVER_ServerOptions *t) {
        for (size_t i = 0; i < texts->n_items; i++) {
                struct str value;
                double     fraction = -1;
                char      *end = NULL;
                int        device = 0;

                if (split_device(texts->items[i], &device, &value) && value.len > 0)
                        fraction = strtod(value.ptr, &end);
                if (end == NULL || *end != '\0' || !(fraction >= 0 && fraction <= 1))
                        return bad_gpu_option("model-load-gpu-limit", "fraction of 0 to 1",
                                              texts->items[i]);
                CORE(TRITONSERVER_ServerOptionsSetModelLoadDeviceLimit(
                        t, TRITONSERVER_INSTANCEGROUPKIND_GPU, device, fraction));
        }
        return NULL;
}

static struct error *set_gpu_options(const struct cli_options          *o,
                                     struct TRITONSERVER_ServerOptions *t) {
        TRY(set_gpu_bytes("cuda-memory-pool-byte-size", &o->cuda_pool_bytes,
                          TRITONSERVER_ServerOptionsSetCudaMemoryPoolByteSize, t));
        TRY(set_gpu_bytes("cuda-virtual-address-size", &o->cuda_virtual_bytes,
                          TRITONSERVER_ServerOptionsSetCudaVirtualAddressSize, t));
        return set_load_limits(&o->model_load_gpu_limit, t);
}

/* ---- all ------------------------------------------------------------------------------------- */

/* Passes on the options that the library has by the same name. Their defaults are the same there. */
static struct error *set_options_by_name(const struct cli_options          *o,
                                         struct TRITONSERVER_ServerOptions *t) {
        for (size_t i = 0; i < cli_option_table.n_rows; i++) {
                const struct option_row *row = &cli_option_table.rows[i];

                if (!row->is_core || !option_is_changed(row, o))
                        continue;
                for (size_t k = 0; k < option_n_values(row, o); k++) {
                        AUTO_STRBUF value = { 0 };

                        option_put_value(row, o, k, &value);
                        CORE(NESO_ServerOptionsSetByName(t, row->name, strbuf_cstr(&value)));
                }
        }
        return NULL;
}

static struct error *set_options(const struct cli_options          *o,
                                 struct TRITONSERVER_ServerOptions *t) {
        TRY(set_log(o, t));
        TRY(set_options_by_name(o, t));
        TRY(set_model_control(o, t));
        CORE(TRITONSERVER_ServerOptionsSetStrictModelConfig(t, o->disable_auto_complete ||
                                                                       o->strict_model_config));
        TRY(set_directories(o, t));
        TRY(set_settings(&backend_config, &o->backend_config, t));
        TRY(set_settings(&metrics_config, &o->metrics_config, t));
        TRY(set_settings(&host_policy, &o->host_policy, t));
        TRY(set_rate_limits(o, t));
        TRY(set_gpu_options(o, t));
        return set_cache(o, t);
}

struct error *core_options_make(const struct cli_options           *o,
                                struct TRITONSERVER_ServerOptions **ret) {
        struct TRITONSERVER_ServerOptions *t;

        CORE(TRITONSERVER_ServerOptionsNew(&t));
        TRY_OR(set_options(o, t), TRITONSERVER_ServerOptionsDelete(t));
        *ret = t;
        return NULL;
}
