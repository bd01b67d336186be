/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/config_fill.h"

#include "config/config_edit.h"

#include <string.h>

/* Rules that select the backend, in order of precedence. */
struct fill_rule {
        const char *backend;
        const char *platform; /* NULL: the backend has no platform */
        const char *filename;
        bool        may_be_file;
        bool        may_be_directory;
        bool        needs_platform; /* several rows have this backend: its name alone does not
                                     * select one */
};

static const struct fill_rule rules[] = {
        { "tensorflow", "tensorflow_graphdef", "model.graphdef", true, false, true },
        { "tensorflow", "tensorflow_savedmodel", "model.savedmodel", false, true, true },
        { "tensorrt", "tensorrt_plan", "model.plan", true, false, false },
        { "onnxruntime", "onnxruntime_onnx", "model.onnx", true, true, false },
        { "openvino", NULL, "model.xml", true, true, false },
        { "pytorch", "pytorch_libtorch", "model.pt", true, false, false },
        { "pytorch", "torch_aoti", "model.pt2", true, false, false },
        { "python", NULL, "model.py", true, true, false },
};

static bool place_holds(const struct config_place *place, const struct fill_rule *rule) {
        for (size_t i = 0; i < place->n_entries; i++)
                if (strcmp(place->entries[i].name, rule->filename) == 0)
                        return place->entries[i].is_directory ? rule->may_be_directory
                                                              : rule->may_be_file;
        return false;
}

bool model_config_knows_file(const char *name, bool is_directory) {
        for (size_t i = 0; i < ARRAY_LEN(rules); i++)
                if (strcmp(name, rules[i].filename) == 0 &&
                    (is_directory ? rules[i].may_be_directory : rules[i].may_be_file))
                        return true;
        return false;
}

/* Whether `platform` is the rule's platform, or its older name. */
static bool is_platform_of(const char *platform, const struct fill_rule *rule) {
        return config_text_is(platform, rule->platform) ||
               (config_text_is(rule->platform, "pytorch_libtorch") &&
                config_text_is(platform, "libtorch"));
}

/* True when the configuration matches the rule by its platform or file name, and contradicts none
 * of its fields. */
static bool is_given_by_config(const Inference__ModelConfig *pb, const struct fill_rule *rule) {
        if (config_text_is_set(pb->backend) && !config_text_is(pb->backend, rule->backend))
                return false;
        if (config_text_is_set(pb->platform))
                return is_platform_of(pb->platform, rule);
        return config_text_is(pb->default_model_filename, rule->filename);
}

static bool is_given_by_files(const Inference__ModelConfig *pb, const struct fill_rule *rule,
                              const struct config_place *place) {
        if (config_text_is_set(pb->platform) || config_text_is_set(pb->default_model_filename))
                return false;
        if (config_text_is_set(pb->backend) && !config_text_is(pb->backend, rule->backend))
                return false;
        return place_holds(place, rule);
}

static const struct fill_rule *find_rule(const Inference__ModelConfig *pb,
                                         const struct config_place    *place) {
        for (size_t i = 0; i < ARRAY_LEN(rules); i++)
                if (is_given_by_config(pb, &rules[i]) || is_given_by_files(pb, &rules[i], place))
                        return &rules[i];
        /* Only the backend is known: use its usual platform and file name. */
        for (size_t i = 0; i < ARRAY_LEN(rules); i++)
                if (config_text_is(pb->backend, rules[i].backend) && !rules[i].needs_platform)
                        return &rules[i];
        return NULL;
}

static struct error *apply_rule(struct model_config *c, const struct fill_rule *rule) {
        Inference__ModelConfig *pb = c->pb;

        TRY(config_edit_text(c, &pb->backend, "", rule->backend));
        if (rule->platform != NULL)
                TRY(config_edit_text(c, &pb->platform, "", rule->platform));
        /* A pytorch model written in Python has no TorchScript file. */
        if (config_text_is(rule->backend, "pytorch") && config_text_is(pb->runtime, "model.py"))
                return NULL;
        return config_edit_text(c, &pb->default_model_filename, "", rule->filename);
}

/* A custom backend: the directory is called "model.<backend>". */
static struct error *fill_custom(struct model_config *c, const struct config_place *place) {
        const char *dot = strchr(place->model_name, '.');

        if (dot == NULL)
                return error_new(ERR_INVALID_ARG,
                                 "Invalid model name: Could not determine backend for model '%s' "
                                 "with no backend in model configuration. Expected model name of "
                                 "the form 'model.<backend_name>'.",
                                 place->model_name);
        TRY(config_edit_text(c, &c->pb->backend, "", dot + 1));
        return config_edit_text(c, &c->pb->default_model_filename, "model.", dot + 1);
}

struct error *model_config_fill(struct model_config *c, const struct config_place *place) {
        Inference__ModelConfig *pb = c->pb;
        const struct fill_rule *rule;

        TRY(config_edit_text(c, &pb->name, "", place->model_name));
        rule = find_rule(pb, place);
        if (rule != NULL)
                return apply_rule(c, rule);
        if (!config_text_is_set(pb->backend) && !config_text_is_set(pb->platform) &&
            !config_text_is_set(pb->default_model_filename))
                return fill_custom(c, place);
        return NULL;
}
