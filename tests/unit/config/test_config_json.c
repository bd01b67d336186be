/* SPDX-License-Identifier: BSD-3-Clause */
/* Configurations as an author writes them, and the complete JSON that the server prints for each
 * after normalisation, on a machine without GPUs and for a backend without preferences.
 */
#include "suite.h"

#include "config/config_check.h"
#include "config_rows.h"

static const char minimal_text[] = "name: 'minimal'\n"
                                   "backend: 'identity'\n";

static const char minimal_json[] =
        "{\"name\":\"minimal\",\"platform\":\"\",\"backend\":\"identity\",\"runtime\":\"\","
        "\"version_policy\":{\"latest\":{\"num_versions\":1}},\"max_batch_size\":0,\"input\":[],"
        "\"output\":[],\"batch_input\":[],\"batch_output\":[],"
        "\"optimization\":{\"priority\":\"PRIORITY_DEFAULT\","
        "\"input_pinned_memory\":{\"enable\":true},\"output_pinned_memory\":{\"enable\":true},"
        "\"gather_kernel_buffer_threshold\":0,\"eager_batching\":false},"
        "\"instance_group\":[{\"name\":\"minimal\",\"kind\":\"KIND_CPU\",\"count\":1,\"gpus\":[],"
        "\"secondary_devices\":[],\"profile\":[],\"passive\":false,\"host_policy\":\"\"}],"
        "\"default_model_filename\":\"\",\"cc_model_filenames\":{},\"metric_tags\":{},"
        "\"parameters\":{},\"model_warmup\":[]}";

static const char batched_text[] =
        "name: 'batched'\n"
        "platform: 'onnxruntime_onnx'\n"
        "backend: 'onnxruntime'\n"
        "max_batch_size: 16\n"
        "input [ { name: 'IN' data_type: TYPE_FP32 format: FORMAT_NCHW dims: [ 3, -1, 224 ] },\n"
        "        { name: 'LEN' data_type: TYPE_INT64 dims: 1 reshape { shape: [ ] } optional: "
        "true } ]\n"
        "output { name: 'OUT' data_type: TYPE_STRING dims: [ 10, 100 ] reshape { shape: 1000 } "
        "label_filename: 'labels.txt' }\n"
        "dynamic_batching {\n"
        "  preferred_batch_size: [ 4, 8 ]\n"
        "  max_queue_delay_microseconds: 18446744073709551615\n"
        "  preserve_ordering: true\n"
        "  priority_levels: 1\n"
        "  default_priority_level: 1\n"
        "}\n"
        "version_policy: { specific: { versions: [ 1, 9223372036854775807 ] } }\n"
        "default_model_filename: 'model.onnx'\n";

static const char batched_json[] =
        "{\"name\":\"batched\",\"platform\":\"onnxruntime_onnx\",\"backend\":\"onnxruntime\","
        "\"runtime\":\"\",\"version_policy\":{\"specific\":{\"versions\":[1,"
        "9223372036854775807]}},\"max_batch_size\":16,\"input\":[{\"name\":\"IN\","
        "\"data_type\":\"TYPE_FP32\",\"format\":\"FORMAT_NCHW\",\"dims\":[3,-1,224],"
        "\"is_shape_tensor\":false,\"allow_ragged_batch\":false,\"optional\":false,"
        "\"is_non_linear_format_io\":false},{\"name\":\"LEN\",\"data_type\":\"TYPE_INT64\","
        "\"format\":\"FORMAT_NONE\",\"dims\":[1],\"reshape\":{\"shape\":[]},"
        "\"is_shape_tensor\":false,\"allow_ragged_batch\":false,\"optional\":true,"
        "\"is_non_linear_format_io\":false}],\"output\":[{\"name\":\"OUT\","
        "\"data_type\":\"TYPE_STRING\",\"dims\":[10,100],\"reshape\":{\"shape\":[1000]},"
        "\"label_filename\":\"labels.txt\",\"is_shape_tensor\":false,"
        "\"is_non_linear_format_io\":false}],\"batch_input\":[],\"batch_output\":[],"
        "\"optimization\":{\"priority\":\"PRIORITY_DEFAULT\","
        "\"input_pinned_memory\":{\"enable\":true},\"output_pinned_memory\":{\"enable\":true},"
        "\"gather_kernel_buffer_threshold\":0,\"eager_batching\":false},"
        "\"dynamic_batching\":{\"preferred_batch_size\":[4,8],"
        "\"max_queue_delay_microseconds\":18446744073709551615,\"preserve_ordering\":true,"
        "\"priority_levels\":1,\"default_priority_level\":1,\"priority_queue_policy\":{}},"
        "\"instance_group\":[{\"name\":\"batched\",\"kind\":\"KIND_CPU\",\"count\":2,\"gpus\":[],"
        "\"secondary_devices\":[],\"profile\":[],\"passive\":false,\"host_policy\":\"\"}],"
        "\"default_model_filename\":\"model.onnx\",\"cc_model_filenames\":{},\"metric_tags\":{},"
        "\"parameters\":{},\"model_warmup\":[]}";

