/* SPDX-License-Identifier: BSD-3-Clause */
/* The onnxruntime backend with the real runtime, in a server that is not one. The environment's
 * TEST_MODELS is the folder that tests/models/make_test_models.py has written. */
#include "suite.h"

#include "fake_server.h"
#include "onnxruntime/ort.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N 4

static struct TRITONBACKEND_Backend       backend = { .config = "{\"cmdline\":{}}" };
static struct TRITONBACKEND_Model         model;
static struct TRITONBACKEND_ModelInstance instance;
static struct TRITONBACKEND_Request       requests[N];
static TRITONBACKEND_Request             *list[N];
static char                              *path; /* of the model */

/* The runtime's threads synchronise in code that ThreadSanitizer does not see. */
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);
const char                                        *__tsan_default_suppressions(void) {
                                               return "race:libonnxruntime.so";
}

/* It keeps a few bytes for the life of the process; the leak checker calls this. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char                                        *__lsan_default_suppressions(void) {
                                               return "leak:libonnxruntime";
}

static int open_backend(void **state) {
        TRITONSERVER_Error *err = TRITONBACKEND_Initialize(&backend);

        (void)state;
        if (err == NULL)
                return 0;
        print_message("%s\n", TRITONSERVER_ErrorMessage(err));
        return -1;
}

static int close_backend(void **state) {
        (void)state;
        return TRITONBACKEND_Finalize(&backend) == NULL ? 0 : -1;
}

/* `folder` is "good/<name>" or "broken/<name>". */
static void set_model(const char *folder, const char *config) {
        const char *models = getenv("TEST_MODELS");

        assert_non_null(models);
        memset(requests, 0, sizeof(requests));
        memset(&instance, 0, sizeof(instance));
        memset(&fake, 0, sizeof(fake));
        for (int i = 0; i < N; i++)
                list[i] = &requests[i];
        fake_model_init(&model, strchr(folder, '/') + 1, config);
        assert_true(asprintf(&path, "%s/%s", models, folder) > 0);
        model.path = path;
        model.backend = &backend;
        instance = (struct TRITONBACKEND_ModelInstance){
                .model = &model,
                .name = "instance",
                .kind = TRITONSERVER_INSTANCEGROUPKIND_CPU,
        };
}

static void start(const char *folder, const char *config) {
        TRITONSERVER_Error *err;

        set_model(folder, config);
        err = TRITONBACKEND_ModelInitialize(&model);
        if (err != NULL)
                fail_msg("%s: %s", folder, TRITONSERVER_ErrorMessage(err));
        assert_null(TRITONBACKEND_ModelInstanceInitialize(&instance));
}

static void reset_requests(void) {
        for (int i = 0; i < N; i++) {
                fake_reset(&requests[i]);
                requests[i] = (struct TRITONBACKEND_Request){ 0 };
        }
}

static void stop(void) {
        assert_null(TRITONBACKEND_ModelInstanceFinalize(&instance));
        assert_null(TRITONBACKEND_ModelFinalize(&model));
        reset_requests();
        fake_model_done(&model);
        free(path);
        assert_int_equal(fake.n_errors_alive, 0);
        assert_int_equal(fake.n_messages_alive, 0);
}

static struct TRITONBACKEND_Input shaped(const char *name, TRITONSERVER_DataType type, int64_t a,
                                         int64_t b) {
        return (struct TRITONBACKEND_Input){
                .name = name, .type = type, .shape = { a, b }, .n_dims = 2
        };
}

static void ask(int i, const char *output) {
        requests[i].outputs[requests[i].n_outputs++] = output;
}

static void check_ok(int i) {
        const struct TRITONBACKEND_Response *response = &requests[i].responses[0];

        if (response->has_error)
                fail_msg("request %d: %s", i, response->message);
        assert_int_equal(requests[i].n_responses, 1);
        assert_true(response->is_sent && response->is_final);
        assert_true(requests[i].is_released && requests[i].was_success);
        for (int s = 0; s < 3; s++)
                assert_true(requests[i].stamps[s] <= requests[i].stamps[s + 1]);
}

#define SIMPLE_IO(type, dims)                                                                      \
        "\"input\":[{\"name\":\"INPUT0\",\"data_type\":\"" type "\",\"dims\":" dims "},"           \
        "{\"name\":\"INPUT1\",\"data_type\":\"" type "\",\"dims\":" dims "}],"                     \
        "\"output\":[{\"name\":\"OUTPUT0\",\"data_type\":\"" type "\",\"dims\":" dims "},"         \
        "{\"name\":\"OUTPUT1\",\"data_type\":\"" type "\",\"dims\":" dims "}]"

static const char simple_config[] = "{\"max_batch_size\":8," SIMPLE_IO("TYPE_INT32", "[16]") "}";

static int32_t left[4 * 16], right[4 * 16];

/* Request i takes `rows` rows from row `first` on. */
static void add_simple(int i, int64_t rows, int first) {
        for (int j = 0; j < 64; j++) {
                left[j] = j * 3;
                right[j] = j;
        }
        fake_add_input(&requests[i], shaped("INPUT0", TRITONSERVER_TYPE_INT32, rows, 16),
                       &left[first * 16], (size_t)rows * 64);
        fake_add_input(&requests[i], shaped("INPUT1", TRITONSERVER_TYPE_INT32, rows, 16),
                       &right[first * 16], (size_t)rows * 64);
        ask(i, "OUTPUT1");
        ask(i, "OUTPUT0");
}

static void check_simple(int i, int64_t rows, int first) {
        const struct TRITONBACKEND_Output *sum = fake_output(&requests[i], "OUTPUT0");
        const struct TRITONBACKEND_Output *difference = fake_output(&requests[i], "OUTPUT1");

        check_ok(i);
        assert_int_equal(sum->n_dims, 2);
        assert_int_equal(sum->shape[0], rows);
        assert_int_equal(sum->shape[1], 16);
        assert_int_equal(sum->n_bytes, rows * 64);
        for (int64_t j = 0; j < rows * 16; j++) {
                int32_t number;

                memcpy(&number, (char *)sum->bytes + j * 4, 4);
                assert_int_equal(number, (first * 16 + j) * 4);
                memcpy(&number, (char *)difference->bytes + j * 4, 4);
                assert_int_equal(number, (first * 16 + j) * 2);
        }
}

static void test_single(void **state) {
        (void)state;
        start("good/simple", simple_config);
        add_simple(0, 2, 1);
        assert_null(TRITONBACKEND_ModelInstanceExecute(&instance, list, 1));
        check_simple(0, 2, 1);
        assert_int_equal(instance.n_batches, 1);
        assert_int_equal(instance.batch_rows, 2);

        reset_requests();
        fake.output_offset = 1; /* no address for int32_t: computed elsewhere and copied */
        add_simple(0, 1, 3);
        assert_null(TRITONBACKEND_ModelInstanceExecute(&instance, list, 1));
        check_simple(0, 1, 3);
        stop();
}

