/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/core_options.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "codec/json_writer.h"
#include "control/log_control.h"
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
                return error_new(ERR_INVALID_ARG, "invalid argument for --log_format, got: %s",
                                 o->log_format);
        TRY(log_control_apply(t, &log));
        if (*o->log_file == '\0')
                return NULL;
        CORE(TRITONSERVER_ServerOptionsSetLogFile(t, o->log_file));
        return log_set_file(o->log_file);
}

/* "<group>,<name>=<value>" or "<name>=<value>", split into its parts; owned by the caller. */
struct setting {
        char *group, *name, *value;
};

static void setting_done(struct setting *s) {
        free(s->group);
        free(s->name);
        free(s->value);
}

static struct error *read_setting(const char *option, const char *text, struct setting *ret) {
        struct str left;
        struct str value = str_split(str_of(text), '=', &left);
        struct str group;
        struct str name = str_split(left, ',', &group);

        if (name.ptr == NULL) {
                name = group;
                group = STR_LIT("");
        }
        if (value.ptr == NULL || name.len == 0)
                return error_new(ERR_INVALID_ARG,
                                 "Bad option: \"--%s\".\nexpects [<group>,]<setting>=<value>, "
                                 "got: %s",
                                 option, text);
        *ret = (struct setting){ .group = mem_strndup(group.ptr, group.len),
                                 .name = mem_strndup(name.ptr, name.len),
                                 .value = mem_strndup(value.ptr, value.len) };
        return NULL;
}

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

static struct error *set_settings(const struct cli_options          *o,
                                  struct TRITONSERVER_ServerOptions *t) {
        struct setting s;

        for (size_t i = 0; i < o->backend_config.n_items; i++) {
                TRY(read_setting("backend-config", o->backend_config.items[i], &s));
                TRITONSERVER_Error *err =
                        TRITONSERVER_ServerOptionsSetBackendConfig(t, s.group, s.name, s.value);

                setting_done(&s);
                CORE(err);
        }
        for (size_t i = 0; i < o->metrics_config.n_items; i++) {
                TRY(read_setting("metrics-config", o->metrics_config.items[i], &s));
                struct error       *refusal = check_metrics(&s);
                TRITONSERVER_Error *err =
                        TRITONSERVER_ServerOptionsSetMetricsConfig(t, s.group, s.name, s.value);

                setting_done(&s);
                CORE(err);
                if (refusal)
                        return refusal;
        }
        return NULL;
}

static struct error *set_host_policy(const char *text, struct TRITONSERVER_ServerOptions *t) {
        struct setting      s = { 0 };
        TRITONSERVER_Error *err = NULL;
        AUTO_ERROR          unread = read_setting("host-policy", text, &s);
        bool                is_whole = unread == NULL && *s.group != '\0' && *s.value != '\0';

        if (is_whole)
                err = TRITONSERVER_ServerOptionsSetHostPolicy(t, s.group, s.name, s.value);
        setting_done(&s);
        CORE(err);
        return is_whole ? NULL
                        : error_new(ERR_INVALID_ARG,
                                    "Bad option: \"--host-policy\".\nexpects "
                                    "<name>,<setting>=<value>, got: %s",
                                    text);
}

static struct error *set_host_policies(const struct cli_options          *o,
                                       struct TRITONSERVER_ServerOptions *t) {
        for (size_t i = 0; i < o->host_policy.n_items; i++)
                TRY(set_host_policy(o->host_policy.items[i], t));
        return NULL;
}

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
                                 "invalid argument for --model-control-mode, got: %s",
                                 o->model_control_mode);
        CORE(TRITONSERVER_ServerOptionsSetModelControlMode(t, modes[i].mode));
        if (o->load_model.n_items > 0 && modes[i].mode != TRITONSERVER_MODEL_CONTROL_EXPLICIT)
                return error_new_text(ERR_INVALID_ARG,
                                      "Error: Use of '--load-model' requires setting "
                                      "'--model-control-mode=explicit' as well.");
        for (size_t k = 0; k < o->load_model.n_items; k++)
                CORE(TRITONSERVER_ServerOptionsSetStartupModel(t, o->load_model.items[k]));
        CORE(TRITONSERVER_ServerOptionsSetModelLoadRetryCount(t, (unsigned)o->model_load_retries));
        return NULL;
}

static struct error *set_models(const struct cli_options *o, struct TRITONSERVER_ServerOptions *t) {
        AUTO_CHARS backends = plugin_directory(o->backend_directory, "backends");
        AUTO_CHARS agents = plugin_directory(o->repoagent_directory, "repoagents");

