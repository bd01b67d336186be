/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "codec/pb_json.h"
#include "grpc_service.pb-c.h"
#include "model_config.pb-c.h"
#include "pb_node.h"
#include "shortage.h"

#include <math.h>
#include <stdio.h>

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

static ProtobufCMessage *read_type(const ProtobufCMessageDescriptor *type, const char *json) {
        ProtobufCMessage *message = NULL;
        struct error     *err = pb_json_read(type, str_of(json), &arena, &message);

        if (err != NULL)
                fail_msg("%s in: %s", err->message, json);
        return message;
}

static struct node *read_node(const char *json) {
        return (struct node *)read_type(&node_type, json);
}

static void test_an_empty_object_is_the_default_message(void **state) {
        struct node *node = read_node(" { } ");

        (void)state;
        assert_ptr_equal(node->text, protobuf_c_empty_string);
        assert_int_equal(node->i32, 0);
        assert_null(node->child);
        assert_int_equal(node->choice_case, 0);
}

static void test_a_whole_configuration(void **state) {
        static const char json[] =
                "{\"name\":\"m\",\"maxBatchSize\":8,"
                "\"input\":[{\"name\":\"a\",\"data_type\":\"type_fp32\","
                "\"dims\":[1,\"-1\"],\"reshape\":{\"shape\":[]}}],"
                "\"dynamicBatching\":{\"maxQueueDelayMicroseconds\":\"100\","
                "\"priority_queue_policy\":{\"2\":{\"timeoutAction\":\"DELAY\"}}},"
                "\"parameters\":{\"k\":{\"string_value\":\"v\"},\"e\":{}},"
                "\"cc_model_filenames\":{\"7.5\":\"x\"},"
                "\"optimization\":null}";
        Inference__ModelConfig *c;

        (void)state;
        c = (Inference__ModelConfig *)read_type(&inference__model_config__descriptor, json);
        assert_string_equal(c->name, "m");
        assert_int_equal(c->max_batch_size, 8);
        assert_int_equal(c->n_input, 1);
        assert_string_equal(c->input[0]->name, "a");
        assert_int_equal(c->input[0]->data_type, INFERENCE__DATA_TYPE__TYPE_FP32);
        assert_int_equal(c->input[0]->n_dims, 2);
        assert_int_equal(c->input[0]->dims[0], 1);
        assert_int_equal(c->input[0]->dims[1], -1);
        assert_non_null(c->input[0]->reshape);
        assert_int_equal(c->input[0]->reshape->n_shape, 0);
        assert_int_equal(c->scheduling_choice_case,
                         INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING);
        assert_int_equal(c->dynamic_batching->max_queue_delay_microseconds, 100);
        assert_int_equal(c->dynamic_batching->n_priority_queue_policy, 1);
        assert_int_equal(c->dynamic_batching->priority_queue_policy[0]->key, 2);
        assert_int_equal(c->dynamic_batching->priority_queue_policy[0]->value->timeout_action,
                         INFERENCE__MODEL_QUEUE_POLICY__TIMEOUT_ACTION__DELAY);
        assert_int_equal(c->n_parameters, 2);
        assert_string_equal(c->parameters[0]->key, "k");
        assert_string_equal(c->parameters[0]->value->string_value, "v");
        assert_string_equal(c->parameters[1]->key, "e");
        assert_string_equal(c->parameters[1]->value->string_value, "");
        assert_string_equal(c->cc_model_filenames[0]->value, "x");
        assert_null(c->optimization);
}

/* As control answers become gRPC messages. */
static void test_a_control_message(void **state) {
        Inference__ModelStatisticsResponse *r;

        (void)state;
        r = (Inference__ModelStatisticsResponse *)read_type(
                &inference__model_statistics_response__descriptor,
                "{\"model_stats\":[{\"name\":\"m\",\"version\":\"1\",\"last_inference\":"
                "1700000000000,"
                "\"inference_stats\":{\"success\":{\"count\":3,\"ns\":18446744073709551615}},"
                "\"batch_stats\":[{\"batch_size\":4,\"compute_infer\":{\"count\":1,\"ns\":2}}],"
                "\"memory_usage\":[],\"response_stats\":{\"0\":{\"cancel\":{\"count\":1}}}}]}");
        assert_int_equal(r->n_model_stats, 1);
        assert_true(r->model_stats[0]->last_inference == UINT64_C(1700000000000));
        assert_true(r->model_stats[0]->inference_stats->success->ns == UINT64_MAX);
        assert_int_equal(r->model_stats[0]->batch_stats[0]->batch_size, 4);
        assert_string_equal(r->model_stats[0]->response_stats[0]->key, "0");
        assert_int_equal(r->model_stats[0]->response_stats[0]->value->cancel->count, 1);
}

