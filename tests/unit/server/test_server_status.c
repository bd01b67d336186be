/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/mem.h"
#include "infer/fake_model.h"
#include "server/server.h"
#include "server/server_place.h"

/* Takes both; the text must be exactly this. */
static void assert_json(struct error *err, struct message *m, const char *expected) {
        assert_ok(err, expected);
        assert_string_equal(m->text, expected);
        assert_int_equal(m->len, strlen(expected));
        message_free(m);
}

static void test_metadata(void **state) {
        struct server_place p;
        struct message     *m;
        struct error       *err;

        (void)state;
        server_place_begin(&p);
        option_text_set(&p.options->id, "a \"b\"");
        server_place_start(&p);
        err = server_metadata(p.server, &m);
        assert_json(err, m,
                    "{\"name\":\"a \\\"b\\\"\",\"version\":\"2.64.0\",\"extensions\":["
                    "\"classification\",\"sequence\",\"model_repository\","
                    "\"model_repository(unload_dependents)\",\"schedule_policy\","
                    "\"model_configuration\",\"system_shared_memory\",\"cuda_shared_memory\","
                    "\"binary_tensor_data\",\"parameters\",\"statistics\",\"trace\","
                    "\"logging\"]}");
        server_place_end(&p);
}

static void test_model_metadata(void **state) {
        struct server_place p;
        struct message     *m = NULL;
        struct error       *err;

        (void)state;
        server_place_begin(&p);
        server_place_add(&p, "batched",
                         "backend: 'fake' max_batch_size: 1 version_policy { all { } } "
                         "input [{ name: 'Z' data_type: TYPE_STRING dims: [ -1, 3 ] },"
                         "       { name: 'A' data_type: TYPE_FP16 dims: [ 4 ]"
                         "         reshape { shape: [ 2, 2 ] } }] "
                         "output [{ name: 'OUT' data_type: TYPE_BF16 dims: [ 2 ] }]",
                         12);
        server_place_add(&p, "plain",
                         "backend: 'fake' platform: 'fake_plan' "
                         "input [{ name: 'IN' data_type: TYPE_BOOL dims: [ 2 ] }] "
                         "output [{ name: 'OUT' data_type: TYPE_INT64 dims: [ -1 ] }]",
                         1);
        server_place_start(&p);

        /* Order is the configuration's; a reshape is the backend's business. */
        err = server_model_metadata(p.server, "batched", -1, &m);
        assert_json(err, m,
                    "{\"name\":\"batched\",\"versions\":[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\","
                    "\"8\",\"9\",\"10\",\"11\",\"12\"],\"platform\":\"fake\",\"inputs\":["
                    "{\"name\":\"Z\",\"datatype\":\"BYTES\",\"shape\":[-1,-1,3]},"
                    "{\"name\":\"A\",\"datatype\":\"FP16\",\"shape\":[-1,4]}],\"outputs\":["
                    "{\"name\":\"OUT\",\"datatype\":\"BF16\",\"shape\":[-1,2]}]}");
        err = server_model_metadata(p.server, "batched", 3, &m);
        assert_json(err, m,
                    "{\"name\":\"batched\",\"versions\":[\"3\"],\"platform\":\"fake\",\"inputs\":["
                    "{\"name\":\"Z\",\"datatype\":\"BYTES\",\"shape\":[-1,-1,3]},"
                    "{\"name\":\"A\",\"datatype\":\"FP16\",\"shape\":[-1,4]}],\"outputs\":["
                    "{\"name\":\"OUT\",\"datatype\":\"BF16\",\"shape\":[-1,2]}]}");
        err = server_model_metadata(p.server, "plain", -1, &m);
        assert_json(err, m,
                    "{\"name\":\"plain\",\"versions\":[\"1\"],\"platform\":\"fake_plan\","
                    "\"inputs\":[{\"name\":\"IN\",\"datatype\":\"BOOL\",\"shape\":[2]}],"
                    "\"outputs\":[{\"name\":\"OUT\",\"datatype\":\"INT64\",\"shape\":[-1]}]}");

        m = NULL;
        assert_error(server_model_metadata(p.server, "nobody", -1, &m), ERR_NOT_FOUND,
                     "Request for unknown model: 'nobody' is not found");
        assert_error(server_model_metadata(p.server, "plain", 2, &m), ERR_NOT_FOUND,
                     "Request for unknown model: 'plain' version 2 is not found");
        assert_null(m);
        server_place_end(&p);
}

