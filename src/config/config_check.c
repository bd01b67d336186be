/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/config_check.h"

#include "base/map.h"
#include "base/strbuf.h"
#include "config/batch_members.h"
#include "config/chain_line.h"
#include "config/config_normalize.h"
#include "config/ensemble_graph.h"
#include "config/shape.h"

#include <inttypes.h>
#include <stddef.h>

/* ---- sequence batching ---- */

#define KIND_CORRID INFERENCE__MODEL_SEQUENCE_BATCHING__CONTROL__KIND__CONTROL_SEQUENCE_CORRID

/* The order in which the controls are checked. */
static const Inference__ModelSequenceBatching__Control__Kind kinds[] = {
        INFERENCE__MODEL_SEQUENCE_BATCHING__CONTROL__KIND__CONTROL_SEQUENCE_START,
        INFERENCE__MODEL_SEQUENCE_BATCHING__CONTROL__KIND__CONTROL_SEQUENCE_END,
        INFERENCE__MODEL_SEQUENCE_BATCHING__CONTROL__KIND__CONTROL_SEQUENCE_READY,
        KIND_CORRID,
};

static const char *kind_name(Inference__ModelSequenceBatching__Control__Kind kind) {
        return check_enum_name(&inference__model_sequence_batching__control__kind__descriptor,
                               (int)kind);
}

static struct error *check_tensor_names(const Inference__ModelConfig           *pb,
                                        const Inference__ModelSequenceBatching *sequence) {
        struct map    seen;
        struct error *err = NULL;

        map_init(&seen);
        for (size_t i = 0; i < sequence->n_control_input && err == NULL; i++) {
                char *name = sequence->control_input[i]->name;

                if (!config_text_is_set(name))
                        err = error_at(
                                error_new(
                                        ERR_INVALID_ARG,
                                        "sequence batching control tensor must have a name for %s",
                                        pb->name),
                                "control_input[%zu]", i);
                else if (map_set(&seen, str_of(name), name) != NULL)
                        err = error_at(
                                error_new(ERR_INVALID_ARG,
                                          "sequence batching control tensor '%s' is specified for "
                                          "multiple control kinds for %s",
                                          name, pb->name),
                                "control_input[%zu].name", i);
        }
        map_done(&seen);
        return err;
}

static struct error *check_pair(const Inference__ModelConfig *pb, const char *field, size_t n,
                                const char *kind) {
        if (n == 0 || n == 2)
                return NULL;
        return error_at(
                error_new(
                        ERR_INVALID_ARG,
                        "sequence batching control '%s' must have exactly 2 entries for %s for %s",
                        field, kind, pb->name),
                "%s", field);
}

/* For START, END and READY: one pair of values for false and true. */
static struct error *check_boolean(const Inference__ModelConfig                    *pb,
                                   const Inference__ModelSequenceBatching__Control *control) {
        const char *kind = kind_name(control->kind);
        int         n_given = (control->n_int32_false_true > 0) + (control->n_fp32_false_true > 0) +
                      (control->n_bool_false_true > 0);

        if (n_given == 0)
                return error_new(ERR_INVALID_ARG,
                                 "sequence batching must specify either 'int32_false_true', "
                                 "'fp32_false_true' or 'bool_false_true' for %s for %s",
                                 kind, pb->name);
        if (n_given > 1)
                return error_new(ERR_INVALID_ARG,
                                 "sequence batching specifies more than one from "
                                 "'int32_false_true', 'fp32_false_true' and 'bool_false_true' for "
                                 "%s for %s",
                                 kind, pb->name);
        TRY(check_pair(pb, "int32_false_true", control->n_int32_false_true, kind));
        TRY(check_pair(pb, "fp32_false_true", control->n_fp32_false_true, kind));
        return check_pair(pb, "bool_false_true", control->n_bool_false_true, kind);
}

