/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "fake_server.h"

#include <string.h>

static struct TRITONBACKEND_Backend       backend;
static struct TRITONBACKEND_Model         model;
static struct TRITONBACKEND_ModelInstance instance;
static struct TRITONBACKEND_Request       requests[2];
static TRITONBACKEND_Request             *list[] = { &requests[0], &requests[1] };

extern const int NESO_BACKEND_INLINE_SAFE;

static void start(const char *config) {
        memset(requests, 0, sizeof(requests));
        memset(&instance, 0, sizeof(instance));
        memset(&fake, 0, sizeof(fake));
        fake_model_init(&model, "m", config);
        instance.model = &model;
        assert_null(TRITONBACKEND_Initialize(&backend));
        assert_null(TRITONBACKEND_ModelInitialize(&model));
        assert_null(TRITONBACKEND_ModelInstanceInitialize(&instance));
}

static void stop(void) {
        assert_null(TRITONBACKEND_ModelInstanceFinalize(&instance));
        assert_null(TRITONBACKEND_ModelFinalize(&model));
        fake_model_done(&model);
        for (int i = 0; i < 2; i++)
                fake_reset(&requests[i]);
        assert_int_equal(fake.n_errors_alive, 0);
        assert_int_equal(fake.n_messages_alive, 0);
}

static void add_bytes(int i, const char *name, TRITONSERVER_DataType type, int64_t rows,
                      const char *bytes, size_t n_bytes) {
        fake_add_input(&requests[i],
                       (struct TRITONBACKEND_Input){
                               .name = name, .type = type, .shape = { rows, 2 }, .n_dims = 2 },
                       bytes, n_bytes);
}

static const char two_pairs[] =
        "{\"max_batch_size\":4,\"input\":["
        "{\"name\":\"INPUT1\",\"data_type\":\"TYPE_UINT8\",\"dims\":[2],\"optional\":true},"
        "{\"name\":\"INPUT0\",\"data_type\":\"TYPE_STRING\",\"dims\":[2]},"
        "{\"name\":\"in\",\"data_type\":\"TYPE_UINT8\",\"dims\":[2],\"optional\":true}],"
        "\"output\":["
        "{\"name\":\"OUTPUT0\",\"data_type\":\"TYPE_STRING\",\"dims\":[2]},"
        "{\"name\":\"OUTPUT1\",\"data_type\":\"TYPE_UINT8\",\"dims\":[2]},"
        "{\"name\":\"out\",\"data_type\":\"TYPE_UINT8\",\"dims\":[2]}]}";

static void test_pairs_and_batches(void **state) {
        const struct TRITONBACKEND_Output *output;

        (void)state;
        start(two_pairs);
        add_bytes(0, "INPUT0", TRITONSERVER_TYPE_BYTES, 1, "\1\0\0\0a\0\0\0\0", 9);
        add_bytes(0, "INPUT1", TRITONSERVER_TYPE_UINT8, 1, "xy", 2);
        add_bytes(1, "in", TRITONSERVER_TYPE_UINT8, 2, "1234", 4);
        for (int i = 0; i < 2; i++) {
                requests[i].outputs[0] = "out";
                requests[i].outputs[1] = "OUTPUT1";
                requests[i].outputs[2] = "OUTPUT0";
                requests[i].n_outputs = 3;
        }
        assert_null(TRITONBACKEND_ModelInstanceExecute(&instance, list, 2));

        output = fake_output(&requests[0], "OUTPUT0");
        assert_int_equal(output->type, TRITONSERVER_TYPE_BYTES);
        assert_int_equal(output->n_bytes, 9);
        assert_memory_equal(output->bytes, "\1\0\0\0a\0\0\0\0", 9);
        assert_memory_equal(fake_output(&requests[0], "OUTPUT1")->bytes, "xy", 2);
        output = fake_output(&requests[0], "out"); /* its input was left out: zeros */
        assert_int_equal(output->n_dims, 2);
        assert_int_equal(output->shape[0], 1);
        assert_int_equal(output->shape[1], 2);
        assert_memory_equal(output->bytes, "\0\0", 2);
        output = fake_output(&requests[1], "OUTPUT0"); /* empty strings, for two rows */
        assert_int_equal(output->shape[0], 2);
        assert_int_equal(output->n_bytes, 16);
        output = fake_output(&requests[1], "out"); /* by its place */
        assert_int_equal(output->shape[0], 2);
        assert_memory_equal(output->bytes, "1234", 4);
        assert_true(requests[0].was_success && requests[1].was_success);
        assert_int_equal(instance.n_batches, 1);
        assert_int_equal(instance.batch_rows, 3);
        stop();
}

