/* SPDX-License-Identifier: BSD-3-Clause */
/* The rules of a configuration by itself; those of ensembles, sequences and tensors have tests
 * of their own.
 */
#include "suite.h"

#include "config/config_check.h"
#include "config_rows.h"

#include <stdio.h>

#define BASE "name: 'm' backend: 'b' max_batch_size: 8 "

static const struct config_row general_rows[] = {
        { BASE, NULL },
        { "backend: 'b'", "model configuration must specify 'name'" },
        { "name: 'm'", "unexpected platform type '' for m" },
        { "name: 'm' platform: 'odd'", "unexpected platform type 'odd' for m" },
        { "name: 'm' platform: 'chain' "
          "parameters { key: 'stages' value { string_value: 'a,b' } }",
          NULL },
        { "name: 'm' platform: 'chain'", "must specify parameter 'stages' for chain 'm'" },
        { "name: 'm' platform: 'ensemble' backend: 'b'",
          "Ensemble model 'm' must have platform type 'ensemble' and empty backend type" },
        { "name: 'm' platform: 'ensemble'",
          "ensemble scheduling must be set for ensemble m whose platform is ensemble" },
        { "name: 'm' platform: 'ensemble' dynamic_batching { }",
          "ensemble scheduling must be set for ensemble m whose platform is ensemble" },
        { "name: 'm' backend: 'b' max_batch_size: -1",
          "'max_batch_size' must be non-negative value for m" },
        /* platform and backend */
        { "name: 'm' backend: 'b' platform: 'mine'", NULL },
        { "name: 'm' backend: 'onnxruntime' platform: 'onnxruntime_onnx'", NULL },
        { "name: 'm' backend: 'tensorrt' platform: 'tensorrt_plan'", NULL },
        { "name: 'm' backend: 'tensorflow' platform: 'tensorflow_graphdef'", NULL },
        { "name: 'm' backend: 'tensorflow' platform: 'tensorflow_savedmodel'", NULL },
        { "name: 'm' backend: 'pytorch' platform: 'pytorch_libtorch'", NULL },
        { "name: 'm' backend: 'pytorch' platform: 'libtorch'", NULL },
        { "name: 'm' backend: 'pytorch' platform: 'torch_aoti'", NULL },
        { "name: 'm' backend: 'openvino'", NULL },
        { "name: 'm' backend: 'onnxruntime' platform: 'tensorrt_plan'",
          "unexpected 'platform' and 'backend' pair, got:tensorrt_plan, onnxruntime" },
        { "name: 'm' backend: 'onnxruntime'",
          "unexpected 'platform' and 'backend' pair, got:, onnxruntime" },
        { "name: 'm' backend: 'b' platform: 'onnxruntime_onnx'",
          "unexpected 'platform' and 'backend' pair, got:onnxruntime_onnx, b" },
        { "name: 'm' backend: 'pytorch' platform: 'mine'",
          "unexpected 'platform' and 'backend' pair, got:mine, pytorch" },
        /* response cache */
        { BASE "response_cache { enable: true }", NULL },
        { BASE "response_cache { } model_transaction_policy { decoupled: true }", NULL },
        { BASE "response_cache { enable: true } sequence_batching { }",
          "Response Cache does not currently support model m with sequence batching scheduler. "
          "Please disable the response cache." },
        { BASE "response_cache { enable: true } model_transaction_policy { decoupled: true }",
          "Response Cache does not currently support model m with 'decoupled' transaction policy. "
          "Please disable the response cache." },
        /* metrics */
        { BASE "model_metrics { metric_control { metric_identifier { family: 'f' }"
               " histogram_options { buckets: [1, 2.5] } } }",
          NULL },
        { BASE "model_metrics { }", NULL },
        { BASE "model_metrics { metric_control { } }",
          "metric control must specify 'metric_identifier'" },
        { BASE "model_metrics { metric_control { metric_identifier { } } }",
          "metric identifier must specify non-empty 'family'" },
        { BASE "model_metrics { metric_control { metric_identifier { family: 'f' } } }",
          "metric control must specify 'histogram_options'" },
        { BASE "model_metrics { metric_control { metric_identifier { family: 'f' }"
               " histogram_options { } } }",
          "histogram options must specify non-empty 'buckets'" },
};