static void test_batch(void **state) {
        (void)state;
        start("good/simple", simple_config);
        add_simple(0, 1, 2);
        add_simple(1, 2, 0);
        add_simple(2, 1, 3);
        requests[2].n_outputs = 1; /* OUTPUT1 alone */
        assert_null(TRITONBACKEND_ModelInstanceExecute(&instance, list, 3));
        check_simple(0, 1, 2);
        check_simple(1, 2, 0);
        check_ok(2);
        assert_null(fake_output(&requests[2], "OUTPUT0"));
        assert_int_equal(((int32_t *)fake_output(&requests[2], "OUTPUT1")->bytes)[0], 96);
        assert_int_equal(instance.n_batches, 1);
        assert_int_equal(instance.batch_rows, 4);
        stop();
}

static void test_cancelled(void **state) {
        (void)state;
        start("good/simple", simple_config);
        add_simple(0, 1, 0);
        add_simple(1, 1, 1);
        requests[0].is_cancelled = true;
        assert_null(TRITONBACKEND_ModelInstanceExecute(&instance, list, 2));
        assert_int_equal(requests[0].responses[0].code, TRITONSERVER_ERROR_CANCELLED);
        assert_string_equal(requests[0].responses[0].message, "");
        check_simple(1, 1, 1);
        assert_int_equal(instance.batch_rows, 1);
        stop();
}

static void test_missing_input(void **state) {
        (void)state;
        start("good/simple", simple_config);
        add_simple(0, 1, 0);
        requests[0].n_inputs = 1;
        add_simple(1, 1, 1);
        assert_null(TRITONBACKEND_ModelInstanceExecute(&instance, list, 2));
        assert_true(requests[0].responses[0].has_error);
        assert_string_equal(requests[0].responses[0].message, "unknown request input name");
        check_simple(1, 1, 1);
        stop();
}

/* Only the request whose value the model refuses fails, not those that were batched with it. */
static void test_one_of_a_batch_fails(void **state) {
        static const int64_t indexes[] = { 2, 99, 1 };

        (void)state;
        start("good/lookup",
              "{\"max_batch_size\":8,\"input\":[{\"name\":\"INDEX\",\"data_type\":\"TYPE_INT64\","
              "\"dims\":[1]}],\"output\":[{\"name\":\"OUTPUT\",\"data_type\":\"TYPE_FP32\","
              "\"dims\":[1,2]}]}");
        for (int i = 0; i < 3; i++) {
                fake_add_input(&requests[i], shaped("INDEX", TRITONSERVER_TYPE_INT64, 1, 1),
                               &indexes[i], 8);
                ask(i, "OUTPUT");
        }
        assert_null(TRITONBACKEND_ModelInstanceExecute(&instance, list, 3));
        check_ok(0);
        assert_true(((float *)fake_output(&requests[0], "OUTPUT")->bytes)[0] == 4.0f);
        assert_true(requests[1].responses[0].has_error);
        assert_non_null(strstr(requests[1].responses[0].message, "onnx runtime error "));
        assert_non_null(strstr(requests[1].responses[0].message, "99"));
        check_ok(2);
        assert_true(((float *)fake_output(&requests[2], "OUTPUT")->bytes)[1] == 3.0f);
        assert_int_equal(instance.batch_rows, 2);
        stop();
}

static void test_shapes_are_not_mixed(void **state) {
        static const int64_t numbers[] = { 1, 2, 3, 4, 5, 6 };
        static const int64_t turned[] = { 1, 4, 2, 5, 3, 6 };

        (void)state;
        start("good/dynamic_axes",
              "{\"max_batch_size\":8,\"input\":[{\"name\":\"INPUT\",\"data_type\":\"TYPE_INT64\","
              "\"dims\":[-1,-1]}],\"output\":[{\"name\":\"OUTPUT\",\"data_type\":\"TYPE_INT64\","
              "\"dims\":[-1,-1]}]}");
        for (int i = 0; i < 4; i++) {
                bool is_flat = i % 2 == 1; /* [1,1,6] between two of [1,2,3] */

                fake_add_input(&requests[i],
                               (struct TRITONBACKEND_Input){
                                       .name = "INPUT",
                                       .type = TRITONSERVER_TYPE_INT64,
                                       .shape = { 1, is_flat ? 1 : 2, is_flat ? 6 : 3 },
                                       .n_dims = 3 },
                               numbers, sizeof(numbers));
                ask(i, "OUTPUT");
        }
        assert_null(TRITONBACKEND_ModelInstanceExecute(&instance, list, 4));
        for (int i = 0; i < 4; i++) {
                const struct TRITONBACKEND_Output *output = fake_output(&requests[i], "OUTPUT");

                check_ok(i);
                assert_int_equal(output->shape[1], i % 2 == 1 ? 6 : 3);
                assert_memory_equal(output->bytes, i % 2 == 1 ? numbers : turned, sizeof(numbers));
        }
        assert_int_equal(instance.n_batches, 2);
        stop();
}

