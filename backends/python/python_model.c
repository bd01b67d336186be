/* SPDX-License-Identifier: BSD-3-Clause */
#include "python/python_model.h"

#include "kit/beneath.h"
#include "kit/json.h"
#include "kit/scratch.h"
#include "python/bls_call.h"
#include "python/environments.h"
#include "python/interpreter.h"
#include "python/shm_layout.h"
#include "python/waits.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DEFAULT_DEPTH 32
#define FORBIDDEN_CHARACTERS ";|&$`<>()[]{}\\\"'*?~#!"
#define MIN_SHM_BYTES (INT64_C(1) << 20)
#define DEFAULT_SHM_BYTES (INT64_C(4) << 20)
#define DEFAULT_GROWTH_BYTES (INT64_C(1) << 20)

/* ---- settings of the backend ----------------------------------------------------------------- */

static const char *setting(const struct kit_json *config, const char *key) {
        char path[128];

        (void)snprintf(path, sizeof(path), "cmdline/%s", key);
        return kit_json_string(kit_json_find(kit_json_root(config), path), NULL);
}

static TRITONSERVER_Error *setting_int(const struct kit_json *config, const char *key,
                                       int64_t *value) {
        const char *text = setting(config, key);
        char       *end;

        if (text == NULL)
                return NULL;
        *value = strtoll(text, &end, 10);
        if (end == text || *end != '\0')
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "%s of the python backend is '%s', which is no number", key, text);
        return NULL;
}

static TRITONSERVER_Error *refuse_setting(const char *text) {
        return kit_error(TRITONSERVER_ERROR_INVALID_ARG, "%s", text);
}

/* Settings of the reference server that have no effect here. */
static TRITONSERVER_Error *check_foreign(const struct kit_json *config) {
        static const char *const ignored[] = { "shm-region-prefix-name", "shm_message_queue_size" };
        int64_t                  threads = 1, queue = 1;
        const char              *prefix = setting(config, "shm-region-prefix-name");

        KIT_TRY(setting_int(config, "thread-pool-size", &threads));
        if (threads < 1)
                return refuse_setting("thread-pool-size can't be less than 1.");
        KIT_TRY(setting_int(config, "shm_message_queue_size", &queue));
        if (prefix != NULL && *prefix == '\0')
                return refuse_setting(
                        "shm-region-prefix-name must at least contain one character.");
        for (size_t i = 0; i < sizeof(ignored) / sizeof(*ignored); i++)
                if (setting(config, ignored[i]) != NULL)
                        kit_log(TRITONSERVER_LOG_INFO, __FILE__, __LINE__,
                                "the python backend has no use for the setting '%s'", ignored[i]);
        return NULL;
}

static TRITONSERVER_Error *read_region(const struct kit_json *config, struct region_options *ret) {
        int64_t first = DEFAULT_SHM_BYTES, growth = DEFAULT_GROWTH_BYTES, most = 0;

        KIT_TRY(setting_int(config, "shm-default-byte-size", &first));
        if (first < MIN_SHM_BYTES)
                return refuse_setting("shm-default-byte-size can't be smaller than 4 MiBs");
        KIT_TRY(setting_int(config, "shm-growth-byte-size", &growth));
        if (growth <= 0)
                return refuse_setting(
                        "shm-growth-byte-size can't be smaller than or equal to zero.");
        KIT_TRY(setting_int(config, "shm-max-byte-size", &most));
        if (most < 0)
                return refuse_setting("shm-max-byte-size can't be negative.");
        *ret = (struct region_options){ .max_bytes = (uint64_t)most,
                                        .first_bytes = (uint64_t)first / 2,
                                        .growth_bytes = (uint64_t)growth };
        return NULL;
}

