/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "codec/pb_json.h"
#include "codec/pb_text.h"
#include "model_config.pb-c.h"
#include "pb_node.h"

/* Text format in, JSON out. */
static void check_print(const ProtobufCMessageDescriptor *type,
                        const struct pb_json_options *options, const char *text, const char *json) {
        struct arena      arena;
        ProtobufCMessage *message = NULL;
        AUTO_STRBUF       out;
        struct error     *err;

        arena_init(&arena, NULL, 0, 0);
        strbuf_init(&out, 0);
        err = pb_text_read(type, str_of(text), "f", &arena, &message);
        if (err != NULL)
                fail_msg("%s", err->message);
        pb_json_print(message, options, &out);
        assert_false(out.overflowed);
        assert_string_equal(strbuf_cstr(&out), json);
        arena_done(&arena);
}

static void test_an_empty_configuration(void **state) {
        (void)state;
        check_print(&inference__model_config__descriptor, NULL, "",
                    "{\"name\":\"\",\"platform\":\"\",\"backend\":\"\",\"runtime\":\"\","
                    "\"max_batch_size\":0,\"input\":[],\"output\":[],\"batch_input\":[],"
                    "\"batch_output\":[],\"instance_group\":[],\"default_model_filename\":\"\","
                    "\"cc_model_filenames\":{},\"metric_tags\":{},\"parameters\":{},"
                    "\"model_warmup\":[]}");
}

static bool dims_are_numbers(const ProtobufCMessageDescriptor *type,
                             const ProtobufCFieldDescriptor   *field) {
        return type == &inference__model_input__descriptor && strcmp(field->name, "dims") == 0;
}

static void test_a_whole_configuration(void **state) {
        static const struct pb_json_options options = { .int64_as_number = dims_are_numbers };

        (void)state;
        check_print(
                &inference__model_config__descriptor, &options,
                "model_transaction_policy { } name: 'm' max_batch_size: 4\n"
                "version_policy { latest { num_versions: 1 } }\n"
                "input { name: 'I' data_type: TYPE_FP32 dims: [-1, 4] reshape { shape: [2, 2] } }\n"
                "output { name: 'O' data_type: TYPE_STRING dims: 1 label_filename: 'l' }\n"
                "sequence_batching { oldest { max_candidate_sequences: 3 } "
                "control_input { name: 'S' control { fp32_false_true: [0, 0.1] } } "
                "state { dims: 5 initial_state { name: 'n' zero_data: true dims: 6 } } }\n"
                "parameters { key: 'b' value { string_value: '1' } }\n"
                "parameters { key: 'a' value { string_value: '\"2\"' } }\n"
                "optimization { input_pinned_memory { enable: true } }",
                "{\"name\":\"m\",\"platform\":\"\",\"backend\":\"\",\"runtime\":\"\","
                "\"version_policy\":{\"latest\":{\"num_versions\":1}},\"max_batch_size\":4,"
                "\"input\":[{\"name\":\"I\",\"data_type\":\"TYPE_FP32\",\"format\":\"FORMAT_NONE\","
                "\"dims\":[-1,4],\"reshape\":{\"shape\":[\"2\",\"2\"]},\"is_shape_tensor\":false,"
                "\"allow_ragged_batch\":false,\"optional\":false,\"is_non_linear_format_io\":false}"
                "],"
                "\"output\":[{\"name\":\"O\",\"data_type\":\"TYPE_STRING\",\"dims\":[\"1\"],"
                "\"label_filename\":\"l\",\"is_shape_tensor\":false,"
                "\"is_non_linear_format_io\":false}],\"batch_input\":[],\"batch_output\":[],"
                "\"optimization\":{\"priority\":\"PRIORITY_DEFAULT\","
                "\"input_pinned_memory\":{\"enable\":true},\"gather_kernel_buffer_threshold\":0,"
                "\"eager_batching\":false},"
                "\"sequence_batching\":{\"oldest\":{\"max_candidate_sequences\":3,"
                "\"preferred_batch_size\":[],\"max_queue_delay_microseconds\":\"0\","
                "\"preserve_ordering\":false},\"max_sequence_idle_microseconds\":\"0\","
                "\"control_input\":[{\"name\":\"S\",\"control\":[{\"kind\":\"CONTROL_SEQUENCE_"
                "START\","
                "\"int32_false_true\":[],\"fp32_false_true\":[0.0,0.1],\"bool_false_true\":[],"
                "\"data_type\":\"TYPE_INVALID\"}]}],"
                "\"state\":[{\"input_name\":\"\",\"output_name\":\"\",\"data_type\":\"TYPE_"
                "INVALID\","
                "\"dims\":[\"5\"],\"initial_state\":[{\"data_type\":\"TYPE_INVALID\",\"dims\":["
                "\"6\"],"
                "\"zero_data\":true,\"name\":\"n\"}],\"use_same_buffer_for_input_output\":false,"
                "\"use_growable_memory\":false}],\"iterative_sequence\":false},"
                "\"instance_group\":[],\"default_model_filename\":\"\",\"cc_model_filenames\":{},"
                "\"metric_tags\":{},\"parameters\":{\"b\":{\"string_value\":\"1\"},"
                "\"a\":{\"string_value\":\"\\\"2\\\"\"}},\"model_warmup\":[],"
                "\"model_transaction_policy\":{\"decoupled\":false}}");
}