static struct error *check_corrid(const Inference__ModelConfig                    *pb,
                                  const Inference__ModelSequenceBatching__Control *control) {
        if (control->n_int32_false_true > 0 || control->n_fp32_false_true > 0 ||
            control->n_bool_false_true > 0)
                return error_new(ERR_INVALID_ARG,
                                 "sequence batching must not specify either 'int32_false_true', "
                                 "'fp32_false_true' or 'bool_false_true' for "
                                 "CONTROL_SEQUENCE_CORRID for %s",
                                 pb->name);
        switch (control->data_type) {
        case INFERENCE__DATA_TYPE__TYPE_UINT64:
        case INFERENCE__DATA_TYPE__TYPE_INT64:
        case INFERENCE__DATA_TYPE__TYPE_UINT32:
        case INFERENCE__DATA_TYPE__TYPE_INT32:
        case INFERENCE__DATA_TYPE__TYPE_STRING: return NULL;
        default:
                return error_in_field("data_type",
                                      "unexpected data type for control CONTROL_SEQUENCE_CORRID "
                                      "for %s. Allowed data types are TYPE_UINT64, TYPE_INT64, "
                                      "TYPE_UINT32, TYPE_INT32 and TYPE_STRING",
                                      pb->name);
        }
}

static struct error *check_kind(const Inference__ModelConfig                         *pb,
                                const Inference__ModelSequenceBatching__ControlInput *input,
                                Inference__ModelSequenceBatching__Control__Kind kind, bool *seen) {
        for (size_t i = 0; i < input->n_control; i++) {
                const Inference__ModelSequenceBatching__Control *control = input->control[i];

                if (control->kind != kind)
                        continue;
                if (*seen)
                        return error_at(
                                error_new(ERR_INVALID_ARG,
                                          "sequence batching specifies multiple %s tensors for %s",
                                          kind_name(kind), pb->name),
                                "control[%zu].kind", i);
                *seen = true;
                TRY(error_at(kind == KIND_CORRID ? check_corrid(pb, control)
                                                 : check_boolean(pb, control),
                             "control[%zu]", i));
        }
        return NULL;
}

/* `what` names the sizes in errors, `field` in the configuration. */
static struct error *check_preferred(const Inference__ModelConfig *pb, const int32_t *sizes,
                                     size_t n, const char *what, const char *field) {
        for (size_t i = 0; i < n; i++) {
                if (sizes[i] <= 0)
                        return error_at(error_new(ERR_INVALID_ARG, "%s must be positive for %s",
                                                  what, pb->name),
                                        "%s[%zu]", field, i);
                if (sizes[i] > pb->max_batch_size)
                        return error_at(error_new(ERR_INVALID_ARG,
                                                  "%s must be <= max batch size for %s", what,
                                                  pb->name),
                                        "%s[%zu]", field, i);
        }
        return NULL;
}

static struct error *check_direct(const Inference__ModelConfig                           *pb,
                                  const Inference__ModelSequenceBatching__StrategyDirect *direct) {
        float utilization = direct->minimum_slot_utilization;

        /* 0 means "do not wait"; the form of the comparison rejects NaN. */
        if (!(utilization >= 0.0F && utilization <= 1.0F))
                return error_in_field("direct.minimum_slot_utilization",
                                      "sequence batching minimum slot utilization must be in range "
                                      "(0.0, 1.0] for %s",
                                      pb->name);
        return NULL;
}

static struct error *check_sequence_batching(const Inference__ModelConfig *pb) {
        const Inference__ModelSequenceBatching *sequence = pb->sequence_batching;

        TRY(check_tensor_names(pb, sequence));
        for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
                bool seen = false;

