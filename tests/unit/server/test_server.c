/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "backend/log_lines.h"
#include "backend/probe.h"
#include "base/thread.h"
#include "infer/fake_model.h"
#include "repo/repo.h"
#include "server/server.h"
#include "server/server_place.h"

static void test_starts_and_stops(void **state) {
        struct server_place p;
        struct model       *model = NULL;

        (void)state;
        server_place_begin(&p);
        option_text_set(&p.options->id, "mine");
        server_place_add(&p, "m", SERVER_PLACE_CONFIG, 1);
        log_lines_begin();
        server_place_start(&p);
        assert_string_equal(p.server->id, "mine");
        assert_true(server_is_live(p.server));
        assert_true(server_is_ready(p.server));
        assert_ok(server_get_model(p.server, "m", -1, &model), "get");
        assert_int_equal(model->version, 1);
        model_unref(model);
        model = NULL;
        assert_error(server_get_model(p.server, "n", -1, &model), ERR_NOT_FOUND,
                     "Request for unknown model: 'n' is not found");

        assert_ok(server_stop(p.server), "stop");
        assert_false(server_is_live(p.server));
        assert_false(server_is_ready(p.server));
        assert_error(server_get_model(p.server, "m", -1, &model), ERR_UNAVAILABLE,
                     "Server not ready");
        assert_null(model);
        assert_int_equal(log_lines_count("I Waiting for in-flight requests to complete."), 1);
        assert_int_equal(log_lines_count("I Timeout 30: Found 0 model versions that have in-flight "
                                         "inferences"),
                         1);
        assert_int_equal(log_lines_count("I All models are stopped, unloading models"), 1);
        assert_int_equal(log_lines_count("I successfully unloaded 'm' version 1"), 1);
        assert_ok(server_stop(p.server), "stop again");
        assert_int_equal(log_lines_count("I All models are stopped, unloading models"), 1);
        log_lines_end();
        server_place_end(&p);
}

struct seen {
        struct server *server;
        unsigned       n_calls;
        bool           was_live, was_model_ready; /* at the last of them */
};

static void on_change(void *userp) {
        struct seen *seen = userp;

        seen->n_calls++;
        seen->was_live = server_is_live(seen->server);
        seen->was_model_ready = repo_version_is_ready(seen->server->repo, "m", -1);
}

/* Told of its own end first, then of each model's. */
static void test_changes_are_told(void **state) {
        struct server_place  p;
        struct seen          seen = { .was_live = true };
        struct subscription *watch;

        (void)state;
        server_place_begin(&p);
        server_place_add(&p, "m", SERVER_PLACE_CONFIG, 1);
        log_lines_begin();
        server_place_start(&p);
        seen.server = p.server;
        watch = event_source_subscribe(&p.server->ready, on_change, &seen);
        assert_int_equal(seen.n_calls, 0);
        assert_ok(server_stop(p.server), "stop");
        assert_int_equal(seen.n_calls, 3); /* exiting, unloading, ended */
        assert_false(seen.was_live);
        assert_false(seen.was_model_ready);
        subscription_free(watch);
        log_lines_end();
        server_place_end(&p);
}

/* Whatever the models do: what an administrator asked for cannot be had. */
static void test_host_policies_that_cannot_be_had(void **state) {
        (void)state;
        for (int i = 0; i < 2; i++) {
                struct server_place p;

                server_place_begin(&p);
                server_place_add(&p, "m", SERVER_PLACE_CONFIG, 1);
                p.options->exit_on_error = i == 0;
                settings_add(&p.options->host_policies, "mine", "cpu-cores", "8191");
                assert_error(server_new(p.options, &p.server), ERR_INVALID_ARG,
                             "host policy 'mine': core 8191 is not there, or this process may not "
                             "use it");
                assert_null(p.server);
                assert_int_equal(fake_host_count(FAKE_MODEL_INITIALIZE), 0);
                server_place_end(&p);
        }
}

struct start {
        unsigned n_calls;
        bool     was_live, ends;
};

static void on_start(struct server *s, void *userp) {
        struct start *start = userp;

        start->n_calls += s != NULL ? 1 : 10;
        if (s == NULL)
                return;
        start->was_live = server_is_live(s);
        if (start->ends)
                server_end_start(s);
}

