/* SPDX-License-Identifier: BSD-3-Clause */
/* The structure of the text format: messages, lists, maps, separators, and what is refused. */
#include "suite.h"

#include "base/compiler.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "codec/pb_text.h"
#include "model_config.pb-c.h"
#include "pb_node.h"
#include "shortage.h"

static struct arena arena;

static int setup(void **state) {
        (void)state;
        arena_init(&arena, NULL, 0, 0);
        return 0;
}

static int teardown(void **state) {
        (void)state;
        arena_done(&arena);
        return 0;
}

static ProtobufCMessage *read_type(const ProtobufCMessageDescriptor *type, const char *text) {
        ProtobufCMessage *message = NULL;
        struct error     *err = pb_text_read(type, str_of(text), "config.pbtxt", &arena, &message);

        if (err != NULL)
                fail_msg("%s", err->message);
        return message;
}

static Inference__ModelConfig *read_config(const char *text) {
        return (Inference__ModelConfig *)read_type(&inference__model_config__descriptor, text);
}

static struct node *read_node(const char *text) {
        return (struct node *)read_type(&node_type, text);
}

static void test_empty_text_is_the_default_message(void **state) {
        static const char *const texts[] = { "", " \t\r\n", "# nothing\n", "# no newline",
                                             "\xef\xbb\xbf" };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
                Inference__ModelConfig *config = read_config(texts[i]);

                assert_ptr_equal(config->name, protobuf_c_empty_string);
                assert_int_equal(config->max_batch_size, 0);
                assert_null(config->version_policy);
                assert_int_equal(config->n_input, 0);
                assert_int_equal(config->scheduling_choice_case, 0);
        }
}

static void test_a_whole_configuration(void **state) {
        Inference__ModelConfig *c =
                read_config("# a model\n"
                            "name: \"simple\"\n"
                            "platform: \"onnxruntime_onnx\"\n"
                            "max_batch_size: 8\n"
                            "input [\n"
                            "  {\n"
                            "    name: \"INPUT0\"\n"
                            "    data_type: TYPE_FP32\n"
                            "    dims: [ 3, -1 ]\n"
                            "    reshape { shape: [ ] }\n"
                            "  },\n"
                            "  { name: \"INPUT1\" data_type: TYPE_STRING dims: 1 }\n"
                            "]\n"
                            "output: { name: \"OUT\" data_type: 8 dims: 2 dims: 3 }\n"
                            "instance_group [ { count: 2 kind: KIND_CPU } ]\n"
                            "dynamic_batching {\n"
                            "  preferred_batch_size: [ 4, 8 ]\n"
                            "  max_queue_delay_microseconds: 100\n"
                            "  priority_queue_policy { key: 2 value {\n"
                            "    timeout_action: DELAY } }\n"
                            "}\n"
                            "parameters: { key: \"k\" value: { string_value: \"v\" } }\n"
                            "version_policy: { specific { versions: [1, 3] } }\n");

        (void)state;
        assert_string_equal(c->name, "simple");
        assert_string_equal(c->platform, "onnxruntime_onnx");
        assert_int_equal(c->max_batch_size, 8);
        assert_int_equal(c->n_input, 2);
        assert_string_equal(c->input[0]->name, "INPUT0");
        assert_int_equal(c->input[0]->data_type, INFERENCE__DATA_TYPE__TYPE_FP32);
        assert_int_equal(c->input[0]->n_dims, 2);
        assert_int_equal(c->input[0]->dims[0], 3);
        assert_int_equal(c->input[0]->dims[1], -1);
        assert_non_null(c->input[0]->reshape);
        assert_int_equal(c->input[0]->reshape->n_shape, 0);
        assert_string_equal(c->input[1]->name, "INPUT1");
        assert_int_equal(c->input[1]->data_type, INFERENCE__DATA_TYPE__TYPE_STRING);
        assert_int_equal(c->input[1]->n_dims, 1);
        assert_null(c->input[1]->reshape);
        assert_int_equal(c->n_output, 1);
        assert_int_equal(c->output[0]->data_type, INFERENCE__DATA_TYPE__TYPE_INT32);
        assert_int_equal(c->output[0]->n_dims, 2);
        assert_int_equal(c->output[0]->dims[1], 3);
        assert_int_equal(c->n_instance_group, 1);
        assert_int_equal(c->instance_group[0]->count, 2);
        assert_int_equal(c->instance_group[0]->kind,
                         INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_CPU);
        assert_int_equal(c->scheduling_choice_case,
                         INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING);
        assert_int_equal(c->dynamic_batching->n_preferred_batch_size, 2);
        assert_int_equal(c->dynamic_batching->preferred_batch_size[1], 8);
        assert_int_equal(c->dynamic_batching->max_queue_delay_microseconds, 100);
        assert_int_equal(c->dynamic_batching->n_priority_queue_policy, 1);
        assert_int_equal(c->dynamic_batching->priority_queue_policy[0]->key, 2);
        assert_int_equal(c->dynamic_batching->priority_queue_policy[0]->value->timeout_action,
                         INFERENCE__MODEL_QUEUE_POLICY__TIMEOUT_ACTION__DELAY);
        assert_int_equal(c->n_parameters, 1);
        assert_string_equal(c->parameters[0]->key, "k");
        assert_string_equal(c->parameters[0]->value->string_value, "v");
        assert_int_equal(c->version_policy->policy_choice_case,
                         INFERENCE__MODEL_VERSION_POLICY__POLICY_CHOICE_SPECIFIC);
        assert_int_equal(c->version_policy->specific->n_versions, 2);
        assert_int_equal(c->version_policy->specific->versions[1], 3);
}

