/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/mem.h"
#include "infer/fake_model.h"
#include "repo/loaded_model.h"
#include "server/server.h"
#include "server/server_place.h"

#define NO_COUNT "{\"count\":0,\"ns\":0}"
#define NO_REQUESTS                                                                                \
        "\"last_inference\":0,\"inference_count\":0,\"execution_count\":0,"                        \
        "\"inference_stats\":{\"success\":" NO_COUNT ",\"fail\":" NO_COUNT ",\"queue\":" NO_COUNT  \
        ",\"compute_input\":" NO_COUNT ",\"compute_infer\":" NO_COUNT                              \
        ",\"compute_output\":" NO_COUNT ",\"cache_hit\":" NO_COUNT ",\"cache_miss\":" NO_COUNT     \
        "},"                                                                                       \
        "\"response_stats\":{},\"batch_stats\":[],\"memory_usage\":[]"

static struct server_place place;

static int setup(void **state) {
        (void)state;
        server_place_begin(&place);
        server_place_add(&place, "b", SERVER_PLACE_CONFIG "version_policy { all { } }", 2);
        server_place_add(&place, "a",
                         SERVER_PLACE_CONFIG "model_transaction_policy { decoupled: true }", 1);
        server_place_start(&place);
        return 0;
}

static int teardown(void **state) {
        (void)state;
        server_place_end(&place);
        return 0;
}

static void assert_statistics(const char *name, int64_t version, const char *expected) {
        struct message *m;

        assert_ok(server_model_statistics(place.server, name, version, &m), name);
        assert_string_equal(m->text, expected);
        message_free(m);
}

static struct model *find(const char *name, int64_t version) {
        struct model *model;

        assert_ok(server_get_model(place.server, name, version, &model), name);
        return model;
}

static void test_nothing_yet(void **state) {
        (void)state;
        assert_statistics("b", 2,
                          "{\"model_stats\":[{\"name\":\"b\",\"version\":\"2\"," NO_REQUESTS "}]}");
        assert_statistics("b", -1,
                          "{\"model_stats\":[{\"name\":\"b\",\"version\":\"1\"," NO_REQUESTS
                          "},{\"name\":\"b\",\"version\":\"2\"," NO_REQUESTS "}]}");
}

static void test_all_models_in_order(void **state) {
        static const char all[] = "{\"model_stats\":[{\"name\":\"a\",\"version\":\"1\"," NO_REQUESTS
                                  "},{\"name\":\"b\",\"version\":\"1\"," NO_REQUESTS
                                  "},{\"name\":\"b\",\"version\":\"2\"," NO_REQUESTS "}]}";

        (void)state;
        assert_statistics("", -1, all);
}

static void test_counts(void **state) {
        static const struct request_times times = { .request_start_ns = 1000,
                                                    .queue_start_ns = 1100,
                                                    .exec_start_ns = 1300,
                                                    .compute_start_ns = 1310,
                                                    .compute_end_ns = 1350,
                                                    .exec_end_ns = 1370,
                                                    .request_end_ns = 1400 };
        static const struct memory_usage  memory[] = { { "CPU", 0, 4096 }, { "GPU", 1, 7 } };
        struct model_stats_snapshot       snapshot;
        struct model                     *model = find("b", 2);
        AUTO_CHARS                        expected = NULL;

        (void)state;
        model_stats_success(model->stats, &times, 3);
        model_stats_success(model->stats, &times, 1);
        model_stats_failure(model->stats, FAILURE_BACKEND, 17);
        model_stats_failure(model->stats, FAILURE_REJECTED, 3);
        model_stats_execution(model->stats, 4, &times);
        model_stats_execution(model->stats, 1, &times);
        model_stats_execution(model->stats, 4, &times);
        model_stats_cache_hit(model->stats, &times, 5);
        model_stats_cache_miss(model->stats, 6);
        assert_true(memory_reports_set(&loaded_model_of(model)->backend.memory, model, memory,
                                       ARRAY_LEN(memory)));
        /* The one figure that depends on the clock of the wall. */
        model_stats_read(model->stats, &snapshot);
        assert_true(snapshot.last_inference_ms > 0);
        expected = mem_printf(
                "{\"model_stats\":[{\"name\":\"b\",\"version\":\"2\",\"last_inference\":%llu,"
                "\"inference_count\":4,\"execution_count\":3,\"inference_stats\":{"
                "\"success\":{\"count\":3,\"ns\":1200},\"fail\":{\"count\":2,\"ns\":20},"
                "\"queue\":{\"count\":3,\"ns\":600},\"compute_input\":{\"count\":2,\"ns\":20},"
                "\"compute_infer\":{\"count\":2,\"ns\":80},"
                "\"compute_output\":{\"count\":2,\"ns\":40},"
                "\"cache_hit\":{\"count\":1,\"ns\":5},\"cache_miss\":{\"count\":1,\"ns\":6}},"
                "\"response_stats\":{},\"batch_stats\":["
                "{\"batch_size\":1,\"compute_input\":{\"count\":1,\"ns\":10},"
                "\"compute_infer\":{\"count\":1,\"ns\":40},"
                "\"compute_output\":{\"count\":1,\"ns\":20}},"
                "{\"batch_size\":4,\"compute_input\":{\"count\":2,\"ns\":20},"
                "\"compute_infer\":{\"count\":2,\"ns\":80},"
                "\"compute_output\":{\"count\":2,\"ns\":40}}],"
                "\"memory_usage\":[{\"type\":\"CPU\",\"id\":0,\"byte_size\":4096},"
                "{\"type\":\"GPU\",\"id\":1,\"byte_size\":7}]}]}",
                (unsigned long long)snapshot.last_inference_ms);
        model_stats_snapshot_done(&snapshot);
        assert_statistics("b", 2, expected);
        model_unref(model);
}