static void test_types(void **state) {
        /* The types of ort.c, each with a model of tests/models/make_test_models.py. */
        static const struct {
                TRITONSERVER_DataType type;
                const char           *model;
                const char           *config_name;
        } types[] = {
                { TRITONSERVER_TYPE_BOOL, "onnx_identity_bool", "TYPE_BOOL" },
                { TRITONSERVER_TYPE_UINT8, "onnx_identity_uint8", "TYPE_UINT8" },
                { TRITONSERVER_TYPE_UINT16, "onnx_identity_uint16", "TYPE_UINT16" },
                { TRITONSERVER_TYPE_UINT32, "onnx_identity_uint32", "TYPE_UINT32" },
                { TRITONSERVER_TYPE_UINT64, "onnx_identity_uint64", "TYPE_UINT64" },
                { TRITONSERVER_TYPE_INT8, "onnx_identity_int8", "TYPE_INT8" },
                { TRITONSERVER_TYPE_INT16, "onnx_identity_int16", "TYPE_INT16" },
                { TRITONSERVER_TYPE_INT32, "onnx_identity_int32", "TYPE_INT32" },
                { TRITONSERVER_TYPE_INT64, "onnx_identity_int64", "TYPE_INT64" },
                { TRITONSERVER_TYPE_FP16, "onnx_identity_fp16", "TYPE_FP16" },
                { TRITONSERVER_TYPE_FP32, "onnx_identity_fp32", "TYPE_FP32" },
                { TRITONSERVER_TYPE_FP64, "onnx_identity_fp64", "TYPE_FP64" },
                { TRITONSERVER_TYPE_BYTES, "onnx_identity_bytes", "TYPE_STRING" },
                { TRITONSERVER_TYPE_BF16, "onnx_identity_bf16", "TYPE_BF16" },
        };
        /* Valid as any type: two rows of one element each. */
        static const union {
                uint64_t aligned;
                char     bytes[16];
        } rows = { .bytes = "\1\0\0\1\0\0\1\0\1\1\0\0\1\0\0" };
        static const char strings[] = "\3\0\0\0a\0b\0\0\0\0";

        (void)state;
        for (size_t k = 0; k < sizeof(types) / sizeof(types[0]); k++) {
                uint32_t size = TRITONSERVER_DataTypeByteSize(types[k].type);
                char     folder[64], config[256];

                (void)snprintf(folder, sizeof(folder), "good/%s", types[k].model);
                (void)snprintf(config, sizeof(config),
                               "{\"max_batch_size\":8,\"input\":[{\"name\":\"INPUT0\","
                               "\"data_type\":\"%s\",\"dims\":[-1]}],\"output\":[{\"name\":"
                               "\"OUTPUT0\",\"data_type\":\"%s\",\"dims\":[-1]}]}",
                               types[k].config_name, types[k].config_name);
                start(folder, config);
                for (int i = 0; i < 2; i++) {
                        const char *bytes = size > 0 ? rows.bytes + i * (int)size : strings + i * 7;

                        fake_add_input(&requests[i], shaped("INPUT0", types[k].type, 1, 1), bytes,
                                       size > 0 ? size : (i == 0 ? 7 : 4));
                        ask(i, "OUTPUT0");
                }
                assert_null(TRITONBACKEND_ModelInstanceExecute(&instance, list, 2));
                for (int i = 0; i < 2; i++) {
                        const struct TRITONBACKEND_Output *output =
                                fake_output(&requests[i], "OUTPUT0");

                        check_ok(i);
                        assert_int_equal(output->type, types[k].type);
                        assert_int_equal(output->n_bytes, requests[i].inputs[0].piece_bytes[0]);
                        assert_memory_equal(output->bytes, requests[i].inputs[0].pieces[0],
                                            output->n_bytes);
                }
                stop();
        }
}

static void test_bad_strings(void **state) {
        (void)state;
        start("good/onnx_identity_bytes",
              "{\"max_batch_size\":8,\"input\":[{\"name\":\"INPUT0\",\"data_type\":\"TYPE_STRING\","
              "\"dims\":[-1]}],\"output\":[{\"name\":\"OUTPUT0\",\"data_type\":\"TYPE_STRING\","
              "\"dims\":[-1]}]}");
        fake_add_input(&requests[0], shaped("INPUT0", TRITONSERVER_TYPE_BYTES, 1, 1), "\4\0\0\0abc",
                       7);
        ask(0, "OUTPUT0");
        assert_null(TRITONBACKEND_ModelInstanceExecute(&instance, list, 1));
        assert_int_equal(requests[0].responses[0].code, TRITONSERVER_ERROR_INVALID_ARG);
        assert_string_equal(requests[0].responses[0].message,
                            "incomplete string data for inference input 'INPUT0', expecting string "
                            "of length 4 but only 3 bytes available");
        stop();
}

static void test_scalar_and_empty(void **state) {
        static const float                 numbers[] = { 1, 2, 6, 0 };
        const struct TRITONBACKEND_Output *output;

        (void)state;
        start("good/scalar_output",
              "{\"max_batch_size\":0,\"input\":[{\"name\":\"INPUT\",\"data_type\":\"TYPE_FP32\","
              "\"dims\":[-1]}],\"output\":[{\"name\":\"OUTPUT\",\"data_type\":\"TYPE_FP32\","
              "\"dims\":[1]}]}");
        fake_add_input(&requests[0], shaped("INPUT", TRITONSERVER_TYPE_FP32, 3, 0), numbers, 12);
        requests[0].inputs[0].n_dims = 1;
        ask(0, "OUTPUT");
        assert_null(TRITONBACKEND_ModelInstanceExecute(&instance, list, 1));
        check_ok(0);
        output = fake_output(&requests[0], "OUTPUT");
        assert_int_equal(output->n_dims, 1);
        assert_int_equal(output->shape[0], 1);
        assert_true(*(float *)output->bytes == 3.0f);
        stop();

        start("good/nonzero",
              "{\"max_batch_size\":0,\"input\":[{\"name\":\"INPUT\",\"data_type\":\"TYPE_FP32\","
              "\"dims\":[-1]}],\"output\":[{\"name\":\"OUTPUT\",\"data_type\":\"TYPE_INT64\","
              "\"dims\":[1,-1]}]}");
        for (int i = 0; i < 2; i++) {
                fake_add_input(&requests[i], shaped("INPUT", TRITONSERVER_TYPE_FP32, i + 1, 0),
                               &numbers[3 - i], (size_t)(i + 1) * 4);
                requests[i].inputs[0].n_dims = 1;
                ask(i, "OUTPUT");
        }
        assert_null(TRITONBACKEND_ModelInstanceExecute(&instance, list, 2));
        check_ok(0);
        check_ok(1);
        assert_int_equal(fake_output(&requests[0], "OUTPUT")->n_bytes, 0);
        assert_int_equal(fake_output(&requests[0], "OUTPUT")->shape[1], 0);
        assert_int_equal(fake_output(&requests[1], "OUTPUT")->shape[1], 1);
        assert_int_equal(*(int64_t *)fake_output(&requests[1], "OUTPUT")->bytes, 0);
        assert_int_equal(instance.n_batches, 2); /* nothing to join them along */
        stop();
}

static void test_one_number_per_row(void **state) {
        static const float numbers[] = { 1, 9, 2, 8, 3, 4 };

        (void)state;
        start("good/row_max",
              "{\"max_batch_size\":8,\"input\":[{\"name\":\"INPUT\",\"data_type\":\"TYPE_FP32\","
              "\"dims\":[3]}],\"output\":[{\"name\":\"OUTPUT\",\"data_type\":\"TYPE_FP32\","
              "\"dims\":[1],\"reshape\":{\"shape\":[]}}]}");
        for (int i = 0; i < 2; i++) {
                fake_add_input(&requests[i], shaped("INPUT", TRITONSERVER_TYPE_FP32, 1, 3),
                               &numbers[i * 3], 12);
                ask(i, "OUTPUT");
        }
        assert_null(TRITONBACKEND_ModelInstanceExecute(&instance, list, 2));
        check_ok(0);
        assert_int_equal(fake_output(&requests[0], "OUTPUT")->n_dims, 1);
        assert_true(*(float *)fake_output(&requests[0], "OUTPUT")->bytes == 9.0f);
        assert_true(*(float *)fake_output(&requests[1], "OUTPUT")->bytes == 8.0f);
        stop();
}

