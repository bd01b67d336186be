/* SPDX-License-Identifier: BSD-3-Clause */
/* The C API of TRITONSERVER_ServerOptions. */
#include "api/api_types.h"
#include "backend/host_policy.h"
#include "base/mem.h"
#include "codec/json_reader.h"
#include "server/server_options.h"
#include "triton/core/neso.h"

#include <math.h>

DEFINE_API_TYPE(TRITONSERVER_ServerOptions, server_options)

#define OPTIONS(argument) server_options_from_api(argument)

_Static_assert((int)MODEL_CONTROL_POLL == (int)TRITONSERVER_MODEL_CONTROL_POLL, "modes differ");
_Static_assert((int)MODEL_CONTROL_EXPLICIT == (int)TRITONSERVER_MODEL_CONTROL_EXPLICIT,
               "modes differ");
_Static_assert((int)RATE_LIMIT_EXEC_COUNT == (int)TRITONSERVER_RATE_LIMIT_EXEC_COUNT,
               "modes differ");

struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsNew(
        struct TRITONSERVER_ServerOptions **options) {
        API_NEEDS(options);
        *options = server_options_to_api(server_options_new());
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsDelete(
        struct TRITONSERVER_ServerOptions *options) {
        server_options_free(OPTIONS(options));
        return NULL;
}

/* ---- by name -------------------------------------------------------------------------------- */

struct TRITONSERVER_Error *NESO_ServerOptionsSetByName(struct TRITONSERVER_ServerOptions *options,
                                                       const char *option_name, const char *value) {
        API_NEEDS(options, option_name, value);
        return error_to_api(server_options_set(OPTIONS(options), option_name, value));
}

/* ---- scalar values ------------------------------------------------------------------------- */

#define SCALAR_OPTION(function, type, field)                                                       \
        API_SETTER(function, struct TRITONSERVER_ServerOptions, options, type, value,              \
                   OPTIONS(options)->field)

SCALAR_OPTION(TRITONSERVER_ServerOptionsSetStrictModelConfig, bool, strict_model_config)
SCALAR_OPTION(TRITONSERVER_ServerOptionsSetPinnedMemoryPoolByteSize, uint64_t, pinned_pool_bytes)
SCALAR_OPTION(TRITONSERVER_ServerOptionsSetMinSupportedComputeCapability, double,
              min_compute_capability)
SCALAR_OPTION(TRITONSERVER_ServerOptionsSetExitOnError, bool, exit_on_error)
SCALAR_OPTION(TRITONSERVER_ServerOptionsSetStrictReadiness, bool, strict_readiness)
SCALAR_OPTION(NESO_ServerOptionsSetAllowUploadedBackends, bool, allow_uploaded_backends)
SCALAR_OPTION(NESO_ServerOptionsSetLoadReasons, bool, load_reasons)
SCALAR_OPTION(TRITONSERVER_ServerOptionsSetExitTimeout, unsigned int, exit_timeout_s)
SCALAR_OPTION(TRITONSERVER_ServerOptionsSetBufferManagerThreadCount, unsigned int,
              buffer_manager_threads)
SCALAR_OPTION(TRITONSERVER_ServerOptionsSetModelLoadRetryCount, unsigned int, model_load_retries)
SCALAR_OPTION(TRITONSERVER_ServerOptionsSetModelNamespacing, bool, model_namespacing)
SCALAR_OPTION(TRITONSERVER_ServerOptionsSetEnablePeerAccess, bool, peer_access)
SCALAR_OPTION(TRITONSERVER_ServerOptionsSetMetrics, bool, allow_metrics)
SCALAR_OPTION(TRITONSERVER_ServerOptionsSetGpuMetrics, bool, allow_gpu_metrics)
SCALAR_OPTION(TRITONSERVER_ServerOptionsSetCpuMetrics, bool, allow_cpu_metrics)
SCALAR_OPTION(TRITONSERVER_ServerOptionsSetMetricsInterval, uint64_t, metrics_interval_ms)

_Static_assert(sizeof(_Atomic size_t) == sizeof(size_t), "a program's counter has another form");

struct TRITONSERVER_Error *NESO_ServerOptionsSetMemoryBudget(
        struct TRITONSERVER_ServerOptions *options, uint64_t byte_size, size_t *used_bytes) {
        API_NEEDS(options);
        OPTIONS(options)->memory_bytes = byte_size;
        OPTIONS(options)->memory_used = (_Atomic size_t *)used_bytes;
        return NULL;
}

struct TRITONSERVER_Error *NESO_ServerOptionsSetStartFunction(
        struct TRITONSERVER_ServerOptions *options, NESO_ServerStartFn_t start, void *userp) {
        API_NEEDS(options);
        OPTIONS(options)->on_start = (server_start_fn)(any_fn)start;
        OPTIONS(options)->on_start_userp = userp;
        return NULL;
}

/* clang-format off */
#define TEXT_OPTION(function, argument, field)                                                     \
        struct TRITONSERVER_Error *function(struct TRITONSERVER_ServerOptions *options,            \
                                            const char *argument) {                                \
                API_NEEDS(options);                                                                \
                API_NEEDS(argument);                                                               \
                option_text_set(&OPTIONS(options)->field, argument);                               \
                return NULL;                                                                       \
        }
/* clang-format on */

TEXT_OPTION(TRITONSERVER_ServerOptionsSetServerId, server_id, id)
TEXT_OPTION(TRITONSERVER_ServerOptionsSetModelConfigName, model_config_name, model_config_name)
TEXT_OPTION(TRITONSERVER_ServerOptionsSetCacheDirectory, cache_dir, cache_directory)
TEXT_OPTION(TRITONSERVER_ServerOptionsSetBackendDirectory, backend_dir, backend_directory)
TEXT_OPTION(TRITONSERVER_ServerOptionsSetRepoAgentDirectory, repoagent_dir, repoagent_directory)

/* ---- values that are checked ---------------------------------------------------------------- */

struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetModelControlMode(
        struct TRITONSERVER_ServerOptions *options, TRITONSERVER_ModelControlMode mode) {
        API_NEEDS(options);
        if ((unsigned)mode > TRITONSERVER_MODEL_CONTROL_EXPLICIT)
                return error_to_api(api_bad_value(__func__, "model control mode", (int)mode));
        OPTIONS(options)->control_mode = (enum model_control_mode)mode;
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetRateLimiterMode(
        struct TRITONSERVER_ServerOptions *options, TRITONSERVER_RateLimitMode mode) {
        API_NEEDS(options);
        if ((unsigned)mode > TRITONSERVER_RATE_LIMIT_EXEC_COUNT)
                return error_to_api(api_bad_value(__func__, "rate limit mode", (int)mode));
        OPTIONS(options)->rate_limit_mode = (enum rate_limit_mode)mode;
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetModelLoadThreadCount(
        struct TRITONSERVER_ServerOptions *options, unsigned int thread_count) {
        API_NEEDS(options);
        if (thread_count == 0)
                return error_to_api(api_bad_value(__func__, "number of threads", 0));
        OPTIONS(options)->model_load_threads = thread_count;
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetModelLoadDeviceLimit(
        struct TRITONSERVER_ServerOptions *options, const TRITONSERVER_InstanceGroupKind kind,
        const int device_id, const double fraction) {
        API_NEEDS(options);
        if (kind != TRITONSERVER_INSTANCEGROUPKIND_GPU)
                return error_to_api(error_new(ERR_INVALID_ARG,
                                              "a load limit is for devices of kind GPU, not %s",
                                              TRITONSERVER_InstanceGroupKindString(kind)));
        if (device_id < 0)
                return error_to_api(api_bad_value(__func__, "device", device_id));
        if (isnan(fraction) || fraction < 0.0 || fraction > 1.0)
                return error_to_api(error_new(ERR_INVALID_ARG,
                                              "a load limit is a fraction from 0 to 1, not %g",
                                              fraction));
        server_options_set_load_limit(OPTIONS(options), device_id, fraction);
        return NULL;
}

/* ---- lists ---------------------------------------------------------------------------------- */

struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetModelRepositoryPath(
        struct TRITONSERVER_ServerOptions *options, const char *model_repository_path) {
        API_NEEDS(options, model_repository_path);
        option_texts_add(&OPTIONS(options)->model_repository, model_repository_path);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetStartupModel(
        struct TRITONSERVER_ServerOptions *options, const char *model_name) {
        API_NEEDS(options, model_name);
        option_texts_add(&OPTIONS(options)->load_model, model_name);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsAddRateLimiterResource(
        struct TRITONSERVER_ServerOptions *options, const char *resource_name,
        const size_t resource_count, const int device) {
        API_NEEDS(options, resource_name);
        if (device < RATE_LIMIT_EACH_DEVICE)
                return error_to_api(api_bad_value(__func__, "device", device));
        return error_to_api(server_options_add_resource(OPTIONS(options), resource_name,
                                                        resource_count, device));
}

struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetCudaMemoryPoolByteSize(
        struct TRITONSERVER_ServerOptions *options, int gpu_device, uint64_t size) {
        API_NEEDS(options);
        server_options_set_cuda_pool(OPTIONS(options), gpu_device, size);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetCudaVirtualAddressSize(
        struct TRITONSERVER_ServerOptions *options, int gpu_device,
        size_t cuda_virtual_address_size) {
        API_NEEDS(options);
        server_options_set_cuda_virtual_size(OPTIONS(options), gpu_device,
                                             cuda_virtual_address_size);
        return NULL;
}

/* ---- caches --------------------------------------------------------------------------------- */

static struct error *check_is_object(const char *cache_name, const char *json) {
        struct json_reader reader = json_reader_of(str_of(json));

        if (json_peek(&reader) != JSON_OBJECT)
                return error_new(ERR_INVALID_ARG,
                                 "configuration of cache '%s' is not a JSON object", cache_name);
        json_skip(&reader);
        json_read_end(&reader);
        if (json_failed(&reader))
                return error_new(ERR_INVALID_ARG, "configuration of cache '%s': %s at %zu",
                                 cache_name, json_error_text(&reader), json_error_offset(&reader));
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetCacheConfig(
        struct TRITONSERVER_ServerOptions *options, const char *cache_name,
        const char *config_json) {
        API_NEEDS(options, cache_name, config_json);
        API_TRY(check_is_object(cache_name, config_json));
        server_options_set_cache(OPTIONS(options), cache_name, config_json);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetResponseCacheByteSize(
        struct TRITONSERVER_ServerOptions *options, uint64_t size) {
        AUTO_CHARS json = NULL;

        API_NEEDS(options);
        /* The values of a cache's configuration are strings. */
        json = mem_printf("{\"size\":\"%llu\"}", (unsigned long long)size);
        server_options_set_cache(OPTIONS(options), "local", json);
        return NULL;
}

/* ---- settings with a group and a name -------------------------------------------------------- */

struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetBackendConfig(
        struct TRITONSERVER_ServerOptions *options, const char *backend_name, const char *setting,
        const char *value) {
        API_NEEDS(options, backend_name, setting, value);
        settings_add(&OPTIONS(options)->backend_settings, backend_name, setting, value);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetHostPolicy(
        struct TRITONSERVER_ServerOptions *options, const char *policy_name, const char *setting,
        const char *value) {
        API_NEEDS(options, policy_name, setting, value);
        API_TRY(host_policy_check_setting(setting));
        settings_add(&OPTIONS(options)->host_policies, policy_name, setting, value);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetMetricsConfig(
        struct TRITONSERVER_ServerOptions *options, const char *name, const char *setting,
        const char *value) {
        API_NEEDS(options, name, setting, value);
        settings_add(&OPTIONS(options)->metrics_settings, name, setting, value);
        return NULL;
}