#define DYNAMIC(text) BASE "dynamic_batching { " text " }"
#define ORDERED "preserve_ordering: true "

static const struct config_row batching_rows[] = {
        { DYNAMIC(""), NULL },
        { DYNAMIC("preferred_batch_size: [1, 8]"), NULL },
        { DYNAMIC("preferred_batch_size: [4, 0]"),
          "dynamic batching preferred size must be positive for m" },
        { DYNAMIC("preferred_batch_size: -2"),
          "dynamic batching preferred size must be positive for m" },
        { DYNAMIC("preferred_batch_size: [4, 9]"),
          "dynamic batching preferred size must be <= max batch size for m" },
        { "name: 'm' backend: 'b' dynamic_batching { preferred_batch_size: 1 }",
          "dynamic batching preferred size must be <= max batch size for m" },
        { DYNAMIC("priority_levels: 2 default_priority_level: 2"), NULL },
        { DYNAMIC("priority_levels: 2"), "default priority level must be in range [1, 2] for m" },
        { DYNAMIC("priority_levels: 18446744073709551615"),
          "default priority level must be in range [1, 18446744073709551615] for m" },
        { DYNAMIC("priority_levels: 2 default_priority_level: 3"),
          "default priority level must be in range [1, 2] for m" },
        { DYNAMIC("default_priority_level: 3"), NULL },
        { DYNAMIC("priority_levels: 2 default_priority_level: 1 priority_queue_policy { key: 2 }"),
          NULL },
        { DYNAMIC("priority_levels: 2 default_priority_level: 1 priority_queue_policy { key: 3 }"),
          "priority queue policy must have priority level in range [1, 2] for m" },
        { DYNAMIC("priority_levels: 2 default_priority_level: 1 priority_queue_policy { key: 0 }"),
          "priority queue policy must have priority level in range [1, 2] for m" },
        { DYNAMIC("priority_queue_policy { key: 9 }"), NULL },
        { DYNAMIC(ORDERED "priority_levels: 1 default_priority_level: 1"), NULL },
        { DYNAMIC(ORDERED "priority_levels: 2 default_priority_level: 1"),
          "Only one priority level is allowed when 'preserve_ordering' is true for m" },
        { DYNAMIC(ORDERED "default_queue_policy { timeout_action: REJECT"
                          " default_timeout_microseconds: 5 }"),
          NULL },
        { DYNAMIC(ORDERED "default_queue_policy { timeout_action: DELAY }"), NULL },
        { DYNAMIC("default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 5 }"),
          NULL },
        { DYNAMIC(ORDERED "default_queue_policy { timeout_action: DELAY"
                          " default_timeout_microseconds: 5 }"),
          "Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true for "
          "m" },
        { DYNAMIC(ORDERED "priority_levels: 1 default_priority_level: 1 priority_queue_policy {"
                          " key: 1 value { timeout_action: DELAY default_timeout_microseconds: 5 }"
                          " }"),
          "Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true for "
          "m" },
};

static void test_general(void **state) {
        (void)state;
        run_normalized_rows(general_rows, ARRAY_LEN(general_rows), model_config_check);
}

static void test_batching(void **state) {
        (void)state;
        run_normalized_rows(batching_rows, ARRAY_LEN(batching_rows), model_config_check);
}

static void test_not_normalized(void **state) {
        static const struct config_row rows[] = {
                { BASE, "must specify 'version policy' for m" },
        };

        (void)state;
        run_rows(rows, ARRAY_LEN(rows), model_config_check);
}

static void test_name(void **state) {
        struct model_config *c = config_of("name: 'm'");

        (void)state;
        assert_null(model_config_check_name(c, "m"));
        assert_outcome(model_config_check_name(c, "d"), ERR_INVALID_ARG,
                       "unexpected directory name 'd' for model 'm', directory name must equal "
                       "model name",
                       "name: 'm'");
        model_config_free(c);
}

