/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/mem.h"
#include "config/batch_members.h"
#include "config/config_check.h"
#include "config_rows.h"

#include <stdio.h>

#define GROUPS "instance_group [ { name: 'b1' }, { name: 'b4' count: 2 }, { name: 'b8' } ] "
#define MODEL "name: 'm' max_batch_size: 8 " GROUPS
#define P(key, value) "parameters { key: '" key "' value { string_value: '" value "' } } "
#define RANGES(value) P("batch_ranges", value)

static const struct config_devices no_gpus = { .n_gpus = 0 };

static struct model_config *load(const char *text) {
        struct model_config *c = config_of(text);

        assert_null(model_config_normalize(c));
        assert_accepted(model_config_normalize_groups(c, &no_gpus), text);
        return c;
}

static void read_members(const char *text, struct model_config **ret_config,
                         struct batch_members *ret) {
        *ret_config = load(text);
        assert_accepted(batch_members_read(*ret_config, ret), text);
}

static void assert_members(const char *text, const char *expected) {
        struct model_config *c;
        struct batch_members m;
        char                 got[512] = "";
        size_t               len = 0;

        read_members(text, &c, &m);
        for (size_t i = 0; i < m.n_items; i++)
                len += (size_t)snprintf(got + len, sizeof(got) - len, "%s%s x%d %u-%u%s%s",
                                        i > 0 ? ", " : "", m.items[i].name,
                                        c->pb->instance_group[i]->count, m.items[i].min_rows,
                                        m.items[i].max_rows, m.items[i].file != NULL ? " " : "",
                                        m.items[i].file != NULL ? m.items[i].file : "");
        assert_text(got, expected, text);
        batch_members_done(&m);
        model_config_free(c);
}

static void test_ranges(void **state) {
        (void)state;
        assert_members(MODEL, "b1 x1 1-8, b4 x2 1-8, b8 x1 1-8");
        assert_members(MODEL RANGES("b1:1-1,b4:4-4,b8:8-8"), "b1 x1 1-1, b4 x2 4-4, b8 x1 8-8");
        assert_members(MODEL RANGES(" b4: 2-4 , b8:5-8"), "b1 x1 1-8, b4 x2 2-4, b8 x1 5-8");
        assert_members(MODEL P("member_files", "b1:m1.onnx,b8:m8.onnx"),
                       "b1 x1 1-8 m1.onnx, b4 x2 1-8, b8 x1 1-8 m8.onnx");
}

static void test_choices(void **state) {
        struct model_config *c;
        struct batch_members m;

        (void)state;
        read_members(MODEL P("partial", "what my backend wants"), &c, &m);
        assert_false(m.are_given);
        assert_true(m.may_split);
        assert_false(m.may_wait);
        batch_members_done(&m);
        model_config_free(c);

        read_members(MODEL RANGES("b1:4-8,b4:4-4,b8:8-8") P("partial", "wait")
                             P("split_requests", "false") P("member_concurrency", "exclusive"),
                     &c, &m);
        assert_true(m.are_given);
        assert_false(m.may_split);
        assert_true(m.may_wait);
        assert_true(m.is_exclusive);
        assert_false(m.items[0].file != NULL);
        assert_true(m.items[0].has_range);
        batch_members_done(&m);
        model_config_free(c);
}

static void test_decoupled_models_do_not_split(void **state) {
        struct model_config *c;
        struct batch_members m;

        (void)state;
        read_members(MODEL RANGES("b1:1-1") "model_transaction_policy { decoupled: true } ", &c,
                     &m);
        assert_false(m.may_split);
        batch_members_done(&m);
        model_config_free(c);
}

static void test_torchpipe_spelling(void **state) {
        (void)state;
        assert_members("name: 'm' max_batch_size: 8 " P("batch_min", "1&4&8")
                               P("batch_max", "1&4&8") P("instance_num", "2"),
                       "m0 x2 1-1, m1 x2 4-4, m2 x2 8-8");
        assert_members("name: 'm' max_batch_size: 8 " P("batch_max", "1&8")
                               P("instance_num", "1&2&3"),
                       "m0 x1 1-1, m1 x2 1-8, m2 x3 1-8");
        assert_members("name: 'm' max_batch_size: 8 " P("batch_max", "1&8")
                               P("member_files", "m1:eight.onnx"),
                       "m0 x1 1-1, m1 x1 1-8 eight.onnx");
}

static void test_expanding_again_changes_nothing(void **state) {
        struct model_config *c = load("name: 'm' max_batch_size: 8 " P("batch_max", "1&8"));

        (void)state;
        assert_int_equal(c->pb->n_instance_group, 2);
        assert_accepted(model_config_normalize_groups(c, &no_gpus), "again");
        assert_int_equal(c->pb->n_instance_group, 2);
        assert_accepted(model_config_check_groups(c, &no_gpus), "check");
        model_config_free(c);
}

static struct error *normalize_and_check(const struct model_config *c) {
        /* Rows are owned by who runs them: these are to be changed. */
        TRY(model_config_normalize_groups((struct model_config *)(uintptr_t)c, &no_gpus));
        return model_config_check_groups(c, &no_gpus);
}