static TRITONSERVER_Error *read_settings(const struct kit_json *config, struct backend *backend) {
        struct settings *settings = &backend->settings;
        const char      *python = setting(config, "python-path");
        const char      *restart = setting(config, "stub-restart");
        const char      *directory = setting(config, "backend-directory");
        int64_t          timeout_s = 30;

        KIT_TRY(check_foreign(config));
        KIT_TRY(setting_int(config, "stub-timeout-seconds", &timeout_s));
        if (timeout_s <= 0 || timeout_s > INT32_MAX)
                return refuse_setting(
                        "stub-timeout-seconds can't be smaller than or equal to zero.");
        KIT_TRY(read_region(config, &settings->region));
        if (restart != NULL && strcmp(restart, "true") != 0 && strcmp(restart, "false") != 0)
                return refuse_setting("stub-restart must be 'true' or 'false'.");
        settings->timeout_ns = (uint64_t)timeout_s * 1000000000u;
        settings->restarts = restart == NULL || strcmp(restart, "true") == 0;
        settings->python = strdup(python != NULL ? python : "python3");
        backend->backends_directory = strdup(directory != NULL ? directory : "");
        return settings->python != NULL && backend->backends_directory != NULL
                       ? NULL
                       : kit_error_no_memory(0, "settings");
}

/* ---- the backend ----------------------------------------------------------------------------- */

static void open_metrics(struct backend *backend) {
        TRITONSERVER_Error *err = TRITONSERVER_MetricFamilyNew(
                &backend->restarts_family, TRITONSERVER_METRIC_KIND_COUNTER,
                "neso_python_restarts_total",
                "Number of Python processes started in the place of one that crashed");

        if (err != NULL) {
                backend->restarts_family = NULL; /* the server has no metrics */
                TRITONSERVER_ErrorDelete(err);
        }
}

static TRITONSERVER_Error *open_backend(TRITONBACKEND_Backend *triton, struct backend *backend) {
        TRITONBACKEND_ArtifactType type;

        KIT_TRY(kit_check_api_version("python"));
        KIT_TRY(TRITONBACKEND_BackendArtifacts(triton, &type, &backend->directory));
        KIT_TRY(kit_backend_config(triton, &backend->config));
        KIT_TRY(read_settings(backend->config, backend));
        KIT_TRY(environments_new(backend->settings.python, backend->directory,
                                 &backend->environments));
        KIT_TRY(reaper_new(&backend->reaper));
        open_metrics(backend);
        KIT_TRY(TRITONBACKEND_BackendMemoryManager(triton, &backend->memory));
        return bls_call_allocator_new(&backend->allocator);
}

TRITONSERVER_Error *backend_new(TRITONBACKEND_Backend *triton, struct backend **ret) {
        struct backend     *backend = kit_alloc_array(1, sizeof(*backend));
        TRITONSERVER_Error *err;

        if (backend == NULL)
                return kit_error_no_memory(sizeof(*backend), "the python backend");
        (void)pthread_mutex_init(&backend->lock, NULL);
        kit_workers_init(&backend->workers);
        err = open_backend(triton, backend);
        if (err != NULL) {
                backend_free(backend);
                return err;
        }
        *ret = backend;
        return NULL;
}

void backend_free(struct backend *backend) {
        if (backend == NULL)
                return;
        kit_workers_done(&backend->workers);
        if (backend->allocator != NULL)
                kit_error_log(TRITONSERVER_ResponseAllocatorDelete(backend->allocator), "python");
        reaper_free(backend->reaper);
        environments_free(backend->environments);
        if (backend->restarts_family != NULL)
                kit_error_log(TRITONSERVER_MetricFamilyDelete(backend->restarts_family), "python");
        (void)pthread_mutex_destroy(&backend->lock);
        free(backend->settings.python);
        free(backend->backends_directory);
        kit_json_free(backend->config);
        free(backend);
}

/* ---- a model --------------------------------------------------------------------------------- */

static TRITONSERVER_Error *print_path(char **ret, const char *folder, const char *name) {
        size_t n = strlen(folder) + strlen(name) + 2;

        *ret = kit_alloc_array(n, 1);
        if (*ret == NULL)
                return kit_error_no_memory(n, "a path");
        (void)snprintf(*ret, n, "%s/%s", folder, name);
        return NULL;
}