                for (size_t i = 0; i < sequence->n_control_input; i++)
                        TRY(error_at(check_kind(pb, sequence->control_input[i], kinds[k], &seen),
                                     "control_input[%zu]", i));
        }
        switch (sequence->strategy_choice_case) {
        case INFERENCE__MODEL_SEQUENCE_BATCHING__STRATEGY_CHOICE_OLDEST:
                return check_preferred(pb, sequence->oldest->preferred_batch_size,
                                       sequence->oldest->n_preferred_batch_size,
                                       "sequence batching preferred batch size",
                                       "oldest.preferred_batch_size");
        case INFERENCE__MODEL_SEQUENCE_BATCHING__STRATEGY_CHOICE_DIRECT:
                return check_direct(pb, sequence->direct);
        default: return NULL;
        }
}

/* ---- ensembles ---- */

static struct error *check_fields(const Inference__ModelConfig *pb) {
        if (!config_text_is(pb->platform, "ensemble"))
                return error_in_field("platform",
                                      "ensemble scheduling cannot be set for model '%s' whose "
                                      "platform is not ensemble",
                                      pb->name);
        if (pb->n_instance_group > 0)
                return error_in_field("instance_group",
                                      "instance group should not be specified for ensemble '%s'",
                                      pb->name);
        if (pb->optimization != NULL)
                return error_in_field("optimization",
                                      "optimization should not be specified for ensemble '%s'",
                                      pb->name);
        if (pb->n_model_warmup > 0)
                return error_in_field("model_warmup",
                                      "model_warmup can not be specified for ensemble '%s'",
                                      pb->name);
        if (pb->ensemble_scheduling->n_step == 0)
                return error_in_field("ensemble_scheduling",
                                      "must specify 'step' for ensemble '%s'", pb->name);
        return NULL;
}

static struct error *check_ensemble(const Inference__ModelConfig *pb) {
        struct ensemble_graph *g;
        struct error          *err;

        TRY(check_fields(pb));
        TRY(ensemble_graph_new(pb, &g));
        err = ensemble_graph_check(g);
        ensemble_graph_free(g);
        return err;
}

/* ---- the whole configuration ---- */

#define PLATFORM_ENSEMBLE "ensemble"
/* A list of models that run one after the other; our extension, without a backend. */
#define PLATFORM_CHAIN "chain"

/* Platforms that belong to one backend. Backends that are not listed may use any other platform
 * name. */
static const struct {
        const char *platform;
        const char *backend;
} pairs[] = {
        { "tensorflow_graphdef", "tensorflow" },
        { "tensorflow_savedmodel", "tensorflow" },
        { "tensorrt_plan", "tensorrt" },
        { "onnxruntime_onnx", "onnxruntime" },
        { "pytorch_libtorch", "pytorch" },
        { "libtorch", "pytorch" },
        { "torch_aoti", "pytorch" },
};

const char *check_enum_name(const ProtobufCEnumDescriptor *type, int value) {
        const ProtobufCEnumValue *found = protobuf_c_enum_descriptor_get_value(type, value);

        return found != NULL ? found->name : "<unknown>";
}

static bool is_pair(const char *platform, const char *backend) {
        const char *of_platform = NULL;
        const char *known = NULL;

        for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
                if (config_text_is(platform, pairs[i].platform))
                        of_platform = pairs[i].backend;
                if (config_text_is(backend, pairs[i].backend))
                        known = pairs[i].backend;
        }
        if (of_platform == NULL || known == NULL)
                return of_platform == known;
        return strcmp(of_platform, known) == 0;
}

struct error *model_config_check_platform(const struct model_config *c) {
        const Inference__ModelConfig *pb = c->pb;
        bool                          is_ensemble = config_text_is(pb->platform, PLATFORM_ENSEMBLE);
        bool                          is_chain = config_text_is(pb->platform, PLATFORM_CHAIN);

