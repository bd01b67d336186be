/* SPDX-License-Identifier: BSD-3-Clause */
#include "onnxruntime/options.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static TRITONSERVER_Error *set_optimization(const struct ort *ort, const struct kit_model *model,
                                            OrtSessionOptions *options) {
        const struct kit_json_value *root = kit_json_root(model->config);
        GraphOptimizationLevel       level = ORT_ENABLE_ALL;
        int64_t given = kit_json_int(kit_json_find(root, "optimization/graph/level"), 0);

        if (given == -1)
                level = ORT_ENABLE_BASIC;
        else if (given == 1)
                level = ORT_ENABLE_EXTENDED;
        else if (given == 2)
                level = ORT_DISABLE_ALL;
        ORT_TRY(ort, SetSessionGraphOptimizationLevel(options, level));
        return NULL;
}

static TRITONSERVER_Error *read_threads(const struct kit_model *model, const char *key, int *ret) {
        int64_t n = 0;

        KIT_TRY(kit_model_parameter_int(model, key, &n));
        if (n < 0 || n > INT_MAX)
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "model '%s': parameter '%s' must not be negative", model->name,
                                 key);
        *ret = (int)n;
        return NULL;
}

/* One thread per core that this thread may use. 0, which the runtime would make one per core of the
 * machine, each tied to its core, also where cores are withheld (host policies, containers). */
static int default_threads(void) {
        cpu_set_t allowed;
        long      n_online = sysconf(_SC_NPROCESSORS_ONLN);

        if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
                return 0; /* more cores than the set has room for */
        return CPU_COUNT(&allowed) < n_online ? CPU_COUNT(&allowed) : 0;
}

static TRITONSERVER_Error *set_threads(const struct ort *ort, const struct kit_model *model,
                                       OrtSessionOptions *options) {
        bool is_parallel = false;
        int  n_intra, n_inter;

        KIT_TRY(kit_model_parameter_bool(model, "execution_mode", &is_parallel));
        ORT_TRY(ort, SetSessionExecutionMode(options, is_parallel ? ORT_PARALLEL : ORT_SEQUENTIAL));
        KIT_TRY(read_threads(model, "intra_op_thread_count", &n_intra));
        KIT_TRY(read_threads(model, "inter_op_thread_count", &n_inter));
        if (ort->has_global_threads) {
                ORT_TRY(ort, DisablePerSessionThreads(options));
                return NULL;
        }
        ORT_TRY(ort, SetIntraOpNumThreads(options, n_intra > 0 ? n_intra : default_threads()));
        ORT_TRY(ort, SetInterOpNumThreads(options, n_inter));
        return NULL;
}

static TRITONSERVER_Error *set_memory(const struct ort *ort, const struct kit_model *model,
                                      OrtSessionOptions *options) {
        bool has_arena = true, has_pattern = true;

        KIT_TRY(kit_model_parameter_bool(model, "enable_mem_arena", &has_arena));
        KIT_TRY(kit_model_parameter_bool(model, "enable_mem_pattern", &has_pattern));
        if (has_arena)
                ORT_TRY(ort, EnableCpuMemArena(options));
        else
                ORT_TRY(ort, DisableCpuMemArena(options));
        if (has_pattern)
                ORT_TRY(ort, EnableMemPattern(options));
        else
                ORT_TRY(ort, DisableMemPattern(options));
        return NULL;
}

/* Later entries replace earlier ones of the same name, so the defaults come first. */
static TRITONSERVER_Error *set_entries(const struct ort *ort, const struct kit_model *model,
                                       OrtSessionOptions *options) {
        const struct kit_json_value *all =
                kit_json_find(kit_json_root(model->config), "parameters");

        ORT_TRY(ort, AddSessionConfigEntry(options, "session.intra_op.allow_spinning", "0"));
        ORT_TRY(ort, AddSessionConfigEntry(options, "session.inter_op.allow_spinning", "0"));
        if (all == NULL)
                return NULL;
        for (const struct kit_json_value *at = all->first; at != NULL; at = at->next) {
                const char *value = kit_json_string(kit_json_find(at, "string_value"), NULL);

                if (value == NULL || at->key == NULL)
                        continue;
                if (strncmp(at->key, "session.", 8) == 0 ||
                    strncmp(at->key, "optimization.", 13) == 0)
                        ORT_TRY(ort, AddSessionConfigEntry(options, at->key, value));
        }
        return NULL;
}

static TRITONSERVER_Error *add_op_library(const struct ort *ort, const struct kit_model *model,
                                          OrtSessionOptions *options, const char *name) {
        TRITONSERVER_Error *err;
        const char         *path = name;
        char               *in_model;

        if (asprintf(&in_model, "%s/%s", model->path, name) < 0)
                return kit_error_no_memory(strlen(name), "a path");
        if (name[0] != '/' && access(in_model, R_OK) == 0)
                path = in_model;
        err = ort_error(ort, ort->api->RegisterCustomOpsLibrary_V2(options, path));
        free(in_model);
        return err;
}

static TRITONSERVER_Error *add_op_libraries(const struct ort *ort, const struct kit_model *model,
                                            OrtSessionOptions *options) {
        const struct kit_json_value *list =
                kit_json_find(kit_json_root(model->config), "model_operations/op_library_filename");

        if (list == NULL)
                return NULL;
        for (const struct kit_json_value *at = list->first; at != NULL; at = at->next)
                KIT_TRY(add_op_library(ort, model, options, kit_json_string(at, "")));
        return NULL;
}

static TRITONSERVER_Error *check_accelerators(const struct kit_model *model) {
        const struct kit_json_value *all =
                kit_json_find(kit_json_root(model->config), "optimization/execution_accelerators");
        const struct kit_json_value *cpu = kit_json_find(all, "cpu_execution_accelerator/0");

        if (cpu != NULL)
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "unknown Execution Accelerator '%s' is requested",
                                 kit_json_string(kit_json_find(cpu, "name"), ""));
        if (kit_json_find(all, "gpu_execution_accelerator/0") != NULL)
                KIT_LOG(TRITONSERVER_LOG_WARN,
                        "model '%s': gpu_execution_accelerator is for GPU instances, which this "
                        "build does not have; it is ignored",
                        model->name);
        return NULL;
}

TRITONSERVER_Error *options_set(const struct ort *ort, const struct kit_model *model,
                                OrtSessionOptions *options) {
        KIT_TRY(check_accelerators(model));
        KIT_TRY(set_optimization(ort, model, options));
        KIT_TRY(set_threads(ort, model, options));
        KIT_TRY(set_memory(ort, model, options));
        KIT_TRY(set_entries(ort, model, options));
        return add_op_libraries(ort, model, options);
}

TRITONSERVER_Error *options_new_run(const struct ort *ort, const struct kit_model *model,
                                    OrtRunOptions **ret) {
        static const char key[] = "memory.enable_memory_arena_shrinkage";
        const char       *value = kit_model_parameter(model, key);

        *ret = NULL;
        if (value == NULL || value[0] == '\0')
                return NULL;
        ORT_TRY(ort, CreateRunOptions(ret));
        ORT_TRY(ort, AddRunConfigEntry(*ret, key, value));
        return NULL;
}
