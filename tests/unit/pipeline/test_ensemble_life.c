/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors, cancellation, deadlines, statistics, traces, and the lifetime of the models of an
 * ensemble. */
#include "suite.h"

#include "base/mem.h"
#include "infer/trace.h"
#include "observe/model_stats_private.h"
#include "pipeline/ensemble_steps.h"

/* ---- errors ---------------------------------------------------------------------------------- */

static void test_failing_step(void **state) {
        struct ensemble_steps       b;
        struct fixture_call         c;
        struct model_stats_snapshot stats;
        uint32_t                    x = 5;

        (void)state;
        ENSEMBLE_STEPS(&b,
                       ENSEMBLE(IN("X") OUT("Y"), STEP(I_TO_O("X", "T")) STEP(I_TO_O("T", "Y"))),
                       ONE, ONE);
        b.models[0].error = "boom";
        call_open(&c, &b);
        fixture_input(&c, "X", &x, 1);
        fixture_run(&c);
        fixture_assert_error(&c, ERR_INVALID_ARG, "in ensemble 'e', boom");
        assert_int_equal(fixture_count(&b.models[1]), 0);
        fixture_call_close(&c);
        model_stats_read(b.ensemble.fake->model.stats, &stats);
        assert_int_equal(stats.fail.count, 1);
        assert_int_equal(stats.success.count, 0);
        model_stats_snapshot_done(&stats);
        ensemble_steps_close(&b);
}

/* The first error is sent, after the other branch has ended. */
static void test_error_waits_for_steps_under_way(void **state) {
        struct ensemble_steps b;
        struct fixture_call   c;
        uint32_t              x = 5;

        (void)state;
        ENSEMBLE_STEPS(&b,
                       ENSEMBLE(IN("X") OUT("Y"), STEP(I_TO_O("X", "T")) STEP(I_TO_O("X", "U"))
                                                          STEP(IJ_TO_O("T", "U", "Y"))),
                       ONE NEVER, ONE NEVER, TWO);
        b.models[0].error = "first";
        b.models[1].error = "second";
        fixture_hold(&b.models[0], true);
        fixture_hold(&b.models[1], true);
        call_open(&c, &b);
        fixture_input(&c, "X", &x, 1);
        fixture_submit(&c);
        FIXTURE_WAIT_FOR(b.models[0].n_running == 1 && b.models[1].n_running == 1);
        fixture_hold(&b.models[0], false);
        FIXTURE_WAIT_FOR(b.models[0].n_running == 0);
        mutex_lock(&fixture_lock);
        assert_int_equal(c.n_got, 0);
        assert_false(c.is_released);
        mutex_unlock(&fixture_lock);
        fixture_hold(&b.models[1], false);
        fixture_wait(&c);
        fixture_assert_error(&c, ERR_INVALID_ARG, "in ensemble 'e', first");
        assert_int_equal(fixture_count(&b.models[2]), 0);
        fixture_call_close(&c);
        ensemble_steps_close(&b);
}

/* The client's allocator refuses memory: the step fails, and the client gets the error. */
static void test_client_without_memory(void **state) {
        struct ensemble_steps b;
        struct fixture_call   c;
        uint32_t              x = 5;

        (void)state;
        ENSEMBLE_STEPS(&b,
                       ENSEMBLE(IN("X") OUT("Y") OUT("Z"),
                                STEP(I_TO_O("X", "Y")) STEP(I_TO_O("X", "Z"))),
                       ONE, ONE);
        for (int i = 0; i < 2; i++) {
                call_open(&c, &b);
                c.refuses = i == 0 ? "Y" : "Z";
                fixture_input(&c, "X", &x, 1);
                fixture_run(&c);
                fixture_assert_error(&c, ERR_UNAVAILABLE,
                                     i == 0 ? "in ensemble 'e', no room for 'Y'"
                                            : "in ensemble 'e', no room for 'Z'");
                fixture_call_close(&c);
        }
        ensemble_steps_close(&b);
}

