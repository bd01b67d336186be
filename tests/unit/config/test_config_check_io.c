/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "config/config_check.h"
#include "config_rows.h"

#define MODEL "name: 'm' backend: 'b' max_batch_size: 8 "
#define IN(text) MODEL "input { name: 'I' data_type: TYPE_FP32 " text " }"
#define OUT(text) MODEL "output { name: 'O' data_type: TYPE_FP32 " text " }"
#define RESHAPE(dims, shape) "dims: [" dims "] reshape { shape: [" shape "] }"
#define BAD_DIM "must be integer >= 1, or -1 to indicate a variable-size dimension for m"

static const struct config_row input_rows[] = {
        { MODEL, NULL },
        { IN("dims: [-1, 16]"), NULL },
        { MODEL "input { data_type: TYPE_FP32 dims: 1 }", "model input must specify 'name' for m" },
        { MODEL "input { name: 'I' dims: 1 }", "model input 'I' must specify 'data_type' for m" },
        { MODEL "input { name: 'I' data_type: TYPE_INVALID dims: 1 }",
          "model input 'I' must specify 'data_type' for m" },
        { IN(""), "model input 'I' must specify 'dims' for m" },
        { IN("dims: [4, 0]"), "model input 'I' dimension " BAD_DIM },
        { IN("dims: -2"), "model input 'I' dimension " BAD_DIM },
        { IN("dims: [4611686018427387904, 2]"),
          "model input 'I' has more bytes than can be counted for m" },
        { IN("dims: 4611686018427387904"),
          "model input 'I' has more bytes than can be counted for m" },
        /* reshape */
        { IN(RESHAPE("4,4", "16")), NULL },
        { IN(RESHAPE("1", "")), NULL },
        { IN(RESHAPE("2,4,-1,6", "8,-1,1,6")), NULL },
        { IN(RESHAPE("-1", "1,-1,1")), NULL },
        { IN(RESHAPE("2", "")), "model input 'I' has different size for dims and reshape for m" },
        { IN(RESHAPE("4", "5")), "model input 'I' has different size for dims and reshape for m" },
        { IN(RESHAPE("-1", "4")), "model input 'I' has different size for dims and reshape for m" },
        { IN(RESHAPE("2,-1,3", "3,-1,2")),
          "model input 'I' has different size for dims and reshape for m" },
        { IN(RESHAPE("-1", "-1,-1")),
          "model input 'I' has different number of variable-size dimensions for dims and reshape "
          "for m" },
        { IN(RESHAPE("4", "4,0")), "model input 'I' reshape dimensions " BAD_DIM },
        { IN(RESHAPE("4", "-4")), "model input 'I' reshape dimensions " BAD_DIM },
        { IN(RESHAPE("4611686018427387904,4", "4611686018427387904,8")),
          "model input 'I' has different size for dims and reshape for m" },
        { "name: 'm' input { name: 'I' data_type: TYPE_FP32 " RESHAPE("1", "") " }",
          "model input 'I' cannot have empty reshape for non-batching model as scalar tensors are "
          "not supported for m" },
        /* formats */
        { IN("format: FORMAT_NHWC dims: [4, 4, 3]"), NULL },
        { IN("format: FORMAT_NHWC dims: [4, 4]"), "model input NHWC/NCHW require 3 dims for m" },
        { IN("format: FORMAT_NCHW dims: [1, 3, 4, 4]"),
          "model input NHWC/NCHW require 3 dims for m" },
        { IN("is_shape_tensor: true dims: 1"),
          "shape tensors are only supported for TensorRT platform for m" },
        { IN("is_non_linear_format_io: true dims: [1, 2, 3]"),
          "Non-linear IO format is only supported for the TensorRT platform for m" },
        { "platform: 'tensorrt_plan' " IN("is_shape_tensor: true dims: 1"), NULL },
        { "platform: 'tensorrt_plan' " IN("is_non_linear_format_io: true dims: [1, 2, 3]"), NULL },
        { "platform: 'tensorrt_plan' " IN("is_non_linear_format_io: true dims: [1, 2]"),
          "Non-linear IO format input requires 3 dims for m" },
        /* the second of two */
        { IN("dims: 1") " input { name: 'J' data_type: TYPE_FP32 }",
          "model input 'J' must specify 'dims' for m" },
};