#define GROUP(text) "name: 'm' backend: 'b' instance_group { name: 'g' " text " }"

static struct error *check_groups_without_gpu(const struct model_config *c) {
        return model_config_check_groups(c, &(struct config_devices){ .n_gpus = 0 });
}

static struct error *check_groups_with_gpu(const struct model_config *c) {
        static const int32_t gpus[] = { 0, 2 };

        return model_config_check_groups(c, &(struct config_devices){ .gpus = gpus,
                                                                      .n_gpus = 2,
                                                                      .least_capability = 6 });
}

static void test_groups(void **state) {
        static const struct config_row rows[] = {
                { GROUP("kind: KIND_CPU"), NULL },
                { GROUP("kind: KIND_MODEL"), NULL },
                { "name: 'm' ensemble_scheduling { }", NULL },
                { "name: 'm' backend: 'b'", "must specify one or more 'instance group's for m" },
                { GROUP("kind: KIND_MODEL gpus: 0"), "instance group g of model m has kind "
                                                     "KIND_MODEL but specifies one or more GPUs" },
                { GROUP("kind: KIND_CPU gpus: 0"),
                  "instance group g of model m has kind KIND_CPU but specifies one or more GPUs" },
                { GROUP("kind: KIND_GPU"), "instance group g of model m has kind KIND_GPU but "
                                           "no GPUs are available" },
                { GROUP("kind: KIND_GPU gpus: 0"), "instance group g of model m has kind KIND_GPU "
                                                   "but no GPUs are available" },
                { GROUP("kind: KIND_AUTO"), "instance group g of model m has an unexpected kind" },
                { GROUP("kind: KIND_CPU profile: '0'"),
                  "instance group g of model m and platform specifies profile field which is only "
                  "supported for TensorRT models" },
                { "platform: 'odd' " GROUP("kind: KIND_CPU profile: '0'"),
                  "instance group g of model m and platform oddspecifies profile field which is "
                  "only supported for TensorRT models" },
                { "platform: 'tensorrt_plan' " GROUP("kind: KIND_CPU profile: '0'"), NULL },
                { GROUP("kind: KIND_CPU") " instance_group { name: 'h' kind: KIND_CPU gpus: 1 }",
                  "instance group h of model m has kind KIND_CPU but specifies one or more GPUs" },
        };
        static const struct config_row gpu_rows[] = {
                { GROUP("kind: KIND_GPU gpus: 0"), NULL },
                { GROUP("kind: KIND_GPU count: 2048 gpus: [0, 2]"), NULL },
                { GROUP("kind: KIND_GPU count: 2049 gpus: [0, 2]"),
                  "instance group g of model m has count 2049: a model may have at most 4096 "
                  "instances in all" },
                { GROUP("kind: KIND_GPU"),
                  "instance group g of model m has kind KIND_GPU but specifies no GPUs" },
                { GROUP("kind: KIND_GPU gpus: [2, 1]"),
                  "instance group g of model m specifies invalid or unsupported gpu id 1. GPUs "
                  "with at least the minimum required CUDA compute compatibility of 6.000000 are: "
                  "0, 2" },
                { GROUP("kind: KIND_GPU gpus: -1"),
                  "instance group g of model m specifies invalid or unsupported gpu id -1. GPUs "
                  "with at least the minimum required CUDA compute compatibility of 6.000000 are: "
                  "0, 2" },
                { GROUP("kind: KIND_CPU gpus: 0"),
                  "instance group g of model m has kind KIND_CPU but specifies one or more GPUs" },
                { GROUP("kind: KIND_MODEL gpus: 0"), "instance group g of model m has kind "
                                                     "KIND_MODEL but specifies one or more GPUs" },
        };

        (void)state;
        run_rows(rows, ARRAY_LEN(rows), check_groups_without_gpu);
        run_rows(gpu_rows, ARRAY_LEN(gpu_rows), check_groups_with_gpu);
}