static void test_model_config(void **state) {
        struct server_place p;
        struct message     *m = NULL;
        struct error       *err;

        (void)state;
        server_place_begin(&p);
        server_place_add(&p, "m", SERVER_PLACE_CONFIG, 1);
        server_place_start(&p);
        err = server_model_config(p.server, "m", -1, 1, &m);
        assert_json(err, m,
                    "{\"name\":\"m\",\"platform\":\"\",\"backend\":\"fake\",\"runtime\":\"\","
                    "\"version_policy\":{\"latest\":{\"num_versions\":1}},\"max_batch_size\":4,"
                    "\"input\":[{\"name\":\"IN\",\"data_type\":\"TYPE_INT32\","
                    "\"format\":\"FORMAT_NONE\",\"dims\":[2],\"is_shape_tensor\":false,"
                    "\"allow_ragged_batch\":false,\"optional\":false,"
                    "\"is_non_linear_format_io\":false}],"
                    "\"output\":[{\"name\":\"OUT\",\"data_type\":\"TYPE_INT32\",\"dims\":[2],"
                    "\"label_filename\":\"\",\"is_shape_tensor\":false,"
                    "\"is_non_linear_format_io\":false}],\"batch_input\":[],\"batch_output\":[],"
                    "\"optimization\":{\"priority\":\"PRIORITY_DEFAULT\","
                    "\"input_pinned_memory\":{\"enable\":true},"
                    "\"output_pinned_memory\":{\"enable\":true},"
                    "\"gather_kernel_buffer_threshold\":0,\"eager_batching\":false},"
                    "\"instance_group\":[{\"name\":\"m\",\"kind\":\"KIND_CPU\",\"count\":1,"
                    "\"gpus\":[],\"secondary_devices\":[],\"profile\":[],\"passive\":false,"
                    "\"host_policy\":\"\"}],\"default_model_filename\":\"\","
                    "\"cc_model_filenames\":{},\"metric_tags\":{},\"parameters\":{},"
                    "\"model_warmup\":[]}");
        m = NULL;
        assert_error(server_model_config(p.server, "m", -1, 2, &m), ERR_INVALID_ARG,
                     "model configuration version 2 not supported, supported versions are: 1");
        assert_error(server_model_config(p.server, "nobody", -1, 1, &m), ERR_NOT_FOUND,
                     "Request for unknown model: 'nobody' is not found");
        assert_null(m);
        server_place_end(&p);
}

static void test_index(void **state) {
        struct server_place p;
        AUTO_CHARS          more = NULL;
        struct message     *m;
        struct error       *err;

        (void)state;
        server_place_begin(&p);
        p.options->exit_on_error = false;
        more = temp_tree_path(&p.tree, "more");
        option_texts_add(&p.options->model_repository, more);
        temp_tree_folder(&p.tree, "more/twin");
        server_place_add(&p, "twin", SERVER_PLACE_CONFIG, 1);
        server_place_add(&p, "bad", SERVER_PLACE_CONFIG "version_policy { all { } }", 2);
        server_place_add(&p, "good", SERVER_PLACE_CONFIG, 1);
        server_place_add(&p, "unreadable", "nonsense", 1);
        fake_host_fail(FAKE_MODEL_INITIALIZE, "bad/2", TRITONSERVER_ERROR_UNSUPPORTED, "a \"b\"");
        server_place_start(&p);
        err = server_model_index(p.server, false, &m);
        assert_json(err, m,
                    "[{\"name\":\"bad\",\"version\":\"1\",\"state\":\"UNAVAILABLE\","
                    "\"reason\":\"unloaded\"},"
                    "{\"name\":\"bad\",\"version\":\"2\",\"state\":\"UNAVAILABLE\","
                    "\"reason\":\"Unsupported: a \\\"b\\\"\"},"
                    "{\"name\":\"good\",\"version\":\"1\",\"state\":\"READY\"},"
                    "{\"name\":\"twin\",\"state\":\"UNAVAILABLE\","
                    "\"reason\":\"model appears in two or more repositories\"},"
                    "{\"name\":\"unreadable\"}]");
        err = server_model_index(p.server, true, &m);
        assert_json(err, m, "[{\"name\":\"good\",\"version\":\"1\",\"state\":\"READY\"}]");
        server_place_end(&p);
}

static void test_index_of_nothing(void **state) {
        struct server_place p;
        struct message     *m;
        struct error       *err;

        (void)state;
        server_place_begin(&p);
        server_place_start(&p);
        err = server_model_index(p.server, false, &m);
        assert_json(err, m, "[]");
        server_place_end(&p);
}

static void test_version_zero(void **state) {
        struct server_place p;
        struct message     *m;
        struct error       *err;

        (void)state;
        server_place_begin(&p);
        temp_tree_folder(&p.tree, "models/m/0");
        server_place_add(&p, "m", SERVER_PLACE_CONFIG, 0);
        server_place_start(&p);
        err = server_model_index(p.server, false, &m);
        assert_json(err, m, "[{\"name\":\"m\",\"version\":\"0\",\"state\":\"READY\"}]");
        server_place_end(&p);
}

static void test_after_the_end(void **state) {
        struct server_place p;
        struct message     *m = NULL;

        (void)state;
        server_place_begin(&p);
        server_place_add(&p, "m", SERVER_PLACE_CONFIG, 1);
        server_place_start(&p);
        assert_ok(server_stop(p.server), "stop");
        assert_error(server_model_metadata(p.server, "m", -1, &m), ERR_UNAVAILABLE,
                     "Server not ready");
        assert_error(server_model_config(p.server, "m", -1, 1, &m), ERR_UNAVAILABLE,
                     "Server not ready");
        assert_null(m);
        server_place_end(&p);
}

SUITE(server_status) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_metadata),         cmocka_unit_test(test_model_metadata),
                cmocka_unit_test(test_model_config),     cmocka_unit_test(test_index),
                cmocka_unit_test(test_index_of_nothing), cmocka_unit_test(test_version_zero),
                cmocka_unit_test(test_after_the_end),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