static const char sequence_text[] =
        "name: 'sequence'\n"
        "backend: 'b'\n"
        "max_batch_size: 4\n"
        "sequence_batching {\n"
        "  oldest { max_candidate_sequences: 8 preferred_batch_size: 4 "
        "max_queue_delay_microseconds: 100 preserve_ordering: true }\n"
        "  max_sequence_idle_microseconds: 5000000\n"
        "  control_input [ { name: 'START' control { kind: CONTROL_SEQUENCE_START "
        "fp32_false_true: [ -0.5, 1.5 ] } },\n"
        "                  { name: 'READY' control { kind: CONTROL_SEQUENCE_READY "
        "bool_false_true: [ false, true ] } },\n"
        "                  { name: 'CORRID' control { kind: CONTROL_SEQUENCE_CORRID data_type: "
        "TYPE_UINT64 } } ]\n"
        "  state [ { input_name: 'S_IN' output_name: 'S_OUT' data_type: TYPE_INT32 dims: [ -1, 4 "
        "]\n"
        "            initial_state { name: 'first' data_type: TYPE_INT32 dims: [ 1, 4 ] "
        "zero_data: true } },\n"
        "          { input_name: 'T_IN' output_name: 'T_OUT' data_type: TYPE_FP16 dims: 2 "
        "use_same_buffer_for_input_output: true\n"
        "            initial_state { name: 'file' data_type: TYPE_FP16 dims: 2 data_file: 't0' } "
        "} ]\n"
        "}\n";