#define SUM_CONFIG(state, output)                                                                  \
        "{\"max_batch_size\":4,\"input\":[{\"name\":\"INPUT\",\"data_type\":\"TYPE_INT32\","       \
        "\"dims\":[1]}],\"output\":[{\"name\":\"OUTPUT\",\"data_type\":\"TYPE_INT32\",\"dims\":"   \
        "[1]}" output                                                                              \
        "],\"sequence_batching\":{\"control_input\":[{\"name\":\"START\"},{\"name\":"              \
        "\"READY\"}],\"state\":[{\"input_name\":\"SUM_IN\",\"output_name\":\"SUM_OUT\","           \
        "\"data_type\":\"TYPE_INT32\",\"dims\":[1]" state "}]}}"

/* 5 so far, and 7; request 1 begins a sequence, for which the state does not count. */
static void add_sum_inputs(int i, int64_t start_dim) {
        static const int32_t     numbers[] = { 0, 1, 5, 7 }, ones[] = { 1, 1 };
        static const char *const names[] = { "START", "READY", "SUM_IN", "INPUT" };

        for (int j = 0; j < 4; j++)
                fake_add_input(&requests[i],
                               shaped(names[j], TRITONSERVER_TYPE_INT32, 1, j > 0 ? 1 : start_dim),
                               j == 0 && i == 1 ? ones : &numbers[j],
                               j > 0 ? 4 : (size_t)start_dim * 4);
        ask(i, "OUTPUT");
}

/* The sum is computed where the next request will read it: its memory is asked for before the run.
 * Not in place, where that memory is still read, and not for several requests. */
static void test_state(void **state) {
        static const struct {
                const char *config;
                int         n_requests;
                bool        is_direct, is_listed;
        } rows[] = {
                { SUM_CONFIG("", ""), 1, true, false },
                { SUM_CONFIG(",\"use_same_buffer_for_input_output\":true", ""), 1, false, false },
                { SUM_CONFIG("", ""), 2, false, false },
                { SUM_CONFIG("",
                             ",{\"name\":\"SUM_OUT\",\"data_type\":\"TYPE_INT32\",\"dims\":[1]}"),
                  1, true, true },
        };

        (void)state;
        for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
                start("good/sequence_sum", rows[k].config);
                for (int i = 0; i < rows[k].n_requests; i++)
                        add_sum_inputs(i, 1);
                if (rows[k].is_listed)
                        ask(0, "SUM_OUT");
                assert_null(TRITONBACKEND_ModelInstanceExecute(&instance, list,
                                                               (uint32_t)rows[k].n_requests));
                for (int i = 0; i < rows[k].n_requests; i++) {
                        const struct TRITONBACKEND_State *sum = &requests[i].states[0];
                        int32_t                           expected = i == 0 ? 12 : 7;

                        check_ok(i);
                        assert_string_equal(sum->value.name, "SUM_OUT");
                        assert_int_equal(sum->value.n_dims, 2);
                        assert_true(sum->is_committed);
                        assert_int_equal(*(int32_t *)sum->value.bytes, expected);
                        assert_int_equal(*(int32_t *)fake_output(&requests[i], "OUTPUT")->bytes,
                                         expected);
                        assert_int_equal(requests[i].responses[0].n_outputs,
                                         rows[k].is_listed ? 2 : 1);
                        assert_true(rows[k].is_direct ? sum->made_ns <= requests[i].stamps[1]
                                                      : sum->made_ns >= requests[i].stamps[2]);
                }
                if (rows[k].is_listed)
                        assert_int_equal(*(int32_t *)fake_output(&requests[0], "SUM_OUT")->bytes,
                                         12);
                stop();
        }
}

/* A run that fails leaves the state as it was. */
static void test_state_of_a_failed_run(void **state) {
        (void)state;
        start("good/sequence_sum", SUM_CONFIG("", ""));
        add_sum_inputs(1, 2); /* START of another length does not go with the rest */
        assert_null(TRITONBACKEND_ModelInstanceExecute(&instance, &list[1], 1));
        assert_true(requests[1].responses[0].has_error);
        assert_int_equal(requests[1].n_states, 1);
        assert_false(requests[1].states[0].is_committed);
        stop();
}

/* OUTPUT, which is a state in place as well, finds no memory after the run, and the request is answered. By then the
 * other state is the server's again: it was computed in place, before. */
static void test_state_of_a_failed_output(void **state) {
        (void)state;
        start("good/sequence_sum",
              "{\"max_batch_size\":4,\"input\":[{\"name\":\"INPUT\",\"data_type\":\"TYPE_INT32\","
              "\"dims\":[1]}],\"output\":[{\"name\":\"OUTPUT\",\"data_type\":\"TYPE_INT32\","
              "\"dims\":"
              "[1]}],\"sequence_batching\":{\"control_input\":[{\"name\":\"START\"}],\"state\":["
              "{\"input_name\":\"SUM_IN\",\"output_name\":\"SUM_OUT\",\"data_type\":\"TYPE_INT32\","
              "\"dims\":[1]},{\"input_name\":\"READY\",\"output_name\":\"OUTPUT\","
              "\"data_type\":\"TYPE_INT32\",\"dims\":[1],"
              "\"use_same_buffer_for_input_output\":true}]}}");
        add_sum_inputs(0, 1);
        fake.fail_output = "OUTPUT";
        assert_null(TRITONBACKEND_ModelInstanceExecute(&instance, list, 1));
        assert_string_equal(requests[0].responses[0].message, "no memory for the output");
        assert_int_equal(requests[0].n_states, 1);
        assert_string_equal(requests[0].states[0].value.name, "SUM_OUT");
        assert_false(requests[0].states[0].is_committed);
        stop();
}

/* ---- auto-completion ---- */

static void complete(const char *folder, const char *config) {
        TRITONSERVER_Error *err;

        set_model(folder, config);
        model.is_completed = true;
        err = TRITONBACKEND_ModelInitialize(&model);
        if (err != NULL)
                fail_msg("%s: %s", folder, TRITONSERVER_ErrorMessage(err));
        assert_null(TRITONBACKEND_ModelInstanceInitialize(&instance));
}