/* A step sends a sequence parameter of the wrong type. */
static void test_wrong_parameters_of_a_step(void **state) {
        static const struct {
                struct parameter says;
                const char      *text;
        } rows[] = {
                { { .name = "sequence_id", .type = PARAMETER_BOOL, .boolean = true },
                  "in ensemble 'e', expected parameter 'sequence_id' to be "
                  "TRITONSERVER_PARAMETER_INT or TRITONSERVER_PARAMETER_STRING" },
                { { .name = "sequence_start", .type = PARAMETER_INT, .integer = 1 },
                  "in ensemble 'e', expect parameter 'sequence_start' to be "
                  "TRITONSERVER_PARAMETER_BOOL" },
                { { .name = "sequence_end", .type = PARAMETER_STRING, .string = "true" },
                  "in ensemble 'e', expect parameter 'sequence_end' to be "
                  "TRITONSERVER_PARAMETER_BOOL" },
        };
        struct ensemble_steps b;
        struct fixture_call   c;
        uint32_t              x = 5;

        (void)state;
        ENSEMBLE_STEPS(&b,
                       ENSEMBLE(IN("X") OUT("Y"), STEP(I_TO_O("X", "T")) STEP(I_TO_O("T", "Y"))),
                       ONE, ONE);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                b.models[0].says = &rows[i].says;
                call_open(&c, &b);
                fixture_input(&c, "X", &x, 1);
                fixture_run(&c);
                fixture_assert_error(&c, ERR_INVALID_ARG, rows[i].text);
                fixture_call_close(&c);
        }
        assert_int_equal(fixture_count(&b.models[1]), 0);
        ensemble_steps_close(&b);
}

static void test_steps_that_are_not_ready(void **state) {
        struct ensemble_steps b;
        struct fixture_call   c;
        struct error         *err;
        uint32_t              x = 5;

        (void)state;
        ENSEMBLE_STEPS(&b, ENSEMBLE(IN("X") OUT("Y"), STEP(I_TO_O("X", "Y"))), ONE);
        step_models_holder_block(&b.ensemble.holder,
                                 error_new(ERR_UNAVAILABLE, "step 's' is gone"));
        call_open(&c, &b);
        fixture_input(&c, "X", &x, 1);
        err = model_submit(c.req);
        assert_error(err, ERR_UNAVAILABLE, "step 's' is gone");
        fixture_call_close(&c);
        ensemble_steps_close(&b);
}

/* ---- nested ensembles ------------------------------------------------------------------------ */

static void test_nested(void **state) {
        struct ensemble_steps   inner;
        struct fixture_ensemble outer;
        struct fixture_call     c;
        uint32_t                x = 5;

        (void)state;
        ENSEMBLE_STEPS(&inner,
                       ENSEMBLE(IN("I") OUT("O"), STEP(I_TO_O("I", "T")) STEP(I_TO_O("T", "O"))),
                       ONE, ONE);
        for (int i = 0; i < 2; i++) {
                struct step_models *nested = step_models_holder_get(&inner.ensemble.holder);
                struct step_model   steps[] = { { &inner.models[0].fake->model, NULL, 0 },
                                                { &inner.ensemble.fake->model, nested, 0 } };

                fixture_ensemble_open(&outer, "outer",
                                      ENSEMBLE(IN("X") OUT("Y"),
                                               STEP(I_TO_O("X", "T")) STEP(I_TO_O("T", "Y"))),
                                      steps, 2);
                step_models_unref(nested);
                /* The outer ensemble uses the inner snapshot that it was made with. */
                if (i == 1)
                        step_models_holder_block(&inner.ensemble.holder,
                                                 error_new(ERR_UNAVAILABLE, "gone"));
                fixture_call_open(&c, outer.fake);
                fixture_input(&c, "X", &x, 1);
                inner.models[1].error = i == 1 ? "boom" : NULL;
                fixture_run(&c);
                if (i == 0) {
                        assert_int_equal(fixture_output(&c, 0, "Y")->value, 3 * (3 * 16 + 1) + 1);
                        assert_ptr_equal(fixture_output(&c, 0, "Y")->base,
                                         inner.models[1].seen.output);
                        assert_int_equal(atomic_load(&c.n_allocated), 1);
                } else {
                        fixture_assert_error(&c, ERR_INVALID_ARG,
                                             "in ensemble 'outer', in ensemble 'e', boom");
                }
                fixture_call_close(&c);
                fixture_ensemble_close(&outer);
        }
        ensemble_steps_close(&inner);
}

/* ---- cancellation ---------------------------------------------------------------------------- */

#define CANCELLED "in ensemble 'e', "