static void test_integers(void **state) {
        struct node *low, *high;

        (void)state;
        low = read_node(
                "{\"i32\":-2147483648,\"s32\":\"-1\",\"sf32\":-1e3,\"i64\":-9223372036854775808,"
                "\"s64\":\"-9223372036854775808\",\"u32\":0,\"u64\":\"0\"}");
        high = read_node(
                "{\"i32\":2147483647,\"s32\":1.0,\"sf32\":1.5e1,\"i64\":9223372036854775807,"
                "\"s64\":\"9223372036854775807\",\"u32\":4294967295,\"f32\":\"4294967295\","
                "\"u64\":18446744073709551615,\"f64\":\"18446744073709551615\",\"sf64\":1e18}");
        assert_int_equal(low->i32, INT32_MIN);
        assert_int_equal(low->s32, -1);
        assert_int_equal(low->sf32, -1000);
        assert_true(low->i64 == INT64_MIN);
        assert_true(low->s64 == INT64_MIN);
        assert_int_equal(high->i32, INT32_MAX);
        assert_int_equal(high->s32, 1);
        assert_int_equal(high->sf32, 15);
        assert_true(high->i64 == INT64_MAX);
        assert_true(high->s64 == INT64_MAX);
        assert_true(high->u32 == UINT32_MAX);
        assert_true(high->f32 == UINT32_MAX);
        assert_true(high->u64 == UINT64_MAX);
        assert_true(high->f64 == UINT64_MAX);
        assert_true(high->sf64 == INT64_C(1000000000000000000));
}

static void test_reals(void **state) {
        (void)state;
        assert_true(read_node("{\"real64\":0.1}")->real64 == 0.1);
        assert_true(read_node("{\"real64\":3}")->real64 == 3.0);
        assert_true(read_node("{\"real64\":\"-2.5e3\"}")->real64 == -2500.0);
        assert_true(read_node("{\"real64\":\"Infinity\"}")->real64 == INFINITY);
        assert_true(read_node("{\"real64\":\"-Infinity\"}")->real64 == -INFINITY);
        assert_true(isnan(read_node("{\"real64\":\"NaN\"}")->real64));
        assert_true(read_node("{\"real32\":0.1}")->real32 == 0.1f);
        assert_true(read_node("{\"real32\":\"Infinity\"}")->real32 == INFINITY);
}

static void test_bools_and_enums(void **state) {
        (void)state;
        assert_int_equal(read_node("{\"truth\":true}")->truth, 1);
        assert_int_equal(read_node("{\"truth\":false}")->truth, 0);
        assert_int_equal(read_node("{\"truth\":\"true\"}")->truth, 1);
        assert_int_equal(read_node("{\"truth\":\"false\"}")->truth, 0);
        assert_int_equal(read_node("{\"color\":\"GREEN\"}")->color, NODE_GREEN);
        assert_int_equal(read_node("{\"color\":\"green\"}")->color, NODE_GREEN);
        assert_int_equal(read_node("{\"color\":1}")->color, NODE_GREEN);
        assert_int_equal(read_node("{\"color\":-2}")->color, NODE_BELOW);
}

/* Words of protobuf's JSON reader beyond proto3 JSON, which clients of the reference server use. */
static void test_lenient_words(void **state) {
        static const char *const yes[] = { "True", "t", "Yes", "y", "1" };
        static const char *const no[] = { "FALSE", "f", "no", "N", "0" };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
                char json[32];

                snprintf(json, sizeof(json), "{\"truth\":\"%s\"}", yes[i]);
                assert_int_equal(read_node(json)->truth, 1);
                snprintf(json, sizeof(json), "{\"truth\":\"%s\"}", no[i]);
                assert_int_equal(read_node(json)->truth, 0);
        }
        assert_int_equal(read_node("{\"color\":\"1\"}")->color, NODE_GREEN);
        assert_int_equal(read_node("{\"color\":\"-2\"}")->color, NODE_BELOW);
        assert_int_equal(read_node("{\"color\":1.0}")->color, NODE_GREEN);
        assert_int_equal(read_node("{\"i32\":\"+007\"}")->i32, 7);
        assert_int_equal(read_node("{\"i32\":\"-007\"}")->i32, -7);
        assert_true(read_node("{\"real64\":\"+2\"}")->real64 == 2.0);
}

