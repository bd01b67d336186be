/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "fake_server.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define IO                                                                                         \
        "\"input\":[{\"name\":\"INPUT0\",\"data_type\":\"TYPE_INT32\",\"dims\":[1]}],"             \
        "\"output\":[{\"name\":\"OUTPUT0\",\"data_type\":\"TYPE_INT32\",\"dims\":[1]},"            \
        "{\"name\":\"EXECUTIONS\",\"data_type\":\"TYPE_INT64\",\"dims\":[1]},"                     \
        "{\"name\":\"BATCH_ROWS\",\"data_type\":\"TYPE_INT32\",\"dims\":[1]},"                     \
        "{\"name\":\"REQUESTS\",\"data_type\":\"TYPE_UINT8\",\"dims\":[1]},"                       \
        "{\"name\":\"RESPONSE\",\"data_type\":\"TYPE_INT64\",\"dims\":[1]},"                       \
        "{\"name\":\"CORRID\",\"data_type\":\"TYPE_UINT64\",\"dims\":[1]},"                        \
        "{\"name\":\"INSTANCE\",\"data_type\":\"TYPE_STRING\",\"dims\":[1]}]"

static struct TRITONBACKEND_Backend       backend;
static struct TRITONBACKEND_Model         model;
static struct TRITONBACKEND_ModelInstance instance;
static struct TRITONBACKEND_Request       requests[2];
static TRITONBACKEND_Request             *list[] = { &requests[0], &requests[1] };
static const int32_t                      values[] = { 5, 6 };

static void init(const char *config, const char *path) {
        memset(requests, 0, sizeof(requests));
        memset(&instance, 0, sizeof(instance));
        memset(&fake, 0, sizeof(fake));
        fake_model_init(&model, "m", config);
        model.path = path;
        instance.model = &model;
        instance.name = "m_0";
        assert_null(TRITONBACKEND_Initialize(&backend));
}

static void start(const char *config, const char *path) {
        init(config, path);
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
}

static void fill_request(int i, uint32_t n_dims) {
        fake_add_input(&requests[i],
                       (struct TRITONBACKEND_Input){ .name = "INPUT0",
                                                     .type = TRITONSERVER_TYPE_INT32,
                                                     .shape = { 1, 1 },
                                                     .n_dims = n_dims },
                       &values[i], 4);
        requests[i].outputs[0] = "OUTPUT0";
        requests[i].outputs[1] = "EXECUTIONS";
        requests[i].outputs[2] = "BATCH_ROWS";
        requests[i].outputs[3] = "REQUESTS";
        requests[i].outputs[4] = "CORRID";
        requests[i].outputs[5] = "INSTANCE";
        requests[i].n_outputs = 6;
}

static void test_outputs(void **state) {
        (void)state;
        start("{\"max_batch_size\":4," IO "}", "/nowhere");
        for (int i = 0; i < 2; i++)
                fill_request(i, 2);
        assert_null(TRITONBACKEND_ModelInstanceExecute(&instance, list, 1));
        fake_reset(&requests[0]);
        assert_null(TRITONBACKEND_ModelInstanceExecute(&instance, list, 2));
        for (int i = 0; i < 2; i++) {
                assert_int_equal(*(int32_t *)fake_output(list[i], "OUTPUT0")->bytes, values[i]);
                assert_int_equal(*(int64_t *)fake_output(list[i], "EXECUTIONS")->bytes, 2);
                assert_int_equal(*(int32_t *)fake_output(list[i], "BATCH_ROWS")->bytes, 2);
                assert_int_equal(*(uint8_t *)fake_output(list[i], "REQUESTS")->bytes, 2);
                assert_int_equal(fake_output(list[i], "REQUESTS")->n_bytes, 1);
                assert_int_equal(*(uint64_t *)fake_output(list[i], "CORRID")->bytes, 77);
                assert_memory_equal(fake_output(list[i], "INSTANCE")->bytes, "\3\0\0\0m_0", 7);
        }
        stop();
}