static const char sequence_json[] =
        "{\"name\":\"sequence\",\"platform\":\"\",\"backend\":\"b\",\"runtime\":\"\","
        "\"version_policy\":{\"latest\":{\"num_versions\":1}},\"max_batch_size\":4,\"input\":[],"
        "\"output\":[],\"batch_input\":[],\"batch_output\":[],"
        "\"optimization\":{\"priority\":\"PRIORITY_DEFAULT\","
        "\"input_pinned_memory\":{\"enable\":true},\"output_pinned_memory\":{\"enable\":true},"
        "\"gather_kernel_buffer_threshold\":0,\"eager_batching\":false},"
        "\"sequence_batching\":{\"oldest\":{\"max_candidate_sequences\":8,"
        "\"preferred_batch_size\":[4],\"max_queue_delay_microseconds\":100,"
        "\"preserve_ordering\":true},\"max_sequence_idle_microseconds\":5000000,"
        "\"control_input\":[{\"name\":\"START\","
        "\"control\":[{\"kind\":\"CONTROL_SEQUENCE_START\",\"int32_false_true\":[],"
        "\"fp32_false_true\":[-0.5,1.5],\"bool_false_true\":[],\"data_type\":\"TYPE_INVALID\"}]},"
        "{\"name\":\"READY\",\"control\":[{\"kind\":\"CONTROL_SEQUENCE_READY\","
        "\"int32_false_true\":[],\"fp32_false_true\":[],\"bool_false_true\":[false,true],"
        "\"data_type\":\"TYPE_INVALID\"}]},{\"name\":\"CORRID\","
        "\"control\":[{\"kind\":\"CONTROL_SEQUENCE_CORRID\",\"int32_false_true\":[],"
        "\"fp32_false_true\":[],\"bool_false_true\":[],\"data_type\":\"TYPE_UINT64\"}]}],"
        "\"state\":[{\"input_name\":\"S_IN\",\"output_name\":\"S_OUT\","
        "\"data_type\":\"TYPE_INT32\",\"dims\":[-1,4],"
        "\"initial_state\":[{\"data_type\":\"TYPE_INT32\",\"dims\":[\"1\",\"4\"],"
        "\"zero_data\":true,\"name\":\"first\"}],\"use_same_buffer_for_input_output\":false,"
        "\"use_growable_memory\":false},{\"input_name\":\"T_IN\",\"output_name\":\"T_OUT\","
        "\"data_type\":\"TYPE_FP16\",\"dims\":[2],"
        "\"initial_state\":[{\"data_type\":\"TYPE_FP16\",\"dims\":[\"2\"],\"data_file\":\"t0\","
        "\"name\":\"file\"}],\"use_same_buffer_for_input_output\":true,"
        "\"use_growable_memory\":false}],\"iterative_sequence\":false},"
        "\"instance_group\":[{\"name\":\"sequence\",\"kind\":\"KIND_CPU\",\"count\":1,"
        "\"gpus\":[],\"secondary_devices\":[],\"profile\":[],\"passive\":false,"
        "\"host_policy\":\"\"}],\"default_model_filename\":\"\",\"cc_model_filenames\":{},"
        "\"metric_tags\":{},\"parameters\":{},\"model_warmup\":[]}";

static const char ensemble_text[] =
        "name: 'pipeline'\n"
        "platform: 'ensemble'\n"
        "max_batch_size: 1\n"
        "input { name: 'RAW' data_type: TYPE_UINT8 dims: -1 }\n"
        "output { name: 'SCORE' data_type: TYPE_FP32 dims: 10 }\n"
        "ensemble_scheduling {\n"
        "  step { model_name: 'prepare' model_version: -1\n"
        "         input_map { key: 'IMAGE' value: 'RAW' } output_map { key: 'TENSOR' value: "
        "'prepared' } }\n"
        "  step { model_name: 'classify' model_version: 2 model_namespace: 'repo'\n"
        "         input_map { key: 'B' value: 'prepared' } input_map { key: 'A' value: 'RAW' }\n"
        "         output_map { key: 'OUT' value: 'SCORE' } }\n"
        "  max_inflight_requests: 3\n"
        "}\n";

static const char ensemble_json[] =
        "{\"name\":\"pipeline\",\"platform\":\"ensemble\",\"backend\":\"\",\"runtime\":\"\","
        "\"version_policy\":{\"latest\":{\"num_versions\":1}},\"max_batch_size\":1,"
        "\"input\":[{\"name\":\"RAW\",\"data_type\":\"TYPE_UINT8\",\"format\":\"FORMAT_NONE\","
        "\"dims\":[-1],\"is_shape_tensor\":false,\"allow_ragged_batch\":false,\"optional\":false,"
        "\"is_non_linear_format_io\":false}],\"output\":[{\"name\":\"SCORE\","
        "\"data_type\":\"TYPE_FP32\",\"dims\":[10],\"label_filename\":\"\","
        "\"is_shape_tensor\":false,\"is_non_linear_format_io\":false}],\"batch_input\":[],"
        "\"batch_output\":[],\"ensemble_scheduling\":{\"step\":[{\"model_name\":\"prepare\","
        "\"model_version\":-1,\"input_map\":{\"IMAGE\":\"RAW\"},"
        "\"output_map\":{\"TENSOR\":\"prepared\"},\"model_namespace\":\"\"},"
        "{\"model_name\":\"classify\",\"model_version\":2,\"input_map\":{\"B\":\"prepared\","
        "\"A\":\"RAW\"},\"output_map\":{\"OUT\":\"SCORE\"},\"model_namespace\":\"repo\"}],"
        "\"max_inflight_requests\":3},\"instance_group\":[],\"default_model_filename\":\"\","
        "\"cc_model_filenames\":{},\"metric_tags\":{},\"parameters\":{},\"model_warmup\":[]}";

