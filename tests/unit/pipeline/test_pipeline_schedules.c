/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests to an ensemble, in every order of the threads' steps (sched/explorer.h): a step ends while the
 * request is cancelled and a member is unloaded. Each request is refused, or answered once and released once;
 * each buffer comes back; and the member is unused in the end, so that its unload ends, too.
 *
 * NESO_EXPLORE=n allows n deviations more than each story has.
 */
#include "suite.h"

#include "base/thread.h"
#include "infer/request_memory.h"
#include "pipeline/ensemble_steps.h"
#include "sched/explorer.h"

#include <string.h>

enum { MAX_CALLS = 2 };

static const char *const line =
        ENSEMBLE(IN("X") OUT("Y"), STEP(I_TO_O("X", "T")) STEP(I_TO_O("T", "Y")));
static const char *const fork_and_join =
        ENSEMBLE(IN("X") OUT("Y"),
                 STEP(I_TO_O("X", "T")) STEP(I_TO_O("X", "U")) STEP(IJ_TO_O("T", "U", "Y")));

struct story {
        const char *ensemble;
        const char *models[3];
        size_t      n_models;
        unsigned    n_calls; /* each is submitted by a thread of its own */
        bool        cancels; /* a thread cancels the first one */
        bool        unloads; /* a thread unloads the last model */
        bool        fails;   /* the first model answers with an error */
        unsigned    deviations, min_schedules;
};

struct run {
        const struct story   *story;
        struct ensemble_steps steps;
        struct fixture_call   calls[MAX_CALLS];
        bool                  is_refused[MAX_CALLS]; /* guarded by fixture_lock, as the next ones */
        bool                  is_unused;             /* the last model */
        unsigned              n_begun;
        struct thread         submitters[MAX_CALLS], canceller, unloader;
        uint32_t              x;
        unsigned              n_outcomes[3]; /* answered, refused, failed: over all schedules */
};

static struct run run; /* on_unused() has no argument for it */

static void submit(void *arg) {
        unsigned      i = run.n_begun++;
        struct error *err = model_submit(run.calls[i].req);

        (void)arg;
        mutex_lock(&fixture_lock);
        run.is_refused[i] = err != NULL;
        cond_broadcast(&fixture_changed);
        mutex_unlock(&fixture_lock);
        error_free(err);
}

static void cancel(void *arg) {
        (void)arg;
        request_cancel(run.calls[0].req);
}

static struct fake_model *last_model(void) {
        return run.steps.models[run.story->n_models - 1].fake;
}

static void on_unused(struct model *model) {
        explorer_check(model == &last_model()->model, "another model is unused");
        mutex_lock(&fixture_lock);
        explorer_check(!run.is_unused, "the model is unused twice");
        run.is_unused = true;
        cond_broadcast(&fixture_changed);
        mutex_unlock(&fixture_lock);
}

/* As the repository does: requests are refused, and its reference goes. */
static void unload(void *arg) {
        (void)arg;
        step_models_holder_block(&run.steps.ensemble.holder,
                                 error_new(ERR_UNAVAILABLE, "a step is gone"));
        model_unref(&last_model()->model);
}

static void wait_for_ends(void) {
        mutex_lock(&fixture_lock);
        for (unsigned i = 0; i < run.story->n_calls; i++)
                while (!run.is_refused[i] &&
                       (!run.calls[i].is_released || run.calls[i].n_finals == 0))
                        cond_wait(&fixture_changed, &fixture_lock);
        while (run.story->unloads && !run.is_unused)
                cond_wait(&fixture_changed, &fixture_lock);
        mutex_unlock(&fixture_lock);
}

/* What the reaper does, while the thread that released the last reference may still be on its way back. */
static void end_unloaded(void) {
        fixture_model_stop(&run.steps.models[--run.steps.n]);
        ref_init(&last_model()->model.ref);
        last_model()->model.on_unused = fake_model_on_unused;
        fake_model_free(last_model());
}

static void check_call(unsigned i) {
        struct fixture_call *c = &run.calls[i];
        bool                 has_error;

        if (run.is_refused[i]) {
                explorer_check(c->n_got == 0 && !c->is_released, "a refused request is answered");
                run.n_outcomes[1]++;
                return;
        }
        explorer_check(c->n_finals == 1 && c->n_got == 1, "a request is answered twice");
        has_error = c->got[0].response->error != NULL;
        explorer_check(has_error || (c->got[0].n_outputs == 1 && c->got[0].outputs[0].value > 5),
                       "an answer has no value");
        run.n_outcomes[has_error ? 2 : 0]++;
}

