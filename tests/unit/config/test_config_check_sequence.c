/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "config/config_check.h"
#include "config_rows.h"

#define SEQUENCE(text) "name: 'm' backend: 'b' max_batch_size: 8 sequence_batching { " text " }"
#define CONTROL(name, kind, rest)                                                                  \
        "control_input { name: '" name "' control { kind: CONTROL_SEQUENCE_" kind " " rest " } } "
#define PAIR "int32_false_true: [0, 1]"

static const struct config_row control_rows[] = {
        { SEQUENCE(""), NULL },
        { SEQUENCE(CONTROL("S", "START", PAIR) CONTROL("E", "END", "fp32_false_true: [0, 1]")
                           CONTROL("R", "READY", "bool_false_true: [false, true]")
                                   CONTROL("C", "CORRID", "data_type: TYPE_STRING")),
          NULL },
        { SEQUENCE("control_input { name: 'X' control { kind: CONTROL_SEQUENCE_START " PAIR
                   " } control { kind: CONTROL_SEQUENCE_END " PAIR " } }"),
          NULL },
        { SEQUENCE("control_input { }"),
          "sequence batching control tensor must have a name for m" },
        { SEQUENCE(CONTROL("X", "START", PAIR) CONTROL("X", "END", PAIR)),
          "sequence batching control tensor 'X' is specified for multiple control kinds for m" },
        { SEQUENCE(CONTROL("X", "START", PAIR) CONTROL("Y", "START", PAIR)),
          "sequence batching specifies multiple CONTROL_SEQUENCE_START tensors for m" },
        { SEQUENCE(CONTROL("X", "READY", PAIR) CONTROL("Y", "READY", PAIR)),
          "sequence batching specifies multiple CONTROL_SEQUENCE_READY tensors for m" },
        { SEQUENCE(CONTROL("X", "CORRID", "data_type: TYPE_INT32")
                           CONTROL("Y", "CORRID", "data_type: TYPE_INT32")),
          "sequence batching specifies multiple CONTROL_SEQUENCE_CORRID tensors for m" },
        { SEQUENCE(CONTROL("X", "END", "")),
          "sequence batching must specify either 'int32_false_true', 'fp32_false_true' or "
          "'bool_false_true' for CONTROL_SEQUENCE_END for m" },
        { SEQUENCE(CONTROL("X", "START", PAIR " bool_false_true: [false, true]")),
          "sequence batching specifies more than one from 'int32_false_true', 'fp32_false_true' "
          "and "
          "'bool_false_true' for CONTROL_SEQUENCE_START for m" },
        { SEQUENCE(CONTROL("X", "START", "int32_false_true: 1")),
          "sequence batching control 'int32_false_true' must have exactly 2 entries for "
          "CONTROL_SEQUENCE_START for m" },
        { SEQUENCE(CONTROL("X", "READY", "fp32_false_true: [0, 1, 2]")),
          "sequence batching control 'fp32_false_true' must have exactly 2 entries for "
          "CONTROL_SEQUENCE_READY for m" },
        { SEQUENCE(CONTROL("X", "END", "bool_false_true: [true]")),
          "sequence batching control 'bool_false_true' must have exactly 2 entries for "
          "CONTROL_SEQUENCE_END for m" },
        { SEQUENCE(CONTROL("X", "CORRID", "data_type: TYPE_UINT64 " PAIR)),
          "sequence batching must not specify either 'int32_false_true', 'fp32_false_true' or "
          "'bool_false_true' for CONTROL_SEQUENCE_CORRID for m" },
        { SEQUENCE(CONTROL("X", "CORRID", "data_type: TYPE_FP32")),
          "unexpected data type for control CONTROL_SEQUENCE_CORRID for m. Allowed data types are "
          "TYPE_UINT64, TYPE_INT64, TYPE_UINT32, TYPE_INT32 and TYPE_STRING" },
        { SEQUENCE(CONTROL("X", "CORRID", "")),
          "unexpected data type for control CONTROL_SEQUENCE_CORRID for m. Allowed data types are "
          "TYPE_UINT64, TYPE_INT64, TYPE_UINT32, TYPE_INT32 and TYPE_STRING" },
        { SEQUENCE(CONTROL("X", "CORRID", "data_type: TYPE_INT64")), NULL },
        { SEQUENCE(CONTROL("X", "CORRID", "data_type: TYPE_UINT32")), NULL },
};

static const struct config_row strategy_rows[] = {
        { SEQUENCE("oldest { preferred_batch_size: [1, 8] }"), NULL },
        { SEQUENCE("oldest { preferred_batch_size: 0 }"),
          "sequence batching preferred batch size must be positive for m" },
        { SEQUENCE("oldest { preferred_batch_size: [4, 9] }"),
          "sequence batching preferred batch size must be <= max batch size for m" },
        { SEQUENCE("direct { minimum_slot_utilization: 0 }"), NULL },
        { SEQUENCE("direct { minimum_slot_utilization: 1 }"), NULL },
        { SEQUENCE("direct { minimum_slot_utilization: 1.01 }"),
          "sequence batching minimum slot utilization must be in range (0.0, 1.0] for m" },
        { SEQUENCE("direct { minimum_slot_utilization: -0.5 }"),
          "sequence batching minimum slot utilization must be in range (0.0, 1.0] for m" },
        { SEQUENCE("direct { minimum_slot_utilization: nan }"),
          "sequence batching minimum slot utilization must be in range (0.0, 1.0] for m" },
};