static const char warm_text[] =
        "name: 'warm'\n"
        "backend: 'python'\n"
        "max_batch_size: 2\n"
        "instance_group [ { count: 2 kind: KIND_CPU host_policy: 'policy_0'\n"
        "                   rate_limiter { resources { name: 'R1' global: true count: 10 } "
        "resources { name: 'R2' count: 1 } priority: 2 } },\n"
        "                 { name: 'second' kind: KIND_MODEL passive: true\n"
        "                   secondary_devices { device_id: 9007199254740993 } } ]\n"
        "parameters { key: \"b\" value { string_value: \"2 \\\"quoted\\\" \\\\ \\n\\t\\001/é\" } "
        "}\n"
        "parameters { key: 'a' value { } }\n"
        "model_warmup [ { name: 'zero' batch_size: 1\n"
        "                 inputs { key: 'IN' value { data_type: TYPE_FP32 dims: [ 3, 4 ] "
        "zero_data: true } } },\n"
        "               { name: 'file' batch_size: 2 count: 3\n"
        "                 inputs { key: 'IN' value { data_type: TYPE_STRING dims: 1 "
        "input_data_file: 'raw' } }\n"
        "                 inputs { key: 'RND' value { data_type: TYPE_BF16 dims: 4 random_data: "
        "true } } } ]\n"
        "default_model_filename: 'model.py'\n";

static const char warm_json[] =
        "{\"name\":\"warm\",\"platform\":\"\",\"backend\":\"python\",\"runtime\":\"\","
        "\"version_policy\":{\"latest\":{\"num_versions\":1}},\"max_batch_size\":2,\"input\":[],"
        "\"output\":[],\"batch_input\":[],\"batch_output\":[],"
        "\"optimization\":{\"priority\":\"PRIORITY_DEFAULT\","
        "\"input_pinned_memory\":{\"enable\":true},\"output_pinned_memory\":{\"enable\":true},"
        "\"gather_kernel_buffer_threshold\":0,\"eager_batching\":false},"
        "\"instance_group\":[{\"name\":\"warm_0\",\"kind\":\"KIND_CPU\",\"count\":2,"
        "\"rate_limiter\":{\"resources\":[{\"name\":\"R1\",\"global\":true,\"count\":10},"
        "{\"name\":\"R2\",\"global\":false,\"count\":1}],\"priority\":2},\"gpus\":[],"
        "\"secondary_devices\":[],\"profile\":[],\"passive\":false,\"host_policy\":\"policy_0\"},"
        "{\"name\":\"second\",\"kind\":\"KIND_MODEL\",\"count\":1,\"gpus\":[],"
        "\"secondary_devices\":[{\"kind\":\"KIND_NVDLA\",\"device_id\":\"9007199254740993\"}],"
        "\"profile\":[],\"passive\":true,\"host_policy\":\"\"}],"
        "\"default_model_filename\":\"model.py\",\"cc_model_filenames\":{},\"metric_tags\":{},"
        "\"parameters\":{\"b\":{\"string_value\":\"2 \\\"quoted\\\" \\\\ \\n\\t\\u0001/é\"},"
        "\"a\":{\"string_value\":\"\"}},\"model_warmup\":[{\"name\":\"zero\",\"batch_size\":1,"
        "\"inputs\":{\"IN\":{\"data_type\":\"TYPE_FP32\",\"dims\":[3,4],\"zero_data\":true}},"
        "\"count\":0},{\"name\":\"file\",\"batch_size\":2,"
        "\"inputs\":{\"IN\":{\"data_type\":\"TYPE_STRING\",\"dims\":[1],"
        "\"input_data_file\":\"raw\"},\"RND\":{\"data_type\":\"TYPE_BF16\",\"dims\":[4],"
        "\"random_data\":true}},\"count\":3}]}";