        if (!config_text_is_set(pb->name))
                return error_new(ERR_INVALID_ARG, "model configuration must specify 'name'");
        if (!config_text_is_set(pb->backend) && !is_ensemble && !is_chain)
                return error_in_field("platform", "unexpected platform type '%s' for %s",
                                      pb->platform, pb->name);
        if (config_text_is_set(pb->backend) && is_ensemble)
                return error_in_field("backend",
                                      "Ensemble model '%s' must have platform type 'ensemble' and "
                                      "empty backend type",
                                      pb->name);
        if (!is_pair(pb->platform, pb->backend))
                return error_in_field("platform",
                                      "unexpected 'platform' and 'backend' pair, got:%s, %s",
                                      pb->platform, pb->backend);
        return NULL;
}

static struct error *check_count(const Inference__ModelConfig *pb, const char *field, size_t n) {
        if (n <= MODEL_CONFIG_MAX_ELEMENTS)
                return NULL;
        return error_at(error_new(ERR_INVALID_ARG,
                                  "model %s has %zu elements of '%s', at most %d are supported",
                                  pb->name, n, field, MODEL_CONFIG_MAX_ELEMENTS),
                        "%s", field);
}

static struct error *check_sequence_counts(const Inference__ModelConfig           *pb,
                                           const Inference__ModelSequenceBatching *sequence) {
        TRY(check_count(pb, "control_input", sequence->n_control_input));
        TRY(check_count(pb, "state", sequence->n_state));
        if (sequence->strategy_choice_case !=
            INFERENCE__MODEL_SEQUENCE_BATCHING__STRATEGY_CHOICE_OLDEST)
                return NULL;
        return error_at(check_count(pb, "preferred_batch_size",
                                    sequence->oldest->n_preferred_batch_size),
                        "oldest");
}

/* What is copied, or searched for each request. */
static struct error *check_counts(const Inference__ModelConfig *pb) {
        TRY(check_count(pb, "input", pb->n_input));
        TRY(check_count(pb, "output", pb->n_output));
        TRY(check_count(pb, "batch_input", pb->n_batch_input));
        TRY(check_count(pb, "batch_output", pb->n_batch_output));
        TRY(check_count(pb, "model_warmup", pb->n_model_warmup));
        if (pb->scheduling_choice_case ==
            INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING)
                return error_at(check_count(pb, "preferred_batch_size",
                                            pb->dynamic_batching->n_preferred_batch_size),
                                "dynamic_batching");
        if (pb->scheduling_choice_case ==
            INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_SEQUENCE_BATCHING)
                return error_at(check_sequence_counts(pb, pb->sequence_batching),
                                "sequence_batching");
        return NULL;
}

struct error *model_config_check_general(const struct model_config *c) {
        const Inference__ModelConfig *pb = c->pb;

        if (pb->max_batch_size < 0)
                return error_in_field("max_batch_size",
                                      "'max_batch_size' must be non-negative value for %s",
                                      pb->name);
        if (pb->version_policy == NULL)
                return error_new(ERR_INVALID_ARG, "must specify 'version policy' for %s", pb->name);
        return check_counts(pb);
}

static struct error *check_priorities(const Inference__ModelConfig          *pb,
                                      const Inference__ModelDynamicBatching *dynamic) {
        uint64_t n_levels = dynamic->priority_levels;

        if (n_levels == 0)
                return NULL;
        if (dynamic->default_priority_level == 0 || dynamic->default_priority_level > n_levels)
                return error_in_field("default_priority_level",
                                      "default priority level must be in range [1, %" PRIu64
                                      "] for %s",
                                      n_levels, pb->name);
        for (size_t i = 0; i < dynamic->n_priority_queue_policy; i++) {
                uint64_t level = dynamic->priority_queue_policy[i]->key;

                if (level == 0 || level > n_levels)
                        return error_at(
                                error_new(ERR_INVALID_ARG,
                                          "priority queue policy must have priority level in range "
                                          "[1, %" PRIu64 "] for %s",
                                          n_levels, pb->name),
                                "priority_queue_policy[%zu].key", i);
        }
        return NULL;
}