static void test_complete(void **state) {
        (void)state;
        complete("good/auto_batch", "{\"max_batch_size\":0,\"input\":[],\"output\":[]}");
        assert_string_equal(
                model.config,
                "{\"max_batch_size\":4,"
                "\"input\":[{\"name\":\"INPUT0\",\"data_type\":\"TYPE_FP32\",\"dims\":[16]},"
                "{\"name\":\"INPUT1\",\"data_type\":\"TYPE_FP32\",\"dims\":[16]}],"
                "\"output\":[{\"name\":\"OUTPUT0\",\"data_type\":\"TYPE_FP32\",\"dims\":[16]},"
                "{\"name\":\"OUTPUT1\",\"data_type\":\"TYPE_FP32\",\"dims\":[16]}],"
                "\"dynamic_batching\":{}}");
        stop();
        complete("good/auto_fixed", "{\"max_batch_size\":0,\"input\":[],\"output\":[]}");
        assert_string_equal(
                model.config,
                "{\"max_batch_size\":0,"
                "\"input\":[{\"name\":\"INPUT0\",\"data_type\":\"TYPE_FP32\",\"dims\":[2,3]},"
                "{\"name\":\"INPUT1\",\"data_type\":\"TYPE_FP32\",\"dims\":[2,3]}],"
                "\"output\":[{\"name\":\"OUTPUT0\",\"data_type\":\"TYPE_FP32\",\"dims\":[2,3]},"
                "{\"name\":\"OUTPUT1\",\"data_type\":\"TYPE_FP32\",\"dims\":[2,3]}]}");
        stop();
        complete("good/auto_scalar", "{\"max_batch_size\":0,\"input\":[],\"output\":[]}");
        assert_string_equal(
                model.config,
                "{\"max_batch_size\":0,"
                "\"input\":[{\"name\":\"INPUT\",\"data_type\":\"TYPE_FP32\",\"dims\":[4]}],"
                "\"output\":[{\"name\":\"OUTPUT\",\"data_type\":\"TYPE_FP32\",\"dims\":[1]}]}");
        stop();
        complete("good/row_max", "{\"max_batch_size\":2,\"input\":[],\"output\":[]}");
        assert_string_equal(
                model.config,
                "{\"max_batch_size\":2,"
                "\"input\":[{\"name\":\"INPUT\",\"data_type\":\"TYPE_FP32\",\"dims\":[3]}],"
                "\"output\":[{\"name\":\"OUTPUT\",\"data_type\":\"TYPE_FP32\",\"dims\":[1],"
                "\"reshape\":{\"shape\":[]}}]}");
        stop();
}

static void test_complete_keeps_what_is_given(void **state) {
        (void)state;
        /* One output, named only; the scheduler is chosen. */
        complete("good/auto_partial",
                 "{\"max_batch_size\":0,\"input\":[{\"name\":\"INPUT1\",\"data_type\":"
                 "\"TYPE_INVALID\",\"dims\":[]}],\"output\":[{\"name\":\"OUTPUT1\",\"data_type\":"
                 "\"TYPE_INVALID\",\"dims\":[],\"label_filename\":\"labels.txt\"}],"
                 "\"dynamic_batching\":{\"preferred_batch_size\":[2]}}");
        assert_string_equal(
                model.config,
                "{\"max_batch_size\":4,"
                "\"input\":[{\"name\":\"INPUT1\",\"data_type\":\"TYPE_FP32\",\"dims\":[16]},"
                "{\"name\":\"INPUT0\",\"data_type\":\"TYPE_FP32\",\"dims\":[16]}],"
                "\"output\":[{\"name\":\"OUTPUT1\",\"label_filename\":\"labels.txt\",\"data_type\":"
                "\"TYPE_FP32\",\"dims\":[16]}],"
                "\"dynamic_batching\":{\"preferred_batch_size\":[2]}}");
        stop();
        /* Dims that count the first dimension: the model is not meant to batch. */
        complete("good/auto_batch",
                 "{\"max_batch_size\":0,\"input\":[{\"name\":\"INPUT0\",\"data_type\":\"TYPE_FP32\""
                 ",\"dims\":[-1,16]}],\"output\":[]}");
        assert_non_null(strstr(model.config, "\"max_batch_size\":0,"));
        assert_non_null(strstr(model.config, "\"name\":\"OUTPUT0\",\"data_type\":\"TYPE_FP32\","
                                             "\"dims\":[-1,16]"));
        assert_null(strstr(model.config, "dynamic_batching"));
        stop();
        /* Controls and states are the server's, not inputs of clients. */
        complete("good/sequence_sum",
                 "{\"max_batch_size\":4,\"input\":[],\"output\":[],\"sequence_batching\":{"
                 "\"control_input\":[{\"name\":\"START\"},{\"name\":\"READY\"}],\"state\":[{"
                 "\"input_name\":\"SUM_IN\",\"output_name\":\"SUM_OUT\",\"data_type\":"
                 "\"TYPE_INT32\",\"dims\":[1]}]}}");
        assert_non_null(strstr(model.config,
                               "\"input\":[{\"name\":\"INPUT\",\"data_type\":\"TYPE_INT32\","
                               "\"dims\":[1]}],\"output\":[{\"name\":\"OUTPUT\",\"data_type\":"
                               "\"TYPE_INT32\",\"dims\":[1]}],"));
        stop();
}

static void test_external_weights(void **state) {
        static float numbers[1024];

        (void)state;
        complete("good/external", "{\"max_batch_size\":0,\"input\":[],\"output\":[]}");
        fake_add_input(&requests[0], shaped("INPUT", TRITONSERVER_TYPE_FP32, 1, 1024), numbers,
                       sizeof(numbers));
        ask(0, "OUTPUT");
        assert_null(TRITONBACKEND_ModelInstanceExecute(&instance, list, 1));
        check_ok(0);
        assert_true(((float *)fake_output(&requests[0], "OUTPUT")->bytes)[1023] == 1023.0f);
        stop();
}

#define OVERRIDE_IO                                                                                \
        "\"output\":[{\"name\":\"OUTPUT\",\"data_type\":\"TYPE_FP32\",\"dims\":[2]}],\"input\":[{" \
        "\"name\":\"INPUT\",\"data_type\":\"TYPE_FP32\",\"dims\":[2]}"

static void check_override(const float *scale, float first, float second) {
        static const float numbers[] = { 5, 7 };
        const float       *results;

        reset_requests();
        fake_add_input(&requests[0],
                       (struct TRITONBACKEND_Input){ .name = "INPUT",
                                                     .type = TRITONSERVER_TYPE_FP32,
                                                     .shape = { 2 },
                                                     .n_dims = 1 },
                       numbers, sizeof(numbers));
        if (scale != NULL)
                fake_add_input(&requests[0],
                               (struct TRITONBACKEND_Input){ .name = "SCALE",
                                                             .type = TRITONSERVER_TYPE_FP32,
                                                             .shape = { 2 },
                                                             .n_dims = 1 },
                               scale, 2 * sizeof(*scale));
        ask(0, "OUTPUT");
        assert_null(TRITONBACKEND_ModelInstanceExecute(&instance, list, 1));
        check_ok(0);
        results = fake_output(&requests[0], "OUTPUT")->bytes;
        assert_true(results[0] == first);
        assert_true(results[1] == second);
}