/* Each of these gives one child with i32 = 7. */
static void test_forms_of_a_message(void **state) {
        static const char *const texts[] = {
                "child { i32: 7 }",  "child: { i32: 7 }",  "child < i32: 7 >",
                "child: < i32: 7 >", "child{i32:7}",       "child\n{\ni32\n:\n7\n}\n",
                "child { i32: 7; }", "child { i32: 7, };", "child # c\n { # d\n i32: 7 # }\n }",
                "child { i32: 7 },", "child\f{\vi32: 7 }",
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
                struct node *node = read_node(texts[i]);

                assert_non_null(node->child);
                assert_int_equal(node->child->i32, 7);
        }
}

/* Each of these gives the words a, b, c. */
static void test_forms_of_a_list(void **state) {
        static const char *const texts[] = {
                "words: 'a' words: 'b' words: 'c'", "words: ['a', 'b', 'c']",
                "words: ['a'] words: ['b', 'c']",   "words: 'a', words: 'b'; words: ['c'],",
                "words: ['a','b','c'] words: []",
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
                struct node *node = read_node(texts[i]);

                assert_int_equal(node->n_words, 3);
                assert_string_equal(node->words[0], "a");
                assert_string_equal(node->words[1], "b");
                assert_string_equal(node->words[2], "c");
        }
}

static void test_forms_of_a_list_of_messages(void **state) {
        static const char *const texts[] = {
                "children { i32: 1 } children { i32: 2 }",
                "children [ { i32: 1 }, { i32: 2 } ]",
                "children: [ { i32: 1 }, < i32: 2 > ]",
                "children [ { i32: 1 } ] children < i32: 2 > children []",
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
                struct node *node = read_node(texts[i]);

                assert_int_equal(node->n_children, 2);
                assert_int_equal(node->children[0]->i32, 1);
                assert_int_equal(node->children[1]->i32, 2);
        }
}

static void test_a_long_list_keeps_all_elements(void **state) {
        AUTO_STRBUF  text;
        struct node *node;

        (void)state;
        strbuf_init(&text, 0);
        for (int i = 0; i < 1000; i++)
                strbuf_printf(&text, "children { i32: %d }\n", i);
        node = read_node(strbuf_cstr(&text));
        assert_int_equal(node->n_children, 1000);
        for (int i = 0; i < 1000; i++)
                assert_int_equal(node->children[i]->i32, i);
}

static void test_map_keys_may_come_twice_and_values_may_lack(void **state) {
        struct node *node = read_node("numbers { key: 3 value: 'a' } numbers { key: -1 value: 'b' }"
                                      "numbers { value: 'c' key: 3 } numbers { key: 5 }"
                                      "switches { key: true } switches { value { i32: 4 } }");

        (void)state;
        assert_int_equal(node->n_numbers, 3);
        assert_int_equal(node->numbers[0]->key, -1);
        assert_string_equal(node->numbers[0]->value, "b");
        assert_int_equal(node->numbers[1]->key, 3);
        assert_string_equal(node->numbers[1]->value, "c");
        assert_int_equal(node->numbers[2]->key, 5);
        assert_string_equal(node->numbers[2]->value, "");
        assert_int_equal(node->n_switches, 2);
        assert_true(node->switches[0]->key);
        assert_non_null(node->switches[0]->value);
        assert_int_equal(node->switches[0]->value->i32, 0);
        assert_false(node->switches[1]->key);
        assert_int_equal(node->switches[1]->value->i32, 4);
}