/* Whatever exit_on_error is: nothing is loaded, and there is no server. */
static void test_an_end_of_the_start(void **state) {
        (void)state;
        for (int i = 0; i < 2; i++) {
                struct server_place p;
                struct start        start = { .ends = true };

                server_place_begin(&p);
                server_place_add(&p, "m", SERVER_PLACE_CONFIG, 1);
                p.options->exit_on_error = i == 0;
                p.options->on_start = on_start;
                p.options->on_start_userp = &start;
                assert_error(server_new(p.options, &p.server), ERR_UNAVAILABLE, "Server exiting");
                assert_null(p.server);
                assert_int_equal(start.n_calls, 11);
                assert_false(start.was_live);
                assert_int_equal(fake_host_count(FAKE_MODEL_INITIALIZE), 0);
                server_place_end(&p);
        }
}

/* It changes nothing that has started. */
static void test_a_late_end_of_the_start(void **state) {
        struct server_place p;
        struct start        start = { .ends = false };

        (void)state;
        server_place_begin(&p);
        server_place_add(&p, "m", SERVER_PLACE_CONFIG, 1);
        server_place_add(&p, "later", SERVER_PLACE_CONFIG, 1);
        p.options->control_mode = MODEL_CONTROL_EXPLICIT;
        option_texts_add(&p.options->load_model, "m");
        p.options->on_start = on_start;
        p.options->on_start_userp = &start;
        server_place_start(&p);
        assert_int_equal(start.n_calls, 11);
        server_end_start(p.server);
        assert_ok(server_load_model(p.server, "later", NULL), "load");
        server_place_end(&p);
}

static void test_a_failed_model_ends_the_start(void **state) {
        struct server_place p;

        (void)state;
        server_place_begin(&p);
        server_place_add(&p, "bad", SERVER_PLACE_CONFIG, 1);
        server_place_add(&p, "good", SERVER_PLACE_CONFIG, 1);
        fake_host_fail(FAKE_MODEL_INITIALIZE, "bad", TRITONSERVER_ERROR_INTERNAL, "boom");
        assert_error(server_new(p.options, &p.server), ERR_INTERNAL, "failed to load all models");
        assert_null(p.server);
        /* The one that had been loaded is gone again, and what the other left behind. */
        assert_int_equal(fake_host_count(FAKE_INSTANCE_INITIALIZE), 1);
        assert_int_equal(fake_host_count(FAKE_INSTANCE_FINALIZE), 1);
        assert_int_equal(fake_host_count(FAKE_MODEL_FINALIZE), 2);
        server_place_end(&p);
}

static void test_a_failed_model_among_others(void **state) {
        (void)state;
        for (int is_strict = 0; is_strict < 2; is_strict++) {
                struct server_place p;
                struct model       *model = NULL;

                server_place_begin(&p);
                p.options->exit_on_error = false;
                p.options->strict_readiness = is_strict;
                server_place_add(&p, "bad", SERVER_PLACE_CONFIG, 1);
                server_place_add(&p, "good", SERVER_PLACE_CONFIG, 1);
                fake_host_fail(FAKE_MODEL_INITIALIZE, "bad", TRITONSERVER_ERROR_INTERNAL, "boom");
                server_place_start(&p);
                assert_true(server_is_live(p.server));
                assert_int_equal(server_is_ready(p.server), !is_strict);
                assert_ok(server_get_model(p.server, "good", 1, &model), "good");
                model_unref(model);
                model = NULL;
                assert_error(server_get_model(p.server, "bad", 1, &model), ERR_UNAVAILABLE,
                             "Request for unknown model: 'bad' version 1 is not at ready state");
                assert_null(model);
                server_place_end(&p);
        }
}

static void test_readiness_asks_the_instances(void **state) {
        struct server_place p;

        (void)state;
        server_place_begin(&p);
        server_place_add(&p, "m", SERVER_PLACE_CONFIG, 1);
        server_place_start(&p);
        fake_host_fail(FAKE_INSTANCE_READY, "m", TRITONSERVER_ERROR_UNAVAILABLE, "busy");
        assert_false(server_is_ready(p.server));
        assert_true(server_readiness(p.server).asks_backends);
        assert_true(server_is_live(p.server));
        p.server->strict_readiness = false;
        assert_true(server_is_ready(p.server));
        assert_true(server_readiness(p.server).is_ready);
        assert_false(server_readiness(p.server).asks_backends);
        server_place_end(&p);
}