        for (size_t i = 0; i < o->model_repository.n_items; i++)
                CORE(TRITONSERVER_ServerOptionsSetModelRepositoryPath(
                        t, o->model_repository.items[i]));
        TRY(set_model_control(o, t));
        CORE(TRITONSERVER_ServerOptionsSetStrictModelConfig(t, o->disable_auto_complete ||
                                                                       o->strict_model_config));
        if (*o->model_config_name != '\0')
                CORE(TRITONSERVER_ServerOptionsSetModelConfigName(t, o->model_config_name));
        CORE(NESO_ServerOptionsSetAllowUploadedBackends(t, o->allow_uploaded_backends));
        CORE(NESO_ServerOptionsSetChainStrictUnload(t, o->chain_strict_unload));
        CORE(NESO_ServerOptionsSetStateMemory(t, (uint64_t)MAX(o->memory_budget_bytes, 0)));
        CORE(TRITONSERVER_ServerOptionsSetModelNamespacing(t, o->model_namespacing));
        CORE(TRITONSERVER_ServerOptionsSetModelLoadThreadCount(t, (unsigned)o->model_load_threads));
        CORE(TRITONSERVER_ServerOptionsSetBackendDirectory(t, backends));
        CORE(TRITONSERVER_ServerOptionsSetRepoAgentDirectory(t, agents));
        CORE(TRITONSERVER_ServerOptionsSetPinnedMemoryPoolByteSize(t,
                                                                   (uint64_t)o->pinned_pool_bytes));
        CORE(TRITONSERVER_ServerOptionsSetMinSupportedComputeCapability(t,
                                                                        o->min_compute_capability));
        return set_settings(o, t);
}

/* "<cache>,<setting>=<value>": the parts of one text. */
struct cache_setting {
        struct str cache, name, value;
};

static struct error *read_cache_setting(const char *text, struct cache_setting *ret) {
        struct str setting = str_split(str_of(text), ',', &ret->cache);

        if (setting.ptr == NULL || ret->cache.len == 0)
                return error_new(ERR_INVALID_ARG,
                                 "Error: No cache name specified. --cache-config option format is "
                                 "<cache name>,<setting>=<value>. Got %s",
                                 text);
        ret->value = str_split(setting, '=', &ret->name);
        if (ret->value.ptr == NULL || ret->name.len == 0)
                return error_new(ERR_INVALID_ARG,
                                 "Error: --cache-config option format is "
                                 "'<cache name>,<setting>=<value>'. Got %s",
                                 text);
        return NULL;
}

/* Prints the settings of one cache as JSON. When a name is given several times, the last value
 * counts. */
static void print_cache_config(const struct cache_setting *all, size_t n, struct str cache,
                               struct strbuf *out) {
        struct json_writer w;

        json_writer_init(&w, out);
        json_begin_object(&w);
        for (size_t i = 0; i < n; i++) {
                bool is_last = str_equal(all[i].cache, cache);

                for (size_t k = i + 1; k < n && is_last; k++)
                        is_last = !str_equal(all[k].cache, cache) ||
                                  !str_equal(all[k].name, all[i].name);
                if (!is_last)
                        continue;
                json_key_str(&w, all[i].name);
                json_put_str(&w, all[i].value);
        }
        json_end_object(&w);
}

static struct error *set_cache_config(const struct cache_setting *all, size_t n, struct str cache,
                                      struct TRITONSERVER_ServerOptions *t) {
        AUTO_STRBUF config = { 0 };
        AUTO_CHARS  name = mem_strndup(cache.ptr, cache.len);

        strbuf_init(&config, 0);
        print_cache_config(all, n, cache, &config);
        TRY(strbuf_check(&config, "the configuration of a cache"));
        return core_error_take(
                TRITONSERVER_ServerOptionsSetCacheConfig(t, name, strbuf_cstr(&config)));
}

static struct error *set_each_cache(const struct cli_options *o, struct cache_setting *all,
                                    struct TRITONSERVER_ServerOptions *t) {
        size_t n = o->cache_config.n_items;

        for (size_t i = 0; i < n; i++)
                TRY(read_cache_setting(o->cache_config.items[i], &all[i]));
        /* A cache with several settings is set several times, to the same value. */
        for (size_t i = 0; i < n; i++)
                TRY(set_cache_config(all, n, all[i].cache, t));
        return NULL;
}