static void test_strings_and_bytes(void **state) {
        struct node *node;

        (void)state;
        assert_string_equal(read_node("{\"text\":\"a\\n\\u00e9\"}")->text, "a\n\xc3\xa9");
        assert_string_equal(read_node("{\"text\":\"\"}")->text, "");
        assert_string_equal(read_node("{\"te\\u0078t\":\"x\"}")->text, "x");
        node = read_node("{\"bytes\":\"AP/+\"}");
        assert_int_equal(node->bytes.len, 3);
        assert_memory_equal(node->bytes.data, "\x00\xff\xfe", 3);
        node = read_node("{\"bytes\":\"_-A=\"}"); /* the other alphabet */
        assert_int_equal(node->bytes.len, 2);
        assert_memory_equal(node->bytes.data, "\xff\xe0", 2);
        node = read_node("{\"bytes\":\"/w\"}"); /* without padding */
        assert_int_equal(node->bytes.len, 1);
        assert_memory_equal(node->bytes.data, "\xff", 1);
        assert_int_equal(read_node("{\"bytes\":\"\"}")->bytes.len, 0);
}

static void test_lists_and_maps(void **state) {
        struct node *node = read_node("{\"words\":[\"a\",\"b\"],\"children\":[{\"i32\":1},{}],"
                                      "\"numbers\":{\"-5\":\"x\",\"7\":\"y\",\"-5\":\"z\"},"
                                      "\"switches\":{\"true\":{\"i32\":3}}}");

        (void)state;
        assert_int_equal(node->n_words, 2);
        assert_string_equal(node->words[1], "b");
        assert_int_equal(node->n_children, 2);
        assert_int_equal(node->children[0]->i32, 1);
        assert_int_equal(node->n_numbers, 2);
        assert_true(node->numbers[0]->key == 7);
        assert_true(node->numbers[1]->key == -5);
        assert_string_equal(node->numbers[1]->value, "z");
        assert_int_equal(node->n_switches, 1);
        assert_int_equal(node->switches[0]->key, 1);
        assert_int_equal(node->switches[0]->value->i32, 3);
}

static void test_a_value_is_a_list_of_one(void **state) {
        struct node *node = read_node("{\"words\":\"a\",\"children\":{\"words\":[],\"i32\":4}}");

        (void)state;
        assert_int_equal(node->n_words, 1);
        assert_string_equal(node->words[0], "a");
        assert_int_equal(node->n_children, 1);
        assert_int_equal(node->children[0]->i32, 4);
        assert_int_equal(node->children[0]->n_words, 0);
        node = read_node("{\"words\":\"a\",\"words\":[\"b\",\"c\"]}");
        assert_int_equal(node->n_words, 3);
        assert_string_equal(node->words[2], "c");
}

static void test_arrays_in_arrays_are_one_list(void **state) {
        struct node *node = read_node("{\"words\":[\"a\",[\"b\",[],[\"c\"]],\"d\"],"
                                      "\"children\":[[{\"i32\":1}],[{\"i32\":2}]]}");

        (void)state;
        assert_int_equal(node->n_words, 4);
        assert_string_equal(node->words[1], "b");
        assert_string_equal(node->words[2], "c");
        assert_string_equal(node->words[3], "d");
        assert_int_equal(node->n_children, 2);
        assert_int_equal(node->children[1]->i32, 2);
}

static void test_null_in_lists_and_maps_is_the_default(void **state) {
        struct node *node = read_node("{\"words\":[\"a\",null],\"children\":[null,{\"i32\":2}],"
                                      "\"numbers\":{\"1\":null},\"switches\":{\"true\":null}}");

        (void)state;
        assert_int_equal(node->n_words, 2);
        assert_string_equal(node->words[1], "");
        assert_int_equal(node->n_children, 2);
        assert_int_equal(node->children[0]->i32, 0);
        assert_int_equal(node->children[1]->i32, 2);
        assert_int_equal(node->n_numbers, 1);
        assert_string_equal(node->numbers[0]->value, "");
        assert_int_equal(node->switches[0]->key, 1);
        assert_int_equal(node->switches[0]->value->i32, 0);
}

