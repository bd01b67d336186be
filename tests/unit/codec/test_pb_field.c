/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "codec/pb_field.h"
#include "model_config.pb-c.h"
#include "pb_node.h"

#define CONFIG (&inference__model_config__descriptor)

static const ProtobufCFieldDescriptor *node_field(const char *name) {
        const ProtobufCFieldDescriptor *field = pb_field_find(&node_type, str_of(name));

        assert_non_null(field);
        return field;
}

static void test_kinds_and_widths(void **state) {
        static const struct {
                const char  *name;
                enum pb_kind kind;
                unsigned     bits;
                const char  *type_name;
        } rows[] = {
                { "i32", PB_SIGNED, 32, "int32" },     { "s32", PB_SIGNED, 32, "sint32" },
                { "sf32", PB_SIGNED, 32, "sfixed32" }, { "i64", PB_SIGNED, 64, "int64" },
                { "s64", PB_SIGNED, 64, "sint64" },    { "sf64", PB_SIGNED, 64, "sfixed64" },
                { "u32", PB_UNSIGNED, 32, "uint32" },  { "f32", PB_UNSIGNED, 32, "fixed32" },
                { "u64", PB_UNSIGNED, 64, "uint64" },  { "f64", PB_UNSIGNED, 64, "fixed64" },
                { "real32", PB_REAL, 32, "float" },    { "real64", PB_REAL, 64, "double" },
                { "truth", PB_BOOL, 0, "bool" },       { "color", PB_ENUM, 0, "Color" },
                { "text", PB_STRING, 0, "string" },    { "bytes", PB_BYTES, 0, "bytes" },
                { "child", PB_MESSAGE, 0, "Node" },    { "words", PB_STRING, 0, "string" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                assert_int_equal(pb_field_kind(node_field(rows[i].name)), rows[i].kind);
                assert_int_equal(pb_field_bits(node_field(rows[i].name)), rows[i].bits);
                assert_string_equal(pb_field_type_name(node_field(rows[i].name)),
                                    rows[i].type_name);
        }
}

static void test_repeated_oneof_map(void **state) {
        (void)state;
        assert_true(pb_field_is_repeated(node_field("words")));
        assert_false(pb_field_is_repeated(node_field("text")));
        assert_true(pb_field_is_oneof(node_field("name")));
        assert_false(pb_field_is_oneof(node_field("text")));
        assert_true(pb_field_is_map(node_field("numbers")));
        assert_false(pb_field_is_map(node_field("children")));
        assert_false(pb_field_is_map(node_field("child")));
        assert_string_equal(pb_map_key(node_field("numbers"))->name, "key");
        assert_string_equal(pb_map_value(node_field("numbers"))->name, "value");
        assert_int_equal(pb_field_kind(pb_map_key(node_field("numbers"))), PB_SIGNED);
        /* As protoc-c makes them. */
        assert_true(pb_field_is_map(pb_field_find(CONFIG, STR_LIT("parameters"))));
        assert_true(pb_field_is_map(pb_field_find(CONFIG, STR_LIT("cc_model_filenames"))));
        assert_false(pb_field_is_map(pb_field_find(CONFIG, STR_LIT("input"))));
        assert_true(pb_field_is_oneof(pb_field_find(CONFIG, STR_LIT("dynamic_batching"))));
        assert_false(pb_field_is_oneof(pb_field_find(CONFIG, STR_LIT("optimization"))));
}

static void test_find_by_name(void **state) {
        (void)state;
        assert_int_equal(pb_field_find(CONFIG, STR_LIT("max_batch_size"))->id, 4);
        assert_null(pb_field_find(CONFIG, STR_LIT("maxBatchSize")));
        assert_null(pb_field_find(CONFIG, STR_LIT("max_batch_siz")));
        assert_null(pb_field_find(CONFIG, STR_LIT("")));
}

static void test_find_by_json_name(void **state) {
        (void)state;
        assert_int_equal(pb_field_find_json(CONFIG, STR_LIT("max_batch_size"))->id, 4);
        assert_int_equal(pb_field_find_json(CONFIG, STR_LIT("maxBatchSize"))->id, 4);
        assert_int_equal(pb_field_find_json(CONFIG, STR_LIT("ccModelFilenames"))->id, 9);
        assert_int_equal(pb_field_find_json(CONFIG, STR_LIT("name"))->id, 1);
        assert_int_equal(
                pb_field_find_json(&inference__model_sequence_batching__control__descriptor,
                                   STR_LIT("fp32FalseTrue"))
                        ->id,
                3);
        assert_null(pb_field_find_json(CONFIG, STR_LIT("MaxBatchSize")));
        assert_null(pb_field_find_json(CONFIG, STR_LIT("maxbatchsize")));
        assert_null(pb_field_find_json(CONFIG, STR_LIT("maxBatch")));
        assert_null(pb_field_find_json(CONFIG, STR_LIT("maxBatchSizes")));
        assert_null(pb_field_find_json(CONFIG, STR_LIT("max_batchSize")));
}

static void test_suggestions(void **state) {
        const ProtobufCFieldDescriptor *kind;

        (void)state;
        kind = pb_field_find(&inference__model_instance_group__descriptor, STR_LIT("kind"));
        assert_string_equal(pb_field_suggest(CONFIG, STR_LIT("max_batchsize")), "max_batch_size");
        assert_string_equal(pb_field_suggest(CONFIG, STR_LIT("inputs")), "input");
        assert_string_equal(pb_field_suggest(CONFIG, STR_LIT("Version_Policy")), "version_policy");
        assert_null(pb_field_suggest(CONFIG, STR_LIT("quantum_entanglement")));
        assert_string_equal(pb_enum_suggest(kind, STR_LIT("KIND_CUP")), "KIND_CPU");
        assert_string_equal(pb_enum_suggest(kind, STR_LIT("kind_model")), "KIND_MODEL");
        assert_null(pb_enum_suggest(kind, STR_LIT("ZEBRA")));
}

static void test_type_names(void **state) {
        (void)state;
        assert_string_equal(pb_type_name(CONFIG), "ModelConfig");
        assert_string_equal(pb_type_name(&inference__model_sequence_batching__control__descriptor),
                            "ModelSequenceBatching.Control");
}

static void test_enum_values(void **state) {
        const ProtobufCFieldDescriptor *color = node_field("color");
        int                             number = 99;

        (void)state;
        assert_true(pb_enum_find(color, STR_LIT("GREEN"), false, &number));
        assert_int_equal(number, NODE_GREEN);
        assert_false(pb_enum_find(color, STR_LIT("below"), false, &number));
        assert_int_equal(number, NODE_GREEN);
        assert_true(pb_enum_find(color, STR_LIT("below"), true, &number));
        assert_int_equal(number, NODE_BELOW);
        assert_string_equal(pb_enum_name(color, 0), "RED");
        assert_string_equal(pb_enum_name(color, -2), "BELOW");
        assert_null(pb_enum_name(color, 2));
}

static void test_integers_that_fit(void **state) {
        static const struct {
                const char *field;
                bool        is_negative;
                uint64_t    magnitude;
                bool        fits;
        } rows[] = {
                { "i32", false, INT32_MAX, true },
                { "i32", false, UINT64_C(1) << 31, false },
                { "i32", true, UINT64_C(1) << 31, true },
                { "i32", true, (UINT64_C(1) << 31) + 1, false },
                { "i64", false, INT64_MAX, true },
                { "i64", false, UINT64_C(1) << 63, false },
                { "i64", true, UINT64_C(1) << 63, true },
                { "i64", true, (UINT64_C(1) << 63) + 1, false },
                { "u32", false, UINT32_MAX, true },
                { "u32", false, UINT64_C(1) << 32, false },
                { "u32", true, 1, false },
                { "u32", true, 0, true },
                { "u64", false, UINT64_MAX, true },
                { "u64", true, 1, false },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                union pb_value value = { .u64 = 0 };

                assert_int_equal(pb_integer_fit(node_field(rows[i].field), rows[i].is_negative,
                                                rows[i].magnitude, &value),
                                 rows[i].fits);
                if (rows[i].fits)
                        assert_true(value.u64 == (rows[i].is_negative ? 0 - rows[i].magnitude
                                                                      : rows[i].magnitude));
        }
}

static void test_values_of_a_message(void **state) {
        char       *words[] = { "a", "b" };
        char        text[] = "";
        struct node node = { .i32 = -5,
                             .u64 = UINT64_MAX,
                             .real32 = 0.5f,
                             .color = NODE_BELOW,
                             .truth = 1,
                             .n_words = 2,
                             .words = words,
                             .choice_case = 24,
                             .text = text };

        (void)state;
        node.name = words[1];
        assert_true(pb_value_get(&node.base, node_field("i32"), 0).i64 == -5);
        assert_true(pb_value_get(&node.base, node_field("u64"), 0).u64 == UINT64_MAX);
        assert_true(pb_value_get(&node.base, node_field("real32"), 0).real == 0.5);
        assert_true(pb_value_get(&node.base, node_field("color"), 0).i64 == NODE_BELOW);
        assert_true(pb_value_get(&node.base, node_field("truth"), 0).truth);
        assert_string_equal(pb_value_get(&node.base, node_field("words"), 1).text, "b");
        assert_string_equal(pb_value_get(&node.base, node_field("name"), 0).text, "b");

        assert_int_equal(pb_value_count(&node.base, node_field("i64")), 1);
        assert_int_equal(pb_value_count(&node.base, node_field("words")), 2);
        assert_int_equal(pb_value_count(&node.base, node_field("children")), 0);
        assert_int_equal(pb_value_count(&node.base, node_field("child")), 0);
        assert_int_equal(pb_value_count(&node.base, node_field("level")), 0);
        assert_int_equal(pb_value_count(&node.base, node_field("name")), 1);
        assert_int_equal(pb_value_count(&node.base, node_field("number")), 0);
        assert_int_equal(pb_value_count(&node.base, node_field("sub")), 0);
        node.has_level = 1;
        node.child = &node;
        assert_int_equal(pb_value_count(&node.base, node_field("level")), 1);
        assert_int_equal(pb_value_count(&node.base, node_field("child")), 1);
}

SUITE(pb_field) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_kinds_and_widths),
                cmocka_unit_test(test_repeated_oneof_map),
                cmocka_unit_test(test_find_by_name),
                cmocka_unit_test(test_find_by_json_name),
                cmocka_unit_test(test_suggestions),
                cmocka_unit_test(test_type_names),
                cmocka_unit_test(test_enum_values),
                cmocka_unit_test(test_integers_that_fit),
                cmocka_unit_test(test_values_of_a_message),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