static const char queues_text[] =
        "name: 'queues'\n"
        "backend: 'b'\n"
        "max_batch_size: 8\n"
        "dynamic_batching {\n"
        "  priority_levels: 3\n"
        "  default_priority_level: 2\n"
        "  default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 1000 }\n"
        "  priority_queue_policy { key: 3 value { allow_timeout_override: true max_queue_size: "
        "4294967295 default_timeout_microseconds: 7 } }\n"
        "  priority_queue_policy { key: 1 value { max_queue_size: 1 } }\n"
        "}\n";

static const char queues_json[] =
        "{\"name\":\"queues\",\"platform\":\"\",\"backend\":\"b\",\"runtime\":\"\","
        "\"version_policy\":{\"latest\":{\"num_versions\":1}},\"max_batch_size\":8,\"input\":[],"
        "\"output\":[],\"batch_input\":[],\"batch_output\":[],"
        "\"optimization\":{\"priority\":\"PRIORITY_DEFAULT\","
        "\"input_pinned_memory\":{\"enable\":true},\"output_pinned_memory\":{\"enable\":true},"
        "\"gather_kernel_buffer_threshold\":0,\"eager_batching\":false},"
        "\"dynamic_batching\":{\"preferred_batch_size\":[8],\"max_queue_delay_microseconds\":0,"
        "\"preserve_ordering\":false,\"priority_levels\":3,\"default_priority_level\":2,"
        "\"default_queue_policy\":{\"timeout_action\":\"DELAY\","
        "\"default_timeout_microseconds\":1000,\"allow_timeout_override\":false,"
        "\"max_queue_size\":0},\"priority_queue_policy\":{\"3\":{\"timeout_action\":\"REJECT\","
        "\"default_timeout_microseconds\":7,\"allow_timeout_override\":true,"
        "\"max_queue_size\":4294967295},\"1\":{\"timeout_action\":\"REJECT\","
        "\"default_timeout_microseconds\":0,\"allow_timeout_override\":false,"
        "\"max_queue_size\":1}}},\"instance_group\":[{\"name\":\"queues\",\"kind\":\"KIND_CPU\","
        "\"count\":1,\"gpus\":[],\"secondary_devices\":[],\"profile\":[],\"passive\":false,"
        "\"host_policy\":\"\"}],\"default_model_filename\":\"\",\"cc_model_filenames\":{},"
        "\"metric_tags\":{},\"parameters\":{},\"model_warmup\":[]}";