#define SAMPLE(size, input)                                                                        \
        "name: 'm' model_warmup { name: 's' batch_size: " #size                                    \
        " inputs { key: 'I' value { data_type: TYPE_FP32 " input " } } }"

#define RUNS(size, count) "model_warmup { name: 's' batch_size: " #size " count: " #count " } "

static void test_warmup(void **state) {
        static const struct config_row rows[] = {
                { SAMPLE(1, "dims: [2, 3] zero_data: true"), NULL },
                { SAMPLE(1, "dims: 2 random_data: false"), NULL },
                { SAMPLE(1, "dims: 2 input_data_file: 'f'"), NULL },
                { SAMPLE(1, "zero_data: true"), NULL },
                { SAMPLE(1, "dims: [2, -1] zero_data: true"),
                  "warmup setting expects all variable-size dimensions are specified for input "
                  "'I'" },
                { SAMPLE(0, "dims: -1"), NULL },
                { SAMPLE(2, "dims: 2"),
                  "[request id: <id_unknown>] warmup setting expects input 'I' to have "
                  "input_data_type set" },
                { SAMPLE(1, "dims: [2, -3] zero_data: true"),
                  "warmup setting has dimensions out of range for input 'I'" },
                { SAMPLE(1, "dims: 4611686018427387904 zero_data: true"),
                  "warmup setting has dimensions out of range for input 'I'" },
                { SAMPLE(65536, "dims: 2 zero_data: true"), NULL },
                { SAMPLE(65537, "dims: 2 zero_data: true"),
                  "warmup sample 's' has batch_size 65537, at most 65536 are supported" },
                { RUNS(0, 4294967295), NULL },
                { RUNS(1, 65536), NULL },
                { RUNS(1, 65537),
                  "warmup sample 's' has count 65537, at most 65536 are supported" },
                { RUNS(1024, 65535) SAMPLE(1024, "dims: 2 zero_data: true"), NULL },
                { RUNS(1024, 65535) SAMPLE(1025, "dims: 2 zero_data: true"),
                  "the warmup samples of model m have 67108865 requests, batch_size times count of "
                  "each, at most 67108864 are supported" },
        };

        (void)state;
        run_rows(rows, ARRAY_LEN(rows), model_config_check_warmup);
}

/* The text with the number in the place of each '#'. */
static void add_numbered(struct strbuf *to, const char *text, size_t number) {
        for (; *text != '\0'; text++)
                if (*text == '#')
                        strbuf_printf(to, "%zu", number);
                else
                        strbuf_putc(to, *text);
}

/* `n` copies of the text behind the base, which is read and checked. */
static struct error *check_many(const char *before, const char *text, size_t n, const char *after) {
        struct model_config *c;
        struct strbuf        all;
        struct error        *err;

        strbuf_init(&all, 0);
        strbuf_puts(&all, "version_policy { latest { num_versions: 1 } } " BASE);
        strbuf_puts(&all, before);
        for (size_t i = 0; i < n; i++)
                add_numbered(&all, text, i);
        strbuf_puts(&all, after);
        c = config_of(strbuf_cstr(&all));
        err = model_config_check(c);
        model_config_free(c);
        strbuf_done(&all);
        return err;
}