static TRITONSERVER_Error *find_file(struct model *model) {
        const struct kit_json_value *root = kit_json_root(model->kit.config);
        const char *backend = kit_json_string(kit_json_find(root, "backend"), "python");
        const char *name = kit_json_string(kit_json_find(root, "default_model_filename"), "");
        size_t      len;
        struct stat st;

        if (*name == '\0')
                name = "model.py";
        if (!kit_path_stays_within(name))
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "default_model_filename '%s' of model '%s' must stay within the "
                                 "model directory",
                                 name, model->kit.name);
        if (*backend != '\0' && strcmp(backend, "python") != 0) {
                name = "model.py";
                KIT_TRY(print_path(&model->library_directory, model->backend->backends_directory,
                                   backend));
                KIT_TRY(print_path(&model->file, model->library_directory, name));
        } else {
                KIT_TRY(print_path(&model->file, model->kit.version_path, name));
        }
        len = strlen(name);
        if (len < 4 || strcmp(name + len - 3, ".py") != 0)
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "Model name must end with '.py'. Model name is \"%s\".", name);
        if (stat(model->file, &st) != 0)
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "Python model file not found in '%s'", model->file);
        return NULL;
}

/* In the words of the reference, whose process finds that out before it begins. */
static TRITONSERVER_Error *log_failure(TRITONSERVER_Error *err) {
        if (err != NULL)
                kit_log(TRITONSERVER_LOG_INFO, __FILE__, __LINE__,
                        "Failed to preinitialize Python stub: %s", TRITONSERVER_ErrorMessage(err));
        return err;
}

static void warn_of_stub(const struct model *model) {
        char        path[PATH_MAX];
        struct stat st;
        int n = snprintf(path, sizeof(path), "%s/triton_python_backend_stub", model->kit.path);

        if (n > 0 && (size_t)n < sizeof(path) && stat(path, &st) == 0)
                kit_log(TRITONSERVER_LOG_WARN, __FILE__, __LINE__,
                        "%s is ignored: models run under an ordinary interpreter; "
                        "EXECUTION_ENV_PATH or --backend-config=python,python-path names it",
                        path);
}

static TRITONSERVER_Error *read_bounded(const struct model *model, const char *key, int64_t min,
                                        int64_t max, int64_t *value) {
        KIT_TRY(kit_model_parameter_int(&model->kit, key, value));
        if (*value >= min && *value <= max)
                return NULL;
        return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                         "model '%s': %s is %" PRId64 ", it must be from %" PRId64 " to %" PRId64,
                         model->kit.name, key, *value, min, max);
}

static TRITONSERVER_Error *read_concurrency(struct model *model, bool has_sequences) {
        int64_t n = 1;

        KIT_TRY(read_bounded(model, "ASYNC_CONCURRENCY", 1, SHM_MAX_DEPTH, &n));
        if (n > 1 && has_sequences)
                return kit_error(
                        TRITONSERVER_ERROR_INVALID_ARG,
                        "model '%s': ASYNC_CONCURRENCY is %" PRId64
                        ", but the requests of a sequence run one after the other: a model "
                        "with sequence_batching must not set it",
                        model->kit.name, n);
        model->async_concurrency = (uint32_t)n;
        return NULL;
}

static TRITONSERVER_Error *read_in_place(struct model *model) {
        const char *text = kit_model_parameter(&model->kit, "GPU_INPUTS_IN_PLACE");

        if (text != NULL && strcmp(text, "yes") != 0 && strcmp(text, "no") != 0)
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "model '%s': GPU_INPUTS_IN_PLACE is '%s', it must be yes or no",
                                 model->kit.name, text);
        model->takes_in_place = text != NULL && strcmp(text, "yes") == 0;
        return NULL;
}

static TRITONSERVER_Error *read_parameters(struct model *model) {
        const struct kit_json_value *root = kit_json_root(model->kit.config);
        const char *gpu = kit_model_parameter(&model->kit, "FORCE_CPU_ONLY_INPUT_TENSORS");
        int64_t     depth = DEFAULT_DEPTH, timeout_ms = 0;
        bool        has_sequences = kit_json_find(root, "sequence_batching") != NULL;
        bool        has_batcher = has_sequences || kit_json_find(root, "dynamic_batching") != NULL;

        if (gpu != NULL && strcmp(gpu, "yes") != 0 && strcmp(gpu, "no") != 0)
                return kit_error(TRITONSERVER_ERROR_UNSUPPORTED,
                                 "Incorrect value for FORCE_CPU_ONLY_INPUT_TENSORS: %s'", gpu);
        KIT_TRY(read_in_place(model));
        model->takes_device_memory = gpu != NULL && strcmp(gpu, "no") == 0;
        KIT_TRY(read_bounded(model, "PIPELINE_DEPTH", 1, SHM_MAX_DEPTH, &depth));
        KIT_TRY(read_bounded(model, "EXECUTE_TIMEOUT_MS", 0, INT32_MAX, &timeout_ms));
        KIT_TRY(read_concurrency(model, has_sequences));
        model->depth = has_batcher ? 1 : (uint32_t)depth;
        model->execute_timeout_ns = (uint64_t)timeout_ms * 1000000u;
        model->is_iterative =
                kit_json_bool(kit_json_find(root, "sequence_batching/iterative_sequence"), false);
        model->is_decoupled =
                kit_json_bool(kit_json_find(root, "model_transaction_policy/decoupled"), false);
        return NULL;
}