#define NODE_HEAD                                                                                  \
        "{\"i32\":0,\"s32\":0,\"sf32\":0,\"i64\":\"0\",\"s64\":\"0\",\"sf64\":\"0\",\"u32\":0,"    \
        "\"f32\":0,\"u64\":\"0\",\"f64\":\"0\",\"real32\":0.0,\"real64\":0.0,\"truth\":false,"     \
        "\"color\":\"RED\",\"text\":\"\",\"bytes\":\"\","
#define NODE_TAIL "\"children\":[],\"words\":[],\"numbers\":{},\"switches\":{}}"
#define EMPTY_NODE NODE_HEAD NODE_TAIL

static void test_every_type_at_its_default(void **state) {
        (void)state;
        check_print(&node_type, NULL, "", EMPTY_NODE);
}

static void test_every_type_with_a_value(void **state) {
        (void)state;
        check_print(
                &node_type, NULL,
                "i32: -1 s32: -2147483648 sf32: 2147483647 i64: -9223372036854775808 s64: 1 sf64: "
                "-1 "
                "u32: 4294967295 f32: 7 u64: 18446744073709551615 f64: 8 real32: 0.1 real64: 1e100 "
                "truth: true color: BELOW text: 'a\\n\\303\\251' bytes: '\\000\\377\\376' level: 0 "
                "words: ['x', ''] numbers { key: -3 value: 'n' } switches { key: true } "
                "switches { key: false value { level: 2 } } name: ''",
                "{\"i32\":-1,\"s32\":-2147483648,\"sf32\":2147483647,"
                "\"i64\":\"-9223372036854775808\",\"s64\":\"1\",\"sf64\":\"-1\",\"u32\":4294967295,"
                "\"f32\":7,\"u64\":\"18446744073709551615\",\"f64\":\"8\",\"real32\":0.1,"
                "\"real64\":1e100,\"truth\":true,\"color\":\"BELOW\",\"text\":\"a\\n\xc3\xa9\","
                "\"bytes\":\"AP/+\",\"level\":0,\"children\":[],\"words\":[\"x\",\"\"],"
                "\"numbers\":{\"-3\":\"n\"},\"switches\":{\"true\":" EMPTY_NODE
                ",\"false\":" NODE_HEAD "\"level\":2," NODE_TAIL "},\"name\":\"\"}");
}

static bool all_are_numbers(const ProtobufCMessageDescriptor *type,
                            const ProtobufCFieldDescriptor   *field) {
        (void)type;
        (void)field;
        return true;
}

static void test_64_bits_as_numbers(void **state) {
        static const struct pb_json_options options = { .int64_as_number = all_are_numbers };

        (void)state;
        check_print(&inference__model_metrics__metric_control__histogram_options__descriptor,
                    &options, "buckets: [100, 0.5]", "{\"buckets\":[100.0,0.5]}");
        check_print(&inference__model_version_policy__specific__descriptor, &options,
                    "versions: [-9223372036854775808, 7]",
                    "{\"versions\":[-9223372036854775808,7]}");
        check_print(&inference__model_queue_policy__descriptor, &options,
                    "default_timeout_microseconds: 18446744073709551615",
                    "{\"timeout_action\":\"REJECT\",\"default_timeout_microseconds\":"
                    "18446744073709551615,\"allow_timeout_override\":false,\"max_queue_size\":0}");
        /* Keys of maps stay strings. */
        check_print(
                &inference__model_dynamic_batching__descriptor, &options,
                "priority_queue_policy { key: 3 }",
                "{\"preferred_batch_size\":[],\"max_queue_delay_microseconds\":0,"
                "\"preserve_ordering\":false,\"priority_levels\":0,\"default_priority_level\":0,"
                "\"priority_queue_policy\":{\"3\":{\"timeout_action\":\"REJECT\","
                "\"default_timeout_microseconds\":0,\"allow_timeout_override\":false,"
                "\"max_queue_size\":0}}}");
}

static void test_what_is_no_number_is_a_string(void **state) {
        (void)state;
        check_print(&inference__model_metrics__metric_control__histogram_options__descriptor, NULL,
                    "buckets: [nan, inf, -inf]",
                    "{\"buckets\":[\"NaN\",\"Infinity\",\"-Infinity\"]}");
}