static bool can_delay(const Inference__ModelQueuePolicy *policy) {
        return policy != NULL && policy->default_timeout_microseconds != 0 &&
               policy->timeout_action == INFERENCE__MODEL_QUEUE_POLICY__TIMEOUT_ACTION__DELAY;
}

/* Later requests would overtake a delayed request, or one of a lower level. */
static struct error *check_ordering(const Inference__ModelConfig          *pb,
                                    const Inference__ModelDynamicBatching *dynamic) {
        bool has_delay = can_delay(dynamic->default_queue_policy);

        if (!dynamic->preserve_ordering)
                return NULL;
        if (dynamic->priority_levels > 1)
                return error_in_field("preserve_ordering",
                                      "Only one priority level is allowed when 'preserve_ordering' "
                                      "is true for %s",
                                      pb->name);
        for (size_t i = 0; i < dynamic->n_priority_queue_policy; i++)
                has_delay = has_delay || can_delay(dynamic->priority_queue_policy[i]->value);
        if (has_delay)
                return error_in_field("preserve_ordering",
                                      "Queue policy can not have DELAY as timeout action when "
                                      "'preserve_ordering' is true for %s",
                                      pb->name);
        return NULL;
}

struct error *model_config_check_scheduling(const struct model_config *c) {
        const Inference__ModelConfig *pb = c->pb;

        switch (pb->scheduling_choice_case) {
        case INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING:
                TRY(error_at(check_preferred(pb, pb->dynamic_batching->preferred_batch_size,
                                             pb->dynamic_batching->n_preferred_batch_size,
                                             "dynamic batching preferred size",
                                             "preferred_batch_size"),
                             "dynamic_batching"));
                TRY(error_at(check_priorities(pb, pb->dynamic_batching), "dynamic_batching"));
                TRY(error_at(check_ordering(pb, pb->dynamic_batching), "dynamic_batching"));
                break;
        case INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_SEQUENCE_BATCHING:
                TRY(error_at(check_sequence_batching(pb), "sequence_batching"));
                break;
        case INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_ENSEMBLE_SCHEDULING:
                return check_ensemble(pb);
        default: break;
        }
        if (config_text_is(pb->platform, PLATFORM_ENSEMBLE))
                return error_in_field("platform",
                                      "ensemble scheduling must be set for ensemble %s whose "
                                      "platform is ensemble",
                                      pb->name);
        return NULL;
}

struct error *model_config_check_cache(const struct model_config *c) {
        if (!model_config_has_response_cache(c))
                return NULL;
        if (model_config_is_decoupled(c))
                return error_in_field(
                        "response_cache",
                        "Response Cache does not currently support model %s with 'decoupled' "
                        "transaction policy. Please disable the response cache.",
                        c->pb->name);
        if (c->pb->scheduling_choice_case ==
            INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_SEQUENCE_BATCHING)
                return error_in_field(
                        "response_cache",
                        "Response Cache does not currently support model %s with sequence batching "
                        "scheduler. Please disable the response cache.",
                        c->pb->name);
        return NULL;
}

static struct error *check_metric(const Inference__ModelMetrics__MetricControl *control) {
        if (control->metric_identifier == NULL)
                return error_new(ERR_INVALID_ARG,
                                 "metric control must specify 'metric_identifier'");
        if (!config_text_is_set(control->metric_identifier->family))
                return error_in_field("metric_identifier.family",
                                      "metric identifier must specify non-empty 'family'");
        if (control->metric_options_case !=
            INFERENCE__MODEL_METRICS__METRIC_CONTROL__METRIC_OPTIONS_HISTOGRAM_OPTIONS)
                return error_new(ERR_INVALID_ARG,
                                 "metric control must specify 'histogram_options'");
        if (control->histogram_options->n_buckets == 0)
                return error_in_field("histogram_options.buckets",
                                      "histogram options must specify non-empty 'buckets'");
        return NULL;
}

/* Each line of the model's metrics has all tags. */
#define MAX_TAGS 256
#define MAX_TAG_BYTES ((size_t)4 << 10)