/* One request waits in the queue of the step's model, one for a place under max_inflight_requests.
 * Both end while the step is still busy. */
static void test_cancelled_while_waiting(void **state) {
        struct ensemble_steps b;
        struct fixture_call   busy, queued, waiting;
        uint32_t              x = 5;

        (void)state;
        ENSEMBLE_STEPS(&b,
                       ENSEMBLE(IN("X") OUT("Y"),
                                STEP(I_TO_O("X", "Y")) "max_inflight_requests: 2 "),
                       ONE NEVER);
        fixture_hold(&b.models[0], true);
        call_open(&busy, &b);
        call_open(&queued, &b);
        call_open(&waiting, &b);
        fixture_input(&busy, "X", &x, 1);
        fixture_input(&queued, "X", &x, 1);
        fixture_input(&waiting, "X", &x, 1);
        fixture_submit(&busy);
        FIXTURE_WAIT_FOR(b.models[0].n_running == 1);
        fixture_submit(&queued);
        fixture_submit(&waiting);
        request_cancel(waiting.req);
        fixture_wait(&waiting);
        fixture_assert_error(&waiting, ERR_CANCELLED, CANCELLED);
        request_cancel(queued.req);
        fixture_wait(&queued);
        fixture_assert_error(&queued, ERR_CANCELLED, CANCELLED);
        fixture_hold(&b.models[0], false);
        fixture_wait(&busy);
        assert_int_equal(fixture_output(&busy, 0, "Y")->value, 16);
        assert_int_equal(fixture_count(&b.models[0]), 1);
        fixture_call_close(&busy);
        fixture_call_close(&queued);
        fixture_call_close(&waiting);
        ensemble_steps_close(&b);
}

/* ---- one deadline ---------------------------------------------------------------------------- */

static void test_deadline(void **state) {
        struct ensemble_steps b;
        struct fixture_call   c;
        uint32_t              x = 5;
        uint64_t              reached_ns;

        (void)state;
        ENSEMBLE_STEPS(&b,
                       ENSEMBLE(IN("X") OUT("Y"), STEP(I_TO_O("X", "T")) STEP(I_TO_O("T", "Y"))),
                       ONE NEVER, ONE NEVER);
        call_open(&c, &b);
        fixture_input(&c, "X", &x, 1);
        c.req->timeout_us = 1000 * 1000000ull;
        fixture_hold(&b.models[0], true);
        fixture_submit(&c);
        FIXTURE_WAIT_FOR(b.models[0].n_running == 1);
        reached_ns = clock_now_ns(); /* later than the start of the request */
        while (clock_now_ns() < reached_ns + 2 * NS_PER_MS)
                continue;
        fixture_hold(&b.models[0], false);
        fixture_wait(&c);
        assert_int_equal(fixture_output(&c, 0, "Y")->value, 49);
        assert_in_range(b.models[0].seen.timeout_us, 1, c.req->timeout_us);
        assert_in_range(b.models[1].seen.timeout_us, 1, c.req->timeout_us - 2000);
        fixture_call_close(&c);

        /* The timeout is over before the second step starts, or on a busy machine before the first. */
        call_open(&c, &b);
        fixture_input(&c, "X", &x, 1);
        c.req->timeout_us = 1000;
        fixture_hold(&b.models[0], true);
        fixture_submit(&c);
        reached_ns = clock_now_ns();
        while (clock_now_ns() < reached_ns + 2 * NS_PER_MS)
                continue;
        fixture_hold(&b.models[0], false);
        fixture_wait(&c);
        fixture_assert_error(&c, ERR_UNAVAILABLE, "in ensemble 'e', Request timeout expired");
        fixture_call_close(&c);
        ensemble_steps_close(&b);
}

/* The only place is taken until the test gives it back. A request whose deadline passes in the
 * queue ends before that. */