TRITONSERVER_Error *model_read_again(struct model *model) {
        return read_parameters(model);
}

static void open_restarts(struct model *model) {
        TRITONSERVER_Parameter *labels[2];
        char                    version[24];

        if (model->backend->restarts_family == NULL)
                return;
        (void)snprintf(version, sizeof(version), "%" PRIu64, model->kit.version);
        labels[0] =
                TRITONSERVER_ParameterNew("model", TRITONSERVER_PARAMETER_STRING, model->kit.name);
        labels[1] = TRITONSERVER_ParameterNew("version", TRITONSERVER_PARAMETER_STRING, version);
        kit_error_log(TRITONSERVER_MetricNew(&model->restarts, model->backend->restarts_family,
                                             (const TRITONSERVER_Parameter **)labels, 2),
                      "failed to create a metric");
        TRITONSERVER_ParameterDelete(labels[0]);
        TRITONSERVER_ParameterDelete(labels[1]);
}

static TRITONSERVER_Error *open_model(TRITONBACKEND_Model *triton, struct model *model) {
        TRITONBACKEND_Backend *backend;
        struct interpreter     interpreter;
        void                  *state;

        KIT_TRY(TRITONBACKEND_ModelBackend(triton, &backend));
        KIT_TRY(TRITONBACKEND_BackendState(backend, &state));
        model->backend = state;
        KIT_TRY(TRITONBACKEND_ModelServer(triton, &model->server));
        KIT_TRY(kit_model_open(triton, &model->kit));
        if (strpbrk(model->kit.name, FORBIDDEN_CHARACTERS) != NULL)
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "Invalid stub name: contains invalid characters");
        KIT_TRY(log_failure(find_file(model)));
        KIT_TRY(read_parameters(model));
        warn_of_stub(model);
        KIT_TRY(interpreter_find(model->backend->environments, &model->kit,
                                 model->backend->settings.python, &interpreter));
        model->python = interpreter.python;
        model->environment = interpreter.environment;
        open_restarts(model);
        return NULL;
}

TRITONSERVER_Error *model_new(TRITONBACKEND_Model *triton, struct model **ret) {
        struct model       *model = kit_alloc_array(1, sizeof(*model));
        TRITONSERVER_Error *err;

        if (model == NULL)
                return kit_error_no_memory(sizeof(*model), "a model");
        err = open_model(triton, model);
        if (err != NULL) {
                model_free(model);
                return err;
        }
        (void)pthread_mutex_lock(&model->backend->lock);
        model->next = model->backend->models;
        model->backend->models = model;
        model->is_listed = true;
        (void)pthread_mutex_unlock(&model->backend->lock);
        *ret = model;
        return NULL;
}

static void unlink_model(struct model *model) {
        struct model **link = &model->backend->models;

        (void)pthread_mutex_lock(&model->backend->lock);
        while (*link != model)
                link = &(*link)->next;
        *link = model->next;
        waits_forget_locked(model);
        (void)pthread_mutex_unlock(&model->backend->lock);
}

void model_free(struct model *model) {
        if (model == NULL)
                return;
        if (model->is_listed)
                unlink_model(model);
        if (model->restarts != NULL)
                kit_error_log(TRITONSERVER_MetricDelete(model->restarts), "python");
        interpreter_done(&(struct interpreter){ model->python, model->environment });
        free(model->library_directory);
        free(model->file);
        kit_model_close(&model->kit);
        free(model);
}