static struct error *check_tags(const Inference__ModelConfig *pb) {
        size_t n_bytes = 0;

        if (pb->n_metric_tags > MAX_TAGS)
                return error_in_field("metric_tags",
                                      "model %s has %zu metric tags, at most %d are supported",
                                      pb->name, pb->n_metric_tags, MAX_TAGS);
        for (size_t i = 0; i < pb->n_metric_tags; i++)
                n_bytes += strlen(pb->metric_tags[i]->key) + strlen(pb->metric_tags[i]->value);
        if (n_bytes <= MAX_TAG_BYTES)
                return NULL;
        return error_in_field("metric_tags",
                              "metric tags of model %s have %zu bytes, at most %zu are supported",
                              pb->name, n_bytes, MAX_TAG_BYTES);
}

struct error *model_config_check_metrics(const struct model_config *c) {
        const Inference__ModelConfig *pb = c->pb;

        TRY(check_tags(pb));
        if (pb->model_metrics == NULL)
                return NULL;
        for (size_t i = 0; i < pb->model_metrics->n_metric_control; i++)
                TRY(error_at(check_metric(pb->model_metrics->metric_control[i]),
                             "model_metrics.metric_control[%zu]", i));
        return NULL;
}

struct error *model_config_check_chain(const struct model_config *c) {
        struct chain_line line;

        TRY(chain_line_read(c, &line));
        chain_line_done(&line);
        return NULL;
}

struct error *model_config_check(const struct model_config *c) {
        TRY(model_config_check_platform(c));
        TRY(model_config_check_general(c));
        TRY(model_config_check_scheduling(c));
        TRY(model_config_check_chain(c));
        TRY(model_config_check_cache(c));
        return model_config_check_metrics(c);
}

struct error *model_config_check_name(const struct model_config *c, const char *directory) {
        if (config_text_is(c->pb->name, directory))
                return NULL;
        return error_in_field("name",
                              "unexpected directory name '%s' for model '%s', directory name must "
                              "equal model name",
                              directory, c->pb->name);
}

/* ---- instance groups, once they are normalised ---- */

/* Each instance has a thread and a backend's state: no real configuration needs more. */
#define MAX_INSTANCES 4096

static struct error *refuse_group(const Inference__ModelConfig        *pb,
                                  const Inference__ModelInstanceGroup *group, const char *reason) {
        return error_new(ERR_INVALID_ARG, "instance group %s of model %s has %s", group->name,
                         pb->name, reason);
}

static struct error *unusable_gpu(const Inference__ModelConfig        *pb,
                                  const Inference__ModelInstanceGroup *group, int32_t gpu,
                                  const struct config_devices *devices) {
        AUTO_STRBUF list = { 0 };

        for (size_t i = 0; i < devices->n_gpus; i++)
                strbuf_printf(&list, i == 0 ? "%d" : ", %d", (int)devices->gpus[i]);
        TRY(strbuf_check(&list, "the list of GPUs"));
        return error_new(ERR_INVALID_ARG,
                         "instance group %s of model %s specifies invalid or unsupported gpu id "
                         "%d. GPUs with at least the minimum required CUDA compute compatibility "
                         "of %f are: %s",
                         group->name, pb->name, (int)gpu, devices->least_capability,
                         strbuf_cstr(&list));
}

static bool is_usable_gpu(const struct config_devices *devices, int32_t gpu) {
        for (size_t i = 0; i < devices->n_gpus; i++)
                if (devices->gpus[i] == gpu)
                        return true;
        return false;
}