static void test_optional_fields_and_oneofs_know_that_they_were_given(void **state) {
        struct node *node = read_node("level: 0 number: 0");

        (void)state;
        assert_true(node->has_level);
        assert_int_equal(node->choice_case, 23);
        assert_int_equal(node->number, 0);
        assert_false(read_node("i32: 1")->has_level);
        assert_int_equal(read_node("i32: 1")->choice_case, 0);
        node = read_node("sub { }");
        assert_int_equal(node->choice_case, 25);
        assert_non_null(node->sub);
}

/* Where a message says nothing of a type: ModelConfig, in config.pbtxt. */
static const struct {
        const char *text;
        const char *error;
} errors[] = {
        { "name: \"m\"\n\n    max_batchsize: 8", "config.pbtxt:3:5: message 'ModelConfig' has no "
                                                 "field named 'max_batchsize'; did you mean "
                                                 "'max_batch_size'?" },
        { "zzzzzzzzzzzzzz: 8",
          "config.pbtxt:1:1: message 'ModelConfig' has no field named 'zzzzzzzzzzzzzz'" },
        { "input { nme: 'x' }",
          "config.pbtxt:1:9: message 'ModelInput' has no field named 'nme'; did you mean 'name'?" },
        { "sequence_batching { control_input { control { knd: 1 } } }",
          "config.pbtxt:1:47: message 'ModelSequenceBatching.Control' has no field named 'knd'; "
          "did "
          "you mean 'kind'?" },
        { "parameters { key: 'a' valu: { } }",
          "config.pbtxt:1:23: message 'ModelConfig.ParametersEntry' has no field named 'valu'; did "
          "you mean 'value'?" },
        { "max_batch_size: 1\nmax_batch_size: 2",
          "config.pbtxt:2:1: non-repeated field \"max_batch_size\" is specified multiple times" },
        { "max_batch_size: 0 max_batch_size: 0",
          "config.pbtxt:1:19: non-repeated field \"max_batch_size\" is specified multiple times" },
        { "optimization { } optimization { }",
          "config.pbtxt:1:18: non-repeated field \"optimization\" is specified multiple times" },
        { "dynamic_batching { }\nsequence_batching { }",
          "config.pbtxt:2:1: field \"sequence_batching\" is specified along with field "
          "\"dynamic_batching\", another member of the same oneof" },
        { "version_policy { all { } latest { } }",
          "config.pbtxt:1:26: field \"latest\" is specified along with field \"all\", another "
          "member "
          "of the same oneof" },
        { "parameters { key: 'a' key: 'b' }",
          "config.pbtxt:1:23: non-repeated field \"key\" is specified multiple times" },
        { "name 'm'", "config.pbtxt:1:6: expected ':' after field 'name', got 'm'" },
        { "name", "config.pbtxt:1:5: expected ':' after field 'name', got the end of the text" },
        { "name:", "config.pbtxt:1:6: expected a string in quotes for field 'name', got the end of "
                   "the text" },
        { "name: ['a']", "config.pbtxt:1:7: field 'name' is not repeated and takes no list" },
        { "optimization [ { } ]",
          "config.pbtxt:1:14: field 'optimization' is not repeated and takes no list" },
        { "input: 1", "config.pbtxt:1:8: expected '{' after field 'input', got '1'" },
        { "input", "config.pbtxt:1:6: expected '{' after field 'input', got the end of the text" },
        { "input { name: 'a'\n", "config.pbtxt:2:1: expected a field name or '}' to end field "
                                 "'input' of line 1, got the end "
                                 "of the text" },
        { "\ninput {\n  reshape <\n  }\n}", "config.pbtxt:4:3: expected a field name or '>' to end "
                                            "field 'reshape' of line 3, got '}'" },
        { "input < >\n}", "config.pbtxt:2:1: expected a field name, got '}'" },
        { "}", "config.pbtxt:1:1: expected a field name, got '}'" },
        { "\"name\": 'm'", "config.pbtxt:1:1: expected a field name, got \"name\"" },
        { "17: 'm'", "config.pbtxt:1:1: expected a field name, got '17'" },
        { "[a.b]: 1", "config.pbtxt:1:1: expected a field name, got '['" },
        { "name: 'm',,", "config.pbtxt:1:11: expected a field name, got ','" },
        { "; name: 'm'", "config.pbtxt:1:1: expected a field name, got ';'" },
        { "input [ { } { } ]",
          "config.pbtxt:1:13: expected ',' or ']' in the list of field 'input', got '{'" },
        { "input [ { }, ]", "config.pbtxt:1:14: expected '{' after field 'input', got ']'" },
        { "input { dims: [1, 2 }",
          "config.pbtxt:1:21: expected ',' or ']' in the list of field 'dims', got '}'" },
        { "input { dims: [1, 2,] }",
          "config.pbtxt:1:21: expected an integer for field 'dims', got ']'" },
        { "input { dims: [",
          "config.pbtxt:1:16: expected an integer for field 'dims', got the end of the text" },
        { "name: 'm", "config.pbtxt:1:7: string is not terminated" },
        { "name: 'm\n'", "config.pbtxt:1:7: string is not terminated" },
        { "name: 'm\\", "config.pbtxt:1:7: string is not terminated" },
        { "name: \"m'", "config.pbtxt:1:7: string is not terminated" },
        { "name: \"\xff\xfe\"", "config.pbtxt:1:7: string is not valid UTF-8" },
        { "name: '\\xff'", "config.pbtxt:1:7: string is not valid UTF-8" },
        { "name: 'a\\0b'", "config.pbtxt:1:7: string contains a NUL byte" },
        { "\x01", "config.pbtxt:1:1: expected a field name, got '\\x01'" },
        { "\xc3\xa9: 1", "config.pbtxt:1:1: expected a field name, got '\xc3\xa9'" },
        { "\xff: 1", "config.pbtxt:1:1: expected a field name, got '\\xff'" },
        { "max_batch_size: 3000000000", "config.pbtxt:1:17: value 3000000000 of field "
                                        "'max_batch_size' is out of range for int32" },
        { "max_batch_size: 'a long string that goes on and on until nobody wants to see it'",
          "config.pbtxt:1:17: expected an integer for field 'max_batch_size', got 'a long string "
          "that "
          "goes on and on until nobody ..." },
        { "input { data_type: TYPE_FP33 }", "config.pbtxt:1:20: enum 'DataType' of field "
                                            "'data_type' has no value 'TYPE_FP33'; did you "
                                            "mean 'TYPE_FP32'?" },
        { "input { data_type: FP32 }",
          "config.pbtxt:1:20: enum 'DataType' of field 'data_type' has "
          "no value 'FP32'; did you mean 'TYPE_FP32'?" },
        { "input { data_type: int8 }",
          "config.pbtxt:1:20: enum 'DataType' of field 'data_type' has "
          "no value 'int8'; did you mean 'TYPE_INT8'?" },
        { "instance_group { kind: CPU }", "config.pbtxt:1:24: enum 'Kind' of field 'kind' has no "
                                          "value 'CPU'; did you mean 'KIND_CPU'?" },
};