static void test_failures(void **state) {
        TRITONSERVER_Error *err;

        (void)state;
        start("{\"max_batch_size\":4," IO "}", "/nowhere");
        for (int i = 0; i < 2; i++)
                fill_request(i, 2);
        requests[0].parameters[0] = (struct fake_parameter){ .key = "fail",
                                                             .type = TRITONSERVER_PARAMETER_STRING,
                                                             .text = "no luck" };
        requests[0].parameters[1] = (struct fake_parameter){ .key = "fail_code",
                                                             .type = TRITONSERVER_PARAMETER_STRING,
                                                             .text = "Unavailable" };
        requests[0].n_parameters = 2;
        assert_null(TRITONBACKEND_ModelInstanceExecute(&instance, list, 2));
        assert_string_equal(requests[0].responses[0].message, "no luck");
        assert_int_equal(requests[0].responses[0].code, TRITONSERVER_ERROR_UNAVAILABLE);
        assert_false(requests[1].responses[0].has_error);
        stop();

        init("{" IO ",\"parameters\":{\"fail_load\":{\"string_value\":\"told to\"},"
             "\"fail_load_code\":{\"string_value\":\"2\"}}}",
             "/nowhere");
        err = TRITONBACKEND_ModelInitialize(&model);
        assert_string_equal(TRITONSERVER_ErrorMessage(err), "told to");
        assert_int_equal(TRITONSERVER_ErrorCode(err), TRITONSERVER_ERROR_NOT_FOUND);
        TRITONSERVER_ErrorDelete(err);
        fake_model_done(&model);

        start("{" IO ",\"parameters\":{\"fail_execute\":{\"string_value\":\"all of it\"}}}",
              "/nowhere");
        fill_request(0, 1);
        err = TRITONBACKEND_ModelInstanceExecute(&instance, list, 1);
        assert_string_equal(TRITONSERVER_ErrorMessage(err), "all of it");
        TRITONSERVER_ErrorDelete(err);
        assert_false(requests[0].is_released); /* it stays the server's */
        stop();
}

static void test_decoupled(void **state) {
        (void)state;
        start("{\"max_batch_size\":0," IO ",\"model_transaction_policy\":{\"decoupled\":true},"
              "\"parameters\":{\"responses\":{\"string_value\":\"3\"}}}",
              "/nowhere");
        for (int i = 0; i < 2; i++) {
                fill_request(i, 1);
                requests[i].outputs[0] = "RESPONSE";
        }
        requests[1].parameters[0] = (struct fake_parameter){ .key = "responses",
                                                             .type = TRITONSERVER_PARAMETER_INT,
                                                             .number = 0 };
        requests[1].n_parameters = 1;
        assert_null(TRITONBACKEND_ModelInstanceExecute(&instance, list, 2));
        assert_int_equal(requests[0].n_responses, 4);
        for (int i = 0; i < 3; i++) {
                const struct TRITONBACKEND_Output *output = &requests[0].responses[i].outputs[3];

                assert_string_equal(output->name, "RESPONSE");
                assert_int_equal(*(int64_t *)output->bytes, i);
                assert_false(requests[0].responses[i].is_final);
        }
        assert_true(requests[0].responses[3].is_final);
        assert_int_equal(requests[0].responses[3].n_outputs, 0);
        assert_int_equal(requests[1].n_responses, 1);
        assert_true(requests[1].responses[0].is_final);
        assert_true(requests[0].is_released && requests[1].is_released);
        stop();
}

/* Runs the execution that the gate holds back. */
static void *execute(void *opaque) {
        (void)opaque;
        return TRITONBACKEND_ModelInstanceExecute(&instance, list, 2);
}

static void test_gate_and_log(void **state) {
        char      folder[] = "/tmp/testing_backend_XXXXXX", path[64], line[16] = "";
        pthread_t thread;
        void     *err;
        int       gate, reached, log;

        (void)state;
        assert_non_null(mkdtemp(folder));
        (void)snprintf(path, sizeof(path), "%s/gate", folder);
        assert_int_equal(mkfifo(path, 0600), 0);
        (void)snprintf(path, sizeof(path), "%s/reached", folder);
        assert_int_equal(mkfifo(path, 0600), 0);
        start("{\"max_batch_size\":4," IO ",\"parameters\":{"
              "\"gate_fifo\":{\"string_value\":\"gate\"},"
              "\"reached_fifo\":{\"string_value\":\"reached\"},"
              "\"batch_log\":{\"string_value\":\"log\"}}}",
              folder);
        reached = open(path, O_RDONLY);
        (void)snprintf(path, sizeof(path), "%s/gate", folder);
        gate = open(path, O_WRONLY);
        for (int i = 0; i < 2; i++)
                fill_request(i, 2);
        assert_int_equal(pthread_create(&thread, NULL, execute, NULL), 0);
        assert_int_equal(read(reached, path, 1), 1); /* it is at the gate */
        assert_false(requests[0].is_released);
        assert_int_equal(write(gate, "g", 1), 1);
        assert_int_equal(pthread_join(thread, &err), 0);
        assert_null(err);
        assert_true(requests[0].is_released && requests[1].is_released);

        (void)snprintf(path, sizeof(path), "%s/log", folder);
        log = open(path, O_RDONLY);
        assert_int_equal(read(log, line, sizeof(line)), 4);
        assert_memory_equal(line, "2 2\n", 4);
        (void)close(log);
        (void)unlink(path);
        (void)close(gate);
        (void)close(reached);
        (void)snprintf(path, sizeof(path), "%s/gate", folder);
        (void)unlink(path);
        (void)snprintf(path, sizeof(path), "%s/reached", folder);
        (void)unlink(path);
        (void)rmdir(folder);
        stop();
}

SUITE(testing_backend) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_outputs),
                cmocka_unit_test(test_failures),
                cmocka_unit_test(test_decoupled),
                cmocka_unit_test(test_gate_and_log),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