static const char rest_text[] =
        "name: 'rest'\n"
        "backend: 'b'\n"
        "platform: 'p'\n"
        "runtime: 'libtriton_other.so'\n"
        "max_batch_size: 8\n"
        "version_policy { latest { num_versions: 3 } }\n"
        "input { name: 'I' data_type: TYPE_FP32 dims: -1 allow_ragged_batch: true }\n"
        "output { name: 'O' data_type: TYPE_FP32 dims: -1 }\n"
        "batch_input { kind: BATCH_ACCUMULATED_ELEMENT_COUNT target_name: 'INDEX' data_type: "
        "TYPE_INT32 source_input: 'I' }\n"
        "batch_output { target_name: 'O' kind: BATCH_SCATTER_WITH_INPUT_SHAPE source_input: 'I' "
        "}\n"
        "optimization {\n"
        "  graph { level: -1 }\n"
        "  priority: PRIORITY_MIN\n"
        "  cuda { graphs: true graph_spec { batch_size: 4 input { key: 'I' value { dim: [ 3, 4 ] "
        "} }\n"
        "         graph_lower_bound { batch_size: 1 input { key: 'I' value { dim: 1 } } } } }\n"
        "  execution_accelerators { cpu_execution_accelerator { name: 'openvino' parameters { "
        "key: 'k' value: 'v' } } }\n"
        "  input_pinned_memory { enable: false }\n"
        "  gather_kernel_buffer_threshold: 7\n"
        "  eager_batching: true\n"
        "}\n"
        "cc_model_filenames { key: '7.5' value: 'model_75.plan' }\n"
        "metric_tags { key: 'team' value: 'vision' }\n"
        "model_operations { op_library_filename: [ 'a.so', 'b.so' ] }\n"
        "model_transaction_policy { decoupled: true }\n"
        "model_repository_agents { agents { name: 'checksum' parameters { key: 'MD5:1/f' value: "
        "'0f' } } agents { name: 'second' } }\n"
        "response_cache { enable: false }\n"
        "model_metrics { metric_control { metric_identifier { family: "
        "'nv_inference_first_response_histogram_ms' }\n"
        "                                 histogram_options { buckets: [ 0.1, 1.5, 1e22 ] } } }\n"
        "sequence_batching { direct { minimum_slot_utilization: 0.1 "
        "max_queue_delay_microseconds: 12 } iterative_sequence: true }\n";

static const char rest_json[] =
        "{\"name\":\"rest\",\"platform\":\"p\",\"backend\":\"b\","
        "\"runtime\":\"libtriton_other.so\",\"version_policy\":{\"latest\":{\"num_versions\":3}},"
        "\"max_batch_size\":8,\"input\":[{\"name\":\"I\",\"data_type\":\"TYPE_FP32\","
        "\"format\":\"FORMAT_NONE\",\"dims\":[-1],\"is_shape_tensor\":false,"
        "\"allow_ragged_batch\":true,\"optional\":false,\"is_non_linear_format_io\":false}],"
        "\"output\":[{\"name\":\"O\",\"data_type\":\"TYPE_FP32\",\"dims\":[-1],"
        "\"label_filename\":\"\",\"is_shape_tensor\":false,\"is_non_linear_format_io\":false}],"
        "\"batch_input\":[{\"kind\":\"BATCH_ACCUMULATED_ELEMENT_COUNT\","
        "\"target_name\":[\"INDEX\"],\"data_type\":\"TYPE_INT32\",\"source_input\":[\"I\"]}],"
        "\"batch_output\":[{\"target_name\":[\"O\"],\"kind\":\"BATCH_SCATTER_WITH_INPUT_SHAPE\","
        "\"source_input\":[\"I\"]}],\"optimization\":{\"graph\":{\"level\":-1},"
        "\"priority\":\"PRIORITY_MIN\",\"cuda\":{\"graphs\":true,\"busy_wait_events\":false,"
        "\"graph_spec\":[{\"batch_size\":4,\"input\":{\"I\":{\"dim\":[\"3\",\"4\"]}},"
        "\"graph_lower_bound\":{\"batch_size\":1,\"input\":{\"I\":{\"dim\":[\"1\"]}}}}],"
        "\"output_copy_stream\":false},"
        "\"execution_accelerators\":{\"gpu_execution_accelerator\":[],"
        "\"cpu_execution_accelerator\":[{\"name\":\"openvino\",\"parameters\":{\"k\":\"v\"}}]},"
        "\"input_pinned_memory\":{\"enable\":false},\"output_pinned_memory\":{\"enable\":true},"
        "\"gather_kernel_buffer_threshold\":7,\"eager_batching\":true},"
        "\"sequence_batching\":{\"direct\":{\"max_queue_delay_microseconds\":12,"
        "\"minimum_slot_utilization\":0.1},\"max_sequence_idle_microseconds\":1000000,"
        "\"control_input\":[],\"state\":[],\"iterative_sequence\":true},"
        "\"instance_group\":[{\"name\":\"rest\",\"kind\":\"KIND_CPU\",\"count\":1,\"gpus\":[],"
        "\"secondary_devices\":[],\"profile\":[],\"passive\":false,\"host_policy\":\"\"}],"
        "\"default_model_filename\":\"\",\"cc_model_filenames\":{\"7.5\":\"model_75.plan\"},"
        "\"metric_tags\":{\"team\":\"vision\"},\"parameters\":{},\"model_warmup\":[],"
        "\"model_operations\":{\"op_library_filename\":[\"a.so\",\"b.so\"]},"
        "\"model_transaction_policy\":{\"decoupled\":true},"
        "\"model_repository_agents\":{\"agents\":[{\"name\":\"checksum\","
        "\"parameters\":{\"MD5:1/f\":\"0f\"}},{\"name\":\"second\",\"parameters\":{}}]},"
        "\"response_cache\":{\"enable\":false},"
        "\"model_metrics\":{\"metric_control\":[{\"metric_identifier\":{\"family\":\"nv_inference"
        "_first_response_histogram_ms\"},\"histogram_options\":{\"buckets\":[0.1,1.5,1e22]}}]}}";