static void test_deadline_in_the_line(void **state) {
        struct ensemble_steps b;
        struct fixture_call   busy, waiting, late;
        uint32_t              x = 5;

        (void)state;
        ENSEMBLE_STEPS(&b,
                       ENSEMBLE(IN("X") OUT("Y"),
                                STEP(I_TO_O("X", "Y")) "max_inflight_requests: 1 "),
                       ONE NEVER);
        fixture_hold(&b.models[0], true);
        call_open(&busy, &b);
        call_open(&waiting, &b);
        call_open(&late, &b);
        fixture_input(&busy, "X", &x, 1);
        fixture_input(&waiting, "X", &x, 1);
        fixture_input(&late, "X", &x, 1);
        fixture_submit(&busy);
        FIXTURE_WAIT_FOR(b.models[0].n_running == 1);
        waiting.req->timeout_us = 3600 * 1000000ull;
        fixture_submit(&waiting);
        late.req->timeout_us = 20000;
        fixture_submit(&late);
        fixture_wait(&late);
        fixture_assert_error(&late, ERR_UNAVAILABLE, "in ensemble 'e', Request timeout expired");
        fixture_hold(&b.models[0], false);
        fixture_wait(&busy);
        fixture_wait(&waiting);
        assert_int_equal(fixture_output(&waiting, 0, "Y")->value, 16);
        assert_int_equal(fixture_count(&b.models[0]), 2);
        fixture_call_close(&busy);
        fixture_call_close(&waiting);
        fixture_call_close(&late);
        ensemble_steps_close(&b);
}

/* A request does not wait for a place after another of its steps has failed. */
static void test_failure_of_another_step_ends_the_wait(void **state) {
        struct ensemble_steps b;
        struct fixture_call   busy, failing;
        uint32_t              x = 5;

        (void)state;
        ENSEMBLE_STEPS(&b,
                       ENSEMBLE(IN("X") OUT("Y") OUT("Z"),
                                STEP(I_TO_O("X", "Y"))
                                        STEP(I_TO_O("X", "Z")) "max_inflight_requests: 1 "),
                       ONE NEVER, ONE NEVER);
        fixture_hold(&b.models[0], true);
        call_open(&busy, &b);
        fixture_input(&busy, "X", &x, 1);
        assert_ok(request_add_output(busy.req, "Y"), "output");
        fixture_submit(&busy);
        FIXTURE_WAIT_FOR(b.models[0].n_running == 1);
        b.models[1].error = "boom";
        call_open(&failing, &b);
        fixture_input(&failing, "X", &x, 1);
        fixture_run(&failing);
        fixture_assert_error(&failing, ERR_INVALID_ARG, "in ensemble 'e', boom");
        fixture_hold(&b.models[0], false);
        fixture_wait(&busy);
        assert_int_equal(fixture_count(&b.models[0]), 1);
        fixture_call_close(&busy);
        fixture_call_close(&failing);
        ensemble_steps_close(&b);
}

/* ---- statistics, traces, labels -------------------------------------------------------------- */

static void test_statistics(void **state) {
        struct ensemble_steps       b;
        struct fixture_call         c;
        struct model_stats_snapshot stats;
        uint32_t                    x = 5;

        (void)state;
        ENSEMBLE_STEPS(&b,
                       ENSEMBLE(IN("X") OUT("Y"), STEP(I_TO_O("X", "T")) STEP(I_TO_O("T", "Y"))),
                       ONE, ONE);
        call_open(&c, &b);
        fixture_input(&c, "X", &x, 1);
        fixture_run(&c);
        fixture_call_close(&c);
        model_stats_read(b.ensemble.fake->model.stats, &stats);
        assert_int_equal(stats.success.count, 1);
        assert_int_equal(stats.inference_count, 1);
        assert_int_equal(stats.execution_count, 1);
        assert_int_equal(stats.queue.count, 1);
        assert_int_equal(stats.compute_input.ns, 2 * 1); /* two steps, see fixture_report() */
        assert_int_equal(stats.compute_infer.ns, 2 * 10);
        assert_int_equal(stats.compute_output.ns, 2 * 100);
        assert_int_equal(stats.n_batches, 1);
        assert_int_equal(stats.batches[0].batch_size, 1);
        assert_int_equal(stats.batches[0].compute_infer.ns, 20);
        assert_int_equal(model_stats_get_pending(b.ensemble.fake->model.stats), 0);
        model_stats_snapshot_done(&stats);
        ensemble_steps_close(&b);
}

struct reported {
        uint64_t id, parent;
        char     model[8];
        unsigned n_activities;
};

static struct reported reported[8];
static unsigned        n_reported, n_traces_released; /* guarded by fixture_lock */