static void test_responses_of_a_decoupled_model(void **state) {
        struct model *model = find("a", 1);

        (void)state;
        model_stats_response(model->stats, 0, RESPONSE_SUCCESS, 10, 5);
        model_stats_response(model->stats, 0, RESPONSE_FAIL, 20, 1);
        model_stats_response(model->stats, 2, RESPONSE_EMPTY, 4, 0);
        model_stats_response(model->stats, 2, RESPONSE_CANCEL, 3, 0);
        model_unref(model);
        assert_statistics(
                "a", 1,
                "{\"model_stats\":[{\"name\":\"a\",\"version\":\"1\",\"last_inference\":0,"
                "\"inference_count\":0,\"execution_count\":0,\"inference_stats\":{"
                "\"success\":" NO_COUNT ",\"fail\":" NO_COUNT ",\"queue\":" NO_COUNT
                ",\"compute_input\":" NO_COUNT ",\"compute_infer\":" NO_COUNT
                ",\"compute_output\":" NO_COUNT ",\"cache_hit\":" NO_COUNT
                ",\"cache_miss\":" NO_COUNT "},\"response_stats\":{"
                "\"0\":{\"compute_infer\":{\"count\":2,\"ns\":30},"
                "\"compute_output\":{\"count\":2,\"ns\":6},\"success\":{\"count\":1,\"ns\":15},"
                "\"fail\":{\"count\":1,\"ns\":21},\"empty_response\":" NO_COUNT
                ",\"cancel\":" NO_COUNT "},"
                "\"2\":{\"compute_infer\":{\"count\":1,\"ns\":4},\"compute_output\":" NO_COUNT
                ",\"success\":" NO_COUNT ",\"fail\":" NO_COUNT
                ",\"empty_response\":{\"count\":1,\"ns\":4},"
                "\"cancel\":{\"count\":1,\"ns\":3}}},"
                "\"batch_stats\":[],\"memory_usage\":[]}]}");
}

static void test_models_that_are_not_there(void **state) {
        struct message *m = NULL;

        (void)state;
        assert_error(server_model_statistics(place.server, "nobody", -1, &m), ERR_INVALID_ARG,
                     "requested model 'nobody' is not available");
        assert_error(server_model_statistics(place.server, "nobody", 1, &m), ERR_INVALID_ARG,
                     "requested model 'nobody' is not available");
        assert_error(server_model_statistics(place.server, "b", 3, &m), ERR_INVALID_ARG,
                     "requested model version is not available for model 'b'");
        assert_null(m);
}

static void test_after_the_end(void **state) {
        struct message *m = NULL;

        (void)state;
        assert_ok(server_stop(place.server), "stop");
        assert_error(server_model_statistics(place.server, "b", 1, &m), ERR_INVALID_ARG,
                     "requested model 'b' is not available");
        assert_null(m);
        assert_statistics("", -1, "{\"model_stats\":[]}");
}

SUITE(server_statistics) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_nothing_yet, setup, teardown),
                cmocka_unit_test_setup_teardown(test_all_models_in_order, setup, teardown),
                cmocka_unit_test_setup_teardown(test_counts, setup, teardown),
                cmocka_unit_test_setup_teardown(test_responses_of_a_decoupled_model, setup,
                                                teardown),
                cmocka_unit_test_setup_teardown(test_models_that_are_not_there, setup, teardown),
                cmocka_unit_test_setup_teardown(test_after_the_end, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