static void test_null_leaves_a_field_unset(void **state) {
        struct node *node =
                read_node("{\"i32\":null,\"child\":null,\"words\":null,\"numbers\":null,"
                          "\"level\":null,\"name\":null,\"number\":4,\"i32\":5}");

        (void)state;
        assert_int_equal(node->i32, 5);
        assert_null(node->child);
        assert_int_equal(node->n_words, 0);
        assert_int_equal(node->n_numbers, 0);
        assert_int_equal(node->has_level, 0);
        assert_int_equal(node->choice_case, 23);
        assert_int_equal(node->number, 4);
        assert_int_equal(read_node("{\"level\":0}")->has_level, 1);
}

static const struct {
        const char *json;
        const char *error;
} errors[] = {
        { "{\"i33\":1}", "message 'Node' has no field named 'i33'; did you mean 'i32'?" },
        { "{\"elephant\":1}", "message 'Node' has no field named 'elephant'" },
        { "{\"children\":[{},{\"child\":{\"wrds\":[]}}]}",
          "children[1].child: message 'Node' has no field named 'wrds'; did you mean "
          "'words'?" },
        { "{\"switches\":{\"true\":{\"x\":1}}}",
          "switches[\"true\"]: message 'Node' has no field named 'x'" },
        { "{\"i32\":1,\"i32\":2}", "non-repeated field \"i32\" is specified multiple times" },
        { "{\"has_x\":1}", "message 'Node' has no field named 'has_x'" },
        { "{\"child\":{\"number\":1,\"name\":\"a\"}}",
          "child: field \"name\" is specified along with field \"number\", another member "
          "of the "
          "same oneof" },
        { "{\"words\":[],\"words\":[\"a\",1]}", "words[1]: expected a string, got a number" },
        { "{\"i32\":2147483648}", "i32: value 2147483648 is out of range for int32" },
        { "{\"i32\":\"-2147483649\"}", "i32: value -2147483649 is out of range for int32" },
        { "{\"u32\":-1}", "u32: value -1 is out of range for uint32" },
        { "{\"u64\":18446744073709551616}",
          "u64: value 18446744073709551616 is out of range for uint64" },
        { "{\"i64\":1e300}", "i64: value 1e300 is out of range for int64" },
        { "{\"i64\":1.5}", "i64: expected an integer, got 1.5" },
        { "{\"i64\":\"abc\"}", "i64: expected a number, got \"abc\"" },
        { "{\"i64\":\"\"}", "i64: expected a number, got \"\"" },
        { "{\"i64\":\"1 2\"}", "i64: expected a number, got \"1 2\"" },
        { "{\"i64\":true}", "i64: expected a number, got a boolean" },
        { "{\"i64\":[1]}", "i64: expected a number, got an array" },
        { "{\"i64\":NaN}", "i64: value NaN is out of range for int64" },
        { "{\"real32\":1e39}", "real32: value 1e39 is out of range for float" },
        { "{\"real64\":{}}", "real64: expected a number, got an object" },
        { "{\"truth\":1}", "truth: expected true or false, got a number" },
        { "{\"truth\":\"yess\"}", "truth: expected true or false, got \"yess\"" },
        { "{\"color\":\"GREN\"}",
          "color: enum 'Color' has no value 'GREN'; did you mean 'GREEN'?" },
        { "{\"color\":5}", "color: enum 'Color' has no value '5'" },
        { "{\"color\":\"5\"}", "color: enum 'Color' has no value '5'" },
        { "{\"color\":1.5}", "color: enum 'Color' has no value '1.5'" },
        { "{\"color\":true}", "color: expected the name of an enum value, got a boolean" },
        { "{\"text\":7}", "text: expected a string, got a number" },
        { "{\"text\":\"a\\u0000\"}", "text: string contains a NUL byte" },
        { "{\"bytes\":\"?\"}", "bytes: string is not valid base64" },
        { "{\"bytes\":\"A\"}", "bytes: string is not valid base64" },
        { "{\"bytes\":[]}", "bytes: expected a string in base64, got an array" },
        { "{\"words\":7}", "words: expected a string, got a number" },
        { "{\"words\":[\"a\",[\"b\",7]]}", "words[1][1]: expected a string, got a number" },
        { "{\"children\":true}", "children: expected an object, got a boolean" },
        { "{words:[\"a\"]}", "JSON at offset 1: Missing a name for object member." },
        { "{'words':[]}", "JSON at offset 1: Missing a name for object member." },
        { "{\"words\":['a']}", "JSON at offset 10: Invalid value." },
        { "{\"words\":[\"a\",]}", "JSON at offset 14: Invalid value." },
        { "{\"child\":[]}", "child: expected an object, got an array" },
        { "{\"numbers\":[]}", "numbers: expected an object, got an array" },
        { "{\"numbers\":{\"x\":\"a\"}}", "numbers: key 'x' is not a value of type int64" },
        { "{\"numbers\":{\"\":\"a\"}}", "numbers: key '' is not a value of type int64" },
        { "{\"numbers\":{\"-\":\"a\"}}", "numbers: key '-' is not a value of type int64" },
        { "{\"numbers\":{\"1\":2}}", "numbers[\"1\"]: expected a string, got a number" },
        { "{\"switches\":{\"1\":{}}}", "switches: key '1' is not a value of type bool" },
        { "[]", "expected an object, got an array" },
        { "null", "expected an object, got null" },
        { "", "JSON at offset 0: The document is empty." },
        { "{", "JSON at offset 1: Missing a name for object member." },
        { "{\"i32\":", "JSON at offset 7: Invalid value." },
        { "{\"i32\":1", "JSON at offset 8: Missing a comma or } after an object member." },
        { "{\"i32\":1 2}", "JSON at offset 9: Missing a comma or } after an object member." },
        { "{\"child\":{\"i32\":?}}", "JSON at offset 16: Invalid value." },
        { "{\"words\":[\"a\" \"b\"]}",
          "JSON at offset 14: Missing a comma or ] after an array element." },
        { "{\"numbers\":{\"1\" 2}}",
          "JSON at offset 16: Missing a colon after a name of object member." },
        { "{} {}", "JSON at offset 3: The document root must not be followed by other values." },
};