static const struct config_row rows[] = {
        { MODEL RANGES("b1:1-1,b4:4-4,b8:8-8"), NULL },
        { MODEL RANGES("b1:1-1,b4:5-4"),
          "batch range 5-4 of instance group 'b4' of model m: its end is before its beginning" },
        { MODEL RANGES("b4:0-4"),
          "batch range 0-4 of instance group 'b4' of model m: it must begin at 1 or more" },
        { MODEL RANGES("b8:8-9"),
          "batch range 8-9 of instance group 'b8' of model m: it is beyond max_batch_size" },
        { MODEL RANGES("b9:1-1"), "parameter 'batch_ranges' names the instance group 'b9', which "
                                  "model m does not have" },
        { "name: 'm' max_batch_size: 16 " GROUPS RANGES("b1:1-1,b4:4-4,b8:8-8"),
          "batch range 8-8 of instance group 'b8' of model m reaches furthest, but max_batch_size "
          "is 16" },
        { "name: 'm' " GROUPS RANGES("b1:1-1"),
          "batch range 1-1 of instance group 'b1' of model m: "
          "the model does not batch (max_batch_size is 0)" },
        { MODEL RANGES("b1:4-8,b4:4-4,b8:8-8"),
          "cannot serve batch size 1 (smallest member minimum is 4): instance group 'b1' of model "
          "m" },
        { MODEL RANGES("b1:4-8,b4:4-4,b8:8-8") P("partial", "wait"), NULL },
        { MODEL RANGES("b1:1-1,b1:2-8"), "instance group 'b1' of model m has two batch ranges" },
        { MODEL RANGES("b1"), "parameter 'batch_ranges' must be entries <group>:<min>-<max> with "
                              "',' between them, got 'b1'" },
        { MODEL RANGES("b1:x-1"),
          "batch range of instance group 'b1' of model m must be <min>-<max>, got 'x-1'" },
        { MODEL RANGES("b1:1"),
          "batch range of instance group 'b1' of model m must be <min>-<max>, got '1'" },
        { MODEL RANGES(""), "parameter 'batch_ranges' must be entries <group>:<min>-<max> with ',' "
                            "between them, got ''" },
        { MODEL RANGES("b1:1-1") P("partial", "yes"),
          "parameter 'partial' of model m must be 'error' or 'wait', got 'yes'" },
        { MODEL RANGES("b1:1-1") P("split_requests", "1"),
          "parameter 'split_requests' of model m must be 'false' or 'true', got '1'" },
        { MODEL P("member_concurrency", "one"), "parameter 'member_concurrency' of model m must be "
                                                "'members' or 'exclusive', got 'one'" },
        { MODEL P("member_files", "b1:../m.onnx"),
          "member file '../m.onnx' of instance group 'b1' of model m must be the name of a file in "
          "the version's directory" },
        { MODEL P("member_files", "b1:a,b1:b"),
          "instance group 'b1' of model m has two member files" },
        { MODEL P("member_files", "b7:a"),
          "parameter 'member_files' names the instance group 'b7', "
          "which model m does not have" },
        { MODEL RANGES("b1:1-1") "sequence_batching { } ",
          "model m has members with batch ranges, which sequence_batching does not go with" },
        { "name: 'm' max_batch_size: 65537 " GROUPS RANGES("b1:1-1"),
          "model m has members with batch ranges: its max_batch_size may be 65536 at most" },
        { MODEL P("batch_max", "1&8"), "parameter 'batch_max' makes the instance groups of model m "
                                       "itself: instance_group must not be given" },
        { "name: 'm' max_batch_size: 8 " P("batch_max", "1&8") RANGES("m0:1-1"),
          "parameters 'batch_ranges' and 'batch_max' say the same twice" },
        { "name: 'm' max_batch_size: 8 " P("batch_max", "1&x"),
          "parameter 'batch_max' must be numbers from 1 to 2147483647 with '&' between them, got "
          "'1&x'" },
        { "name: 'm' max_batch_size: 8 " P("batch_max", "1&9"),
          "batch range 1-9 of instance group 'm1' of model m: it is beyond max_batch_size" },
        { "name: 'm' max_batch_size: 8 " P("batch_max", "1&8") P("instance_num", "1025"),
          "parameter 'instance_num' must be numbers from 1 to 1024 with '&' between them, got "
          "'1025'" },
};

static void test_refusals(void **state) {
        (void)state;
        run_normalized_rows(rows, ARRAY_LEN(rows), normalize_and_check);
}

static void test_no_memory(void **state) {
        struct model_config *c = load(MODEL RANGES("b1:1-1"));
        struct batch_members m;

        (void)state;
        mem_fail_after(1);
        assert_outcome(batch_members_read(c, &m), ERR_UNAVAILABLE, "out of memory", "read");
        mem_fail_after(0);
        assert_null(m.items);
        model_config_free(c);
}

SUITE(batch_members) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_ranges),
                cmocka_unit_test(test_choices),
                cmocka_unit_test(test_decoupled_models_do_not_split),
                cmocka_unit_test(test_torchpipe_spelling),
                cmocka_unit_test(test_expanding_again_changes_nothing),
                cmocka_unit_test(test_refusals),
                cmocka_unit_test(test_no_memory),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
