/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "backend/probe.h"
#include "infer/fake_model.h"
#include "repo/repo.h"
#include "server/server.h"
#include "server/server_place.h"

struct place {
        struct server_place server;
        struct probe        probe;
        struct model       *model; /* borrowed: the probe's request */
};

static void begin(struct place *p) {
        server_place_begin(&p->server);
        server_place_add(&p->server, "m", SERVER_PLACE_CONFIG, 1);
        server_place_start(&p->server);
        assert_ok(server_get_model(p->server.server, "m", -1, &p->model), "get");
        probe_init(&p->probe, p->model);
        model_unref(p->model);
}

static void end(struct place *p) {
        assert_int_equal(atomic_load(&p->model->n_in_flight), 0);
        probe_done(&p->probe);
        server_place_end(&p->server);
}

static struct error *infer(struct place *p) {
        return server_infer(p->server.server, p->probe.request);
}

/* Its answer must repeat these values. */
static void assert_answer(struct place *p, int32_t first, int32_t second) {
        const struct response_output *out;

        probe_wait(&p->probe);
        assert_null(probe_error(&p->probe));
        assert_int_equal(p->probe.response->n_outputs, 1);
        out = p->probe.response->first_output;
        assert_string_equal(out->name, "OUT");
        assert_int_equal(out->n_dims, 2);
        assert_int_equal(out->shape[0], 1);
        assert_int_equal(out->shape[1], 2);
        assert_int_equal(((const int32_t *)out->base)[0], first);
        assert_int_equal(((const int32_t *)out->base)[1], second);
}

static void test_answers(void **state) {
        static const int32_t values[] = { 11, 12 };
        struct place         p;

        (void)state;
        begin(&p);
        probe_add_row(&p.probe, "IN", values, 2);
        assert_ok(infer(&p), "infer");
        assert_answer(&p, 11, 12);
        assert_int_equal(p.probe.n_answers, 1);
        assert_int_equal(p.probe.n_releases, 1);
        assert_true(p.probe.request->times.request_start_ns > 0);
        end(&p);
}

static void test_callbacks_must_be_set(void **state) {
        static const int32_t values[] = { 1, 2 };
        response_complete_fn on_response;
        request_release_fn   on_release;
        struct place         p;

        (void)state;
        begin(&p);
        probe_add_row(&p.probe, "IN", values, 2);
        on_response = p.probe.request->on_response;
        p.probe.request->on_response = NULL;
        assert_error(infer(&p), ERR_INVALID_ARG,
                     "[request id: <id_unknown>] release and response callbacks must be set before "
                     "inference");
        p.probe.request->on_response = on_response;
        on_release = p.probe.request->on_release;
        p.probe.request->on_release = NULL;
        assert_ok(request_set_id(p.probe.request, "r7"), "id");
        assert_error(infer(&p), ERR_INVALID_ARG,
                     "[request id: r7] release and response callbacks must be set before "
                     "inference");
        p.probe.request->on_release = on_release;
        assert_ok(infer(&p), "infer");
        assert_answer(&p, 1, 2);
        end(&p);
}

static void test_the_caller_keeps_what_is_refused(void **state) {
        static const int32_t values[] = { 3, 4, 5 };
        struct place         p;

        (void)state;
        begin(&p);
        probe_add_row(&p.probe, "IN", values, 3);
        assert_error(infer(&p), ERR_INVALID_ARG,
                     "[request id: <id_unknown>] unexpected shape for input 'IN' for model 'm'. "
                     "Expected [-1,2], got [1,3]. NOTE: Setting a non-zero max_batch_size in the "
                     "model config requires a batch dimension to be prepended to each input shape. "
                     "If you want to specify the full shape including the batch dim in your input "
                     "dims config, try setting max_batch_size to zero. See the model configuration "
                     "docs for more info on max_batch_size.");
        assert_int_equal(p.probe.n_answers, 0);
        assert_int_equal(p.probe.n_releases, 0);
        assert_int_equal(atomic_load(&p.model->n_in_flight), 0);

        request_remove_all_inputs(p.probe.request);
        probe_add_row(&p.probe, "IN", values, 2);
        assert_ok(infer(&p), "infer");
        assert_answer(&p, 3, 4);
        end(&p);
}

static void test_one_inference_at_a_time(void **state) {
        static const int32_t values[] = { 1, 2 };
        struct place         p;

        (void)state;
        begin(&p);
        probe_add_row(&p.probe, "IN", values, 2);
        fake_host_close_gate();
        assert_ok(infer(&p), "infer");
        fake_host_await(FAKE_EXECUTE, 1);
        assert_int_equal(atomic_load(&p.model->n_in_flight), 1);
        assert_error(infer(&p), ERR_INVALID_ARG,
                     "the request is in use by an inference that has not released it");
        fake_host_open_gate();
        assert_answer(&p, 1, 2);
        assert_int_equal(fake_host_count(FAKE_EXECUTE), 1);

        /* It has it back, so it may use it again. */
        p.probe.n_finals = p.probe.n_releases = 0;
        assert_ok(infer(&p), "infer again");
        assert_answer(&p, 1, 2);
        assert_int_equal(fake_host_count(FAKE_EXECUTE), 2);
        end(&p);
}

static void test_scheduler_that_stopped(void **state) {
        static const int32_t values[] = { 1, 2 };
        struct place         p;

        (void)state;
        begin(&p);
        probe_add_row(&p.probe, "IN", values, 2);
        repo_stop_all(p.server.server->repo);
        assert_error(
                infer(&p), ERR_UNAVAILABLE,
                "[request id: <id_unknown>] Server is stopping, scheduler for model has stopped "
                "accepting new inference requests");
        assert_int_equal(p.probe.n_answers, 0);
        assert_int_equal(p.probe.n_releases, 0);
        end(&p);
}

static void test_server_that_is_not_ready(void **state) {
        static const int     states[] = { SERVER_INITIALIZING, SERVER_EXITING };
        static const int32_t values[] = { 1, 2 };
        struct place         p;

        (void)state;
        begin(&p);
        probe_add_row(&p.probe, "IN", values, 2);
        for (size_t i = 0; i < ARRAY_LEN(states); i++) {
                atomic_store(&p.server.server->state, states[i]);
                assert_error(infer(&p), ERR_UNAVAILABLE, "Server not ready");
        }
        atomic_store(&p.server.server->state, SERVER_READY);
        assert_ok(infer(&p), "infer");
        assert_answer(&p, 1, 2);
        end(&p);
}

static void test_failures_of_the_backend(void **state) {
        static const int32_t values[] = { 1, 2 };
        const struct error  *err;
        struct place         p;

        (void)state;
        begin(&p);
        probe_add_row(&p.probe, "IN", values, 2);
        fake_host_fail(FAKE_EXECUTE, "m", TRITONSERVER_ERROR_CANCELLED, "not now");
        assert_ok(infer(&p), "infer");
        probe_wait(&p.probe);
        err = probe_error(&p.probe);
        assert_non_null(err);
        assert_int_equal(err->code, ERR_CANCELLED);
        assert_string_equal(err->message, "not now");
        end(&p);
}

SUITE(server_infer) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_answers),
                cmocka_unit_test(test_callbacks_must_be_set),
                cmocka_unit_test(test_the_caller_keeps_what_is_refused),
                cmocka_unit_test(test_one_inference_at_a_time),
                cmocka_unit_test(test_scheduler_that_stopped),
                cmocka_unit_test(test_server_that_is_not_ready),
                cmocka_unit_test(test_failures_of_the_backend),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