static void test_lists_have_a_limit(void **state) {
        static const struct {
                const char *field, *before, *text, *after;
        } rows[] = {
                { "input", "", "input { name: '#' data_type: TYPE_FP32 } ", "" },
                { "output", "", "output { name: '#' data_type: TYPE_FP32 } ", "" },
                { "batch_input", "", "batch_input { data_type: TYPE_INT32 } ", "" },
                { "batch_output", "", "batch_output { source_input: '#' } ", "" },
                { "model_warmup", "", "model_warmup { name: '#' } ", "" },
                { "control_input", "sequence_batching { ", "control_input { name: '#' } ", "}" },
                { "state", "sequence_batching { ", "state { input_name: '#' } ", "}" },
                { "preferred_batch_size", "dynamic_batching { ", "preferred_batch_size: 8 ", "}" },
                { "preferred_batch_size", "sequence_batching { oldest { ",
                  "preferred_batch_size: 8 ", "} }" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct error *err = check_many(rows[i].before, rows[i].text,
                                               MODEL_CONFIG_MAX_ELEMENTS + 1, rows[i].after);
                char          expected[128];

                snprintf(expected, sizeof(expected),
                         "model m has 4097 elements of '%s', at most 4096 are supported",
                         rows[i].field);
                assert_outcome(err, ERR_INVALID_ARG, expected, rows[i].field);
        }
        assert_accepted(check_many("", rows[0].text, MODEL_CONFIG_MAX_ELEMENTS, ""), "input");
}

/* `n_groups` groups of `n_resources` each are normalised and checked. */
static struct error *check_resources(size_t n_groups, size_t n_resources) {
        struct strbuf        text = { 0 };
        struct model_config *c;
        struct error        *err;

        strbuf_puts(&text, "name: 'm' backend: 'b' ");
        for (size_t i = 0; i < n_groups; i++) {
                strbuf_printf(&text, "instance_group { name: 'g%zu' kind: KIND_CPU rate_limiter { ",
                              i);
                for (size_t k = 0; k < n_resources; k++)
                        strbuf_printf(&text, "resources { name: 'R%zu' count: 1 } ", k);
                strbuf_puts(&text, "} } ");
        }
        c = config_of(strbuf_cstr(&text));
        err = check_groups_without_gpu(c);
        model_config_free(c);
        strbuf_done(&text);
        return err;
}

/* Each instance has needs of its own. */
static void test_resources_have_a_limit(void **state) {
        (void)state;
        assert_accepted(check_resources(64, 64), "64 groups with 64 resources");
        assert_outcome(check_resources(1, 65), ERR_INVALID_ARG,
                       "instance group g0 of model m has 65 resources of 'rate_limiter', at most "
                       "64 are supported",
                       "65 resources");
        assert_outcome(check_resources(65, 64), ERR_INVALID_ARG,
                       "the instance groups of model m have more than 4096 resources of "
                       "'rate_limiter'",
                       "65 groups");
}

/* Tags are on each line of the metrics. */
static void test_metric_tags_have_a_limit(void **state) {
        char          value[4096 - 16 + 1];
        struct strbuf long_tag;

        (void)state;
        assert_outcome(check_many("", "metric_tags { key: '#' value: 'v' } ", 256, ""), ERR_UNKNOWN,
                       NULL, "256 tags");
        assert_outcome(check_many("", "metric_tags { key: '#' value: 'v' } ", 257, ""),
                       ERR_INVALID_ARG, "model m has 257 metric tags, at most 256 are supported",
                       "257 tags");
        memset(value, 'v', sizeof(value) - 1);
        value[sizeof(value) - 1] = '\0';
        for (int n_more = 0; n_more < 2; n_more++) {
                strbuf_init(&long_tag, 0);
                strbuf_printf(&long_tag, "metric_tags { key: 'a key of 16 byte%s' value: '%s' } ",
                              n_more > 0 ? "s" : "", value);
                assert_outcome(check_many(strbuf_cstr(&long_tag), "", 0, ""), ERR_INVALID_ARG,
                               n_more > 0 ? "metric tags of model m have 4097 bytes, at most "
                                            "4096 are supported"
                                          : NULL,
                               "a long tag");
                strbuf_done(&long_tag);
        }
}

SUITE(config_check) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_general),
                cmocka_unit_test(test_batching),
                cmocka_unit_test(test_not_normalized),
                cmocka_unit_test(test_name),
                cmocka_unit_test(test_groups),
                cmocka_unit_test(test_warmup),
                cmocka_unit_test(test_lists_have_a_limit),
                cmocka_unit_test(test_metric_tags_have_a_limit),
                cmocka_unit_test(test_resources_have_a_limit),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