static void on_activity(struct trace *t, int activity, uint64_t timestamp_ns, void *userp) {
        unsigned i = 0;

        (void)activity;
        (void)timestamp_ns;
        (void)userp;
        MUTEX_GUARD(&fixture_lock);
        while (i < n_reported && reported[i].id != t->id)
                i++;
        if (i == n_reported) {
                reported[n_reported++] =
                        (struct reported){ .id = t->id, .parent = t->options.parent_id };
                snprintf(reported[i].model, sizeof(reported[i].model), "%s", t->model_name);
        }
        reported[i].n_activities++;
}

static void on_trace_release(struct trace *t, void *userp) {
        (void)userp;
        error_free(trace_free(t));
        MUTEX_GUARD(&fixture_lock);
        n_traces_released++;
        cond_broadcast(&fixture_changed);
}

static void test_traces(void **state) {
        struct trace_options  options = { .level = TRACE_LEVEL_TIMESTAMPS,
                                          .on_activity = on_activity,
                                          .on_release = on_trace_release };
        struct ensemble_steps b;
        struct fixture_call   c;
        struct trace         *t = trace_new(&options);
        uint32_t              x = 5;

        (void)state;
        n_reported = n_traces_released = 0;
        ENSEMBLE_STEPS(&b,
                       ENSEMBLE(IN("X") OUT("Y"), STEP(I_TO_O("X", "T")) STEP(I_TO_O("T", "Y"))),
                       ONE, ONE);
        call_open(&c, &b);
        fixture_input(&c, "X", &x, 1);
        assert_ok(trace_begin(t, c.req), "trace");
        fixture_run(&c);
        FIXTURE_WAIT_FOR(n_traces_released == 3);
        assert_int_equal(n_reported, 3);
        assert_string_equal(reported[0].model, "e");
        assert_int_equal(reported[0].parent, 0);
        for (int i = 1; i < 3; i++) {
                assert_string_equal(reported[i].model, "s");
                assert_int_equal(reported[i].parent, reported[0].id);
                assert_int_equal(reported[i].n_activities, 3); /* start, queue, end */
        }
        fixture_call_close(&c);

        /* The trace of a refused step ends, too. */
        n_reported = n_traces_released = 0;
        b.models[0].omits = "O";
        t = trace_new(&options);
        call_open(&c, &b);
        fixture_input(&c, "X", &x, 1);
        assert_ok(trace_begin(t, c.req), "trace");
        fixture_run(&c);
        FIXTURE_WAIT_FOR(n_traces_released == 3);
        fixture_call_close(&c);
        ensemble_steps_close(&b);
}

/* ---- the lifetime of the scheduler ----------------------------------------------------------- */

static void test_drain(void **state) {
        struct ensemble_steps   b;
        struct fixture_call     c, other;
        struct fixture_ensemble outer;
        uint32_t                x = 5;

        (void)state;
        ENSEMBLE_STEPS(&b,
                       ENSEMBLE(IN("I") OUT("O"), STEP(I_TO_O("I", "T")) STEP(I_TO_O("T", "O"))),
                       ONE NEVER, ONE NEVER);
        fixture_hold(&b.models[0], true);
        call_open(&c, &b);
        fixture_input(&c, "I", &x, 1);
        fixture_submit(&c);
        FIXTURE_WAIT_FOR(b.models[0].n_running == 1);
        b.ensemble.fake->model.scheduler->ops->drain(b.ensemble.fake->model.scheduler);
        for (int i = 0; i < 2; i++)
                b.models[i].fake->model.scheduler->ops->drain(b.models[i].fake->model.scheduler);
        call_open(&other, &b);
        assert_ok(request_set_id(other.req, "q"), "id");
        fixture_input(&other, "I", &x, 1);
        assert_error(
                model_submit(other.req), ERR_UNAVAILABLE,
                "[request id: q] Server is stopping, scheduler for model has stopped accepting "
                "new inference requests");
        fixture_call_close(&other);
        /* A running request continues to its end. */
        fixture_hold(&b.models[0], false);
        fixture_wait(&c);
        assert_int_equal(fixture_output(&c, 0, "O")->value, 49);
        fixture_call_close(&c);
        /* The drained ensemble still serves as a step of another ensemble. */
        fixture_ensemble_open(&outer, "outer", ENSEMBLE(IN("X") OUT("Y"), STEP(I_TO_O("X", "Y"))),
                              &(struct step_model){ &b.ensemble.fake->model, NULL, 0 }, 1);
        fixture_call_open(&c, outer.fake);
        fixture_input(&c, "X", &x, 1);
        fixture_run(&c);
        assert_int_equal(fixture_output(&c, 0, "Y")->value, 49);
        fixture_call_close(&c);
        fixture_ensemble_close(&outer);
        ensemble_steps_close(&b);
}

