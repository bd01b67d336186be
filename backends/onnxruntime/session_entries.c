/* SPDX-License-Identifier: BSD-3-Clause */
#include "onnxruntime/session_entries.h"

#include "kit/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum entry_kind {
        ENTRY_UNKNOWN,
        ENTRY_HARMLESS,
        ENTRY_FILE,  /* the value is the path of a file or a folder */
        ENTRY_OTHER, /* files that the value names in another way, or that it does not name */
};

/* From onnxruntime_session_options_config_keys.h of ONNX Runtime 1.23. An entry is harmless when no
 * value of it makes the runtime open a file or keep a pointer to memory that it does not own. */
static const struct {
        const char     *name;
        enum entry_kind kind;
} entries[] = {
        { "optimization.disable_specified_optimizers", ENTRY_HARMLESS },
        { "optimization.enable_gelu_approximation", ENTRY_HARMLESS },
        { "optimization.enable_memory_probe_recompute_config", ENTRY_HARMLESS },
        { "optimization.memory_optimizer_config", ENTRY_FILE },
        { "optimization.minimal_build_optimizations", ENTRY_HARMLESS },
        { "session.allow_released_opsets_only", ENTRY_HARMLESS },
        { "session.collect_node_memory_stats_to_file", ENTRY_FILE },
        { "session.debug_layout_transformation", ENTRY_OTHER }, /* files in the current directory */
        { "session.disable_aot_function_inlining", ENTRY_HARMLESS },
        { "session.disable_cpu_ep_fallback", ENTRY_HARMLESS },
        { "session.disable_double_qdq_remover", ENTRY_HARMLESS },
        { "session.disable_model_compile", ENTRY_HARMLESS },
        { "session.disable_prepacking", ENTRY_HARMLESS },
        { "session.disable_quant_qdq", ENTRY_HARMLESS },
        { "session.dynamic_block_base", ENTRY_HARMLESS },
        { "session.enable_quant_qdq_cleanup", ENTRY_HARMLESS },
        { "session.force_spinning_stop", ENTRY_HARMLESS },
        { "session.graph_optimizations_loop_level", ENTRY_HARMLESS },
        { "session.inter_op.allow_spinning", ENTRY_HARMLESS },
        { "session.intra_op.allow_spinning", ENTRY_HARMLESS },
        { "session.intra_op_thread_affinities", ENTRY_HARMLESS },
        { "session.load_model_format", ENTRY_HARMLESS },
        { "session.model_external_initializers_file_folder_path", ENTRY_FILE },
        { "session.node_partition_config_file", ENTRY_FILE },
        { "session.optimized_model_external_initializers_file_name", ENTRY_OTHER },
        { "session.optimized_model_external_initializers_min_size_in_bytes", ENTRY_HARMLESS },
        { "session.qdq_matmulnbits_accuracy_level", ENTRY_HARMLESS },
        { "session.qdqisint8allowed", ENTRY_HARMLESS },
        { "session.resource_cuda_partitioning_settings", ENTRY_OTHER }, /* "<size>,<file>" */
        { "session.save_model_format", ENTRY_HARMLESS },
        { "session.set_denormal_as_zero", ENTRY_HARMLESS },
        { "session.strict_shape_type_inference", ENTRY_HARMLESS },
        { "session.use_device_allocator_for_initializers", ENTRY_HARMLESS },
        { "session.use_env_allocators", ENTRY_HARMLESS },
        { "session.x64quantprecision", ENTRY_HARMLESS },
};

static enum entry_kind kind_of(const char *name) {
        for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
                if (strcmp(entries[i].name, name) == 0)
                        return entries[i].kind;
        return ENTRY_UNKNOWN;
}

static TRITONSERVER_Error *outside(const struct kit_model *model, const char *name,
                                   const char *value) {
        return kit_error(
                TRITONSERVER_ERROR_INVALID_ARG,
                "model '%s': parameter '%s' must name a file in the model's directory, not "
                "'%s'; '--backend-config=onnxruntime,allow-file-options=true' permits others",
                model->name, name, value);
}

/* True for a file in the directory, or one that can be made there. */
static bool is_beneath(const char *directory, const char *path) {
        const char *slash = strrchr(path, '/');
        char       *folder;
        int         fd = kit_open_beneath(directory, path, O_PATH);

        if (fd < 0 && errno == ENOENT) {
                folder = slash != NULL ? strndup(path, (size_t)(slash - path)) : strdup(".");
                fd = folder != NULL ? kit_open_beneath(directory, folder, O_PATH | O_DIRECTORY)
                                    : -1;
                free(folder);
        }
        if (fd >= 0)
                (void)close(fd);
        return fd >= 0;
}

/* The runtime would look for a relative path in the folder of the model file. */
static TRITONSERVER_Error *add_file(const struct ort *ort, const struct kit_model *model,
                                    OrtSessionOptions *options, const char *name,
                                    const char *value) {
        TRITONSERVER_Error *err;
        char               *path;

        if (!is_beneath(model->path, value))
                return outside(model, name, value);
        if (asprintf(&path, "%s/%s", model->path, value) < 0)
                return kit_error_no_memory(strlen(value), "a path");
        err = ort_error(ort, ort->api->AddSessionConfigEntry(options, name, path));
        free(path);
        return err;
}

static TRITONSERVER_Error *refuse_unknown(const struct kit_model *model, const char *name) {
        bool is_sent;

        KIT_TRY(kit_model_parameter_is_sent(model, name, &is_sent));
        if (!is_sent)
                return NULL;
        return kit_error(
                TRITONSERVER_ERROR_UNSUPPORTED,
                "model '%s': the parameter '%s' is not known to be harmless, so that it may "
                "stand in the model's config.pbtxt, but not in the configuration of a load",
                model->name, name);
}

static TRITONSERVER_Error *add_entry(const struct ort *ort, const struct kit_model *model,
                                     OrtSessionOptions *options, const char *name,
                                     const char *value) {
        enum entry_kind kind = kind_of(name);

        if (kind == ENTRY_UNKNOWN)
                KIT_TRY(refuse_unknown(model, name));
        if (kind == ENTRY_FILE || kind == ENTRY_OTHER)
                KIT_TRY(kit_model_refuse_sent(model, name));
        if (kind == ENTRY_FILE && !ort->allows_file_options && value[0] != '\0')
                return add_file(ort, model, options, name, value);
        if (kind == ENTRY_OTHER && !ort->allows_file_options)
                return outside(model, name, value);
        ORT_TRY(ort, AddSessionConfigEntry(options, name, value));
        return NULL;
}

/* Later entries replace earlier ones of the same name, so the defaults are set first. */
TRITONSERVER_Error *session_entries_set(const struct ort *ort, const struct kit_model *model,
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
                        KIT_TRY(add_entry(ort, model, options, at->key, value));
        }
        return NULL;
}