/* An initializer that is also an input of the file is an input that may be configured and sent. */
static void test_initializer_as_input(void **state) {
        static const float scale[] = { -1, 10 };

        (void)state;
        start("good/override", "{\"max_batch_size\":0," OVERRIDE_IO ",{\"name\":\"SCALE\","
                               "\"data_type\":\"TYPE_FP32\",\"dims\":[2],\"optional\":true}]}");
        check_override(NULL, 10, 21);
        check_override(scale, -5, 70);
        check_override(NULL, 10, 21);
        stop();
        start("good/override", "{\"max_batch_size\":0," OVERRIDE_IO "]}");
        check_override(NULL, 10, 21);
        stop();
        complete("good/override", "{\"max_batch_size\":0,\"input\":[],\"output\":[]}");
        assert_string_equal(
                model.config,
                "{\"max_batch_size\":0,"
                "\"input\":[{\"name\":\"INPUT\",\"data_type\":\"TYPE_FP32\",\"dims\":[2]}],"
                "\"output\":[{\"name\":\"OUTPUT\",\"data_type\":\"TYPE_FP32\",\"dims\":[2]}]}");
        stop();
        complete("good/override",
                 "{\"max_batch_size\":0,\"input\":[{\"name\":\"SCALE\",\"data_type\":"
                 "\"TYPE_INVALID\",\"dims\":[],\"optional\":true}],\"output\":[]}");
        assert_non_null(strstr(model.config, "{\"name\":\"SCALE\",\"optional\":true,\"data_type\":"
                                             "\"TYPE_FP32\",\"dims\":[2]},{\"name\":\"INPUT\""));
        check_override(scale, -5, 70);
        stop();
}

/* ---- refusals ---- */

static void check_refused(const char *folder, const char *config, const char *message) {
        TRITONSERVER_Error *err;

        set_model(folder, config);
        err = TRITONBACKEND_ModelInitialize(&model);
        if (err == NULL)
                fail_msg("%s has loaded", folder);
        if (strstr(TRITONSERVER_ErrorMessage(err), message) == NULL)
                fail_msg("%s: '%s' is not in '%s'", folder, message,
                         TRITONSERVER_ErrorMessage(err));
        TRITONSERVER_ErrorDelete(err);
        fake_model_done(&model);
        free(path);
        assert_int_equal(fake.n_errors_alive, 0);
        assert_int_equal(fake.n_messages_alive, 0);
}

static void test_refused_files(void **state) {
        (void)state;
        check_refused("broken/missing_file", simple_config,
                      "unable to find '1/model.onnx' for model 'missing_file'");
        check_refused("broken/empty_directory", simple_config,
                      "unable to find '1/model.onnx/model.onnx' for model 'empty_directory'");
        check_refused("broken/corrupt_file", simple_config,
                      "failed to load model 'corrupt_file' from '1/model.onnx': onnx runtime error "
                      "7: ");
        check_refused(
                "broken/outside_file",
                "{\"max_batch_size\":8,\"default_model_filename\":\"../1/model.onnx\"," SIMPLE_IO(
                        "TYPE_INT32", "[16]") "}",
                "default_model_filename '../1/model.onnx' of model 'outside_file' must stay "
                "within the model directory");
}

#define SCALAR_IO(dims)                                                                            \
        "\"input\":[{\"name\":\"INPUT\",\"data_type\":\"TYPE_FP32\",\"dims\":[4]}],"               \
        "\"output\":[{\"name\":\"OUTPUT\",\"data_type\":\"TYPE_FP32\",\"dims\":[" dims "]}]}"

/* The run decides about a tensor of which the file does not have the shape. */
static void test_unknown_shape(void **state) {
        (void)state;
        start("good/unknown_output",
              "{\"max_batch_size\":0,\"input\":[{\"name\":\"INPUT\",\"data_type\":\"TYPE_FP32\","
              "\"dims\":[2]},{\"name\":\"SHAPE\",\"data_type\":\"TYPE_INT64\",\"dims\":[-1]}],"
              "\"output\":[{\"name\":\"OUTPUT\",\"data_type\":\"TYPE_FP32\",\"dims\":[2]}]}");
        stop();
        start("good/auto_scalar", "{\"max_batch_size\":0," SCALAR_IO("1"));
        stop();
}

static void test_refused_tensors(void **state) {
        (void)state;
        for (int i = 0; i < 3; i++) {
                static const char *const dims[] = { "2", "-1", "1,1" };
                static const char *const shown[] = { "1 dimensions (shape [2])",
                                                     "1 dimensions (shape [-1])",
                                                     "2 dimensions (shape [1,1])" };
                char                     config[256], message[256];

                (void)snprintf(config, sizeof(config), "{\"max_batch_size\":0," SCALAR_IO("%s"),
                               dims[i]);
                (void)snprintf(message, sizeof(message),
                               "model 'auto_scalar', tensor 'OUTPUT': the model expects 0 "
                               "dimensions (shape []) but the model configuration specifies %s",
                               shown[i]);
                check_refused("good/auto_scalar", config, message);
        }
        check_refused("good/override",
                      "{\"max_batch_size\":0,\"output\":[],\"input\":[{\"name\":\"SCALE\","
                      "\"data_type\":\"TYPE_FP32\",\"dims\":[2]}]}",
                      "unable to load model 'override', configuration expects 0 inputs, model "
                      "provides 1");
        check_refused("good/simple",
                      "{\"max_batch_size\":8,\"input\":[{\"name\":\"INPUT2\",\"data_type\":"
                      "\"TYPE_INT32\",\"dims\":[16]},{\"name\":\"INPUT0\",\"data_type\":"
                      "\"TYPE_INT32\",\"dims\":[16]}],\"output\":[]}",
                      "unexpected inference input 'INPUT2', allowed inputs are: INPUT0, INPUT1");
        check_refused("good/simple",
                      "{\"max_batch_size\":8,\"input\":[{\"name\":\"INPUT0\",\"data_type\":"
                      "\"TYPE_INT32\",\"dims\":[16]}],\"output\":[]}",
                      "unable to load model 'simple', configuration expects 1 inputs, model "
                      "provides 2");
        check_refused("good/simple",
                      "{\"max_batch_size\":8,\"input\":[{\"name\":\"INPUT0\",\"data_type\":"
                      "\"TYPE_INT32\",\"dims\":[16]},{\"name\":\"INPUT0\",\"data_type\":"
                      "\"TYPE_INT32\",\"dims\":[16]}],\"output\":[]}",
                      "unable to load model 'simple', input 'INPUT1' of the model is not in the "
                      "configuration");
        check_refused("good/simple", "{\"max_batch_size\":8," SIMPLE_IO("TYPE_FP32", "[16]") "}",
                      "unable to load model 'simple', unexpected datatype TYPE_FP32 for input "
                      "'INPUT0', the model expects TYPE_INT32");
        check_refused("good/simple", "{\"max_batch_size\":8," SIMPLE_IO("TYPE_INT32", "[4,4]") "}",
                      "model 'simple', tensor 'INPUT0': the model expects 2 dimensions (shape "
                      "[-1,16]) but the model configuration specifies 3 dimensions (an initial "
                      "batch dimension because max_batch_size > 0 followed by the explicit tensor "
                      "shape, making complete shape [-1,4,4])");
        check_refused("good/simple", "{\"max_batch_size\":0," SIMPLE_IO("TYPE_INT32", "[8]") "}",
                      "model 'simple', tensor 'INPUT0': the model expects 2 dimensions (shape "
                      "[-1,16]) but the model configuration specifies 1 dimensions (shape [8])");
        check_refused("broken/no_batch_dimension", simple_config,
                      "model 'no_batch_dimension', tensor 'INPUT0': for the model to support "
                      "batching the shape should have at least 1 dimension and the first dimension "
                      "must be -1; but shape expected by the model is [1,16]");
}

