/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "codec/pb_build.h"
#include "pb_node.h"

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

static const ProtobufCFieldDescriptor *node_field(const char *name) {
        const ProtobufCFieldDescriptor *field = pb_field_find(&node_type, str_of(name));

        assert_non_null(field);
        return field;
}

static void check_refused(struct error *err, const char *text) {
        assert_non_null(err);
        assert_int_equal(err->code, ERR_INVALID_ARG);
        assert_string_equal(err->message, text);
        error_free(err);
}

static void test_a_new_message_has_the_defaults(void **state) {
        ProtobufCMessage *message = NULL;

        (void)state;
        assert_null(pb_message_new(&node_type, &arena, &message));
        assert_ptr_equal(message->descriptor, &node_type);
        assert_ptr_equal(((struct node *)message)->text, protobuf_c_empty_string);
        assert_int_equal(((struct node *)message)->n_children, 0);
}

static void test_claims(void **state) {
        struct pb_build b;

        (void)state;
        assert_null(pb_build_start(&b, &node_type, &arena));
        assert_null(pb_build_claim(&b, node_field("i32")));
        assert_null(pb_build_claim(&b, node_field("text")));
        assert_null(pb_build_claim(&b, node_field("words")));
        assert_null(pb_build_claim(&b, node_field("words")));
        check_refused(pb_build_claim(&b, node_field("i32")),
                      "non-repeated field \"i32\" is specified multiple times");
        assert_null(pb_build_claim(&b, node_field("name")));
        check_refused(pb_build_claim(&b, node_field("name")),
                      "non-repeated field \"name\" is specified multiple times");
        check_refused(
                pb_build_claim(&b, node_field("number")),
                "field \"number\" is specified along with field \"name\", another member of the "
                "same oneof");
}

/* Arrays grow at 4, 8, 16, ...: each length on both sides of these is looked at. */
static void test_lists_keep_their_elements_while_they_grow(void **state) {
        const ProtobufCFieldDescriptor *words = node_field("words");
        struct pb_build                 b;
        struct node                    *node;
        static char                     texts[70][8];

        (void)state;
        assert_null(pb_build_start(&b, &node_type, &arena));
        node = (struct node *)b.message;
        for (size_t n = 0; n < 70; n++) {
                union pb_value value = { .text = texts[n] };

                snprintf(texts[n], sizeof(texts[n]), "w%zu", n);
                assert_null(pb_build_put(&b, words, value));
                assert_int_equal(node->n_words, n + 1);
                for (size_t i = 0; i <= n; i++)
                        assert_ptr_equal(node->words[i], texts[i]);
        }
        assert_null(pb_build_finish(&b));
        assert_int_equal(node->n_words, 70);
}

static void put_number(struct pb_build *b, int64_t key, char *text) {
        const ProtobufCFieldDescriptor *map = node_field("numbers");
        struct pb_build                 entry;

        assert_null(pb_build_start(&entry, pb_field_message(map), &arena));
        assert_null(pb_build_put(&entry, pb_map_key(map), (union pb_value){ .i64 = key }));
        assert_null(pb_build_put(&entry, pb_map_value(map), (union pb_value){ .text = text }));
        assert_null(pb_build_put(b, map, (union pb_value){ .message = entry.message }));
}

/* As many as make a quadratic search noticeable; every key three times. */
static void test_large_maps_keep_the_last_of_each_key(void **state) {
        static char     first[] = "first", last[] = "last";
        struct pb_build b;
        struct node    *node;

        (void)state;
        assert_null(pb_build_start(&b, &node_type, &arena));
        node = (struct node *)b.message;
        for (int round = 0; round < 3; round++)
                for (int64_t key = 0; key < 20000; key++)
                        put_number(&b, key - 10000, round < 2 ? first : last);
        assert_int_equal(node->n_numbers, 60000);
        assert_null(pb_build_finish(&b));
        assert_int_equal(node->n_numbers, 20000);
        for (int64_t i = 0; i < 20000; i++) {
                assert_true(node->numbers[i]->key == i - 10000);
                assert_ptr_equal(node->numbers[i]->value, last);
        }
}

static void test_oneof_and_optional_are_marked(void **state) {
        struct pb_build b;
        struct node    *node;

        (void)state;
        assert_null(pb_build_start(&b, &node_type, &arena));
        node = (struct node *)b.message;
        assert_null(pb_build_put(&b, node_field("number"), (union pb_value){ .i64 = -3 }));
        assert_null(pb_build_put(&b, node_field("level"), (union pb_value){ .i64 = 9 }));
        assert_int_equal(node->choice_case, 23);
        assert_int_equal(node->number, -3);
        assert_int_equal(node->has_level, 1);
        assert_int_equal(node->level, 9);
}

static void test_text_values(void **state) {
        union pb_value value = { .u64 = 0 };
        char           text[] = "abc";

        (void)state;
        assert_null(pb_text_value(str_of(text), &arena, &value));
        assert_string_equal(value.text, "abc");
        assert_ptr_not_equal(value.text, text);
        assert_null(pb_text_value(str_range(text, 2), &arena, &value));
        assert_string_equal(value.text, "ab");
        assert_null(pb_text_value(STR_LIT(""), &arena, &value));
        assert_ptr_equal(value.text, protobuf_c_empty_string);
        check_refused(pb_text_value(STR_LIT("a\0"), &arena, &value), "string contains a NUL byte");
        check_refused(pb_text_value(STR_LIT("\xc0\x80"), &arena, &value),
                      "string is not valid UTF-8");
}

static void test_a_full_arena_is_an_error(void **state) {
        struct arena      small;
        ProtobufCMessage *message = NULL;
        struct error     *err;

        (void)state;
        arena_init(&small, NULL, 0, sizeof(struct node) - 1);
        err = pb_message_new(&node_type, &small, &message);
        assert_non_null(err);
        assert_int_equal(err->code, ERR_UNAVAILABLE);
        assert_null(message);
        error_free(err);
        arena_done(&small);
}

SUITE(pb_build) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_a_new_message_has_the_defaults, setup,
                                                teardown),
                cmocka_unit_test_setup_teardown(test_claims, setup, teardown),
                cmocka_unit_test_setup_teardown(test_lists_keep_their_elements_while_they_grow,
                                                setup, teardown),
                cmocka_unit_test_setup_teardown(test_large_maps_keep_the_last_of_each_key, setup,
                                                teardown),
                cmocka_unit_test_setup_teardown(test_oneof_and_optional_are_marked, setup,
                                                teardown),
                cmocka_unit_test_setup_teardown(test_text_values, setup, teardown),
                cmocka_unit_test_setup_teardown(test_a_full_arena_is_an_error, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