static void check_error(const ProtobufCMessageDescriptor *type, const char *text, const char *file,
                        const char *wanted) {
        ProtobufCMessage *message = NULL;
        struct error     *err;
        unsigned          n = 0;

        do {
                mem_fail_once(++n);
                err = pb_text_read(type, str_of(text), file, &arena, &message);
        } while (expect_or_shortage(err, ERR_INVALID_ARG, wanted));
        err = pb_text_read(type, str_of(text), file, &arena, &message);
        if (err == NULL)
                fail_msg("read without an error: %s", text);
        assert_string_equal(err->message, wanted);
        assert_int_equal(err->code, ERR_INVALID_ARG);
        assert_null(message);
        error_free(err);
}

static void test_errors(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(errors); i++)
                check_error(&inference__model_config__descriptor, errors[i].text, "config.pbtxt",
                            errors[i].error);
}

static void test_errors_without_a_file_name(void **state) {
        (void)state;
        check_error(&inference__model_config__descriptor, "\n nam: 1", NULL,
                    "2:2: message 'ModelConfig' has no field named 'nam'; did you mean 'name'?");
}

/* n messages within the outermost one. */
static void print_nested(struct strbuf *out, int n) {
        for (int i = 0; i < n; i++)
                strbuf_puts(out, "child{");
        for (int i = 0; i < n; i++)
                strbuf_putc(out, '}');
}

static void test_nesting_ends_at_100(void **state) {
        AUTO_STRBUF        text;
        const struct node *node;
        int                depth = 0;

        (void)state;
        strbuf_init(&text, 0);
        print_nested(&text, 100);
        for (node = read_node(strbuf_cstr(&text)); node->child != NULL; node = node->child)
                depth++;
        assert_int_equal(depth, 100);

        strbuf_clear(&text);
        print_nested(&text, 101);
        check_error(&node_type, strbuf_cstr(&text), "f",
                    "f:1:601: messages are nested deeper than 100");
        strbuf_clear(&text);
        print_nested(&text, 100000);
        check_error(&node_type, strbuf_cstr(&text), "f",
                    "f:1:601: messages are nested deeper than 100");
}