static void execute_within(char *base, size_t in, size_t out) {
        add_bytes(0, "A", TRITONSERVER_TYPE_INT8, 100, base + in, 200);
        requests[0].outputs[requests[0].n_outputs++] = "B";
        fake.output_at = base + out;
        assert_null(TRITONBACKEND_ModelInstanceExecute(&instance, list, 1));
        assert_true(requests[0].was_success);
}

/* A client may have put input and output into the same place of its shared memory. */
static void test_output_over_the_input(void **state) {
        char bytes[400], base[400];

        (void)state;
        for (int i = 0; i < 400; i++)
                bytes[i] = (char)i;
        for (size_t out = 0; out <= 200; out += 25) {
                start("{\"max_batch_size\":0,\"input\":[{\"name\":\"A\",\"data_type\":\"TYPE_"
                      "INT8\","
                      "\"dims\":[-1,2]}],\"output\":[{\"name\":\"B\",\"data_type\":\"TYPE_INT8\","
                      "\"dims\":[-1,2]}]}");
                memcpy(base, bytes, sizeof(base));
                execute_within(base, 100, out);
                assert_memory_equal(base + out, bytes + 100, 200);
                stop();
        }
}

static void test_parameters(void **state) {
        const struct TRITONBACKEND_Response *response = &requests[0].responses[0];

        (void)state;
        start("{\"max_batch_size\":0,\"input\":[{\"name\":\"A\",\"data_type\":\"TYPE_INT8\","
              "\"dims\":[2]}],\"output\":[{\"name\":\"B\",\"data_type\":\"TYPE_INT8\",\"dims\":[2]"
              "}],\"parameters\":{\"response_parameters\":{\"string_value\":\"true\"},"
              "\"byte_size_metric\":{\"string_value\":\"true\"}}}");
        add_bytes(0, "A", TRITONSERVER_TYPE_INT8, 1, "ab", 2);
        requests[0].outputs[requests[0].n_outputs++] = "B";
        assert_null(TRITONBACKEND_ModelInstanceExecute(&instance, list, 1));
        assert_memory_equal(fake_output(&requests[0], "B")->bytes, "ab", 2);
        assert_int_equal(response->n_parameters, 3);
        assert_string_equal(response->parameters[0].key, "param0");
        assert_string_equal(response->parameters[0].text, "an example string parameter");
        assert_int_equal(response->parameters[1].number, 42);
        assert_int_equal(response->parameters[2].type, TRITONSERVER_PARAMETER_BOOL);
        assert_int_equal(response->parameters[2].number, 0);
        stop();
}

static void check_load_fails(const char *config, const char *message) {
        TRITONSERVER_Error *err;

        fake_model_init(&model, "m", config);
        err = TRITONBACKEND_ModelInitialize(&model);
        assert_non_null(err);
        assert_string_equal(TRITONSERVER_ErrorMessage(err), message);
        TRITONSERVER_ErrorDelete(err);
        fake_model_done(&model);
}

static void test_load_fails(void **state) {
        (void)state;
        check_load_fails("{\"input\":[{\"name\":\"A\",\"data_type\":\"TYPE_INT8\",\"dims\":[2]}],"
                         "\"output\":[{\"name\":\"B\",\"data_type\":\"TYPE_FP16\",\"dims\":[2]}]}",
                         "model 'm': expected input and output datatype to match, got INT8 for 'A' "
                         "and FP16 for 'B'");
        check_load_fails("{\"input\":[],\"output\":[{\"name\":\"B\",\"data_type\":\"TYPE_FP16\","
                         "\"dims\":[2]}]}",
                         "model 'm': output 'B' has no input to repeat");
}

static void test_one_fails(void **state) {
        (void)state;
        start(two_pairs);
        add_bytes(0, "INPUT1", TRITONSERVER_TYPE_UINT8, 1, "xy", 2);
        add_bytes(1, "INPUT1", TRITONSERVER_TYPE_UINT8, 1, "zw", 2);
        requests[0].inputs[0].memory_type = TRITONSERVER_MEMORY_GPU;
        for (int i = 0; i < 2; i++)
                requests[i].outputs[requests[i].n_outputs++] = "OUTPUT1";
        assert_null(TRITONBACKEND_ModelInstanceExecute(&instance, list, 2));
        assert_true(requests[0].responses[0].has_error);
        assert_false(requests[0].was_success);
        assert_memory_equal(fake_output(&requests[1], "OUTPUT1")->bytes, "zw", 2);
        assert_true(requests[1].was_success);
        assert_int_equal(instance.batch_rows, 1);
        stop();
}

static void test_inline_safe(void **state) {
        (void)state;
        assert_int_equal(NESO_BACKEND_INLINE_SAFE, 1);
}

SUITE(identity_backend) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_pairs_and_batches),
                cmocka_unit_test(test_parameters),
                cmocka_unit_test(test_output_over_the_input),
                cmocka_unit_test(test_load_fails),
                cmocka_unit_test(test_one_fails),
                cmocka_unit_test(test_inline_safe),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