#define STATE(text)                                                                                \
        SEQUENCE("state { input_name: 'I' output_name: 'O' data_type: TYPE_FP32 dims: [-1, "       \
                 "4] " text " }")
#define ONE(in, out, more)                                                                         \
        "state { input_name: '" in "' output_name: '" out "' data_type: TYPE_FP32 " more "} "
#define INITIAL(text) STATE("initial_state { " text " }")
#define GPU_GROUP " instance_group { kind: KIND_GPU gpus: 0 }"
#define CPU_GROUP " instance_group { kind: KIND_CPU }"

static const struct config_row state_rows[] = {
        { "name: 'm' dynamic_batching { }", NULL },
        { STATE(""), NULL },
        { INITIAL("name: 's' data_type: TYPE_FP32 dims: [2, 4] zero_data: true"), NULL },
        { INITIAL("name: 's' data_type: TYPE_FP32 dims: [2, 4] data_file: 'f'"), NULL },
        { STATE("initial_state { } initial_state { } initial_state { }"),
          "initial_state field for state input 'I' must contain exactly one or zero element. Found "
          "'3' elements." },
        { INITIAL("name: 's' data_type: TYPE_INT32 dims: [2, 4] zero_data: true"),
          "The data type used for 'initial_state' field of state 'I' does not match the state data "
          "type." },
        { INITIAL("data_type: TYPE_FP32 dims: [2, 4] zero_data: true"),
          "Field 'name' must be set when using initial_state for state input 'I'." },
        { SEQUENCE("state { input_name: 'I' } state { input_name: 'J' } state { input_name: 'I' }"),
          "State input name 'I' specified more than once." },
        { INITIAL("name: 's' data_type: TYPE_FP32 dims: 4 zero_data: true"),
          "Number of dimensions in 'initial_state' doesn't match the size of 'state' dimensions "
          "for state input 'I'. 1 != 2" },
        { INITIAL("name: 's' data_type: TYPE_FP32 dims: [-1, 4] zero_data: true"),
          "'initial_state' field for state input name 'I' contains variable dimensions." },
        { INITIAL("name: 's' data_type: TYPE_FP32 dims: [9, 5] zero_data: true"),
          "'initial_state' dim for input name 'I' doesn't match 'state' dim description. 5 != 4" },
        { INITIAL("name: 's' data_type: TYPE_FP32 dims: [9, 4]"),
          "initial_state setting expects state'I' to have state_data set" },
        { STATE("use_growable_memory: true"),
          "In order to 'use_growable_memory', you must also enable 'use_single_buffer' for state "
          "input name 'I'." },
        { STATE("use_growable_memory: true use_same_buffer_for_input_output: true") CPU_GROUP,
          "'use_growable_memory' can only work with KIND_GPU model instances right now. Please "
          "either change the instance type to KIND_GPU or set 'use_growable_memory' to false for "
          "state input 'I'." },
        { STATE("use_growable_memory: true use_same_buffer_for_input_output: true") GPU_GROUP,
          NULL },
        { STATE("use_same_buffer_for_input_output: true") CPU_GROUP, NULL },
        { INITIAL("name: 's' data_type: TYPE_FP32 dims: [0, 4] zero_data: true"), NULL },
        { SEQUENCE(ONE("I", "O", "")), NULL },
        { SEQUENCE("state { }"), "model state must specify 'input_name' for m" },
        { SEQUENCE("state { input_name: 'I' }"),
          "model state 'I' must specify 'output_name' for m" },
        { SEQUENCE("state { input_name: 'I' output_name: 'O' dims: 1 }"),
          "model state 'I' must specify 'data_type' for m" },
        { SEQUENCE(ONE("I", "O", "dims: [4, 0]")),
          "model state 'I' dimension must be integer >= 1, or -1 to indicate a variable-size "
          "dimension for m" },
        { SEQUENCE(ONE("I", "O", "dims: -2")),
          "model state 'I' dimension must be integer >= 1, or -1 to indicate a variable-size "
          "dimension for m" },
        { SEQUENCE(ONE("I", "O", "") ONE("J", "O", "")),
          "State output name 'O' specified more than once." },
        { SEQUENCE(ONE("I", "O", "") ONE("J", "P", "")), NULL },
        { SEQUENCE(ONE("I", "O", "")) " input { name: 'I' data_type: TYPE_FP32 dims: 1 }",
          "model 'm': 'I' is an input and a state input of sequence_batching" },
        { SEQUENCE(CONTROL("I", "START", PAIR) ONE("I", "O", "")),
          "model 'm': 'I' is a control input and a state input of sequence_batching" },
        /* Clients may ask for it. */
        { SEQUENCE(ONE("I", "O", "")) " output { name: 'O' data_type: TYPE_FP32 dims: 1 }", NULL },
};

static void test_controls(void **state) {
        (void)state;
        run_normalized_rows(control_rows, ARRAY_LEN(control_rows), model_config_check);
}

static void test_strategies(void **state) {
        (void)state;
        run_normalized_rows(strategy_rows, ARRAY_LEN(strategy_rows), model_config_check);
}

static void test_states(void **state) {
        (void)state;
        run_rows(state_rows, ARRAY_LEN(state_rows), model_config_check_states);
}

SUITE(config_check_sequence) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_controls),
                cmocka_unit_test(test_strategies),
                cmocka_unit_test(test_states),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