static void test_siblings_do_not_count_as_nesting(void **state) {
        AUTO_STRBUF text;

        (void)state;
        strbuf_init(&text, 0);
        for (int i = 0; i < 300; i++)
                strbuf_puts(&text, "children { child { } }");
        assert_int_equal(read_node(strbuf_cstr(&text))->n_children, 300);
}

static void test_text_need_not_end_with_nul(void **state) {
        static const char text[] = { 'i', '3', '2', ':', '1', '2' };
        ProtobufCMessage *message = NULL;

        (void)state;
        assert_null(pb_text_read(&node_type, str_range(text, 6), NULL, &arena, &message));
        assert_int_equal(((struct node *)message)->i32, 12);
        assert_null(pb_text_read(&node_type, str_range(text, 5), NULL, &arena, &message));
        assert_int_equal(((struct node *)message)->i32, 1);
        assert_null(pb_text_read(&node_type, str_range(NULL, 0), NULL, &arena, &message));
}

/* A full arena and failing allocations end in an error, whatever was being read. */
static void test_memory_may_end_anywhere(void **state) {
        static const char text[] = "words: ['a long word that fills the arena', 'b', 'c', 'd', 'e']"
                                   "children { child { bytes: '12345' } } numbers { key: 1 }"
                                   "numbers { key: 2 } switches { key: 1 } real32: 1.25";
        bool              has_ended = false;
        int               n_failed = 0;

        (void)state;
        for (size_t max = 64; !has_ended && max < 1u << 20; max += 64) {
                struct arena      small;
                ProtobufCMessage *message = NULL;
                struct error     *err;

                arena_init(&small, NULL, 0, max);
                err = pb_text_read(&node_type, str_of(text), "f", &small, &message);
                if (err != NULL) {
                        assert_int_equal(err->code, ERR_UNAVAILABLE);
                        assert_non_null(
                                strstr(err->message, "not enough memory to read the message"));
                        n_failed++;
                } else {
                        assert_int_equal(((struct node *)message)->n_words, 5);
                        has_ended = true;
                }
                error_free(err);
                arena_done(&small);
        }
        assert_true(has_ended);
        assert_true(n_failed > 10);
}

static void test_every_allocation_may_fail(void **state) {
        static const char text[] = "words: ['a', 'b', 'c', 'd', 'e'] real64: 1.5 numbers { key: 1 }"
                                   "switches { key: 0 } switches { key: 1 } child { text: 'x' }";
        bool              was_hit = true;

        (void)state;
        for (unsigned n = 1; was_hit; n++) {
                char              first[64];
                struct arena      a;
                ProtobufCMessage *message = NULL;
                struct error     *err;

                arena_init(&a, first, sizeof(first), 0);
                mem_fail_after(n);
                err = pb_text_read(&node_type, str_of(text), "f", &a, &message);
                was_hit = mem_fail_was_hit();
                mem_fail_after(0);
                if (was_hit)
                        assert_int_equal(err->code, ERR_UNAVAILABLE);
                else
                        assert_null(err);
                error_free(err);
                arena_done(&a);
                assert_true(n < 1000);
        }
}

SUITE(pb_text) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_empty_text_is_the_default_message, setup,
                                                teardown),
                cmocka_unit_test_setup_teardown(test_a_whole_configuration, setup, teardown),
                cmocka_unit_test_setup_teardown(test_forms_of_a_message, setup, teardown),
                cmocka_unit_test_setup_teardown(test_forms_of_a_list, setup, teardown),
                cmocka_unit_test_setup_teardown(test_forms_of_a_list_of_messages, setup, teardown),
                cmocka_unit_test_setup_teardown(test_a_long_list_keeps_all_elements, setup,
                                                teardown),
                cmocka_unit_test_setup_teardown(test_map_keys_may_come_twice_and_values_may_lack,
                                                setup, teardown),
                cmocka_unit_test_setup_teardown(
                        test_optional_fields_and_oneofs_know_that_they_were_given, setup, teardown),
                cmocka_unit_test_setup_teardown(test_errors, setup, teardown),
                cmocka_unit_test_setup_teardown(test_errors_without_a_file_name, setup, teardown),
                cmocka_unit_test_setup_teardown(test_nesting_ends_at_100, setup, teardown),
                cmocka_unit_test_setup_teardown(test_siblings_do_not_count_as_nesting, setup,
                                                teardown),
                cmocka_unit_test_setup_teardown(test_text_need_not_end_with_nul, setup, teardown),
                cmocka_unit_test_setup_teardown(test_memory_may_end_anywhere, setup, teardown),
                cmocka_unit_test_setup_teardown(test_every_allocation_may_fail, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