static void test_refused_options(void **state) {
        (void)state;
        check_refused("good/simple",
                      "{\"max_batch_size\":8," SIMPLE_IO(
                              "TYPE_INT32", "[16]") ",\"parameters\":{\"intra_op_thread_count\":{"
                                                    "\"string_value\":\"many\"}}}",
                      "model 'simple': parameter 'intra_op_thread_count' must be an integer, got "
                      "'many'");
        check_refused("good/simple",
                      "{\"max_batch_size\":8," SIMPLE_IO(
                              "TYPE_INT32", "[16]") ",\"parameters\":{\"inter_op_thread_count\":{"
                                                    "\"string_value\":\"1025\"}}}",
                      "model 'simple': parameter 'inter_op_thread_count' must be a number of "
                      "threads from 0 to 1024, got 1025");
        check_refused("good/simple",
                      "{\"max_batch_size\":8," SIMPLE_IO(
                              "TYPE_INT32", "[16]") ",\"parameters\":{\"intra_op_thread_count\":{"
                                                    "\"string_value\":\"-1\"}}}",
                      "model 'simple': parameter 'intra_op_thread_count' must be a number of "
                      "threads from 0 to 1024, got -1");
        check_refused("good/simple",
                      "{\"max_batch_size\":8," SIMPLE_IO(
                              "TYPE_INT32",
                              "[16]") ",\"optimization\":{\"execution_accelerators\":{"
                                      "\"cpu_execution_accelerator\":[{\"name\":\"openvino\"}]}}}",
                      "unknown Execution Accelerator 'openvino' is requested");
        check_refused(
                "good/simple",
                "{\"max_batch_size\":8," SIMPLE_IO(
                        "TYPE_INT32",
                        "[16]") ",\"batch_input\":[{\"kind\":\"BATCH_ELEMENT_COUNT\",\"target_"
                                "name\":[\"COUNT\"],"
                                "\"data_type\":\"TYPE_INT32\",\"source_input\":[\"INPUT0\"]}]}",
                "unable to load model 'simple', configuration expects 3 inputs, model "
                "provides 2");
}

/* The library of the tests lists no provider for GPUs, or its file is missing. */
static void test_gpu_needs_a_provider(void **state) {
        TRITONSERVER_Error *err;

        (void)state;
        set_model("good/simple",
                  "{\"name\":\"simple\",\"max_batch_size\":8,\"input\":["
                  "{\"name\":\"INPUT0\",\"data_type\":\"TYPE_INT32\",\"dims\":[16]},"
                  "{\"name\":\"INPUT1\",\"data_type\":\"TYPE_INT32\",\"dims\":[16]}],"
                  "\"output\":[{\"name\":\"OUTPUT0\",\"data_type\":\"TYPE_INT32\","
                  "\"dims\":[16]}],\"instance_group\":[{\"kind\":\"KIND_GPU\","
                  "\"gpus\":[1]}]}");
        err = TRITONBACKEND_ModelInitialize(&model);
        if (strstr(TRITONSERVER_ErrorMessage(err), "CUDAExecutionProvider") == NULL)
                fail_msg("%s", TRITONSERVER_ErrorMessage(err));
        TRITONSERVER_ErrorDelete(err);
        fake_model_done(&model);
        free(path);
}

/* An instance on a device that was added after the load. */
static void test_gpu_without_session(void **state) {
        TRITONSERVER_Error *err;

        (void)state;
        start("good/simple", simple_config);
        assert_null(TRITONBACKEND_ModelInstanceFinalize(&instance));
        instance.state = NULL;
        instance.kind = TRITONSERVER_INSTANCEGROUPKIND_GPU;
        err = TRITONBACKEND_ModelInstanceInitialize(&instance);
        assert_non_null(strstr(TRITONSERVER_ErrorMessage(err),
                               "was loaded without instances on GPU 0: load it again"));
        TRITONSERVER_ErrorDelete(err);
        stop();
}

/* The message for a model with this parameter; NULL when it starts. The caller frees it. */
static char *start_with(const char *key, const char *value, const char *sent) {
        TRITONSERVER_Error *err;
        char               *config, *text = NULL;

        assert_true(asprintf(&config,
                             "{\"max_batch_size\":8," SIMPLE_IO(
                                     "TYPE_INT32",
                                     "[16]") ",\"parameters\":{\"%s\":{\"string_value\":\"%s\"}}}",
                             key, value) > 0);
        set_model("good/simple", config);
        model.sent = sent;
        err = TRITONBACKEND_ModelInitialize(&model);
        if (err != NULL) {
                text = strdup(TRITONSERVER_ErrorMessage(err));
                TRITONSERVER_ErrorDelete(err);
        } else {
                assert_null(TRITONBACKEND_ModelFinalize(&model));
        }
        fake_model_done(&model);
        free(config);
        free(path);
        assert_int_equal(fake.n_errors_alive, 0);
        return text;
}

static void check_entry(const char *key, const char *value, const char *sent, const char *part) {
        char *text = start_with(key, value, sent);

        if ((text == NULL) != (part == NULL) || (part != NULL && strstr(text, part) == NULL))
                fail_msg("%s=%s: %s", key, value, text != NULL ? text : "taken");
        free(text);
}

static void test_session_entries(void **state) {
        static const char stats[] = "session.collect_node_memory_stats_to_file";
        static const char spinning[] = "session.intra_op.allow_spinning";
        static const char unknown[] = "session.of_the_future";
        static const char code[] =
                "the configuration sent for model 'simple' sets the parameter "
                "'session.collect_node_memory_stats_to_file', which names a file";
        static const char outside[] =
                "model 'simple': parameter 'session.collect_node_memory_stats_to_file' must name a "
                "file in the model's directory, not '";

        (void)state;
        check_entry(spinning, "1", NULL, NULL);
        check_entry(spinning, "1", spinning, NULL);
        check_entry("session.use_device_allocator_for_initializers", "1",
                    "session.use_device_allocator_for_initializers", NULL);
        check_entry(unknown, "1", NULL, NULL);
        check_entry(unknown, "1", unknown,
                    "model 'simple': the parameter 'session.of_the_future' is not known to be "
                    "harmless");
        check_entry("optimization.of_the_future", "1", "optimization.of_the_future",
                    "'optimization.of_the_future' is not known");
        check_entry(stats, "stats.csv", stats, code);
        check_entry(stats, "/tmp/stats.csv", NULL, outside);
        check_entry(stats, "../stats.csv", NULL, outside);
        check_entry(stats, "none/stats.csv", NULL, outside);
        check_entry(stats, "", NULL, NULL);
        check_entry("session.debug_layout_transformation", "1", NULL, "must name a file");
}