static struct error *check_gpus(const Inference__ModelConfig        *pb,
                                const Inference__ModelInstanceGroup *group,
                                const struct config_devices         *devices) {
        if (devices->n_gpus == 0)
                return error_at(refuse_group(pb, group, "kind KIND_GPU but no GPUs are available"),
                                "kind");
        if (group->n_gpus == 0)
                return error_at(refuse_group(pb, group, "kind KIND_GPU but specifies no GPUs"),
                                "gpus");
        for (size_t i = 0; i < group->n_gpus; i++)
                if (!is_usable_gpu(devices, group->gpus[i]))
                        return error_at(unusable_gpu(pb, group, group->gpus[i], devices), "gpus");
        return NULL;
}

static struct error *check_group_kind(const Inference__ModelConfig        *pb,
                                      const Inference__ModelInstanceGroup *group,
                                      const struct config_devices         *devices) {
        switch (group->kind) {
        case INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_MODEL:
                if (group->n_gpus > 0)
                        return error_at(
                                refuse_group(pb, group,
                                             "kind KIND_MODEL but specifies one or more GPUs"),
                                "gpus");
                return NULL;
        case INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_GPU: return check_gpus(pb, group, devices);
        case INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_CPU:
                if (group->n_gpus > 0)
                        return error_at(
                                refuse_group(pb, group,
                                             "kind KIND_CPU but specifies one or more GPUs"),
                                "gpus");
                return NULL;
        default: return error_at(refuse_group(pb, group, "an unexpected kind"), "kind");
        }
}

static struct error *check_group_profile(const Inference__ModelConfig        *pb,
                                         const Inference__ModelInstanceGroup *group) {
        if (group->n_profile == 0 || config_text_is(pb->platform, "tensorrt_plan"))
                return NULL;
        return error_in_field("profile",
                              "instance group %s of model %s and platform %sspecifies profile "
                              "field which is only supported for TensorRT models",
                              group->name, pb->name, pb->platform);
}

static struct error *check_group_count(const Inference__ModelConfig        *pb,
                                       const Inference__ModelInstanceGroup *group, int64_t *n_all) {
        *n_all += (int64_t)group->count * (int64_t)MAX(group->n_gpus, 1);
        if (*n_all <= MAX_INSTANCES)
                return NULL;
        return error_new(ERR_INVALID_ARG,
                         "instance group %s of model %s has count %d: a model may have at most %d "
                         "instances in all",
                         group->name, pb->name, group->count, MAX_INSTANCES);
}

/* Each instance has needs of its own, and every execution looks at those of all instances that wait, under a
 * lock of all models. No real configuration has more than a few. */
#define MAX_RESOURCES 64

static struct error *check_group_resources(const Inference__ModelConfig        *pb,
                                           const Inference__ModelInstanceGroup *group,
                                           size_t                              *n_all) {
        size_t n = group->rate_limiter != NULL ? group->rate_limiter->n_resources : 0;

        if (n > MAX_RESOURCES)
                return error_new(ERR_INVALID_ARG,
                                 "instance group %s of model %s has %zu resources of "
                                 "'rate_limiter', at most %d are supported",
                                 group->name, pb->name, n, MAX_RESOURCES);
        *n_all += n;
        if (*n_all > MODEL_CONFIG_MAX_ELEMENTS)
                return error_new(ERR_INVALID_ARG,
                                 "the instance groups of model %s have more than %d resources of "
                                 "'rate_limiter'",
                                 pb->name, MODEL_CONFIG_MAX_ELEMENTS);
        return NULL;
}

struct error *model_config_check_groups(const struct model_config   *c,
                                        const struct config_devices *devices) {
        const Inference__ModelConfig *pb = c->pb;
        int64_t                       n_all = 0;
        size_t                        n_resources = 0;

        if (model_config_is_ensemble(c))
                return NULL;
        if (pb->n_instance_group == 0)
                return error_new(ERR_INVALID_ARG,
                                 "must specify one or more 'instance group's for %s", pb->name);
        for (size_t i = 0; i < pb->n_instance_group; i++) {
                TRY(error_at(check_group_kind(pb, pb->instance_group[i], devices),
                             "instance_group[%zu]", i));
                TRY(error_at(check_group_profile(pb, pb->instance_group[i]), "instance_group[%zu]",
                             i));
                TRY(error_at(check_group_count(pb, pb->instance_group[i], &n_all),
                             "instance_group[%zu].count", i));
                TRY(error_at(check_group_resources(pb, pb->instance_group[i], &n_resources),
                             "instance_group[%zu].rate_limiter.resources", i));
        }
        return batch_members_check(c);
}