static const struct json_case {
        const char *name;
        const char *text;
        const char *json;
} cases[] = {
        { "minimal", minimal_text, minimal_json },
        { "batched", batched_text, batched_json },
        { "sequence", sequence_text, sequence_json },
        { "ensemble", ensemble_text, ensemble_json },
        { "warm", warm_text, warm_json },
        { "queues", queues_text, queues_json },
        { "rest", rest_text, rest_json },
};

static struct model_config *load(const char *text) {
        struct config_devices devices = { .n_gpus = 0 };
        struct model_config  *c = config_of(text);

        assert_null(model_config_normalize(c));
        assert_null(model_config_normalize_groups(c, &devices));
        return c;
}

static void test_print(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct model_config *c = load(cases[i].text);
                char                *json = config_json(c);

                assert_text(json, cases[i].json, cases[i].name);
                free(json);
                model_config_free(c);
        }
}

/* The cases are configurations that load. */
static void test_checks(void **state) {
        const struct config_devices devices = { .n_gpus = 0 };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct model_config *c = load(cases[i].text);

                assert_accepted(model_config_check(c), cases[i].name);
                assert_accepted(model_config_check_groups(c, &devices), cases[i].name);
                assert_accepted(model_config_check_io(c), cases[i].name);
                assert_accepted(model_config_check_states(c), cases[i].name);
                assert_accepted(model_config_check_warmup(c), cases[i].name);
                model_config_free(c);
        }
}

/* Text, JSON, message, JSON: nothing is lost, and nothing is left to normalise. */
static void test_round_trip(void **state) {
        struct config_devices devices = { .n_gpus = 0 };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct model_config *c = NULL;
                char                *json;

                assert_accepted(model_config_read_json(str_of(cases[i].json), &c), cases[i].name);
                assert_null(model_config_normalize(c));
                assert_null(model_config_normalize_groups(c, &devices));
                json = config_json(c);
                assert_text(json, cases[i].json, cases[i].name);
                free(json);
                model_config_free(c);
        }
}

static void test_copy(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct model_config *c = load(cases[i].text);
                struct model_config *copy = NULL;
                char                *json;

                assert_null(model_config_copy(c, &copy));
                model_config_free(c);
                json = config_json(copy);
                assert_text(json, cases[i].json, cases[i].name);
                free(json);
                model_config_free(copy);
        }
}

SUITE(config_json) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_print),
                cmocka_unit_test(test_checks),
                cmocka_unit_test(test_round_trip),
                cmocka_unit_test(test_copy),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