static void test_errors(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(errors); i++) {
                ProtobufCMessage *message = NULL;
                struct error     *err;

                err = pb_json_read(&node_type, str_of(errors[i].json), &arena, &message);
                if (err == NULL)
                        fail_msg("read without an error: %s", errors[i].json);
                assert_string_equal(err->message, errors[i].error);
                assert_int_equal(err->code, ERR_INVALID_ARG);
                assert_null(message);
                error_free(err);
        }
}

/* Texts of errors when memory is short for one allocation: the error without its place at worst. */
static void test_errors_without_memory(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(errors); i++) {
                bool was_hit = true;

                for (unsigned n = 1; was_hit; n++) {
                        ProtobufCMessage *message = NULL;
                        struct error     *err;
                        const char       *expected = errors[i].error;
                        size_t            len;

                        mem_fail_once(n);
                        err = pb_json_read(&node_type, str_of(errors[i].json), &arena, &message);
                        was_hit = mem_fail_was_hit();
                        mem_fail_after(0);
                        assert_non_null(err);
                        len = strlen(err->message);
                        if (len > strlen(expected) ||
                            strcmp(expected + strlen(expected) - len, err->message) != 0)
                                assert_non_null(strstr(err->message, "memory"));
                        error_free(err);
                }
        }
}

static void test_bytes_without_memory(void **state) {
        ProtobufCMessage *message = NULL;
        struct error     *err;
        unsigned          n = 0;

        (void)state;
        do {
                mem_fail_once(++n);
                err = pb_json_read(&node_type, STR_LIT("{\"bytes\":\"AAAA\"}"), &arena, &message);
        } while (expect_or_shortage(err, ERR_UNKNOWN, NULL));
        assert_true(n > 2);
}