static char *path_of_stats(const char *name) {
        char *file;

        assert_true(asprintf(&file, "%s/good/simple/%s", getenv("TEST_MODELS"), name) > 0);
        return file;
}

/* The runtime writes the file at the end of the session. */
static void test_file_within_the_model(void **state) {
        char *stats = path_of_stats("stats.csv");

        (void)state;
        (void)remove(stats);
        start("good/simple",
              "{\"max_batch_size\":8," SIMPLE_IO(
                      "TYPE_INT32",
                      "[16]") ",\"parameters\":{\"session.collect_node_memory_stats_to_file\":"
                              "{\"string_value\":\"stats.csv\"}}}");
        add_simple(0, 1, 1);
        assert_null(TRITONBACKEND_ModelInstanceExecute(&instance, list, 1));
        stop();
        assert_int_equal(remove(stats), 0);
        free(stats);
}

static void test_libraries_of_operators(void **state) {
        static const char config[] = "{\"max_batch_size\":8," SIMPLE_IO(
                "TYPE_INT32", "[16]") ",\"model_operations\":{"
                                      "\"op_library_filename\":[\"libc.so.6\"]}}";

        (void)state;
        check_refused("good/simple", config,
                      "model 'simple': the library of operators 'libc.so.6' is not in the model's "
                      "directory; '--backend-config=onnxruntime,allow-file-options=true' permits "
                      "others");
}

static void test_options_are_accepted(void **state) {
        (void)state;
        start("good/simple",
              "{\"max_batch_size\":8," SIMPLE_IO(
                      "TYPE_INT32",
                      "[16]") ",\"optimization\":{\"graph\":{\"level\":-1}},\"parameters\":{"
                              "\"intra_op_thread_count\":{\"string_value\":\"1\"},"
                              "\"inter_op_thread_count\":{\"string_value\":\"2\"},"
                              "\"execution_mode\":{\"string_value\":\"1\"},"
                              "\"enable_mem_arena\":{\"string_value\":\"0\"},"
                              "\"enable_mem_pattern\":{\"string_value\":\"0\"},"
                              "\"session.intra_op.allow_spinning\":{\"string_value\":\"1\"}}}");
        add_simple(0, 1, 1);
        assert_null(TRITONBACKEND_ModelInstanceExecute(&instance, list, 1));
        check_simple(0, 1, 1);
        stop();
        start("good/simple",
              "{\"max_batch_size\":8," SIMPLE_IO(
                      "TYPE_INT32",
                      "[16]") ",\"parameters\":{\"memory.enable_memory_arena_shrinkage\":"
                              "{\"string_value\":\"cpu:0\"}}}");
        add_simple(0, 1, 1);
        assert_null(TRITONBACKEND_ModelInstanceExecute(&instance, list, 1));
        check_simple(0, 1, 1);
        stop();
}

static void test_library_refused(void **state) {
        struct TRITONBACKEND_Backend other = {
                .config = "{\"cmdline\":{\"library\":\"/nowhere/libonnxruntime.so.1\"}}"
        };
        TRITONSERVER_Error *err = TRITONBACKEND_Initialize(&other);

        (void)state;
        assert_non_null(err);
        assert_non_null(strstr(TRITONSERVER_ErrorMessage(err),
                               "the onnxruntime backend cannot load ONNX Runtime: "
                               "/nowhere/libonnxruntime.so.1: "));
        TRITONSERVER_ErrorDelete(err);
        assert_null(other.state);
}

static void test_library_names(void **state) {
        const char *const   absent[] = { "libnowhere.so.1.2", "libnowhere.so.1", NULL };
        const char *const   found[] = { "libnowhere.so.1", ONNXRUNTIME_LIBRARIES, NULL };
        void               *library = NULL;
        const char         *name = NULL;
        TRITONSERVER_Error *err = ort_load(absent, &library, &name);

        (void)state;
        assert_non_null(err);
        assert_int_equal(TRITONSERVER_ErrorCode(err), TRITONSERVER_ERROR_UNAVAILABLE);
        assert_string_equal(TRITONSERVER_ErrorMessage(err),
                            "the onnxruntime backend cannot load ONNX Runtime: "
                            "libnowhere.so.1.2: cannot open shared object file: No such file or "
                            "directory; libnowhere.so.1: cannot open shared object file: No such "
                            "file or directory");
        TRITONSERVER_ErrorDelete(err);
        assert_null(library);
        assert_null(ort_load(found, &library, &name));
        assert_non_null(library);
        assert_string_equal(name, found[1]);
}

SUITE(onnxruntime_backend) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_single),
                cmocka_unit_test(test_batch),
                cmocka_unit_test(test_cancelled),
                cmocka_unit_test(test_missing_input),
                cmocka_unit_test(test_one_of_a_batch_fails),
                cmocka_unit_test(test_shapes_are_not_mixed),
                cmocka_unit_test(test_types),
                cmocka_unit_test(test_bad_strings),
                cmocka_unit_test(test_scalar_and_empty),
                cmocka_unit_test(test_one_number_per_row),
                cmocka_unit_test(test_state),
                cmocka_unit_test(test_state_of_a_failed_run),
                cmocka_unit_test(test_state_of_a_failed_output),
                cmocka_unit_test(test_complete),
                cmocka_unit_test(test_complete_keeps_what_is_given),
                cmocka_unit_test(test_external_weights),
                cmocka_unit_test(test_initializer_as_input),
                cmocka_unit_test(test_session_entries),
                cmocka_unit_test(test_file_within_the_model),
                cmocka_unit_test(test_libraries_of_operators),
                cmocka_unit_test(test_unknown_shape),
                cmocka_unit_test(test_refused_files),
                cmocka_unit_test(test_refused_tensors),
                cmocka_unit_test(test_refused_options),
                cmocka_unit_test(test_gpu_needs_a_provider),
                cmocka_unit_test(test_gpu_without_session),
                cmocka_unit_test(test_options_are_accepted),
                cmocka_unit_test(test_library_refused),
                cmocka_unit_test(test_library_names),
        };

        return cmocka_run_group_tests(tests, open_backend, close_backend);
}