/* ---- warm-up samples, without their files ---- */

static struct error *check_warmup_input(const char                          *name,
                                        const Inference__ModelWarmup__Input *input) {
        int64_t bytes =
                shape_byte_size((enum data_type)input->data_type, input->dims, input->n_dims);

        if (shape_element_count(input->dims, input->n_dims) == SHAPE_VARIABLE)
                return error_in_field("dims",
                                      "warmup setting expects all variable-size dimensions are "
                                      "specified for input '%s'",
                                      name);
        if (bytes == SHAPE_INVALID_DIM || bytes == SHAPE_OVERFLOW || bytes == SHAPE_BYTES_OVERFLOW)
                return error_in_field("dims",
                                      "warmup setting has dimensions out of range for input '%s'",
                                      name);
        if (input->input_data_type_case == INFERENCE__MODEL_WARMUP__INPUT__INPUT_DATA_TYPE__NOT_SET)
                /* A warm-up sample is a request without an id. */
                return error_new(ERR_INVALID_ARG,
                                 "[request id: <id_unknown>] warmup setting expects input '%s' to "
                                 "have input_data_type set",
                                 name);
        return NULL;
}

/* Larger than any real batch, and still little memory. */
#define MAX_WARMUP_BATCH 65536
/* A load has an end: of one sample, and the requests of all. */
#define MAX_WARMUP_COUNT 65536
#define MAX_WARMUP_REQUESTS (UINT64_C(1) << 26)

static struct error *check_warmup_size(const Inference__ModelWarmup *sample) {
        if (sample->batch_size > MAX_WARMUP_BATCH)
                return error_in_field(
                        "batch_size",
                        "warmup sample '%s' has batch_size %u, at most %d are supported",
                        sample->name, sample->batch_size, MAX_WARMUP_BATCH);
        if (sample->count > MAX_WARMUP_COUNT)
                return error_in_field("count",
                                      "warmup sample '%s' has count %u, at most %d are supported",
                                      sample->name, sample->count, MAX_WARMUP_COUNT);
        return NULL;
}

static struct error *check_warmup_requests(const Inference__ModelConfig *pb) {
        uint64_t n = 0; /* at most MODEL_CONFIG_MAX_ELEMENTS times 2^32 */

        for (size_t i = 0; i < pb->n_model_warmup; i++)
                n += (uint64_t)pb->model_warmup[i]->batch_size * MAX(pb->model_warmup[i]->count, 1);
        if (n <= MAX_WARMUP_REQUESTS)
                return NULL;
        return error_in_field("model_warmup",
                              "the warmup samples of model %s have %" PRIu64
                              " requests, batch_size times count of each, at most %" PRIu64
                              " are supported",
                              pb->name, n, MAX_WARMUP_REQUESTS);
}

struct error *model_config_check_warmup(const struct model_config *c) {
        for (size_t i = 0; i < c->pb->n_model_warmup; i++) {
                const Inference__ModelWarmup *sample = c->pb->model_warmup[i];

                if (sample->batch_size == 0)
                        continue; /* such a sample never runs */
                TRY(error_at(check_warmup_size(sample), "model_warmup[%zu]", i));
                for (size_t k = 0; k < sample->n_inputs; k++)
                        if (sample->inputs[k]->value != NULL)
                                TRY(error_at(check_warmup_input(sample->inputs[k]->key,
                                                                sample->inputs[k]->value),
                                             "model_warmup[%zu].inputs[%zu].value", i, k));
        }
        return check_warmup_requests(c->pb);
}