static void test_enum_numbers_without_a_name(void **state) {
        Inference__ModelOptimizationPolicy policy = INFERENCE__MODEL_OPTIMIZATION_POLICY__INIT;
        AUTO_STRBUF                        out;

        (void)state;
        *(int *)&policy.priority = 77;
        strbuf_init(&out, 0);
        pb_json_print(&policy.base, NULL, &out);
        assert_string_equal(strbuf_cstr(&out),
                            "{\"priority\":77,\"gather_kernel_buffer_threshold\":0,"
                            "\"eager_batching\":false}");
}

/* From the wire a map's entry may come without a value. */
static void test_a_map_value_that_is_missing(void **state) {
        Inference__ModelConfig__ParametersEntry entry =
                INFERENCE__MODEL_CONFIG__PARAMETERS_ENTRY__INIT;
        Inference__ModelConfig__ParametersEntry *entries[] = { &entry };
        Inference__ModelConfig                   config = INFERENCE__MODEL_CONFIG__INIT;
        AUTO_STRBUF                              out;

        (void)state;
        entry.key = (char *)"k";
        config.parameters = entries;
        config.n_parameters = 1;
        strbuf_init(&out, 0);
        pb_json_print(&config.base, NULL, &out);
        assert_non_null(strstr(strbuf_cstr(&out), "\"parameters\":{\"k\":{}}"));
}

/* What is printed can be read, and prints the same again. */
static void test_what_is_printed_can_be_read(void **state) {
        static const char text[] =
                "i32: -5 i64: -6 u64: 18446744073709551615 real32: 0.1 real64: 0.1 "
                "color: GREEN text: 'x\\'y' bytes: '\\001\\002' truth: true "
                "child { child { words: 'w' } } numbers { key: -1 value: 'v' } "
                "switches { key: true value { sub { } } } level: 3";
        struct arena      arena;
        ProtobufCMessage *message = NULL, *again = NULL;
        AUTO_STRBUF       first;
        AUTO_STRBUF       second;

        (void)state;
        arena_init(&arena, NULL, 0, 0);
        strbuf_init(&first, 0);
        strbuf_init(&second, 0);
        assert_null(pb_text_read(&node_type, str_of(text), "f", &arena, &message));
        pb_json_print(message, NULL, &first);
        assert_null(pb_json_read(&node_type, strbuf_str(&first), &arena, &again));
        pb_json_print(again, NULL, &second);
        assert_string_equal(strbuf_cstr(&first), strbuf_cstr(&second));
        assert_true(((struct node *)again)->real32 == 0.1f);
        assert_int_equal(((struct node *)again)->switches[0]->value->choice_case, 25);
        arena_done(&arena);
}

static void test_overflow_is_told_by_the_strbuf(void **state) {
        Inference__ModelConfig config = INFERENCE__MODEL_CONFIG__INIT;
        AUTO_STRBUF            out;

        (void)state;
        strbuf_init(&out, 50);
        pb_json_print(&config.base, NULL, &out);
        assert_true(out.overflowed);
}

static void test_every_allocation_may_fail(void **state) {
        static const char json[] = "{\"bytes\":\"AAAA\",\"text\":\"a\"}";
        struct arena      arena;
        ProtobufCMessage *message = NULL;
        AUTO_CHARS        whole = NULL;
        bool              was_hit = true;

        (void)state;
        arena_init(&arena, NULL, 0, 0);
        assert_null(pb_json_read(&node_type, str_of(json), &arena, &message));
        for (unsigned n = 0; was_hit; n++) { /* 0: none fails */
                AUTO_STRBUF out;

                strbuf_init(&out, 0);
                mem_fail_once(n);
                pb_json_print(message, NULL, &out);
                was_hit = mem_fail_was_hit() || n == 0;
                mem_fail_after(0);
                if (n == 0)
                        whole = strbuf_take(&out);
                else if (!out.overflowed)
                        assert_string_equal(strbuf_cstr(&out), whole);
        }
        arena_done(&arena);
}

SUITE(pb_json_print) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_an_empty_configuration),
                cmocka_unit_test(test_a_whole_configuration),
                cmocka_unit_test(test_every_type_at_its_default),
                cmocka_unit_test(test_every_type_with_a_value),
                cmocka_unit_test(test_64_bits_as_numbers),
                cmocka_unit_test(test_what_is_no_number_is_a_string),
                cmocka_unit_test(test_enum_numbers_without_a_name),
                cmocka_unit_test(test_a_map_value_that_is_missing),
                cmocka_unit_test(test_what_is_printed_can_be_read),
                cmocka_unit_test(test_overflow_is_told_by_the_strbuf),
                cmocka_unit_test(test_every_allocation_may_fail),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