static void test_missing_repository(void **state) {
        struct server_place p;
        struct error       *err;

        (void)state;
        server_place_begin(&p);
        option_texts_add(&p.options->model_repository, "/nowhere/at/all");
        err = server_new(p.options, &p.server);
        assert_non_null(err);
        assert_non_null(strstr(err->message, "failed to read model repository '/nowhere/at/all'"));
        error_free(err);
        assert_null(p.server);
        server_place_end(&p);
}

static void begin_request(struct server_place *p, struct probe *probe) {
        struct model *model;

        assert_ok(server_get_model(p->server, "m", -1, &model), "get");
        probe_init(probe, model);
        model_unref(model);
        probe_add_row(probe, "IN", (const int32_t[]){ 8, 9 }, 2);
        assert_ok(server_infer(p->server, probe->request), "infer");
}

/* Lets the request go on, and drops it, once the server waits for its model. */
static void end_request(void *arg) {
        struct probe *probe = arg;

        log_lines_await("I Timeout 29: Found 1 live models and 0 in-flight non-inference requests");
        fake_host_open_gate();
        probe_wait(probe);
        assert_null(probe_error(probe));
        probe_done(probe);
}

static void test_stop_waits_for_requests(void **state) {
        struct server_place p;
        struct thread       thread = { 0 };
        struct probe        probe;

        (void)state;
        server_place_begin(&p);
        server_place_add(&p, "m", SERVER_PLACE_CONFIG, 1);
        server_place_start(&p);
        fake_host_close_gate();
        begin_request(&p, &probe);
        fake_host_await(FAKE_EXECUTE, 1);
        log_lines_begin();
        assert_ok(thread_start(&thread, "ender", end_request, &probe), "thread");
        assert_ok(server_stop(p.server), "stop");
        thread_join(&thread);
        assert_int_equal(log_lines_count("I Timeout 30: Found 1 model versions that have in-flight "
                                         "inferences"),
                         1);
        assert_int_equal(log_lines_count("I Model 'm' (version 1) has 1 in-flight inferences"), 1);
        assert_int_equal(log_lines_count("I successfully unloaded 'm' version 1"), 1);
        log_lines_end();
        assert_int_equal(fake_host_count(FAKE_MODEL_FINALIZE), 1);
        server_place_end(&p);
}

static void test_stop_has_a_deadline(void **state) {
        struct server_place p;
        struct probe        probe;

        (void)state;
        server_place_begin(&p);
        p.options->exit_timeout_s = 0;
        server_place_add(&p, "m", SERVER_PLACE_CONFIG, 1);
        server_place_start(&p);
        fake_host_close_gate();
        begin_request(&p, &probe);
        fake_host_await(FAKE_EXECUTE, 1);
        for (int i = 0; i < 2; i++)
                assert_error(server_stop(p.server), ERR_INTERNAL,
                             "Exit timeout expired. Exiting immediately.");
        assert_false(server_is_live(p.server));
        assert_int_equal(fake_host_count(FAKE_MODEL_FINALIZE), 0);

        /* A program that does not exit may try again. */
        fake_host_open_gate();
        probe_wait(&probe);
        assert_null(probe_error(&probe));
        probe_done(&probe);
        atomic_store(&p.server->exit_timeout_s, 30);
        assert_ok(server_stop(p.server), "stop");
        assert_int_equal(fake_host_count(FAKE_MODEL_FINALIZE), 1);
        server_place_end(&p);
}

SUITE(server) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_starts_and_stops),
                cmocka_unit_test(test_changes_are_told),
                cmocka_unit_test(test_host_policies_that_cannot_be_had),
                cmocka_unit_test(test_a_failed_model_ends_the_start),
                cmocka_unit_test(test_an_end_of_the_start),
                cmocka_unit_test(test_a_late_end_of_the_start),
                cmocka_unit_test(test_a_failed_model_among_others),
                cmocka_unit_test(test_readiness_asks_the_instances),
                cmocka_unit_test(test_missing_repository),
                cmocka_unit_test(test_stop_waits_for_requests),
                cmocka_unit_test(test_stop_has_a_deadline),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
