/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "codec/data_types.h"
#include "fake_server.h"
#include "kit/model.h"

#include <string.h>

static const char config[] =
        "{\"name\":\"m\",\"max_batch_size\":8,\"input\":["
        "{\"name\":\"A\",\"data_type\":\"TYPE_FP32\",\"dims\":[-1,3],\"optional\":true,"
        "\"allow_ragged_batch\":true},"
        "{\"name\":\"B\",\"data_type\":\"TYPE_STRING\",\"dims\":[4],\"reshape\":{\"shape\":[2,2]},"
        "\"optional\":false}],"
        "\"output\":[{\"name\":\"C\",\"data_type\":\"TYPE_BF16\",\"dims\":[1],"
        "\"reshape\":{\"shape\":[]}},{\"name\":\"D\"}],"
        "\"parameters\":{\"n\":{\"string_value\":\"12\"},\"bad\":{\"string_value\":\"1x\"},"
        "\"a/b.c\":{\"string_value\":\"slash\"},\"yes\":{\"string_value\":\"True\"},"
        "\"no\":{\"string_value\":\"0\"}}}";

static struct TRITONBACKEND_Model triton;
static struct kit_model           model;

static int set_up(void **state) {
        (void)state;
        fake_model_init(&triton, "m", config);
        assert_null(kit_model_open(&triton, &model));
        return 0;
}

static int tear_down(void **state) {
        (void)state;
        kit_model_close(&model);
        fake_model_done(&triton);
        return fake.n_errors_alive == 0 && fake.n_messages_alive == 0 ? 0 : -1;
}

static void test_tensors(void **state) {
        (void)state;
        assert_string_equal(model.version_path, "/nowhere/1");
        assert_int_equal(model.max_batch_size, 8);
        assert_int_equal(model.n_inputs, 2);
        assert_int_equal(model.n_outputs, 2);
        assert_int_equal(model.inputs[0].type, TRITONSERVER_TYPE_FP32);
        assert_int_equal(model.inputs[0].n_dims, 2);
        assert_int_equal(model.inputs[0].dims[0], -1);
        assert_int_equal(model.inputs[0].dims[1], 3);
        assert_true(model.inputs[0].is_optional);
        assert_true(model.inputs[0].is_ragged);
        assert_int_equal(model.inputs[1].type, TRITONSERVER_TYPE_BYTES);
        assert_int_equal(model.inputs[1].n_dims, 2); /* the backend's shape */
        assert_int_equal(model.inputs[1].dims[1], 2);
        assert_false(model.inputs[1].is_optional);
        assert_int_equal(model.outputs[0].type, TRITONSERVER_TYPE_BF16);
        assert_int_equal(model.outputs[0].n_dims, 0);
        assert_int_equal(model.outputs[1].type, TRITONSERVER_TYPE_INVALID);
        assert_ptr_equal(kit_model_find_input(&model, "B"), &model.inputs[1]);
        assert_null(kit_model_find_input(&model, "C"));
        assert_ptr_equal(kit_model_find_output(&model, "D"), &model.outputs[1]);
}

static void check_message(TRITONSERVER_Error *err, const char *message) {
        assert_non_null(err);
        assert_int_equal(TRITONSERVER_ErrorCode(err), TRITONSERVER_ERROR_INVALID_ARG);
        assert_string_equal(TRITONSERVER_ErrorMessage(err), message);
        TRITONSERVER_ErrorDelete(err);
}

static void test_parameters(void **state) {
        int64_t number = 5;
        bool    flag = false;

        (void)state;
        assert_string_equal(kit_model_parameter(&model, "a/b.c"), "slash");
        assert_null(kit_model_parameter(&model, "absent"));
        assert_null(kit_model_parameter_int(&model, "absent", &number));
        assert_int_equal(number, 5);
        assert_null(kit_model_parameter_int(&model, "n", &number));
        assert_int_equal(number, 12);
        check_message(kit_model_parameter_int(&model, "bad", &number),
                      "model 'm': parameter 'bad' must be an integer, got '1x'");
        assert_int_equal(number, 12);
        assert_null(kit_model_parameter_bool(&model, "yes", &flag));
        assert_true(flag);
        assert_null(kit_model_parameter_bool(&model, "no", &flag));
        assert_false(flag);
        check_message(kit_model_parameter_bool(&model, "bad", &flag),
                      "model 'm': parameter 'bad' must be true or false, got '1x'");
}

static void test_set_config(void **state) {
        (void)state;
        assert_null(kit_model_set_config(&model, "{\"max_batch_size\":0,\"input\":[],"
                                                 "\"output\":[]}"));
        assert_true(triton.was_set);
        assert_int_equal(model.max_batch_size, 0);
        assert_int_equal(model.n_inputs, 0);
        assert_null(kit_model_parameter(&model, "n"));
}

/* clang-format off */
#define ROW(name, value, config_name, bytes, json) { TRITONSERVER_TYPE_##name, "TYPE_" #config_name },
static const struct {
        TRITONSERVER_DataType type;
        const char           *name;
} data_types[] = {
        DATA_TYPES(ROW)
};
/* clang-format on */

static void test_types(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(data_types) / sizeof(data_types[0]); i++) {
                assert_string_equal(kit_type_to_config(data_types[i].type), data_types[i].name);
                assert_int_equal(kit_type_from_config(data_types[i].name), data_types[i].type);
        }
        assert_string_equal(kit_type_to_config(TRITONSERVER_TYPE_INVALID), "TYPE_INVALID");
        assert_string_equal(kit_type_to_config((TRITONSERVER_DataType)99), "TYPE_INVALID");
        assert_int_equal(kit_type_from_config("TYPE_BYTES"), TRITONSERVER_TYPE_INVALID);
        assert_int_equal(kit_type_from_config(""), TRITONSERVER_TYPE_INVALID);
}

static void test_bad_config(void **state) {
        struct TRITONBACKEND_Model broken;
        struct kit_model           other;

        (void)state;
        fake_model_init(&broken, "b", "{\"input\":");
        check_message(kit_model_open(&broken, &other),
                      "the model configuration is not valid JSON at byte 9: a value was expected");
        fake_model_done(&broken);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

SUITE(kit_model) {
        const struct CMUnitTest tests[] = {
                TEST(test_tensors), TEST(test_parameters), TEST(test_set_config),
                TEST(test_types),   TEST(test_bad_config),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