/* Every text cut short is an error, and never a message. */
static void test_every_prefix_is_refused(void **state) {
        static const char json[] =
                "{\"i32\":12,\"text\":\"a\\u00e9\",\"words\":[\"a\",\"b\"],\"color\":1,"
                "\"numbers\":{\"1\":\"x\"},\"real64\":-1.5e3,\"truth\":true,"
                "\"bytes\":\"AAAA\",\"child\":{\"child\":null},\"u64\":\"7\"}";

        (void)state;
        assert_non_null(read_node(json));
        for (size_t len = 0; len < sizeof(json) - 1; len++) {
                ProtobufCMessage *message = NULL;
                struct error     *err =
                        pb_json_read(&node_type, str_range(json, len), &arena, &message);

                if (err == NULL)
                        fail_msg("read without an error: %.*s", (int)len, json);
                assert_int_equal(err->code, ERR_INVALID_ARG);
                assert_null(message);
                error_free(err);
        }
}

static void refuse_nesting(const char *first, const char *repeated) {
        AUTO_STRBUF       text;
        ProtobufCMessage *message = NULL;
        struct error     *err;

        strbuf_init(&text, 0);
        strbuf_puts(&text, first);
        for (int i = 0; i < 100000; i++)
                strbuf_puts(&text, repeated);
        err = pb_json_read(&node_type, strbuf_str(&text), &arena, &message);
        assert_non_null(err);
        assert_int_equal(err->code, ERR_INVALID_ARG);
        error_free(err);
}

static void test_nesting_has_an_end(void **state) {
        (void)state;
        refuse_nesting("", "{\"child\":");
        refuse_nesting("{\"words\":", "[");
        refuse_nesting("{\"children\":", "[");
}

static void test_memory_may_end_anywhere(void **state) {
        static const char json[] =
                "{\"words\":[\"a\",\"b\\n\",\"c\",\"d\",\"e\"],\"child\":{\"text\":\"x\"},"
                "\"numbers\":{\"1\":\"y\",\"2\":\"z\"},\"switches\":{\"true\":{}},"
                "\"bytes\":\"AAAA\",\"children\":[null,[{}]],\"words\":[[\"f\\n\"]]}";
        bool has_ended = false;
        int  n_failed = 0;

        (void)state;
        for (size_t max = 64; !has_ended && max < 1u << 20; max += 64) {
                struct arena      small;
                ProtobufCMessage *message = NULL;
                struct error     *err;

                arena_init(&small, NULL, 0, max);
                err = pb_json_read(&node_type, str_of(json), &small, &message);
                has_ended = err == NULL;
                n_failed += err != NULL;
                assert_int_equal(message != NULL, has_ended);
                error_free(err);
                arena_done(&small);
        }
        assert_true(has_ended);
        assert_true(n_failed > 10);
}

SUITE(pb_json_read) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_an_empty_object_is_the_default_message, setup,
                                                teardown),
                cmocka_unit_test_setup_teardown(test_a_whole_configuration, setup, teardown),
                cmocka_unit_test_setup_teardown(test_a_control_message, setup, teardown),
                cmocka_unit_test_setup_teardown(test_integers, setup, teardown),
                cmocka_unit_test_setup_teardown(test_reals, setup, teardown),
                cmocka_unit_test_setup_teardown(test_bools_and_enums, setup, teardown),
                cmocka_unit_test_setup_teardown(test_lenient_words, setup, teardown),
                cmocka_unit_test_setup_teardown(test_strings_and_bytes, setup, teardown),
                cmocka_unit_test_setup_teardown(test_lists_and_maps, setup, teardown),
                cmocka_unit_test_setup_teardown(test_null_in_lists_and_maps_is_the_default, setup,
                                                teardown),
                cmocka_unit_test_setup_teardown(test_arrays_in_arrays_are_one_list, setup,
                                                teardown),
                cmocka_unit_test_setup_teardown(test_a_value_is_a_list_of_one, setup, teardown),
                cmocka_unit_test_setup_teardown(test_null_leaves_a_field_unset, setup, teardown),
                cmocka_unit_test_setup_teardown(test_errors, setup, teardown),
                cmocka_unit_test_setup_teardown(test_errors_without_memory, setup, teardown),
                cmocka_unit_test_setup_teardown(test_bytes_without_memory, setup, teardown),
                cmocka_unit_test_setup_teardown(test_every_prefix_is_refused, setup, teardown),
                cmocka_unit_test_setup_teardown(test_nesting_has_an_end, setup, teardown),
                cmocka_unit_test_setup_teardown(test_memory_may_end_anywhere, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