static const struct config_row output_rows[] = {
        { OUT("dims: [-1, 16]"), NULL },
        { MODEL "output { data_type: TYPE_FP32 dims: 1 }",
          "model output must specify 'name' for m" },
        { MODEL "output { name: 'O' dims: 1 }", "model output 'O' must specify 'data_type' for m" },
        { OUT(""), "model output 'O' must specify 'dims' for m" },
        { OUT("dims: 0"), "model output 'O' dimension " BAD_DIM },
        { OUT(RESHAPE("4,4", "16")), NULL },
        { OUT(RESHAPE("4", "4,0")), "model output 'O' reshape dimensions " BAD_DIM },
        { OUT(RESHAPE("4", "5")),
          "model output 'O' has different size for dims and reshape for m" },
        { OUT(RESHAPE("-1,-1", "-1")),
          "model output 'O' has different number of variable-size dimensions for dims and reshape "
          "for m" },
        { "name: 'm' output { name: 'O' data_type: TYPE_FP32 " RESHAPE("1", "") " }",
          "model output 'O' cannot have empty reshape for non-batching model as scalar tensors are "
          "not supported for m" },
        { OUT("is_shape_tensor: true dims: 1"),
          "shape tensors are only supported for TensorRT platform for m" },
        { OUT("is_non_linear_format_io: true dims: [1, 2, 3]"),
          "Non-linear IO format is only supported for the TensorRT platform for m" },
        { "platform: 'tensorrt_plan' " OUT("is_non_linear_format_io: true dims: 1"),
          "Non-linear IO format input requires 3 dims for m" },
};

#define BOTH                                                                                       \
        MODEL "input { name: 'I' data_type: TYPE_FP32 dims: 1 }"                                   \
              " output { name: 'O' data_type: TYPE_FP32 dims: 1 }"                                 \
              " output { name: 'P' data_type: TYPE_FP32 dims: 1 } "
#define BATCH_IN(text) BOTH "batch_input { " text " }"
#define BATCH_OUT(text) BOTH "batch_output { " text " }"

static const struct config_row batch_rows[] = {
        { BATCH_IN("kind: BATCH_ITEM_SHAPE data_type: TYPE_INT32 source_input: 'I'"), NULL },
        { BATCH_IN("data_type: TYPE_FP32 source_input: 'I' target_name: 'X'"), NULL },
        { BATCH_IN("data_type: TYPE_FP32"),
          "batch input kind 'BATCH_ELEMENT_COUNT' expects 1 source input, got 0 for m" },
        { BATCH_IN("kind: BATCH_ACCUMULATED_ELEMENT_COUNT data_type: TYPE_FP32"
                   " source_input: ['I', 'I']"),
          "batch input kind 'BATCH_ACCUMULATED_ELEMENT_COUNT' expects 1 source input, got 2 for "
          "m" },
        { BATCH_IN("source_input: 'I'"),
          "batch input data type must be TYPE_INT32 or TYPE_FP32 for m" },
        { BATCH_IN("data_type: TYPE_INT64 source_input: 'I'"),
          "batch input data type must be TYPE_INT32 or TYPE_FP32 for m" },
        { BATCH_IN("data_type: TYPE_INT32 source_input: 'O'"),
          "unknown source input name 'O' for m" },
        { BATCH_OUT("source_input: 'I' target_name: ['O', 'P']"), NULL },
        { BATCH_OUT("target_name: 'O'"),
          "batch output kind 'BATCH_SCATTER_WITH_INPUT_SHAPE' expects 1 source input, got 0 for "
          "m" },
        { BATCH_OUT("source_input: 'X' target_name: 'O'"), "unknown source input name 'X' for m" },
        { BATCH_OUT("source_input: 'I' target_name: 'I'"), "unknown target output name 'I' for m" },
        { BATCH_OUT("source_input: 'I' target_name: ['O', 'O']"),
          "target output name 'O' can only be specified once for m" },
        { BATCH_OUT("source_input: 'I' target_name: 'O'") " batch_output { source_input: 'I' "
                                                          "target_name: 'O' }",
          "target output name 'O' can only be specified once for m" },
};

static void test_inputs(void **state) {
        (void)state;
        run_rows(input_rows, ARRAY_LEN(input_rows), model_config_check_io);
}

static void test_outputs(void **state) {
        (void)state;
        run_rows(output_rows, ARRAY_LEN(output_rows), model_config_check_io);
}

static void test_batch_io(void **state) {
        (void)state;
        run_rows(batch_rows, ARRAY_LEN(batch_rows), model_config_check_io);
}

/* The readers admit no enum number without a name; code that makes a message might. */
static void test_unknown_numbers(void **state) {
        static const char    text[] = BATCH_IN("data_type: TYPE_FP32");
        struct model_config *c = config_of(text);

        (void)state;
        c->pb->batch_input[0]->kind = 77;
        assert_outcome(model_config_check_io(c), ERR_INVALID_ARG,
                       "batch input kind '<unknown>' expects 1 source input, got 0 for m", text);
        c->pb->input[0]->data_type = 99;
        assert_outcome(model_config_check_io(c), ERR_INVALID_ARG,
                       "model input 'I' must specify 'data_type' for m", text);
        model_config_free(c);
}

SUITE(config_check_io) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_inputs),
                cmocka_unit_test(test_outputs),
                cmocka_unit_test(test_batch_io),
                cmocka_unit_test(test_unknown_numbers),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