static struct error *set_cache_configs(const struct cli_options          *o,
                                       struct TRITONSERVER_ServerOptions *t) {
        size_t                n = o->cache_config.n_items;
        struct cache_setting *all;
        struct error         *err;

        if (o->cache_bytes >= 0) {
                if (n > 0)
                        return error_new(ERR_INVALID_ARG,
                                         "Error: Incompatible flags --response-cache-byte-size and "
                                         "--cache-config both provided. Please provide one or the "
                                         "other.");
                return core_error_take(TRITONSERVER_ServerOptionsSetResponseCacheByteSize(
                        t, (uint64_t)o->cache_bytes));
        }
        all = mem_zalloc((n + 1) * sizeof(*all));
        err = set_each_cache(o, all, t);
        free(all);
        return err;
}

static struct error *set_cache(const struct cli_options *o, struct TRITONSERVER_ServerOptions *t) {
        AUTO_CHARS caches = plugin_directory(o->cache_directory, "caches");

        CORE(TRITONSERVER_ServerOptionsSetCacheDirectory(t, caches));
        return set_cache_configs(o, t);
}

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
                                 "Error: --rate-limit-resource option format is "
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

/* Options of GPUs stand in many command lines; on a machine without one they are not worth the
 * server. The values are read all the same: a mistake in one is reported. */
static struct error *check_gpu_option(const char *option, const struct cli_texts *texts,
                                      bool is_fraction) {
        for (size_t i = 0; i < texts->n_items; i++) {
                struct str device;
                struct str value = str_split(str_of(texts->items[i]), ':', &device);
                uint64_t   number;
                double     fraction;
                char      *end;
                bool       is_right = value.ptr != NULL && str_to_u64(device, &number) &&
                                number <= INT32_MAX;

                if (is_right && is_fraction) {
                        fraction = strtod(value.ptr, &end);
                        is_right = value.len > 0 && *end == '\0' && fraction >= 0 && fraction <= 1;
                } else if (is_right) {
                        is_right = str_to_u64(value, &number);
                }
                if (!is_right)
                        return error_new(ERR_INVALID_ARG,
                                         "Bad option: \"--%s\".\nexpects <device>:<%s>, got: %s",
                                         option, is_fraction ? "fraction of 0 to 1" : "bytes",
                                         texts->items[i]);
        }
        if (texts->n_items > 0)
                log_warn("--%s has no effect: this server has no GPUs", option);
        return NULL;
}

static struct error *check_gpu_options(const struct cli_options *o) {
        TRY(check_gpu_option("cuda-memory-pool-byte-size", &o->cuda_pool_bytes, false));
        TRY(check_gpu_option("cuda-virtual-address-size", &o->cuda_virtual_bytes, false));
        return check_gpu_option("model-load-gpu-limit", &o->model_load_gpu_limit, true);
}

static struct error *set_scheduler(const struct cli_options          *o,
                                   struct TRITONSERVER_ServerOptions *t) {
        AUTO_CHARS schedulers = plugin_directory(o->scheduler_directory, "schedulers");

        CORE(NESO_ServerOptionsSetScheduler(t, o->scheduler));
        CORE(NESO_ServerOptionsSetSchedulerDirectory(t, schedulers));
        return NULL;
}

static struct error *set_all(const struct cli_options *o, struct TRITONSERVER_ServerOptions *t) {
        TRY(set_log(o, t));
        CORE(TRITONSERVER_ServerOptionsSetServerId(t, o->id));
        CORE(TRITONSERVER_ServerOptionsSetExitTimeout(t, (unsigned)o->exit_timeout_secs));
        CORE(TRITONSERVER_ServerOptionsSetExitOnError(t, o->exit_on_error));
        CORE(TRITONSERVER_ServerOptionsSetStrictReadiness(t, o->strict_readiness));
        CORE(TRITONSERVER_ServerOptionsSetMetrics(t, o->allow_metrics));
        CORE(TRITONSERVER_ServerOptionsSetCpuMetrics(t, o->allow_cpu_metrics));
        CORE(TRITONSERVER_ServerOptionsSetMetricsInterval(t, (uint64_t)o->metrics_interval_ms));
        TRY(set_models(o, t));
        TRY(set_host_policies(o, t));
        TRY(set_rate_limits(o, t));
        TRY(check_gpu_options(o));
        CORE(NESO_ServerOptionsSetAdaptiveBatching(t, o->adaptive_batching));
        TRY(set_scheduler(o, t));
        return set_cache(o, t);
}

struct error *core_options_make(const struct cli_options           *o,
                                struct TRITONSERVER_ServerOptions **ret) {
        struct TRITONSERVER_ServerOptions *t;
        struct error                      *err;

        CORE(TRITONSERVER_ServerOptionsNew(&t));
        err = set_all(o, t);
        if (err != NULL) {
                TRITONSERVER_ServerOptionsDelete(t);
                return err;
        }
        *ret = t;
        return NULL;
}