/* The client submits the same request object several times. */
static void test_request_is_used_again(void **state) {
        struct ensemble_steps b;
        struct fixture_call   c;
        uint32_t              x = 5;

        (void)state;
        ENSEMBLE_STEPS(&b,
                       ENSEMBLE(IN("X") OUT("Y"), STEP(I_TO_O("X", "T")) STEP(I_TO_O("T", "Y"))),
                       ONE, ONE);
        call_open(&c, &b);
        fixture_input(&c, "X", &x, 1);
        for (unsigned i = 0; i < 5; i++) {
                mutex_lock(&fixture_lock);
                c.is_released = false;
                c.n_finals = 0;
                mutex_unlock(&fixture_lock);
                x = i;
                fixture_run(&c);
                assert_int_equal(fixture_output(&c, i, "Y")->value, 3 * (3 * i + 1) + 1);
        }
        fixture_call_close(&c);
        ensemble_steps_close(&b);
}

/* An admitted request keeps its models; a later one gets the new models. */
static void test_reload_of_a_step(void **state) {
        struct ensemble_steps b;
        struct fixture_model  other;
        struct fixture_call   before, after;
        struct step_models   *models;
        bool                  is_decoupled;
        uint32_t              x = 5;

        (void)state;
        ENSEMBLE_STEPS(&b,
                       ENSEMBLE(IN("X") OUT("Y"), STEP(I_TO_O("X", "T")) STEP(I_TO_O("T", "Y"))),
                       ONE NEVER, ONE NEVER);
        fixture_model_open(&other, "s", ONE NEVER, NULL);
        other.add = 1000;
        fixture_hold(&b.models[0], true);
        call_open(&before, &b);
        call_open(&after, &b);
        fixture_input(&before, "X", &x, 1);
        fixture_input(&after, "X", &x, 1);
        fixture_submit(&before);
        FIXTURE_WAIT_FOR(b.models[0].n_running == 1);
        b.steps[1].model = &other.fake->model;
        models = step_models_new(b.steps, 2);
        assert_ok(ensemble_prepare(b.ensemble.fake->model.config, models, &is_decoupled), "plan");
        step_models_holder_set(&b.ensemble.holder, models);
        fixture_submit(&after);
        fixture_hold(&b.models[0], false);
        fixture_wait(&before);
        fixture_wait(&after);
        assert_int_equal(fixture_output(&before, 0, "Y")->value, 49);
        assert_int_equal(fixture_output(&after, 0, "Y")->value, 3 * 16 + 1000);
        fixture_call_close(&before);
        fixture_call_close(&after);
        fixture_ensemble_close(&b.ensemble);
        for (size_t i = 0; i < b.n; i++)
                fixture_model_close(&b.models[i]);
        fixture_model_close(&other);
}

/* ensemble_prepare() reports that a new step model is decoupled, and refuses a model that does not
 * fit. */
static void test_snapshots_that_do_not_fit(void **state) {
        struct ensemble_steps b;
        struct fixture_model  other;
        struct step_models   *models;
        bool                  is_decoupled = false;

        (void)state;
        ENSEMBLE_STEPS(&b, ENSEMBLE(IN("X") OUT("Y"), STEP(I_TO_O("X", "Y"))), ONE);
        fixture_model_open(&other, "s", ONE DECOUPLED, NULL);
        models = step_models_new(&(struct step_model){ &other.fake->model, NULL, 0 }, 1);
        assert_ok(ensemble_prepare(b.ensemble.fake->model.config, models, &is_decoupled), "plan");
        assert_true(is_decoupled);
        step_models_unref(models);
        fixture_model_close(&other);

        fixture_model_open(&other, "s", IN("I") IN("J") OUT("O"), NULL);
        models = step_models_new(&(struct step_model){ &other.fake->model, NULL, 0 }, 1);
        assert_error(ensemble_prepare(b.ensemble.fake->model.config, models, &is_decoupled),
                     ERR_INVALID_ARG,
                     "in ensemble e, input J in model s is not mapped to any ensemble tensors");
        step_models_unref(models);
        fixture_model_close(&other);
        ensemble_steps_close(&b);
}