static void start(struct thread *t, const char *name, thread_fn fn, bool is_wanted) {
        *t = (struct thread){ 0 };
        if (is_wanted)
                assert_ok(thread_start(t, name, fn, NULL), name);
}

static void begin(void) {
        const struct story *s = run.story;

        fixture_open();
        ensemble_steps_open(&run.steps, s->ensemble, s->models, s->n_models);
        if (s->fails)
                run.steps.models[0].error = "boom";
        last_model()->model.on_unused = s->unloads ? on_unused : fake_model_on_unused;
        run.is_unused = false;
        run.n_begun = 0;
        run.x = 5;
        for (unsigned i = 0; i < s->n_calls; i++) {
                run.is_refused[i] = false;
                call_open(&run.calls[i], &run.steps);
                fixture_input(&run.calls[i], "X", &run.x, 1);
        }
}

static void play(void *arg) {
        const struct story *s = run.story;

        (void)arg;
        begin();
        for (unsigned i = 0; i < s->n_calls; i++)
                start(&run.submitters[i], "submitter", submit, true);
        start(&run.canceller, "canceller", cancel, s->cancels);
        start(&run.unloader, "unload", unload, s->unloads);
        for (unsigned i = 0; i < s->n_calls; i++)
                thread_join(&run.submitters[i]);
        thread_join(&run.canceller);
        thread_join(&run.unloader);
        wait_for_ends();
        for (unsigned i = 0; i < s->n_calls; i++) {
                check_call(i);
                fixture_call_close(&run.calls[i]);
        }
        if (s->unloads)
                end_unloaded();
        ensemble_steps_close(&run.steps);
}

static void free_kept(void) {
        while (request_memory_count_kept() > 0)
                free(request_memory_take());
}

static const unsigned *tell(const struct story *s) {
        const char        *more = getenv("NESO_EXPLORE");
        struct exploration e = { .run = play, .at_thread_end = free_kept };
        bool               is_complete;
        unsigned           n;

        memset(&run, 0, sizeof(run));
        run.story = s;
        e.max_deviations = s->deviations + (more != NULL ? (unsigned)atoi(more) : 0);
        n = explore(&e, &is_complete);
        print_message("%u schedules: %u answers, %u refusals, %u errors\n", n, run.n_outcomes[0],
                      run.n_outcomes[1], run.n_outcomes[2]);
        assert_true(is_complete);
        assert_true(n >= s->min_schedules);
        return run.n_outcomes;
}

static void test_cancel_against_unload_of_a_member(void **state) {
        const unsigned *n = tell(&(struct story){ .ensemble = line,
                                                  .models = { ONE NEVER, ONE NEVER },
                                                  .n_models = 2,
                                                  .n_calls = 1,
                                                  .cancels = true,
                                                  .unloads = true,
                                                  .deviations = 2,
                                                  .min_schedules = 500 });

        (void)state;
        assert_true(n[0] > 0 && n[1] > 0 && n[2] > 0);
}

static void test_two_requests_against_unload(void **state) {
        const unsigned *n = tell(&(struct story){ .ensemble = line,
                                                  .models = { ONE NEVER, ONE ALWAYS },
                                                  .n_models = 2,
                                                  .n_calls = 2,
                                                  .unloads = true,
                                                  .deviations = 2,
                                                  .min_schedules = 500 });

        (void)state;
        assert_true(n[0] > 0 && n[1] > 0 && n[2] == 0);
}

static void test_failing_step_against_cancel(void **state) {
        const unsigned *n = tell(&(struct story){ .ensemble = fork_and_join,
                                                  .models = { ONE NEVER, ONE NEVER, TWO NEVER },
                                                  .n_models = 3,
                                                  .n_calls = 1,
                                                  .cancels = true,
                                                  .unloads = true,
                                                  .fails = true,
                                                  .deviations = 1,
                                                  .min_schedules = 100 });

        (void)state;
        assert_true(n[0] == 0 && n[1] > 0 && n[2] > 0);
}

static void test_join_against_cancel(void **state) {
        const unsigned *n = tell(&(struct story){ .ensemble = fork_and_join,
                                                  .models = { ONE NEVER, ONE NEVER, TWO NEVER },
                                                  .n_models = 3,
                                                  .n_calls = 1,
                                                  .cancels = true,
                                                  .deviations = 1,
                                                  .min_schedules = 100 });

        (void)state;
        assert_true(n[0] > 0 && n[1] == 0 && n[2] > 0);
}

SUITE(pipeline_schedules) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_cancel_against_unload_of_a_member),
                cmocka_unit_test(test_two_requests_against_unload),
                cmocka_unit_test(test_failing_step_against_cancel),
                cmocka_unit_test(test_join_against_cancel),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