/* Each allocation of a request fails once. The request is refused or gets an error, and nothing
 * leaks. */
static void test_memory_short(void **state) {
        struct ensemble_steps b;
        struct fixture_call   c;
        uint32_t              x = 5;
        bool                  is_answered = false;

        (void)state;
        ENSEMBLE_STEPS(&b,
                       ENSEMBLE(IN("X") OUT("Y") OUT("Z"),
                                STEP(I_TO_O("X", "T")) STEP(I_TO_O("T", "Y"))
                                        STEP(I_TO_O("T", "Z"))),
                       ONE ALWAYS, ONE ALWAYS, ONE ALWAYS);
        for (unsigned n = 1; !is_answered; n++) {
                struct error *err;

                call_open(&c, &b);
                fixture_input(&c, "X", &x, 1);
                assert_ok(request_add_output(c.req, "Y"), "output");
                b.models[0].may_lack_memory = b.models[1].may_lack_memory = true;
                mem_fail_after(n);
                err = model_submit(c.req);
                mem_fail_after(0);
                if (err == NULL) {
                        fixture_wait(&c);
                        is_answered = c.n_got == 1 && c.got[0].response->error == NULL;
                        if (is_answered)
                                assert_int_equal(fixture_output(&c, 0, "Y")->value, 49);
                }
                error_free(err);
                fixture_call_close(&c);
                assert_true(n < 500);
        }
        ensemble_steps_close(&b);
}

/* A request that the memory budget has no room for is refused; one that runs is charged for. */
static void test_budget_is_used_up(void **state) {
        struct ensemble_steps b;
        struct fixture_call   c;
        struct byte_budget   *budget = &b.ensemble.budget;
        uint32_t              x = 5;

        (void)state;
        ENSEMBLE_STEPS(&b,
                       ENSEMBLE(IN("X") OUT("Y"), STEP(I_TO_O("X", "T")) STEP(I_TO_O("T", "Y"))),
                       ONE NEVER, ONE NEVER);
        call_open(&c, &b);
        fixture_input(&c, "X", &x, 1);
        byte_budget_force(budget, FIXTURE_BUDGET_BYTES);
        assert_error(model_submit(c.req), ERR_UNAVAILABLE,
                     "[request id: <id_unknown>] the server's memory budget (--memory-budget) is "
                     "used up");
        byte_budget_give(budget, FIXTURE_BUDGET_BYTES);
        assert_int_equal(byte_budget_used(budget), 0);
        fixture_hold(&b.models[0], true);
        fixture_submit(&c);
        FIXTURE_WAIT_FOR(b.models[0].n_running == 1);
        /* The run, and a few requests to its steps. */
        assert_in_range(byte_budget_used(budget), 4096, 32768);
        byte_budget_force(budget, FIXTURE_BUDGET_BYTES);
        fixture_hold(&b.models[0], false);
        fixture_wait(&c);
        assert_int_equal(fixture_output(&c, 0, "Y")->value, 49);
        fixture_call_close(&c);
        byte_budget_give(budget, FIXTURE_BUDGET_BYTES);
        ensemble_steps_close(&b);
}

SUITE(ensemble_life) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_failing_step),
                cmocka_unit_test(test_error_waits_for_steps_under_way),
                cmocka_unit_test(test_client_without_memory),
                cmocka_unit_test(test_wrong_parameters_of_a_step),
                cmocka_unit_test(test_steps_that_are_not_ready),
                cmocka_unit_test(test_nested),
                cmocka_unit_test(test_cancelled_while_waiting),
                cmocka_unit_test(test_deadline),
                cmocka_unit_test(test_deadline_in_the_line),
                cmocka_unit_test(test_failure_of_another_step_ends_the_wait),
                cmocka_unit_test(test_statistics),
                cmocka_unit_test(test_traces),
                cmocka_unit_test(test_drain),
                cmocka_unit_test(test_request_is_used_again),
                cmocka_unit_test(test_reload_of_a_step),
                cmocka_unit_test(test_snapshots_that_do_not_fit),
                cmocka_unit_test(test_memory_short),
                cmocka_unit_test(test_budget_is_used_up),
        };

        fixture_open();
        return cmocka_run_group_tests(tests, NULL, NULL);
}
